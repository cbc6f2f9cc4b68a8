use proptest::prelude::*;

use crate::testing::bench::{SECOND, static_config};
use crate::testing::services::{DATA_PORT, PORT, pattern};
use crate::testing::*;

/// Sends `total` bytes to the echo service and reads them back.
fn echo(bench: &mut Bench, port: u16, total: usize) -> bool {
    let handle = bench.peer.connect(port);
    let (mut sent, mut got) = (0, 0);
    bench.run_until(600 * SECOND, |bench| {
        let socket = bench.peer.tcp(handle);
        while sent < total && socket.can_send() {
            sent += socket
                .send(|buffer| {
                    let len = buffer.len().min(total - sent);
                    for (index, byte) in buffer[..len].iter_mut().enumerate() {
                        *byte = pattern(sent + index);
                    }
                    (len, len)
                })
                .unwrap();
        }
        while socket.can_recv() {
            got += socket
                .recv(|data| {
                    let right = |(index, byte): (usize, &u8)| *byte == pattern(got + index);
                    assert!(data.iter().enumerate().all(right), "at {got}");
                    (data.len(), data.len())
                })
                .unwrap();
        }
        got == total
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the wire does to frames, the stream arrives as it was sent.
    #[test]
    fn a_bad_wire_delivers_the_stream(
        lose in 0u32..40,
        repeat in 0u32..40,
        swap in 0u32..100,
        corrupt in 0u32..20,
        seed in any::<u32>(),
        data in any::<bool>(),
    ) {
        let mut bench = Bench::new();
        for _ in 0..seed % 100 {
            bench.below(2);
        }
        let rest = bench.resting();
        bench.faults = Faults { lose, repeat, swap, corrupt };
        let port = if data { DATA_PORT } else { PORT };
        prop_assert!(echo(&mut bench, port, 60_000));
        bench.faults = Faults::default();
        let handles: alloc::vec::Vec<_> = bench.peer.sockets.iter().map(|(handle, _)| handle).collect();
        for handle in handles {
            bench.peer.tcp(handle).close();
        }
        bench.run(120 * SECOND);
        prop_assert_eq!(bench.resting(), rest);
    }
}

/// Joining segments changes nothing but how many TCP sees.
#[test]
fn joined_segments_carry_the_same_stream() {
    for gro in [true, false] {
        let mut config = static_config();
        config.gro = gro;
        let mut bench = Bench::with(&config);
        assert!(echo(&mut bench, DATA_PORT, 300_000));
        let joined = bench.counter("rx.joined");
        assert_eq!(joined > 0, gro, "{joined} joined");
        assert!(bench.counter("rx.joined_runs") <= joined / 2);
    }
}
