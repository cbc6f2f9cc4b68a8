//! The monotonic clock: nanoseconds from the time-stamp counter.

use core::sync::atomic::{AtomicU64, Ordering};

static ENTRY_TSC: AtomicU64 = AtomicU64::new(0);
static FREQUENCY: AtomicU64 = AtomicU64::new(1);
/// Nanoseconds a cycle, as a fraction of 2^32.
static NS_A_CYCLE: AtomicU64 = AtomicU64::new(0);

/// The time-stamp counter.
#[inline]
pub fn tsc() -> u64 {
    // SAFETY: every x86_64 CPU has the instruction, and Hermit leaves it enabled.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Sets time zero and the counter's frequency in Hz.
pub(crate) fn start(entry_tsc: u64, frequency: u64) {
    ENTRY_TSC.store(entry_tsc, Ordering::Relaxed);
    FREQUENCY.store(frequency, Ordering::Relaxed);
    NS_A_CYCLE.store((1_000_000_000 << 32) / frequency, Ordering::Relaxed);
}

/// Cycles a second.
pub fn frequency() -> u64 {
    FREQUENCY.load(Ordering::Relaxed)
}

/// Cycles since the image was entered.
#[inline]
pub fn cycles() -> u64 {
    tsc().wrapping_sub(ENTRY_TSC.load(Ordering::Relaxed))
}

/// Nanoseconds since the image was entered.
#[inline]
pub fn now() -> u64 {
    at(tsc())
}

/// Nanoseconds from when the image was entered to when the time-stamp counter had the
/// value `tsc`.
#[inline]
pub(crate) fn at(tsc: u64) -> u64 {
    let cycles = tsc.wrapping_sub(ENTRY_TSC.load(Ordering::Relaxed));
    let product = u128::from(cycles) * u128::from(NS_A_CYCLE.load(Ordering::Relaxed));
    (product >> 32) as u64
}

/// Busy-waits for at least `microseconds`.
pub fn delay_us(microseconds: u32) {
    let end = now() + u64::from(microseconds) * 1000;
    while now() < end {
        core::hint::spin_loop();
    }
}
