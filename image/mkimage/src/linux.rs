//! The setup header of the Linux boot protocol (the kernel's
//! Documentation/arch/x86/boot.rst), version 2.15.

use crate::field::Fields;
use crate::linked::Linked;
use crate::page::{LEN, SETUP_CODE_AT};

const SECTOR: usize = 512;
const VERSION: u16 = 0x020f;

/// The image is loaded at 1 MiB, not below it.
const LOADED_HIGH: u8 = 1 << 0;
/// `heap_end_ptr` is valid.
const CAN_USE_HEAP: u8 = 1 << 7;
/// There is a 64-bit entry, 512 bytes behind the 32-bit one.
const KERNEL_64: u16 = 1 << 0;
/// The image, its record and its initrd may lie above 4 GiB.
const CAN_BE_LOADED_ABOVE_4G: u16 = 1 << 1;
/// The 64-bit entry may be reached with 5-level page tables, as by kexec.
const FIVE_LEVELS: u16 = 1 << 5;

/// Where loaders put an image that they cannot relocate.
const LOAD_ADDRESS: u32 = 1 << 20;
const ALIGNMENT: u32 = 4096;
const LOADER_UNDEFINED: u8 = 0xff;

pub fn write(page: &mut [u8], linked: &Linked) {
    // The short jump at 0x200 goes to the code, and its distance also says where
    // the header ends.
    let jump = (SETUP_CODE_AT - 0x202) as u8;
    let mut header = Fields(page);
    header.u8(0x1f1, (LEN / SECTOR - 1) as u8); // setup_sects
    header.u16(0x1f2, 1); // root_flags: read-only
    header.u32(0x1f4, linked.flat.len().div_ceil(16) as u32); // syssize
    header.u16(0x1fa, 0xffff); // vid_mode: as it is
    header.u16(0x1fe, 0xaa55); // boot_flag
    header.bytes(0x200, &[0xeb, jump]);
    header.bytes(0x202, b"HdrS");
    header.u16(0x206, VERSION);
    header.u16(0x20e, VERSION_TEXT_AT as u16 - 0x200); // kernel_version
    header.u8(0x210, LOADER_UNDEFINED); // type_of_loader
    header.u8(0x211, LOADED_HIGH | CAN_USE_HEAP); // loadflags
    header.u32(0x214, LOAD_ADDRESS); // code32_start
    header.u16(0x224, 0x7e00); // heap_end_ptr
    header.u32(0x22c, 0x7fff_ffff); // initrd_addr_max
    header.u32(0x230, ALIGNMENT); // kernel_alignment
    header.u8(0x234, 1); // relocatable_kernel
    header.u8(0x235, ALIGNMENT.trailing_zeros() as u8); // min_alignment
    header.u16(0x236, KERNEL_64 | CAN_BE_LOADED_ABOVE_4G | FIVE_LEVELS); // xloadflags
    header.u32(0x238, 2047); // cmdline_size
    header.u64(0x258, u64::from(LOAD_ADDRESS)); // pref_address
    header.u32(0x260, linked.memory_len as u32); // init_size
    header.bytes(VERSION_TEXT_AT, VERSION_TEXT.as_bytes());
}

/// What boot menus and `file` show.
const VERSION_TEXT: &str = concat!("uniperf ", env!("CARGO_PKG_VERSION"), "\0");
const VERSION_TEXT_AT: usize = 0x780;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page;
    use crate::testing::linked;

    #[test]
    fn the_header_says_where_the_image_begins_and_how_long_it_is() {
        let linked = linked();
        let image = page::image(&linked).unwrap();
        let sectors = usize::from(image[0x1f1]) + 1;
        assert_eq!(
            &image[sectors * SECTOR..][..linked.flat.len()],
            &linked.flat[..]
        );
        let word = |at: usize| u32::from_le_bytes(image[at..at + 4].try_into().unwrap());
        assert!(word(0x1f4) as usize * 16 >= linked.flat.len());
        assert_eq!(u64::from(word(0x260)), linked.memory_len);
        assert_eq!(0x202 + usize::from(image[0x201]), SETUP_CODE_AT);
        assert_eq!(&image[SETUP_CODE_AT..][..4], &linked.setup[..4]);
    }
}
