use crate::config::{AddressConfig, Config};
use crate::testing::bench::{SECOND, static_config};
use crate::testing::peer::appliance;
use crate::testing::services::{DATA_PORT, PORT, pattern};
use crate::testing::*;

use alloc::vec::Vec;
use smoltcp::socket::tcp;
use smoltcp::wire::{Ipv4Address, Ipv4Cidr, TcpControl};

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
    let boot_time = "uniperf: boot took 0 ms: 0 machine, 0 link, 0 address\n";
    assert!(printed.contains(boot_time), "{printed}");
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

/// A host behind the gateway: its answer waits for the gateway's station
/// address, and goes as soon as that is known.
#[test]
fn answers_through_the_gateway() {
    let mut config = static_config();
    config.address = AddressConfig::Static {
        cidr: Ipv4Cidr::new(OUR_IP, 24),
        gateway: Some(PEER_IP),
    };
    let mut bench = Bench::with(&config);
    let far = Ipv4Address::new(192, 0, 2, 1);
    bench.inject(segment((far, 1000), PORT, TcpControl::Syn, 5, None));
    bench.run(1_000_000);
    let answer = bench.capture.iter().find(|frame| as_tcp(frame).is_some());
    let answer = answer.expect("an answer within a millisecond");
    assert_eq!(answer[..6], PEER_MAC);
    let (ip, segment) = as_tcp(answer).unwrap();
    assert_eq!(ip.dst_addr, far);
    assert!(segment.syn() && segment.ack());
}

#[test]
fn an_mtu_that_cannot_be_used_is_named() {
    for (asked, used) in [(100, 576), (20_000, 9000)] {
        let bench = Bench::with(&Config {
            mtu: asked,
            ..static_config()
        });
        let line = alloc::format!("mtu {asked} cannot be used with this NIC; using {used}");
        assert!(bench.printed().contains(&line));
    }
}

#[test]
fn small_and_large_mtus_carry_streams() {
    for mtu in [576, 9000] {
        let mut bench = Bench::with(&Config {
            mtu,
            ..static_config()
        });
        bench.log.greeting.set(300_000);
        let handle = bench.peer.connect(DATA_PORT);
        let mut got = 0;
        assert!(bench.run_until(10 * SECOND, |bench| {
            let socket = bench.peer.tcp(handle);
            while socket.can_recv() {
                got += socket.recv(|data| (data.len(), data.len())).unwrap();
            }
            got == 300_000
        }));
        assert_eq!(bench.capture.iter().map(|f| f.len()).max(), Some(mtu + 14));
    }
}
