//! What the CPU says of its time-stamp counter.

use core::arch::x86_64::CpuidResult;

use super::{Frequency, Source, plausible};

/// Intel SDM volume 2, CPUID: the counter's ratio to the crystal, and the crystal's
/// frequency. Leaf 0x16's base frequency is rounded to MHz, and not the counter's.
const CRYSTAL_LEAF: u32 = 0x15;
/// Bit 31 of leaf 1's ECX: a hypervisor has leaves of its own.
const HYPERVISOR: u32 = 1 << 31;
const HYPERVISOR_LEAVES: u32 = 0x4000_0000;
/// The counter's frequency in kHz, as VMware, KVM and Xen agreed on it.
const HYPERVISOR_FREQUENCY_LEAF: u32 = 0x4000_0010;

/// The frequency, where CPU or hypervisor name it exactly.
pub(super) fn frequency(cpuid: impl Fn(u32) -> CpuidResult) -> Option<Frequency> {
    let by = |source| move |hz| Frequency { hz, source };
    by_hypervisor(&cpuid)
        .map(by(Source::Hypervisor))
        .or_else(|| by_crystal(&cpuid).map(by(Source::Cpuid)))
}

fn by_hypervisor(cpuid: impl Fn(u32) -> CpuidResult) -> Option<u64> {
    if cpuid(1).ecx & HYPERVISOR == 0 {
        return None;
    }
    let last = cpuid(HYPERVISOR_LEAVES).eax;
    if !(HYPERVISOR_FREQUENCY_LEAF..HYPERVISOR_FREQUENCY_LEAF + 0x100).contains(&last) {
        return None;
    }
    plausible(u64::from(cpuid(HYPERVISOR_FREQUENCY_LEAF).eax) * 1000)
}

fn by_crystal(cpuid: impl Fn(u32) -> CpuidResult) -> Option<u64> {
    if cpuid(0).eax < CRYSTAL_LEAF {
        return None;
    }
    let leaf = cpuid(CRYSTAL_LEAF);
    let product = u64::from(leaf.ecx).checked_mul(u64::from(leaf.ebx))?;
    plausible(product.checked_div(u64::from(leaf.eax))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(leaves: &[(u32, [u32; 4])]) -> Option<Frequency> {
        frequency(|leaf| {
            let known = leaves.iter().find(|(number, _)| *number == leaf);
            let [eax, ebx, ecx, edx] = known.map_or([0; 4], |(_, registers)| *registers);
            CpuidResult { eax, ebx, ecx, edx }
        })
    }

    #[test]
    fn the_crystal_and_its_ratio_are_multiplied() {
        let leaves = [(0, [0x16, 0, 0, 0]), (0x15, [2, 216, 24_000_000, 0])];
        let frequency = with(&leaves).unwrap();
        assert_eq!(
            (frequency.hz, frequency.source),
            (2_592_000_000, Source::Cpuid)
        );
    }

    #[test]
    fn a_crystal_that_is_not_named_or_cannot_be_is_measured_instead() {
        let of = |leaf| with(&[(0, [0x16, 0, 0, 0]), (0x15, leaf)]);
        assert_eq!(of([2, 216, 0, 0]), None);
        assert_eq!(of([0, 216, 24_000_000, 0]), None);
        assert_eq!(of([2, 1, 24_000_000, 0]), None);
        assert_eq!(of([1, u32::MAX, u32::MAX, 0]), None);
        assert_eq!(
            with(&[(0, [0x14, 0, 0, 0]), (0x15, [2, 216, 24_000_000, 0])]),
            None
        );
    }

    #[test]
    fn a_hypervisor_is_believed_where_there_is_one_with_that_leaf() {
        let leaves = |features, last| {
            with(&[
                (1, [0, 0, features, 0]),
                (HYPERVISOR_LEAVES, [last, 0, 0, 0]),
                (HYPERVISOR_FREQUENCY_LEAF, [2_400_000, 0, 0, 0]),
            ])
        };
        let frequency = leaves(HYPERVISOR, 0x4000_0010).unwrap();
        assert_eq!(
            (frequency.hz, frequency.source),
            (2_400_000_000, Source::Hypervisor)
        );
        assert_eq!(leaves(0, 0x4000_0010), None);
        assert_eq!(leaves(HYPERVISOR, 0x4000_0001), None);
        assert_eq!(leaves(HYPERVISOR, u32::MAX), None);
    }
}
