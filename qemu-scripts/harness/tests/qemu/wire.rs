//! What is on the wire.

use uniperf_harness::peers::{Capture, ping_flood};
use uniperf_harness::trace::{Station, Verdict};
use uniperf_harness::{Test, mac};

use crate::rig::{Rig, append};

const MIB: u64 = 1 << 20;
/// The appliance with its usual MTU.
pub fn station() -> Station {
    Station {
        mac: mac(0),
        mtu: 1500,
    }
}

#[test]
fn a_flood_of_pings_loses_nothing() {
    let mut rig = Rig::new();
    // The last size comes and goes in fragments.
    for (count, size) in [(20_000, 56), (5_000, 1472), (2_000, 4000)] {
        let network = rig.appliance.network();
        let result = ping_flood(network, rig.ready.address, count, size).unwrap();
        println!("{size}: {result:?}");
        assert_eq!(result.sent, u64::from(count));
        assert_eq!(result.received, result.sent);
    }
    rig.is_well();
    rig.end();
}

#[test]
fn every_frame_is_well_formed_and_has_right_checksums() {
    let mut rig = Rig::new();
    let capture = Capture::start(rig.appliance.network()).unwrap();
    for test in Test::ALL {
        rig.run(test);
    }
    for size in ["1473,1473", "8000,8000"] {
        let netperf = rig.netperf().test_arguments(["-r", size]);
        netperf.run(Test::UdpRr).unwrap();
    }
    let network = rig.appliance.network();
    for size in [0, 1, 56, 1472, 1473, 8000] {
        ping_flood(network, rig.ready.address, 100, size).unwrap();
    }
    let report = capture.finish().unwrap().report(mac(0)).unwrap();
    println!("{} frames", report.frames);
    assert!(report.frames > 1000);
    let bad = report.bad.len();
    let shown: Vec<_> = report.bad.iter().take(10).collect();
    assert_eq!(bad, 0, "{shown:#?}");
    rig.is_at_rest();
    rig.end();
}

/// Tests with an amount of work, and with arguments of their own.
const LOADS: [(Test, u64, &[&str]); 9] = [
    (Test::TcpStream, 16 * MIB, &[]),
    (Test::TcpMaerts, 16 * MIB, &[]),
    (Test::TcpMaerts, 4 * MIB, &["-m", "1000", "-D"]),
    (Test::TcpRr, 500, &[]),
    (Test::TcpRr, 100, &["-r", "65536,65536"]),
    (Test::TcpCrr, 200, &[]),
    // No more than a tap's queue takes, lest the end of the test be lost in it.
    (Test::UdpStream, 500 * 1472, &["-m", "1472"]),
    (Test::UdpRr, 500, &["-r", "100,100"]),
    (Test::UdpRr, 100, &["-r", "20000,20000"]),
];

fn all_loads(rig: &Rig) -> Verdict {
    let capture = Capture::start(rig.appliance.network()).unwrap();
    for (test, amount, arguments) in LOADS {
        let netperf = rig.netperf().amount(amount);
        let netperf = netperf.test_arguments(arguments.iter().copied());
        netperf.run(test).unwrap();
    }
    let verdict = capture.finish().unwrap().judge(station()).unwrap();
    let longest_wait = verdict.connections.iter().map(|c| c.longest_wait).max();
    let longest_stretch = verdict.connections.iter().map(|c| c.longest_stretch).max();
    println!(
        "{} frames, {} connections, {} bytes sent in {} segments ({} super-segments, {} \
         empty tails, {} sent again), {} received with {} acknowledgements (of {longest_stretch:?} segments at once, \
         after {longest_wait:?}), {} datagrams ({} in fragments)",
        verdict.frames,
        verdict.connections.len(),
        verdict.sum(|c| c.sent),
        verdict.sum(|c| c.segments),
        verdict.sum(|c| c.super_segments),
        verdict.sum(|c| c.empty_tails),
        verdict.sum(|c| c.resent),
        verdict.sum(|c| c.received),
        verdict.sum(|c| c.acknowledgements),
        verdict.datagrams,
        verdict.fragmented,
    );
    verdict
}

/// Nothing is lost here. But where the host lets the guest wait for some milliseconds,
/// it asks by a repeated segment what became of the acknowledgements (RFC 8985 section
/// 7), as Linux does.
pub fn is_nearly_once(verdict: &Verdict) {
    let (resent, segments) = (verdict.sum(|c| c.resent), verdict.sum(|c| c.segments));
    assert!(resent * 100 <= segments, "{resent} of {segments}");
}

#[test]
fn every_segment_is_as_the_rfcs_have_it() {
    for arguments in ["", "tso=off", "csum=off", "gro=off"] {
        println!("-- {arguments}");
        let rig = Rig::with(append(arguments));
        is_as_the_rfcs_have_it(&rig);
        rig.end();
    }
}

/// All that the appliance sends under all loads is.
pub fn is_as_the_rfcs_have_it(rig: &Rig) {
    let verdict = all_loads(rig);
    verdict.check().unwrap();
    is_nearly_once(&verdict);
    assert!(verdict.connections.iter().all(|c| !c.is_reset));
}
