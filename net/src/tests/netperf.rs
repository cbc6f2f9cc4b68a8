//! The netperf server's grip on its clients, on the stack proper.

use smoltcp::wire::TcpControl;

use crate::netperf::server::CONTROL_PORT;
use crate::testing::bench::SECOND;
use crate::testing::*;

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
