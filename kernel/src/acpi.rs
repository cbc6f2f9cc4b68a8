//! What the ACPI tables say about interrupts.

use alloc::vec::Vec;
use core::num::NonZeroU64;
use core::ptr::NonNull;

use ::acpi::fadt::Fadt;
use ::acpi::platform::interrupt::{InterruptSourceOverride, Polarity, TriggerMode};
use ::acpi::{AcpiHandler, AcpiTables, InterruptModel, PhysicalMapping};

use crate::aml;
use crate::ioapic::IoApic;
use crate::pci::LegacyInterrupt;
use crate::power::{self, SoftOff};
use crate::routes::{self, Route};

/// Where a PC without tables has its I/O APIC.
const DEFAULT_IO_APIC: u64 = 0xfec0_0000;

/// How interrupt lines reach the CPU.
pub(crate) struct Interrupts {
    pub(crate) io_apics: Vec<IoApic>,
    overrides: Vec<InterruptSourceOverride>,
    /// The byte code of all tables that have some.
    byte_code: Vec<&'static [u8]>,
}

/// Memory below 4 GiB is mapped one to one, and the tables lie there.
#[derive(Clone)]
struct OneToOne;

impl AcpiHandler for OneToOne {
    unsafe fn map_physical_region<T>(
        &self,
        physical_address: usize,
        size: usize,
    ) -> PhysicalMapping<Self, T> {
        let start = NonNull::new(physical_address as *mut T).expect("a table at address 0");
        // SAFETY: mapped one to one for good; what lies there is the caller's word.
        unsafe { PhysicalMapping::new(physical_address, start, size, size, Self) }
    }

    fn unmap_physical_region<T>(_region: &PhysicalMapping<Self, T>) {}
}

impl Interrupts {
    /// Reads the tables that `rsdp` leads to. What is missing or broken is
    /// replaced by what every PC has, and said so in the log.
    pub(crate) fn read(rsdp: Option<NonZeroU64>) -> Self {
        let tables = match rsdp {
            // SAFETY: the address comes from the firmware, by way of the boot protocol.
            Some(rsdp) => unsafe { AcpiTables::from_rsdp(OneToOne, rsdp.get() as usize) },
            // SAFETY: the places that a BIOS may keep the root pointer at are mapped.
            None => unsafe { AcpiTables::search_for_rsdp_bios(OneToOne) },
        };
        let found = tables.ok().and_then(Self::from_tables);
        found.unwrap_or_else(|| {
            log::warn!("no usable ACPI interrupt tables: assuming one I/O APIC");
            Self {
                io_apics: alloc::vec![IoApic {
                    base: DEFAULT_IO_APIC,
                    first: 0
                }],
                overrides: Vec::new(),
                byte_code: Vec::new(),
            }
        })
    }

    fn from_tables(tables: AcpiTables<OneToOne>) -> Option<Self> {
        if let Some(soft_off) = soft_off(&tables) {
            power::remember(soft_off);
        }
        let InterruptModel::Apic(apic) = tables.platform_info().ok()?.interrupt_model else {
            return None;
        };
        let io_apics: Vec<IoApic> = apic
            .io_apics
            .iter()
            .map(|io_apic| IoApic {
                base: u64::from(io_apic.address),
                first: io_apic.global_system_interrupt_base,
            })
            .collect();
        (!io_apics.is_empty()).then(|| Self {
            io_apics,
            overrides: apic.interrupt_source_overrides.to_vec(),
            byte_code: byte_code(&tables),
        })
    }

    /// The way of ISA interrupt `line` of an ISA device.
    pub(crate) fn isa(&self, line: u8) -> Route {
        self.legacy(line, false)
    }

    /// The ways that the interrupt of PCI device number `device` may take, best guess
    /// first.
    pub(crate) fn pci(&self, device: u8, interrupt: LegacyInterrupt) -> Vec<Route> {
        let told = self
            .byte_code
            .iter()
            .flat_map(|aml| aml::interrupts_of(aml, device, interrupt.pin - 1));
        let pins = self.io_apics.iter().map(|io_apic| io_apic.interrupts());
        routes::candidates(interrupt.line, told, pins, |line| self.legacy(line, true))
    }

    /// ISA interrupts are edge-triggered and active high, PCI's level-triggered
    /// and active low (ACPI 6.5, 5.2.12.5), but for what an override says.
    fn legacy(&self, line: u8, is_pci: bool) -> Route {
        match self.overrides.iter().find(|entry| entry.isa_source == line) {
            Some(entry) => Route {
                gsi: entry.global_system_interrupt,
                active_low: match entry.polarity {
                    Polarity::SameAsBus => is_pci,
                    Polarity::ActiveHigh => false,
                    Polarity::ActiveLow => true,
                },
                level: match entry.trigger_mode {
                    TriggerMode::SameAsBus => is_pci,
                    TriggerMode::Edge => false,
                    TriggerMode::Level => true,
                },
            },
            None => Route {
                gsi: u32::from(line),
                active_low: is_pci,
                level: is_pci,
            },
        }
    }
}

fn byte_code(tables: &AcpiTables<OneToOne>) -> Vec<&'static [u8]> {
    let all = tables.dsdt().into_iter().chain(tables.ssdts());
    // SAFETY: the tables lie in memory that is mapped one to one and kept, at the
    // addresses and with the lengths that the firmware says.
    all.map(|table| unsafe {
        core::slice::from_raw_parts(table.address as *const u8, table.length as usize)
    })
    .collect()
}

fn soft_off(tables: &AcpiTables<OneToOne>) -> Option<SoftOff> {
    let fadt = tables.find_table::<Fadt>().ok()?;
    let port = fadt.pm1a_control_block().ok()?.address;
    let dsdt = tables.dsdt().ok()?;
    // SAFETY: the table lies in memory that is mapped one to one, at the address
    // and with the length that the firmware says.
    let aml =
        unsafe { core::slice::from_raw_parts(dsdt.address as *const u8, dsdt.length as usize) };
    Some(SoftOff {
        port: u16::try_from(port).ok()?,
        sleep_type: aml::soft_off_type(aml)?,
    })
}
