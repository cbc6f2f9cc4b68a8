//! ACPI's power management timer (ACPI 6.5, 4.8.3.3).

use x86_64::instructions::port::Port;

use super::measure::{Counter, Reading};
use crate::clock;
use crate::fadt::Fadt;

const HZ: u64 = 3_579_545;
/// All timers have so many bits; some have 32.
const MASK: u64 = 0xff_ffff;

/// The timer. It counts always.
pub(super) struct PmTimer(Port<u32>);

impl PmTimer {
    /// The timer that the FADT tells of.
    pub(super) fn find(fadt: &[u8]) -> Option<Self> {
        let port = Fadt(fadt).pm_timer()?;
        Some(Self(Port::new(port)))
    }
}

impl Counter for PmTimer {
    fn hz(&self) -> u64 {
        HZ
    }

    fn mask(&self) -> u64 {
        MASK
    }

    fn read(&mut self) -> Reading {
        let before = clock::tsc();
        // SAFETY: ACPI has the timer there, and reading it changes nothing.
        let count = unsafe { self.0.read() };
        Reading {
            before,
            count: u64::from(count) & MASK,
            after: clock::tsc(),
        }
    }
}
