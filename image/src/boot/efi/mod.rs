//! The UEFI application: firmware starts the image file itself, from a disk, by PXE
//! or by HTTP; so do systemd-boot, iPXE and newer GRUBs.
//!
//! While boot services run, everything is theirs: memory, stack, descriptor and
//! page tables. What the appliance needs is read from them, then they are ended,
//! and the entry code goes on as for every other protocol.

#[cfg(target_os = "none")]
mod describe;
#[cfg(target_os = "none")]
mod initrd;
mod options;

#[cfg(target_os = "none")]
pub(super) use entry::start;

#[cfg(target_os = "none")]
mod entry {
    use core::ffi::c_void;

    use uefi::boot::{self as services, MemoryType};
    use uefi::mem::memory_map::MemoryMap;
    use uefi::{Handle, Status};
    use uniperf_kernel::memory::Kind;
    use uniperf_kernel::{boot, clock};

    use super::{describe, initrd};
    use crate::boot::{image, tables};

    const PAGE: u64 = 4096;

    unsafe extern "C" {
        /// Gives `go_on` the image's stack and descriptor table, and `argument`.
        fn settle(go_on: extern "C" fn(u64) -> !, argument: u64) -> !;
    }

    /// From the entry code, as the firmware calls it.
    pub extern "efiapi" fn start(handle: Handle, table: *const c_void) -> Status {
        let entry_tsc = clock::tsc();
        // SAFETY: both are the firmware's own words, and boot services run.
        unsafe {
            uefi::table::set_system_table(table.cast());
            services::set_image_handle(handle);
        }
        // SAFETY: what is written comes from the firmware, and no reference to
        // anything of boot services is left when they are ended.
        unsafe {
            boot::hand_over(|handover| {
                handover.protocol = "UEFI";
                describe::command_line(handle, &mut handover.command_line);
                handover.rsdp = describe::rsdp();
                handover.screen = describe::screen();
                handover.firmware = initrd::load(handle, handover.command_line.bytes());
                let map = services::exit_boot_services(None);
                core::arch::asm!("cli", options(nomem, nostack));
                handover.take_memory(map.entries().map(|entry| {
                    let len = entry.page_count.saturating_mul(PAGE);
                    let end = entry.phys_start.saturating_add(len);
                    (entry.phys_start..end, kind(entry.ty))
                }));
            });
            settle(go_on, entry_tsc)
        }
    }

    extern "C" fn go_on(entry_tsc: u64) -> ! {
        // SAFETY: called once, on the image's stack, while the firmware's tables
        // map the image one to one.
        unsafe {
            tables::take_over(image());
            boot::start(image(), entry_tsc)
        }
    }

    /// What memory is for once boot services have ended (UEFI 2.10, table 7.10).
    fn kind(kind: MemoryType) -> Kind {
        match kind {
            MemoryType::LOADER_CODE
            | MemoryType::LOADER_DATA
            | MemoryType::BOOT_SERVICES_CODE
            | MemoryType::BOOT_SERVICES_DATA
            | MemoryType::CONVENTIONAL => Kind::Usable,
            MemoryType::ACPI_RECLAIM | MemoryType::ACPI_NON_VOLATILE => Kind::Tables,
            _ => Kind::Other,
        }
    }
}
