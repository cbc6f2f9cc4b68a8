//! The PVH boot protocol (Xen's x86/HVM direct boot ABI), by which
//! `qemu -kernel` starts an ELF image: an ELF note names a 32-bit entry point,
//! which finds the address of a start-info structure in EBX.

use core::arch::global_asm;
use core::ffi::CStr;
use core::num::NonZeroU64;
use core::slice;

use uniperf_kernel::boot::{self, Info};
use uniperf_kernel::memory::Region;
use uniperf_kernel::{clock, power};

global_asm!(
    r#"
    # XEN_ELFNOTE_PHYS32_ENTRY
    .section .note.Xen, "a", @note
    .balign 4
    .long 4
    .long 4
    .long 18
    .asciz "Xen"
    .long pvh_start

    .section .boot, "ax"
    .code32
    .global pvh_start
pvh_start:
    mov edi, offset {start}
    mov esi, ebx
    jmp enter_long_mode
    .code64
    "#,
    start = sym start,
);

const MAGIC: u32 = 0x336e_c578;
/// The memory map came with version 1.
const VERSION_WITH_MEMORY_MAP: u32 = 1;
const USABLE: u32 = 1;

/// `hvm_start_info`.
#[repr(C)]
struct StartInfo {
    magic: u32,
    version: u32,
    flags: u32,
    modules: u32,
    module_list: u64,
    command_line: u64,
    rsdp: u64,
    memory_map: u64,
    memory_map_entries: u32,
    reserved: u32,
}

/// `hvm_memmap_table_entry`.
#[repr(C)]
struct MemoryMapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

struct Pvh {
    info: &'static StartInfo,
    memory_map: &'static [MemoryMapEntry],
}

extern "C" fn start(info: *const StartInfo) -> ! {
    let entry_tsc = clock::tsc();
    // SAFETY: the protocol passes the structure's address, and all of the first
    // 4 GiB is mapped one to one.
    let info = unsafe { &*info };
    if info.magic != MAGIC || info.version < VERSION_WITH_MEMORY_MAP || info.memory_map == 0 {
        power::stop(format_args!("the PVH loader gave no memory map"));
    }
    // SAFETY: as above; the structure says where the entries are and how many.
    let memory_map = unsafe {
        slice::from_raw_parts(
            info.memory_map as *const MemoryMapEntry,
            info.memory_map_entries as usize,
        )
    };
    let pvh = Pvh { info, memory_map };
    // SAFETY: this is the boot processor's first function in long mode, entered
    // once; the page tables are in the image's zeroed part. The loader keeps its
    // records below 1 MiB.
    unsafe { boot::start(&pvh, super::image(), entry_tsc) }
}

impl Info for Pvh {
    fn protocol(&self) -> &'static str {
        "PVH"
    }

    fn command_line(&self) -> &[u8] {
        if self.info.command_line == 0 {
            return &[];
        }
        // SAFETY: the protocol says that the address is of a zero-terminated string.
        unsafe { CStr::from_ptr(self.info.command_line as *const _) }.to_bytes()
    }

    fn rsdp(&self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.info.rsdp)
    }

    fn usable_memory(&self) -> impl Iterator<Item = Region> + Clone {
        self.memory_map
            .iter()
            .filter(|entry| entry.kind == USABLE)
            .map(|entry| entry.address..entry.address.saturating_add(entry.size))
    }
}
