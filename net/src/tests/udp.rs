use alloc::vec;
use alloc::vec::Vec;

use smoltcp::wire::{
    ArpOperation, ArpPacket, ArpRepr, EthernetAddress, EthernetFrame, IpProtocol, Ipv4Address,
    Ipv4Cidr, Ipv4Packet,
};

use crate::config::AddressConfig;
use crate::stack::Payload;

use crate::testing::bench::{SECOND, static_config};
use crate::testing::peer::appliance;
use crate::testing::services::{PORT, pattern};
use crate::testing::*;

fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(pattern).collect()
}

/// Eight large datagrams in one go: each is cut only when the one before has
/// left, which smoltcp alone would not do.
#[test]
fn cuts_one_datagram_after_the_other() {
    let mut bench = Bench::new();
    let handle = bench.peer.udp_socket();
    let sizes = [9_000, 20_000, 3_000, 10_000, 5_000, 1_000, 30_000, 12_000];
    for size in sizes {
        // The peer is a plain smoltcp host: one at a time.
        let to = appliance(PORT);
        bench.peer.udp(handle).send_slice(&bytes(size), to).unwrap();
        bench.run(SECOND / 1000);
    }
    let mut answered = Vec::new();
    bench.run_until(SECOND, |bench| {
        while let Ok((data, _)) = bench.peer.udp(handle).recv() {
            assert!(*data == bytes(data.len()));
            answered.push(data.len());
        }
        answered.len() == sizes.len()
    });
    assert_eq!(answered, sizes);
}

#[test]
fn sends_many_large_datagrams_through_a_small_ring() {
    let hardware = crate::testing::nic::Hardware::new(256, 16);
    let config = crate::testing::bench::static_config();
    let mut bench = Bench::on(&config, hardware);
    let handle = bench.peer.udp_socket();
    bench
        .peer
        .udp(handle)
        .send_slice(b"learn", appliance(PORT))
        .unwrap();
    assert!(bench.run_until(SECOND, |bench| bench.peer.udp(handle).can_recv()));
    bench.peer.udp(handle).recv().unwrap();
    let from = bench.peer.udp(handle).endpoint().port;
    for id in 0..3 {
        let whole = datagram(from, PORT, &bytes(50_000));
        for fragment in fragments(&whole, id, 1480) {
            bench.inject(fragment);
        }
    }
    let mut answered = 0;
    assert!(bench.run_until(SECOND, |bench| {
        while let Ok((data, _)) = bench.peer.udp(handle).recv() {
            assert!(*data == bytes(50_000));
            answered += 1;
        }
        answered == 3
    }));
}

#[test]
fn fragments_in_any_order_and_twice() {
    let mut bench = Bench::new();
    let whole = datagram(5000, PORT, &bytes(20_000));
    let mut pieces = fragments(&whole, 1, 1480);
    pieces.reverse();
    pieces.push(pieces[3].clone());
    pieces.swap(2, 9);
    let again = pieces[5].clone();
    pieces.insert(7, again);
    for piece in pieces {
        bench.inject(piece);
    }
    bench.run(SECOND / 100);
    assert_eq!(bench.counter("rx.reassembled"), 1);
    assert_eq!(bench.counter("drop.fragments_bad"), 0);
    // The copy that came after the datagram was complete waits for the rest.
    bench.run(5 * SECOND);
    assert_eq!(bench.counter("rest.buffers_free"), 8);
}

#[test]
fn fragments_that_contradict_each_other_are_dropped() {
    let whole = datagram(5000, PORT, &bytes(4000));
    let coarse = fragments(&whole, 1, 1480);
    let fine = fragments(&whole, 1, 1000);
    let long = fragments(&datagram(5000, PORT, &bytes(5000)), 1, 1480);
    let bad = [
        // Overlapping, in part.
        [coarse[0].clone(), fine[1].clone(), coarse[2].clone()],
        // Beyond the end.
        [coarse[2].clone(), long[3].clone(), coarse[0].clone()],
        // Two ends.
        [coarse[2].clone(), long[3].clone(), long[1].clone()],
    ];
    for pieces in bad {
        let mut bench = Bench::new();
        for piece in pieces {
            bench.inject(piece);
        }
        bench.run(SECOND / 100);
        assert!(bench.counter("drop.fragments_bad") > 0);
        assert_eq!(bench.counter("rx.reassembled"), 0);
        bench.run(5 * SECOND);
        assert_eq!(bench.counter("rest.buffers_free"), 8);
    }
}

/// A flood of first fragments pushes out the oldest, and all is free at last.
#[test]
fn a_flood_of_fragments_is_bounded() {
    let mut bench = Bench::new();
    let handle = bench.peer.udp_socket();
    for id in 0..1000 {
        let first = fragments(&datagram(1, PORT, &bytes(9000)), id, 1480).swap_remove(0);
        bench.inject(first);
        if id % 50 == 0 {
            bench.run(100_000);
        }
    }
    bench.run(SECOND / 100);
    assert_eq!(bench.counter("drop.reassembly_evicted"), 992);
    bench
        .peer
        .udp(handle)
        .send_slice(&bytes(9000), appliance(PORT))
        .unwrap();
    assert!(bench.run_until(SECOND, |bench| bench.peer.udp(handle).can_recv()));
    bench.run(5 * SECOND);
    assert_eq!(bench.counter("rest.buffers_free"), 8);
    assert_eq!(bench.counter("drop.reassembly_timeout"), 7);
}

#[test]
fn a_wrong_checksum_over_a_whole_datagram_is_noticed() {
    let mut bench = Bench::new();
    let mut whole = datagram(5000, PORT, &bytes(4000));
    *whole.last_mut().unwrap() ^= 1;
    for fragment in fragments(&whole, 1, 1480) {
        bench.inject(fragment);
    }
    bench.run(SECOND / 100);
    assert_eq!(bench.counter("drop.checksum"), 1);
    assert!(bench.log.take().is_empty());
}

#[test]
fn strays_are_told_so_but_not_without_limit() {
    let mut bench = Bench::new();
    let handle = bench.peer.udp_socket();
    bench
        .peer
        .udp(handle)
        .send_slice(b"learn", appliance(PORT))
        .unwrap();
    bench.run(SECOND / 10);
    bench.capture.clear();
    for round in 0..50 {
        for port in 0..100 {
            bench.inject(datagram(5000, 20_000 + port, &[round]));
        }
        bench.run(SECOND / 1000);
    }
    let is_icmp = |frame: &&Vec<u8>| {
        let frame = EthernetFrame::new_checked(&frame[..]).unwrap();
        let packet = Ipv4Packet::new_checked(frame.payload()).unwrap();
        packet.next_header() == IpProtocol::Icmp
    };
    assert_eq!(bench.capture.iter().filter(is_icmp).count(), 1000);
    assert_eq!(bench.counter("drop.udp_no_port"), 4000);
}

#[test]
fn a_full_socket_drops_and_counts() {
    let mut bench = Bench::new();
    bench.appliance.stack.set_now(0);
    let owner = crate::stack::Owner {
        service: 9,
        token: 0,
    };
    let socket = bench
        .appliance
        .stack
        .open_udp(Some(99), Payload::Counted, owner)
        .unwrap();
    for round in 0..300 {
        bench.inject(datagram(5000, 99, &bytes(1400)));
        if round % 50 == 0 {
            bench.run(100_000);
        }
    }
    bench.run(SECOND / 100);
    let held = bench.appliance.stack.udp(socket).unwrap().recv_queue() / 1400;
    assert!(held > 180);
    assert_eq!(bench.counter("drop.udp_buffer_full"), 300 - held as u64);
    bench.appliance.stack.close_udp(socket);
    bench.clockwork.asleep.set(None);
    bench.run(SECOND / 100);
    assert_eq!(bench.counter("rest.udp_sockets"), 1);
    assert!(bench.appliance.stack.udp(socket).is_none());
}

/// An answer to an address that nobody has blocks the socket for a while, and
/// not for ever.
#[test]
fn an_unreachable_receiver_does_not_block_for_ever() {
    let mut bench = Bench::new();
    let handle = bench.peer.udp_socket();
    let mut stray = datagram(5000, PORT, b"x");
    // From 10.0.0.99, with the checksum left out.
    stray[29] = 99;
    stray[40..42].fill(0);
    let mut packet = Ipv4Packet::new_unchecked(&mut stray[14..]);
    packet.fill_checksum();
    bench.inject(stray);
    bench.run(SECOND / 10);
    bench
        .peer
        .udp(handle)
        .send_slice(b"y", appliance(PORT))
        .unwrap();
    bench.run(10 * SECOND);
    assert_eq!(bench.counter("drop.unresolved"), 1);
    bench
        .peer
        .udp(handle)
        .send_slice(b"z", appliance(PORT))
        .unwrap();
    assert!(bench.run_until(SECOND, |bench| bench.peer.udp(handle).can_recv()));
}

/// A host behind the gateway gets its answer from the gateway's station, which
/// is asked for first; a host on no network that is known gets none.
#[test]
fn answers_go_by_the_gateway() {
    let far = Ipv4Address::new(192, 0, 2, 1);
    for gateway in [Some(PEER_IP), None] {
        let mut config = static_config();
        config.address = AddressConfig::Static {
            cidr: Ipv4Cidr::new(OUR_IP, 24),
            gateway,
        };
        let mut bench = Bench::with(&config);
        let mut request = datagram(5000, PORT, b"x");
        request[26..30].copy_from_slice(&far.octets());
        request[40..42].fill(0);
        Ipv4Packet::new_unchecked(&mut request[14..]).fill_checksum();
        bench.inject(request);
        bench.run(SECOND / 10);
        let answers = |frame: &&Vec<u8>| frame[30..34] == far.octets();
        let answered = bench.capture.iter().filter(answers).count();
        assert_eq!(answered, usize::from(gateway.is_some()));
        assert_eq!(bench.counter("drop.no_route"), u64::from(gateway.is_none()));
    }
}

/// What was sent from a broadcast's or another host's address to ours is not
/// taken, nor is what came to our port by another address.
#[test]
fn only_our_own_address_is_served() {
    let mut bench = Bench::new();
    let mut request = datagram(5000, PORT, b"x");
    request[40..42].fill(0);
    let mut elsewhere = request.clone();
    elsewhere[30..34].copy_from_slice(&[10, 0, 0, 255]);
    Ipv4Packet::new_unchecked(&mut elsewhere[14..]).fill_checksum();
    bench.inject(elsewhere);
    let mut by_broadcast = request;
    by_broadcast[..6].fill(0xff);
    bench.inject(by_broadcast);
    bench.run(SECOND / 10);
    assert_eq!(bench.counter("drop.not_ours"), 2);
    assert!(bench.log.take().is_empty());
}

/// A peer whose station changes, as behind a switch-over, is followed at once.
#[test]
fn a_peer_that_moves_is_followed() {
    let mut bench = Bench::new();
    bench.introduce();
    let moved = [2, 0, 0, 0, 9, 9];
    let announcement = ArpRepr::EthernetIpv4 {
        operation: ArpOperation::Request,
        source_hardware_addr: EthernetAddress(moved),
        source_protocol_addr: PEER_IP,
        target_hardware_addr: EthernetAddress([0; 6]),
        target_protocol_addr: PEER_IP,
    };
    let mut frame = vec![0xff; 14 + announcement.buffer_len()];
    frame[6..12].copy_from_slice(&moved);
    frame[12..14].copy_from_slice(&[8, 6]);
    announcement.emit(&mut ArpPacket::new_unchecked(&mut frame[14..]));
    bench.inject(frame);
    bench.inject(datagram(5000, PORT, b"x"));
    bench.run(SECOND / 10);
    let last = bench.capture.last().expect("an answer");
    assert_eq!((&last[..6], &last[42..43]), (&moved[..], &b"x"[..]));
}
