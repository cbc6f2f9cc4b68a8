//! Peers that use TCP against its purpose, each beside netperf's work.

use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use uniperf_harness::client::{OwnTest, Plan, server};
use uniperf_harness::frames::Noise;
use uniperf_harness::raw_tcp::{RawPeer, Received};

use crate::floods::{can_hear, is_bounded, work};
use crate::rig::Rig;

/// Nobody else has it.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 66);
/// More than any peer here takes.
const ENDLESS: Plan = Plan::Send(1 << 30);
const WINDOW: u16 = 65_535;

/// What a peer did and got, in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Traffic {
    sent: u64,
    received: u64,
}

/// Runs the work beside a peer, whose connection is one of a test of its own.
fn beside(
    rig: &mut Rig,
    name: &str,
    plan: Plan,
    peer: impl FnOnce(&mut RawPeer, &AtomicBool) -> Traffic + Send,
) -> (Traffic, f64) {
    let network = rig.appliance.network();
    let open = || OwnTest::open(server(rig.ready.address), plan, Some(ADDRESS));
    let test = network.enter(open).unwrap().unwrap();
    let mut raw = RawPeer::connect(network, ADDRESS, test.data, WINDOW).unwrap();
    let stop = AtomicBool::new(false);
    let begin = Instant::now();
    let ([transactions, stream], traffic) = std::thread::scope(|scope| {
        let thread = scope.spawn(|| peer(&mut raw, &stop));
        // The peer is to end also where this panics.
        let end = StopOnDrop(&stop);
        let figures = work(rig);
        drop(end);
        (figures, thread.join().unwrap())
    });
    let took = begin.elapsed().as_secs_f64();
    println!(
        "{name}: {:.0} segments/s sent, {:.0} received; TCP_RR {transactions:.0} /s, TCP_STREAM \
         {stream:.0} Mbit/s, in {took:.1} s",
        traffic.sent as f64 / took,
        traffic.received as f64 / took,
    );
    is_bounded(&rig.appliance.counters().unwrap());
    (traffic, took)
}

struct StopOnDrop<'a>(&'a AtomicBool);

impl Drop for StopOnDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn goes_on(stop: &AtomicBool) -> bool {
    !stop.load(Ordering::Relaxed)
}

/// Takes what has come, and returns the end of the furthest.
fn take(peer: &RawPeer, traffic: &mut Traffic, wait: Duration) -> Option<u32> {
    let mut end = None;
    let mut wait = wait;
    while let Some(segment) = peer.receive(wait).unwrap() {
        assert!(!segment.header.rst, "the connection was reset");
        traffic.received += 1;
        let ahead = segment.end().wrapping_sub(end.unwrap_or(peer.awaited));
        if ahead.cast_signed() > 0 {
            end = Some(segment.end());
        }
        wait = Duration::ZERO;
    }
    end
}

/// Closes its window, and answers each question whether it is still closed.
fn closes_its_window(peer: &mut RawPeer, stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    peer.window = 0;
    while goes_on(stop) {
        if let Some(end) = take(peer, &mut traffic, Duration::from_millis(50)) {
            // What had been sent before the window was closed, and one byte at a time.
            if end.wrapping_sub(peer.awaited) > 1 {
                peer.awaited = end;
            }
        }
        peer.acknowledge().unwrap();
        traffic.sent += 1;
    }
    traffic
}

/// Closes its window, or never says anything again.
fn falls_silent(peer: &mut RawPeer, stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    while goes_on(stop) {
        take(peer, &mut traffic, Duration::from_millis(50));
    }
    traffic
}

/// Acknowledges byte by byte, as fast as it can.
fn acknowledges_single_bytes(peer: &mut RawPeer, stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    let mut end = peer.awaited;
    while goes_on(stop) {
        if let Some(further) = take(peer, &mut traffic, Duration::ZERO) {
            end = further;
        }
        for _ in 0..50 {
            if peer.awaited != end {
                peer.awaited = peer.awaited.wrapping_add(1);
                peer.acknowledge().unwrap();
                traffic.sent += 1;
            }
        }
    }
    traffic
}

/// Sends the same acknowledgement for ever.
fn repeats_an_acknowledgement(peer: &mut RawPeer, stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    while goes_on(stop) {
        for _ in 0..50 {
            peer.acknowledge().unwrap();
            traffic.sent += 1;
        }
        take(peer, &mut traffic, Duration::ZERO);
    }
    traffic
}

/// Sends single bytes, a hundred under way.
fn sends_single_bytes(peer: &mut RawPeer, stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    while goes_on(stop) {
        for _ in 0..100 {
            peer.send(&[7]).unwrap();
            traffic.sent += 1;
        }
        take(peer, &mut traffic, Duration::from_millis(20));
    }
    traffic
}

/// Resets and SYNs all over the window, as from somebody who has guessed the ports.
fn forges_resets(peer: &mut RawPeer, stop: &AtomicBool) -> Traffic {
    let mut traffic = Traffic::default();
    let mut noise = Noise::new(10);
    peer.send(&[7; 1000]).unwrap();
    take(peer, &mut traffic, Duration::from_millis(100));
    traffic = Traffic::default();
    let next = peer.next;
    while goes_on(stop) {
        for number in 0..50 {
            // From the byte after the right one up to what the window may be.
            peer.next = next.wrapping_add(1 + noise.below(60_000) as u32);
            peer.send_with(&[], |tcp| {
                tcp.syn = number % 5 == 0;
                tcp.rst = !tcp.syn;
                tcp.ack = number % 2 == 0;
            })
            .unwrap();
            traffic.sent += 1;
        }
        peer.next = next;
        take(peer, &mut traffic, Duration::ZERO);
    }
    // It goes on as if nothing had been.
    peer.send(&[7; 1000]).unwrap();
    let is_answer = |segment: Received| segment.header.acknowledgment_number == peer.next;
    let mut answers = std::iter::from_fn(|| peer.receive(Duration::from_secs(2)).unwrap());
    assert!(answers.any(is_answer), "the connection has died");
    traffic
}

#[test]
fn bad_peers_leave_others_running() {
    let mut rig = Rig::new();
    can_hear(&rig);
    let [transactions, stream] = work(&rig);
    println!("quiet: TCP_RR {transactions:.0} /s, TCP_STREAM {stream:.0} Mbit/s");

    let (closed, took) = beside(&mut rig, "closes its window", ENDLESS, closes_its_window);
    // Its window was open before, for one flight.
    assert!((closed.received as f64) < 100.0 + 10.0 * took, "{closed:?}");
    let (silent, took) = beside(&mut rig, "falls silent", ENDLESS, falls_silent);
    assert!((silent.received as f64) < 100.0 + 50.0 * took, "{silent:?}");
    let name = "acknowledges single bytes";
    beside(&mut rig, name, ENDLESS, acknowledges_single_bytes);
    let name = "repeats an acknowledgement";
    let (storm, _) = beside(&mut rig, name, ENDLESS, repeats_an_acknowledgement);
    assert!(storm.received < 200 + storm.sent / 10, "{storm:?}");
    beside(
        &mut rig,
        "sends single bytes",
        Plan::Receive,
        sends_single_bytes,
    );
    let (forged, took) = beside(&mut rig, "forges resets", Plan::Receive, forges_resets);
    assert!((forged.received as f64) < 3.0 + took, "{forged:?}");
    rig.is_well();
    rig.end();
}
