//! The first page of the image file, and the file.

use anyhow::{Result, ensure};

use crate::linked::Linked;
use crate::{linux, multiboot2, pe};

/// Bytes before the image proper.
pub const LEN: usize = 4096;
/// Where the parts lie in the page. The Linux boot protocol fixes the setup
/// header's place, and `image/src/boot/linux/setup.rs` the 16-bit code's.
pub const PE_AT: usize = 0x40;
pub const SETUP_CODE_AT: usize = 0x280;
pub const MULTIBOOT2_AT: usize = 0x800;

/// The image file.
pub fn image(linked: &Linked) -> Result<Vec<u8>> {
    ensure!(
        SETUP_CODE_AT + linked.setup.len() <= MULTIBOOT2_AT,
        "the 16-bit code is too long"
    );
    let mut page = vec![0; LEN];
    pe::write(&mut page, linked)?;
    linux::write(&mut page, linked);
    page[SETUP_CODE_AT..][..linked.setup.len()].copy_from_slice(&linked.setup);
    let header = multiboot2::header(linked);
    page[MULTIBOOT2_AT..][..header.len()].copy_from_slice(&header);
    page.extend_from_slice(&linked.flat);
    page.resize(page.len().next_multiple_of(pe::FILE_ALIGNMENT as usize), 0);
    Ok(page)
}
