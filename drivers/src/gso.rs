//! Software segmentation: cuts a super-segment just above a driver that cannot,
//! into the very segments that a NIC with TSO would send.
//!
//! Which header fields change from segment to segment is common to all NICs
//! (Intel's 8254x manual, 3.5.9, says it well): lengths and checksums, the IPv4
//! identification, the TCP sequence number, and the flags that belong to the
//! first or the last segment only.

use crate::nic::{Offload, Transmit, TxError};

/// Bytes of an Ethernet header.
pub(crate) const ETHERNET: usize = 14;
/// Where the checksum lies in an IPv4 header.
pub(crate) const IPV4_CHECKSUM: usize = 10;
/// Where the checksum lies in a TCP header.
pub(crate) const TCP_CHECKSUM: usize = 16;

const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP_HEADER: usize = 20;
/// TCP's protocol number.
const TCP: u64 = 6;

/// Where fields lie in an IPv4 header.
mod ipv4 {
    pub const TOTAL_LENGTH: usize = 2;
    pub const IDENTIFICATION: usize = 4;
    pub const ADDRESSES: core::ops::Range<usize> = 12..20;
}

/// Where fields lie in an IPv6 header.
mod ipv6 {
    pub const PAYLOAD_LENGTH: usize = 4;
    pub const ADDRESSES: core::ops::Range<usize> = 8..40;
}

/// Where fields lie in a TCP header (RFC 9293, 3.1; RFC 3168 for CWR).
mod tcp {
    pub const SEQUENCE: usize = 4;
    pub const DATA_OFFSET: usize = 12;
    pub const FLAGS: usize = 13;
    pub const FIN: u8 = 1 << 0;
    pub const PSH: u8 = 1 << 3;
    pub const CWR: u8 = 1 << 7;
}

/// How a super-segment is to be cut: [`Offload::Tso`] for software.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// Whether the super-segment is IPv6.
    pub ipv6: bool,
    /// Payload bytes a segment.
    pub mss: u16,
    /// Whether the NIC fills in the TCP checksums
    /// ([`tx_checksum`](crate::nic::Capabilities::tx_checksum)).
    pub checksum_offload: bool,
}

/// How many segments `payload` bytes make.
pub const fn segments(payload: usize, mss: u16) -> usize {
    payload.div_ceil(mss as usize)
}

/// The shortest Ethernet, IP and TCP headers.
pub(crate) const fn shortest_headers(ipv6: bool) -> usize {
    ETHERNET + if ipv6 { IPV6_HEADER } else { IPV4_HEADER } + TCP_HEADER
}

/// Queues the segments of a super-segment, all of them or none, and returns how
/// many they are.
///
/// `frame` holds headers and payload as for [`Offload::Tso`]: lengths and
/// checksums may hold anything. CWR is right too: it stands in the first
/// segment only. Payload is copied once, into the transmit buffers. As with
/// [`Transmit::send`], nothing is on the wire before a flush.
///
/// # Errors
///
/// [`TxError::RingFull`] if not all segments have room now, and
/// [`TxError::Unsupported`] if they never will: more than the whole ring,
/// longer than the MTU, or no payload behind TCP headers that add up.
pub fn send<T: Transmit>(tx: &mut T, frame: &[u8], cut: Cut) -> Result<usize, TxError> {
    let layout = Layout::of(frame, cut.ipv6).ok_or(TxError::Unsupported)?;
    let (headers, payload) = frame.split_at(layout.end);
    if payload.is_empty() || cut.mss == 0 {
        return Err(TxError::Unsupported);
    }
    let count = segments(payload.len(), cut.mss);
    if count > tx.capacity() {
        return Err(TxError::Unsupported);
    }
    if count > tx.free() {
        return Err(TxError::RingFull);
    }
    let offload = if cut.checksum_offload {
        Offload::Checksum {
            start: layout.tcp as u16,
            offset: (layout.tcp + TCP_CHECKSUM) as u16,
        }
    } else {
        Offload::None
    };
    for (index, part) in payload.chunks(cut.mss.into()).enumerate() {
        // The first is the longest: if it is accepted, all are.
        tx.send(headers.len() + part.len(), &[], offload, |segment| {
            let (head, body) = segment.split_at_mut(headers.len());
            head.copy_from_slice(headers);
            body.copy_from_slice(part);
            let last = index + 1 == count;
            layout.number(head, index, cut.mss, last);
            layout.complete(head, body.len());
            if !cut.checksum_offload {
                layout.sum_up(segment);
            }
        })?;
    }
    Ok(count)
}

/// Where the headers of a super-segment lie.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    ipv6: bool,
    /// First byte of the TCP header.
    tcp: usize,
    /// First byte of the payload.
    end: usize,
}

impl Layout {
    /// Finds the Ethernet, IP and TCP headers at the start of `frame`, if they
    /// lie inside it.
    fn of(frame: &[u8], ipv6: bool) -> Option<Self> {
        let ip_header = if ipv6 {
            IPV6_HEADER
        } else {
            usize::from(frame.get(ETHERNET)? & 0x0f) * 4
        };
        let tcp = ETHERNET + ip_header;
        let tcp_header = usize::from(frame.get(tcp + tcp::DATA_OFFSET)? >> 4) * 4;
        let end = tcp + tcp_header;
        let adds_up = ip_header >= IPV4_HEADER && tcp_header >= TCP_HEADER && end <= frame.len();
        adds_up.then_some(Self { ipv6, tcp, end })
    }

    /// The same where it is too late to refuse. For a frame whose headers do not
    /// add up, of more than [`shortest_headers`], they are taken to be those.
    pub(crate) fn assumed(frame: &[u8], ipv6: bool) -> Self {
        let end = shortest_headers(ipv6);
        Self::of(frame, ipv6).unwrap_or(Self {
            ipv6,
            tcp: end - TCP_HEADER,
            end,
        })
    }

    /// The first byte of the payload.
    pub(crate) fn end(self) -> usize {
        self.end
    }

    /// The first byte of the TCP header.
    pub(crate) fn tcp(self) -> usize {
        self.tcp
    }

    /// Turns the headers of the super-segment into those of segment `index`,
    /// but for lengths and checksums.
    fn number(self, headers: &mut [u8], index: usize, mss: u16, last: bool) {
        let (ip, tcp) = headers[ETHERNET..].split_at_mut(self.tcp - ETHERNET);
        if !self.ipv6 {
            let identification = get16(ip, ipv4::IDENTIFICATION).wrapping_add(index as u16);
            put16(ip, ipv4::IDENTIFICATION, identification);
        }
        let field = &mut tcp[tcp::SEQUENCE..][..4];
        let sequence = u32::from_be_bytes([field[0], field[1], field[2], field[3]]);
        let sent = index as u32 * u32::from(mss);
        field.copy_from_slice(&sequence.wrapping_add(sent).to_be_bytes());
        if !last {
            tcp[tcp::FLAGS] &= !(tcp::FIN | tcp::PSH);
        }
        if index > 0 {
            tcp[tcp::FLAGS] &= !tcp::CWR;
        }
    }

    /// Writes lengths, the IPv4 checksum, and into the TCP checksum the sum of
    /// the pseudo-header, for a segment with `payload` bytes.
    pub(crate) fn complete(self, headers: &mut [u8], payload: usize) {
        let (ip, tcp) = headers[ETHERNET..].split_at_mut(self.tcp - ETHERNET);
        let tcp_len = tcp.len() + payload;
        if self.ipv6 {
            put16(ip, ipv6::PAYLOAD_LENGTH, tcp_len as u16);
        } else {
            put16(ip, ipv4::TOTAL_LENGTH, (ip.len() + tcp_len) as u16);
            put16(ip, IPV4_CHECKSUM, 0);
            let checksum = !fold(sum(ip));
            put16(ip, IPV4_CHECKSUM, checksum);
        }
        self.put_pseudo_header(ip, tcp, tcp_len);
    }

    /// The same with lengths of 0 and no IPv4 checksum, for a NIC that adds
    /// them segment by segment.
    pub(crate) fn complete_without_lengths(self, headers: &mut [u8]) {
        let (ip, tcp) = headers[ETHERNET..].split_at_mut(self.tcp - ETHERNET);
        if self.ipv6 {
            put16(ip, ipv6::PAYLOAD_LENGTH, 0);
        } else {
            put16(ip, ipv4::TOTAL_LENGTH, 0);
            put16(ip, IPV4_CHECKSUM, 0);
        }
        self.put_pseudo_header(ip, tcp, 0);
    }

    fn put_pseudo_header(self, ip: &[u8], tcp: &mut [u8], tcp_len: usize) {
        let addresses = if self.ipv6 {
            &ip[ipv6::ADDRESSES]
        } else {
            &ip[ipv4::ADDRESSES]
        };
        let pseudo_header = fold(sum(addresses) + TCP + tcp_len as u64);
        put16(tcp, TCP_CHECKSUM, pseudo_header);
    }

    /// Turns the pseudo-header's sum into the TCP checksum.
    fn sum_up(self, segment: &mut [u8]) {
        let tcp = &mut segment[self.tcp..];
        let checksum = !fold(sum(tcp));
        put16(tcp, TCP_CHECKSUM, checksum);
    }
}

fn get16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_be_bytes());
}

/// Adds up 16-bit words without folding (RFC 1071): 32 bits at a time, which
/// folds to the same.
fn sum(bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(4);
    let mut sum = 0;
    for word in &mut words {
        sum += u64::from(u32::from_be_bytes([word[0], word[1], word[2], word[3]]));
    }
    let mut rest = [0; 4];
    rest[..words.remainder().len()].copy_from_slice(words.remainder());
    sum + u64::from(u32::from_be_bytes(rest))
}

/// Folds a sum to 16 bits with end-around carry.
fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
