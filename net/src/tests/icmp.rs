use alloc::vec::Vec;

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::*;

use crate::testing::bench::SECOND;
use crate::testing::services::pattern;
use crate::testing::*;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(pattern).collect()
}

/// The sequence number and data of a frame that is a good answer to a ping.
fn as_pong(frame: &[u8]) -> Option<(u16, Vec<u8>)> {
    let frame = EthernetFrame::new_checked(frame).ok()?;
    if frame.ethertype() != EthernetProtocol::Ipv4 {
        return None;
    }
    let packet = Ipv4Packet::new_checked(frame.payload()).ok()?;
    assert!(packet.verify_checksum());
    if packet.next_header() != IpProtocol::Icmp {
        return None;
    }
    let icmp = Icmpv4Packet::new_checked(packet.payload()).ok()?;
    match Icmpv4Repr::parse(&icmp, &ChecksumCapabilities::default()).ok()? {
        Icmpv4Repr::EchoReply { seq_no, data, .. } => Some((seq_no, data.to_vec())),
        _ => None,
    }
}

#[test]
fn answers_arp() {
    let mut bench = Bench::new();
    let question = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(PEER_MAC),
        source_protocol_addr: PEER_IP,
        target_hardware_addr: EthernetAddress::BROADCAST,
        target_protocol_addr: OUR_IP,
    };
    let mut frame = alloc::vec![0; 14 + question.buffer_len()];
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress(PEER_MAC),
        dst_addr: EthernetAddress::BROADCAST,
        ethertype: EthernetProtocol::Arp,
    };
    ethernet.emit(&mut EthernetFrame::new_unchecked(&mut frame));
    question.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    bench.inject(frame);
    bench.run(SECOND);

    let [answer] = &bench.capture[..] else {
        panic!("one frame answers");
    };
    let answer = ArpPacket::new_checked(&answer[14..]).unwrap();
    assert_eq!(answer.operation(), ArpOperation::Reply);
    assert_eq!(answer.source_protocol_addr(), OUR_IP.octets());
    assert_eq!(answer.target_hardware_addr(), PEER_MAC);
}

/// As `ping -f` does: the next one leaves when the last one is answered, and
/// 64 at a time.
#[test]
fn loses_no_ping() {
    let mut bench = Bench::new();
    bench.introduce();
    bench.capture.clear();
    for round in 0..100u16 {
        for seq in 0..64 {
            bench.inject(ping(round * 64 + seq, &bytes(56)));
        }
        bench.run(1_000_000);
    }
    let answers: Vec<_> = bench.capture.iter().filter_map(|f| as_pong(f)).collect();
    assert_eq!(answers.len(), 6400);
    for (seq, (answered, data)) in answers.iter().enumerate() {
        assert_eq!(usize::from(*answered), seq);
        assert_eq!(*data, bytes(56));
    }
}

/// What smoltcp's fragmenter would answer with a wrong checksum.
#[test]
fn answers_pings_that_come_in_fragments() {
    let mut bench = Bench::new();
    bench.introduce();
    for (seq, len) in [(1, 1473), (2, 65_507), (3, 2000), (4, 20)] {
        bench.capture.clear();
        for fragment in fragments(&ping(seq, &bytes(len)), seq, 1480) {
            bench.inject(fragment);
        }
        bench.run(SECOND / 10);
        let whole = glue(&bench.capture);
        let icmp = Icmpv4Packet::new_checked(&whole[..]).unwrap();
        let answer = Icmpv4Repr::parse(&icmp, &ChecksumCapabilities::default()).unwrap();
        let Icmpv4Repr::EchoReply { seq_no, data, .. } = answer else {
            panic!("{answer}");
        };
        assert_eq!(seq_no, seq);
        assert!(data == bytes(len));
    }
    assert_eq!(bench.counter("rx.reassembled"), 3);
}

/// Puts the payload of fragments that came in order together again.
fn glue(frames: &[Vec<u8>]) -> Vec<u8> {
    let mut whole = Vec::new();
    for frame in frames {
        let packet = Ipv4Packet::new_checked(&frame[14..]).unwrap();
        assert!(packet.verify_checksum());
        assert_eq!(usize::from(packet.frag_offset()), whole.len());
        whole.extend_from_slice(packet.payload());
    }
    whole
}
