use alloc::string::{String, ToString};
use alloc::vec;
use core::net::Ipv4Addr;

use proptest::prelude::*;

use super::super::test::{Accept, Step};
use super::super::wire::{Direction, Flags, OmniResponse, OmniResults};
use super::*;
use crate::machine::CpuTime;

const SECOND: u64 = 1_000_000_000;

fn peer() -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(10, 77, 0, 1).into(), 42113)
}

fn session() -> Session {
    let host = Host {
        cpus: 1,
        ..Host::default()
    };
    Session::new(peer(), host)
}

/// Half of the time was idle.
fn at(now: u64) -> Snapshot {
    Snapshot {
        now,
        cpu: CpuTime {
            total: now,
            idle: now / 2,
            frequency: SECOND,
        },
    }
}

fn opened() -> Opened {
    Opened {
        port: 12866,
        send_buffer: 65536,
        recv_buffer: 65536,
        no_delay: false,
        tos: None,
        congestion_control: Text::new("reno"),
    }
}

fn message(code: u32) -> Message {
    let mut message = Message::zeroed();
    message.set_code(code);
    message.set_status(-1);
    message
}

fn tcp_rr() -> OmniRequest {
    OmniRequest {
        request_size: 1,
        response_size: 1,
        flags: Flags(Flags::MEASURE_CPU | Flags::WANT_CONGESTION_CONTROL),
        test_length: 10,
        ipfamily: 4,
        socket_type: 1,
        protocol: 6,
        direction: Direction(Direction::SEND | Direction::RECEIVE),
        ..OmniRequest::default()
    }
}

fn omni(request: &OmniRequest) -> Message {
    let mut message = message(Request::Omni.code());
    request.emit(&mut message);
    message
}

/// The glue, with ports that open always. Returns what happened, as text.
fn obey(session: &mut Session, now: u64) -> Vec<String> {
    let mut done = Vec::new();
    while let Some(action) = session.next_action() {
        done.push(match action {
            Action::Report(report) => report.to_string(),
            Action::Open(open) => {
                session.opened(Ok(opened()), at(now));
                alloc::format!("open {:?}", open.transport)
            }
            other => alloc::format!("{other:?}"),
        });
    }
    done
}

fn take_message(session: &mut Session) -> Message {
    let bytes = session.outgoing();
    let mut message = Message::zeroed();
    message.set_code(u32::from_be_bytes(*bytes.first_chunk().unwrap()));
    message.set_status(i32::from_be_bytes(*bytes[4..].first_chunk().unwrap()));
    message
        .payload_mut()
        .copy_from_slice(&bytes[8..MESSAGE_LEN]);
    session.sent(MESSAGE_LEN);
    message
}

/// A session with a TCP_RR that is set up.
fn testing() -> Session {
    let mut session = session();
    assert_eq!(session.receive(omni(&tcp_rr()).bytes(), at(0)), MESSAGE_LEN);
    obey(&mut session, 0);
    assert_eq!(take_message(&mut session).status(), 0);
    session
}

#[test]
fn a_whole_tcp_rr() {
    let mut session = session();
    let request = omni(&tcp_rr());
    assert_eq!(session.receive(request.bytes(), at(0)), MESSAGE_LEN);
    assert_eq!(
        obey(&mut session, 0),
        [
            "open Tcp",
            "netperf: TCP_RR from 10.77.0.1:42113, 10 s, on port 12866"
        ],
    );
    let answer = take_message(&mut session);
    assert_eq!((answer.code(), answer.status()), (98, 0));
    let response = OmniResponse::parse(&answer);
    assert_eq!(response.data_port, 12866);
    assert_eq!((response.receive_size, response.send_size), (1, 1));
    assert_eq!(response.cpu_rate, 1e9);
    assert_eq!(response.flags, Flags(Flags::MEASURE_CPU));

    let test = session.test_mut().unwrap();
    let Accept::Serve(mut connection) = test.accept(peer().ip(), 1) else {
        panic!();
    };
    test.received(&mut connection, 1, 2);
    test.sent(&mut connection, 1, 2);
    assert_eq!(test.closed_by_client(10 * SECOND), Step::Ended);
    assert_eq!(session.poll_at(), Some(0));
    session.poll(at(10 * SECOND));
    assert_eq!(
        obey(&mut session, 10 * SECOND),
        [
            "CloseData",
            "netperf: TCP_RR from 10.77.0.1:42113, 10.00 s: 1 transactions, CPU 50 %",
        ],
    );
    let answer = take_message(&mut session);
    assert_eq!((answer.code(), answer.status()), (99, 0));
    let results = OmniResults::parse(&answer);
    assert_eq!(results.trans_received, 1);
    assert_eq!((results.bytes_received(), results.bytes_sent()), (1, 1));
    assert_eq!((results.cpu_util, results.elapsed_time), (50.0, 10.0));
    assert_eq!((results.cpu_method, results.num_cpus), (1, 1));
    assert_eq!(results.cong_control.as_str(), "reno");
    assert_eq!(session.poll_at(), None);

    // The next test on the same connection, as confidence runs have it.
    session.receive(request.bytes(), at(11 * SECOND));
    assert_eq!(obey(&mut session, 11 * SECOND).len(), 2);
    assert!(session.test().is_some());
}

#[test]
fn byte_by_byte_is_the_same() {
    let mut session = session();
    for byte in omni(&tcp_rr()).bytes() {
        assert!(session.test().is_none());
        assert_eq!(session.receive(&[*byte], at(0)), 1);
        obey(&mut session, 0);
    }
    assert!(session.test().is_some());
}

#[test]
fn requests_wait_while_an_answer_does() {
    let mut session = session();
    let two = [message(1), message(2)];
    let bytes: Vec<u8> = two
        .iter()
        .flat_map(|message| message.bytes().to_vec())
        .collect();
    assert_eq!(session.receive(&bytes, at(0)), MESSAGE_LEN);
    assert_eq!(session.receive(&bytes[MESSAGE_LEN..], at(0)), 0);
    assert_eq!(take_message(&mut session).code(), 3);
    assert_eq!(session.receive(&bytes[MESSAGE_LEN..], at(0)), MESSAGE_LEN);
    assert_eq!(take_message(&mut session).code(), 3);
}

#[test]
fn an_unknown_request_is_refused() {
    let mut session = session();
    session.receive(message(599).bytes(), at(0));
    assert_eq!(take_message(&mut session).status(), 998);
    let expected = "netperf: request 599 from 10.77.0.1:42113 refused: unknown request";
    assert_eq!(obey(&mut session, 0), [expected, "CloseControl"]);
    assert!(session.is_closed());
}

#[test]
fn another_familys_test_is_refused() {
    let mut session = session();
    session.receive(message(520).bytes(), at(0));
    let answer = take_message(&mut session);
    assert_eq!((answer.code(), answer.status()), (521, 95));
    let expected = "netperf: SCTP_RR from 10.77.0.1:42113 refused: not supported";
    assert_eq!(obey(&mut session, 0), [expected, "CloseControl"]);
}

#[test]
fn a_port_that_does_not_open_is_refused() {
    let mut session = session();
    session.receive(omni(&tcp_rr()).bytes(), at(0));
    assert!(matches!(session.next_action(), Some(Action::Open(_))));
    session.opened(Err(Errno::ADDRESS_IN_USE), at(0));
    let answer = take_message(&mut session);
    assert_eq!((answer.code(), answer.status()), (98, 98));
    let expected = "netperf: OMNI from 10.77.0.1:42113 refused: the data port is in use";
    assert_eq!(obey(&mut session, 0), [expected, "CloseControl"]);
}

#[test]
fn a_second_request_while_a_test_runs_ends_it() {
    let mut session = testing();
    session.receive(omni(&tcp_rr()).bytes(), at(1));
    assert_eq!(take_message(&mut session).status(), 16);
    let expected = "netperf: OMNI from 10.77.0.1:42113 refused: a test is running";
    assert_eq!(
        obey(&mut session, 1),
        [expected, "AbortData", "CloseControl"]
    );
    assert!(session.test().is_none());
}

#[test]
fn a_client_that_leaves_ends_its_test() {
    let mut session = testing();
    session.closed();
    let expected = "netperf: TCP_RR from 10.77.0.1:42113: the client is gone";
    assert_eq!(
        obey(&mut session, 1),
        ["AbortData", expected, "CloseControl"]
    );
    session.closed();
    assert_eq!(obey(&mut session, 1), [""; 0]);
    assert_eq!(session.receive(&[1, 2, 3], at(2)), 3);
}

#[test]
fn half_a_message_and_then_nothing() {
    let mut session = session();
    session.receive(&[0, 0, 0, 97, 0], at(SECOND));
    assert_eq!(session.poll_at(), Some(21 * SECOND));
    session.poll(at(21 * SECOND));
    let expected = "netperf: 10.77.0.1:42113 dropped: sent 5 bytes of a message and no more";
    assert_eq!(obey(&mut session, 0), [expected, "CloseControl"]);
}

#[test]
fn half_a_message_and_then_the_end() {
    let mut session = session();
    session.receive(&[0, 0, 0, 97, 0], at(0));
    session.closed();
    let expected = "netperf: 10.77.0.1:42113 dropped: ended after 5 bytes of a message";
    assert_eq!(obey(&mut session, 0), [expected, "CloseControl"]);
}

#[test]
fn what_is_not_netperf_is_dropped_at_its_first_word() {
    for garbage in [
        &b"GET / HTTP/1.1"[..],
        &[0; 4],
        &[0xff; 2000],
        &[97, 0, 0, 0],
    ] {
        let mut session = session();
        assert_eq!(session.receive(garbage, at(0)), garbage.len());
        let expected = "netperf: 10.77.0.1:42113 dropped: not a netperf client";
        assert_eq!(obey(&mut session, 0), [expected, "CloseControl"]);
        assert!(session.outgoing().is_empty());
    }
}

#[test]
fn a_passphrase_that_nobody_asked_for_is_ignored() {
    let mut session = session();
    session.receive(message(6).bytes(), at(0));
    assert!(session.outgoing().is_empty());
    assert_eq!(obey(&mut session, 0), [""; 0]);
}

#[test]
fn calibration_and_system() {
    let mut session = session();
    session.receive(message(5).bytes(), at(0));
    let answer = take_message(&mut session);
    assert_eq!(answer.code(), 5);
    assert_eq!(answer.payload()[..4], 1e9f32.to_be_bytes());
    assert_eq!(answer.payload()[4..8], [0, 0, 0, 1]);
    session.receive(message(600).bytes(), at(0));
    let answer = take_message(&mut session);
    assert_eq!(
        (answer.code(), &answer.payload()[..5]),
        (601, &b",,,,\0"[..])
    );
}

#[test]
fn udp_maerts_ends_with_empty_datagrams() {
    let mut session = session();
    let request = OmniRequest {
        protocol: 17,
        socket_type: 2,
        netperf_port: 5000,
        direction: Direction(Direction::SEND),
        test_length: 1,
        ..OmniRequest::default()
    };
    session.receive(omni(&request).bytes(), at(0));
    obey(&mut session, 0);
    session.poll(at(SECOND));
    let done = obey(&mut session, SECOND);
    assert_eq!(
        done[..2],
        ["SendEmpty { to: 10.77.0.1:5000, count: 3 }", "CloseData"]
    );
}

/// One call of the glue's.
#[derive(Clone, Debug)]
enum Call {
    Bytes(Vec<u8>),
    Message(u32, Vec<u8>),
    Accept,
    Received(usize),
    Send(usize),
    ClosedByClient,
    Datagram(u16, usize),
    Poll,
    Drain,
    Closed,
}

fn call() -> impl Strategy<Value = Call> {
    let bytes = |most| proptest::collection::vec(any::<u8>(), 0..most);
    let code = prop_oneof![Just(97u32), Just(10), Just(300), 1..=601u32];
    prop_oneof![
        1 => bytes(1500).prop_map(Call::Bytes),
        6 => (code, bytes(MESSAGE_LEN)).prop_map(|(code, body)| Call::Message(code, body)),
        2 => Just(Call::Accept),
        4 => any::<usize>().prop_map(Call::Received),
        4 => any::<usize>().prop_map(Call::Send),
        1 => Just(Call::ClosedByClient),
        4 => (0..3u16, 0..70_000usize).prop_map(|(port, bytes)| Call::Datagram(port, bytes)),
        2 => Just(Call::Poll),
        8 => Just(Call::Drain),
        1 => Just(Call::Closed),
    ]
}

/// A body that is a test's request more often than noise would be.
fn plausible(code: u32, body: &[u8]) -> Message {
    let mut message = message(code);
    message.payload_mut()[..body.len().min(648)].copy_from_slice(&body[..body.len().min(648)]);
    if code == 97 {
        let mut request = OmniRequest::parse(&message);
        request.ipfamily = 4;
        request.protocol = [6, 17][(request.protocol % 2) as usize];
        request.socket_type = [1, 2][(request.protocol == 17) as usize];
        request.data_port %= 65536;
        request.netperf_port %= 65536;
        request.direction.0 &= 6;
        request.emit(&mut message);
    }
    message
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn no_calls_panic_or_pile_up(calls in proptest::collection::vec((call(), 0..5 * SECOND), 0..60)) {
        let mut session = session();
        let mut connections = vec![];
        let mut now = 0;
        for (call, pause) in calls {
            now += pause;
            match call {
                Call::Bytes(bytes) => { session.receive(&bytes, at(now)); }
                Call::Message(code, body) => {
                    session.receive(plausible(code, &body).bytes(), at(now));
                }
                Call::Poll => session.poll(at(now)),
                Call::Closed => session.closed(),
                Call::Drain => session.sent(usize::MAX),
                call => if let Some(test) = session.test_mut() {
                    run_data(test, &mut connections, call, now);
                }
            }
            obey(&mut session, now);
            if session.test().is_none() {
                connections.clear();
            }
            prop_assert!(session.outgoing().len() <= 2 * MESSAGE_LEN);
            prop_assert!(!session.is_closed() || session.poll_at().is_none());
        }
        session.closed();
        prop_assert!(session.is_closed());
    }

    #[test]
    fn chunks_do_not_matter(cuts in proptest::collection::vec(0..=2 * MESSAGE_LEN, 0..20)) {
        let bytes: Vec<u8> = [message(1), omni(&tcp_rr())]
            .iter()
            .flat_map(|message| message.bytes().to_vec())
            .collect();
        let mut session = session();
        let mut cuts = cuts;
        cuts.push(bytes.len());
        cuts.sort_unstable();
        let (mut at_byte, mut out) = (0, Vec::new());
        for cut in cuts {
            while at_byte < cut {
                at_byte += session.receive(&bytes[at_byte..cut], at(0));
                obey(&mut session, 0);
                out.extend_from_slice(session.outgoing());
                session.sent(usize::MAX);
            }
        }
        prop_assert_eq!(out.len(), 2 * MESSAGE_LEN);
        prop_assert!(session.test().is_some());
    }
}

fn run_data(
    test: &mut Test,
    connections: &mut Vec<super::super::test::Connection>,
    call: Call,
    now: u64,
) {
    match call {
        Call::Accept => {
            if let Accept::Serve(connection) = test.accept(peer().ip(), now) {
                connections.push(connection);
            }
        }
        Call::Received(bytes) => {
            if let Some(connection) = connections.last_mut() {
                test.received(connection, bytes % 1_000_000, now);
            }
        }
        Call::Send(bytes) => {
            if let Some(connection) = connections.last_mut() {
                let bytes = test.sendable(connection).min(bytes % 1_000_000);
                test.sent(connection, bytes, now);
            }
        }
        Call::ClosedByClient => {
            test.closed_by_client(now);
        }
        Call::Datagram(port, bytes) => {
            let from = SocketAddr::new(peer().ip(), port);
            if let super::super::test::Received::Reply(bytes) =
                test.datagram_received(from, bytes, now)
            {
                test.datagram_sent(bytes, now);
            }
        }
        _ => {}
    }
}
