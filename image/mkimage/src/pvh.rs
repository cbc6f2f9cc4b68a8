//! An ELF file with what PVH needs and no more: the segments and the note with the
//! entry.

use object::elf;

use crate::field::Fields;
use crate::linked::Linked;

const HEADER_LEN: usize = 64;
const PROGRAM_HEADER_LEN: usize = 56;
/// The image begins at a page, as segments must.
const IMAGE_AT: usize = 4096;

pub fn image(linked: &Linked) -> Vec<u8> {
    let mut file = vec![0; IMAGE_AT];
    let mut header = Fields(&mut file);
    header.bytes(0, &elf::ELFMAG);
    header.bytes(4, &[elf::ELFCLASS64, elf::ELFDATA2LSB, elf::EV_CURRENT]);
    header.u16(16, elf::ET_EXEC);
    header.u16(18, elf::EM_X86_64);
    header.u32(20, elf::EV_CURRENT.into());
    header.u64(24, linked.base + linked.pvh_entry);
    header.u64(32, HEADER_LEN as u64);
    header.u16(52, HEADER_LEN as u16);
    header.u16(54, PROGRAM_HEADER_LEN as u16);
    header.u16(56, linked.segments.len() as u16 + 1);

    let (note, note_len) = linked.note;
    let loads = linked.segments.iter().map(|segment| {
        let rights = [
            (segment.executable, elf::PF_X),
            (segment.writable, elf::PF_W),
        ];
        let rights = rights
            .iter()
            .filter(|(has, _)| *has)
            .map(|(_, right)| right)
            .sum::<u32>();
        (
            elf::PT_LOAD,
            rights,
            segment.offset,
            segment.len,
            segment.memory_len,
        )
    });
    let notes = [(elf::PT_NOTE, 0, note, note_len, note_len)];
    for (index, (kind, rights, offset, len, memory_len)) in loads.chain(notes).enumerate() {
        let at = HEADER_LEN + index * PROGRAM_HEADER_LEN;
        header.u32(at, kind);
        header.u32(at + 4, elf::PF_R | rights);
        header.u64(at + 8, IMAGE_AT as u64 + offset);
        header.u64(at + 16, linked.base + offset);
        header.u64(at + 24, linked.base + offset);
        header.u64(at + 32, len);
        header.u64(at + 40, memory_len);
        header.u64(at + 48, if kind == elf::PT_NOTE { 4 } else { 4096 });
    }
    file.extend_from_slice(&linked.flat);
    file
}

#[cfg(test)]
mod tests {
    use object::read::elf::ElfFile64;
    use object::{Object, ObjectSegment};

    use super::*;
    use crate::testing::linked;

    #[test]
    fn another_reader_finds_the_segments_and_the_entry() {
        let linked = linked();
        let image = image(&linked);
        let elf = ElfFile64::<object::LittleEndian>::parse(&image[..]).unwrap();
        assert_eq!(elf.entry(), linked.base + linked.pvh_entry);
        let segments: Vec<_> = elf.segments().collect();
        assert_eq!(segments.len(), linked.segments.len());
        for (found, segment) in segments.iter().zip(&linked.segments) {
            let begin = segment.offset as usize;
            let bytes = &linked.flat[begin..begin + segment.len as usize];
            assert_eq!(found.data().unwrap(), bytes);
            assert_eq!(found.size(), segment.memory_len);
        }
    }
}
