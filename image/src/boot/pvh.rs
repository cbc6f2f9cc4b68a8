//! The PVH boot protocol (Xen's x86/HVM direct boot ABI), by which
//! `qemu -kernel` starts an ELF image: an ELF note names a 32-bit entry point,
//! which finds the address of a start-info structure in EBX.

use core::arch::global_asm;
use core::ffi::CStr;
use core::num::NonZeroU64;
use core::slice;

use uniperf_kernel::handover::Handover;
use uniperf_kernel::memory::Kind;
use uniperf_kernel::{boot, clock, power};

global_asm!(
    r#"
    # XEN_ELFNOTE_PHYS32_ENTRY
    .section .note.Xen, "a", @note
    .balign 4
    .long 4
    .long 4
    .long 18
    .asciz "Xen"
    .long pvh_entry_address
    "#
);

const MAGIC: u32 = 0x336e_c578;
/// The memory map came with version 1.
const VERSION_WITH_MEMORY_MAP: u32 = 1;

/// `hvm_start_info`.
#[repr(C)]
pub(super) struct StartInfo {
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

/// `hvm_modlist_entry`.
#[repr(C)]
struct Module {
    address: u64,
    size: u64,
    command_line: u64,
    reserved: u64,
}

/// `hvm_memmap_table_entry`.
#[repr(C)]
struct MemoryMapEntry {
    address: u64,
    size: u64,
    kind: u32,
    reserved: u32,
}

/// From the entry code; `info` is what the loader put into EBX.
pub(super) extern "C" fn start(info: *const StartInfo) -> ! {
    let entry_tsc = clock::tsc();
    // SAFETY: this is the boot processor's first function in long mode, entered
    // once; the page tables are in the image's zeroed part. The protocol passes
    // the structure's address, and all of the first 4 GiB is mapped one to one.
    unsafe {
        boot::hand_over(|handover| (*info).hand_over(handover));
        boot::start(super::image(), entry_tsc)
    }
}

impl StartInfo {
    fn hand_over(&self, handover: &mut Handover) {
        if self.magic != MAGIC || self.version < VERSION_WITH_MEMORY_MAP || self.memory_map == 0 {
            power::stop(format_args!("the PVH loader gave no memory map"));
        }
        handover.protocol = "PVH";
        if self.command_line != 0 {
            // SAFETY: the protocol says that the address is of a zero-terminated
            // string.
            let line = unsafe { CStr::from_ptr(self.command_line as *const _) };
            handover
                .command_line
                .extend(line.to_bytes().iter().copied());
        }
        handover.rsdp = NonZeroU64::new(self.rsdp);
        // SAFETY: the structure says where the entries are and how many.
        let entries = unsafe {
            slice::from_raw_parts(
                self.memory_map as *const MemoryMapEntry,
                self.memory_map_entries as usize,
            )
        };
        handover.take_memory(entries.iter().map(|entry| {
            let end = entry.address.saturating_add(entry.size);
            (entry.address..end, Kind::of_e820(entry.kind))
        }));
        if self.modules > 0 && self.module_list != 0 {
            // SAFETY: the structure says where the list is, and that it has an
            // entry.
            let module = unsafe { &*(self.module_list as *const Module) };
            handover.firmware = Some(module.address..module.address.saturating_add(module.size));
        }
    }
}
