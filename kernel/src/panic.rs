//! What is shown when the appliance itself fails: message, place, and the return
//! addresses on the stack. Code addresses are given as the image was linked, to be
//! looked up in its symbols, wherever it was loaded.

use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, Ordering};

use x86_64::registers::control::Cr2;
use x86_64::set_general_handler;
use x86_64::structures::idt::{InterruptDescriptorTable, InterruptStackFrame};

use crate::{console, paging, power};

const MOST_FRAMES: usize = 32;

const NAMES: [&str; 32] = [
    "divide error",
    "debug",
    "non-maskable interrupt",
    "breakpoint",
    "overflow",
    "bound range exceeded",
    "invalid opcode",
    "device not available",
    "double fault",
    "coprocessor segment overrun",
    "invalid TSS",
    "segment not present",
    "stack-segment fault",
    "general protection",
    "page fault",
    "reserved",
    "x87 floating-point error",
    "alignment check",
    "machine check",
    "SIMD floating-point error",
    "virtualization",
    "control protection",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "reserved",
    "hypervisor injection",
    "VMM communication",
    "security",
    "reserved",
];

/// Hermit's panic handler, as patched, comes here.
#[unsafe(no_mangle)]
fn uniperf_panic(info: &PanicInfo<'_>) -> ! {
    only_once();
    console::print(format_args!("\nuniperf: {info}\n"));
    backtrace(frame_pointer());
    power::stop(format_args!("panic"))
}

/// A failure while a failure is shown: give up at once.
fn only_once() {
    static FAILING: AtomicBool = AtomicBool::new(false);
    if FAILING.swap(true, Ordering::Relaxed) {
        power::stop(format_args!("failed again while reporting a failure"));
    }
}

/// Puts CPU exceptions in our hands. "Device not available" stays Hermit's, who
/// switches floating-point state lazily.
pub(crate) fn install(table: &mut InterruptDescriptorTable) {
    set_general_handler!(table, exception, 0..=6);
    set_general_handler!(table, exception, 8..32);
}

fn exception(frame: InterruptStackFrame, vector: u8, code: Option<u64>) {
    only_once();
    let name = NAMES[usize::from(vector) % NAMES.len()];
    console::print(format_args!(
        "\nuniperf: CPU exception {vector} ({name}), error code {:#x}\n  at {:#x}, stack {:#x}, \
         address {:#x}\n",
        code.unwrap_or(0),
        as_linked(frame.instruction_pointer.as_u64()),
        frame.stack_pointer.as_u64(),
        Cr2::read_raw(),
    ));
    backtrace(frame_pointer());
    power::stop(format_args!("CPU exception"))
}

/// The address in the linked image of what lies at `address` now.
fn as_linked(address: u64) -> u64 {
    unsafe extern "C" {
        /// The image's first byte.
        static image_start: u8;
        /// A symbol without a place; its address is where the image was linked for.
        static link_base: u8;
    }
    let moved = (&raw const image_start as u64).wrapping_sub(&raw const link_base as u64);
    address.wrapping_sub(moved)
}

#[inline(always)]
fn frame_pointer() -> u64 {
    let frame: u64;
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mov {}, rbp", out(reg) frame, options(nomem, nostack, preserves_flags));
    }
    frame
}

/// Follows the chain of saved frame pointers (the image is built with them). It
/// ends at the first that is not mapped, not aligned, or does not lead upwards.
fn backtrace(mut frame: u64) {
    console::print(format_args!("backtrace:\n"));
    for _ in 0..MOST_FRAMES {
        if frame == 0 || !frame.is_multiple_of(8) || !paging::is_mapped(frame..frame + 16) {
            break;
        }
        let words = frame as *const u64;
        // SAFETY: both words are mapped, aligned and on a stack.
        let (caller, address) = unsafe { (words.read(), words.add(1).read()) };
        if address == 0 {
            break;
        }
        console::print(format_args!("  {:#x}\n", as_linked(address)));
        if caller <= frame {
            break;
        }
        frame = caller;
    }
}
