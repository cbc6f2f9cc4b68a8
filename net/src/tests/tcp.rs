use alloc::vec::Vec;

use smoltcp::socket::tcp::State;
use smoltcp::wire::{TcpControl, TcpSeqNumber};

use crate::services::{Ending, Event};
use crate::testing::bench::SECOND;
use crate::testing::services::{DATA_PORT, PORT};
use crate::testing::*;

fn kinds(events: &[Event]) -> Vec<&'static str> {
    let kind = |event: &Event| match event {
        Event::Accepted { .. } => "accepted",
        Event::Touched { .. } => "touched",
        Event::PeerClosed { .. } => "peer closed",
        Event::Closed {
            how: Ending::Orderly,
            ..
        } => "closed",
        Event::Closed {
            how: Ending::Broken,
            ..
        } => "broken",
        Event::Datagrams { .. } => "datagrams",
    };
    events.iter().map(kind).collect()
}

/// A transaction is answered in the turn of the loop in which it came.
#[test]
fn answers_a_request_in_the_same_turn() {
    let mut bench = Bench::new();
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND);
    for round in 0..10u8 {
        let sent = bench.capture.len();
        bench.peer.tcp(handle).send_slice(&[round]).unwrap();
        let now = bench.now();
        assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(handle).can_recv()));
        assert!(bench.now() - now < 20_000, "{} ns", bench.now() - now);
        let mut answer = [0; 10];
        assert_eq!(bench.peer.tcp(handle).recv_slice(&mut answer), Ok(1));
        assert_eq!(answer[0], round);
        // One frame: the answer carries the acknowledgement.
        assert_eq!(bench.capture.len(), sent + 1);
        bench.run(SECOND / 10);
    }
}

/// Joined segments are several: their acknowledgement does not wait, as that of one
/// segment does (RFC 5681 section 4.2).
#[test]
fn acknowledges_joined_segments_at_once() {
    for (segments, most) in [(1, 12_000_000), (2, 100_000), (5, 100_000)] {
        let mut bench = Bench::new();
        bench.introduce();
        bench.cut = true;
        bench.log.idle.set(true);
        let from = (PEER_IP, 4000);
        bench.inject(segment(from, PORT, TcpControl::Syn, 0, None));
        bench.run(1_000_000);
        let (_, reply) = bench
            .capture
            .iter()
            .find_map(|frame| as_tcp(frame))
            .unwrap();
        let isn = reply.seq_number().0;
        bench.inject(segment(
            from,
            PORT,
            TcpControl::None,
            1,
            Some(isn.wrapping_add(1)),
        ));
        bench.run(1_000_000);
        let (sent, now) = (bench.capture.len(), bench.now());
        for number in 0..segments {
            let bytes = [7; 1460];
            let seq = 1 + number * 1460;
            bench.inject(data(from, PORT, seq, isn.wrapping_add(1), &bytes));
        }
        assert!(bench.run_until(SECOND, |bench| bench.capture.len() > sent));
        let took = bench.now() - now;
        assert!(took < most, "{took} ns for {segments} segments");
        let (_, reply) = as_tcp(&bench.capture[sent]).unwrap();
        assert_eq!(reply.ack_number().0, 1 + segments * 1460);
        assert_eq!(bench.counter("rx.joined") > 0, segments > 1);
    }
}

#[test]
fn tells_a_service_in_order() {
    let mut bench = Bench::new();
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    bench.peer.tcp(handle).send_slice(b"hello").unwrap();
    bench.run(SECOND / 10);
    bench.log.idle.set(true);
    bench.peer.tcp(handle).close();
    bench.run(SECOND / 10);
    let flow = bench.log.flows()[0];
    bench.appliance.stack.tcp(flow).unwrap().close();
    bench.clockwork.asleep.set(None);
    bench.run(SECOND / 10);
    let events = kinds(&bench.log.take());
    assert_eq!(events.first(), Some(&"accepted"));
    assert_eq!(events.last(), Some(&"closed"));
    let fin = events
        .iter()
        .position(|kind| *kind == "peer closed")
        .unwrap();
    assert!(events[1..fin].iter().all(|kind| *kind == "touched"));
    assert_eq!(
        events.iter().filter(|kind| **kind == "peer closed").count(),
        1
    );
    assert!(bench.appliance.stack.tcp(flow).is_none());
}

#[test]
fn uses_sockets_again() {
    let mut bench = Bench::new();
    for _ in 0..100 {
        let handle = bench.peer.connect(DATA_PORT);
        assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(handle).may_send()));
        bench.peer.tcp(handle).send_slice(b"hello").unwrap();
        assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(handle).can_recv()));
        bench.peer.tcp(handle).close();
        assert!(
            bench.run_until(SECOND, |bench| bench.peer.tcp(handle).state()
                == State::TimeWait)
        );
        bench.peer.sockets.remove(handle);
    }
    assert_eq!(bench.counter("tcp.accepted"), 100);
    assert_eq!(bench.counter("tcp.closed"), 100);
    assert_eq!(bench.counter("rest.flows"), 0);
    assert_eq!(bench.appliance.stack.sockets_made(), 1);
}

/// The appliance closes first: its TIME-WAIT holds no socket.
#[test]
fn remembers_ended_connections_without_their_sockets() {
    let mut bench = Bench::new();
    let rest = bench.resting();
    let port = bench.peer.port();
    let handle = bench.peer.connect_from(port, PORT);
    bench.run(SECOND / 10);
    let flow = bench.log.flows()[0];
    bench.appliance.stack.release(flow);
    bench.clockwork.asleep.set(None);
    assert!(
        bench.run_until(SECOND, |bench| bench.peer.tcp(handle).state()
            == State::CloseWait)
    );
    bench.peer.tcp(handle).close();
    bench.run(SECOND / 10);
    assert_eq!(bench.peer.tcp(handle).state(), State::Closed);
    assert_eq!(bench.counter("rest.time_wait"), 1);
    assert_eq!(bench.counter("rest.flows"), 0);

    // The peer's FIN once more, as if its acknowledgement had been lost.
    let fin = bench
        .capture
        .iter()
        .filter_map(|frame| as_tcp(frame))
        .map(|(_, segment)| (segment.seq_number().0, segment.ack_number().0))
        .next_back();
    let (our_next, peer_next) = fin.unwrap();
    bench.capture.clear();
    bench.inject(segment(
        (PEER_IP, port),
        PORT,
        TcpControl::Fin,
        peer_next - 1,
        Some(our_next),
    ));
    bench.run(SECOND / 10);
    let (_, answer) = as_tcp(bench.capture.last().unwrap()).unwrap();
    assert!(!answer.rst());
    assert_eq!(answer.ack_number(), TcpSeqNumber(peer_next));

    // A SYN from the past is not let in, one beyond the last byte is.
    bench.capture.clear();
    bench.inject(segment(
        (PEER_IP, port),
        PORT,
        TcpControl::Syn,
        peer_next - 1000,
        None,
    ));
    bench.run(SECOND / 10);
    assert!(
        bench
            .capture
            .iter()
            .filter_map(|f| as_tcp(f))
            .all(|(_, answer)| !answer.syn())
    );
    bench.inject(segment(
        (PEER_IP, port),
        PORT,
        TcpControl::Syn,
        peer_next + 1,
        None,
    ));
    bench.run(SECOND / 10);
    assert!(
        bench
            .capture
            .iter()
            .filter_map(|f| as_tcp(f))
            .any(|(_, answer)| answer.syn())
    );

    bench.run(60 * SECOND);
    assert_eq!(bench.resting(), rest);
}

#[test]
fn a_reset_frees_the_connection() {
    for service_closes in [false, true] {
        let mut bench = Bench::new();
        let rest = bench.resting();
        bench.log.idle.set(true);
        let handle = bench.peer.connect(PORT);
        bench.run(SECOND / 10);
        let flow = bench.log.flows()[0];
        if service_closes {
            bench.appliance.stack.tcp(flow).unwrap().close();
            bench.clockwork.asleep.set(None);
            bench.run(SECOND / 10);
        }
        bench.peer.tcp(handle).abort();
        bench.run(SECOND / 10);
        assert_eq!(kinds(&bench.log.take()).last(), Some(&"broken"));
        bench.run(SECOND / 10);
        assert_eq!(bench.resting(), rest);
    }
}

#[test]
fn a_reset_or_fin_in_the_handshake_frees_the_connection() {
    for control in [TcpControl::Rst, TcpControl::Fin] {
        let mut bench = Bench::new();
        let rest = bench.resting();
        bench.introduce();
        // The peer's own stack is not to answer.
        bench.cut = true;
        bench.inject(segment((PEER_IP, 999), PORT, TcpControl::Syn, 100, None));
        bench.run(SECOND / 10);
        let (_, answer) = bench
            .capture
            .iter()
            .find_map(|frame| as_tcp(frame))
            .unwrap();
        assert!(answer.syn());
        let ack = answer.seq_number().0 + 1;
        assert_eq!(bench.counter("rest.flows"), 1);
        bench.inject(segment((PEER_IP, 999), PORT, control, 101, Some(ack)));
        bench.run(SECOND / 10);
        if control == TcpControl::Fin {
            assert_eq!(bench.counter("tcp.accepted"), 1);
            bench.inject(segment(
                (PEER_IP, 999),
                PORT,
                TcpControl::None,
                102,
                Some(ack + 1),
            ));
            bench.run(SECOND / 10);
        } else {
            assert_eq!(bench.counter("tcp.accepted"), 0);
        }
        assert_eq!(bench.resting(), rest, "{control:?}");
    }
}

#[test]
fn aborts_and_unread_data_reset_the_peer() {
    let mut bench = Bench::new();
    bench.log.idle.set(true);
    let aborted = bench.peer.connect(PORT);
    let released = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    bench.peer.tcp(released).send_slice(b"never read").unwrap();
    bench.run(SECOND / 10);
    let flows = bench.log.flows();
    bench.appliance.stack.abort(flows[0]);
    bench.appliance.stack.release(flows[1]);
    bench.clockwork.asleep.set(None);
    bench.run(SECOND / 10);
    assert_eq!(bench.peer.tcp(aborted).state(), State::Closed);
    assert_eq!(bench.peer.tcp(released).state(), State::Closed);
    assert_eq!(bench.counter("rest.flows"), 0);
}

/// The cable is pulled in the middle of everything: all is freed in bounded
/// time, whatever the connection was doing.
#[test]
fn a_peer_that_vanishes_is_noticed() {
    let mut bench = Bench::new();
    let rest = bench.resting();
    bench.log.greeting.set(10_000_000);
    let busy = bench.peer.connect(DATA_PORT);
    let idle = bench.peer.connect(PORT);
    bench.run(SECOND / 100);
    bench.log.idle.set(true);
    let closing = bench.peer.connect(PORT);
    bench.run(SECOND / 100);
    let flow = *bench.log.flows().last().unwrap();
    assert!(bench.peer.tcp(busy).may_send() && bench.peer.tcp(idle).may_send());
    assert!(bench.peer.tcp(closing).may_send());
    bench.cut = true;
    bench.appliance.stack.release(flow);
    bench.clockwork.asleep.set(None);
    bench.run(60 * SECOND);
    assert_eq!(bench.resting(), rest);
    assert_eq!(bench.counter("tcp.broken"), 3);
}

/// A connection that is merely silent lives on: it is asked, and answers.
#[test]
fn a_silent_peer_is_kept() {
    let mut bench = Bench::new();
    let handle = bench.peer.connect(PORT);
    bench.run(300 * SECOND);
    assert_eq!(bench.peer.tcp(handle).state(), State::Established);
    assert_eq!(bench.counter("rest.flows"), 1);
}

/// The cable is out for ten seconds: connections survive it.
#[test]
fn a_short_cut_breaks_nothing() {
    let mut bench = Bench::new();
    bench.log.greeting.set(3_000_000);
    let handle = bench.peer.connect(DATA_PORT);
    let mut got = 0;
    let mut read = |bench: &mut Bench| {
        let socket = bench.peer.tcp(handle);
        while socket.can_recv() {
            got += socket.recv(|data| (data.len(), data.len())).unwrap();
        }
        got
    };
    assert!(bench.run_until(SECOND, |bench| read(bench) > 200_000));
    bench.cut = true;
    bench.hardware.set_link(uniperf_drivers::nic::Link::Down);
    bench.clockwork.asleep.set(None);
    bench.run_until(10 * SECOND, |bench| read(bench) == 0);
    bench.cut = false;
    bench.hardware.set_link(crate::testing::nic::UP);
    bench.clockwork.asleep.set(None);
    assert!(bench.run_until(60 * SECOND, |bench| read(bench) == 3_000_000));
    assert!(bench.printed().contains("uniperf: link down\n"));
}
