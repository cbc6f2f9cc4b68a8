//! The netperf server's grip on its clients, on the stack proper.

use alloc::vec;

use smoltcp::wire::TcpControl;

use crate::netperf::server::CONTROL_PORT;
use crate::netperf::wire::{Direction, MESSAGE_LEN, Message, OmniRequest, Request};
use crate::pages;
use crate::testing::bench::{SECOND, static_config};
use crate::testing::*;

/// What a stream is made of is the page store: its file, as long as the send buffer,
/// comes over and over. Where software cuts super-segments, each byte is copied twice.
#[test]
fn a_stream_is_the_page_store_from_its_first_byte_on() {
    const DATA_PORT: u16 = 12_900;
    let mut bench = Bench::new();
    let mut request = Message::zeroed();
    request.set_code(Request::Omni.code());
    OmniRequest {
        test_length: 10,
        ipfamily: 4,
        socket_type: 1,
        protocol: 6,
        direction: Direction(Direction::SEND),
        data_port: DATA_PORT.into(),
        ..OmniRequest::default()
    }
    .emit(&mut request);
    // The second test has a socket that was used before.
    for _ in 0..2 {
        let control = bench.peer.connect(CONTROL_PORT);
        assert!(bench.run_until(SECOND, |bench| bench.peer.tcp(control).may_send()));
        let sent = bench.peer.tcp(control).send_slice(request.bytes());
        assert_eq!(sent, Ok(MESSAGE_LEN));
        bench.run(SECOND / 10);
        let data = bench.peer.connect(DATA_PORT);
        let mut file = vec![0; static_config().tcp.data.send];
        pages::fill(&mut file);
        let (mut at, mut chunk) = (0, [0; 4096]);
        let whole = bench.run_until(SECOND, |bench| {
            while bench.peer.tcp(data).can_recv() {
                let len = bench.peer.tcp(data).recv_slice(&mut chunk).unwrap();
                for byte in &chunk[..len] {
                    assert_eq!(*byte, file[at % file.len()], "byte {at}");
                    at += 1;
                }
            }
            at > 3 * file.len()
        });
        assert!(whole, "{at} bytes came");
        bench.peer.tcp(data).abort();
        bench.peer.tcp(control).abort();
        bench.run(SECOND);
    }
    let payload = bench.counter("tx.payload_bytes");
    let copied = bench.counter("tx.copied_bytes");
    assert!((payload..=2 * payload).contains(&copied));
    assert!(bench.counter("tx.cut_by_software") > 0 && copied > payload);
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
        assert_eq!(bench.counter("tcp.refused"), 0);
        bench.run(60 * SECOND);
        assert_eq!(bench.resting(), rest);
    }
}
