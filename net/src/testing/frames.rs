//! Frames made by hand.

use alloc::vec;
use alloc::vec::Vec;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::*;

use super::nic::OUR_MAC;

pub const OUR_IP: Ipv4Address = Ipv4Address::new(10, 0, 0, 2);
pub const PEER_IP: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);
pub const PEER_MAC: [u8; 6] = [0x02, 0, 0, 0, 0, 1];

/// An IPv4 packet in a frame, from the peer's station to ours.
pub fn ipv4(
    source: Ipv4Address,
    protocol: IpProtocol,
    len: usize,
    fill: impl FnOnce(&mut [u8]),
) -> Vec<u8> {
    let ip = Ipv4Repr {
        src_addr: source,
        dst_addr: OUR_IP,
        next_header: protocol,
        payload_len: len,
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(PEER_MAC),
        dst_addr: EthernetAddress(OUR_MAC.0),
        ethertype: EthernetProtocol::Ipv4,
    };
    let mut frame = vec![0; 14 + ip.buffer_len() + len];
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    ip.emit(
        &mut Ipv4Packet::new_unchecked(&mut frame[14..]),
        &ChecksumCapabilities::default(),
    );
    fill(&mut frame[34..]);
    frame
}

/// A TCP segment without payload and options.
pub fn segment(
    from: (Ipv4Address, u16),
    to: u16,
    control: TcpControl,
    seq: i32,
    ack: Option<i32>,
) -> Vec<u8> {
    tcp(from, to, control, seq, ack, &[])
}

/// A TCP segment with payload.
pub fn data(from: (Ipv4Address, u16), to: u16, seq: i32, ack: i32, payload: &[u8]) -> Vec<u8> {
    tcp(from, to, TcpControl::None, seq, Some(ack), payload)
}

fn tcp(
    from: (Ipv4Address, u16),
    to: u16,
    control: TcpControl,
    seq: i32,
    ack: Option<i32>,
    payload: &[u8],
) -> Vec<u8> {
    let repr = TcpRepr {
        src_port: from.1,
        dst_port: to,
        control,
        seq_number: TcpSeqNumber(seq),
        ack_number: ack.map(TcpSeqNumber),
        window_len: 8000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    };
    ipv4(from.0, IpProtocol::Tcp, repr.buffer_len(), |buffer| {
        repr.emit(
            &mut TcpPacket::new_unchecked(buffer),
            &from.0.into(),
            &OUR_IP.into(),
            &ChecksumCapabilities::default(),
        );
    })
}

/// A UDP datagram.
pub fn datagram(from: u16, to: u16, payload: &[u8]) -> Vec<u8> {
    let repr = UdpRepr {
        src_port: from,
        dst_port: to,
    };
    ipv4(PEER_IP, IpProtocol::Udp, 8 + payload.len(), |buffer| {
        repr.emit(
            &mut UdpPacket::new_unchecked(buffer),
            &PEER_IP.into(),
            &OUR_IP.into(),
            payload.len(),
            |data| data.copy_from_slice(payload),
            &ChecksumCapabilities::default(),
        );
    })
}

/// A ping with so many bytes of data.
pub fn ping(seq: u16, data: &[u8]) -> Vec<u8> {
    let repr = Icmpv4Repr::EchoRequest {
        ident: 1,
        seq_no: seq,
        data,
    };
    ipv4(PEER_IP, IpProtocol::Icmp, repr.buffer_len(), |buffer| {
        repr.emit(
            &mut Icmpv4Packet::new_unchecked(buffer),
            &ChecksumCapabilities::default(),
        );
    })
}

/// Cuts a frame into fragments of `most` payload bytes, a multiple of eight.
pub fn fragments(frame: &[u8], id: u16, most: usize) -> Vec<Vec<u8>> {
    let (headers, payload) = frame.split_at(34);
    let count = payload.chunks(most).count();
    let cut = |(index, piece): (usize, &[u8])| {
        let mut fragment = headers.to_vec();
        fragment.extend_from_slice(piece);
        let mut packet = Ipv4Packet::new_unchecked(&mut fragment[14..]);
        packet.set_total_len(20 + piece.len() as u16);
        packet.set_ident(id);
        packet.set_dont_frag(false);
        packet.set_more_frags(index + 1 < count);
        packet.set_frag_offset((index * most) as u16);
        packet.fill_checksum();
        fragment
    };
    payload.chunks(most).enumerate().map(cut).collect()
}

/// The TCP segment in a frame, if it is one.
pub fn as_tcp(frame: &[u8]) -> Option<(Ipv4Repr, TcpPacket<&[u8]>)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
    let repr = Ipv4Repr::parse(&packet, &ChecksumCapabilities::default()).ok()?;
    if repr.next_header != IpProtocol::Tcp {
        return None;
    }
    let segment = TcpPacket::new_checked(packet.payload()).ok()?;
    assert!(segment.verify_checksum(&repr.src_addr.into(), &repr.dst_addr.into()));
    Some((repr, segment))
}
