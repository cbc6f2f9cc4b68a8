//! The image as the linker has made it: an ELF file with everything in it.

use anyhow::{Context, Result, ensure};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSegment, ObjectSymbol, SegmentFlags, elf};

/// Bytes of a page; every segment begins at one.
pub const PAGE: u64 = 4096;

/// A part of the image with rights of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes from the image's start.
    pub offset: u64,
    /// Bytes in the file.
    pub len: u64,
    /// Bytes in memory; what the file does not have is zero.
    pub memory_len: u64,
    /// Whether it is executed.
    pub executable: bool,
    /// Whether it is written.
    pub writable: bool,
}

/// The linked image.
#[derive(Debug)]
pub struct Linked {
    /// Where it is linked for.
    pub base: u64,
    /// Its bytes from the first segment's to the last one's, as they lie in memory.
    pub flat: Vec<u8>,
    /// Bytes in memory.
    pub memory_len: u64,
    /// Text, read-only data, data.
    pub segments: Vec<Segment>,
    /// 16-bit code of the Linux boot protocol.
    pub setup: Vec<u8>,
    /// PVH's note, by offset and length.
    pub note: (u64, u64),
    /// Offset of the PVH entry.
    pub pvh_entry: u64,
    /// Offset of the UEFI entry.
    pub efi_entry: u64,
    /// Offset of the multiboot2 entry.
    pub multiboot2_entry: u64,
}

impl Linked {
    /// Reads an ELF file.
    pub fn read(bytes: &[u8]) -> Result<Self> {
        let elf = ElfFile64::<object::LittleEndian>::parse(bytes).context("not an ELF file")?;
        let base = elf
            .segments()
            .map(|s| s.address())
            .min()
            .context("it has no segments")?;
        let mut flat = Vec::new();
        let mut segments = Vec::new();
        for segment in elf.segments() {
            let SegmentFlags::Elf { p_flags } = segment.flags() else {
                continue;
            };
            let offset = segment.address() - base;
            let data = segment.data().context("a segment lies outside the file")?;
            ensure!(
                offset % PAGE == 0,
                "the segment at {offset:#x} does not begin at a page"
            );
            ensure!(flat.len() as u64 <= offset, "the segments overlap");
            flat.resize(offset as usize, 0);
            flat.extend_from_slice(data);
            segments.push(Segment {
                offset,
                len: data.len() as u64,
                memory_len: segment.size(),
                executable: p_flags & elf::PF_X != 0,
                writable: p_flags & elf::PF_W != 0,
            });
        }
        let last = segments.last().context("it has no segments")?;
        let memory_len = last.offset + last.memory_len;
        let section = |name: &str| {
            elf.section_by_name(name)
                .with_context(|| format!("no section {name}"))
        };
        let symbol = |name: &str| -> Result<u64> {
            let symbol = elf
                .symbol_by_name(name)
                .with_context(|| format!("no symbol {name}"))?;
            let offset = symbol.address().wrapping_sub(base);
            ensure!(offset < memory_len, "{name} lies outside the image");
            Ok(offset)
        };
        let note = section(".note.Xen")?;
        ensure!(
            symbol("image_head")? == 0,
            "the image does not begin with its head"
        );
        Ok(Self {
            base,
            memory_len,
            setup: section(".setup")?.data()?.to_vec(),
            note: (note.address() - base, note.size()),
            pvh_entry: symbol("pvh_entry")?,
            efi_entry: symbol("efi_entry")?,
            multiboot2_entry: symbol("multiboot2_entry")?,
            flat,
            segments,
        })
    }
}
