//! The engine against the system's own netperf, on loopback.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::thread;
use std::time::{Duration, Instant};

mod client;
mod server;

use client::{Client, Outcome};
use server::Server;

/// The tests that netperf 2.7 asks for by omni messages.
const OMNI: [&str; 6] = [
    "TCP_STREAM",
    "TCP_MAERTS",
    "TCP_RR",
    "TCP_CRR",
    "UDP_STREAM",
    "UDP_RR",
];

/// The tests that it asks for as its ancestors did.
const CLASSIC: [&str; 2] = ["TCP_SENDFILE", "TCP_CC"];

const KEYS: &str = "-k THROUGHPUT,TRANSACTION_RATE,ELAPSED_TIME,LOCAL_BYTES_SENT,\
    LOCAL_BYTES_RECVD,REMOTE_BYTES_SENT,REMOTE_BYTES_RECVD,REMOTE_CPU_UTIL,REMOTE_SD,\
    REMOTE_CPU_COUNT,LOCAL_SEND_CALLS,REMOTE_RECV_CALLS,REMOTE_SEND_CALLS";

fn run(server: &Server, arguments: &str) -> Outcome {
    Client::spawn(server.port, arguments).wait().checked()
}

fn run_omni(server: &Server, test: &str, more: &str) -> (Outcome, HashMap<String, f64>) {
    let outcome = run(server, &format!("-t {test} -c -C {more} {KEYS}"));
    let values = outcome.values();
    assert!(values["THROUGHPUT"] > 0.0, "{outcome:?}");
    assert!(values["REMOTE_CPU_UTIL"] > 0.0, "{outcome:?}");
    assert!(values["REMOTE_CPU_UTIL"] <= 100.0, "{outcome:?}");
    assert!(values["REMOTE_SD"] > 0.0, "{outcome:?}");
    assert_eq!(values["REMOTE_CPU_COUNT"], 1.0);
    (outcome, values)
}

/// A timed test ends in time, and leaves nothing behind.
fn assert_orderly(server: &Server, outcome: &Outcome) {
    assert!(outcome.took < Duration::from_millis(3500), "{outcome:?}");
    server.wait_until_at_rest(Duration::from_secs(5));
    assert_eq!(server.lines().len(), 2, "{:?}", server.lines());
}

#[test]
fn tcp_stream() {
    let server = Server::start();
    let (outcome, values) = run_omni(&server, "TCP_STREAM", "-l 1 -- -m 16384");
    // The client does not count what went of its last send before its alarm.
    let partial = values["REMOTE_BYTES_RECVD"] - values["LOCAL_BYTES_SENT"];
    assert!((0.0..16384.0).contains(&partial), "{outcome:?}");
    let counted = server.totals()[0].bytes_received as f64;
    assert_eq!(counted, values["REMOTE_BYTES_RECVD"]);
    assert_orderly(&server, &outcome);
}

#[test]
fn tcp_maerts() {
    let server = Server::start();
    let (outcome, values) = run_omni(&server, "TCP_MAERTS", "-l 1 --");
    // The client stops at its own clock, with bytes still under way.
    assert!(values["LOCAL_BYTES_RECVD"] <= values["REMOTE_BYTES_SENT"]);
    assert!(values["LOCAL_BYTES_RECVD"] > 0.8 * values["REMOTE_BYTES_SENT"]);
    assert_orderly(&server, &outcome);
}

#[test]
fn tcp_sendfile() {
    let server = Server::start();
    let outcome = run(&server, "-t TCP_SENDFILE -l 1 -c -C");
    let [.., elapsed, throughput, _, remote_cpu, _, remote_demand] = outcome.row()[..] else {
        panic!("{outcome:?}");
    };
    assert!(
        remote_cpu > 0.0 && remote_cpu <= 100.0 && remote_demand > 0.0,
        "{outcome:?}"
    );
    let bits = server.totals()[0].bytes_received as f64 * 8.0 / 1e6;
    let said = throughput * elapsed;
    assert!((bits / said - 1.0).abs() < 0.1, "{bits}: {outcome:?}");
    assert!(outcome.text.contains("% I"), "{outcome:?}");
    assert_orderly(&server, &outcome);
}

#[test]
fn tcp_rr() {
    let server = Server::start();
    let (outcome, values) = run_omni(&server, "TCP_RR", "-l 1 --");
    // The last response may not have been read.
    let unread = values["REMOTE_BYTES_SENT"] - values["LOCAL_BYTES_RECVD"];
    assert!((0.0..=1.0).contains(&unread), "{outcome:?}");
    assert_eq!(values["REMOTE_BYTES_RECVD"], values["LOCAL_BYTES_SENT"]);
    assert_orderly(&server, &outcome);
}

#[test]
fn tcp_rr_sizes_and_burst() {
    let server = Server::start();
    let (_, values) = run_omni(&server, "TCP_RR", "-l 1 -- -r 1000,70000 -b 8 -D");
    assert_eq!(values["LOCAL_BYTES_RECVD"] % 70000.0, 0.0);
    let totals = server.totals()[0];
    let requests = totals.bytes_received / 1000;
    assert!(
        (0..=9).contains(&(requests - totals.transactions)),
        "{totals:?}"
    );
    assert!(
        totals.bytes_sent >= totals.transactions * 70000,
        "{totals:?}"
    );
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn tcp_crr() {
    let server = Server::start();
    let (outcome, values) = run_omni(&server, "TCP_CRR", "-l 1 --");
    let served = server.totals()[0].transactions as f64;
    assert!(
        (served - values["LOCAL_BYTES_RECVD"]).abs() <= 1.0,
        "{served}: {outcome:?}"
    );
    assert_orderly(&server, &outcome);
}

#[test]
fn tcp_cc() {
    let server = Server::start();
    let outcome = run(&server, "-t TCP_CC -l 1 -c -C");
    let served = server.totals()[0].transactions as f64;
    let rate = outcome.row()[5];
    assert!(
        (served - rate).abs() < served * 0.05 + 2.0,
        "{served}: {outcome:?}"
    );
    assert_orderly(&server, &outcome);
}

#[test]
fn udp_stream() {
    let server = Server::start();
    let (outcome, values) = run_omni(&server, "UDP_STREAM", "-l 1 -- -m 1472");
    assert!(values["REMOTE_BYTES_RECVD"] > 0.0);
    assert!(values["REMOTE_BYTES_RECVD"] <= values["LOCAL_BYTES_SENT"]);
    assert_eq!(
        values["REMOTE_BYTES_RECVD"],
        1472.0 * values["REMOTE_RECV_CALLS"]
    );
    assert_orderly(&server, &outcome);
}

#[test]
fn udp_rr() {
    let server = Server::start();
    let (outcome, values) = run_omni(&server, "UDP_RR", "-l 1 -- -r 100");
    let unread = values["REMOTE_BYTES_SENT"] - values["LOCAL_BYTES_RECVD"];
    assert!(unread == 0.0 || unread == 100.0, "{outcome:?}");
    assert_orderly(&server, &outcome);
}

#[test]
fn limited_by_bytes() {
    let server = Server::start();
    let (_, values) = run_omni(&server, "TCP_STREAM", "-l -50000001 --");
    assert!(values["LOCAL_BYTES_SENT"] >= 50_000_001.0);
    assert_eq!(values["LOCAL_BYTES_SENT"], values["REMOTE_BYTES_RECVD"]);
    let (_, values) = run_omni(&server, "TCP_MAERTS", "-l -50000001 --");
    assert_eq!(values["LOCAL_BYTES_RECVD"], 50_000_001.0);
    assert_eq!(values["REMOTE_BYTES_SENT"], 50_000_001.0);
    run(&server, "-t TCP_SENDFILE -l -50000000");
    assert!(server.totals()[2].bytes_received >= 50_000_000);
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn limited_by_transactions() {
    let server = Server::start();
    for (index, test) in ["TCP_RR", "TCP_CRR", "UDP_RR", "TCP_CC"].iter().enumerate() {
        let outcome = run(&server, &format!("-t {test} -l -2000"));
        assert!(outcome.took < Duration::from_secs(5), "{outcome:?}");
        assert_eq!(server.totals()[index].transactions, 2000, "{outcome:?}");
    }
    let outcome = run(&server, "-t TCP_RR -l -2000 -- -b 16");
    assert!(
        (2000..=2016).contains(&server.totals()[4].transactions),
        "{outcome:?}"
    );
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn other_omni_combinations() {
    let server = Server::start();
    for arguments in [
        "-t omni -l 1 -c -C -- -d send -T tcp -o all",
        "-t omni -l 1 -c -C -- -d recv -T tcp -o all",
        "-t omni -l 1 -c -C -- -d rr -T tcp -c -r 1 -o all",
        "-t omni -l 1 -c -C -- -d 6 -T tcp -m 4000 -M 4000 -o all",
        "-t omni -l 1 -c -C -- -d recv -T udp -m ,1000 -L 127.0.0.1 -o all",
        "-t omni -l 1 -c -C -- -d 0 -c -T tcp -o all",
    ] {
        let outcome = run(&server, arguments);
        assert!(outcome.took < Duration::from_secs(4), "{outcome:?}");
        server.wait_until_at_rest(Duration::from_secs(5));
    }
    let received = server.totals();
    assert!(
        received
            .iter()
            .all(|totals| totals.sends + totals.receives + totals.transactions > 0)
    );
}

#[test]
fn several_tests_on_one_control_connection() {
    let server = Server::start();
    for test in ["TCP_RR", "TCP_STREAM", "UDP_RR"] {
        let before = server.totals().len();
        let outcome = run(&server, &format!("-t {test} -l 1 -i 3,3 -I 99,5 -c -C"));
        assert_eq!(server.totals().len() - before, 3, "{outcome:?}");
    }
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn cpu_calibration() {
    let server = Server::start();
    let outcome = run(&server, "-t REM_CPU");
    assert!(outcome.text.contains("1e+09"), "{outcome:?}");
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn with_debug_output() {
    let server = Server::start();
    run(&server, "-t TCP_RR -l 1 -d");
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn many_at_once() {
    let server = Server::start();
    let tests = OMNI.iter().chain(&CLASSIC).cycle().take(16);
    let clients: Vec<_> = tests
        .map(|test| Client::spawn(server.port, &format!("-t {test} -l 2 -c -C")))
        .collect();
    for client in clients {
        client.wait().checked();
    }
    assert_eq!(server.totals().len(), 16);
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn what_is_not_served_is_refused_with_a_reason() {
    let server = Server::start();
    for (arguments, reason) in [
        (
            "-t omni -l 1 -- -T udp -r 1,65508 -d rr",
            "Message too long",
        ),
        ("-t omni -l 1 -- -T udplite", "Protocol not supported"),
        (
            "-t TCP_STREAM -l 1 -- -H ::1,6",
            "Address family not supported",
        ),
    ] {
        let outcome = Client::spawn(server.port, arguments).wait();
        assert!(!outcome.success, "{outcome:?}");
        assert!(outcome.text.contains("remote error"), "{outcome:?}");
        assert!(outcome.text.contains(reason), "{outcome:?}");
        assert!(outcome.took < Duration::from_secs(2), "{outcome:?}");
    }
    server.wait_until_at_rest(Duration::from_secs(5));
    assert_eq!(server.lines().len(), 3, "{:?}", server.lines());
}

#[test]
fn a_killed_client_leaves_nothing_behind() {
    let server = Server::start();
    for test in OMNI.iter().chain(&CLASSIC) {
        let client = Client::spawn(server.port, &format!("-t {test} -l 20"));
        let start = Instant::now();
        while server.sockets() < 2 {
            assert!(
                start.elapsed() < Duration::from_secs(5),
                "{test} does not start"
            );
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(300));
        client.kill();
        server.wait_until_at_rest(Duration::from_secs(5));
    }
    run_omni(&server, "TCP_RR", "-l 1 --");
    server.wait_until_at_rest(Duration::from_secs(5));
}

#[test]
fn garbage_is_dropped() {
    let server = Server::start();
    let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    stream
        .set_read_timeout(Some(Duration::from_secs(5)))
        .unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // It is closed, in order or with a reset; only a time-out is wrong.
    match stream.read(&mut [0; 16]) {
        Ok(bytes) => assert_eq!(bytes, 0),
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
    let half = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
    (&half).write_all(&[0, 0, 0, 97, 0, 0]).unwrap();
    drop(half);
    server.wait_until_at_rest(Duration::from_secs(5));
    run_omni(&server, "UDP_RR", "-l 1 --");
}
