//! `boot_params`, the record that a loader leaves for Linux (the kernel's
//! Documentation/arch/x86/boot.rst and zero-page.rst).

use core::num::NonZeroU64;

use uniperf_kernel::handover::{Channel, Pixels, Screen};
use uniperf_kernel::memory::{Kind, Region};

/// Bytes of the record.
pub const LEN: usize = 4096;

const VIDEO_MODE: usize = 0x06;
const VIDEO_COLUMNS: usize = 0x07;
const VIDEO_ROWS: usize = 0x0e;
const VIDEO_TYPE: usize = 0x0f;
const FRAME_WIDTH: usize = 0x12;
const FRAME_HEIGHT: usize = 0x14;
const FRAME_DEPTH: usize = 0x16;
const FRAME_BASE: usize = 0x18;
const FRAME_PITCH: usize = 0x24;
const FRAME_CHANNELS: usize = 0x26;
const FRAME_CAPABILITIES: usize = 0x36;
const FRAME_BASE_HIGH: usize = 0x3a;
const RSDP: usize = 0x70;
const INITRD_HIGH: usize = 0xc0;
const INITRD_LEN_HIGH: usize = 0xc4;
const COMMAND_LINE_HIGH: usize = 0xc8;
const EFI_SIGNATURE: usize = 0x1c0;
const EFI_SYSTEM_TABLE: usize = 0x1c4;
const EFI_SYSTEM_TABLE_HIGH: usize = 0x1d8;
const E820_COUNT: usize = 0x1e8;
const MAGIC: usize = 0x202;
const INITRD: usize = 0x218;
const INITRD_LEN: usize = 0x21c;
const COMMAND_LINE: usize = 0x228;
const SETUP_DATA: usize = 0x250;
const E820: usize = 0x2d0;
const E820_LEN: usize = 20;
const MOST_E820: usize = 128;

/// Bit of the capabilities: the frame buffer's address has an upper half.
const CAPABILITY_64_BIT_BASE: u32 = 1 << 1;

const VIDEO_TEXT: u8 = 0x01;
const VIDEO_VESA: u8 = 0x23;
const VIDEO_EFI: u8 = 0x70;
const VGA_TEXT: u64 = 0xb_8000;

/// A record's bytes.
#[derive(Clone, Copy)]
pub struct Params<'a>(&'a [u8; LEN]);

impl<'a> Params<'a> {
    /// The record in `bytes`; `None` without the protocol's signature.
    pub fn new(bytes: &'a [u8; LEN]) -> Option<Self> {
        (bytes[MAGIC..MAGIC + 4] == *b"HdrS").then_some(Self(bytes))
    }

    /// Physical address of the zero-terminated command line.
    pub fn command_line(self) -> Option<NonZeroU64> {
        NonZeroU64::new(self.split(COMMAND_LINE, COMMAND_LINE_HIGH))
    }

    /// Physical address of the ACPI root pointer.
    pub fn rsdp(self) -> Option<NonZeroU64> {
        NonZeroU64::new(u64::from(self.u32(RSDP)) | u64::from(self.u32(RSDP + 4)) << 32)
    }

    /// Physical address of the 64-bit UEFI system table.
    pub fn efi_system_table(self) -> Option<NonZeroU64> {
        (self.0[EFI_SIGNATURE..EFI_SIGNATURE + 4] == *b"EL64")
            .then(|| NonZeroU64::new(self.split(EFI_SYSTEM_TABLE, EFI_SYSTEM_TABLE_HIGH)))
            .flatten()
    }

    /// Where the initial RAM file system lies.
    pub fn initrd(self) -> Option<Region> {
        let start = self.split(INITRD, INITRD_HIGH);
        let len = self.split(INITRD_LEN, INITRD_LEN_HIGH);
        (start != 0 && len != 0).then_some(start..start.saturating_add(len))
    }

    /// Physical address of the first `setup_data`, by which more is told.
    pub fn setup_data(self) -> u64 {
        u64::from(self.u32(SETUP_DATA)) | u64::from(self.u32(SETUP_DATA + 4)) << 32
    }

    /// The memory map.
    pub fn memory(self) -> impl Iterator<Item = (Region, Kind)> + Clone + use<'a> {
        let count = usize::from(self.0[E820_COUNT]).min(MOST_E820);
        e820(&self.0[E820..E820 + count * E820_LEN])
    }

    /// The screen in the mode that it was left in.
    pub fn screen(self) -> Option<Screen> {
        let (columns, rows) = (self.0[VIDEO_COLUMNS], self.0[VIDEO_ROWS]);
        match self.0[VIDEO_TYPE] {
            VIDEO_TEXT if columns > 0 && rows > 0 && is_colour_text(self.0[VIDEO_MODE]) => {
                Some(Screen::Text {
                    address: VGA_TEXT,
                    columns: u16::from(columns),
                    rows: u16::from(rows),
                })
            }
            VIDEO_VESA | VIDEO_EFI => self.pixels().map(Screen::Pixels),
            _ => None,
        }
    }

    fn pixels(self) -> Option<Pixels> {
        let high = self.u32(FRAME_CAPABILITIES) & CAPABILITY_64_BIT_BASE != 0;
        let high = if high { self.u32(FRAME_BASE_HIGH) } else { 0 };
        let channel = |index: usize| Channel {
            bits: self.0[FRAME_CHANNELS + index * 2],
            shift: self.0[FRAME_CHANNELS + index * 2 + 1],
        };
        let pixels = Pixels {
            address: u64::from(self.u32(FRAME_BASE)) | u64::from(high) << 32,
            width: u32::from(self.u16(FRAME_WIDTH)),
            height: u32::from(self.u16(FRAME_HEIGHT)),
            pitch: u32::from(self.u16(FRAME_PITCH)),
            bits: u8::try_from(self.u16(FRAME_DEPTH)).ok()?,
            red: channel(0),
            green: channel(1),
            blue: channel(2),
        };
        (pixels.address != 0).then_some(pixels)
    }

    fn split(self, low: usize, high: usize) -> u64 {
        u64::from(self.u32(low)) | u64::from(self.u32(high)) << 32
    }

    fn u16(self, at: usize) -> u16 {
        u16::from_le_bytes([self.0[at], self.0[at + 1]])
    }

    fn u32(self, at: usize) -> u32 {
        u32_at(self.0, at)
    }
}

/// The value of the word `acpi_rsdp=0x…` of a command line.
pub fn rsdp_word(command_line: &[u8]) -> Option<NonZeroU64> {
    let word = command_line
        .split(u8::is_ascii_whitespace)
        .find_map(|word| word.strip_prefix(b"acpi_rsdp=0x"))?;
    NonZeroU64::new(u64::from_str_radix(core::str::from_utf8(word).ok()?, 16).ok()?)
}

/// The entries of an e820 table, of which those that are cut off are left out.
pub fn e820(table: &[u8]) -> impl Iterator<Item = (Region, Kind)> + Clone + use<'_> {
    table.chunks_exact(E820_LEN).map(|entry| {
        let word = |at| u64::from(u32_at(entry, at)) | u64::from(u32_at(entry, at + 4)) << 32;
        let start = word(0);
        (
            start..start.saturating_add(word(8)),
            Kind::of_e820(u32_at(entry, 16)),
        )
    })
}

/// The modes of a VGA's text memory at 0xb8000.
fn is_colour_text(mode: u8) -> bool {
    mode <= 3
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> [u8; LEN] {
        let mut bytes = [0; LEN];
        bytes[MAGIC..MAGIC + 4].copy_from_slice(b"HdrS");
        bytes
    }

    fn set(bytes: &mut [u8; LEN], at: usize, value: &[u8]) {
        bytes[at..at + value.len()].copy_from_slice(value);
    }

    #[test]
    fn an_empty_record_says_nothing() {
        let bytes = record();
        let params = Params::new(&bytes).unwrap();
        assert_eq!(params.command_line(), None);
        assert_eq!(params.rsdp(), None);
        assert_eq!(params.initrd(), None);
        assert_eq!(params.screen(), None);
        assert_eq!(params.memory().count(), 0);
        assert!(Params::new(&[0; LEN]).is_none());
    }

    #[test]
    fn addresses_have_two_halves() {
        let mut bytes = record();
        set(&mut bytes, COMMAND_LINE, &0x2000_u32.to_le_bytes());
        set(&mut bytes, COMMAND_LINE_HIGH, &1_u32.to_le_bytes());
        set(&mut bytes, INITRD, &0x4000_u32.to_le_bytes());
        set(&mut bytes, INITRD_LEN, &0x100_u32.to_le_bytes());
        set(&mut bytes, INITRD_HIGH, &2_u32.to_le_bytes());
        set(&mut bytes, RSDP, &0xf_5a10_u64.to_le_bytes());
        let params = Params::new(&bytes).unwrap();
        assert_eq!(params.command_line().unwrap().get(), 0x1_0000_2000);
        assert_eq!(params.setup_data(), 0);
        assert_eq!(params.initrd(), Some(0x2_0000_4000..0x2_0000_4100));
        assert_eq!(params.rsdp().unwrap().get(), 0xf_5a10);
    }

    #[test]
    fn the_root_pointer_may_be_a_word_of_the_command_line() {
        let word = |line: &str| rsdp_word(line.as_bytes()).map(NonZeroU64::get);
        assert_eq!(
            word("ip=dhcp acpi_rsdp=0x7fb7e014 rx=poll"),
            Some(0x7fb7_e014)
        );
        assert_eq!(word("acpi_rsdp=0x"), None);
        assert_eq!(word("acpi_rsdp=0xfffffffffffffffff"), None);
        assert_eq!(word("acpi_rsdp=7"), None);
    }

    #[test]
    fn the_system_table_is_told_of_by_64_bit_firmware_only() {
        let mut bytes = record();
        set(&mut bytes, EFI_SYSTEM_TABLE, &0x7f9e_e018_u32.to_le_bytes());
        set(&mut bytes, EFI_SIGNATURE, b"EL32");
        assert_eq!(Params::new(&bytes).unwrap().efi_system_table(), None);
        set(&mut bytes, EFI_SIGNATURE, b"EL64");
        let table = Params::new(&bytes).unwrap().efi_system_table();
        assert_eq!(table.unwrap().get(), 0x7f9e_e018);
    }

    #[test]
    fn the_memory_map_is_as_long_as_it_says() {
        let mut bytes = record();
        bytes[E820_COUNT] = 2;
        let entries: [(u64, u64, u32); 3] =
            [(0, 0x9_fc00, 1), (0xf_0000, 0x1_0000, 2), (1 << 20, 1, 1)];
        for (index, (start, len, kind)) in entries.iter().enumerate() {
            let entry = [
                &start.to_le_bytes()[..],
                &len.to_le_bytes(),
                &kind.to_le_bytes(),
            ];
            set(&mut bytes, E820 + index * E820_LEN, &entry.concat());
        }
        let params = Params::new(&bytes).unwrap();
        let memory: Vec<_> = params.memory().collect();
        assert_eq!(
            memory,
            [
                (0..0x9_fc00, Kind::Usable),
                (0xf_0000..0x10_0000, Kind::Other)
            ]
        );
    }

    #[test]
    fn screens_are_text_or_pixels() {
        let mut bytes = record();
        bytes[VIDEO_TYPE] = VIDEO_TEXT;
        bytes[VIDEO_MODE] = 3;
        bytes[VIDEO_COLUMNS] = 80;
        bytes[VIDEO_ROWS] = 25;
        let text = Screen::Text {
            address: VGA_TEXT,
            columns: 80,
            rows: 25,
        };
        assert_eq!(Params::new(&bytes).unwrap().screen(), Some(text));
        bytes[VIDEO_MODE] = 0x12;
        assert_eq!(Params::new(&bytes).unwrap().screen(), None);

        bytes[VIDEO_TYPE] = VIDEO_EFI;
        set(&mut bytes, FRAME_WIDTH, &1280_u16.to_le_bytes());
        set(&mut bytes, FRAME_HEIGHT, &800_u16.to_le_bytes());
        set(&mut bytes, FRAME_DEPTH, &32_u16.to_le_bytes());
        set(&mut bytes, FRAME_PITCH, &5120_u16.to_le_bytes());
        set(&mut bytes, FRAME_BASE, &0xc000_0000_u32.to_le_bytes());
        set(&mut bytes, FRAME_BASE_HIGH, &0x40_u32.to_le_bytes());
        set(&mut bytes, FRAME_CHANNELS, &[8, 16, 8, 8, 8, 0]);
        let pixels = |bytes: &[u8; LEN]| match Params::new(bytes).unwrap().screen() {
            Some(Screen::Pixels(pixels)) => pixels,
            other => panic!("{other:?}"),
        };
        assert_eq!(pixels(&bytes).address, 0xc000_0000);
        set(
            &mut bytes,
            FRAME_CAPABILITIES,
            &CAPABILITY_64_BIT_BASE.to_le_bytes(),
        );
        let pixels = pixels(&bytes);
        assert_eq!(pixels.address, 0x40_c000_0000);
        assert_eq!(
            (pixels.width, pixels.height, pixels.pitch),
            (1280, 800, 5120)
        );
        assert_eq!(
            (pixels.red.shift, pixels.green.shift, pixels.blue.shift),
            (16, 8, 0)
        );
    }

    proptest! {
        #[test]
        fn any_record_is_survived(bytes in proptest::collection::vec(any::<u8>(), LEN)) {
            let mut bytes: [u8; LEN] = bytes.try_into().unwrap();
            set(&mut bytes, MAGIC, b"HdrS");
            let params = Params::new(&bytes).unwrap();
            let _ = (params.command_line(), params.initrd(), params.screen(), params.rsdp());
            prop_assert!(params.memory().count() <= MOST_E820);
        }

        #[test]
        fn any_e820_table_is_survived(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            prop_assert_eq!(e820(&bytes).count(), bytes.len() / E820_LEN);
        }
    }
}
