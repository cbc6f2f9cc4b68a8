//! Dividing the machine's memory between Hermit and DMA, before Hermit starts.

use core::ops::Range;

/// Pages of the page tables that the image boots with.
pub const LARGE_PAGE: u64 = 2 << 20;

/// Everything below this belongs to the firmware's tables and the boot
/// protocol's records; none of it is handed out.
const LOW_MEMORY: u64 = 1 << 20;

/// DMA memory must be in reach of NICs with 32-bit addresses.
const DMA_LIMIT: u64 = 4 << 30;

/// DMA memory, where there is enough of it and where there is little.
const MOST_DMA: u64 = 64 << 20;
const LEAST_DMA: u64 = 8 << 20;

/// Hermit keeps a list of 16 free parts, which takes no more; giving out and taking
/// back needs some of them.
const MOST_REGIONS: usize = 8;

/// Firmware reports from ten to some three hundred regions; most of them touch.
const MOST_IN_MAP: usize = 256;

/// What Hermit needs for its page tables, stacks and a heap that the sockets fit
/// in.
const LEAST_FOR_HERMIT: u64 = 16 << 20;

/// A part of physical memory that the firmware says is usable.
pub type Region = Range<u64>;

/// What firmware uses a part of memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Nothing: it is free.
    Usable,
    /// ACPI's tables and what firmware keeps beside them. It is RAM.
    Tables,
    /// Devices, or whatever else.
    Other,
}

impl Kind {
    /// The types of e820, which PVH and multiboot2 have taken over (ACPI 6.5, 15.2).
    pub fn of_e820(kind: u32) -> Self {
        match kind {
            1 => Self::Usable,
            3 | 4 => Self::Tables,
            _ => Self::Other,
        }
    }
}

/// Usable RAM: regions that do not overlap. Firmware may report any number in any
/// order; what finds no room here is not used.
#[derive(Debug)]
pub struct MemoryMap {
    regions: [Region; MOST_IN_MAP],
    count: usize,
}

impl MemoryMap {
    /// A map without memory.
    pub const fn new() -> Self {
        Self {
            regions: [const { 0..0 }; MOST_IN_MAP],
            count: 0,
        }
    }

    /// Makes the map of `entries`: regions, and whether each is usable. Where they
    /// overlap, what is not usable wins.
    pub fn fill(&mut self, entries: impl Iterator<Item = (Region, bool)> + Clone) {
        for (region, _) in entries.clone().filter(|(_, usable)| *usable) {
            self.add(region);
        }
        for (region, _) in entries.filter(|(_, usable)| !usable) {
            self.remove(region);
        }
    }

    /// The usable regions.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// Usable bytes.
    pub fn total(&self) -> u64 {
        self.regions().iter().map(len).sum()
    }

    fn add(&mut self, mut region: Region) {
        if region.is_empty() {
            return;
        }
        let mut index = 0;
        while index < self.count {
            let other = &self.regions[index];
            if other.start <= region.end && region.start <= other.end {
                region = region.start.min(other.start)..region.end.max(other.end);
                self.count -= 1;
                self.regions.swap(index, self.count);
            } else {
                index += 1;
            }
        }
        self.push(region);
    }

    /// Takes `hole` out.
    pub fn remove(&mut self, hole: Region) {
        if hole.is_empty() {
            return;
        }
        for index in 0..self.count {
            let region = self.regions[index].clone();
            if hole.start >= region.end || region.start >= hole.end {
                continue;
            }
            self.regions[index] = region.start..hole.start.max(region.start);
            self.push(hole.end.min(region.end)..region.end);
        }
    }

    fn push(&mut self, region: Region) {
        if !region.is_empty() && self.count < MOST_IN_MAP {
            self.regions[self.count] = region;
            self.count += 1;
        }
    }
}

impl Default for MemoryMap {
    fn default() -> Self {
        Self::new()
    }
}

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
    /// A quarter of the memory, from 8 to 64 MiB, goes to DMA, off the highest
    /// place below 4 GiB that has room for it; less where none has. Of the rest, the
    /// largest regions are Hermit's.
    ///
    /// # Errors
    ///
    /// [`TooLittleMemory`] when no region has room for the DMA memory, or too little
    /// is left for Hermit.
    pub fn new(
        usable: impl Iterator<Item = Region> + Clone,
        image: Region,
    ) -> Result<Self, TooLittleMemory> {
        let image = align_down(image.start)..align_up(image.end);
        let usable = usable.map(|region| region.start.max(LOW_MEMORY)..region.end);
        let total = usable.clone().map(|region| len(&region)).sum();
        let free = usable.flat_map(|region| without(region, &image));

        let mut plan = Self {
            regions: [const { 0..0 }; MOST_REGIONS],
            count: 0,
            dma: dma_memory(free.clone(), total).ok_or(TooLittleMemory { usable: total })?,
        };
        for region in free {
            for part in without(region, &plan.dma) {
                plan.add(part);
            }
        }
        if plan.left() < LEAST_FOR_HERMIT {
            return Err(TooLittleMemory { usable: total });
        }
        Ok(plan)
    }

    /// What Hermit gets.
    pub fn regions(&self) -> &[Region] {
        &self.regions[..self.count]
    }

    /// Adds the whole 2 MiB pages of a region, in place of a smaller one where there
    /// are too many. Hermit maps memory by such pages, so a region that shared one
    /// with a device would map that device too.
    fn add(&mut self, region: Region) {
        let region = whole_pages(region);
        let overlaps = |other: &Region| region.start < other.end && other.start < region.end;
        if region.is_empty() || self.regions().iter().any(overlaps) {
            return;
        }
        if self.count < MOST_REGIONS {
            self.regions[self.count] = region;
            self.count += 1;
        } else if let Some(smallest) = self.regions.iter_mut().min_by_key(|other| len(other))
            && len(smallest) < len(&region)
        {
            *smallest = region;
        }
    }

    /// Bytes that Hermit gets.
    fn left(&self) -> u64 {
        self.regions().iter().map(len).sum()
    }
}

/// A place for DMA memory.
fn dma_memory(free: impl Iterator<Item = Region> + Clone, total: u64) -> Option<Region> {
    let mut wanted = align_down((total / 4).clamp(LEAST_DMA, MOST_DMA));
    while wanted >= LEAST_DMA {
        let ends = free.clone().filter_map(|region| {
            let region = whole_pages(region.start..region.end.min(DMA_LIMIT));
            (len(&region) >= wanted).then_some(region.end)
        });
        if let Some(end) = ends.max() {
            return Some(end - wanted..end);
        }
        wanted = align_down(wanted / 2);
    }
    None
}

/// What is left of `region` below and above `hole`.
fn without(region: Region, hole: &Region) -> [Region; 2] {
    [
        region.start..region.end.min(hole.start),
        region.start.max(hole.end)..region.end,
    ]
}

fn whole_pages(region: Region) -> Region {
    align_up(region.start)..align_down(region.end)
}

fn len(region: &Region) -> u64 {
    region.end.saturating_sub(region.start)
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
    fn of_many_parts_the_largest_are_taken() {
        let part = |n: u64| n * 100 * MIB..n * 100 * MIB + n * 2 * MIB;
        let parts: Vec<Region> = (1..40).map(part).collect();
        let plan = plan(&parts).unwrap();
        assert_eq!(plan.regions().len(), MOST_REGIONS);
        assert_eq!(plan.dma, 3914 * MIB..3978 * MIB);
        let mut starts: Vec<u64> = plan.regions().iter().map(|r| r.start / MIB).collect();
        starts.sort_unstable();
        assert_eq!(starts, [3100, 3200, 3300, 3400, 3500, 3600, 3700, 3800]);
    }

    #[test]
    fn dma_memory_is_less_where_no_part_has_room_for_more() {
        let parts: Vec<Region> = (1..30)
            .map(|n| n * 60 * MIB..n * 60 * MIB + 20 * MIB)
            .collect();
        assert_eq!(len(&plan(&parts).unwrap().dma), 16 * MIB);
    }

    #[test]
    fn memory_across_4_gib_gives_dma_memory_below() {
        let plan = plan(&[MIB..3072 * MIB, 4000 * MIB..8192 * MIB]).unwrap();
        assert_eq!(plan.dma, 4032 * MIB..4096 * MIB);
        assert!(plan.regions().contains(&(4000 * MIB..4032 * MIB)));
        assert!(plan.regions().contains(&(4096 * MIB..8192 * MIB)));
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

    /// The map of (start, end, usable), as sorted (start, end).
    fn map(entries: &[(u64, u64, bool)]) -> Vec<(u64, u64)> {
        let mut map = MemoryMap::new();
        map.fill(
            entries
                .iter()
                .map(|(start, end, usable)| (*start..*end, *usable)),
        );
        let regions = map.regions().iter().filter(|region| !region.is_empty());
        let mut regions: Vec<_> = regions.map(|region| (region.start, region.end)).collect();
        regions.sort();
        regions
    }

    #[test]
    fn touching_regions_are_one_and_what_is_reserved_wins() {
        assert_eq!(map(&[(1, 2, true), (3, 4, true), (2, 3, true)]), [(1, 4)]);
        assert_eq!(map(&[(4, 6, false), (1, 9, true)]), [(1, 4), (6, 9)]);
        assert_eq!(map(&[(0, 9, false), (1, 9, true)]), []);
        assert_eq!(
            map(&[(5, 5, true), (7, 6, true), (0, 3, true), (1, 1, false)]),
            [(0, 3)]
        );
    }

    proptest! {
        #[test]
        fn a_byte_is_in_the_map_when_some_entry_has_it_and_none_reserves_it(
            entries in proptest::collection::vec((0u64..64, 0u64..64, any::<bool>()), 0..24)
        ) {
            let regions = map(&entries);
            for byte in 0..64 {
                let says = |wanted| entries.iter().any(|(start, end, usable)| {
                    *usable == wanted && (*start..*end).contains(&byte)
                });
                let usable = says(true) && !says(false);
                let count = regions.iter().filter(|(start, end)| (*start..*end).contains(&byte)).count();
                prop_assert_eq!(count, usize::from(usable));
            }
        }

        #[test]
        fn a_map_with_too_many_entries_is_bounded(
            starts in proptest::collection::vec(0u64..100_000, 0..1000)
        ) {
            let entries: Vec<_> = starts.iter().map(|n| (n * 4, n * 4 + 2, true)).collect();
            for (start, end) in map(&entries) {
                prop_assert!(entries.contains(&(start, end, true)));
            }
        }

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
