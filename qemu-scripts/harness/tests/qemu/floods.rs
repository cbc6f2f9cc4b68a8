//! Masses of frames while netperf runs: its tests end well and with the right
//! figures, and memory is bounded. Rates are printed, and so is what they cost.

use std::time::{Duration, Instant};

use uniperf_harness::flood::{self, Flood};
use uniperf_harness::frames::FrameSender;
use uniperf_harness::peers::ping_flood;
use uniperf_harness::{Counters, Machine, Test};

use crate::rig::{Rig, append};

/// Beyond what netperf takes, in a flood that leaves it a part of the CPU.
const PATIENCE: Duration = Duration::from_secs(30);
const STREAM: u64 = 2048 * 16384;
const TRANSACTIONS: u64 = 2000;

/// netperf's TCP_RR and TCP_STREAM with an amount of work each, beside whatever goes
/// on. Returns their rates.
pub fn work(rig: &Rig) -> [f64; 2] {
    let netperf = rig.netperf().length(PATIENCE);
    let transactions = netperf
        .clone()
        .amount(TRANSACTIONS)
        .run(Test::TcpRr)
        .unwrap();
    let stream = netperf
        .amount(STREAM)
        .test_arguments(["-m", "16384"])
        .run(Test::TcpStream)
        .unwrap();
    assert_eq!(stream.local_bytes_sent, Some(STREAM));
    assert_eq!(stream.remote_bytes_received, Some(STREAM));
    [transactions.throughput, stream.throughput]
}

/// Waits until the appliance hears: QEMU's e1000 is deaf for the first second.
pub fn can_hear(rig: &Rig) {
    let pings = ping_flood(rig.appliance.network(), rig.ready.address, 1, 56).unwrap();
    assert!(pings.received > 0);
}

/// What is in use is no more than what there may be.
pub fn is_bounded(counters: &Counters) {
    let get = |name: &str| counters.get(name).unwrap();
    assert!(get("rest.flows") <= 1000, "{counters:?}");
    assert!(get("rest.socket_bytes_left") > 0, "{counters:?}");
    assert!(get("rest.time_wait") <= 4096, "{counters:?}");
    assert!(get("rest.buffers_free") <= 8, "{counters:?}");
}

/// The work beside a flood.
fn beside(rig: &mut Rig, name: &str, frames: Vec<Vec<u8>>, rate: u32) {
    let before = rig.appliance.counters().unwrap();
    let begin = Instant::now();
    let flood = Flood::start(rig.appliance.network(), frames, rate).unwrap();
    let [transactions, stream] = work(rig);
    let during = rig.appliance.counters().unwrap();
    let took = begin.elapsed().as_secs_f64();
    let sent = flood.stop().unwrap();
    is_bounded(&during);
    let grown = |name: &str| during.get(name).unwrap() - before.get(name).unwrap_or(0);
    println!(
        "{:.0} {name}/s: TCP_RR {transactions:.0} /s, TCP_STREAM {stream:.0} Mbit/s, in {took:.1} \
         s ({} frames received, {} missed)",
        sent.rate(),
        grown("rx.frames"),
        grown("nic.rx_missed"),
    );
    for name in during.0.keys() {
        if (name.starts_with("drop.") || name.starts_with("tcp.")) && grown(name) > 0 {
            println!("  {name} {}", grown(name));
        }
    }
}

#[test]
fn floods_leave_others_running() {
    // What is sent from elsewhere is answered to the gateway.
    let mut rig = Rig::with(append("gw=10.77.0.1"));
    can_hear(&rig);
    // Nobody has connected before: netperf's address is as good as those of the SYNs.
    beside(&mut rig, "SYNs", flood::syns(100_000), 30_000);
    let [transactions, stream] = work(&rig);
    println!("quiet: TCP_RR {transactions:.0} /s, TCP_STREAM {stream:.0} Mbit/s");
    beside(
        &mut rig,
        "stray datagrams",
        flood::stray_datagrams(4096),
        100_000,
    );
    beside(&mut rig, "fragments", flood::fragments(4096), 50_000);
    rig.is_well();
    rig.end();
}

/// Cycles for which the CPU has been busy; instructions, where these are counted.
fn busy(rig: &mut Rig) -> u64 {
    let counters = rig.appliance.counters().unwrap();
    counters.get("cpu.cycles").unwrap() - counters.get("cpu.idle_cycles").unwrap()
}

#[test]
fn what_a_bad_frame_costs() {
    let mut rig = Rig::with(Machine {
        icount: true,
        ..append("gw=10.77.0.1 rx=napi")
    });
    can_hear(&rig);
    for (name, frames) in [
        ("stray datagram", flood::stray_datagrams(4000)),
        ("fragment", flood::fragments(4000)),
        ("SYN", flood::syns(4000)),
    ] {
        let sender = FrameSender::new(rig.appliance.network()).unwrap();
        let received = rig.counter("rx.frames");
        let before = busy(&mut rig);
        for frame in &frames {
            sender.send(frame).unwrap();
        }
        // A slow guest's NIC may miss some.
        let mut arrived = 0;
        while rig.counter("rx.frames") - received > arrived {
            arrived = rig.counter("rx.frames") - received;
            std::thread::sleep(Duration::from_millis(200));
        }
        let spent = busy(&mut rig) - before;
        println!("{} instructions a {name} ({arrived} came)", spent / arrived);
    }
    rig.end();
}
