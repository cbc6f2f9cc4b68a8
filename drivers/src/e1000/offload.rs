//! What a frame's offload request comes to: a context descriptor, and what the
//! NIC wants to find in the headers (SDM 3.3.6, 3.3.7 and 3.5).

use super::pieces::Rules;
use super::regs::TxBits;
use crate::gso::{self, Layout};
use crate::nic::{TSO_INLINE, TxError};

/// Smallest MSS: the headers must not be cut in two (SDM 3.5.6), and a
/// descriptor may have to be as short as four segments.
const SMALLEST_MSS: u16 = 64;
/// The longest IP packet, behind an Ethernet header.
const LONGEST_SUPER_SEGMENT: usize = 14 + 65535;
/// The MSS down to which [`longest_super_segment`] has room in the ring.
const COMMON_MSS: u16 = 536;

/// The command of data descriptors whose TCP or UDP checksum the NIC inserts.
pub const CHECKSUMMED: TxBits = TxBits::DEXT
    .union(TxBits::DTYP_DATA)
    .union(TxBits::IFCS)
    .union(TxBits::POPTS_TXSM);

/// The command of a frame's last descriptor. A report for every frame: its
/// write-back shares the burst with its neighbours', and buffers come back in
/// order and at once.
pub const LAST: TxBits = TxBits::EOP.union(TxBits::RS);

/// A context descriptor: what the NIC is to do to the frames that follow it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// The lower half: where the two checksums start, go and end.
    pub low: u64,
    /// The upper half: the command, and the lengths of a super-segment.
    pub high: u64,
}

impl Context {
    /// One checksum from `start` to the end of a frame of `len` bytes.
    ///
    /// # Errors
    ///
    /// A field lies outside the frame, or where a descriptor cannot say so.
    pub fn checksum(start: u16, offset: u16, len: usize) -> Result<Self, TxError> {
        let inside = usize::from(start) < len && usize::from(offset) + 2 <= len;
        if !inside || start > 0xff || offset > 0xff {
            return Err(TxError::Unsupported);
        }
        // TCP keeps its checksum 16 bytes in. For UDP, at 6, the NIC sends a
        // result of 0 as 0xffff.
        let mut command = TxBits::DEXT;
        command.set(TxBits::TCP, offset.wrapping_sub(start) == 16);
        Ok(Self {
            low: (u64::from(start) | u64::from(offset) << 8) << 32,
            high: command.bits(),
        })
    }
}

/// What the NIC can cut, which depends on the part and on the link.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tso {
    /// IPv4.
    pub v4: bool,
    /// IPv6.
    pub v6: bool,
}

/// A super-segment, as [`Offload::Tso`](crate::nic::Offload::Tso) has it.
#[derive(Clone, Copy)]
pub struct SuperSegment {
    /// Whether it is IPv6.
    pub ipv6: bool,
    /// Payload bytes a segment.
    pub mss: u16,
}

impl SuperSegment {
    /// Whether the NIC can cut it. It has `len` bytes, of which `filled` are
    /// not payload by reference; no segment may exceed `max_frame`.
    pub fn fits(&self, tso: Tso, filled: usize, len: usize, max_frame: usize) -> bool {
        let can = if self.ipv6 { tso.v6 } else { tso.v4 };
        let inline = if len > filled { TSO_INLINE } else { 0 };
        let headers = gso::shortest_headers(self.ipv6);
        can && self.mss >= SMALLEST_MSS
            && headers + usize::from(self.mss) <= max_frame
            && headers + inline <= filled
            && headers < len
    }

    /// Makes the headers of a frame of `len` bytes, which `filled` begins with,
    /// what the NIC wants. Returns the context and the command of the data
    /// descriptors.
    ///
    /// What makes one segment only goes as a frame with a checksum: there is
    /// nothing to cut, and what is odd about cutting stays away.
    pub fn prepare(&self, filled: &mut [u8], len: usize) -> (Context, TxBits) {
        let layout = Layout::assumed(filled, self.ipv6);
        let headers = &mut filled[..layout.end()];
        let payload = len - headers.len();
        let start = layout.tcp() as u64;
        let offset = start + gso::TCP_CHECKSUM as u64;
        let tcp_checksum = (start | offset << 8) << 32;
        if payload <= self.mss.into() {
            layout.complete(headers, payload);
            let context = Context {
                low: tcp_checksum,
                high: (TxBits::DEXT | TxBits::TCP).bits(),
            };
            return (context, CHECKSUMMED);
        }
        // The NIC adds each segment's lengths to these (SDM 3.5.5).
        layout.complete_without_lengths(headers);
        let mut command = TxBits::DEXT | TxBits::TSE | TxBits::TCP;
        let mut insert = TxBits::TSE;
        let mut ip_checksum = gso::ETHERNET as u64;
        if !self.ipv6 {
            command |= TxBits::IP;
            insert |= TxBits::POPTS_IXSM;
            let offset = (gso::ETHERNET + gso::IPV4_CHECKSUM) as u64;
            ip_checksum |= offset << 8 | (start - 1) << 16;
        }
        let lengths = payload as u64 | (headers.len() as u64) << 40 | u64::from(self.mss) << 48;
        let context = Context {
            low: ip_checksum | tcp_checksum,
            high: lengths | command.bits(),
        };
        (context, CHECKSUMMED | insert)
    }
}

/// The longest super-segment that an empty ring of `descriptors` takes at any
/// usual MSS.
pub fn longest_super_segment(descriptors: usize, rules: Rules) -> usize {
    // Besides its pieces it needs a context and a sentinel, and one more for
    // either erratum.
    let pieces = descriptors.saturating_sub(4);
    let each = rules.longest_tso(COMMON_MSS) - rules.shortened();
    (pieces * each).min(LONGEST_SUPER_SEGMENT)
}
