//! Page tables for entries that arrive in 64-bit mode, on somebody else's.

use core::ops::Range;

use uniperf_kernel::power;
use x86_64::PhysAddr;
use x86_64::registers::control::{Cr3, Cr3Flags, Cr4, Cr4Flags};
use x86_64::structures::paging::PhysFrame;

const PRESENT: u64 = 1 << 0;
const WRITABLE: u64 = 1 << 1;
const LARGE: u64 = 1 << 7;
const LARGE_PAGE: u64 = 2 << 20;
const GIB: u64 = 1 << 30;
/// Gigabytes that are always mapped.
const LOW: usize = 4;
/// The image is shorter than a gigabyte, so it lies in two at the most.
const DIRECTORIES: usize = LOW + 2;

type Table = [u64; 512];

unsafe extern "C" {
    static mut boot_root: Table;
    static mut boot_pointers: [Table; 2];
    static mut boot_directories: [Table; DIRECTORIES];
    fn set_root_of_four_levels(root: u64);
}

/// Maps the first 4 GiB and `image` one to one by 2 MiB pages, in tables of the
/// image's own with the four levels that Hermit knows, and loads them.
///
/// # Safety
///
/// To be called once, with interrupts off, from code and with a stack inside
/// `image`, which is where the image lies and is mapped one to one now.
pub(super) unsafe fn take_over(image: Range<u64>) {
    let five_levels = Cr4::read().contains(Cr4Flags::L5_PAGING);
    if five_levels && image.end > LOW as u64 * GIB {
        power::stop(format_args!(
            "the CPU is in 5-level paging mode and the image above 4 GiB: load it with kexec's \
             -s, or boot the other kernel with 'no5lvl'"
        ));
    }
    // SAFETY: the statics are the entry code's, which does not use them when it is
    // entered in 64-bit mode; this is the only other user and runs once.
    let (root, pointers, directories) = unsafe {
        (
            (&raw mut boot_root).as_mut_unchecked(),
            (&raw mut boot_pointers).as_mut_unchecked(),
            (&raw mut boot_directories).as_mut_unchecked(),
        )
    };
    let entry = |table: &Table| table.as_ptr() as u64 | PRESENT | WRITABLE;
    let first = (image.start / GIB).max(LOW as u64);
    let last = ((image.end - 1) / GIB).max(LOW as u64);
    let gigabytes = (0..LOW as u64).chain(first..=last);
    for (gigabyte, directory) in gigabytes.zip(directories.iter_mut()) {
        for (index, page) in directory.iter_mut().enumerate() {
            let address = gigabyte * GIB + index as u64 * LARGE_PAGE;
            *page = address | PRESENT | WRITABLE | LARGE;
        }
        // A second table of pointers where the image is above 512 GiB. It does not
        // straddle a multiple of that: nobody loads it there.
        let upper = usize::from(gigabyte >= 512);
        pointers[upper][gigabyte as usize % 512] = entry(directory);
        root[(gigabyte / 512) as usize % 512] = entry(&pointers[upper]);
    }
    let root = root.as_ptr() as u64;
    // SAFETY: the tables map the code, the stack and the data in use as before; with
    // five levels, all of them lie below 4 GiB.
    unsafe {
        if five_levels {
            set_root_of_four_levels(root);
        } else {
            let frame = PhysFrame::containing_address(PhysAddr::new(root));
            Cr3::write(frame, Cr3Flags::empty());
        }
    }
}
