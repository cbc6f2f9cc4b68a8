//! The ways that a PCI interrupt line may take to an I/O APIC, best guess first.
//!
//! Which one it takes is the board's wiring, and firmware says it in byte code that only
//! an interpreter understands. No interpreter is here: one that fails takes the appliance
//! with it, and what it says may be wrong. Each way is a guess, and is believed when the
//! NIC's own interrupt has come by it (see `interrupts.rs`).

#![cfg_attr(not(any(test, target_os = "none")), allow(dead_code))]

use alloc::vec::Vec;
use core::ops::Range;

/// One interrupt line's way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// Global system interrupt number.
    pub(crate) gsi: u32,
    pub(crate) active_low: bool,
    pub(crate) level: bool,
}

/// The lowest pin that no ISA device has.
const FIRST_PCI_PIN: u32 = 16;
/// ISA lines that chip sets give to PCI.
const ISA_LINES_FOR_PCI: [u8; 3] = [11, 10, 5];
/// Trying one takes some milliseconds where it is the wrong one.
const MOST: usize = 48;

/// The candidates for a function:
///
/// 1. the ISA line that firmware has written into its configuration space, which is right
///    where firmware has set up its interrupt router for the old interrupt controllers;
/// 2. what ACPI's routing tables have in plain packages (`told`);
/// 3. the pins of the I/O APICs (`pins`, a range each) that no ISA device has;
/// 4. other ISA lines.
///
/// `isa` gives the way of an ISA line that a PCI device drives.
pub(crate) fn candidates(
    line: Option<u8>,
    told: impl Iterator<Item = u32>,
    pins: impl Iterator<Item = Range<u32>> + Clone,
    isa: impl Fn(u8) -> Route,
) -> Vec<Route> {
    let pci = |gsi| Route {
        gsi,
        active_low: true,
        level: true,
    };
    let of_told = told.map(|gsi| match u8::try_from(gsi) {
        Ok(line) if gsi < FIRST_PCI_PIN => isa(line),
        _ => pci(gsi),
    });
    let of_pins = pins.clone().flatten().filter(|gsi| *gsi >= FIRST_PCI_PIN);
    let all = line
        .map(&isa)
        .into_iter()
        .chain(of_told)
        .chain(of_pins.map(pci))
        .chain(ISA_LINES_FOR_PCI.map(&isa));
    let mut candidates: Vec<Route> = Vec::new();
    for route in all {
        let exists = pins.clone().any(|range| range.contains(&route.gsi));
        let is_new = candidates.iter().all(|other| other.gsi != route.gsi);
        if exists && is_new && candidates.len() < MOST {
            candidates.push(route);
        }
    }
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn isa(line: u8) -> Route {
        Route {
            gsi: line.into(),
            active_low: true,
            level: true,
        }
    }

    fn gsis(line: Option<u8>, told: &[u32], pins: &[Range<u32>]) -> Vec<u32> {
        candidates(line, told.iter().copied(), pins.iter().cloned(), isa)
            .iter()
            .map(|route| route.gsi)
            .collect()
    }

    #[test]
    fn firmwares_line_comes_first_and_none_twice() {
        let pins = core::slice::from_ref(&(0..24));
        assert_eq!(
            gsis(Some(11), &[17, 11], pins),
            [11, 17, 16, 18, 19, 20, 21, 22, 23, 10, 5]
        );
        assert_eq!(gsis(None, &[], pins)[..2], [16, 17]);
    }

    #[test]
    fn what_no_io_apic_has_is_left_out() {
        let pins = core::slice::from_ref(&(0..16));
        assert_eq!(gsis(Some(200), &[40], pins), [11, 10, 5]);
        assert_eq!(gsis(Some(11), &[40], &[]), []);
    }

    proptest! {
        #[test]
        fn the_list_is_bounded_and_has_no_doubles(
            line in proptest::option::of(any::<u8>()),
            told in proptest::collection::vec(0u32..300, 0..20),
            ends in proptest::collection::vec((0u32..300, 0u32..120), 0..4),
        ) {
            let pins: Vec<_> = ends.iter().map(|(start, len)| *start..start + len).collect();
            let mut found = gsis(line, &told, &pins);
            prop_assert!(found.len() <= MOST);
            let count = found.len();
            found.sort();
            found.dedup();
            prop_assert_eq!(found.len(), count);
        }
    }
}
