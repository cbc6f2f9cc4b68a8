//! MTUs from the smallest to the largest, and paths that take less than the link.

use std::net::Ipv4Addr;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use uniperf_harness::peers::Capture;
use uniperf_harness::trace::Station;
use uniperf_harness::{Machine, Namespace, NetperfResult, Network, Test, mac, process};

use crate::rig::Rig;

const MIB: u64 = 1 << 20;

/// A network whose tap takes packets of `mtu` bytes.
fn tap(mtu: usize) -> Network {
    let mut network = Network::tap().unwrap();
    let tap = network.as_tap_mut().unwrap();
    let name = tap.tap(0).unwrap();
    let mtu = mtu.to_string();
    tap.namespace()
        .ip(&["link", "set", &name, "mtu", &mtu])
        .unwrap();
    network
}

fn on_mtu(mtu: usize) {
    let machine = Machine {
        append: format!("mtu={mtu}"),
        ..Machine::default()
    };
    on(machine, mtu).end();
}

/// All loads on a machine with that MTU.
pub fn on(machine: Machine, mtu: usize) -> Rig {
    let rig = Rig::on(machine, tap(mtu));
    let capture = Capture::start(rig.appliance.network()).unwrap();
    let datagram = (mtu - 28).to_string();
    let loads: [(Test, u64, &[&str]); 6] = [
        (Test::TcpStream, 8 * MIB, &[]),
        (Test::TcpMaerts, 8 * MIB, &[]),
        (Test::TcpRr, 200, &[]),
        (Test::TcpRr, 50, &["-r", "40000,40000"]),
        (Test::UdpStream, 200 * (mtu as u64 - 28), &["-m", &datagram]),
        (Test::UdpRr, 100, &["-r", "20000,20000"]),
    ];
    for (test, amount, arguments) in loads {
        let netperf = rig.netperf().amount(amount);
        let netperf = netperf.test_arguments(arguments.iter().copied());
        let result = netperf.run(test).unwrap();
        println!("{mtu} {test}: {:.2}", result.throughput);
        if matches!(test, Test::TcpStream | Test::TcpMaerts) {
            assert_eq!(moved(test, &result), [Some(amount); 2]);
        }
    }
    let station = Station { mac: mac(0), mtu };
    let verdict = capture.finish().unwrap().judge(station).unwrap();
    verdict.check().unwrap();
    rig
}

/// The bytes that one side sent, and those that the other received.
fn moved(test: Test, result: &NetperfResult) -> [Option<u64>; 2] {
    match test {
        Test::TcpMaerts => [result.remote_bytes_sent, result.local_bytes_received],
        _ => [result.local_bytes_sent, result.remote_bytes_received],
    }
}

#[test]
fn the_smallest_mtu() {
    on_mtu(576);
}

#[test]
fn a_page_or_so() {
    on_mtu(4000);
}

#[test]
fn jumbo_frames() {
    on_mtu(9000);
}

#[test]
fn the_largest_mtu_of_the_nic() {
    on_mtu(16_110);
}

/// The way from the appliance to the client: two routers, and a link between them
/// that takes less than those at both ends. The first router is the namespace that
/// the tap is in.
struct Path {
    _far: Namespace,
    client: Namespace,
}

const NARROW: &str = "1000";
const AMOUNT: u64 = 4 * MIB;
const PATIENCE: Duration = Duration::from_secs(10);

impl Path {
    fn from(network: &Network) -> Self {
        let near = network.as_tap().unwrap().namespace();
        let far = Namespace::create_private().unwrap();
        let client = Namespace::create_private().unwrap();
        join(near, &far, "narrow", "10.78.0", NARROW);
        join(&far, &client, "wide", "10.79.0", "1500");
        for router in [near, &far] {
            let forward = || std::fs::write("/proc/sys/net/ipv4/ip_forward", "1");
            router.enter(forward).unwrap().unwrap();
        }
        for (namespace, to, by) in [
            (near, "10.79.0.0/24", "10.78.0.2"),
            (&far, "10.77.0.0/24", "10.78.0.1"),
            (&client, "default", "10.79.0.1"),
        ] {
            namespace.ip(&["route", "add", to, "via", by]).unwrap();
        }
        Self { _far: far, client }
    }

    /// Runs a test from the client, to its end or for a few seconds.
    fn netperf(&self, server: Ipv4Addr, test: Test, amount: u64, arguments: &[&str]) -> Result<()> {
        let mut command = Command::new("netperf");
        self.client.hold(&mut command);
        command
            .args(["-H", &server.to_string(), "-t", test.name()])
            .args(["-l", &format!("-{amount}"), "--"])
            .args(arguments);
        process::run(&mut command, PATIENCE)?.success()?;
        Ok(())
    }
}

/// Makes a link between two namespaces, whose ends are `.1` and `.2` of `prefix`.
fn join(one: &Namespace, other: &Namespace, name: &str, prefix: &str, mtu: &str) {
    let add = ["link", "add", name, "mtu", mtu, "type", "veth", "peer"];
    let peer = ["name", name, "mtu", mtu, "netns", other.name()];
    one.ip(&[&add[..], &peer[..]].concat()).unwrap();
    for (end, number) in [(one, 1), (other, 2)] {
        let address = format!("{prefix}.{number}/24");
        end.ip(&["addr", "add", &address, "dev", name]).unwrap();
        end.ip(&["link", "set", name, "up"]).unwrap();
    }
}

#[test]
fn a_path_that_takes_less_than_the_link_is_found_out() {
    let machine = Machine {
        append: "gw=10.77.0.1".into(),
        ..Machine::default()
    };
    let mut rig = Rig::on(machine, tap(1500));
    let path = Path::from(rig.appliance.network());
    let server = Ipv4Addr::new(10, 77, 0, 2);
    let capture = Capture::start(rig.appliance.network()).unwrap();
    for test in [Test::TcpMaerts, Test::TcpStream, Test::TcpMaerts] {
        path.netperf(server, test, AMOUNT, &[]).unwrap();
    }
    let station = Station {
        mac: mac(0),
        mtu: 1500,
    };
    let verdict = capture.finish().unwrap().judge(station).unwrap();
    verdict.check().unwrap();
    // No more than the first window was too large, and each part of it is counted.
    let again = verdict.sum(|c| c.resent);
    println!("{again} segments sent again");
    assert!((1..=20).contains(&again));

    let large = ["-r", "1400,1400"];
    // What finds out is lost, and nobody sends a datagram again.
    path.netperf(server, Test::UdpRr, 1, &large).unwrap_err();
    path.netperf(server, Test::UdpRr, 50, &large).unwrap();
    assert!(rig.counter("icmp.path_mtu") >= 1);
    rig.end();
}
