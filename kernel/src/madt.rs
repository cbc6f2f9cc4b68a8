//! The multiple APIC description table (ACPI 6.5, 5.2.12): where the I/O APICs are, and
//! which ISA interrupts go another way than their number says.

#![cfg_attr(not(any(test, target_os = "none")), allow(dead_code))]

use crate::firmware::u32_at;

/// The entries begin behind the header, the local APIC's address and the flags.
const ENTRIES: usize = 44;
const IO_APIC: u8 = 1;
const OVERRIDE: u8 = 2;

/// What an entry says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Entry {
    /// Where an I/O APIC is.
    IoApic {
        /// Physical address of its registers.
        address: u32,
        /// The global system interrupt of its first pin.
        first: u32,
    },
    /// Where an ISA interrupt goes.
    Override(Override),
}

/// Where an ISA interrupt goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Override {
    /// The ISA interrupt.
    pub(crate) line: u8,
    /// Its global system interrupt.
    pub(crate) gsi: u32,
    /// Whether it is active low; `None`: as usual on its bus.
    pub(crate) active_low: Option<bool>,
    /// Whether it is level-triggered; `None`: as usual on its bus.
    pub(crate) level: Option<bool>,
}

/// The entries of the whole table `madt` that are about I/O APICs. A broken entry is the
/// last.
pub(crate) fn entries(madt: &[u8]) -> impl Iterator<Item = Entry> {
    let mut rest = madt.get(ENTRIES..).unwrap_or_default();
    core::iter::from_fn(move || {
        loop {
            let len = usize::from(*rest.get(1)?);
            let (entry, others) = rest.split_at_checked(len).filter(|_| len >= 2)?;
            rest = others;
            if let Some(entry) = parse(entry) {
                return Some(entry);
            }
        }
    })
}

fn parse(entry: &[u8]) -> Option<Entry> {
    match entry[0] {
        IO_APIC => Some(Entry::IoApic {
            address: u32_at(entry, 4).filter(|address| *address != 0)?,
            first: u32_at(entry, 8)?,
        }),
        OVERRIDE => {
            let flags = *entry.get(8)?;
            Some(Entry::Override(Override {
                line: entry[3],
                gsi: u32_at(entry, 4)?,
                active_low: choice(flags),
                level: choice(flags >> 2),
            }))
        }
        _ => None,
    }
}

/// Two bits of an override's flags (table 5.24).
fn choice(bits: u8) -> Option<bool> {
    match bits & 3 {
        1 => Some(false),
        3 => Some(true),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn madt(entries: &[&[u8]]) -> Vec<u8> {
        let mut table = vec![0; ENTRIES];
        table.extend(entries.concat());
        table
    }

    const A_CPU: &[u8] = &[0, 8, 0, 0, 1, 0, 0, 0];
    const AN_IO_APIC: &[u8] = &[1, 12, 0, 0, 0, 0, 0xc0, 0xfe, 0, 0, 0, 0];
    const THE_TIMERS: &[u8] = &[2, 10, 0, 0, 2, 0, 0, 0, 0, 0];
    const ACPIS: &[u8] = &[2, 10, 0, 9, 9, 0, 0, 0, 0x0d, 0];

    #[test]
    fn io_apics_and_overrides_are_found_among_others() {
        let found: Vec<_> =
            entries(&madt(&[A_CPU, AN_IO_APIC, THE_TIMERS, A_CPU, ACPIS])).collect();
        assert_eq!(
            found,
            [
                Entry::IoApic {
                    address: 0xfec0_0000,
                    first: 0
                },
                Entry::Override(Override {
                    line: 0,
                    gsi: 2,
                    active_low: None,
                    level: None
                }),
                Entry::Override(Override {
                    line: 9,
                    gsi: 9,
                    active_low: Some(false),
                    level: Some(true)
                }),
            ]
        );
    }

    #[test]
    fn nothing_is_read_behind_a_broken_entry() {
        assert_eq!(entries(&madt(&[&[0, 0], AN_IO_APIC])).count(), 0);
        assert_eq!(entries(&madt(&[AN_IO_APIC, &AN_IO_APIC[..11]])).count(), 1);
        assert_eq!(entries(&madt(&[&[1, 4, 0, 0], AN_IO_APIC])).count(), 1);
        assert_eq!(entries(&[]).count(), 0);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = entries(&bytes).count();
        }
    }
}
