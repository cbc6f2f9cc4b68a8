//! Very many connections: the memory they take is known, comes back, and is not
//! exceeded; and those that are at rest cost nothing.

use alloc::vec::Vec;

use smoltcp::wire::{Ipv4Address, TcpControl};

use crate::config::Config;
use crate::netperf::server::CONTROL_PORT;
use crate::testing::bench::{SECOND, static_config};
use crate::testing::crowd::{Refusal, RrClient, Wire, tcp_rr};
use crate::testing::*;

/// A bench whose peer has no stack that could answer.
fn bench(config: &Config) -> Bench {
    let mut bench = Bench::with(config);
    bench.introduce();
    bench.cut = true;
    bench
}

fn taken(bench: &Bench) -> usize {
    let stack = &bench.appliance.stack;
    stack.socket_memory() - stack.socket_memory_left()
}

#[test]
fn thousands_of_clients_take_a_known_memory_and_give_it_back() {
    const CLIENTS: u16 = 3000;
    let mut config = static_config();
    config.socket_memory = 64 << 20;
    let mut bench = bench(&config);
    let before = taken(&bench);
    let mut clients: Vec<_> = (0..CLIENTS)
        .map(|n| RrClient::open(&mut bench, 2000 + 2 * n).unwrap())
        .collect();
    let each = (taken(&bench) - before) / usize::from(CLIENTS);
    assert!(each < 20 << 10, "{each} bytes a client");
    assert_eq!(bench.appliance.stack.flow_count(), 2 * clients.len());
    for client in &mut clients {
        assert!(client.transact(&mut bench));
    }
    assert_eq!(bench.counter("netperf.tests_started"), u64::from(CLIENTS));
    for client in clients {
        client.data.reset(&mut bench);
        client.control.reset(&mut bench);
    }
    bench.run(SECOND);
    assert_eq!(taken(&bench), before);
    assert_eq!(bench.appliance.stack.flow_count(), 0);
    assert_eq!(bench.counter("rest.netperf_sessions"), 0);
    assert_eq!(bench.counter("rest.listeners"), 3);
}

/// One too many is told so, while it can be; the others do not notice, and neither
/// do they notice a flood of handshakes.
#[test]
fn a_full_house_refuses_and_goes_on() {
    let mut config = static_config();
    config.socket_memory = 1 << 20;
    config.tcp.half_open = 16;
    let mut bench = bench(&config);
    let before = taken(&bench);
    let mut clients = Vec::new();
    let mut port = 2000;
    let mut open = |bench: &mut Bench| {
        port += 2;
        RrClient::open(bench, port)
    };
    let refusal = loop {
        match open(&mut bench) {
            Ok(client) => clients.push(client),
            Err(refusal) => break refusal,
        }
    };
    assert_eq!(refusal, Refusal::Errno(105), "no buffers");
    assert!(clients.len() > 20, "{}", clients.len());

    // Clients that say nothing can take what is left, and no more.
    let silent: Vec<_> = (0..1000)
        .map_while(|n| Wire::connect(&mut bench, 40_000 + n, CONTROL_PORT))
        .collect();
    assert!(silent.len() < 20);
    assert_eq!(open(&mut bench).err(), Some(Refusal::Reset));
    for host in 0..200u32 {
        let from = (Ipv4Address::from(0x0a00_0010 + host), 1000);
        bench.inject(segment(from, CONTROL_PORT, TcpControl::Syn, 1, None));
        bench.run(10_000);
    }
    for client in &mut clients {
        assert!(client.transact(&mut bench));
    }
    assert!(taken(&bench) <= config.socket_memory);

    for silent in silent {
        silent.reset(&mut bench);
    }
    // One for the client that was refused and has not yet left, one for the next.
    for client in clients.drain(..2) {
        client.control.reset(&mut bench);
        client.data.reset(&mut bench);
    }
    assert!(open(&mut bench).is_ok(), "there is room again");
    for client in clients {
        client.control.reset(&mut bench);
    }
    bench.run(200 * SECOND);
    assert_eq!(taken(&bench), before);
}

/// A port scanner at a data port is turned away, and its memory waits for the
/// client again.
#[test]
fn a_stranger_at_a_data_port_takes_nothing_for_long() {
    let mut bench = bench(&static_config());
    let before = taken(&bench);
    let mut control = Wire::connect(&mut bench, 2000, CONTROL_PORT).unwrap();
    let answer = control.exchange(&mut bench, tcp_rr().bytes());
    let port = u16::from_be_bytes([answer[54], answer[55]]);
    let reserved = taken(&bench);
    let stranger = (Ipv4Address::new(10, 0, 0, 77), 1000);
    bench.inject(segment(stranger, port, TcpControl::Syn, 1, None));
    bench.run(SECOND / 1000);
    assert_eq!(taken(&bench), reserved, "what was set aside is lent");
    let mut data = Wire::connect(&mut bench, 2001, port).unwrap();
    assert!(taken(&bench) > reserved, "the client is served beside it");
    bench.run(15 * SECOND);
    assert_eq!(
        bench.appliance.stack.flow_count(),
        2,
        "the stranger is gone"
    );
    assert_eq!(data.exchange(&mut bench, b"?").len(), 1);
    data.reset(&mut bench);
    control.reset(&mut bench);
    bench.run(SECOND);
    assert_eq!(taken(&bench), before);
}

/// Large buffers of connections that have ended serve others, of other sizes.
#[test]
fn memory_goes_from_one_kind_to_another() {
    use crate::stack::{Owner, Room};
    let mut config = static_config();
    config.socket_memory = 4 << 20;
    let mut bench = bench(&config);
    let before = taken(&bench);
    let stack = &mut bench.appliance.stack;
    let room = |receive| Room {
        receive,
        send: 4096,
        beside: 0,
    };
    let large = stack.listen_tcp(Some(500), room(1 << 20), Owner::default());
    let small = stack.listen_tcp(Some(501), room(4096), Owner::default());
    for round in 0..4u16 {
        for (listener, most) in [(large.unwrap(), 3), (small.unwrap(), 300)] {
            let first = 2000 + 1000 * round;
            let wires: Vec<_> = (first..)
                .map_while(|port| Wire::connect(&mut bench, port, listener.port()))
                .collect();
            assert!(wires.len() >= most, "{} to {listener:?}", wires.len());
            assert!(taken(&bench) <= config.socket_memory);
            for wire in wires {
                wire.reset(&mut bench);
            }
            assert_eq!(taken(&bench), before);
        }
    }
}

/// The questions to silent peers are bounded in all, however many there are.
#[test]
fn silent_connections_are_asked_in_turn() {
    const CLIENTS: u16 = 500;
    let mut config = static_config();
    config.tcp.keep_alives_per_second = 10;
    let mut bench = bench(&config);
    for n in 0..CLIENTS {
        Wire::connect(&mut bench, 2000 + n, CONTROL_PORT).unwrap();
    }
    bench.capture.clear();
    // Nobody answers here, so each is asked once, and given up after its time.
    bench.run(45 * SECOND);
    let asked = bench.capture.len();
    assert!((100..=500).contains(&asked), "{asked} frames");
    assert!(bench.appliance.stack.flow_count() > 0);
    bench.run(60 * SECOND);
    assert_eq!(bench.appliance.stack.flow_count(), 0);
}
