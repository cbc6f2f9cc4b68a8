//! What is shown when the appliance itself fails: message, place, and the return
//! addresses on the stack, to be looked up in the image's symbols.

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
        frame.instruction_pointer.as_u64(),
        frame.stack_pointer.as_u64(),
        Cr2::read_raw(),
    ));
    backtrace(frame_pointer());
    power::stop(format_args!("CPU exception"))
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
        console::print(format_args!("  {address:#x}\n"));
        if caller <= frame {
            break;
        }
        frame = caller;
    }
}
