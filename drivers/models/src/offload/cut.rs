//! The cutting of a TCP super-segment.

use super::checksum::fill_checksums;
use super::packet::{Ip, Layout, Transport};

/// FIN and PSH belong into the last segment only.
const LAST_ONLY: u8 = 0x09;

/// Cuts the super-segment `frame` into segments of at most `mss` payload bytes with
/// their lengths, numbers and checksums, and hands each to `segment`. `None` where it is
/// no TCP packet, its headers do not fit in, or `mss` is 0.
pub(crate) fn cut(frame: &[u8], mss: usize, mut segment: impl FnMut(&[u8])) -> Option<usize> {
    let layout = Layout::of(frame)?;
    if layout.kind != Some(Transport::Tcp) || mss == 0 {
        return None;
    }
    let header = usize::from(*frame.get(layout.transport + 12)? >> 4) * 4;
    let start = layout.transport + header;
    if header < 20 || start > frame.len() {
        return None;
    }
    let (headers, payload) = frame.split_at(start);
    let number = |at: usize| -> [u8; 4] { std::array::from_fn(|byte| headers[at + byte]) };
    let sequence = u32::from_be_bytes(number(layout.transport + 4));
    let id = u16::from_be_bytes([headers[layout.network + 4], headers[layout.network + 5]]);
    let count = payload.len().div_ceil(mss).max(1);
    let mut out = Vec::with_capacity(start + mss);
    for index in 0..count {
        let piece = &payload[index * mss..payload.len().min((index + 1) * mss)];
        out.clear();
        out.extend_from_slice(headers);
        out.extend_from_slice(piece);
        let sequence = sequence.wrapping_add((index * mss) as u32);
        out[layout.transport + 4..][..4].copy_from_slice(&sequence.to_be_bytes());
        if index + 1 < count {
            out[layout.transport + 13] &= !LAST_ONLY;
        }
        let packet = out.len() - layout.network;
        match layout.ip {
            Ip::V4 => {
                out[layout.network + 2..][..2].copy_from_slice(&(packet as u16).to_be_bytes());
                let id = id.wrapping_add(index as u16);
                out[layout.network + 4..][..2].copy_from_slice(&id.to_be_bytes());
            }
            Ip::V6 => {
                let len = (packet - 40) as u16;
                out[layout.network + 4..][..2].copy_from_slice(&len.to_be_bytes());
            }
        }
        fill_checksums(&mut out, true, true);
        segment(&out);
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::checksum::tests::ipv4;
    use super::super::checksum::verdict;
    use super::*;

    fn segment(payload: &[u8]) -> Vec<u8> {
        let mut tcp = vec![
            0, 1, 0, 2, 0xff, 0xff, 0xff, 0xf0, 0, 0, 0, 9, 0x80, 0x19, 1, 0,
        ];
        tcp.extend([0, 0, 0, 0]);
        tcp.extend([1; 12]);
        tcp.extend(payload);
        ipv4(6, &tcp)
    }

    #[test]
    fn segments_are_numbered_and_only_the_last_ends_the_stream() {
        let mut all = Vec::new();
        let count = cut(&segment(&[7; 250]), 100, |frame| all.push(frame.to_vec()));
        assert_eq!(count, Some(3));
        let sequences: Vec<_> = all.iter().map(|frame| frame[38..42].to_vec()).collect();
        assert_eq!(sequences[0], [0xff, 0xff, 0xff, 0xf0]);
        assert_eq!(sequences[1], [0, 0, 0, 0x54]);
        assert_eq!(
            all.iter().map(|frame| frame[47]).collect::<Vec<_>>(),
            [0x10, 0x10, 0x19]
        );
        assert_eq!(
            all.iter().map(|frame| frame[19]).collect::<Vec<_>>(),
            [0x34, 0x35, 0x36]
        );
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_all_sums_are_right(
            payload in prop::collection::vec(any::<u8>(), 0..5000), mss in 1usize..3000
        ) {
            let mut joined = Vec::new();
            let mut right = true;
            cut(&segment(&payload), mss, |frame| {
                right &= verdict(frame).tcp && verdict(frame).ip && frame.len() <= 66 + mss;
                joined.extend_from_slice(&frame[66..]);
            });
            prop_assert!(right);
            prop_assert_eq!(joined, payload);
        }

        #[test]
        fn no_bytes_make_it_fail(frame in prop::collection::vec(any::<u8>(), 0..200), mss in 0usize..100) {
            cut(&frame, mss, |_| {});
        }
    }
}
