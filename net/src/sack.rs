//! Selective acknowledgements (RFC 2018) of more than one range.
//!
//! smoltcp reports one range in the acknowledgements that answer a segment, and
//! none in those that waited. A peer that has lost several segments of a window
//! then learns of them one by one. So acknowledgements are written anew on their
//! way out, with all that is held, as far as there is room.

use heapless::Vec;

use crate::checksum::Sum;
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TCP_HEADER, TcpFlags};

/// Most ranges in a header: four and the two bytes before them fill all but four
/// of the 40 bytes for options.
const MOST: usize = 4;
/// The first byte of the TCP header: smoltcp writes no IP options.
const TCP: usize = ETHERNET_HEADER + IPV4_HEADER;
/// The first byte of the options.
const OPTIONS: usize = TCP + TCP_HEADER;
/// RFC 2018 section 3.
const KIND: u8 = 5;
/// An option that is none, to fill up words (RFC 9293 section 3.1).
const NOTHING: u8 = 1;

/// Bytes of the longest acknowledgement, from its Ethernet header on.
pub const LONGEST: usize = OPTIONS + 4 + 8 * MOST;

/// Ranges of sequence numbers: the first byte of each, and the one behind its last.
pub type Blocks = Vec<(u32, u32), MOST>;

/// The first few of `ranges`.
pub fn blocks(ranges: impl Iterator<Item = (u32, u32)>) -> Blocks {
    ranges.take(MOST).collect()
}

/// Puts `blocks` into the bare acknowledgement at the start of `frame`, instead of
/// the options that it has. What it acknowledges already is left out, as it would
/// say that something came twice (RFC 2883). Any other segment is left as it is.
/// Returns the frame's length now, of which only the TCP checksum is not right.
///
/// `frame` must have room for [`LONGEST`] bytes.
pub fn report(frame: &mut [u8], len: usize, blocks: &Blocks) -> usize {
    let header = usize::from(frame[TCP + 12] >> 4) * 4;
    if !TcpFlags(frame[TCP + 13]).only_acknowledges() || TCP + header != len {
        return len;
    }
    let ack = u32::from_be_bytes([
        frame[TCP + 8],
        frame[TCP + 9],
        frame[TCP + 10],
        frame[TCP + 11],
    ]);
    let beyond = |(left, _): &&(u32, u32)| 0 < left.wrapping_sub(ack) as i32;
    let mut end = OPTIONS + 4;
    for (left, right) in blocks.iter().filter(beyond) {
        frame[end..end + 4].copy_from_slice(&left.to_be_bytes());
        frame[end + 4..end + 8].copy_from_slice(&right.to_be_bytes());
        end += 8;
    }
    if end == OPTIONS + 4 {
        return len;
    }
    let option = (end - OPTIONS - 2) as u8;
    frame[OPTIONS..OPTIONS + 4].copy_from_slice(&[NOTHING, NOTHING, KIND, option]);
    frame[TCP + 12] = ((end - TCP) as u8 / 4) << 4;
    let ip = &mut frame[ETHERNET_HEADER..TCP];
    ip[2..4].copy_from_slice(&((end - ETHERNET_HEADER) as u16).to_be_bytes());
    ip[10..12].fill(0);
    let checksum = Sum::default().add(ip).checksum();
    ip[10..12].copy_from_slice(&checksum);
    end
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{OUR_IP, PEER_IP, segment};
    use smoltcp::wire::{Ipv4Packet, TcpControl, TcpPacket, TcpRepr};

    fn with(frame: &[u8], ranges: &[(u32, u32)]) -> (alloc::vec::Vec<u8>, usize) {
        let mut buffer = frame.to_vec();
        buffer.resize(LONGEST, 0xee);
        let len = report(&mut buffer, frame.len(), &blocks(ranges.iter().copied()));
        (buffer, len)
    }

    #[test]
    fn an_acknowledgement_reports_all_that_is_beyond_it() {
        let frame = segment((PEER_IP, 1000), 7, TcpControl::None, 5, Some(100));
        let ranges = [(50, 100), (300, 400), (150, 200), (500, 600), (7, 8)];
        let (mut buffer, len) = with(&frame, &ranges);
        assert_eq!(len, OPTIONS + 4 + 24);
        let ip = Ipv4Packet::new_checked(&buffer[ETHERNET_HEADER..len]).unwrap();
        assert!(ip.verify_checksum());
        assert_eq!(usize::from(ip.total_len()), len - ETHERNET_HEADER);
        let mut tcp = TcpPacket::new_checked(&mut buffer[TCP..len]).unwrap();
        tcp.fill_checksum(&PEER_IP.into(), &OUR_IP.into());
        let tcp = TcpPacket::new_checked(&buffer[TCP..len]).unwrap();
        let repr = TcpRepr::parse(
            &tcp,
            &PEER_IP.into(),
            &OUR_IP.into(),
            &smoltcp::phy::ChecksumCapabilities::default(),
        );
        let expected = [Some((300, 400)), Some((150, 200)), Some((500, 600))];
        assert_eq!(repr.unwrap().sack_ranges, expected);
    }

    #[test]
    fn what_is_no_bare_acknowledgement_stays_as_it_is() {
        let ranges = [(300, 400)];
        for control in [TcpControl::Fin, TcpControl::Rst] {
            let frame = segment((PEER_IP, 1000), 7, control, 5, Some(100));
            let (buffer, len) = with(&frame, &ranges);
            assert_eq!((&buffer[..len], len), (&frame[..], frame.len()));
        }
        let mut data = segment((PEER_IP, 1000), 7, TcpControl::None, 5, Some(100));
        data.extend(b"bytes");
        assert_eq!(with(&data, &ranges).1, data.len());
        let acknowledged = segment((PEER_IP, 1000), 7, TcpControl::None, 5, Some(400));
        assert_eq!(with(&acknowledged, &ranges).1, acknowledged.len());
    }
}
