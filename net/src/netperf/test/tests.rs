use core::net::Ipv4Addr;

use super::super::spec::Open;
use super::super::wire::{Direction, Flags, OmniRequest, Text};
use super::*;
use crate::machine::CpuTime;

const CLIENT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 1));
const STRANGER: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 77, 0, 9));
const PORT: u16 = 40_000;

const SEND: u32 = Direction::SEND;
const RECEIVE: u32 = Direction::RECEIVE;
const BOTH: u32 = SEND | RECEIVE;

fn tcp(direction: u32, test_length: i32) -> OmniRequest {
    OmniRequest {
        protocol: 6,
        socket_type: 1,
        direction: Direction(direction),
        test_length,
        ..OmniRequest::default()
    }
}

fn udp(direction: u32, test_length: i32) -> OmniRequest {
    OmniRequest {
        protocol: 17,
        socket_type: 2,
        netperf_port: PORT.into(),
        ..tcp(direction, test_length)
    }
}

fn rr(request: OmniRequest, request_size: i32, response_size: i32) -> OmniRequest {
    OmniRequest {
        request_size,
        response_size,
        ..request
    }
}

fn connecting(request: OmniRequest) -> OmniRequest {
    OmniRequest {
        flags: Flags(Flags::CONNECT_TEST),
        ..request
    }
}

fn at(now: u64) -> Snapshot {
    Snapshot {
        now,
        cpu: CpuTime {
            total: now,
            idle: now / 4,
            frequency: SECOND,
        },
    }
}

fn start(request: OmniRequest) -> Test {
    let spec = Spec::from_omni(&request, CLIENT).unwrap();
    let opened = Opened {
        port: 12866,
        send_buffer: 65536,
        recv_buffer: 65536,
        no_delay: false,
        tos: None,
        congestion_control: Text::EMPTY,
    };
    Test::new(spec, opened, CLIENT, at(0))
}

fn connect(test: &mut Test, now: u64) -> Connection {
    match test.accept(CLIENT, now) {
        Accept::Serve(connection) => connection,
        other => panic!("{other:?}"),
    }
}

fn source() -> SocketAddr {
    SocketAddr::new(CLIENT, PORT)
}

/// Seconds in nanoseconds.
fn s(seconds: u64) -> u64 {
    seconds * SECOND
}

#[test]
fn tcp_stream_counts_until_the_client_closes() {
    let mut test = start(tcp(RECEIVE, 10));
    let mut connection = connect(&mut test, 1);
    assert_eq!(test.sendable(&connection), 0);
    for _ in 0..3 {
        assert_eq!(test.received(&mut connection, 1460, s(1)), Step::Continue);
    }
    assert_eq!(test.deadline(), Some(s(14)));
    assert_eq!(test.closed_by_client(s(10)), Step::Ended);
    let totals = test.totals(at(s(10)));
    assert_eq!((totals.bytes_received, totals.receives), (4380, 3));
    assert_eq!(totals.elapsed, s(10));
}

#[test]
fn tcp_stream_limited_by_bytes_reads_all_that_comes() {
    let mut test = start(tcp(RECEIVE, -1000));
    let mut connection = connect(&mut test, 1);
    assert_eq!(test.received(&mut connection, 1460, 2), Step::Continue);
    assert!(test.wants_data(&connection));
    assert_eq!(test.deadline(), None);
    assert_eq!(test.closed_by_client(3), Step::Ended);
    assert_eq!(test.totals(at(3)).bytes_received, 1460);
}

#[test]
fn tcp_stream_without_a_close_ends_after_the_padding() {
    let mut test = start(tcp(RECEIVE, 10));
    let mut connection = connect(&mut test, 1);
    test.received(&mut connection, 1000, s(9));
    test.poll(s(14) - 1);
    assert!(!test.is_over());
    test.poll(s(14));
    assert!(test.is_over());
    // Not the padding: nothing of the test ran in it.
    assert_eq!(test.totals(at(s(14))).elapsed, s(10));
    assert_eq!(test.received(&mut connection, 1000, s(14)), Step::Ended);
    assert_eq!(test.totals(at(s(14))).bytes_received, 1000);
}

#[test]
fn tcp_maerts_sends_until_its_time_is_over() {
    let mut test = start(tcp(SEND, 10));
    let mut connection = connect(&mut test, 1);
    assert_eq!(test.sendable(&connection), usize::MAX);
    assert_eq!(
        test.sent(&mut connection, 65536 * 2 + 1, s(1)),
        Step::Continue
    );
    assert_eq!(test.deadline(), Some(s(10)));
    test.poll(s(10));
    assert!(test.is_over());
    assert_eq!(test.sendable(&connection), 0);
    let totals = test.totals(at(s(10)));
    assert_eq!((totals.bytes_sent, totals.sends), (131_073, 2));
    assert_eq!(totals.elapsed, s(10));
}

#[test]
fn tcp_maerts_limited_by_bytes_sends_no_more() {
    let mut test = start(tcp(SEND, -100_000));
    let mut connection = connect(&mut test, 1);
    assert_eq!(test.sendable(&connection), 100_000);
    assert_eq!(test.sent(&mut connection, 99_999, 2), Step::Continue);
    assert_eq!(test.sendable(&connection), 1);
    assert_eq!(test.sent(&mut connection, 1, 3), Step::Ended);
}

#[test]
fn tcp_maerts_ends_when_the_client_leaves() {
    for leave in [Test::closed_by_client, Test::reset] {
        let mut test = start(tcp(SEND, 10));
        connect(&mut test, 1);
        assert_eq!(leave(&mut test, s(2)), Step::Ended);
        assert_eq!(test.totals(at(s(2))).elapsed, s(2));
    }
}

#[test]
fn without_a_limit_only_the_client_ends() {
    let test = start(tcp(RECEIVE, 0));
    assert_eq!(test.deadline(), None);
}

#[test]
fn tcp_rr_answers_whole_requests() {
    let mut test = start(rr(tcp(BOTH, 10), 100, 7));
    let mut connection = connect(&mut test, 1);
    test.received(&mut connection, 99, 2);
    assert_eq!(test.sendable(&connection), 0);
    test.received(&mut connection, 1, 3);
    assert_eq!(test.sendable(&connection), 7);
    assert_eq!(test.sent(&mut connection, 6, 4), Step::Continue);
    assert_eq!(test.totals(at(4)).transactions, 0);
    assert_eq!(test.sent(&mut connection, 1, 5), Step::Continue);
    assert_eq!(test.totals(at(5)).transactions, 1);
    // A burst comes in one segment.
    test.received(&mut connection, 350, 6);
    assert_eq!(test.sendable(&connection), 21);
    test.sent(&mut connection, 21, 7);
    assert_eq!(test.totals(at(7)).transactions, 4);
    assert_eq!(test.closed_by_client(s(10)), Step::Ended);
}

#[test]
fn tcp_rr_limited_by_transactions_waits_for_the_close() {
    let mut test = start(rr(tcp(BOTH, -2), 1, 1));
    let mut connection = connect(&mut test, 1);
    for _ in 0..3 {
        test.received(&mut connection, 1, 2);
        assert_eq!(test.sent(&mut connection, 1, 2), Step::Continue);
    }
    assert_eq!(test.closed_by_client(3), Step::Ended);
    assert_eq!(test.totals(at(3)).transactions, 3);
}

#[test]
fn requests_are_not_read_while_responses_are_not_taken() {
    let mut test = start(rr(tcp(BOTH, 10), 1, i32::MAX));
    let mut connection = connect(&mut test, 1);
    test.received(&mut connection, 1, 2);
    assert!(!test.wants_data(&connection));
    test.received(&mut connection, usize::MAX / 2, 2);
    assert!(test.sendable(&connection) > 0);
}

#[test]
fn one_connection_and_the_clients_only() {
    let mut test = start(tcp(RECEIVE, 10));
    assert_eq!(test.accept(STRANGER, 1), Accept::Refuse);
    connect(&mut test, 2);
    assert_eq!(test.accept(CLIENT, 3), Accept::Refuse);
}

#[test]
fn tcp_crr_closes_after_each_response() {
    let mut test = start(connecting(rr(tcp(BOTH, -2), 4, 10)));
    let mut first = connect(&mut test, 1);
    assert_eq!(test.received(&mut first, 4, 2), Step::Continue);
    assert_eq!(test.sent(&mut first, 9, 3), Step::Continue);
    assert_eq!(test.sent(&mut first, 1, 3), Step::Close);
    // One that comes to nothing does not count.
    connect(&mut test, 4);
    assert_eq!(test.closed_by_client(5), Step::Close);
    let mut second = connect(&mut test, 6);
    test.received(&mut second, 4, 7);
    assert_eq!(test.sent(&mut second, 10, 8), Step::Ended);
    assert_eq!(test.totals(at(8)).transactions, 2);
    assert_eq!(test.accept(CLIENT, 9), Accept::Refuse);
}

#[test]
fn tcp_crr_ends_once_it_is_silent() {
    let mut test = start(connecting(rr(tcp(BOTH, 10), 1, 1)));
    connect(&mut test, 1);
    test.closed_by_client(s(10) + SECOND / 2);
    test.poll(s(11));
    assert!(!test.is_over());
    test.poll(s(11) + SECOND / 2);
    assert!(test.is_over());
    assert_eq!(test.totals(at(s(12))).elapsed, s(10));
}

#[test]
fn tcp_cc_closes_at_once() {
    let mut test = start(connecting(tcp(0, -2)));
    assert_eq!(test.accept(CLIENT, 1), Accept::Served(Step::Close));
    assert_eq!(test.accept(CLIENT, 2), Accept::Served(Step::Ended));
    assert_eq!(test.totals(at(2)).transactions, 2);
}

#[test]
fn streams_of_connections() {
    let mut test = start(connecting(tcp(RECEIVE, 10)));
    let mut connection = connect(&mut test, 1);
    assert_eq!(test.received(&mut connection, 5, 2), Step::Close);
    let request = OmniRequest {
        send_size: 1000,
        ..connecting(tcp(SEND, -2000))
    };
    let mut test = start(request);
    let mut connection = connect(&mut test, 1);
    assert_eq!(test.sendable(&connection), 1000);
    assert_eq!(test.sent(&mut connection, 1000, 2), Step::Close);
    let mut connection = connect(&mut test, 3);
    assert_eq!(test.sent(&mut connection, 1000, 4), Step::Ended);
}

#[test]
fn udp_stream_ends_by_an_empty_datagram() {
    let mut test = start(udp(RECEIVE, 10));
    assert_eq!(test.datagram_due(), None);
    assert_eq!(test.datagram_received(source(), 1472, 1), Received::Counted);
    assert_eq!(test.datagram_received(source(), 0, s(10)), Received::Ended);
    assert_eq!(test.datagram_received(source(), 0, s(10)), Received::Ended);
    let totals = test.totals(at(s(10)));
    assert_eq!((totals.bytes_received, totals.receives), (1472, 1));
    assert_eq!(totals.elapsed, s(10));
}

#[test]
fn udp_stream_counts_no_more_of_a_datagram_than_is_received() {
    let request = OmniRequest {
        receive_size: 100,
        ..udp(RECEIVE, 10)
    };
    let mut test = start(request);
    test.datagram_received(source(), 1472, 1);
    assert_eq!(test.totals(at(1)).bytes_received, 100);
}

#[test]
fn udp_ends_in_silence_if_the_empty_datagrams_are_lost() {
    let mut test = start(udp(RECEIVE, 10));
    assert_eq!(test.deadline(), Some(s(14)));
    test.datagram_received(source(), 1472, s(1));
    assert_eq!(test.deadline(), Some(s(11)));
    // What came since puts the end off, which is seen when the time has come.
    test.datagram_received(source(), 1472, s(12));
    test.poll(s(12));
    assert!(!test.is_over());
    assert_eq!(test.deadline(), Some(s(13)));
    // A client that never stops is stopped.
    test.datagram_received(source(), 1472, s(14));
    test.poll(s(14));
    assert!(test.is_over());
}

#[test]
fn udp_without_a_time_has_patience_with_silence() {
    let mut test = start(udp(RECEIVE, -10_000));
    assert_eq!(test.deadline(), Some(s(60)));
    test.datagram_received(source(), 1472, s(1));
    assert_eq!(test.deadline(), Some(s(5)));
    let mut test = start(rr(udp(BOTH, -1), 1, 1));
    test.datagram_received(source(), 1, s(1));
    assert_eq!(test.deadline(), Some(s(61)));
    test.datagram_sent(1, s(1));
    assert_eq!(test.deadline(), Some(s(2)));
    test.poll(s(2));
    assert_eq!(test.totals(at(s(2))).elapsed, s(1));
}

#[test]
fn udp_rr_answers_each_datagram() {
    let mut test = start(rr(udp(BOTH, 10), 100, 200));
    assert_eq!(
        test.datagram_received(source(), 100, 1),
        Received::Reply(200)
    );
    assert_eq!(test.datagram_sent(200, 1), Step::Continue);
    assert_eq!(
        test.datagram_received(source(), 100, 2),
        Received::Reply(200)
    );
    test.datagram_failed();
    let totals = test.totals(at(2));
    assert_eq!((totals.transactions, totals.failed_sends), (1, 1));
    assert_eq!((totals.bytes_received, totals.bytes_sent), (200, 200));
}

#[test]
fn udp_counts_one_source_only() {
    let mut test = start(rr(udp(BOTH, 10), 1, 1));
    let stranger = SocketAddr::new(STRANGER, PORT);
    assert_eq!(test.datagram_received(stranger, 0, 1), Received::Foreign);
    let behind_nat = SocketAddr::new(CLIENT, 1);
    assert_eq!(test.datagram_received(behind_nat, 1, 2), Received::Reply(1));
    assert_eq!(test.datagram_received(source(), 0, 3), Received::Foreign);
    assert!(!test.is_over());
}

#[test]
fn udp_maerts_sends_to_the_named_port() {
    let request = OmniRequest {
        send_size: 1000,
        ..udp(SEND, -2000)
    };
    let mut test = start(request);
    assert_eq!(test.datagram_due(), Some((source(), 1000)));
    assert_eq!(test.datagram_sent(1000, 1), Step::Continue);
    assert_eq!(test.datagram_sent(1000, 2), Step::Ended);
    assert_eq!(test.datagram_due(), None);
    let test = start(udp(SEND, 10));
    assert_eq!(test.deadline(), Some(s(10)));
    assert_eq!(test.datagram_due(), Some((source(), 65507)));
}

#[test]
fn a_late_start_starts_the_clock() {
    let mut test = start(tcp(RECEIVE, 10));
    connect(&mut test, s(3));
    assert_eq!(test.deadline(), Some(s(17)));
    assert_eq!(test.closed_by_client(s(13)), Step::Ended);
    assert_eq!(test.totals(at(s(13))).elapsed, s(10));
}

#[test]
fn cpu_of_the_tests_time_only() {
    let request = OmniRequest {
        flags: Flags(Flags::MEASURE_CPU),
        ..tcp(RECEIVE, 10)
    };
    let mut test = start(request);
    connect(&mut test, 1);
    test.closed_by_client(s(10));
    assert_eq!(test.totals(at(s(10))).cpu, Some(75.0));
}

#[test]
fn combinations_that_no_test_has() {
    use super::super::spec::Errno;
    let refused = |request| Spec::from_omni(&request, CLIENT).unwrap_err();
    assert_eq!(refused(tcp(0, 10)), Errno::INVALID);
    assert_eq!(refused(udp(0, 10)), Errno::INVALID);
    assert_eq!(refused(connecting(udp(BOTH, 10))), Errno::NOT_SUPPORTED);
    assert_eq!(refused(rr(udp(BOTH, 10), 1, 65508)), Errno::MESSAGE_SIZE);
    let base = tcp(BOTH, 10);
    let sctp = OmniRequest {
        protocol: 132,
        ..base
    };
    assert_eq!(refused(sctp), Errno::PROTOCOL);
    let ipv6 = OmniRequest {
        ipfamily: 6,
        ..base
    };
    assert_eq!(refused(ipv6), Errno::ADDRESS_FAMILY);
    let seqpacket = OmniRequest {
        socket_type: 4,
        ..base
    };
    assert_eq!(refused(seqpacket), Errno::SOCKET_TYPE);
    let mixed = OmniRequest {
        socket_type: 2,
        ..base
    };
    assert_eq!(refused(mixed), Errno::PROTOCOL_TYPE);
    let huge_port = OmniRequest {
        data_port: 65536,
        ..base
    };
    assert_eq!(refused(huge_port), Errno::INVALID);
    let nowhere = OmniRequest {
        netperf_port: 0,
        ..udp(SEND, 10)
    };
    assert_eq!(refused(nowhere), Errno::NO_DESTINATION);
}

#[test]
fn what_is_asked_reaches_the_glue() {
    let request = OmniRequest {
        send_buf_size: 1000,
        recv_buf_size: -1,
        receive_size: 3000,
        send_size: -1,
        data_port: 5000,
        socket_tos: 16,
        cong_control: Text::new("cubic"),
        flags: Flags(Flags::NO_DELAY | Flags::KEEP_ALIVE),
        ..tcp(RECEIVE, 10)
    };
    let expected = Open {
        transport: Transport::Tcp,
        port: Some(5000),
        many: false,
        receives: true,
        sends: false,
        receive_size: Some(3000),
        send_size: None,
        send_buffer: Some(1000),
        recv_buffer: None,
        no_delay: true,
        keep_alive: true,
        tos: Some(16),
        congestion_control: Text::new("cubic"),
    };
    assert_eq!(Spec::from_omni(&request, CLIENT).unwrap().open, expected);
}
