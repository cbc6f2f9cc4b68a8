//! The PE header by which UEFI firmware loads the image (Microsoft's PE format
//! specification; UEFI 2.10, 2.1.1). An offset in the file is the same offset in
//! memory. There are no base relocations: the image relocates itself.

use anyhow::{Result, ensure};

use crate::field::Fields;
use crate::linked::{Linked, PAGE, Segment};
use crate::page::{LEN, PE_AT};

/// Sections in the file begin at a multiple of this.
pub const FILE_ALIGNMENT: u32 = 512;

const OPTIONAL_AT: usize = PE_AT + 24;
/// Up to the directories for base relocations, which loaders look at.
const DIRECTORIES: u32 = 6;
const OPTIONAL_LEN: usize = 112 + DIRECTORIES as usize * 8;
const SECTIONS_AT: usize = OPTIONAL_AT + OPTIONAL_LEN;
const SECTION_LEN: usize = 40;
/// The Linux setup header begins here.
const END: usize = 0x1f1;

const AMD64: u16 = 0x8664;
/// Executable, no line numbers, may lie above 2 GiB, no debugging information.
const CHARACTERISTICS: u16 = 0x0226;
const PE32_PLUS: u16 = 0x020b;
const EFI_APPLICATION: u16 = 10;
/// No page is both written and executed.
const NX_COMPATIBLE: u16 = 0x0100;
/// Loaders take this to mean that the initrd is fetched by LoadFile2.
const EFI_STUB_VERSION: u16 = 3;

const CODE: u32 = 0x6000_0020;
const READ_ONLY: u32 = 0x4000_0040;
const DATA: u32 = 0xc000_0040;

pub fn write(page: &mut [u8], linked: &Linked) -> Result<()> {
    let sections = linked.segments.len();
    ensure!(
        SECTIONS_AT + sections * SECTION_LEN <= END,
        "{sections} sections do not fit in front of the setup header"
    );
    let head = LEN as u32;
    let mut header = Fields(page);
    header.bytes(0, b"MZ");
    header.u32(0x3c, PE_AT as u32);
    header.bytes(PE_AT, b"PE\0\0");
    header.u16(PE_AT + 4, AMD64);
    header.u16(PE_AT + 6, sections as u16);
    header.u16(PE_AT + 20, OPTIONAL_LEN as u16);
    header.u16(PE_AT + 22, CHARACTERISTICS);

    let optional = OPTIONAL_AT;
    header.u16(optional, PE32_PLUS);
    header.u32(optional + 4, total(linked, |segment| segment.executable));
    header.u32(optional + 8, total(linked, |segment| !segment.executable));
    header.u32(optional + 16, head + linked.efi_entry as u32);
    header.u32(optional + 20, head); // base of code
    header.u64(optional + 24, 0); // image base
    header.u32(optional + 32, PAGE as u32);
    header.u32(optional + 36, FILE_ALIGNMENT);
    header.u16(optional + 44, EFI_STUB_VERSION);
    header.u32(
        optional + 56,
        head + linked.memory_len.next_multiple_of(PAGE) as u32,
    );
    header.u32(optional + 60, head); // headers
    header.u16(optional + 68, EFI_APPLICATION);
    header.u16(optional + 70, NX_COMPATIBLE);
    header.u32(optional + 108, DIRECTORIES);

    for (index, segment) in linked.segments.iter().enumerate() {
        let (name, kind) = match (segment.executable, segment.writable) {
            (true, false) => (".text", CODE),
            (false, true) => (".data", DATA),
            (false, false) => (".rodata", READ_ONLY),
            (true, true) => anyhow::bail!("a segment is both written and executed"),
        };
        let at = SECTIONS_AT + index * SECTION_LEN;
        let address = head + segment.offset as u32;
        header.bytes(at, name.as_bytes());
        header.u32(at + 8, segment.memory_len as u32);
        header.u32(at + 12, address);
        header.u32(
            at + 16,
            (segment.len as u32).next_multiple_of(FILE_ALIGNMENT),
        );
        header.u32(at + 20, address);
        header.u32(at + 36, kind);
    }
    Ok(())
}

fn total(linked: &Linked, wanted: impl Fn(&Segment) -> bool) -> u32 {
    let lens = linked
        .segments
        .iter()
        .filter(|s| wanted(s))
        .map(|s| s.len as u32);
    lens.map(|len| len.next_multiple_of(FILE_ALIGNMENT)).sum()
}

#[cfg(test)]
mod tests {
    use object::read::pe::PeFile64;
    use object::{Object, ObjectSection};

    use super::*;
    use crate::page;
    use crate::testing::linked;

    #[test]
    fn another_reader_finds_the_sections_and_the_entry() {
        let linked = linked();
        let image = page::image(&linked).unwrap();
        let pe = PeFile64::parse(&image[..]).unwrap();
        assert_eq!(pe.entry(), LEN as u64 + linked.efi_entry);
        let sections: Vec<_> = pe.sections().collect();
        assert_eq!(sections.len(), linked.segments.len());
        for (section, segment) in sections.iter().zip(&linked.segments) {
            assert_eq!(section.address(), LEN as u64 + segment.offset);
            assert_eq!(section.size(), segment.memory_len);
            let begin = segment.offset as usize;
            let bytes = &linked.flat[begin..begin + segment.len as usize];
            assert!(section.data().unwrap().starts_with(bytes));
        }
    }

    #[test]
    fn what_is_written_and_executed_is_refused() {
        let mut linked = linked();
        linked.segments[0].writable = true;
        assert!(page::image(&linked).is_err());
    }
}
