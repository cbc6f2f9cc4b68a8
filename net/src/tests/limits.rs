use smoltcp::socket::tcp::State;
use smoltcp::wire::{Ipv4Address, TcpControl};

use crate::config::Config;
use crate::stack::Payload;
use crate::testing::bench::{SECOND, static_config};
use crate::testing::services::{DATA_PORT, LARGE, PORT, SMALL};
use crate::testing::*;

/// Memory for the echo service's UDP socket, two large connections and a small one.
fn small() -> Config {
    let mut config = static_config();
    config.udp.sockets.rx_bytes = 0;
    config.udp.sockets.tx_bytes = 0;
    config.udp.packets = 0;
    config.socket_memory = 4096 + 2 * LARGE.cost() + SMALL.cost();
    config.tcp.half_open = 3;
    config
}

#[test]
fn refuses_what_it_has_no_socket_for() {
    let mut bench = Bench::with(&small());
    let first = bench.peer.connect(DATA_PORT);
    let second = bench.peer.connect(DATA_PORT);
    bench.run(SECOND / 10);
    let third = bench.peer.connect(DATA_PORT);
    bench.run(SECOND / 10);
    assert_eq!(bench.peer.tcp(first).state(), State::Established);
    assert_eq!(bench.peer.tcp(second).state(), State::Established);
    assert_eq!(bench.peer.tcp(third).state(), State::Closed, "reset");
    assert_eq!(bench.counter("tcp.refused"), 1);
    // A small one still fits.
    let control = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    assert_eq!(bench.peer.tcp(control).state(), State::Established);
    // One ends, the next one fits.
    bench.peer.tcp(first).abort();
    bench.run(SECOND / 10);
    let fourth = bench.peer.connect(DATA_PORT);
    bench.run(SECOND / 10);
    assert_eq!(bench.peer.tcp(fourth).state(), State::Established);
}

#[test]
fn a_flood_of_syns_keeps_nobody_out() {
    let mut bench = Bench::with(&small());
    let rest = bench.resting();
    let flood = |bench: &mut Bench, first: u32| {
        for host in first..first + 20 {
            let from = Ipv4Address::from(0x0a00_0010 + host % 100);
            let port = 1000 + (host / 100) as u16;
            bench.inject(segment((from, port), PORT, TcpControl::Syn, 1, None));
        }
    };
    for round in 0..50 {
        flood(&mut bench, round * 20);
        bench.run(SECOND / 1000);
        assert!(bench.appliance.stack.flow_count() <= 3);
    }
    let handle = bench.peer.connect(PORT);
    let mut host = 5000;
    let done = bench.run_until(5 * SECOND, |bench| {
        host += 1;
        let from = Ipv4Address::from(0x0a00_0010 + host % 100);
        if host % 4 == 0 {
            bench.inject(segment((from, host as u16), PORT, TcpControl::Syn, 1, None));
        }
        bench.peer.tcp(handle).may_send()
    });
    assert!(done);
    bench.peer.tcp(handle).abort();
    bench.run(30 * SECOND);
    assert_eq!(bench.resting(), rest);
    assert!(bench.counter("tcp.syn_doubted") > 900);
    assert_eq!(bench.counter("tcp.half_open_evicted"), 0);
    assert_eq!(bench.counter("tcp.half_open_timeout"), 2);
}

#[test]
fn gives_up_handshakes_that_do_not_end() {
    let mut bench = Bench::new();
    let rest = bench.resting();
    bench.cut = true;
    bench.inject(segment((PEER_IP, 999), PORT, TcpControl::Syn, 1, None));
    bench.run(9 * SECOND);
    assert_eq!(bench.counter("rest.flows"), 1);
    bench.run(2 * SECOND);
    assert_eq!(bench.resting(), rest);
    assert_eq!(bench.counter("tcp.half_open_timeout"), 1);
}

/// As `nmap -sS -p-` does: a SYN to every port, and a reset for each answer.
#[test]
fn a_port_scan_leaves_nothing_behind() {
    let mut bench = Bench::new();
    let rest = bench.resting();
    let learn = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    bench.peer.tcp(learn).abort();
    bench.run(SECOND / 10);
    bench.capture.clear();
    for port in 1..=u16::MAX {
        bench.inject(segment((PEER_IP, 30_000), port, TcpControl::Syn, 7, None));
        if port % 100 == 0 {
            bench.run(100_000);
        }
    }
    bench.run(SECOND / 10);
    let answers = bench.capture.iter().filter_map(|frame| as_tcp(frame));
    let (open, closed): (alloc::vec::Vec<_>, alloc::vec::Vec<_>) =
        answers.partition(|(_, answer)| answer.syn());
    assert!(closed.iter().all(|(_, answer)| answer.rst()));
    assert_eq!(closed.len(), 65_532);
    assert_eq!(open.len(), 3);
    bench.run(15 * SECOND);
    assert_eq!(bench.resting(), rest);
}

#[test]
fn ports_are_given_in_turn_and_run_out() {
    let mut config = static_config();
    config.data_ports = 100..=102;
    let mut bench = Bench::with(&config);
    let stack = &mut bench.appliance.stack;
    let owner = crate::stack::Owner::default();
    let ports = [(); 3].map(|()| stack.listen_tcp(None, SMALL, owner).unwrap());
    assert_eq!(ports.map(|listener| listener.port()), [100, 101, 102]);
    let full = stack.listen_tcp(None, SMALL, owner);
    assert_eq!(full, Err(crate::stack::OpenError::NoPortFree));
    stack.unlisten(ports[1]);
    assert_eq!(stack.listen_tcp(None, SMALL, owner).unwrap().port(), 101);
    // UDP's ports are others.
    let udp = stack.open_udp(None, Payload::Kept, owner).unwrap();
    assert!(stack.udp_port(udp).is_some());
    assert_eq!(
        stack.listen_tcp(Some(PORT), SMALL, owner),
        Err(crate::stack::OpenError::PortInUse)
    );
}

#[test]
fn unlisten_resets_handshakes_and_keeps_connections() {
    let mut bench = Bench::new();
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    let listener = match bench.log.events.borrow()[0] {
        crate::services::Event::Accepted { listener, .. } => listener,
        ref other => panic!("{other:?}"),
    };
    bench.inject(segment((PEER_IP, 999), PORT, TcpControl::Syn, 1, None));
    bench.run(SECOND / 1000);
    bench.appliance.stack.unlisten(listener);
    bench.clockwork.asleep.set(None);
    bench.run(SECOND / 10);
    assert_eq!(bench.counter("rest.flows"), 1);
    assert_eq!(bench.peer.tcp(handle).state(), State::Established);
    let late = bench.peer.connect(PORT);
    bench.run(SECOND / 10);
    assert_eq!(bench.peer.tcp(late).state(), State::Closed);
}
