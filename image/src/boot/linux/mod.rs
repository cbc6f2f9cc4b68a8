//! The Linux boot protocol, in its 16-, 32- and 64-bit forms. GRUB's `linux`,
//! PXELINUX, iPXE, systemd-boot, kexec and `qemu -kernel` speak it.

mod params;
#[cfg(target_os = "none")]
mod rsdp;
#[cfg(target_os = "none")]
mod setup;

#[cfg(target_os = "none")]
pub(super) use entry::{start_32, start_64};

#[cfg(target_os = "none")]
mod entry {
    use core::ffi::CStr;
    use core::num::NonZeroU64;
    use core::{ptr, slice};

    use uniperf_kernel::handover::Handover;
    use uniperf_kernel::memory::{Kind, Region};
    use uniperf_kernel::{boot, clock, power};

    use super::params::{self, Params};
    use super::rsdp;
    use crate::boot::{image, tables};

    /// `setup_data` of this kind holds the entries that `boot_params` has no room
    /// for.
    const SETUP_E820_EXTENDED: u32 = 1;
    /// Of this kind: what kexec tells of UEFI, whose tables are at the third word.
    const SETUP_EFI: u32 = 4;
    /// A list that goes on after so many is a loop.
    const MOST_SETUP_DATA: usize = 64;
    /// Bytes of one that are looked at.
    const MOST_CONTENT: usize = 32 << 10;

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
        handover.rsdp = params
            .rsdp()
            .or_else(|| params::rsdp_word(handover.command_line.bytes()))
            .or_else(|| rsdp_of_firmware(params));
        handover.firmware = params.initrd();
        handover.screen = params.screen();
        handover.take_memory(params.memory().chain(extended(params.setup_data())));
    }

    fn rsdp_of_firmware(params: Params<'_>) -> Option<NonZeroU64> {
        let told = setup_data(params.setup_data()).find(|data| data.kind == SETUP_EFI);
        let tables = told.and_then(|data| {
            let tables = content(data).chunks_exact(8).nth(2)?;
            NonZeroU64::new(u64::from_le_bytes(tables.try_into().ok()?))
        });
        // SAFETY: both addresses are the firmware's, as the loader passes them on.
        unsafe { rsdp::from_tables(params.efi_system_table()?, tables) }
    }

    /// The memory map's entries beyond those in `boot_params`.
    fn extended(first: u64) -> impl Iterator<Item = (Region, Kind)> + Clone {
        setup_data(first)
            .filter(|data| data.kind == SETUP_E820_EXTENDED)
            .flat_map(|data| params::e820(content(data)))
    }

    fn setup_data(first: u64) -> impl Iterator<Item = &'static SetupData> + Clone {
        core::iter::successors(node(first), |data| node(data.next)).take(MOST_SETUP_DATA)
    }

    fn content(data: &'static SetupData) -> &'static [u8] {
        let first = ptr::from_ref(data).wrapping_add(1).cast::<u8>();
        let len = (data.len as usize).min(MOST_CONTENT);
        // SAFETY: the protocol puts so many bytes behind the header.
        unsafe { slice::from_raw_parts(first, len) }
    }

    fn node(address: u64) -> Option<&'static SetupData> {
        // SAFETY: an address that the loader put into its list, mapped one to one.
        unsafe { (address as *const SetupData).as_ref() }
    }
}
