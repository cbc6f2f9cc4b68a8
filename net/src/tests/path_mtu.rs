//! Paths that take smaller packets than the link does.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec::Vec;
use core::cell::RefCell;

use smoltcp::wire::*;

use crate::testing::bench::SECOND;
use crate::testing::peer::appliance;
use crate::testing::services::{DATA_PORT, PORT, pattern};
use crate::testing::*;

const ROUTER: Ipv4Address = Ipv4Address::new(10, 0, 0, 254);
const MILLISECOND: u64 = 1_000_000;

/// What a router says to the sender of `packet`.
fn complaint(packet: &[u8], mtu: u16) -> Vec<u8> {
    let quoted = &packet[..28];
    ipv4(ROUTER, IpProtocol::Icmp, 8 + quoted.len(), |buffer| {
        buffer[..2].copy_from_slice(&[3, 4]);
        buffer[6..8].copy_from_slice(&mtu.to_be_bytes());
        buffer[8..].copy_from_slice(quoted);
        Icmpv4Packet::new_unchecked(buffer).fill_checksum();
    })
}

/// Lengths of the appliance's IPv4 packets.
fn lengths(bench: &Bench) -> Vec<usize> {
    let ipv4 = |frame: &&Vec<u8>| frame[12..14] == [8, 0];
    let frames = bench.capture.iter().filter(ipv4);
    frames.map(|frame| frame.len() - 14).collect()
}

/// Puts a router on the way to the peer that takes packets of `mtu` bytes, and
/// says `said` of larger ones.
fn route(bench: &mut Bench, mtu: usize, said: u16) -> Rc<RefCell<Vec<Vec<u8>>>> {
    let complaints = Rc::new(RefCell::new(Vec::new()));
    let router = complaints.clone();
    bench.loss = Some(Box::new(move |to_peer, frame| {
        let too_large = to_peer && frame[12..14] == [8, 0] && frame.len() > 14 + mtu;
        if too_large {
            router.borrow_mut().push(complaint(&frame[14..], said));
        }
        too_large
    }));
    complaints
}

/// Gets `total` bytes from the appliance, through a router.
fn download(bench: &mut Bench, total: usize, complaints: &RefCell<Vec<Vec<u8>>>) {
    bench.log.greeting.set(total);
    let handle = bench.peer.connect(DATA_PORT);
    let mut got = 0;
    let done = bench.run_until(30 * SECOND, |bench| {
        for message in complaints.take() {
            bench.inject(message);
        }
        let socket = bench.peer.tcp(handle);
        while socket.can_recv() {
            got += socket
                .recv(|data| {
                    let right = |(at, byte): (usize, &u8)| *byte == pattern(got + at);
                    assert!(data.iter().enumerate().all(right), "at {got}");
                    (data.len(), data.len())
                })
                .unwrap();
        }
        got == total
    });
    assert!(done, "{got} of {total} came");
}

#[test]
fn segments_become_as_small_as_the_path_asks() {
    for (mtu, said) in [
        (1400, 1400),
        (1006, 0),
        (552, 552),
        (576, 576),
        (1006, 1006),
    ] {
        let mut bench = Bench::new();
        bench.introduce();
        bench.delay = 5 * MILLISECOND;
        let start = bench.now();
        let complaints = route(&mut bench, mtu, said);
        download(&mut bench, 300_000, &complaints);
        assert!(bench.now() - start < SECOND, "{mtu}");
        let lengths = lengths(&bench);
        // The first window was too large, and none after it.
        let too_large = lengths.iter().filter(|len| **len > mtu).count();
        let most = if said == 0 { 20 } else { 10 };
        assert!((1..=most).contains(&too_large), "{too_large} at {mtu}");
        assert!(
            lengths
                .iter()
                .any(|len| *len == mtu - mtu % 4 || *len == mtu)
        );
        assert!(bench.counter("icmp.path_mtu") >= 1);

        // The next connection knows.
        bench.capture.clear();
        download(&mut bench, 100_000, &complaints);
        assert!(self::lengths(&bench).iter().all(|len| *len <= mtu));
    }
}

#[test]
fn a_path_is_tried_anew_after_ten_minutes() {
    let mut bench = Bench::new();
    bench.introduce();
    let complaints = route(&mut bench, 1000, 1000);
    download(&mut bench, 50_000, &complaints);
    bench.loss = None;
    bench.run(610 * SECOND);
    bench.capture.clear();
    download(&mut bench, 50_000, &complaints);
    assert!(lengths(&bench).contains(&1500));
}

#[test]
fn a_datagram_larger_than_its_path_is_cut() {
    let mut bench = Bench::new();
    bench.introduce();
    let handle = bench.peer.udp_socket();
    let data: Vec<u8> = (0..1400).map(pattern).collect();
    let echo = |bench: &mut Bench| {
        let socket = bench.peer.udp(handle);
        socket.send_slice(&data, appliance(PORT)).unwrap();
        bench.run(SECOND);
        let socket = bench.peer.udp(handle);
        socket.recv().is_ok_and(|(back, _)| back == data)
    };
    let complaints = route(&mut bench, 600, 600);
    assert!(!echo(&mut bench));
    let message = complaints.borrow_mut().pop().unwrap();
    bench.inject(message);
    bench.run(SECOND);
    assert!(echo(&mut bench));
    assert!(complaints.borrow().is_empty());
}

/// A connection with a segment of 1500 bytes under way, and that packet.
fn waiting() -> (Bench, Vec<u8>) {
    let mut bench = Bench::new();
    bench.introduce();
    bench.log.greeting.set(400_000);
    bench.delay = 20 * MILLISECOND;
    bench.peer.connect(DATA_PORT);
    let is_full = |frame: &Vec<u8>| frame.len() == 1514;
    assert!(bench.run_until(SECOND, |bench| bench.capture.iter().any(is_full)));
    let frame = bench.capture.iter().rfind(|frame| is_full(frame)).unwrap();
    let packet = frame[14..].to_vec();
    (bench, packet)
}

#[test]
fn complaints_about_what_was_not_sent_change_nothing() {
    let (_, packet) = waiting();
    let change = |at: usize, by: u8| {
        let mut packet = packet.clone();
        packet[at] ^= by;
        complaint(&packet, 1000)
    };
    let mut odd = alloc::vec![
        // Another version, source, destination, ports, and sequence numbers.
        change(0, 0x20),
        change(15, 1),
        change(19, 1),
        change(21, 1),
        change(23, 1),
        change(24, 0x80),
        change(25, 0x80),
        // A packet that was not larger, or said to be.
        complaint(&packet, 1500),
        complaint(&packet, 9000),
        complaint(&packet, u16::MAX),
        // A later fragment, and another protocol.
        change(7, 1),
        change(9, 0x40),
    ];
    let mut bad_sum = complaint(&packet, 1000);
    bad_sum[36] ^= 1;
    odd.push(bad_sum);
    let mut short = complaint(&packet, 1000);
    short.truncate(50);
    Ipv4Packet::new_unchecked(&mut short[14..]).set_total_len(36);
    Ipv4Packet::new_unchecked(&mut short[14..]).fill_checksum();
    Icmpv4Packet::new_unchecked(&mut short[34..]).fill_checksum();
    odd.push(short);
    let small_packet = change(2, 0x07);
    odd.push(small_packet);
    for (number, message) in odd.into_iter().enumerate() {
        let (mut bench, _) = waiting();
        bench.capture.clear();
        bench.inject(message);
        bench.run(100 * MILLISECOND);
        assert!(bench.counter("icmp.path_mtu") == 0, "message {number}");
        assert!(lengths(&bench).contains(&1500), "message {number}");
    }
}

#[test]
fn the_smallest_mtu_believed_is_what_every_host_takes() {
    let (mut bench, packet) = waiting();
    bench.inject(complaint(&packet, 68));
    bench.turn(u64::MAX);
    bench.capture.clear();
    bench.run(200 * MILLISECOND);
    let lengths = lengths(&bench);
    assert_eq!(lengths.iter().max(), Some(&552));
    // The same again causes nothing more.
    let (before, message) = (bench.counter("tcp.rewound"), complaint(&packet, 68));
    bench.inject(message);
    bench.run(20 * MILLISECOND);
    assert_eq!(bench.counter("tcp.rewound"), before);
}
