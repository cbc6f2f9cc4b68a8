//! The multiboot2 header (GNU Multiboot2 specification, version 2.0, 3.1): the
//! whole file is loaded, anywhere below 4 GiB, and entered in 32-bit mode.

use crate::linked::{Linked, PAGE};
use crate::page::{LEN, MULTIBOOT2_AT};

const MAGIC: u32 = 0xe852_50d6;
const PROTECTED_MODE_I386: u32 = 0;

const END: u16 = 0;
const ADDRESS: u16 = 2;
const ENTRY: u16 = 3;
const CONSOLE: u16 = 4;
const FRAME_BUFFER: u16 = 5;
const MODULE_ALIGNMENT: u16 = 6;
const RELOCATABLE: u16 = 10;

const REQUIRED: u16 = 0;
const OPTIONAL: u16 = 1;
/// The image can use VGA text.
const VGA_TEXT: u32 = 1 << 1;
const LOWEST: u32 = 1;

pub fn header(linked: &Linked) -> Vec<u8> {
    let base = linked.base as u32;
    let load = base - LEN as u32;
    let end = base + linked.memory_len as u32;
    let entry = base + linked.multiboot2_entry as u32;
    let tags = [
        tag(
            ADDRESS,
            REQUIRED,
            &[load + MULTIBOOT2_AT as u32, load, 0, end],
        ),
        tag(ENTRY, REQUIRED, &[entry]),
        tag(
            RELOCATABLE,
            REQUIRED,
            &[1 << 20, u32::MAX, PAGE as u32, LOWEST],
        ),
        tag(CONSOLE, OPTIONAL, &[VGA_TEXT]),
        tag(FRAME_BUFFER, OPTIONAL, &[0, 0, 0]),
        tag(MODULE_ALIGNMENT, OPTIONAL, &[]),
        tag(END, REQUIRED, &[]),
    ];
    let tags = tags.concat();
    let len = 16 + tags.len() as u32;
    let checksum = MAGIC
        .wrapping_add(PROTECTED_MODE_I386)
        .wrapping_add(len)
        .wrapping_neg();
    let mut header: Vec<u8> = [MAGIC, PROTECTED_MODE_I386, len, checksum]
        .iter()
        .flat_map(|w| w.to_le_bytes())
        .collect();
    header.extend(tags);
    header
}

/// A tag; the next one begins at a multiple of 8 bytes.
fn tag(kind: u16, flags: u16, words: &[u32]) -> Vec<u8> {
    let len = 8 + words.len() as u32 * 4;
    let mut bytes = [kind.to_le_bytes(), flags.to_le_bytes()].concat();
    bytes.extend(len.to_le_bytes());
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.resize(bytes.len().next_multiple_of(8), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::linked;

    #[test]
    fn the_words_of_the_head_add_up_to_zero_and_the_tags_to_the_length() {
        let header = header(&linked());
        let word = |at: usize| u32::from_le_bytes(header[at..at + 4].try_into().unwrap());
        assert_eq!(
            (0..4).fold(0_u32, |sum, n| sum.wrapping_add(word(n * 4))),
            0
        );
        assert_eq!(word(8) as usize, header.len());
        let mut at = 16;
        let mut kinds = Vec::new();
        while at < header.len() {
            kinds.push(word(at) as u16);
            at += (word(at + 4) as usize).next_multiple_of(8);
        }
        assert_eq!(at, header.len());
        assert_eq!(kinds.last(), Some(&END));
    }
}
