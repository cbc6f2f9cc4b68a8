//! Addresses from a DHCP server, or not.

use std::time::Duration;

use uniperf_harness::{Appliance, DhcpOptions, Image, Network, Test};

use crate::rig::{Rig, append};

const SECONDS: fn(u64) -> Duration = Duration::from_secs;

#[test]
fn a_server_on_the_tap_gives_the_address() {
    let mut rig = Rig::with(append("ip=dhcp"));
    let text = rig.appliance.console().text();
    assert!(text.contains("10.77.0."), "no address on the console");
    rig.is_well();
    rig.end();
}

#[test]
fn without_a_server_it_keeps_asking_and_takes_a_late_answer() {
    let mut network = Network::tap().unwrap();
    network.as_tap_mut().unwrap().keep_without_dhcp();
    let image = Image::built().unwrap();
    let mut appliance = Appliance::start(&image, &append("ip=dhcp"), network).unwrap();
    appliance
        .wait_for_line("no DHCP server has answered", SECONDS(60))
        .unwrap();
    // The console is alive meanwhile.
    appliance.counters().unwrap();
    let tap = appliance.network_mut().as_tap_mut().unwrap();
    tap.serve_dhcp(&DhcpOptions::default()).unwrap();
    let ready = appliance.ready(SECONDS(90)).unwrap();
    let netperf = uniperf_harness::Netperf::new(&appliance, ready);
    netperf.run(Test::TcpRr).unwrap().check().unwrap();
    assert!(appliance.power_off().unwrap().success());
}

#[test]
fn a_lease_is_renewed_during_a_test() {
    let mut network = Network::tap().unwrap();
    let options = DhcpOptions {
        lease: SECONDS(120),
        renewal: Some(SECONDS(5)),
        ..DhcpOptions::default()
    };
    network.as_tap_mut().unwrap().serve_dhcp(&options).unwrap();
    let mut rig = Rig::on(append("ip=dhcp"), network);
    let netperf = rig.netperf().length(SECONDS(14));
    netperf.run(Test::TcpStream).unwrap().check().unwrap();
    let renewals = rig.counter("dhcp.renewals");
    println!("{renewals} renewals");
    assert!(renewals >= 2, "{renewals} renewals in 14 s");
    let acknowledged = {
        let tap = rig.appliance.network().as_tap().unwrap();
        let log = tap.dhcp().unwrap().log().since(0);
        log.iter().filter(|line| line.contains("DHCPACK")).count()
    };
    assert!(acknowledged >= 3, "the server says {acknowledged} DHCPACK");
    rig.is_well();
    rig.end();
}

#[test]
fn a_server_that_goes_away_takes_the_address_only_at_the_end_of_the_lease() {
    let mut network = Network::tap().unwrap();
    let options = DhcpOptions {
        lease: SECONDS(120),
        renewal: Some(SECONDS(3)),
        ..DhcpOptions::default()
    };
    network.as_tap_mut().unwrap().serve_dhcp(&options).unwrap();
    let mut rig = Rig::on(append("ip=dhcp"), network);
    let tap = rig.appliance.network_mut().as_tap_mut().unwrap();
    tap.stop_dhcp();
    std::thread::sleep(SECONDS(10));
    rig.is_well();
    rig.end();
}
