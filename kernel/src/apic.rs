//! The local APIC: end of interrupt, one-shot timer, message addresses.

use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use x86_64::registers::model_specific::Msr;

use crate::clock;

/// Register offsets in the xAPIC page (Intel SDM volume 3, table 12-1). In x2APIC
/// mode the same registers are MSRs from 0x800, one a 16 bytes of offset.
mod reg {
    pub const ID: u32 = 0x20;
    pub const EOI: u32 = 0xb0;
    /// The first of eight, a bit a vector.
    pub const IN_SERVICE: u32 = 0x100;
    pub const LVT_TIMER: u32 = 0x320;
    pub const TIMER_INITIAL_COUNT: u32 = 0x380;
    pub const TIMER_CURRENT_COUNT: u32 = 0x390;
    pub const TIMER_DIVIDE: u32 = 0x3e0;
}

const IA32_APIC_BASE: u32 = 0x1b;
const BASE_ENABLE: u64 = 1 << 11;
const BASE_X2APIC: u64 = 1 << 10;
const BASE_ADDRESS: u64 = 0x000f_ffff_ffff_f000;
const X2APIC_FIRST: u32 = 0x800;

const VECTORS: u32 = 256;

const LVT_MASKED: u32 = 1 << 16;
const DIVIDE_BY_16: u32 = 0b0011;
const CALIBRATION_US: u32 = 2_000;

/// Where MSIs are sent; the destination's APIC id goes to bits 12 to 19.
const MESSAGE_ADDRESS: u64 = 0xfee0_0000;

static X2APIC: AtomicBool = AtomicBool::new(false);
static BASE: AtomicU64 = AtomicU64::new(0);
/// Timer counts a nanosecond, as a fraction of 2^32.
static COUNTS_A_NS: AtomicU64 = AtomicU64::new(0);

fn read(register: u32) -> u32 {
    if X2APIC.load(Ordering::Relaxed) {
        // SAFETY: an x2APIC register of the table above; reading has no effect.
        unsafe { Msr::new(X2APIC_FIRST + register / 16).read() as u32 }
    } else {
        let address = BASE.load(Ordering::Relaxed) + u64::from(register);
        // SAFETY: the xAPIC page is mapped one to one, uncached, since boot.
        unsafe { (address as *const u32).read_volatile() }
    }
}

fn write(register: u32, value: u32) {
    if X2APIC.load(Ordering::Relaxed) {
        // SAFETY: an x2APIC register of the table above, with a value it takes.
        unsafe { Msr::new(X2APIC_FIRST + register / 16).write(u64::from(value)) }
    } else {
        let address = BASE.load(Ordering::Relaxed) + u64::from(register);
        // SAFETY: the xAPIC page is mapped one to one, uncached, since boot.
        unsafe { (address as *mut u32).write_volatile(value) }
    }
}

/// Switches the local APIC on where firmware or the kernel before has switched it off, as
/// Hermit takes it to be on. To be called before Hermit starts.
pub(crate) fn switch_on() {
    let mut base = Msr::new(IA32_APIC_BASE);
    // SAFETY: every x86_64 CPU has this MSR; where the APIC is off, it is in no mode that
    // forbids to switch it on (Intel SDM volume 3, 12.4.3 and 12.12.1).
    unsafe {
        let value = base.read();
        if value & BASE_ENABLE == 0 {
            base.write(value & !BASE_X2APIC | BASE_ENABLE);
        }
    }
}

/// Finds the local APIC in the mode that Hermit has put it in, and ends all interrupts
/// that were being handled when whoever ran before gave the machine away: the APIC
/// delivers none of the same or a lower class until then.
pub(crate) fn init() {
    // SAFETY: every x86_64 CPU has this MSR.
    let base = unsafe { Msr::new(IA32_APIC_BASE).read() };
    X2APIC.store(base & BASE_X2APIC != 0, Ordering::Relaxed);
    BASE.store(base & BASE_ADDRESS, Ordering::Relaxed);
    for _ in 0..VECTORS {
        if !end_stray_interrupt() {
            break;
        }
    }
}

/// Ends the interrupt being handled, if the local APIC thinks that one is. For its
/// spurious vector it does not (Intel SDM volume 3, 12.9). Returns whether it did.
pub(crate) fn end_stray_interrupt() -> bool {
    let mut words = (0..VECTORS / 32).map(|word| read(reg::IN_SERVICE + word * 0x10));
    let handles_one = words.any(|word| word != 0);
    if handles_one {
        end_of_interrupt();
    }
    handles_one
}

/// Measures the timer against the clock and leaves it stopped, with the timer's
/// vector in place.
pub(crate) fn init_timer() {
    write(reg::TIMER_DIVIDE, DIVIDE_BY_16);
    write(reg::LVT_TIMER, LVT_MASKED);
    write(reg::TIMER_INITIAL_COUNT, u32::MAX);
    let (start, first) = (clock::now(), read(reg::TIMER_CURRENT_COUNT));
    clock::delay_us(CALIBRATION_US);
    let (end, last) = (clock::now(), read(reg::TIMER_CURRENT_COUNT));
    let counts = u64::from(first.wrapping_sub(last));
    COUNTS_A_NS.store((counts << 32) / (end - start), Ordering::Relaxed);
    write(reg::TIMER_INITIAL_COUNT, 0);
    write(reg::LVT_TIMER, u32::from(crate::interrupts::TIMER_VECTOR));
}

/// Has the timer interrupt once, in `ns` nanoseconds; earlier where its counter
/// does not reach that far.
pub(crate) fn set_timer(ns: u64) {
    let counts = (u128::from(ns) * u128::from(COUNTS_A_NS.load(Ordering::Relaxed))) >> 32;
    let counts = counts.clamp(1, u128::from(u32::MAX)) as u32;
    write(reg::TIMER_INITIAL_COUNT, counts);
}

/// Ends the interrupt being handled.
#[inline]
pub(crate) fn end_of_interrupt() {
    write(reg::EOI, 0);
}

/// This CPU's APIC id.
pub(crate) fn id() -> u32 {
    let id = read(reg::ID);
    if X2APIC.load(Ordering::Relaxed) {
        id
    } else {
        id >> 24
    }
}

/// Where a device sends a message to interrupt this CPU.
pub(crate) fn message_address() -> u64 {
    MESSAGE_ADDRESS | u64::from(id() & 0xff) << 12
}
