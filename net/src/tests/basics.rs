use crate::testing::bench::SECOND;
use crate::testing::peer::appliance;
use crate::testing::services::{DATA_PORT, PORT, pattern};
use crate::testing::*;

use alloc::vec::Vec;
use smoltcp::socket::tcp;

#[test]
fn says_that_it_is_ready() {
    let mut bench = Bench::new();
    bench.run(SECOND);
    let printed = bench.printed();
    assert!(
        printed.contains("uniperf: link up, 1000 Mbit/s full duplex\n"),
        "{printed}"
    );
    assert!(printed.contains("uniperf: address 10.0.0.2/24 as set by ip=, no gateway\n"));
    assert!(printed.contains("uniperf: ready 10.0.0.2 0\n"), "{printed}");
}

#[test]
fn echoes_a_stream() {
    let mut bench = Bench::new();
    let handle = bench.peer.connect(PORT);
    let (mut sent, mut got) = (0, 0);
    let done = bench.run_until(10 * SECOND, |bench| {
        let socket = bench.peer.tcp(handle);
        while sent < 300_000 && socket.can_send() {
            sent += socket
                .send(|buffer| {
                    let len = buffer.len().min(300_000 - sent);
                    for (index, byte) in buffer[..len].iter_mut().enumerate() {
                        *byte = pattern(sent + index);
                    }
                    (len, len)
                })
                .unwrap();
        }
        while socket.can_recv() {
            got += socket
                .recv(|buffer| {
                    for (index, byte) in buffer.iter().enumerate() {
                        assert_eq!(*byte, pattern(got + index));
                    }
                    (buffer.len(), buffer.len())
                })
                .unwrap();
        }
        got == 300_000
    });
    assert!(done, "sent {sent}, got {got}");
    bench.peer.tcp(handle).close();
    bench.run(15 * SECOND);
    assert_eq!(bench.peer.tcp(handle).state(), tcp::State::Closed);
    assert_eq!(bench.counter("rest.flows"), 0);
    assert_eq!(bench.counter("tcp.closed"), 1);
}

#[test]
fn sends_a_stream() {
    let mut bench = Bench::new();
    bench.log.greeting.set(2_000_000);
    let handle = bench.peer.connect(DATA_PORT);
    let mut got = 0;
    let done = bench.run_until(20 * SECOND, |bench| {
        let socket = bench.peer.tcp(handle);
        while socket.can_recv() {
            got += socket
                .recv(|buffer| {
                    for (index, byte) in buffer.iter().enumerate() {
                        assert_eq!(*byte, pattern(got + index));
                    }
                    (buffer.len(), buffer.len())
                })
                .unwrap();
        }
        got == 2_000_000
    });
    assert!(done, "got {got}");
}

#[test]
fn echoes_datagrams_of_all_sizes() {
    let mut bench = Bench::new();
    let handle = bench.peer.udp_socket();
    for size in [0, 1, 100, 1472, 1473, 9000, 65_507] {
        let data: Vec<u8> = (0..size).map(pattern).collect();
        bench
            .peer
            .udp(handle)
            .send_slice(&data, appliance(PORT))
            .unwrap();
        let done = bench.run_until(SECOND, |bench| bench.peer.udp(handle).can_recv());
        assert!(done, "no answer to {size} bytes");
        let (answer, _) = bench.peer.udp(handle).recv().unwrap();
        assert!(answer == data, "{size}");
    }
}
