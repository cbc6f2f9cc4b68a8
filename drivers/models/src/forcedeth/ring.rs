//! Descriptors in their three formats.

use super::registers::txrx;
use crate::dma::{Dma, DmaError};

/// A descriptor format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// 32-bit addresses, flags in the upper half of the second word.
    V1,
    /// 32-bit addresses, 14 bits of length, offloads.
    V2,
    /// The same with 64-bit addresses and a VLAN tag.
    V3,
}

/// Flags of a transmit descriptor, where their format has them.
#[derive(Clone, Copy, Debug)]
pub(super) struct TxFlags {
    pub(super) last: u32,
    pub(super) retry_error: u32,
    pub(super) carrier_lost: u32,
    pub(super) late_collision: u32,
    pub(super) underflow: u32,
    pub(super) forced_interrupt: u32,
}

/// Flags of a receive descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct RxFlags {
    pub(super) valid: u32,
    pub(super) subtract_one: u32,
    pub(super) length_error: u32,
    pub(super) crc_error: u32,
    pub(super) overflow: u32,
    pub(super) framing: u32,
    pub(super) symbol: u32,
}

/// The NIC owns the descriptor, in all formats: sent when clear, or received.
pub(super) const OWNED: u32 = 1 << 31;
/// Something went wrong, in all formats.
pub(super) const ERROR: u32 = 1 << 30;

pub(super) const TX2_TSO: u32 = 1 << 28;
pub(super) const TX2_TSO_SHIFT: u32 = 14;
pub(super) const TX2_CHECKSUM_L3: u32 = 1 << 27;
pub(super) const TX2_CHECKSUM_L4: u32 = 1 << 26;
pub(super) const TX3_VLAN_PRESENT: u32 = 1 << 18;

/// The sums were right. FreeBSD has TCP and UDP the other way round; both drivers take
/// either for the same.
pub(super) const RX2_CHECKSUM_IP: u32 = 1 << 28;
pub(super) const RX2_CHECKSUM_UDP: u32 = 1 << 27;
pub(super) const RX2_CHECKSUM_TCP: u32 = 1 << 26;
pub(super) const RX3_VLAN_PRESENT: u32 = 1 << 16;

const TX1: TxFlags = TxFlags {
    last: 1 << 16,
    retry_error: 1 << 19,
    carrier_lost: 1 << 27,
    late_collision: 1 << 28,
    underflow: 1 << 29,
    forced_interrupt: 1 << 24,
};

const TX2: TxFlags = TxFlags {
    last: 1 << 29,
    retry_error: 1 << 18,
    carrier_lost: 1 << 26,
    late_collision: 1 << 27,
    underflow: 1 << 28,
    forced_interrupt: 1 << 30,
};

const RX1: RxFlags = RxFlags {
    valid: 1 << 16,
    subtract_one: 1 << 18,
    length_error: 1 << 26,
    crc_error: 1 << 27,
    overflow: 1 << 28,
    framing: 1 << 29,
    symbol: 1 << 23,
};

const RX2: RxFlags = RxFlags {
    valid: 1 << 29,
    subtract_one: 1 << 25,
    length_error: 1 << 21,
    crc_error: 1 << 22,
    overflow: 1 << 23,
    framing: 1 << 24,
    symbol: 1 << 18,
};

impl Format {
    /// The one that the control register `control` says, and its number.
    pub(super) fn of(control: u32) -> (Option<Self>, u8) {
        let number = (control >> txrx::FORMAT_SHIFT & 3) as u8 + 1;
        let format = match number {
            1 => Some(Self::V1),
            2 => Some(Self::V2),
            3 => Some(Self::V3),
            _ => None,
        };
        (format, number)
    }

    /// Bytes of a descriptor.
    pub(super) fn len(self) -> u64 {
        match self {
            Self::V1 | Self::V2 => 8,
            Self::V3 => 16,
        }
    }

    pub(super) fn length_mask(self) -> u32 {
        match self {
            Self::V1 => 0xffff,
            Self::V2 | Self::V3 => 0x3fff,
        }
    }

    pub(super) fn tx(self) -> TxFlags {
        match self {
            Self::V1 => TX1,
            Self::V2 | Self::V3 => TX2,
        }
    }

    pub(super) fn rx(self) -> RxFlags {
        match self {
            Self::V1 => RX1,
            Self::V2 | Self::V3 => RX2,
        }
    }
}

/// A descriptor in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Descriptor {
    pub(super) buffer: u64,
    /// Format 3 only.
    pub(super) vlan: u32,
    pub(super) flags: u32,
}

/// A ring as the registers describe it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub(super) format: Format,
    pub(super) base: u64,
    /// Descriptors.
    pub(super) len: u32,
}

impl Ring {
    fn address(&self, index: u32) -> u64 {
        self.base.wrapping_add(u64::from(index) * self.format.len())
    }

    /// The index behind `index`.
    pub(super) fn after(&self, index: u32) -> u32 {
        (index + 1) % self.len
    }

    /// The flags word of descriptor `index`.
    pub(super) fn flags(&self, dma: &mut Dma, index: u32) -> Result<u32, DmaError> {
        dma.load32(self.address(index) + self.format.len() - 4)
    }

    /// Descriptor `index`, whose flags were read before the rest.
    pub(super) fn read(&self, dma: &mut Dma, index: u32) -> Result<Descriptor, DmaError> {
        let flags = self.flags(dma, index)?;
        let address = self.address(index);
        let low = |dma: &mut Dma, word: u64| dma.load32(address + 4 * word).map(u64::from);
        Ok(match self.format {
            Format::V1 | Format::V2 => Descriptor {
                buffer: low(dma, 0)?,
                vlan: 0,
                flags,
            },
            Format::V3 => Descriptor {
                buffer: low(dma, 0)? << 32 | low(dma, 1)?,
                vlan: dma.load32(address + 8)?,
                flags,
            },
        })
    }

    /// Writes the flags of descriptor `index`, after everything written before.
    pub(super) fn write_flags(
        &self,
        dma: &mut Dma,
        index: u32,
        flags: u32,
    ) -> Result<(), DmaError> {
        dma.store32(self.address(index) + self.format.len() - 4, flags)
    }

    /// Writes what a receive descriptor of format 3 has in place of the low half of its
    /// address: the VLAN tag.
    pub(super) fn write_tag(&self, dma: &mut Dma, index: u32, tag: u32) -> Result<(), DmaError> {
        match self.format {
            Format::V1 | Format::V2 => Ok(()),
            Format::V3 => dma.store32(self.address(index) + 4, tag),
        }
    }
}
