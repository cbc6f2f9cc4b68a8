//! What a boot protocol hands over: one record, filled in by whichever started the
//! image. It owns all it says, as the memory that a loader said it in is free for
//! use from then on.

use core::num::NonZeroU64;

use crate::memory::{Kind, MemoryMap, Region};

/// Bytes of a command line that are kept.
pub const COMMAND_LINE_LEN: usize = 2048;

/// What is known of the machine before Hermit starts.
#[derive(Debug)]
pub struct Handover {
    /// The protocol's name, for the console.
    pub protocol: &'static str,
    /// The boot arguments.
    pub command_line: CommandLine,
    /// Physical address of the ACPI root pointer, where the loader knew it.
    pub rsdp: Option<NonZeroU64>,
    /// Usable RAM.
    pub memory: MemoryMap,
    /// What is to be cached: usable RAM, and that which firmware keeps its tables in.
    pub cached: MemoryMap,
    /// Where a file lies that was loaded next to the image: Linux's initrd,
    /// multiboot's first module.
    pub firmware: Option<Region>,
    /// The screen, where there is one and the loader described it.
    pub screen: Option<Screen>,
}

impl Handover {
    /// A record that says nothing yet.
    pub const fn new() -> Self {
        Self {
            protocol: "",
            command_line: CommandLine::new(),
            rsdp: None,
            memory: MemoryMap::new(),
            cached: MemoryMap::new(),
            firmware: None,
            screen: None,
        }
    }

    /// Takes over the firmware's memory map, in any order, overlapping or not.
    pub fn take_memory(&mut self, entries: impl Iterator<Item = (Region, Kind)> + Clone) {
        let where_it_is = |wanted: fn(Kind) -> bool| {
            entries
                .clone()
                .map(move |(region, kind)| (region, wanted(kind)))
        };
        self.memory.fill(where_it_is(|kind| kind == Kind::Usable));
        self.cached.fill(where_it_is(|kind| kind != Kind::Other));
    }
}

impl Default for Handover {
    fn default() -> Self {
        Self::new()
    }
}

/// A command line, cut where it is longer than [`COMMAND_LINE_LEN`].
#[derive(Debug)]
pub struct CommandLine {
    bytes: [u8; COMMAND_LINE_LEN],
    used: usize,
    cut: usize,
}

impl CommandLine {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            bytes: [0; COMMAND_LINE_LEN],
            used: 0,
            cut: 0,
        }
    }

    /// Appends bytes; those that find no room are counted.
    pub fn extend(&mut self, bytes: impl IntoIterator<Item = u8>) {
        for byte in bytes {
            match self.bytes.get_mut(self.used) {
                Some(place) => {
                    *place = byte;
                    self.used += 1;
                }
                None => self.cut += 1,
            }
        }
    }

    /// What was kept.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.used]
    }

    /// Bytes that there was no room for.
    pub fn cut(&self) -> usize {
        self.cut
    }
}

impl Default for CommandLine {
    fn default() -> Self {
        Self::new()
    }
}

/// What text can be shown on besides a serial line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Screen {
    /// VGA text: a character and an attribute byte a cell.
    Text {
        /// Physical address of the first cell.
        address: u64,
        /// Cells a row.
        columns: u16,
        /// Rows.
        rows: u16,
    },
    /// A linear frame buffer.
    Pixels(Pixels),
}

/// A linear frame buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pixels {
    /// Physical address of its first byte.
    pub address: u64,
    /// Pixels a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
    /// Bytes from a line to the next.
    pub pitch: u32,
    /// Bits a pixel: 16, 24 or 32.
    pub bits: u8,
    /// Where red is in a pixel.
    pub red: Channel,
    /// Where green is.
    pub green: Channel,
    /// Where blue is.
    pub blue: Channel,
}

/// One colour's place in a pixel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    /// Its lowest bit.
    pub shift: u8,
    /// How many bits it has.
    pub bits: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmwares_tables_are_cached_but_not_used() {
        let mut handover = Handover::new();
        let entries = [
            (0..4, Kind::Usable),
            (4..6, Kind::Tables),
            (6..9, Kind::Other),
            (9..12, Kind::Usable),
        ];
        handover.take_memory(entries.into_iter());
        assert_eq!(handover.memory.total(), 7);
        assert_eq!(handover.cached.total(), 9);
        assert!(handover.cached.regions().contains(&(0..6)));
    }

    #[test]
    fn a_command_line_that_is_too_long_is_cut_and_the_rest_counted() {
        let mut line = CommandLine::new();
        line.extend(*b"ip=dhcp");
        assert_eq!((line.bytes(), line.cut()), (&b"ip=dhcp"[..], 0));
        line.extend([b'x'; COMMAND_LINE_LEN]);
        assert_eq!(line.bytes().len(), COMMAND_LINE_LEN);
        assert_eq!(line.cut(), 7);
    }
}
