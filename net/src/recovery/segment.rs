//! What loss recovery wants to know of a segment, received or sent.

use smoltcp::wire::{TcpOption, TcpPacket};

use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TCP_HEADER, TcpFlags, TcpFrame};

/// Whether sequence number `a` comes before `b` (RFC 9293 section 3.4).
pub fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// The later of two sequence numbers.
pub fn later(a: u32, b: u32) -> u32 {
    if before(a, b) { b } else { a }
}

/// A received segment's TCP header.
pub struct Header<'a> {
    packet: TcpPacket<&'a [u8]>,
}

impl<'a> Header<'a> {
    /// The header in a frame that was found to be sound.
    pub fn of(frame: &'a [u8]) -> Self {
        let ip_header = usize::from(frame[ETHERNET_HEADER] & 0xf) * 4;
        Self {
            packet: TcpPacket::new_unchecked(&frame[ETHERNET_HEADER + ip_header..]),
        }
    }

    /// The window field, not scaled.
    pub fn window(&self) -> u16 {
        self.packet.window_len()
    }

    /// Whether there are options.
    pub fn has_options(&self) -> bool {
        self.packet.header_len() > TCP_HEADER as u8
    }

    /// The options, up to the first that makes no sense.
    pub fn options(&self) -> impl Iterator<Item = TcpOption<'a>> {
        let mut rest = self.packet.options();
        core::iter::from_fn(move || {
            let (behind, option) = TcpOption::parse(rest).ok()?;
            rest = behind;
            (option != TcpOption::EndOfList).then_some(option)
        })
    }
}

/// What a SYN says of its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Largest segment that it takes, in payload bytes.
    pub mss: u16,
    /// By how many bits its window is shifted.
    pub shift: u8,
    /// Whether it reports what it holds beyond holes.
    pub sack: bool,
}

impl Offer {
    /// What a SYN's header says.
    pub fn read(header: &Header<'_>) -> Self {
        let mut offer = Self {
            // RFC 9293 section 3.7.1.
            mss: 536,
            shift: 0,
            sack: false,
        };
        for option in header.options() {
            match option {
                TcpOption::MaxSegmentSize(mss) if mss != 0 => offer.mss = mss,
                // RFC 7323 section 2.3.
                TcpOption::WindowScale(shift) => offer.shift = shift.min(14),
                TcpOption::SackPermitted => offer.sack = true,
                _ => {}
            }
        }
        offer
    }
}

/// A segment that smoltcp sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sent {
    /// The sequence number.
    pub seq: u32,
    /// The sequence number behind its last byte, SYN and FIN counted.
    pub end: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The window field, not scaled.
    pub window: u16,
    /// The flags byte.
    pub flags: TcpFlags,
    /// By how many bits later windows are shifted; a SYN says so.
    pub shift: u8,
}

impl Sent {
    /// What was written in a frame, which has no IP options.
    pub fn read(frame: &[u8]) -> Self {
        let header = Header::of(frame);
        let segment = &header.packet;
        let seq = segment.seq_number().0 as u32;
        Self {
            seq,
            end: seq.wrapping_add(segment.segment_len() as u32),
            ack: segment.ack_number().0 as u32,
            window: segment.window_len(),
            flags: TcpFlags(frame[FLAGS]),
            shift: if segment.syn() {
                Offer::read(&header).shift
            } else {
                0
            },
        }
    }

    /// Payload bytes.
    pub fn payload(&self) -> u64 {
        let controls = u32::from(self.flags.synchronizes()) + u32::from(self.flags.closes());
        u64::from(self.end.wrapping_sub(self.seq) - controls)
    }
}

/// Where the flags are in a frame without IP options.
const FLAGS: usize = ETHERNET_HEADER + IPV4_HEADER + 13;

/// Whether a segment is an acknowledgement and nothing else.
pub fn is_bare(segment: &TcpFrame) -> bool {
    segment.seq == segment.end && segment.flags.only_acknowledges()
}
