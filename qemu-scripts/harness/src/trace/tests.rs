use etherparse::{IpFragOffset, IpHeaders, Ipv4Header, PacketBuilder, TcpHeader};
use etherparse::{IpNumber, TcpOptionElement};

use super::*;

const OWN: [u8; 6] = [0x52, 0x54, 0, 0x12, 0x34, 0x56];
const PEER: [u8; 6] = [2, 0, 0, 0, 0, 1];
const ADDRESSES: [[u8; 4]; 2] = [[10, 77, 0, 2], [10, 77, 0, 1]];
const MTU: usize = 1500;
const MSS: usize = 1460;
const MILLISECOND: Duration = Duration::from_millis(1);

fn ipv4(is_own: bool, protocol: IpNumber, payload: usize) -> Ipv4Header {
    let [own, peer] = ADDRESSES;
    let (from, to) = if is_own { (own, peer) } else { (peer, own) };
    let mut header = Ipv4Header::new(payload as u16, 64, protocol, from, to).unwrap();
    header.dont_fragment = true;
    header
}

/// A connection of which a test writes both sides.
struct Script {
    judge: Judge,
    own_isn: u32,
    at: Duration,
}

/// A segment to be changed by a test: who sends it, header, payload, identification.
struct Segment {
    is_own: bool,
    tcp: TcpHeader,
    payload: Vec<u8>,
    identification: u16,
}

const PEER_ISN: u32 = 0xffff_fff0;

impl Script {
    /// The handshake is over.
    fn new(own_isn: u32) -> Self {
        let station = Station { mac: OWN, mtu: MTU };
        let mut script = Self {
            judge: Judge::new(station),
            own_isn,
            at: Duration::ZERO,
        };
        let options = [
            TcpOptionElement::MaximumSegmentSize(MSS as u16),
            TcpOptionElement::SelectiveAcknowledgementPermitted,
            TcpOptionElement::WindowScale(3),
        ];
        for is_own in [false, true] {
            let mut syn = script.segment(is_own, 0, 0, 0);
            syn.tcp.syn = true;
            syn.tcp.ack = is_own;
            syn.tcp.psh = false;
            syn.tcp.acknowledgment_number = if is_own { PEER_ISN.wrapping_add(1) } else { 0 };
            syn.tcp.sequence_number = if is_own { own_isn } else { PEER_ISN };
            syn.tcp.window_size = 65535;
            syn.tcp.set_options(&options).unwrap();
            script.send(&syn);
        }
        script
    }

    /// `count` bytes, from byte `from` of the stream on; `ack` bytes have come.
    fn segment(&self, is_own: bool, from: u32, count: usize, ack: u32) -> Segment {
        let (isn, other) = match is_own {
            true => (self.own_isn, PEER_ISN),
            false => (PEER_ISN, self.own_isn),
        };
        let ports = if is_own {
            (12866, 40000)
        } else {
            (40000, 12866)
        };
        let sequence = isn.wrapping_add(1).wrapping_add(from);
        let mut tcp = TcpHeader::new(ports.0, ports.1, sequence, 8192);
        tcp.ack = true;
        tcp.acknowledgment_number = other.wrapping_add(1).wrapping_add(ack);
        tcp.psh = count > 0;
        Segment {
            is_own,
            tcp,
            payload: vec![0x5a; count],
            identification: 0,
        }
    }

    fn send(&mut self, segment: &Segment) {
        let mut bytes = frame(segment);
        self.put(&mut bytes);
    }

    fn put(&mut self, frame: &mut [u8]) {
        self.at += MILLISECOND;
        self.judge.take(self.at, frame);
    }

    fn own(&mut self, from: u32, count: usize, ack: u32) {
        self.send(&self.segment(true, from, count, ack));
    }

    fn peer(&mut self, from: u32, count: usize, ack: u32) {
        self.send(&self.segment(false, from, count, ack));
    }

    /// The appliance's super-segment from `from` on, in `sizes`.
    fn super_segment(&mut self, mut from: u32, sizes: &[usize]) {
        for (index, &size) in sizes.iter().enumerate() {
            let mut segment = self.segment(true, from, size, 0);
            segment.identification = index as u16;
            segment.tcp.psh = index + 1 == sizes.len();
            self.send(&segment);
            from = from.wrapping_add(size as u32);
        }
    }

    fn verdict(self) -> Verdict {
        self.judge.end()
    }

    /// The only complaint there is has these words in it.
    fn complains(self, words: &str) {
        let complaints = self.verdict().complaints;
        let is_it = matches!(&complaints[..], [one] if one.contains(words));
        assert!(is_it, "{words}: {complaints:?}");
    }
}

fn frame(segment: &Segment) -> Vec<u8> {
    let addresses = if segment.is_own {
        (OWN, PEER)
    } else {
        (PEER, OWN)
    };
    let length = segment.tcp.header_len() + segment.payload.len();
    let mut header = ipv4(segment.is_own, IpNumber::TCP, length);
    header.identification = segment.identification;
    let builder = PacketBuilder::ethernet2(addresses.0, addresses.1)
        .ip(IpHeaders::Ipv4(header, Default::default()))
        .tcp_header(segment.tcp.clone());
    let mut bytes = Vec::new();
    builder.write(&mut bytes, &segment.payload).unwrap();
    bytes
}

#[test]
fn a_sound_connection_is_found_sound() {
    let mut script = Script::new(77);
    script.peer(0, 100, 0);
    script.own(0, 200, 100);
    script.peer(100, MSS, 200);
    script.own(200, 0, 100 + MSS as u32);
    let mut fin = script.segment(true, 200, 0, 100 + MSS as u32);
    fin.tcp.fin = true;
    script.send(&fin);
    let verdict = script.verdict();
    verdict.check().unwrap();
    let [connection] = &verdict.connections[..] else {
        panic!("{verdict:?}");
    };
    assert_eq!((connection.sent, connection.segments), (200, 1));
    assert_eq!(connection.received, 100 + MSS as u64);
    assert_eq!(
        (connection.acknowledgements, connection.longest_stretch),
        (1, 1)
    );
    assert!(connection.is_closed && !connection.is_reset);
}

#[test]
fn super_segments_are_known_across_the_sequence_wrap() {
    let mut script = Script::new(0_u32.wrapping_sub(2000));
    script.super_segment(0, &[MSS, MSS, 100]);
    script.super_segment(2 * MSS as u32 + 100, &[MSS, MSS]);
    let verdict = script.verdict();
    verdict.check().unwrap();
    let connection = &verdict.connections[0];
    assert_eq!((connection.super_segments, connection.wrapped), (2, 1));
    assert_eq!((connection.segments, connection.resent), (5, 0));
}

#[test]
fn an_empty_segment_behind_a_super_segment_is_qemus() {
    let mut script = Script::new(5);
    script.super_segment(0, &[MSS, MSS]);
    let mut tail = script.segment(true, 2 * MSS as u32, 0, 0);
    tail.tcp.psh = true;
    tail.identification = 2;
    script.send(&tail);
    let verdict = script.verdict();
    verdict.check().unwrap();
    assert_eq!(verdict.connections[0].empty_tails, 1);
}

#[test]
fn flags_and_short_segments_within_a_super_segment() {
    let mut script = Script::new(5);
    script.super_segment(0, &[MSS, 100, MSS]);
    script.complains("within a super-segment");
    let mut script = Script::new(5);
    for (identification, from) in [(0, 0), (1, MSS as u32)] {
        let mut segment = script.segment(true, from, MSS, 0);
        segment.identification = identification;
        script.send(&segment);
    }
    script.complains("within a super-segment");
    let mut script = Script::new(5);
    let mut segment = script.segment(true, 0, MSS, 0);
    segment.identification = 1;
    script.send(&segment);
    let complaints = script.verdict().complaints;
    assert!(
        complaints[0].contains("not the continuation"),
        "{complaints:?}"
    );
}

#[test]
fn checksums() {
    for (place, words) in [(60, "TCP checksum"), (14 + 10, "IP checksum")] {
        let mut script = Script::new(5);
        let mut bytes = frame(&script.segment(true, 0, 100, 0));
        bytes[place] ^= 1;
        script.put(&mut bytes);
        script.complains(words);
    }
}

#[test]
fn a_segment_beyond_the_mss_and_the_window() {
    let mut script = Script::new(5);
    let mut syn = script.segment(false, 0, 0, 0);
    syn.tcp.window_size = 2;
    script.send(&syn);
    script.own(0, 17, 0);
    script.complains("1 bytes beyond the peer's window");
    let mut script = Script::new(5);
    let mut segment = script.segment(true, 0, MSS, 0);
    segment.tcp.set_options(&[TcpOptionElement::Noop]).unwrap();
    script.send(&segment);
    let complaints = script.verdict().complaints;
    assert!(
        complaints
            .iter()
            .any(|c| c.contains("1460 bytes where 1456")),
        "{complaints:?}"
    );
    assert!(
        complaints.iter().any(|c| c.contains("longer than the MTU")),
        "{complaints:?}"
    );
}

#[test]
fn a_shrinking_window() {
    // The window ends at 8 * 8192; units of 8 bytes can miss that by up to 7.
    for (window, rounded) in [(8192 - 12, 1), (8192 - 13, 0)] {
        let mut script = Script::new(5);
        script.own(0, 0, 0);
        script.peer(0, 93, 0);
        let mut segment = script.segment(true, 0, 0, 93);
        segment.tcp.window_size = window;
        script.send(&segment);
        if rounded == 0 {
            script.complains("shrinks its window by 11 bytes");
        } else {
            let verdict = script.verdict();
            verdict.check().unwrap();
            assert_eq!(verdict.connections[0].rounded_windows, 1);
        }
    }
}

#[test]
fn gaps_and_repetitions() {
    let mut script = Script::new(5);
    script.own(10, 100, 0);
    script.complains("leaves out 10");
    let mut script = Script::new(5);
    script.own(0, 100, 0);
    script.own(0, 100, 0);
    script.own(99, 1, 0);
    let verdict = script.verdict();
    verdict.check().unwrap();
    assert_eq!(
        (verdict.connections[0].resent, verdict.connections[0].probes),
        (1, 1)
    );
}

#[test]
fn acknowledgements_of_nothing_and_too_late() {
    let mut script = Script::new(5);
    script.own(0, 0, 1);
    script.complains("acknowledges what was not sent");
    let mut script = Script::new(5);
    script.peer(0, 100, 0);
    script.own(0, 0, 100);
    script.own(0, 0, 99);
    let complaints = script.verdict().complaints;
    assert!(
        complaints[0].contains("takes an acknowledgement back"),
        "{complaints:?}"
    );
    let mut script = Script::new(5);
    script.peer(0, 100, 0);
    script.at += 501 * MILLISECOND;
    script.own(0, 0, 100);
    script.complains("after 502 ms");
    let mut script = Script::new(5);
    script.peer(0, 100, 0);
    script.at += 501 * MILLISECOND;
    script.peer(100, 100, 0);
    script.complains("was never acknowledged");
}

#[test]
fn options_out_of_place() {
    for option in [
        TcpOptionElement::MaximumSegmentSize(1460),
        TcpOptionElement::WindowScale(1),
        TcpOptionElement::Timestamp(1, 2),
        TcpOptionElement::SelectiveAcknowledgement((1, 2), [None; 3]),
    ] {
        let mut script = Script::new(5);
        let mut segment = script.segment(true, 0, 1, 0);
        segment.tcp.set_options(&[option]).unwrap();
        script.send(&segment);
        script.complains("option");
    }
}

#[test]
fn a_response_that_is_not_pushed() {
    let mut script = Script::new(5);
    let mut segment = script.segment(true, 0, 100, 0);
    segment.tcp.psh = false;
    script.send(&segment);
    script.complains("no PSH");
}

/// An IP packet of the appliance's with so much of a datagram.
fn datagram(id: u16, offset: usize, more: bool, bytes: &[u8]) -> Vec<u8> {
    let mut header = ipv4(true, IpNumber::UDP, bytes.len());
    header.identification = id;
    header.dont_fragment = !more && offset == 0;
    header.more_fragments = more;
    header.fragment_offset = IpFragOffset::try_new((offset / 8) as u16).unwrap();
    header.header_checksum = header.calc_header_checksum();
    let mut frame = [&PEER[..], &OWN, &[8, 0]].concat();
    header.write(&mut frame).unwrap();
    frame.extend(bytes);
    frame
}

/// A datagram with `count` bytes behind its header.
fn udp(count: usize) -> Vec<u8> {
    let payload: Vec<u8> = (0..count).map(|n| n as u8).collect();
    let [from, to] = ADDRESSES;
    let header = etherparse::UdpHeader::with_ipv4_checksum(
        7,
        8,
        &ipv4(true, IpNumber::UDP, 8 + count),
        &payload,
    );
    let _ = (from, to);
    [&header.unwrap().to_bytes()[..], &payload].concat()
}

#[test]
fn datagrams_are_put_together() {
    let mut script = Script::new(5);
    let bytes = udp(3000);
    script.put(&mut datagram(0, 0, false, &udp(100)));
    script.put(&mut datagram(1, 0, true, &bytes[..1480]));
    script.put(&mut datagram(1, 1480, true, &bytes[1480..2960]));
    script.put(&mut datagram(1, 2960, false, &bytes[2960..]));
    let verdict = script.verdict();
    verdict.check().unwrap();
    assert_eq!((verdict.datagrams, verdict.fragmented), (2, 1));
}

#[test]
fn broken_datagrams() {
    let bytes = udp(3000);
    let mut script = Script::new(5);
    script.put(&mut datagram(1, 1480, false, &bytes[1480..2960]));
    script.complains("out of order");
    let mut script = Script::new(5);
    script.put(&mut datagram(1, 0, true, &bytes[..1480]));
    script.complains("never completed");
    let mut script = Script::new(5);
    script.put(&mut datagram(1, 0, true, &bytes[..1472]));
    let complaints = script.verdict().complaints;
    assert!(
        complaints[0].contains("1472 bytes, not 1480"),
        "{complaints:?}"
    );
    let mut script = Script::new(5);
    let mut whole = udp(100);
    whole[50] ^= 1;
    script.put(&mut datagram(0, 0, false, &whole));
    script.complains("UDP checksum");
}
