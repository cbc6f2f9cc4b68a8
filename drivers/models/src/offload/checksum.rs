//! The Internet checksum (RFC 1071) in IPv4, TCP and UDP.

use super::packet::{Ip, Layout, Transport};

/// What a receiver's check of a frame came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RxVerdict {
    /// The IPv4 header's checksum is right.
    pub(crate) ip: bool,
    /// TCP's is.
    pub(crate) tcp: bool,
    /// UDP's is.
    pub(crate) udp: bool,
}

/// The ones' complement sum of `bytes`, added to `sum`.
fn add(mut sum: u64, bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<2>();
    sum += words
        .iter()
        .map(|word| u64::from(u16::from_be_bytes(*word)))
        .sum::<u64>();
    sum + rest.first().map_or(0, |byte| u64::from(*byte) << 8)
}

fn fold(mut sum: u64) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// The sum over pseudo-header, transport header and payload, with whatever is in the
/// checksum field.
fn transport_sum(frame: &[u8], layout: Layout, kind: Transport) -> u16 {
    let bytes = &frame[layout.transport..layout.end];
    let sum = u64::from(kind.protocol()) + bytes.len() as u64;
    fold(add(add(sum, layout.addresses(frame)), bytes))
}

fn ip_sum(frame: &[u8], layout: Layout) -> u16 {
    fold(add(0, &frame[layout.network..layout.transport]))
}

/// Checks what a receiving NIC checks. What it cannot tell is not right.
pub(crate) fn verdict(frame: &[u8]) -> RxVerdict {
    let Some(layout) = Layout::of(frame) else {
        return RxVerdict::default();
    };
    let ip = layout.ip == Ip::V4 && ip_sum(frame, layout) == 0xffff;
    let right =
        |wanted| layout.kind == Some(wanted) && transport_sum(frame, layout, wanted) == 0xffff;
    let summed = layout.kind != Some(Transport::Udp)
        || frame[layout.transport + 6..layout.transport + 8] != [0; 2];
    RxVerdict {
        ip,
        tcp: right(Transport::Tcp),
        udp: summed && right(Transport::Udp),
    }
}

/// Writes the checksums of IPv4 and of TCP or UDP into `frame` where `ip` and
/// `transport` ask for them. What is in the fields does not count. Whether it found what
/// it was asked for.
pub(crate) fn fill_checksums(frame: &mut [u8], ip: bool, transport: bool) -> bool {
    let Some(layout) = Layout::of(frame) else {
        return !ip && !transport;
    };
    if ip && layout.ip == Ip::V4 {
        let at = layout.network + 10;
        frame[at..at + 2].fill(0);
        let sum = !ip_sum(frame, layout);
        frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    if !transport {
        return true;
    }
    let Some(kind) = layout.kind else {
        return false;
    };
    let at = layout.transport + kind.checksum_offset();
    frame[at..at + 2].fill(0);
    let sum = match (kind, !transport_sum(frame, layout, kind)) {
        // No checksum at all is what zero would say (RFC 768).
        (Transport::Udp, 0) => 0xffff,
        (_, sum) => sum,
    };
    frame[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    true
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A frame with IPv4 and TCP or UDP headers, whose checksums are not filled in.
    pub(crate) fn ipv4(protocol: u8, transport: &[u8]) -> Vec<u8> {
        let mut frame = vec![2; 12];
        frame.extend([0x08, 0x00, 0x45, 0]);
        frame.extend((20 + transport.len() as u16).to_be_bytes());
        frame.extend([0x12, 0x34, 0x40, 0, 64, protocol, 0xaa, 0xaa]);
        frame.extend([10, 77, 0, 1, 10, 77, 0, 2]);
        frame.extend(transport);
        frame
    }

    #[test]
    fn a_known_header_has_the_known_checksum() {
        // RFC 1071's numbers, in a sum of its own.
        assert_eq!(
            fold(add(0, &[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7])),
            0xddf2
        );
    }

    #[test]
    fn a_frame_is_padded_behind_its_packet() {
        let mut frame = ipv4(6, &[0; 20]);
        frame[14 + 20 + 12] = 5 << 4;
        assert!(fill_checksums(&mut frame, true, true));
        frame.extend([9; 6]);
        let right = RxVerdict {
            ip: true,
            tcp: true,
            udp: false,
        };
        assert_eq!(verdict(&frame), right);
        frame[40] ^= 1;
        assert_eq!(
            verdict(&frame),
            RxVerdict {
                tcp: false,
                ..right
            }
        );
        frame[16] ^= 1;
        assert_eq!(verdict(&frame), RxVerdict::default());
    }

    #[test]
    fn fragments_and_other_protocols_are_not_summed() {
        let mut frame = ipv4(1, &[0; 20]);
        assert!(!fill_checksums(&mut frame, true, true));
        let ip = RxVerdict {
            ip: true,
            ..RxVerdict::default()
        };
        assert_eq!(verdict(&frame), ip);
        let mut fragment = ipv4(17, &[0, 1, 0, 2, 0, 8, 0, 0]);
        fragment[20] = 0x20;
        assert!(fill_checksums(&mut fragment, true, false));
        assert_eq!(verdict(&fragment), ip);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_fail(mut frame in prop::collection::vec(any::<u8>(), 0..200), ip: bool, transport: bool) {
            fill_checksums(&mut frame, ip, transport);
            verdict(&frame);
        }

        #[test]
        fn what_is_filled_in_is_right(payload in prop::collection::vec(any::<u8>(), 0..300), udp: bool) {
            let mut transport = vec![0; if udp { 8 } else { 20 }];
            transport.extend(payload);
            let protocol = if udp { 17 } else { 6 };
            let mut frame = ipv4(protocol, &transport);
            prop_assert!(fill_checksums(&mut frame, true, true));
            prop_assert_eq!(verdict(&frame), RxVerdict { ip: true, tcp: !udp, udp });
        }
    }
}
