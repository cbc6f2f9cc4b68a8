//! netperf's tests: often, many at once, and with sizes that are not the usual.

use std::time::Duration;

use uniperf_harness::Test;

use crate::rig::{Rig, append};

fn twenty_times(test: Test) {
    let mut rig = Rig::new();
    for _ in 0..20 {
        rig.run(test);
    }
    rig.is_at_rest();
    assert_eq!(rig.counter("nic.resets"), 0);
    rig.end();
}

#[test]
fn tcp_stream_runs_twenty_times() {
    twenty_times(Test::TcpStream);
}

#[test]
fn tcp_maerts_runs_twenty_times() {
    twenty_times(Test::TcpMaerts);
}

/// The CPU copies a byte of a stream once on its way from the page store to the
/// NIC, and once more where software has to cut super-segments.
#[test]
fn a_sent_byte_is_copied_once_or_twice() {
    for (tso, copies) in [("tso=on", 1.0), ("tso=off", 2.0)] {
        let mut rig = Rig::with(append(tso));
        let result = rig.run(Test::TcpMaerts);
        let (payload, copied) = (
            rig.counter("tx.payload_bytes") as f64,
            rig.counter("tx.copied_bytes") as f64,
        );
        let sent = result.throughput * 1e6 / 8.0;
        println!("{tso}: {:.4} copies a byte", copied / payload);
        assert!(payload > 0.5 * sent, "{payload} of {sent} bytes");
        // What is shorter than two segments is not cut.
        let share = copied / payload / copies;
        assert!((0.9..=1.0).contains(&share), "{tso}: {copied} of {payload}");
        rig.end();
    }
}

#[test]
fn tcp_sendfile_runs_twenty_times() {
    twenty_times(Test::TcpSendfile);
}

#[test]
fn tcp_rr_runs_twenty_times() {
    twenty_times(Test::TcpRr);
}

#[test]
fn tcp_crr_runs_twenty_times() {
    twenty_times(Test::TcpCrr);
}

#[test]
fn udp_stream_runs_twenty_times() {
    twenty_times(Test::UdpStream);
}

#[test]
fn udp_rr_runs_twenty_times() {
    twenty_times(Test::UdpRr);
}

#[test]
fn sixteen_clients_of_mixed_tests_run_at_once() {
    let mut rig = Rig::new();
    let netperf = rig.netperf().length(Duration::from_secs(5));
    std::thread::scope(|scope| {
        let clients: Vec<_> = (0..16)
            .map(|number| {
                let test = Test::ALL[number % Test::ALL.len()];
                let netperf = &netperf;
                (test, scope.spawn(move || netperf.run(test)))
            })
            .collect();
        for (test, client) in clients {
            let result = client.join().unwrap().unwrap();
            // The UDP streams leave others little of the tap, and the figures with
            // it; but each client gets to its end.
            println!("{test}: {:.2}, {:.1} s", result.throughput, result.elapsed);
        }
    });
    rig.is_well();
    assert_eq!(rig.counter("netperf.tests_abandoned"), 0);
    rig.end();
}

#[test]
fn both_sides_count_the_same_bytes() {
    const MESSAGE: u64 = 16384;
    let mut rig = Rig::new();
    for messages in [1, 10, 1000, 20_000] {
        // So many bytes, exactly.
        let amount = messages * MESSAGE;
        let netperf = rig.netperf().amount(amount);
        let netperf = netperf.test_arguments(["-m", "16384", "-M", "16384"]);
        let sent = netperf.run(Test::TcpStream).unwrap();
        assert_eq!(sent.local_bytes_sent, Some(amount));
        assert_eq!(sent.remote_bytes_received, Some(amount));

        let received = netperf.run(Test::TcpMaerts).unwrap();
        assert_eq!(received.local_bytes_received, Some(amount));
        assert_eq!(received.remote_bytes_sent, Some(amount));
    }
    for _ in 0..5 {
        // The client does not count the send that the end of the time cuts short.
        let sent = rig.run(Test::TcpStream);
        let received = sent.remote_bytes_received.unwrap();
        let sent = sent.local_bytes_sent.unwrap();
        println!("{sent} sent, {received} received");
        assert!(sent > 1_000_000 && (sent..sent + MESSAGE).contains(&received));
    }
    rig.is_at_rest();
    rig.end();
}

#[test]
fn transactions_may_be_of_any_size() {
    let mut rig = Rig::new();
    let sizes = [
        "1,1",
        "1,1448",
        "1,1449",
        "100,65536",
        "65536,100",
        "40000,40000",
    ];
    for size in sizes {
        println!("TCP {size}");
        let netperf = rig.netperf().test_arguments(["-r", size]);
        netperf.run(Test::TcpRr).unwrap().check().unwrap();
        netperf.run(Test::TcpCrr).unwrap().check().unwrap();
    }
    // The last ones are sent in fragments.
    for size in ["1,1", "1472,1", "1,1472", "1473,1", "1,1473", "8000,8000"] {
        println!("UDP {size}");
        let netperf = rig.netperf().test_arguments(["-r", size]);
        netperf.run(Test::UdpRr).unwrap().check().unwrap();
    }
    rig.is_at_rest();
    rig.end();
}

#[test]
fn streams_may_be_sent_in_pieces_of_any_size() {
    let mut rig = Rig::new();
    for size in ["1", "1448", "4096", "65536"] {
        println!("{size}");
        let netperf = rig.netperf().test_arguments(["-m", size, "-M", size]);
        for test in [Test::TcpStream, Test::TcpMaerts, Test::UdpStream] {
            // A datagram is not larger than that.
            if (test, size) != (Test::UdpStream, "65536") {
                netperf.run(test).unwrap().check().unwrap();
            }
        }
    }
    rig.is_at_rest();
    rig.end();
}

#[test]
fn several_transactions_may_be_under_way() {
    let mut rig = Rig::new();
    // The burst option is there where netperf was built with it.
    let netperf = rig.netperf().test_arguments(["-b", "16"]);
    match netperf.run(Test::TcpRr) {
        Ok(result) => result.check().unwrap(),
        Err(error) => assert!(format!("{error:#}").contains("invalid option"), "{error:#}"),
    }
    rig.is_well();
    rig.end();
}
