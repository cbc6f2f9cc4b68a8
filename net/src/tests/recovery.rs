//! What the appliance sends again, over a wire that loses chosen frames.

use alloc::boxed::Box;
use alloc::rc::Rc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::RefCell;

use smoltcp::iface::SocketHandle;
use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber};

use crate::config::Config;
use crate::services::{Ending, Event};
use crate::testing::bench::{SECOND, static_config};
use crate::testing::services::{DATA_PORT, pattern};
use crate::testing::*;

const MILLISECOND: u64 = 1_000_000;
/// One way.
const DELAY: u64 = 5 * MILLISECOND;
const ROUND_TRIP: u64 = 2 * DELAY;
const MSS: usize = 1460;

/// A data segment that the appliance put on the wire: when, where in the
/// stream, how long, and whether it was lost.
#[derive(Clone, Copy, Debug)]
struct Seen {
    at: usize,
    len: usize,
    lost: bool,
}

/// A stream from the appliance, whose segments are lost as `lose` says: it is
/// given a segment's place in the stream and how often that was sent before.
struct Stream {
    bench: Bench,
    handle: SocketHandle,
    seen: Rc<RefCell<Vec<Seen>>>,
    total: usize,
}

impl Stream {
    fn new(total: usize, mut lose: impl FnMut(usize, usize) -> bool + 'static) -> Self {
        let mut bench = Bench::new();
        bench.introduce();
        bench.delay = DELAY;
        bench.log.greeting.set(total);
        let seen = Rc::new(RefCell::new(Vec::<Seen>::new()));
        let log = seen.clone();
        let mut first = None;
        bench.loss = Some(Box::new(move |to_peer, frame| {
            let Some((_, segment)) = as_tcp(frame).filter(|_| to_peer) else {
                return false;
            };
            let seq = segment.seq_number().0 as u32;
            if segment.syn() {
                first = Some(seq.wrapping_add(1));
            }
            let len = segment.payload().len() + usize::from(segment.fin());
            let Some(first) = first.filter(|_| len > 0 && !segment.syn()) else {
                return false;
            };
            let at = seq.wrapping_sub(first) as usize;
            let mut log = log.borrow_mut();
            let before = log.iter().filter(|seen| seen.at == at).count();
            let lost = lose(at, before);
            log.push(Seen { at, len, lost });
            lost
        }));
        let handle = bench.peer.connect(DATA_PORT);
        Self {
            bench,
            handle,
            seen,
            total,
        }
    }

    /// Runs until all has come, and finds that it is right.
    fn finish(&mut self) -> Outcome {
        let (handle, total) = (self.handle, self.total);
        let start = self.bench.now();
        let (mut got, mut last, mut gap) = (0, None, 0);
        let done = self.bench.run_until(60 * SECOND, |bench| {
            let now = bench.now();
            let socket = bench.peer.tcp(handle);
            while socket.can_recv() {
                gap = gap.max(now - last.unwrap_or(now));
                last = Some(now);
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
        let outcome = Outcome {
            took: self.bench.now() - start,
            gap,
            needless: self.needless(),
        };
        std::println!("{outcome:?}");
        outcome
    }

    /// How many data segments were sent more than were needed: each of those that
    /// were lost must be sent once more.
    fn needless(&self) -> usize {
        let seen = self.seen.borrow();
        let lost = seen.iter().filter(|seen| seen.lost).count();
        let sent: usize = seen.iter().map(|seen| seen.len).sum();
        (sent - self.total).div_ceil(MSS).saturating_sub(lost)
    }
}

/// What became of a stream.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// How long it took, in nanoseconds.
    took: u64,
    /// The longest time in which nothing came.
    gap: u64,
    /// Segments that were sent for nothing.
    needless: usize,
}

/// Sends a stream whose segments are lost as `lose` says.
fn stream(total: usize, lose: impl FnMut(usize, usize) -> bool + 'static) -> Outcome {
    Stream::new(total, lose).finish()
}

const TOTAL: usize = 200 * MSS;

/// The nth segment of a full stream.
const fn nth(segment: usize) -> usize {
    segment * MSS
}

#[test]
fn a_stream_over_a_good_wire_starts_fast_and_repeats_nothing() {
    let outcome = stream(TOTAL, |_, _| false);
    // The handshake, and windows of 10, 20 and 40 segments; the peer's own lets no
    // more than 44 be under way.
    assert!(outcome.took < 9 * ROUND_TRIP);
    assert_eq!(outcome.needless, 0);
}

#[test]
fn a_lost_segment_costs_a_round_trip() {
    for segment in [0, 5, 20, 100, 190] {
        let outcome = stream(TOTAL, move |at, before| at == nth(segment) && before == 0);
        assert!(outcome.gap <= 3 * ROUND_TRIP);
        assert_eq!(outcome.needless, 0);
    }
}

#[test]
fn two_holes_in_a_window_cost_two() {
    let holes = [nth(20), nth(24)];
    let outcome = stream(TOTAL, move |at, before| holes.contains(&at) && before == 0);
    assert!(outcome.gap <= 3 * ROUND_TRIP);
    assert_eq!(outcome.needless, 0);
}

#[test]
fn a_lost_tail_is_probed_for() {
    for tail in 1..4 {
        let outcome = stream(TOTAL, move |at, before| {
            at >= TOTAL - nth(tail) && before == 0
        });
        assert!(outcome.gap <= 300 * MILLISECOND);
        assert!(outcome.needless <= 1);
    }
}

#[test]
fn a_repetition_that_is_lost_is_noticed() {
    let outcome = stream(TOTAL, |at, before| at == nth(20) && before < 2);
    assert!(outcome.gap <= 5 * ROUND_TRIP);
    assert_eq!(outcome.needless, 0);
}

#[test]
fn a_window_that_is_lost_is_sent_again_in_slow_start() {
    let outcome = stream(TOTAL, |at, before| {
        (nth(20)..nth(60)).contains(&at) && before == 0
    });
    assert!(outcome.gap <= 300 * MILLISECOND);
    assert!(outcome.needless <= 1);
}

#[test]
fn a_peer_that_is_gone_is_given_up() {
    let mut stream = Stream::new(TOTAL, |at, _| at >= nth(20));
    let gone = |bench: &mut Bench| bench.appliance.stack.flow_count() == 0;
    assert!(stream.bench.run_until(45 * SECOND, gone));
    // Twenty that came, those under way, and one for each timeout, which doubles.
    assert!(stream.seen.borrow().len() < 80);
}

#[test]
fn what_is_overtaken_is_not_sent_again() {
    for swap in [20, 200, 900] {
        let mut stream = Stream::new(TOTAL, |_, _| false);
        stream.bench.faults.swap = swap;
        let outcome = stream.finish();
        assert!(outcome.took < 15 * ROUND_TRIP);
        assert!(outcome.needless <= 1);
    }
}

/// The end of a stream, which smoltcp would send again a second later.
#[test]
fn a_lost_fin_is_sent_again() {
    let mut stream = Stream::new(TOTAL, |at, before| at == TOTAL && before == 0);
    stream.finish();
    let handle = stream.handle;
    stream.bench.peer.tcp(handle).close();
    let ended = |bench: &mut Bench| bench.appliance.stack.flow_count() == 0;
    assert!(stream.bench.run_until(SECOND / 2, ended));
    assert!(
        stream
            .seen
            .borrow()
            .iter()
            .any(|seen| seen.at == TOTAL && seen.lost)
    );
    let events = stream.bench.log.take();
    let orderly = |event: &Event| {
        matches!(
            event,
            Event::Closed {
                how: Ending::Broken,
                ..
            }
        )
    };
    assert!(!events.iter().any(orderly));
}

/// A FIN that comes before what it follows need not come twice.
#[test]
fn an_early_fin_is_remembered() {
    const BYTES: usize = 40_000;
    // The peer needs three duplicate acknowledgements.
    let mut bench = Bench::with(&Config {
        gro: false,
        ..static_config()
    });
    bench.introduce();
    bench.log.idle.set(true);
    bench.delay = DELAY;
    let mut fins = 0;
    let mut data = 0;
    let sent = Rc::new(RefCell::new(0));
    let count = sent.clone();
    bench.loss = Some(Box::new(move |to_peer, frame| {
        let Some((_, segment)) = as_tcp(frame).filter(|_| !to_peer) else {
            return false;
        };
        fins += u32::from(segment.fin());
        *count.borrow_mut() = fins;
        data += u32::from(!segment.payload().is_empty());
        data == 5
    }));
    let handle = bench.peer.connect(DATA_PORT);
    assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(handle).may_send()));
    let socket = bench.peer.tcp(handle);
    assert_eq!(socket.send_slice(&[7; BYTES]), Ok(BYTES));
    socket.close();
    let closed = |bench: &mut Bench| {
        let events = bench.log.events.borrow();
        events
            .iter()
            .any(|event| matches!(event, Event::PeerClosed { .. }))
    };
    assert!(bench.run_until(30 * ROUND_TRIP, closed));
    assert_eq!(*sent.borrow(), 1);
    let flow = bench.log.flows()[0];
    let socket = bench.appliance.stack.tcp(flow).unwrap();
    assert_eq!(socket.recv_queue(), BYTES);
}

/// A generator of losses, so many in a thousand.
fn at_random(rate: u64, seed: u64) -> impl FnMut(usize, usize) -> bool {
    let mut random = seed * 2 + 1;
    move |_, _| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % 1000 < rate
    }
}

#[test]
fn random_loss_causes_no_storm() {
    for (rate, longest) in [(1, 1), (10, 2), (50, 6)] {
        for seed in 1..8 {
            let outcome = stream(TOTAL * 5, at_random(rate, seed * 0x9e37_79b9));
            assert!(outcome.took <= longest * SECOND);
            assert!(outcome.needless <= 50);
        }
    }
}

/// A segment of a peer that takes reports of what came beyond holes.
fn from_peer(control: TcpControl, seq: i32, ack: Option<i32>, payload: &[u8]) -> Vec<u8> {
    let repr = TcpRepr {
        src_port: 1000,
        dst_port: DATA_PORT,
        control,
        seq_number: TcpSeqNumber(seq),
        ack_number: ack.map(TcpSeqNumber),
        window_len: 8000,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: control == TcpControl::Syn,
        sack_ranges: [None; 3],
        timestamp: None,
        payload,
    };
    ipv4(PEER_IP, IpProtocol::Tcp, repr.buffer_len(), |buffer| {
        let checksums = ChecksumCapabilities::default();
        repr.emit(
            &mut TcpPacket::new_unchecked(buffer),
            &PEER_IP.into(),
            &OUR_IP.into(),
            &checksums,
        );
    })
}

/// A peer that has lost several segments of a window is told of all that came, in
/// each acknowledgement, what came last first.
#[test]
fn all_that_came_beyond_holes_is_reported() {
    let mut bench = Bench::new();
    bench.introduce();
    bench.cut = true;
    bench.inject(from_peer(TcpControl::Syn, 0, None, &[]));
    bench.run(MILLISECOND);
    let (_, syn) = bench.capture.iter().find_map(|f| as_tcp(f)).unwrap();
    let ack = syn.seq_number().0.wrapping_add(1);
    bench.inject(from_peer(TcpControl::None, 1, Some(ack), &[]));
    bench.run(MILLISECOND);
    let reports = |bench: &mut Bench, at: i32| {
        bench.capture.clear();
        bench.inject(from_peer(TcpControl::None, at, Some(ack), &[7; 100]));
        bench.run(MILLISECOND);
        let (ip, segment) = bench.capture.iter().find_map(|f| as_tcp(f)).unwrap();
        let (from, to) = (ip.src_addr.into(), ip.dst_addr.into());
        let repr = TcpRepr::parse(&segment, &from, &to, &ChecksumCapabilities::default()).unwrap();
        let ranges = repr.sack_ranges.into_iter().flatten();
        (repr.ack_number.unwrap().0, ranges.collect::<Vec<_>>())
    };
    assert_eq!(reports(&mut bench, 201), (1, vec![(201, 301)]));
    assert_eq!(reports(&mut bench, 401), (1, vec![(401, 501), (201, 301)]));
    let all = vec![(601, 701), (201, 301), (401, 501)];
    assert_eq!(reports(&mut bench, 601), (1, all));
    assert_eq!(reports(&mut bench, 301), (1, vec![(201, 501), (601, 701)]));
    assert_eq!(reports(&mut bench, 1), (101, vec![(201, 501), (601, 701)]));
    assert_eq!(reports(&mut bench, 101), (501, vec![(601, 701)]));
}
