//! PCI configuration space (PCI Local Bus Specification 3.0, chapter 6).

mod capability;

pub use capability::Capability;

/// Bytes of a conventional function's configuration space.
pub const CONFIG_LEN: usize = 256;

const VENDOR: usize = 0x00;
const DEVICE: usize = 0x02;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const REVISION: usize = 0x08;
const CLASS: usize = 0x09;
const CACHE_LINE_SIZE: usize = 0x0c;
const LATENCY: usize = 0x0d;
const BAR0: usize = 0x10;
const SUBSYSTEM: usize = 0x2c;
const CAPABILITIES: usize = 0x34;
const INTERRUPT_LINE: usize = 0x3c;
const INTERRUPT_PIN: usize = 0x3d;

/// Bus mastering, in the command register.
const MASTER: u16 = 1 << 2;
/// I/O and memory space, bus mastering, and INTx off: what a guest can write there.
const COMMAND_WRITABLE: u16 = 0x0407;
/// A capability list is there, in the status register.
const HAS_CAPABILITIES: u16 = 1 << 4;

/// What kind of function it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// Vendor and device id.
    pub id: (u16, u16),
    /// Revision.
    pub revision: u8,
    /// Base class, subclass and programming interface.
    pub class: [u8; 3],
    /// Subsystem's vendor and device id.
    pub subsystem: (u16, u16),
}

/// A base address register: what is behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bar {
    /// Nothing.
    None,
    /// Memory of so many bytes (a power of two), below 4 GiB, not prefetchable.
    Memory(u32),
    /// Memory of so many bytes (a power of two), anywhere and prefetchable: it takes the
    /// next register too.
    Memory64(u32),
    /// So many I/O ports (a power of two).
    Ports(u32),
}

impl Bar {
    /// Bytes or ports behind it.
    pub fn len(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Memory(len) | Self::Memory64(len) | Self::Ports(len) => len,
        }
    }

    /// Whether there is nothing behind it.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    fn value(self) -> u32 {
        match self {
            Self::None | Self::Memory(_) => 0,
            Self::Memory64(_) => 0b1100,
            Self::Ports(_) => 1,
        }
    }
}

/// How many messages a function can send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Messages {
    /// Of MSI.
    pub msi: u16,
    /// Of MSI-X.
    pub msix: u16,
}

/// Configuration space: its bytes, and which of their bits a guest can change.
#[derive(Clone, Debug)]
pub struct ConfigSpace {
    bytes: [u8; CONFIG_LEN],
    writable: [u8; CONFIG_LEN],
    bars: [Bar; 6],
    messages: Messages,
    /// Where the last capability's pointer to the next one is.
    link: usize,
    initial: Option<Box<[u8; CONFIG_LEN]>>,
}

impl ConfigSpace {
    /// That of a function of type 0 with the interrupt pin INTA.
    pub fn new(identity: Identity, bars: [Bar; 6]) -> Self {
        let mut space = Self {
            bytes: [0; CONFIG_LEN],
            writable: [0; CONFIG_LEN],
            bars,
            messages: Messages::default(),
            link: CAPABILITIES,
            initial: None,
        };
        space.put16(VENDOR, identity.id.0);
        space.put16(DEVICE, identity.id.1);
        space.bytes[REVISION] = identity.revision;
        let [base, sub, interface] = identity.class;
        space.bytes[CLASS..CLASS + 3].copy_from_slice(&[interface, sub, base]);
        space.put16(SUBSYSTEM, identity.subsystem.0);
        space.put16(SUBSYSTEM + 2, identity.subsystem.1);
        space.bytes[INTERRUPT_PIN] = 1;
        space.set_writable(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        space.set_writable(CACHE_LINE_SIZE, &[0xff]);
        space.set_writable(LATENCY, &[0xff]);
        space.set_writable(INTERRUPT_LINE, &[0xff]);
        for (index, bar) in bars.into_iter().enumerate() {
            space.put32(BAR0 + 4 * index, bar.value());
            if !bar.is_empty() {
                let bits = !(bar.len() - 1);
                space.set_writable(BAR0 + 4 * index, &bits.to_le_bytes());
            }
            if matches!(bar, Bar::Memory64(_)) {
                space.set_writable(BAR0 + 4 * index + 4, &[0xff; 4]);
            }
        }
        space
    }

    /// With `capability` at `offset`, as the next one of the list.
    #[must_use]
    pub fn with_capability(mut self, offset: u8, capability: &Capability) -> Self {
        let at = usize::from(offset);
        self.bytes[self.link] = offset;
        self.put16(STATUS, HAS_CAPABILITIES);
        for (index, (byte, writable)) in capability.bytes().enumerate() {
            self.bytes[at + index] = byte;
            self.writable[at + index] = writable;
        }
        self.link = at + 1;
        self.messages.msi += capability.messages().msi;
        self.messages.msix += capability.messages().msix;
        self
    }

    /// With a 32-bit register of the vendor's own at `offset`, that keeps what is
    /// written.
    #[must_use]
    pub fn with_private(mut self, offset: u8) -> Self {
        self.set_writable(offset.into(), &[0xff; 4]);
        self
    }

    /// What is behind the base address registers.
    pub fn bars(&self) -> [Bar; 6] {
        self.bars
    }

    /// How many messages it can send.
    pub fn messages(&self) -> Messages {
        self.messages
    }

    /// Vendor and device id.
    pub fn id(&self) -> (u16, u16) {
        (self.get16(VENDOR), self.get16(DEVICE))
    }

    /// The command register.
    pub fn command(&self) -> u16 {
        self.get16(COMMAND)
    }

    /// Writes the command register.
    pub fn set_command(&mut self, command: u16) {
        self.write(COMMAND, &command.to_le_bytes());
    }

    /// Whether the function may be a bus master.
    pub fn is_master(&self) -> bool {
        self.command() & MASTER != 0
    }

    /// Takes bus mastering away, as firmware or a bridge can.
    pub fn clear_master(&mut self) {
        self.put16(COMMAND, self.command() & !MASTER);
    }

    /// Has the 32-bit register at `offset` show `value`.
    pub(crate) fn show(&mut self, offset: usize, value: u32) {
        self.initial.get_or_insert_with(|| Box::new(self.bytes));
        self.put32(offset, value);
    }

    /// Reads `data.len()` bytes at `offset`; what is outside is all ones.
    pub fn read(&self, offset: usize, data: &mut [u8]) {
        for (at, byte) in (offset..).zip(data) {
            *byte = self.bytes.get(at).copied().unwrap_or(0xff);
        }
    }

    /// Writes `data` at `offset`, where a guest can.
    pub fn write(&mut self, offset: usize, data: &[u8]) {
        self.initial.get_or_insert_with(|| Box::new(self.bytes));
        for (at, byte) in (offset..).zip(data) {
            if let (Some(old), Some(mask)) = (self.bytes.get_mut(at), self.writable.get(at)) {
                *old = *old & !mask | byte & mask;
            }
        }
    }

    /// Takes it back to what it was before the first write.
    pub fn reset(&mut self) {
        if let Some(initial) = self.initial.take() {
            self.bytes = *initial;
        }
    }

    fn get16(&self, at: usize) -> u16 {
        u16::from_le_bytes([self.bytes[at], self.bytes[at + 1]])
    }

    fn put16(&mut self, at: usize, value: u16) {
        self.bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
    }

    fn put32(&mut self, at: usize, value: u32) {
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    }

    fn set_writable(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn space() -> ConfigSpace {
        let identity = Identity {
            id: (0x10de, 0x0373),
            revision: 0xa2,
            class: [6, 0x80, 0],
            subsystem: (0x1043, 0x8239),
        };
        let mut bars = [Bar::None; 6];
        bars[0] = Bar::Memory(4096);
        bars[1] = Bar::Ports(8);
        ConfigSpace::new(identity, bars)
            .with_capability(0x44, &Capability::power_management())
            .with_capability(0x50, &Capability::msi(3))
            .with_private(0x68)
    }

    fn read32(space: &ConfigSpace, at: usize) -> u32 {
        let mut data = [0; 4];
        space.read(at, &mut data);
        u32::from_le_bytes(data)
    }

    #[test]
    fn a_guest_sizes_the_bars_and_walks_the_capabilities() {
        let mut space = space();
        assert_eq!(read32(&space, 0), 0x0373_10de);
        assert_eq!(read32(&space, 8), 0x0680_00a2);
        for (bar, size) in [(0, 0xffff_f000), (1, 0xffff_fff9), (2, 0)] {
            space.write(BAR0 + 4 * bar, &[0xff; 4]);
            assert_eq!(read32(&space, BAR0 + 4 * bar), size);
        }
        let mut found = Vec::new();
        let mut at = read32(&space, CAPABILITIES) as usize & 0xff;
        while at != 0 {
            found.push((at, read32(&space, at) & 0xff));
            at = read32(&space, at) as usize >> 8 & 0xff;
        }
        assert_eq!(found, [(0x44, 1), (0x50, 5)]);
    }

    #[test]
    fn bus_mastering_is_what_the_command_register_says() {
        let mut space = space();
        assert!(!space.is_master());
        space.set_command(0xffff);
        assert!(space.is_master());
        assert_eq!(space.command(), COMMAND_WRITABLE);
        space.clear_master();
        assert!(!space.is_master());
        space.reset();
        assert_eq!(space.command(), 0);
    }

    proptest! {
        #[test]
        fn whatever_is_written_only_writable_bits_change(
            writes in prop::collection::vec((0usize..300, prop::collection::vec(any::<u8>(), 0..9)), 0..40)
        ) {
            let original = space();
            let mut space = original.clone();
            for (offset, data) in &writes {
                space.write(*offset, data);
            }
            for at in 0..CONFIG_LEN {
                let mask = original.writable[at];
                prop_assert_eq!(space.bytes[at] & !mask, original.bytes[at] & !mask);
            }
        }
    }
}
