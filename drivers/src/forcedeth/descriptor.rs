//! What the flags of descriptors mean, in each format.

use super::ids::Format;
use crate::nic::RxChecksum;

/// The NIC owns it: to be sent, or to be filled.
pub const OWNED: u32 = 1 << 31;
/// It came back with an error.
const ERROR: u32 = 1 << 30;
/// Bytes of a buffer that a descriptor of the second or third format can have.
pub const LONGEST: usize = 1 << 14;
/// The same for the first format.
pub const LONGEST_V1: usize = 1 << 16;

/// Insert the IPv4 header's checksum.
const TX_CHECKSUM_L3: u32 = 1 << 27;
/// Insert the TCP or UDP checksum.
const TX_CHECKSUM_L4: u32 = 1 << 26;
/// Insert both.
pub const TX_CHECKSUMS: u32 = TX_CHECKSUM_L3 | TX_CHECKSUM_L4;
/// Cut a super-segment.
const TX_TSO: u32 = 1 << 28;
const TX_TSO_SHIFT: u32 = 14;

/// A transmit descriptor's request to cut by `mss`, which must be below 16384. It stands
/// where the requests for checksums do, and implies them.
pub const fn tx_cut(mss: u16) -> u32 {
    TX_TSO | (mss as u32) << TX_TSO_SHIFT
}

/// This is the frame's last buffer.
pub const fn tx_last(format: Format) -> u32 {
    match format {
        Format::V1 => 1 << 16,
        Format::V2 | Format::V3 => 1 << 29,
    }
}

/// What a transmit descriptor says of a frame, once the NIC has given it back.
pub const fn tx_failed(flags: u32) -> bool {
    flags & ERROR != 0
}

/// Flags of receive descriptors.
struct RxBits {
    valid: u32,
    /// The frame is one byte shorter than it says.
    subtract_one: u32,
    framing: u32,
    /// Its length field does not fit its length.
    length: u32,
    /// All kinds of errors.
    errors: u32,
    mask: u32,
}

const RX1: RxBits = RxBits {
    valid: 1 << 16,
    subtract_one: 1 << 18,
    framing: 1 << 29,
    length: 1 << 26,
    errors: 0x7f << 23,
    mask: 0xffff,
};
const RX2: RxBits = RxBits {
    valid: 1 << 29,
    subtract_one: 1 << 25,
    framing: 1 << 24,
    length: 1 << 21,
    errors: 0x7f << 18,
    mask: 0x3fff,
};

/// The IPv4 header's checksum is right.
const RX_CHECKSUM_IP: u32 = 1 << 28;
/// So is TCP's or UDP's: Linux and FreeBSD differ in which bit is whose, and neither
/// tells them apart.
const RX_CHECKSUM_IP_AND_27: u32 = RX_CHECKSUM_IP | 1 << 27;
const RX_CHECKSUM_IP_AND_26: u32 = RX_CHECKSUM_IP | 1 << 26;
const RX_CHECKSUMS: u32 = RX_CHECKSUM_IP_AND_27 | RX_CHECKSUM_IP_AND_26;

/// A receive descriptor that the NIC has given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A frame of so many bytes.
    Frame(usize),
    /// A frame with an error.
    Broken,
    /// A frame whose length is not what its length field says.
    WrongLength,
}

/// What `flags` say of a frame.
#[inline]
pub fn received(format: Format, flags: u32) -> Received {
    let bits = match format {
        Format::V1 => &RX1,
        Format::V2 | Format::V3 => &RX2,
    };
    let len = (flags & bits.mask) as usize;
    if flags & (bits.valid | ERROR) == bits.valid {
        return Received::Frame(len);
    }
    broken(bits, flags, len)
}

#[cold]
fn broken(bits: &RxBits, flags: u32, len: usize) -> Received {
    let errors = flags & bits.errors;
    if flags & bits.valid == 0 {
        Received::Broken
    } else if errors == bits.framing {
        // Some bits too many on the wire, and the frame is as it was sent. FreeBSD
        // forgives other errors with it, and Linux does not.
        Received::Frame(len - usize::from(flags & bits.subtract_one != 0 && len > 0))
    } else if errors == bits.length {
        // Linux cuts such a frame to what it says. No IP packet has a length field.
        Received::WrongLength
    } else {
        Received::Broken
    }
}

/// What a NIC that checks them says of a frame's checksums, in the second and third
/// format: the first has kinds of errors in these bits. It says nothing of those that are
/// wrong.
#[inline]
pub fn verdict(flags: u32) -> RxChecksum {
    match flags & RX_CHECKSUMS {
        RX_CHECKSUM_IP => RxChecksum::IpGood,
        RX_CHECKSUM_IP_AND_27 | RX_CHECKSUM_IP_AND_26 => RxChecksum::Good,
        // No frame is both.
        _ => RxChecksum::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn frames_and_errors_are_told_apart() {
        for (format, valid, crc, framing, length, less) in [
            (Format::V1, 1 << 16, 1 << 27, 1 << 29, 1 << 26, 1 << 18),
            (Format::V2, 1 << 29, 1 << 22, 1 << 24, 1 << 21, 1 << 25),
            (Format::V3, 1 << 29, 1 << 22, 1 << 24, 1 << 21, 1 << 25),
        ] {
            let of = |flags| received(format, flags);
            assert_eq!(of(valid | 60), Received::Frame(60));
            assert_eq!(of(60), Received::Broken);
            assert_eq!(of(valid | ERROR | crc | 60), Received::Broken);
            assert_eq!(of(valid | ERROR | framing | 60), Received::Frame(60));
            assert_eq!(of(valid | ERROR | framing | less | 60), Received::Frame(59));
            assert_eq!(of(valid | ERROR | framing | crc | 60), Received::Broken);
            assert_eq!(of(valid | ERROR | length | 60), Received::WrongLength);
        }
    }

    #[test]
    fn checksums_are_good_or_unknown() {
        assert_eq!(verdict(0x1400_0000), RxChecksum::Good);
        assert_eq!(verdict(0x1800_0000), RxChecksum::Good);
        assert_eq!(verdict(0x1000_0000), RxChecksum::IpGood);
        assert_eq!(verdict(0x0c00_0000), RxChecksum::Unknown);
        assert_eq!(verdict(0x1c00_0000), RxChecksum::Unknown);
    }

    proptest! {
        #[test]
        fn no_flags_say_more_bytes_than_a_descriptor_can(flags: u32) {
            for (format, most) in [(Format::V1, 0xffff), (Format::V2, 0x3fff), (Format::V3, 0x3fff)] {
                if let Received::Frame(len) = received(format, flags) {
                    prop_assert!(len <= most);
                }
            }
        }
    }
}
