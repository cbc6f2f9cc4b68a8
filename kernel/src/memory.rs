//! Dividing the machine's memory between Hermit and DMA, before Hermit starts.

use core::ops::Range;

/// Pages of the page tables that the image boots with.
pub const LARGE_PAGE: u64 = 2 << 20;

/// Everything below this belongs to the firmware's tables and the boot
/// protocol's records; none of it is handed out.
const LOW_MEMORY: u64 = 1 << 20;

/// DMA memory must be in reach of NICs with 32-bit addresses.
const DMA_LIMIT: u64 = 4 << 30;

const MOST_REGIONS: usize = 32;

/// What Hermit needs for its page tables, stacks and a heap that the sockets fit
/// in.
const LEAST_FOR_HERMIT: u64 = 16 << 20;

/// A part of physical memory that the firmware says is usable.
pub type Region = Range<u64>;

/// How physical memory is divided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// What Hermit gets: its heap, stacks and page tables.
    regions: [Region; MOST_REGIONS],
    count: usize,
    /// What NICs reach: contiguous, and of whole 2 MiB pages.
    pub dma: Region,
}

/// Memory cannot be divided so that the appliance would run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLittleMemory {
    /// Usable bytes that the firmware reported.
    pub usable: u64,
}

impl Plan {
    /// Divides `usable` (in any order, overlapping or not) given that `image`
    /// is taken.
    ///
    /// A quarter of the memory, from 8 to 64 MiB, goes to DMA, off the top of
    /// the highest region below 4 GiB that has room for it.
    ///
    /// # Errors
    ///
    /// [`TooLittleMemory`] when no region has room for the DMA memory, or too little
    /// is left for Hermit.
    pub fn new(
        usable: impl Iterator<Item = Region> + Clone,
        image: Region,
    ) -> Result<Self, TooLittleMemory> {
        let mut plan = Self {
            regions: [const { 0..0 }; MOST_REGIONS],
            count: 0,
            dma: 0..0,
        };
        let image = align_down(image.start)..align_up(image.end);
        let mut total = 0;
        for region in usable {
            let region = region.start.max(LOW_MEMORY)..region.end;
            if region.is_empty() {
                continue;
            }
            total += region.end - region.start;
            plan.add(region.start..region.end.min(image.start));
            plan.add(region.start.max(image.end)..region.end);
        }
        let wanted = align_down((total / 4).clamp(8 << 20, 64 << 20));
        plan.carve_dma(wanted)
            .filter(|()| plan.left() >= LEAST_FOR_HERMIT)
            .ok_or(TooLittleMemory { usable: total })?;
        Ok(plan)
    }

    /// What Hermit gets, in the firmware's order.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// Adds the whole 2 MiB pages of a region. Hermit maps memory by such pages,
    /// so a region that shared one with a device would map that device too.
    fn add(&mut self, region: Region) {
        let region = align_up(region.start)..align_down(region.end);
        let overlaps = |other: &Region| region.start < other.end && other.start < region.end;
        if region.is_empty() || self.count == MOST_REGIONS || self.regions().iter().any(overlaps) {
            return;
        }
        self.regions[self.count] = region;
        self.count += 1;
    }

    /// Bytes that Hermit gets.
    fn left(&self) -> u64 {
        self.regions()
            .iter()
            .map(|region| region.end - region.start)
            .sum()
    }

    fn carve_dma(&mut self, len: u64) -> Option<()> {
        let region = self.regions[..self.count]
            .iter_mut()
            .filter(|region| region.end <= DMA_LIMIT && region.end - region.start > len)
            .max_by_key(|region| region.end)?;
        self.dma = region.end - len..region.end;
        region.end = self.dma.start;
        Some(())
    }
}

const fn align_down(address: u64) -> u64 {
    address & !(LARGE_PAGE - 1)
}

const fn align_up(address: u64) -> u64 {
    align_down(address.saturating_add(LARGE_PAGE - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;
    const IMAGE: Region = 2 * MIB..3 * MIB;

    fn plan(usable: &[Region]) -> Result<Plan, TooLittleMemory> {
        Plan::new(usable.iter().cloned(), IMAGE)
    }

    #[test]
    fn a_64_mib_machine_has_16_mib_of_dma_at_its_top() {
        // QEMU keeps 128 KiB of ACPI tables at the top of memory.
        let plan = plan(&[0..639 << 10, MIB..64 * MIB - (128 << 10)]).unwrap();
        assert_eq!(plan.dma, 48 * MIB..62 * MIB);
        assert_eq!(plan.regions(), core::slice::from_ref(&(4 * MIB..48 * MIB)));
    }

    #[test]
    fn memory_above_4_gib_is_hermits_alone() {
        let plan = plan(&[MIB..3072 * MIB, 4096 * MIB..8192 * MIB]).unwrap();
        assert_eq!(plan.dma, 3008 * MIB..3072 * MIB);
        assert_eq!(
            plan.regions(),
            [4 * MIB..3008 * MIB, 4096 * MIB..8192 * MIB]
        );
    }

    #[test]
    fn holes_are_kept() {
        let plan = plan(&[MIB..100 * MIB, 101 * MIB..200 * MIB]).unwrap();
        assert_eq!(plan.regions()[0], 4 * MIB..100 * MIB);
        assert_eq!(plan.regions()[1].start, 102 * MIB);
    }

    #[test]
    fn too_little_is_refused() {
        assert_eq!(
            plan(&[0..639 << 10, MIB..9 * MIB]),
            Err(TooLittleMemory { usable: 8 * MIB })
        );
        assert_eq!(plan(&[]), Err(TooLittleMemory { usable: 0 }));
        let left_for_hermit =
            |end| plan(core::slice::from_ref(&(MIB..end))).map(|plan| plan.left());
        assert_eq!(left_for_hermit(28 * MIB), Ok(16 * MIB));
        assert!(left_for_hermit(26 * MIB).is_err());
    }

    proptest! {
        #[test]
        fn nothing_is_handed_out_twice(
            usable in proptest::collection::vec((0u64..9000, 0u64..9000), 0..40)
        ) {
            let usable: Vec<Region> = usable.iter().map(|(a, b)| a * MIB..b * MIB).collect();
            if let Ok(plan) = plan(&usable) {
                let mut parts: Vec<Region> = plan.regions().to_vec();
                parts.retain(|part| !part.is_empty());
                parts.push(plan.dma.clone());
                parts.push(IMAGE);
                parts.sort_by_key(|part| part.start);
                for pair in parts.windows(2) {
                    prop_assert!(pair[0].end <= pair[1].start);
                }
                prop_assert!(plan.dma.end <= DMA_LIMIT);
                for address in [plan.dma.start, plan.dma.end - 1] {
                    prop_assert!(usable.iter().any(|region| region.contains(&address)));
                }
            }
        }
    }
}
