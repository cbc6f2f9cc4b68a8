use alloc::vec::Vec;

use smoltcp::socket::tcp::State;
use uniperf_drivers::nic::RxChecksum;

use crate::config::{Config, RxMode};
use crate::testing::bench::{SECOND, static_config};
use crate::testing::nic::Hardware;
use crate::testing::services::{DATA_PORT, PORT, pattern};
use crate::testing::*;

const MODES: [RxMode; 4] = [
    RxMode::Napi,
    RxMode::Poll,
    RxMode::Adaptive { hold_ns: 10_000 },
    RxMode::Adaptive { hold_ns: 0 },
];

fn config(rx_mode: RxMode) -> Config {
    Config {
        rx_mode,
        ..static_config()
    }
}

/// Reads what has come from the appliance and checks it against the pattern.
fn read(bench: &mut Bench, handle: smoltcp::iface::SocketHandle, got: &mut usize) {
    let socket = bench.peer.tcp(handle);
    while socket.can_recv() {
        *got += socket
            .recv(|data| {
                let right = |(index, byte): (usize, &u8)| *byte == pattern(*got + index);
                assert!(data.iter().enumerate().all(right), "at {got}");
                (data.len(), data.len())
            })
            .unwrap();
    }
}

#[test]
fn all_modes_deliver_the_same() {
    for mode in MODES {
        let mut bench = Bench::with(&config(mode));
        bench.log.greeting.set(500_000);
        let handle = bench.peer.connect(DATA_PORT);
        let mut got = 0;
        let done = bench.run_until(5 * SECOND, |bench| {
            read(bench, handle, &mut got);
            got == 500_000
        });
        assert!(done, "{mode:?}: {got}");
        bench.peer.tcp(handle).close();
        assert!(
            bench.run_until(SECOND, |bench| bench.peer.tcp(handle).state()
                == State::TimeWait)
        );
        bench.run(SECOND / 100);
        assert_eq!(bench.counter("rest.flows"), 0);
        let waits = bench.appliance.receiver.counters.waits;
        assert_eq!(
            waits == 0,
            mode == RxMode::Poll,
            "{mode:?} waits {waits} times"
        );
    }
}

/// Frames that come far apart are waited for, frames that come close together
/// are polled for.
#[test]
fn adaptive_polls_where_the_next_frame_is_near() {
    let mut bench = Bench::with(&config(RxMode::Adaptive { hold_ns: 50_000 }));
    bench.introduce();
    bench.run(SECOND / 100);
    let mut polls_for = |gaps: &[u64]| {
        let before = bench.appliance.receiver.counters;
        for gap in gaps {
            bench.inject(ping(1, b"x"));
            bench.run(*gap);
        }
        bench.run(SECOND / 100);
        let after = bench.appliance.receiver.counters;
        assert!(after.waits > before.waits);
        after.polls - before.polls
    };
    let alone = polls_for(&[SECOND / 100]);
    assert!(alone < 5, "{alone} polls");
    let apart = polls_for(&[100_000, 100_000, 100_000]);
    assert!(apart < 15, "{apart} polls");
    // A turn of the bench takes a microsecond: the last one is waited for.
    let together = polls_for(&[20_000, 20_000, 20_000]);
    assert!((70..110).contains(&together), "{together} polls");
}

/// A NIC that raises no interrupt for a frame that comes while it is masked,
/// and a frame that comes just then: only the second look finds it.
#[test]
fn no_frame_is_stranded_between_unmasking_and_waiting() {
    for mode in [RxMode::Napi, RxMode::default()] {
        let mut bench = Bench::with(&config(mode));
        bench.hardware.loses_masked_causes.set(true);
        bench.run(SECOND / 10);
        bench.hardware.masked.set(true);
        let hits = bench.appliance.receiver.counters.rechecks_hit;
        *bench.hardware.on_unmask.borrow_mut() =
            Some(alloc::boxed::Box::new(|hardware: &Hardware| {
                hardware.masked.set(true);
                hardware.arrive(ping(7, b"stranded"));
                hardware.masked.set(false);
            }));
        // Any frame starts a round; the second one comes at its end.
        bench.hardware.masked.set(false);
        bench.inject(ping(6, b"first"));
        bench.run(SECOND / 1000);
        assert_eq!(bench.appliance.receiver.counters.rechecks_hit, hits + 1);
        assert!(bench.hardware.received.borrow().is_empty());
    }
}

#[test]
fn a_lost_interrupt_costs_a_second_at_most() {
    let mut bench = Bench::with(&config(RxMode::Napi));
    bench.run(SECOND / 10);
    bench
        .hardware
        .received
        .borrow_mut()
        .push_back(ping(1, b"x"));
    bench.run(SECOND + SECOND / 10);
    assert!(bench.hardware.received.borrow().is_empty());
}

#[test]
fn a_full_budget_polls_on_without_unmasking() {
    let mut bench = Bench::with(&Config {
        weight: 8,
        ..config(RxMode::Napi)
    });
    bench.run(SECOND / 10);
    let before = bench.appliance.receiver.counters;
    for seq in 0..20 {
        bench.inject(ping(seq, b"x"));
    }
    bench.run(SECOND / 1000);
    let after = bench.appliance.receiver.counters;
    assert_eq!(after.exhausted_polls - before.exhausted_polls, 2);
    assert_eq!(after.polls - before.polls, 3);
    assert_eq!(after.interrupts - before.interrupts, 1);
}

#[test]
fn one_doorbell_a_batch() {
    let mut bench = Bench::new();
    let learn = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    assert!(bench.peer.tcp(learn).may_send());
    let before = bench.hardware.doorbells.get();
    for seq in 0..30 {
        bench.inject(ping(seq, b"x"));
    }
    bench.run(SECOND / 1000);
    assert_eq!(bench.hardware.doorbells.get(), before + 1);
}

/// The NIC sends little, then nothing, then everything: what waits, waits, and
/// nothing is lost inside.
#[test]
fn a_full_ring_holds_back_and_loses_nothing() {
    for ring in [4, 16, 256] {
        let hardware = Hardware::new(64, ring);
        let mut bench = Bench::on(&static_config(), hardware);
        bench.log.greeting.set(400_000);
        let handle = bench.peer.connect(DATA_PORT);
        let mut got = 0;
        bench.hardware.tx_credit.set(3);
        let done = bench.run_until(30 * SECOND, |bench| {
            read(bench, handle, &mut got);
            let credit = bench.below(3) as usize;
            bench.hardware.tx_credit.set(credit);
            got == 400_000
        });
        assert!(done, "ring of {ring}: {got}");
        if ring == 4 {
            assert!(bench.counter("tx.ring_full") > 0);
        }
        assert_eq!(bench.counter("drop.tx_full"), 0);
    }
}

/// While no answer could be sent, frames stay in the NIC's ring.
#[test]
fn a_stalled_transmitter_stops_reception() {
    let hardware = Hardware::new(256, 8);
    let mut bench = Bench::on(&static_config(), hardware);
    let learn = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    assert!(bench.peer.tcp(learn).may_send());
    bench.hardware.tx_credit.set(0);
    for seq in 0..100 {
        bench.inject(ping(seq, b"x"));
    }
    bench.run(SECOND / 10);
    assert!(bench.hardware.received.borrow().len() > 80);
    bench.hardware.tx_credit.set(usize::MAX);
    bench.capture.clear();
    bench.run(SECOND / 10);
    let pings = bench.capture.iter().filter(|frame| frame[23] == 1).count();
    assert_eq!(pings, 100);
    assert_eq!(bench.counter("drop.tx_full"), 0);
    assert_eq!(bench.counter("rest.tx_descriptors_free"), 8);
}

/// smoltcp leaves received checksums to us: with each verdict a good segment is
/// taken, and a bad one is only with the verdict that it is good.
#[test]
fn the_nics_verdict_decides_what_is_summed() {
    let verdicts = [
        (RxChecksum::Unknown, false),
        (RxChecksum::IpGood, false),
        (RxChecksum::Good, true),
        (RxChecksum::Bad, false),
    ];
    for (verdict, taken) in verdicts {
        let mut bench = Bench::new();
        bench.hardware.verdict.set(verdict);
        let mut spoilt = datagram(5000, PORT, b"payload");
        *spoilt.last_mut().unwrap() ^= 0x40;
        bench.inject(spoilt);
        bench.run(SECOND / 1000);
        assert_eq!(!bench.log.take().is_empty(), taken, "{verdict:?}");
        bench.inject(datagram(5000, PORT, b"payload"));
        bench.run(SECOND / 1000);
        let good = verdict != RxChecksum::Bad;
        assert_eq!(!bench.log.take().is_empty(), good, "{verdict:?}");
    }
}

/// A broadcast frame of ARP's type with `packet` in it.
fn arp(packet: &[u8]) -> Vec<u8> {
    [&[0xff; 12], &[0x08, 0x06][..], packet].concat()
}

#[test]
fn what_is_not_for_us_is_counted_and_dropped() {
    let good = datagram(5000, PORT, b"payload");
    let change = |at: usize, value: u8| {
        let mut frame = good.clone();
        frame[at] = value;
        frame
    };
    let cases: Vec<(&str, Vec<u8>)> = alloc::vec![
        ("drop.not_ours", change(5, 0x77)),
        ("drop.protocol", change(12, 0x86)),
        ("drop.truncated", good[..10].to_vec()),
        ("drop.truncated", good[..30].to_vec()),
        ("drop.truncated", good[..good.len() - 1].to_vec()),
        ("drop.malformed", change(14, 0x65)),
        ("drop.malformed", change(14, 0x44)),
        ("drop.checksum", change(22, 3)),
        ("drop.oversized", alloc::vec![0; 1519]),
        ("drop.truncated", arp(&[0, 1, 8, 0, 6, 4, 0, 1, 2])),
        ("drop.malformed", arp(&[0; 28])),
    ];
    for (name, frame) in cases {
        let mut bench = Bench::new();
        bench.inject(frame.clone());
        bench.run(SECOND / 1000);
        assert_eq!(bench.counter(name), 1, "{name}: {frame:02x?}");
        assert!(bench.log.take().is_empty());
    }
}
