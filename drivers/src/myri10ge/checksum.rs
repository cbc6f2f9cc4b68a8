//! What the card's partial checksum says of a received frame.
//!
//! The card sums whatever is behind the Ethernet header. With the pseudo-header in place
//! of the IP header, which sums to nothing if it is right, that is TCP's or UDP's own
//! checksum (RFC 1071); what a short frame was padded with counts too, and is zero.

use crate::nic::RxChecksum;

const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];
const IPV4_HEADER: usize = 20;
const IPV6_HEADER: usize = 40;
const TCP: u8 = 6;
const UDP: u8 = 17;
/// Where UDP has its checksum, which may be left out over IPv4 (RFC 768).
const UDP_CHECKSUM: usize = 6;
/// Where it has its length, which its checksum goes by.
const UDP_LENGTH: usize = 4;

/// The ones' complement sum of `bytes`, on top of `sum`. They are few.
#[inline]
fn add(sum: u32, bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<2>();
    let words = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)));
    sum + words.sum::<u32>() + rest.first().map_or(0, |byte| u32::from(*byte) << 8)
}

#[inline]
fn fold(sum: u32) -> u32 {
    let sum = (sum & 0xffff) + (sum >> 16);
    (sum & 0xffff) + (sum >> 16)
}

/// The verdict on `frame`, behind whose Ethernet header the card counted `sum`.
pub fn verdict(frame: &[u8], sum: u16) -> RxChecksum {
    match frame.get(ETHERNET - 2..ETHERNET) {
        Some(kind) if kind == IPV4 => ipv4(&frame[ETHERNET..], sum.into()),
        Some(kind) if kind == IPV6 => ipv6(&frame[ETHERNET..], sum.into()),
        _ => RxChecksum::Unknown,
    }
}

fn ipv4(packet: &[u8], sum: u32) -> RxChecksum {
    let Some(first) = packet.first() else {
        return RxChecksum::Unknown;
    };
    let len = usize::from(first & 0xf) * 4;
    let total = packet
        .get(2..4)
        .map_or(0, |len| usize::from(len[0]) << 8 | usize::from(len[1]));
    let header = packet.get(..len).unwrap_or_default();
    if header.len() < IPV4_HEADER || total < len || total > packet.len() {
        return RxChecksum::Unknown;
    }
    if fold(add(0, header)) != 0xffff {
        return RxChecksum::Bad;
    }
    let is_fragment = (header[6] & 0x3f, header[7]) != (0, 0);
    let protocol = header[9];
    let datagram = &packet[len..total];
    let is_summed = match protocol {
        TCP => true,
        UDP => is_whole(datagram) && datagram[UDP_CHECKSUM..UDP_CHECKSUM + 2] != [0, 0],
        _ => false,
    };
    if is_fragment || !is_summed {
        return RxChecksum::IpGood;
    }
    // The header's own sum is zero in ones' complement, so it stays in.
    let pseudo = add((total - len) as u32 + u32::from(protocol), &header[12..20]);
    judge(packet, total, sum + fold(pseudo), RxChecksum::IpGood)
}

fn ipv6(packet: &[u8], sum: u32) -> RxChecksum {
    let Some(header) = packet.get(..IPV6_HEADER) else {
        return RxChecksum::Unknown;
    };
    let len = usize::from(header[4]) << 8 | usize::from(header[5]);
    let total = IPV6_HEADER + len;
    let protocol = header[6];
    if header[0] >> 4 != 6 || total > packet.len() || !matches!(protocol, TCP | UDP) {
        return RxChecksum::Unknown;
    }
    if protocol == UDP && !is_whole(&packet[IPV6_HEADER..total]) {
        return RxChecksum::Unknown;
    }
    // This header has no checksum: all of it was counted, and is taken out again.
    let counted = fold(add(0, header)) ^ 0xffff;
    let pseudo = add(len as u32 + u32::from(protocol), &header[8..40]);
    judge(
        packet,
        total,
        sum + counted + fold(pseudo),
        RxChecksum::Unknown,
    )
}

/// Whether a UDP datagram is all that its packet carries. A shorter one is summed by its
/// own length (RFC 768), and what is behind it is in the card's sum.
fn is_whole(datagram: &[u8]) -> bool {
    let length = datagram.get(UDP_LENGTH..UDP_LENGTH + 2);
    datagram.len() > UDP_CHECKSUM + 1
        && length.is_some_and(|at| usize::from(at[0]) << 8 | usize::from(at[1]) == datagram.len())
}

/// The verdict by the sum over pseudo-header, transport header and payload, where what is
/// behind the packet counts for nothing; else `otherwise`.
fn judge(packet: &[u8], total: usize, sum: u32, otherwise: RxChecksum) -> RxChecksum {
    if packet[total..].iter().any(|byte| *byte != 0) {
        return otherwise;
    }
    if fold(sum) == 0xffff {
        RxChecksum::Good
    } else {
        RxChecksum::Bad
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sum(bytes: &[u8]) -> u16 {
        let mut sum = 0_u32;
        for pair in bytes.chunks(2) {
            let word = u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]);
            sum += u32::from(word);
            sum = (sum & 0xffff) + (sum >> 16);
        }
        sum as u16
    }

    /// A frame whose checksums are right, with `options` of IPv4.
    fn packet(v6: bool, protocol: u8, options: usize, payload: &[u8]) -> Vec<u8> {
        packet_with(v6, protocol, options, payload, &[])
    }

    /// The same with bytes in the packet `behind` what TCP or UDP says is its own.
    fn packet_with(
        v6: bool,
        protocol: u8,
        options: usize,
        payload: &[u8],
        behind: &[u8],
    ) -> Vec<u8> {
        let mut transport = vec![0; if protocol == TCP { 20 } else { 8 }];
        transport.extend_from_slice(payload);
        if protocol == UDP {
            let length = (transport.len() as u16).to_be_bytes();
            transport[UDP_LENGTH..UDP_LENGTH + 2].copy_from_slice(&length);
        }
        let place = if protocol == TCP { 16 } else { 6 };
        let mut pseudo = Vec::new();
        let addresses: Vec<u8> = (1..=32).collect();
        let addresses = if v6 { &addresses[..] } else { &addresses[..8] };
        pseudo.extend_from_slice(addresses);
        pseudo.extend((transport.len() as u32).to_be_bytes());
        pseudo.extend(u32::from(protocol).to_be_bytes());
        pseudo.extend_from_slice(&transport);
        let checksum = match !sum(&pseudo) {
            0 => 0xffff,
            sum => sum,
        };
        transport[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
        transport.extend_from_slice(behind);
        let mut frame = vec![2; 12];
        if v6 {
            frame.extend(IPV6);
            frame.extend([0x60, 0, 0, 0]);
            frame.extend((transport.len() as u16).to_be_bytes());
            frame.extend([protocol, 64]);
            frame.extend_from_slice(addresses);
        } else {
            frame.extend(IPV4);
            let len = 20 + options;
            let mut header = vec![0x40 | (len / 4) as u8, 0];
            header.extend(((len + transport.len()) as u16).to_be_bytes());
            header.extend([7, 9, 0x40, 0, 64, protocol, 0, 0]);
            header.extend_from_slice(addresses);
            header.resize(len, 1);
            let checksum = !sum(&header);
            header[10..12].copy_from_slice(&checksum.to_be_bytes());
            frame.extend(header);
        }
        frame.extend(transport);
        frame
    }

    fn judged(frame: &[u8]) -> RxChecksum {
        verdict(frame, sum(&frame[14..]))
    }

    proptest! {
        #[test]
        fn right_packets_are_good_and_wrong_ones_never(
            v6: bool, tcp: bool, options in 0usize..11, padding in 0usize..40,
            payload in prop::collection::vec(any::<u8>(), 0..200), at: usize, flip in 0u8..8
        ) {
            let protocol = if tcp { TCP } else { UDP };
            let mut frame = packet(v6, protocol, options * 4, &payload);
            let len = frame.len();
            frame.resize(len + padding, 0);
            prop_assert_eq!(judged(&frame), RxChecksum::Good);
            let at = 14 + at % (len - 14);
            // Traffic class, flow label and hop limit are in no checksum.
            prop_assume!(!(v6 && matches!(at, 14..=17 | 21)));
            frame[at] ^= 1 << flip;
            prop_assert_ne!(judged(&frame), RxChecksum::Good);
        }

        #[test]
        fn no_bytes_make_it_fail(mut frame in prop::collection::vec(any::<u8>(), 0..120), sum: u16, v6: bool) {
            verdict(&frame, sum);
            if frame.len() > 14 {
                frame[12..14].copy_from_slice(&if v6 { IPV6 } else { IPV4 });
                verdict(&frame, sum);
            }
        }
    }

    #[test]
    fn fragments_others_and_udp_without_a_checksum_are_not_judged() {
        let mut fragment = packet(false, TCP, 0, &[1, 2, 3]);
        fragment[20] = 0x20;
        fragment[24..26].fill(0);
        let checksum = !sum(&fragment[14..34]);
        fragment[24..26].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(judged(&fragment), RxChecksum::IpGood);
        let mut udp = packet(false, UDP, 0, &[1, 2, 3]);
        udp[40..42].fill(0);
        assert_eq!(judged(&udp), RxChecksum::IpGood);
        let mut arp = vec![0; 60];
        arp[12..14].copy_from_slice(&[8, 6]);
        assert_eq!(judged(&arp), RxChecksum::Unknown);
    }

    #[test]
    fn a_udp_datagram_shorter_than_its_packet_is_not_judged() {
        for (v6, verdict) in [(false, RxChecksum::IpGood), (true, RxChecksum::Unknown)] {
            let mut frame = packet_with(v6, UDP, 0, &[1, 2, 3, 4], &[0xaa; 14]);
            assert_eq!(judged(&frame), verdict);
            // Its own sum is wrong now, and the one over the whole packet may be right.
            let place = if v6 { 60 } else { 40 };
            for high in 0..=255 {
                frame[place..place + 2].copy_from_slice(&[high, 7]);
                assert_eq!(judged(&frame), verdict);
            }
        }
        let mut short = packet(false, UDP, 0, &[]);
        short[16..18].copy_from_slice(&[0, 24]);
        short[24..26].fill(0);
        let checksum = !sum(&short[14..34]);
        short[24..26].copy_from_slice(&checksum.to_be_bytes());
        assert_eq!(judged(&short), RxChecksum::IpGood, "half a header");
    }

    #[test]
    fn padding_that_is_not_zero_is_no_verdict() {
        let mut frame = packet(false, TCP, 0, &[]);
        frame.extend([0, 5, 0, 0, 0, 0]);
        assert_eq!(judged(&frame), RxChecksum::IpGood);
    }
}
