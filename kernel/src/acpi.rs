//! What the ACPI tables say about interrupts.

use alloc::vec::Vec;
use core::num::NonZeroU64;

use crate::aml;
use crate::fadt::Fadt;
use crate::firmware::{FirstFourGib, Tables};
use crate::ioapic::IoApic;
use crate::madt::{self, Entry, Override};
use crate::pci::LegacyInterrupt;
use crate::routes::{self, Route};

/// Where a PC without tables has its I/O APIC.
const DEFAULT_IO_APIC: u64 = 0xfec0_0000;

/// How interrupt lines reach the CPU.
pub(crate) struct Interrupts {
    pub(crate) io_apics: Vec<IoApic>,
    overrides: Vec<Override>,
    tables: Option<Tables<FirstFourGib>>,
}

impl Interrupts {
    /// Reads the tables that `rsdp` leads to. What is missing or broken is
    /// replaced by what every PC has, and said so in the log.
    pub(crate) fn read(rsdp: Option<NonZeroU64>) -> Self {
        let tables = Tables::find(FirstFourGib, rsdp);
        let mut found = Self {
            io_apics: Vec::new(),
            overrides: Vec::new(),
            tables,
        };
        let madt = tables.as_ref().and_then(|tables| tables.table(b"APIC"));
        for entry in madt::entries(madt.unwrap_or_default()) {
            match entry {
                Entry::IoApic { address, first } => found.io_apics.push(IoApic {
                    base: u64::from(address),
                    first,
                }),
                Entry::Override(entry) => found.overrides.push(entry),
            }
        }
        if found.io_apics.is_empty() {
            log::warn!("no usable ACPI interrupt tables: assuming one I/O APIC");
            found.io_apics.push(IoApic {
                base: DEFAULT_IO_APIC,
                first: 0,
            });
        }
        found
    }

    /// The way of ISA interrupt `line` of an ISA device.
    pub(crate) fn isa(&self, line: u8) -> Route {
        self.legacy(line, false)
    }

    /// The ways that the interrupt of PCI device number `device` may take, best guess
    /// first.
    pub(crate) fn pci(&self, device: u8, interrupt: LegacyInterrupt) -> Vec<Route> {
        // Firmware's memory is slow to read, byte by byte.
        let code: Vec<Vec<u8>> = self
            .tables
            .iter()
            .flat_map(byte_code)
            .map(<[u8]>::to_vec)
            .collect();
        let told = code
            .iter()
            .flat_map(|aml| aml::interrupts_of(aml, device, interrupt.pin - 1));
        let pins = self.io_apics.iter().map(|io_apic| io_apic.interrupts());
        routes::candidates(interrupt.line, told, pins, |line| self.legacy(line, true))
    }

    /// ISA interrupts are edge-triggered and active high, PCI's level-triggered
    /// and active low (ACPI 6.5, 5.2.12.5), but for what an override says.
    fn legacy(&self, line: u8, is_pci: bool) -> Route {
        match self.overrides.iter().find(|entry| entry.line == line) {
            Some(entry) => Route {
                gsi: entry.gsi,
                active_low: entry.active_low.unwrap_or(is_pci),
                level: entry.level.unwrap_or(is_pci),
            },
            None => Route {
                gsi: u32::from(line),
                active_low: is_pci,
                level: is_pci,
            },
        }
    }
}

/// All byte code: the one table that the FADT names, and those that add to it.
pub(crate) fn byte_code(tables: &Tables<FirstFourGib>) -> impl Iterator<Item = &[u8]> {
    let main = tables
        .table(b"FACP")
        .and_then(|fadt| tables.at(Fadt(fadt).dsdt()?, b"DSDT"));
    main.into_iter().chain(tables.tables(b"SSDT"))
}
