//! From a boot entry into Hermit, and from Hermit's `main` to a working machine.

use core::num::NonZeroU64;
use core::ops::Range;
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

// Linked for its entry point, allocator and panic handler; none of it is called
// by name.
use hermit as _;
use hermit_entry::boot_info::{
    BootInfo, HardwareInfo, LoadInfo, PlatformInfo, RawBootInfo, SerialPortBase,
};

use crate::memory::{Plan, Region};
use crate::{apic, args, clock, console, dma, fdt, interrupts, paging, pit, power};

/// What a boot protocol says about the machine. One implementation a protocol.
pub trait Info {
    /// The protocol's name, for the console.
    fn protocol(&self) -> &'static str;
    /// The command line's bytes.
    fn command_line(&self) -> &[u8];
    /// Physical address of the ACPI root pointer.
    fn rsdp(&self) -> Option<NonZeroU64>;
    /// Usable RAM, in any order.
    fn usable_memory(&self) -> impl Iterator<Item = Region> + Clone;
}

const COM1: u16 = 0x3f8;
const STACK_LEN: usize = 64 << 10;
const COMMAND_LINE_LEN: usize = 2048;

/// Hermit takes the stack by its lowest address.
#[repr(C, align(4096))]
struct Stack([u8; STACK_LEN]);

static mut HERMIT_STACK: Stack = Stack([0; STACK_LEN]);
static mut DEVICE_TREE: [u8; 4096] = [0; 4096];
static mut COMMAND_LINE: [u8; COMMAND_LINE_LEN] = [0; COMMAND_LINE_LEN];
static COMMAND_LINE_USED: AtomicUsize = AtomicUsize::new(0);
static mut PROTOCOL: &str = "";
static RSDP: AtomicU64 = AtomicU64::new(0);
static MEMORY: AtomicU64 = AtomicU64::new(0);

unsafe extern "C" {
    /// Hermit's entry point.
    fn _start(boot_info: &'static RawBootInfo, cpu_id: u32) -> !;
}

/// Starts Hermit, which calls the image's `main`.
///
/// # Safety
///
/// To be called once, by the boot processor, in long mode with interrupts off
/// and the first 4 GiB mapped one to one by 2 MiB pages in tables that lie inside
/// `image`. `image` is where the image lies, and what `info` refers to is not
/// inside RAM that `info` calls usable above 1 MiB.
pub unsafe fn start(info: &impl Info, image: Range<u64>, entry_tsc: u64) -> ! {
    console::setup(COM1);
    let usable = info.usable_memory();
    MEMORY.store(
        usable.clone().map(|region| region.end - region.start).sum(),
        Ordering::Relaxed,
    );
    let plan = Plan::new(usable.clone(), image.clone()).unwrap_or_else(|short| {
        power::stop(format_args!(
            "{} MiB of memory are too little; give the machine at least 64 MiB",
            short.usable >> 20
        ))
    });
    // SAFETY: the caller mapped the first 4 GiB by such pages.
    unsafe { paging::uncache_holes(usable) };
    let tsc_hz = pit::tsc_frequency();
    clock::start(entry_tsc, tsc_hz);
    dma::give(plan.dma.clone());
    keep(info);

    let tree = fdt::Machine {
        memory: plan.regions(),
        rsdp: info.rsdp().map(NonZeroU64::get),
        tsc_khz: (tsc_hz / 1000) as u32,
    };
    // SAFETY: single-threaded before Hermit; nothing else refers to it.
    let buffer = unsafe { &mut *(&raw mut DEVICE_TREE) };
    if fdt::write(buffer, &tree).is_err() {
        power::stop(format_args!(
            "the memory map has too many parts for the device tree"
        ));
    }
    let boot_info = RawBootInfo::from(BootInfo {
        hardware_info: HardwareInfo {
            phys_addr_range: 0..plan.regions().iter().map(|r| r.end).max().unwrap_or(0),
            serial_port_base: SerialPortBase::new(COM1),
            device_tree: NonZeroU64::new((&raw const DEVICE_TREE) as u64),
        },
        load_info: LoadInfo {
            kernel_image_addr_range: image,
            tls_info: None,
        },
        platform_info: PlatformInfo::Fdt,
    });
    // SAFETY: Hermit's contract: the stack's lowest address in the stack pointer,
    // the boot information in the first argument, CPU number 0 in the second.
    // Hermit copies the boot information before it leaves that stack.
    unsafe {
        core::arch::asm!(
            "mov rsp, {stack}",
            "xor ebp, ebp",
            "jmp {start}",
            stack = in(reg) &raw const HERMIT_STACK,
            start = sym _start,
            in("rdi") &raw const boot_info,
            in("esi") 0,
            options(noreturn)
        )
    }
}

/// Copies what is needed after Hermit has started: the memory that it lies in
/// may be used by then.
fn keep(info: &impl Info) {
    let line = info.command_line();
    let used = line.len().min(COMMAND_LINE_LEN);
    // SAFETY: single-threaded before Hermit; readers come after.
    unsafe {
        (&mut *(&raw mut COMMAND_LINE))[..used].copy_from_slice(&line[..used]);
        PROTOCOL = info.protocol();
    }
    COMMAND_LINE_USED.store(used, Ordering::Relaxed);
    RSDP.store(info.rsdp().map_or(0, NonZeroU64::get), Ordering::Relaxed);
}

/// What is known of the machine once `main` runs.
#[derive(Debug)]
pub struct Machine {
    /// The boot protocol's name.
    pub protocol: &'static str,
    /// Usable RAM in bytes.
    pub memory: u64,
    /// The boot arguments.
    pub args: args::Args,
    /// Those that were skipped.
    pub rejected: alloc::vec::Vec<args::Rejected>,
    /// Time-stamp counter's frequency in Hz.
    pub tsc_hz: u64,
}

/// Takes over from Hermit: console, interrupt vectors, timer. To be called once,
/// first thing in `main`.
pub fn init() -> Machine {
    let used = COMMAND_LINE_USED.load(Ordering::Relaxed);
    // SAFETY: written once before Hermit started, only read since.
    let line = unsafe { &(&*(&raw const COMMAND_LINE))[..used] };
    let (args, rejected) = args::parse(line);
    log::set_max_level(args.log);
    interrupts::init(NonZeroU64::new(RSDP.load(Ordering::Relaxed)));
    console::enable_interrupt();
    apic::init_timer();
    Machine {
        // SAFETY: as above.
        protocol: unsafe { PROTOCOL },
        memory: MEMORY.load(Ordering::Relaxed),
        args,
        rejected,
        tsc_hz: clock::frequency(),
    }
}
