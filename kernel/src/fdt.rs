//! The flattened device tree that tells Hermit about the machine.
//!
//! Only the few nodes that Hermit reads; the format is the Devicetree
//! Specification's, version 17.

use core::ops::Range;

const MAGIC: u32 = 0xd00d_feed;
const VERSION: u32 = 17;
const LAST_COMPATIBLE_VERSION: u32 = 16;
const HEADER_LEN: usize = 40;
/// One terminating entry of the memory reservation block.
const RESERVATIONS_LEN: usize = 16;

const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROP: u32 = 3;
const END: u32 = 9;

/// Property names, each at its place in the strings block.
const STRINGS: &[u8] = b"#address-cells\0#size-cells\0compatible\0bootargs\0reg\0khz\0";
const ADDRESS_CELLS: u32 = 0;
const SIZE_CELLS: u32 = 15;
const COMPATIBLE: u32 = 27;
const BOOTARGS: u32 = 38;
const REG: u32 = 47;
const KHZ: u32 = 51;

/// What the tree says.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a> {
    /// Physical memory that Hermit may use.
    pub memory: &'a [Range<u64>],
    /// Physical address of the ACPI root pointer.
    pub rsdp: Option<u64>,
    /// Time-stamp counter's frequency in kHz.
    pub tsc_khz: u32,
}

/// The buffer has no room for the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BufferTooSmall;

/// Writes the tree to the start of `buffer` and returns its length in bytes.
///
/// # Errors
///
/// [`BufferTooSmall`]; nothing in `buffer` is of use then.
pub fn write(buffer: &mut [u8], machine: &Machine<'_>) -> Result<usize, BufferTooSmall> {
    let structure_at = HEADER_LEN + RESERVATIONS_LEN;
    let mut writer = Writer {
        buffer,
        at: structure_at,
    };
    root(&mut writer, machine)?;
    let strings_at = writer.at;
    writer.bytes(STRINGS)?;
    let total = writer.at;

    let buffer = writer.buffer;
    buffer[HEADER_LEN..structure_at].fill(0);
    let header = [
        MAGIC,
        total as u32,
        structure_at as u32,
        strings_at as u32,
        HEADER_LEN as u32,
        VERSION,
        LAST_COMPATIBLE_VERSION,
        0,
        STRINGS.len() as u32,
        (strings_at - structure_at) as u32,
    ];
    for (field, value) in buffer[..HEADER_LEN].chunks_exact_mut(4).zip(header) {
        field.copy_from_slice(&value.to_be_bytes());
    }
    Ok(total)
}

fn root(writer: &mut Writer<'_>, machine: &Machine<'_>) -> Result<(), BufferTooSmall> {
    writer.begin_node("", None)?;
    writer.property(ADDRESS_CELLS, &2u32.to_be_bytes())?;
    writer.property(SIZE_CELLS, &2u32.to_be_bytes())?;
    writer.property(COMPATIBLE, b"uniperf\0")?;

    // The command line stays with the appliance: Hermit would take some of its
    // words for its own, and stop at an unbalanced quote.
    writer.begin_node("chosen", None)?;
    writer.property(BOOTARGS, b"\0")?;
    writer.end_node()?;

    writer.begin_node("hermit,tsc", None)?;
    writer.property(KHZ, &machine.tsc_khz.to_be_bytes())?;
    writer.end_node()?;

    if let Some(rsdp) = machine.rsdp {
        writer.begin_node("hermit,rsdp", None)?;
        writer.reg(rsdp, 1)?;
        writer.end_node()?;
    }
    for region in machine.memory.iter().filter(|region| !region.is_empty()) {
        writer.begin_node("memory", Some(region.start))?;
        writer.reg(region.start, region.end - region.start)?;
        writer.end_node()?;
    }
    writer.end_node()?;
    writer.cell(END)
}

struct Writer<'a> {
    buffer: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> Result<(), BufferTooSmall> {
        self.buffer
            .get_mut(self.at..self.at + bytes.len())
            .ok_or(BufferTooSmall)?
            .copy_from_slice(bytes);
        self.at += bytes.len();
        Ok(())
    }

    fn cell(&mut self, value: u32) -> Result<(), BufferTooSmall> {
        self.bytes(&value.to_be_bytes())
    }

    fn pad(&mut self) -> Result<(), BufferTooSmall> {
        while !self.at.is_multiple_of(4) {
            self.bytes(&[0])?;
        }
        Ok(())
    }

    fn begin_node(&mut self, name: &str, unit: Option<u64>) -> Result<(), BufferTooSmall> {
        self.cell(BEGIN_NODE)?;
        self.bytes(name.as_bytes())?;
        if let Some(unit) = unit {
            self.bytes(b"@")?;
            for digit in (0..16).rev() {
                let digit = (unit >> (digit * 4)) & 0xf;
                self.bytes(&[b"0123456789abcdef"[digit as usize]])?;
            }
        }
        self.bytes(&[0])?;
        self.pad()
    }

    fn end_node(&mut self) -> Result<(), BufferTooSmall> {
        self.cell(END_NODE)
    }

    fn property(&mut self, name: u32, value: &[u8]) -> Result<(), BufferTooSmall> {
        self.cell(PROP)?;
        self.cell(value.len() as u32)?;
        self.cell(name)?;
        self.bytes(value)?;
        self.pad()
    }

    fn reg(&mut self, address: u64, len: u64) -> Result<(), BufferTooSmall> {
        let mut value = [0; 16];
        value[..8].copy_from_slice(&address.to_be_bytes());
        value[8..].copy_from_slice(&len.to_be_bytes());
        self.property(REG, &value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEMORY: [Range<u64>; 3] = [
        0x40_0000..0x300_0000,
        0x1000..0x1000,
        0x1_0000_0000..0x2_0000_0000,
    ];

    fn tree(buffer: &mut [u8]) -> fdt::Fdt<'_> {
        let machine = Machine {
            memory: &MEMORY,
            rsdp: Some(0xf_59c0),
            tsc_khz: 2_803_207,
        };
        let len = write(buffer, &machine).unwrap();
        fdt::Fdt::new(&buffer[..len]).unwrap()
    }

    #[test]
    fn another_reader_finds_every_node() {
        let mut buffer = [0xaa; 1024];
        let tree = tree(&mut buffer);
        assert_eq!(tree.root().compatible().first(), "uniperf");
        assert_eq!(tree.chosen().bootargs(), Some(""));
        let khz = tree
            .find_node("/hermit,tsc")
            .unwrap()
            .property("khz")
            .unwrap();
        assert_eq!(khz.as_usize(), Some(2_803_207));
        let rsdp = tree
            .find_node("/hermit,rsdp")
            .unwrap()
            .reg()
            .unwrap()
            .next()
            .unwrap();
        assert_eq!(rsdp.starting_address as u64, 0xf_59c0);
    }

    #[test]
    fn memory_is_listed_without_empty_regions() {
        let mut buffer = [0; 1024];
        let tree = tree(&mut buffer);
        let regions: Vec<_> = tree
            .find_all_nodes("/memory")
            .map(|node| node.reg().unwrap().next().unwrap())
            .map(|region| {
                let start = region.starting_address as u64;
                start..start + region.size.unwrap() as u64
            })
            .collect();
        assert_eq!(regions, [MEMORY[0].clone(), MEMORY[2].clone()]);
    }

    #[test]
    fn a_short_buffer_is_refused_at_every_length() {
        let machine = Machine {
            memory: &MEMORY,
            rsdp: None,
            tsc_khz: 1,
        };
        let mut buffer = [0; 1024];
        let len = write(&mut buffer, &machine).unwrap();
        for short in HEADER_LEN + RESERVATIONS_LEN..len {
            assert_eq!(write(&mut buffer[..short], &machine), Err(BufferTooSmall));
        }
    }
}
