//! Ways to stop the machine.

use core::fmt;
use core::sync::atomic::{AtomicU32, Ordering};

use x86_64::instructions::port::Port;
use x86_64::instructions::{hlt, interrupts};

use crate::{clock, console};

/// QEMU's `isa-debug-exit` device, at the port that our scripts give it. QEMU
/// exits with twice the value and one; on other machines nothing is there.
const DEBUG_EXIT: u16 = 0xf4;
/// QEMU's exit code is then 67.
const DEBUG_EXIT_PANIC: u32 = 33;

/// The keyboard controller, whose pulse on the reset line every PC honours.
const KEYBOARD_COMMAND: u16 = 0x64;
const PULSE_RESET: u8 = 0xfe;
/// Reset control register of the chip set: hard reset of the CPU.
const RESET_CONTROL: u16 = 0xcf9;
const HARD_RESET: u8 = 0x06;

/// Sleep-enable bit of the PM1 control register (ACPI 6.5, 4.8.3.2).
const SLEEP_ENABLE: u16 = 1 << 13;

/// How ACPI turns the machine off.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoftOff {
    /// Port of the PM1a control register.
    pub(crate) port: u16,
    /// Sleep type of state S5.
    pub(crate) sleep_type: u8,
}

/// Port in the upper half, sleep type in the lower; 0 when not known.
static SOFT_OFF: AtomicU32 = AtomicU32::new(0);

/// Keeps what [`off`] needs.
pub(crate) fn remember(soft_off: SoftOff) {
    let word = u32::from(soft_off.port) << 16 | u32::from(soft_off.sleep_type);
    SOFT_OFF.store(word, Ordering::Relaxed);
}

/// Turns the machine off through ACPI. Where that does not work it says so and
/// stops.
pub fn off() -> ! {
    console::drain();
    interrupts::disable();
    let word = SOFT_OFF.load(Ordering::Relaxed);
    let (port, sleep_type) = ((word >> 16) as u16, word as u16);
    if port != 0 {
        // SAFETY: the port of the PM1a control register, as the FADT has it.
        unsafe { Port::new(port).write(sleep_type << 10 | SLEEP_ENABLE) };
        clock::delay_us(100_000);
    }
    stop(format_args!(
        "no way found to turn the machine off; it is safe to do so now"
    ))
}

/// Restarts the machine.
pub fn reboot() -> ! {
    console::drain();
    interrupts::disable();
    // SAFETY: both ports do nothing but reset the machine.
    unsafe {
        Port::new(RESET_CONTROL).write(HARD_RESET);
        Port::new(KEYBOARD_COMMAND).write(PULSE_RESET);
    }
    halt()
}

/// Says why, and stops the machine for good. Under QEMU with the debug-exit
/// device, QEMU exits with code 67.
pub fn stop(why: fmt::Arguments<'_>) -> ! {
    interrupts::disable();
    console::print(format_args!("uniperf: stopped: {why}\n"));
    end_virtual_machine();
    halt()
}

/// Has QEMU with the debug-exit device exit with code 67. On other machines it does
/// nothing.
pub fn end_virtual_machine() {
    console::drain();
    // SAFETY: see `DEBUG_EXIT`; elsewhere the port has no device.
    unsafe { Port::new(DEBUG_EXIT).write(DEBUG_EXIT_PANIC) };
}

fn halt() -> ! {
    interrupts::disable();
    loop {
        hlt();
    }
}
