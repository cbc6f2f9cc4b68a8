//! The Linux boot protocol, in its 16-, 32- and 64-bit forms. GRUB's `linux`,
//! PXELINUX, iPXE, systemd-boot, kexec and `qemu -kernel` speak it.

mod params;
#[cfg(target_os = "none")]
mod setup;

#[cfg(target_os = "none")]
pub(super) use entry::{start_32, start_64};

#[cfg(target_os = "none")]
mod entry {
    use core::ffi::CStr;
    use core::{ptr, slice};

    use uniperf_kernel::handover::Handover;
    use uniperf_kernel::memory::Region;
    use uniperf_kernel::{boot, clock, power};

    use super::params::{self, Params};
    use crate::boot::{image, tables};

    /// `setup_data` of this kind holds the entries that `boot_params` has no room
    /// for.
    const SETUP_E820_EXTENDED: u32 = 1;
    /// A list that goes on after so many is a loop.
    const MOST_SETUP_DATA: usize = 64;
    const MOST_EXTENDED_E820: usize = 1024;

    /// `struct setup_data`, before its content.
    #[repr(C)]
    struct SetupData {
        next: u64,
        kind: u32,
        len: u32,
    }

    /// From the 32-bit entry, and the 16-bit one that goes there.
    pub extern "C" fn start_32(params: *const [u8; params::LEN]) -> ! {
        let entry_tsc = clock::tsc();
        // SAFETY: this is the boot processor's first function in long mode,
        // entered once, with the image's page tables; `params` is the loader's.
        unsafe {
            boot::hand_over(|handover| hand_over(params, handover));
            boot::start(image(), entry_tsc)
        }
    }

    /// From the 64-bit entry, as by kexec, on page tables of somebody's.
    pub extern "C" fn start_64(params: *const [u8; params::LEN]) -> ! {
        let entry_tsc = clock::tsc();
        // SAFETY: entered once, on the image's stack; the record and what it refers
        // to may lie where the new tables do not reach, and are read before.
        unsafe {
            boot::hand_over(|handover| hand_over(params, handover));
            tables::take_over(image());
            boot::start(image(), entry_tsc)
        }
    }

    fn hand_over(params: *const [u8; params::LEN], handover: &mut Handover) {
        // SAFETY: the protocol passes the record's address.
        let Some(params) = Params::new(unsafe { &*params }) else {
            power::stop(format_args!("the loader's boot_params have no signature"));
        };
        handover.protocol = "the Linux boot protocol";
        if let Some(line) = params.command_line() {
            // SAFETY: the protocol says that the address is of a zero-terminated
            // string.
            let line = unsafe { CStr::from_ptr(line.get() as *const _) };
            handover
                .command_line
                .extend(line.to_bytes().iter().copied());
        }
        handover.rsdp = params.rsdp();
        handover.firmware = params.initrd();
        handover.screen = params.screen();
        handover
            .memory
            .fill(params.memory().chain(extended(params.setup_data())));
    }

    /// The memory map's entries beyond those in `boot_params`.
    fn extended(first: u64) -> impl Iterator<Item = (Region, bool)> + Clone {
        let list = core::iter::successors(node(first), |data| node(data.next));
        list.take(MOST_SETUP_DATA)
            .filter(|data| data.kind == SETUP_E820_EXTENDED)
            .flat_map(|data| {
                let len = (data.len as usize).min(MOST_EXTENDED_E820 * 20);
                let content = ptr::from_ref(data).wrapping_add(1).cast::<u8>();
                // SAFETY: the protocol puts so many bytes behind the header.
                params::e820(unsafe { slice::from_raw_parts(content, len) })
            })
    }

    fn node(address: u64) -> Option<&'static SetupData> {
        // SAFETY: an address that the loader put into its list, mapped one to one.
        unsafe { (address as *const SetupData).as_ref() }
    }
}
