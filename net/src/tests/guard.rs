//! Segments from whoever can guess a connection's name (RFC 5961), and handshakes
//! while a flood goes on.

use alloc::vec::Vec;

use smoltcp::wire::{Ipv4Address, TcpControl};

use crate::testing::bench::{SECOND, static_config};
use crate::testing::services::PORT;
use crate::testing::*;

const FROM: (Ipv4Address, u16) = (PEER_IP, 4000);
const MILLISECOND: u64 = SECOND / 1000;

/// A connection whose peer is the test, which has sent ten bytes of its own. Returns
/// the bench and what the peer is to acknowledge.
fn connection() -> (Bench, i32) {
    let mut bench = Bench::new();
    bench.introduce();
    bench.cut = true;
    bench.log.idle.set(true);
    bench.inject(segment(FROM, PORT, TcpControl::Syn, 100, None));
    bench.run(MILLISECOND);
    let (_, reply) = bench
        .capture
        .iter()
        .find_map(|frame| as_tcp(frame))
        .unwrap();
    let ack = reply.seq_number().0.wrapping_add(1);
    bench.inject(segment(FROM, PORT, TcpControl::None, 101, Some(ack)));
    bench.inject(data(FROM, PORT, 101, ack, &[7; 10]));
    bench.run(100 * MILLISECOND);
    assert_eq!(bench.appliance.stack.flow_count(), 1);
    bench.capture.clear();
    (bench, ack)
}

/// What was sent since last asked: sequence number and acknowledgement of segments
/// that are neither SYN nor RST.
fn acknowledgements(bench: &mut Bench) -> Vec<(i32, i32)> {
    let sent: Vec<_> = bench.capture.drain(..).collect();
    let tcp = sent.iter().filter_map(|frame| as_tcp(frame));
    tcp.map(|(_, segment)| {
        assert!(!segment.syn() && !segment.rst());
        (segment.seq_number().0, segment.ack_number().0)
    })
    .collect()
}

#[test]
fn only_the_exact_reset_breaks_a_connection() {
    let (mut bench, ack) = connection();
    // In the window, not there: a question, and one a second at most.
    for round in 0..3 {
        for guess in [112, 5000, 111 + 8000] {
            bench.inject(segment(FROM, PORT, TcpControl::Rst, guess, Some(ack)));
            bench.inject(segment(FROM, PORT, TcpControl::Rst, guess, None));
        }
        bench.run(2 * SECOND);
        assert_eq!(acknowledgements(&mut bench), [(ack, 111)], "{round}");
    }
    // Before and beyond it: nothing.
    for guess in [110, 100, 111 + 9000, i32::MIN] {
        bench.inject(segment(FROM, PORT, TcpControl::Rst, guess, Some(ack)));
    }
    bench.run(2 * SECOND);
    assert_eq!(acknowledgements(&mut bench), []);
    assert_eq!(bench.counter("tcp.challenges"), 3);
    assert_eq!(bench.counter("tcp.broken"), 0);
    bench.inject(segment(FROM, PORT, TcpControl::Rst, 111, None));
    bench.run(SECOND);
    assert_eq!(bench.counter("tcp.broken"), 1);
    assert_eq!(bench.appliance.stack.flow_count(), 0);
}

#[test]
fn a_syn_amid_a_connection_is_a_question_to_its_peer() {
    let (mut bench, ack) = connection();
    for seq in [111, 112, 5_000_000] {
        bench.inject(segment(FROM, PORT, TcpControl::Syn, seq, None));
        bench.run(2 * SECOND);
        assert_eq!(acknowledgements(&mut bench), [(ack, 111)]);
    }
    assert_eq!(bench.appliance.stack.flow_count(), 1);
    // A peer that has begun anew resets what it does not know, and gets in.
    bench.inject(segment(FROM, PORT, TcpControl::Rst, 111, None));
    bench.run(10 * MILLISECOND);
    bench.inject(segment(FROM, PORT, TcpControl::Syn, 5_000_000, None));
    bench.run(10 * MILLISECOND);
    let reply = bench.capture.iter().find_map(|frame| as_tcp(frame));
    let (_, reply) = reply.expect("an answer to the SYN");
    assert!(reply.syn() && reply.ack_number().0 == 5_000_001);
}

/// A bench with few places for handshakes.
fn few_places() -> Bench {
    let mut config = static_config();
    config.tcp.half_open = 24;
    let mut bench = Bench::with(&config);
    bench.introduce();
    bench
}

/// So many SYNs from hosts that are not there.
fn flood(bench: &mut Bench, round: u32) {
    for number in 0..40 {
        let host = Ipv4Address::from(0x0a00_0010 + number);
        let from = (host, 1000 + round as u16);
        bench.inject(segment(from, PORT, TcpControl::Syn, 1, None));
    }
    bench.run(MILLISECOND);
}

#[test]
fn who_proves_an_address_gets_in_beside_a_flood() {
    let mut bench = few_places();
    for round in 0..10 {
        flood(&mut bench, round);
    }
    let doubted = bench.counter("tcp.syn_doubted");
    assert!(doubted >= 400 - 12, "{doubted}");
    let handle = bench.peer.connect(PORT);
    let mut round = 10;
    let done = bench.run_until(5 * SECOND, |bench| {
        round += 1;
        if round % 50 == 0 {
            flood(bench, round);
        }
        bench.peer.tcp(handle).may_send()
    });
    assert!(done);
    // The address is known now: no detour.
    let another = bench.peer.connect(PORT);
    let begin = bench.now();
    assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(another).may_send()));
    assert!(bench.now() - begin < MILLISECOND);
    assert_eq!(bench.counter("tcp.half_open_evicted"), 0);
}

#[test]
fn a_wrong_proof_is_none() {
    let mut bench = few_places();
    bench.cut = true;
    flood(&mut bench, 0);
    bench.capture.clear();
    bench.inject(segment(FROM, PORT, TcpControl::Syn, 1, None));
    bench.run(MILLISECOND);
    let (_, question) = as_tcp(&bench.capture[0]).unwrap();
    assert!(question.syn() && question.ack());
    let proof = question.ack_number().0;
    assert_ne!(proof, 2);
    for (number, gets_in) in [(proof.wrapping_add(1), false), (proof, true)] {
        bench.inject(segment(FROM, PORT, TcpControl::Rst, number, None));
        bench.capture.clear();
        bench.inject(segment(FROM, PORT, TcpControl::Syn, 1, None));
        bench.run(MILLISECOND);
        let (_, reply) = as_tcp(&bench.capture[0]).unwrap();
        assert_eq!(reply.ack_number().0 == 2, gets_in);
    }
}
