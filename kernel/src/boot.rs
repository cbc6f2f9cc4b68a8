//! From a boot entry into Hermit, and from Hermit's `main` to a working machine.

use core::num::NonZeroU64;
use core::ops::Range;

// Linked for its entry point, allocator and panic handler; none of it is called
// by name.
use hermit as _;
use hermit_entry::boot_info::{
    BootInfo, HardwareInfo, LoadInfo, PlatformInfo, RawBootInfo, SerialPortBase,
};

use crate::memory::{Plan, Region};
use crate::single::SingleCore;
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

static HERMIT_STACK: SingleCore<Stack> = SingleCore::new(Stack([0; STACK_LEN]));
static DEVICE_TREE: SingleCore<[u8; 4096]> = SingleCore::new([0; 4096]);
static KEPT: SingleCore<Kept> = SingleCore::new(Kept {
    protocol: "",
    command_line: [0; COMMAND_LINE_LEN],
    command_line_used: 0,
    command_line_cut: 0,
    rsdp: None,
    memory: 0,
});

/// What the boot protocol said, for when Hermit has started: the memory that it
/// said it in may be used by then.
struct Kept {
    protocol: &'static str,
    command_line: [u8; COMMAND_LINE_LEN],
    command_line_used: usize,
    /// Bytes of the command line that there was no room for.
    command_line_cut: usize,
    rsdp: Option<NonZeroU64>,
    /// Usable bytes.
    memory: u64,
}

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
    KEPT.with(|kept| kept.keep(info));

    let tree = fdt::Machine {
        memory: plan.regions(),
        rsdp: info.rsdp().map(NonZeroU64::get),
        tsc_khz: (tsc_hz / 1000) as u32,
    };
    if DEVICE_TREE
        .with(|buffer| fdt::write(buffer, &tree))
        .is_err()
    {
        power::stop(format_args!(
            "the memory map has too many parts for the device tree"
        ));
    }
    let boot_info = RawBootInfo::from(BootInfo {
        hardware_info: HardwareInfo {
            phys_addr_range: 0..plan.regions().iter().map(|r| r.end).max().unwrap_or(0),
            serial_port_base: SerialPortBase::new(COM1),
            device_tree: NonZeroU64::new(DEVICE_TREE.address() as u64),
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
            stack = in(reg) HERMIT_STACK.address(),
            start = sym _start,
            in("rdi") &raw const boot_info,
            in("esi") 0,
            options(noreturn)
        )
    }
}

impl Kept {
    fn keep(&mut self, info: &impl Info) {
        let line = info.command_line();
        let used = line.len().min(COMMAND_LINE_LEN);
        self.command_line[..used].copy_from_slice(&line[..used]);
        self.command_line_used = used;
        self.command_line_cut = line.len() - used;
        self.protocol = info.protocol();
        self.rsdp = info.rsdp();
        self.memory = info.usable_memory().map(|r| r.end - r.start).sum();
    }
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
    /// Bytes of the command line that were cut off its end.
    pub command_line_cut: usize,
    /// Those that were skipped.
    pub rejected: alloc::vec::Vec<args::Rejected>,
    /// Time-stamp counter's frequency in Hz.
    pub tsc_hz: u64,
}

/// Takes over from Hermit: console, interrupt vectors, timer. To be called once,
/// first thing in `main`.
pub fn init() -> Machine {
    let ((args, rejected), cut, protocol, rsdp, memory) = KEPT.with(|kept| {
        let line = &kept.command_line[..kept.command_line_used];
        let cut = kept.command_line_cut;
        (
            args::parse(line),
            cut,
            kept.protocol,
            kept.rsdp,
            kept.memory,
        )
    });
    log::set_max_level(args.log);
    interrupts::init(rsdp);
    console::enable_interrupt();
    apic::init_timer();
    Machine {
        protocol,
        memory,
        args,
        command_line_cut: cut,
        rejected,
        tsc_hz: clock::frequency(),
    }
}
