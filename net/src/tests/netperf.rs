//! The netperf server's grip on its clients, on the stack proper.

use smoltcp::wire::TcpControl;

use crate::netperf::server::CONTROL_PORT;
use crate::netperf::wire::{Direction, MESSAGE_LEN, Message, OmniRequest, Request};
use crate::testing::bench::{SECOND, static_config};
use crate::testing::*;

/// A request for TCP_RR, as `netperf -t TCP_RR` makes it.
fn tcp_rr() -> Message {
    let mut message = Message::zeroed();
    message.set_code(Request::Omni.code());
    let request = OmniRequest {
        request_size: 1,
        response_size: 1,
        test_length: 10,
        ipfamily: 4,
        socket_type: 1,
        protocol: 6,
        direction: Direction(Direction::SEND | Direction::RECEIVE),
        ..OmniRequest::default()
    };
    request.emit(&mut message);
    message
}

/// With all data sockets spoken for, a test is refused in the answer to its
/// request; when one is free again, it is not.
#[test]
fn a_test_too_many_is_refused_with_a_reason() {
    let mut config = static_config();
    config.tcp.data.count = 2;
    let mut bench = Bench::with(&config);
    let ask = |bench: &mut Bench| {
        let handle = bench.peer.connect(CONTROL_PORT);
        assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(handle).may_send()));
        let sent = bench.peer.tcp(handle).send_slice(tcp_rr().bytes());
        assert_eq!(sent, Ok(MESSAGE_LEN));
        let whole = |bench: &mut Bench| bench.peer.tcp(handle).recv_queue() >= MESSAGE_LEN;
        assert!(bench.run_until(SECOND, whole));
        let mut answer = [0; MESSAGE_LEN];
        bench.peer.tcp(handle).recv_slice(&mut answer).unwrap();
        let errno = i32::from_be_bytes(*answer[4..].first_chunk().unwrap());
        (handle, errno)
    };
    let (first, errno) = ask(&mut bench);
    assert_eq!(errno, 0);
    assert_eq!(ask(&mut bench).1, 0);
    assert_eq!(ask(&mut bench).1, 105, "no buffers");
    bench.peer.tcp(first).close();
    bench.run(SECOND);
    assert_eq!(ask(&mut bench).1, 0);
    assert_eq!(bench.counter("netperf.refused"), 1);
}

/// A client that is gone again before the server was told that it came leaves
/// nothing behind.
#[test]
fn a_client_that_leaves_at_once_leaves_nothing() {
    for goodbye in [TcpControl::Rst, TcpControl::Fin] {
        let mut bench = Bench::new();
        bench.introduce();
        // The peer's own stack is not to answer.
        bench.cut = true;
        let rest = bench.resting();
        for client in 0..100u16 {
            let from = (PEER_IP, 2000 + client);
            bench.capture.clear();
            bench.inject(segment(from, CONTROL_PORT, TcpControl::Syn, 100, None));
            bench.run(SECOND / 1000);
            let answer = bench
                .capture
                .iter()
                .find_map(|frame| as_tcp(frame))
                .unwrap();
            let ack = answer.1.seq_number().0.wrapping_add(1);
            // Both come in one batch of frames.
            bench.inject(segment(
                from,
                CONTROL_PORT,
                TcpControl::None,
                101,
                Some(ack),
            ));
            bench.inject(segment(from, CONTROL_PORT, goodbye, 101, Some(ack)));
            bench.run(SECOND / 1000);
            let fin = segment(from, CONTROL_PORT, TcpControl::None, 102, Some(ack + 1));
            bench.inject(fin);
            bench.run(SECOND / 1000);
            assert_eq!(
                bench.counter("rest.netperf_sessions"),
                0,
                "{goodbye:?}, {client}"
            );
        }
        assert_eq!(bench.counter("netperf.clients"), 100);
        assert_eq!(bench.counter("netperf.turned_away"), 0);
        bench.run(60 * SECOND);
        assert_eq!(bench.resting(), rest);
    }
}
