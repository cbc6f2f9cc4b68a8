//! The high precision event timer (IA-PC HPET specification 1.0a).

use super::measure::{Counter, Reading};
use crate::clock;
use crate::firmware::u64_at;

/// In the ACPI table, behind the header and the block's id: a generic address, whose
/// first byte is 0 for memory, and whose last 8 are the address (3.2.4).
const SPACE: usize = 40;
const MEMORY: u8 = 0;
const ADDRESS: usize = 44;

/// Registers (2.3). The upper half of the first is a count's length in femtoseconds.
const PERIOD: u64 = 0x004;
const CONFIGURATION: u64 = 0x010;
const MAIN_COUNTER: u64 = 0x0f0;
const ENABLE: u32 = 1 << 0;

/// 100 ns, the longest that is allowed.
const LONGEST_PERIOD: u32 = 0x05f5_e100;
const FEMTOSECONDS: u64 = 1_000_000_000_000_000;
/// Registers are reached one to one, which the first 4 GiB are.
const LIMIT: u64 = 4 << 30;

/// The timer, which counts until this is dropped.
pub(super) struct Hpet {
    base: u64,
    hz: u64,
    was: u32,
}

impl Hpet {
    /// Lets the timer that `table` tells of count.
    pub(super) fn start(table: &[u8]) -> Option<Self> {
        let base = u64_at(table, ADDRESS)?;
        if table[SPACE] != MEMORY || base == 0 || base % 8 != 0 || base >= LIMIT {
            return None;
        }
        let mut timer = Self {
            base,
            hz: 0,
            was: ENABLE,
        };
        let period = timer.register(PERIOD);
        if !(1..=LONGEST_PERIOD).contains(&period) {
            return None;
        }
        timer.hz = FEMTOSECONDS / u64::from(period);
        timer.was = timer.register(CONFIGURATION);
        timer.configure(timer.was | ENABLE);
        Some(timer)
    }

    fn register(&self, offset: u64) -> u32 {
        // SAFETY: ACPI has the timer's registers there, mapped one to one, uncached.
        unsafe { ((self.base + offset) as *const u32).read_volatile() }
    }

    fn configure(&self, value: u32) {
        // SAFETY: as above; to count is all that changes.
        unsafe { ((self.base + CONFIGURATION) as *mut u32).write_volatile(value) }
    }
}

impl Drop for Hpet {
    fn drop(&mut self) {
        if self.was & ENABLE == 0 {
            self.configure(self.was);
        }
    }
}

impl Counter for Hpet {
    fn hz(&self) -> u64 {
        self.hz
    }

    fn mask(&self) -> u64 {
        u64::from(u32::MAX)
    }

    fn read(&mut self) -> Reading {
        let before = clock::tsc();
        let count = self.register(MAIN_COUNTER);
        Reading {
            before,
            count: u64::from(count),
            after: clock::tsc(),
        }
    }
}
