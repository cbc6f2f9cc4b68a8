//! Firmware images: what a card can tell of one, and one for tests.
//!
//! A model runs no LANai code. It believes an image whose header is right and whose
//! bytes are known: those that Myricom has published, by their checksums, and the ones
//! that [`synthetic`] makes, which carry their own. All others do what damaged code
//! does: nothing.

use super::layout::{STRING_SPECS, STRING_SPECS_LEN, word};

/// Where an image says where its header is.
const HEADER_POINTER: usize = 0x3c;
/// Bytes of a header that all images have.
const HEADER_LEN: usize = 152;
const VERSION: usize = 8;
const VERSION_LEN: usize = 128;
const SRAM_SIZE: usize = 140;
const SPECS: usize = 144;
const SPECS_LEN: usize = 148;

/// An Ethernet firmware.
const TYPE_ETH: u32 = u32::from_be_bytes(*b"ETH ");
/// The boot ROM's, which does no more than to load another.
const TYPE_PCIE: u32 = u32::from_be_bytes(*b"PCIE");

/// Length and CRC-32 of the published images of version 1.4.57: eth, ethp, and the two
/// with slices.
const PUBLISHED: [(usize, u32); 4] = [
    (378_736, 0xecc7_e038),
    (389_056, 0x09bb_7863),
    (536_176, 0x25a4_f271),
    (545_920, 0xbf40_e014),
];

/// Where synthetic images have the checksum of all bytes behind it.
const OWN_CHECKSUM: usize = 0x44;
const SYNTHETIC_LEN: usize = 4096;
const SYNTHETIC_HEADER: usize = 0x100;

/// What an image is, if it is one that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    /// It wants the host's completions aligned to 8 bytes, and in turn reads 4 KiB at
    /// once.
    pub(super) wants_aligned: bool,
}

/// What `image` is.
///
/// # Errors
///
/// Why a card would not run it.
pub(super) fn examine(image: &[u8]) -> Result<Kind, String> {
    if image.len() < HEADER_POINTER + 4 {
        return Err(format!("firmware of {} bytes", image.len()));
    }
    let header = word(image, HEADER_POINTER) as usize;
    let end = header.checked_add(HEADER_LEN);
    if !header.is_multiple_of(4) || end.is_none_or(|end| end > image.len()) {
        return Err(format!("firmware with its header at {header:#x}"));
    }
    let kind = word(image, header + 4);
    if kind != TYPE_ETH {
        return Err(format!("firmware of the type {kind:#010x}"));
    }
    if !is_whole(image) {
        return Err("firmware that is damaged, or not known".into());
    }
    let version = &image[header + VERSION..][..VERSION_LEN];
    let has_mark = version.windows(3).any(|text| text == b"-P-");
    Ok(Kind {
        wants_aligned: !has_mark,
    })
}

fn is_whole(image: &[u8]) -> bool {
    let sum = crc32fast::hash(image);
    let own = image.get(OWN_CHECKSUM..OWN_CHECKSUM + 4);
    let is_synthetic = own.is_some_and(|own| own == own_checksum(image));
    is_synthetic || PUBLISHED.contains(&(image.len(), sum))
}

fn own_checksum(image: &[u8]) -> [u8; 4] {
    crc32fast::hash(&image[OWN_CHECKSUM + 4..]).to_be_bytes()
}

/// An image that the model runs as it runs Myricom's, `aligned` as `eth` is or not as
/// `ethp` is, of a version such as `1.4.57`.
pub fn synthetic(aligned: bool, version: &str) -> Vec<u8> {
    let mark = if aligned { "--" } else { "-P-" };
    let mut image = with_header(TYPE_ETH, &format!("{version} {mark} synthetic firmware"));
    let code = image.iter_mut().enumerate().skip(0x400);
    code.for_each(|(at, byte)| *byte = ((at * 31) >> 3) as u8);
    let sum = own_checksum(&image);
    image[OWN_CHECKSUM..OWN_CHECKSUM + 4].copy_from_slice(&sum);
    image
}

/// What the SRAM of a card holds whose boot ROM runs.
pub(super) fn boot_rom() -> Vec<u8> {
    with_header(TYPE_PCIE, "1.2.0 boot")
}

fn with_header(kind: u32, version: &str) -> Vec<u8> {
    let mut image = vec![0; SYNTHETIC_LEN];
    let mut put = |at: usize, value: u32| {
        image[at..at + 4].copy_from_slice(&value.to_be_bytes());
    };
    put(HEADER_POINTER, SYNTHETIC_HEADER as u32);
    put(SYNTHETIC_HEADER, HEADER_LEN as u32);
    put(SYNTHETIC_HEADER + 4, kind);
    put(SYNTHETIC_HEADER + SRAM_SIZE, super::layout::SRAM as u32);
    put(SYNTHETIC_HEADER + SPECS, STRING_SPECS as u32);
    put(SYNTHETIC_HEADER + SPECS_LEN, STRING_SPECS_LEN as u32);
    let text = version.as_bytes();
    let len = text.len().min(VERSION_LEN - 1);
    image[SYNTHETIC_HEADER + VERSION..][..len].copy_from_slice(&text[..len]);
    image
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn synthetic_images_run_and_others_do_not() {
        for aligned in [true, false] {
            let image = synthetic(aligned, "1.4.57");
            let wants_aligned = aligned;
            assert_eq!(examine(&image), Ok(Kind { wants_aligned }));
            for at in [0x3f, 0x46, 0x104, 0x500, 4000] {
                let mut damaged = image.clone();
                damaged[at] ^= 0x10;
                assert!(examine(&damaged).is_err(), "{at:#x}");
            }
            assert!(examine(&image[..image.len() - 4]).is_err());
        }
        assert!(examine(&boot_rom()).is_err());
        assert!(examine(&[]).is_err());
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(mut image in prop::collection::vec(any::<u8>(), 0..600), at in 0u32..700) {
            if let Some(pointer) = image.get_mut(0x3c..0x40) {
                pointer.copy_from_slice(&at.to_be_bytes());
            }
            prop_assert!(examine(&image).is_err());
        }
    }
}
