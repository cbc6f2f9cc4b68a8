use alloc::format;
use smoltcp::socket::tcp::State;
use smoltcp::wire::{DhcpMessageType, Ipv4Address};

use crate::config::{AddressConfig, Config};
use crate::testing::bench::{SECOND, static_config};
use crate::testing::dhcp::DhcpServer;
use crate::testing::nic::UP;
use crate::testing::services::PORT;
use crate::testing::*;
use uniperf_drivers::nic::Link;

fn bench(server: Option<DhcpServer>) -> Bench {
    let config = Config {
        address: AddressConfig::Dhcp,
        ..static_config()
    };
    let mut bench = Bench::with(&config);
    bench.dhcp = server;
    bench
}

#[test]
fn gets_an_address_and_says_so() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 3600)));
    bench.run(SECOND);
    let printed = bench.printed();
    let line =
        "uniperf: address 10.0.0.2/24 by DHCP from 10.0.0.1, gateway 10.0.0.1, lease 3600 s\n";
    assert!(printed.contains(line), "{printed}");
    assert!(printed.contains("uniperf: ready 10.0.0.2 "), "{printed}");
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND);
    assert_eq!(bench.peer.tcp(handle).state(), State::Established);
}

#[test]
fn renews_in_time_and_connections_live_on() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 300)));
    bench.run(SECOND);
    let handle = bench.peer.connect(PORT);
    bench.run(1000 * SECOND);
    assert_eq!(bench.peer.tcp(handle).state(), State::Established);
    assert!(bench.counter("dhcp.renewals") >= 5);
    assert_eq!(bench.printed().matches("uniperf: address").count(), 1);
    assert_eq!(bench.printed().matches("uniperf: ready").count(), 1);
}

#[test]
fn loses_an_address_that_nobody_renews() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 300)));
    bench.run(SECOND);
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND);
    bench.dhcp.as_mut().unwrap().answers = false;
    bench.run(310 * SECOND);
    assert!(bench.printed().contains("uniperf: address 10.0.0.2 lost"));
    assert_eq!(bench.appliance.stack.address(), None);
    assert_eq!(bench.counter("rest.flows"), 0);
    bench.peer.tcp(handle).abort();
    // It is asked for again until somebody answers.
    bench.run(300 * SECOND);
    let server = bench.dhcp.as_mut().unwrap();
    server.answers = true;
    server.offers = Ipv4Address::new(10, 0, 0, 9);
    bench.run(30 * SECOND);
    assert!(
        bench
            .printed()
            .contains("uniperf: address 10.0.0.9/24 by DHCP")
    );
    assert_eq!(bench.printed().matches("uniperf: ready").count(), 1);
}

#[test]
fn a_server_that_never_answers_is_asked_for_ever() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 300)));
    bench.dhcp.as_mut().unwrap().answers = false;
    bench.run(600 * SECOND);
    let asked = bench.dhcp.as_ref().unwrap().asked.len();
    assert!((60..100).contains(&asked), "{asked} times");
    let printed = bench.printed();
    let hints = printed.matches("no DHCP server has answered").count();
    assert_eq!(hints, 8, "{printed}");
    let quick = [5, 15, 35, 75, 155, 275].map(|s| format!("answered for {s} s;"));
    assert!(quick.iter().all(|hint| printed.contains(hint)), "{printed}");
    assert!(printed.contains("boot with ip=ADDRESS/PREFIX and gw=GATEWAY"));
    assert!(!printed.contains("ready"));
    bench.dhcp.as_mut().unwrap().answers = true;
    bench.run(20 * SECOND);
    assert!(bench.printed().contains("uniperf: ready 10.0.0.2 "));
}

#[test]
fn a_cable_that_is_not_in_is_named_as_the_reason() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 300)));
    pull_the_cable(&mut bench, 20 * SECOND);
    let printed = bench.printed();
    assert!(printed.contains("uniperf: no link for 5 s; is the cable in?"));
    assert!(!printed.contains("no DHCP server"), "{printed}");
    bench.run(5 * SECOND);
    assert!(bench.printed().contains("uniperf: ready 10.0.0.2 "));
}

fn pull_the_cable(bench: &mut Bench, nanoseconds: u64) {
    bench.cut = true;
    bench.hardware.set_link(Link::Down);
    bench.clockwork.asleep.set(None);
    bench.run(nanoseconds);
    bench.cut = false;
    bench.hardware.set_link(UP);
    bench.clockwork.asleep.set(None);
}

#[test]
fn a_cable_that_was_out_breaks_no_connection() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 3600)));
    bench.run(SECOND);
    let handle = bench.peer.connect(PORT);
    bench.run(SECOND);
    pull_the_cable(&mut bench, 5 * SECOND);
    bench.run(5 * SECOND);
    assert_eq!(bench.peer.tcp(handle).state(), State::Established);
    assert_eq!(bench.counter("rest.flows"), 1);
    let asked = &bench.dhcp.as_ref().unwrap().asked;
    let discovers = asked
        .iter()
        .filter(|kind| **kind == DhcpMessageType::Discover);
    assert_eq!(discovers.count(), 2, "asked anew");
}

#[test]
fn a_cable_that_leads_elsewhere_brings_another_address() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 3600)));
    bench.run(SECOND);
    bench.dhcp.as_mut().unwrap().offers = Ipv4Address::new(10, 0, 0, 77);
    pull_the_cable(&mut bench, 5 * SECOND);
    bench.run(5 * SECOND);
    let address = bench.appliance.stack.address().unwrap();
    assert_eq!(address.address(), Ipv4Address::new(10, 0, 0, 77));
}

/// Nobody answers after the cable was out: the old lease ends when it ends.
#[test]
fn an_old_lease_still_ends() {
    let mut bench = bench(Some(DhcpServer::new(OUR_IP, 300)));
    bench.run(SECOND);
    bench.dhcp.as_mut().unwrap().answers = false;
    pull_the_cable(&mut bench, 5 * SECOND);
    bench.run(280 * SECOND);
    assert!(bench.appliance.stack.address().is_some());
    bench.run(20 * SECOND);
    assert!(bench.appliance.stack.address().is_none());
    assert!(bench.printed().contains("lost"));
}
