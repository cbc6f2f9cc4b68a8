//! I/O APICs: routing a legacy interrupt line to a vector of ours.

use core::ops::Range;

use crate::acpi;
use crate::apic;
use crate::routes::Route;

/// Indirect registers (82093AA data sheet, section 3).
const SELECT: u64 = 0x00;
const WINDOW: u64 = 0x10;
const VERSION: u32 = 0x01;
const REDIRECTION: u32 = 0x10;

const ACTIVE_LOW: u32 = 1 << 13;
const LEVEL: u32 = 1 << 15;
const MASKED: u32 = 1 << 16;

/// One I/O APIC.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IoApic {
    /// Physical address of its registers, mapped one to one.
    pub(crate) base: u64,
    /// The global system interrupt of its first pin.
    pub(crate) first: u32,
}

/// A routed pin.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pin {
    io_apic: IoApic,
    index: u32,
}

impl IoApic {
    fn read(self, register: u32) -> u32 {
        // SAFETY: the registers are mapped one to one, uncached, since boot.
        unsafe {
            ((self.base + SELECT) as *mut u32).write_volatile(register);
            ((self.base + WINDOW) as *const u32).read_volatile()
        }
    }

    fn write(self, register: u32, value: u32) {
        // SAFETY: as for `read`.
        unsafe {
            ((self.base + SELECT) as *mut u32).write_volatile(register);
            ((self.base + WINDOW) as *mut u32).write_volatile(value);
        }
    }

    /// Stops all pins from interrupting, whatever firmware has left them at. They become
    /// edge-triggered, by which a pin forgets that a CPU still has to end its interrupt.
    pub(crate) fn mask_all(self) {
        for index in 0..self.pins() {
            self.write(REDIRECTION + index * 2, MASKED);
        }
    }

    /// The global system interrupts of its pins.
    pub(crate) fn interrupts(self) -> Range<u32> {
        self.first..self.first.saturating_add(self.pins())
    }

    fn pins(self) -> u32 {
        ((self.read(VERSION) >> 16) & 0xff) + 1
    }
}

impl Pin {
    /// Stops the pin from interrupting.
    pub(crate) fn mask(self) {
        let register = REDIRECTION + self.index * 2;
        let low = self.io_apic.read(register);
        self.io_apic.write(register, low | MASKED);
    }
}

/// Sends `route` to `vector` on this CPU and returns its pin; `None` when no I/O
/// APIC has a pin for it.
pub(crate) fn route(tables: &acpi::Interrupts, route: Route, vector: u8) -> Option<Pin> {
    let io_apic = tables
        .io_apics
        .iter()
        .copied()
        .find(|io_apic| io_apic.interrupts().contains(&route.gsi))?;
    let pin = Pin {
        io_apic,
        index: route.gsi - io_apic.first,
    };
    let register = REDIRECTION + pin.index * 2;
    let mut low = u32::from(vector);
    if route.level {
        low |= LEVEL;
    }
    if route.active_low {
        low |= ACTIVE_LOW;
    }
    io_apic.write(register, low | MASKED);
    io_apic.write(register + 1, apic::id() << 24);
    io_apic.write(register, low);
    Some(pin)
}
