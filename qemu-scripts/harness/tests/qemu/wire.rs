//! What is on the wire.

use uniperf_harness::peers::{Capture, ping_flood};
use uniperf_harness::{Test, mac};

use crate::rig::Rig;

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
    let report = capture.finish(mac(0)).unwrap();
    println!("{} frames", report.frames);
    assert!(report.frames > 1000);
    let bad = report.bad.len();
    let shown: Vec<_> = report.bad.iter().take(10).collect();
    assert_eq!(bad, 0, "{shown:#?}");
    rig.is_at_rest();
    rig.end();
}
