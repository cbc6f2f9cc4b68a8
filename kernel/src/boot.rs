//! From a boot entry into Hermit, and from Hermit's `main` to a working machine.

use core::num::NonZeroU64;
use core::ops::Range;

// Linked for its entry point, allocator and panic handler; none of it is called
// by name.
use hermit as _;
use hermit_entry::boot_info::{BootInfo, HardwareInfo, LoadInfo, PlatformInfo, RawBootInfo};

use crate::firmware::{FirstFourGib, Tables};
use crate::handover::Handover;
use crate::memory::{Plan, Region};
use crate::pci::{self, ConfigPorts};
use crate::single::SingleCore;
use crate::{apic, args, clock, console, dma, fdt, interrupts, paging, power, stages, tsc};

const STACK_LEN: usize = 64 << 10;

/// Hermit takes the stack by its lowest address.
#[repr(C, align(4096))]
struct Stack([u8; STACK_LEN]);

static HERMIT_STACK: SingleCore<Stack> = SingleCore::new(Stack([0; STACK_LEN]));
static DEVICE_TREE: SingleCore<[u8; 4096]> = SingleCore::new([0; 4096]);
static FREQUENCY: SingleCore<Option<tsc::Frequency>> = SingleCore::new(None);
static HANDOVER: SingleCore<Handover> = SingleCore::new(Handover::new());

unsafe extern "C" {
    /// Hermit's entry point.
    fn _start(boot_info: &'static RawBootInfo, cpu_id: u32) -> !;
}

/// Has `write` fill in what the boot protocol says.
///
/// # Safety
///
/// To be called before [`start`], by the boot processor. What is written must be
/// true.
pub unsafe fn hand_over(write: impl FnOnce(&mut Handover)) {
    // SAFETY: nobody else has the record before Hermit has called `main`.
    let handover = unsafe { &mut *HANDOVER.address() };
    write(handover);
    console::open(handover.command_line.bytes());
    if let Some(firmware) = handover.firmware.clone() {
        handover.memory.remove(firmware);
    }
}

/// Starts Hermit, which calls the image's `main`. `image` is where the image lies,
/// and `entry_tsc` is the time-stamp counter at its first instruction.
///
/// # Safety
///
/// To be called once, after [`hand_over`], by the boot processor, in long mode with
/// interrupts off, and with the first 4 GiB and the image mapped one to one by
/// 2 MiB pages in tables that lie inside `image`.
pub unsafe fn start(image: Range<u64>, entry_tsc: u64) -> ! {
    pci::stop_network_dma(ConfigPorts);
    apic::switch_on();
    // SAFETY: as in `hand_over`.
    let handover = unsafe { &mut *HANDOVER.address() };
    let usable = || handover.memory.regions().iter().cloned();
    // SAFETY: the caller mapped the first 4 GiB by such pages.
    unsafe { paging::uncache_holes(handover.cached.regions().iter().cloned()) };
    console::attach(handover.screen.as_ref(), usable());
    let plan = Plan::new(usable(), image.clone()).unwrap_or_else(|short| {
        power::stop(format_args!(
            "{} MiB of memory are too little; give the machine at least 64 MiB",
            short.usable >> 20
        ))
    });
    stages::end("hand-over");
    let tables = Tables::find(FirstFourGib, handover.rsdp);
    handover.rsdp = tables.as_ref().and_then(Tables::root).or(handover.rsdp);
    let frequency = tsc::frequency(tables.as_ref()).unwrap_or_else(|| {
        power::stop(format_args!(
            "no timer counts by which the time could be told"
        ))
    });
    FREQUENCY.with(|kept| *kept = Some(frequency));
    clock::start(entry_tsc, frequency.hz);
    dma::give(plan.dma.clone());

    let tree = fdt::Machine {
        memory: plan.regions(),
        rsdp: handover.rsdp.map(NonZeroU64::get),
        tsc_khz: (frequency.hz / 1000) as u32,
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
            // Hermit counts what lies between its start and the image as taken.
            phys_addr_range: image.start..plan.regions().iter().map(|r| r.end).max().unwrap_or(0),
            serial_port_base: None,
            device_tree: NonZeroU64::new(DEVICE_TREE.address() as u64),
        },
        load_info: LoadInfo {
            kernel_image_addr_range: image,
            tls_info: None,
        },
        platform_info: PlatformInfo::Fdt,
    });
    stages::end("clock");
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

/// What is known of the machine once `main` runs.
#[derive(Debug)]
pub struct Machine {
    /// The boot protocol's name.
    pub protocol: &'static str,
    /// Usable RAM in bytes.
    pub memory: u64,
    /// The file that was loaded beside the image, where one was.
    pub firmware: Option<&'static [u8]>,
    /// The boot arguments.
    pub args: args::Args,
    /// Bytes of the command line that were cut off its end.
    pub command_line_cut: usize,
    /// Those that were skipped.
    pub rejected: alloc::vec::Vec<args::Rejected>,
    /// Time-stamp counter's frequency.
    pub tsc: tsc::Frequency,
}

/// Takes over from Hermit: interrupt vectors, timer. To be called once,
/// first thing in `main`.
pub fn init() -> Machine {
    stages::end("Hermit");
    let (protocol, memory, firmware, rsdp, line) = HANDOVER.with(|handover| {
        let line = &handover.command_line;
        let firmware = handover.firmware.as_ref();
        (
            handover.protocol,
            handover.memory.total(),
            firmware.cloned(),
            handover.rsdp,
            (args::parse(line.bytes()), line.cut()),
        )
    });
    let ((args, rejected), command_line_cut) = line;
    log::set_max_level(args.log);
    power::remember(rsdp);
    interrupts::init(rsdp);
    apic::init_timer();
    stages::end("interrupts");
    Machine {
        protocol,
        memory,
        firmware: firmware.and_then(file_beside),
        args,
        command_line_cut,
        rejected,
        tsc: FREQUENCY
            .with(|kept| *kept)
            .expect("measured before Hermit starts"),
    }
}

/// The bytes of the file that was loaded beside the image, if they can be reached.
fn file_beside(region: Region) -> Option<&'static [u8]> {
    let len = usize::try_from(region.end.checked_sub(region.start)?).ok()?;
    let start = paging::map_memory(region).ok()?;
    // SAFETY: a boot loader has filled this memory, it is mapped now, and `hand_over` has
    // taken it out of what anybody else may use.
    Some(unsafe { core::slice::from_raw_parts(start.as_ptr(), len) })
}
