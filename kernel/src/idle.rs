//! The idle wait, and the exact count of the cycles spent in it.
//!
//! A cycle is idle from just before `hlt` to the first instruction of the handler
//! that ends it, and busy otherwise.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use x86_64::instructions::interrupts;

use crate::console::Next;
use crate::{apic, clock, console};

/// How often the NIC is looked at when its interrupt line had to be shut.
const POLL_EVERY_NS: u64 = 100_000;

static IN_IDLE: AtomicBool = AtomicBool::new(false);
static SINCE: AtomicU64 = AtomicU64::new(0);
static IDLE: AtomicU64 = AtomicU64::new(0);
/// When the timer will fire; `u64::MAX` when it is stopped.
static ARMED: AtomicU64 = AtomicU64::new(u64::MAX);
static POLLS: AtomicBool = AtomicBool::new(false);

/// Cycles spent in the idle wait so far.
pub fn cycles() -> u64 {
    IDLE.load(Ordering::Relaxed)
}

/// Sleeps until an interrupt of the NIC or the console, or until `deadline` (ns,
/// as [`clock::now`] counts). Returns at once when one of them is there already, or
/// when the console has more to draw.
///
/// The last look happens with interrupts off, and `sti` lets none in before the
/// `hlt` that follows it has begun (Intel SDM volume 2, STI), so no wake-up is
/// lost in between.
pub fn wait(mut deadline: Option<u64>) {
    let mut wake_within = |ns| {
        let wake = clock::now() + ns;
        deadline = Some(deadline.map_or(wake, |deadline| deadline.min(wake)));
    };
    match console::attend() {
        Next::Now => return,
        Next::Within(ns) => wake_within(ns),
        Next::AnyTime => {}
    }
    if POLLS.load(Ordering::Relaxed) {
        wake_within(POLL_EVERY_NS);
    }
    interrupts::disable();
    if crate::interrupts::is_pending() || console::has_input() || !arm(deadline) {
        interrupts::enable();
        return;
    }
    SINCE.store(clock::tsc(), Ordering::Relaxed);
    IN_IDLE.store(true, Ordering::Relaxed);
    interrupts::enable_and_hlt();
    // A handler that is not ours may have ended the sleep.
    interrupted();
}

/// Has the timer fire by `deadline`. Returns false when that is already past.
///
/// A timer that fires too early only costs a look around, so one that is set for
/// an earlier time stays: most waits then touch no timer register.
fn arm(deadline: Option<u64>) -> bool {
    let Some(deadline) = deadline else {
        return true;
    };
    if deadline < ARMED.load(Ordering::Relaxed) {
        let now = clock::now();
        if deadline <= now {
            return false;
        }
        apic::set_timer(deadline - now);
        ARMED.store(deadline, Ordering::Relaxed);
    }
    true
}

/// To be called first thing by every interrupt handler.
#[inline]
pub(crate) fn interrupted() {
    if IN_IDLE.load(Ordering::Relaxed) {
        IN_IDLE.store(false, Ordering::Relaxed);
        let slept = clock::tsc().wrapping_sub(SINCE.load(Ordering::Relaxed));
        IDLE.fetch_add(slept, Ordering::Relaxed);
    }
}

/// To be called by the timer's handler.
pub(crate) fn timer_fired() {
    ARMED.store(u64::MAX, Ordering::Relaxed);
}

/// Makes every wait short: the NIC cannot interrupt any more.
pub(crate) fn poll_from_now_on() {
    POLLS.store(true, Ordering::Relaxed);
}

/// Whether the NIC's interrupt line was shut.
pub fn polls() -> bool {
    POLLS.load(Ordering::Relaxed)
}
