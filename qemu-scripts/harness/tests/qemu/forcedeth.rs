//! Our driver on every generation of the forcedeth model, and what can go wrong with one.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use uniperf_harness::peers::ping_flood;
use uniperf_harness::process::{self, Running};
use uniperf_harness::{Machine, MachineType, NetKind, Netperf, Network, NicModel, Test};

use crate::rig::{Rig, append, nics};
use crate::{mtu, streams, wire};

/// How long a test runs during which something goes wrong, and when that happens.
const LENGTH: Duration = Duration::from_secs(3);
const BEFORE: Duration = Duration::from_secs(1);
/// How long the appliance may take to notice, and to have counted.
const NOTICE: Duration = Duration::from_secs(10);
const CONSOLE: Duration = Duration::from_secs(20);

fn forcedeth(generation: &str) -> NicModel {
    format!("forcedeth:{generation}").parse().unwrap()
}

fn machine(generation: &str, arguments: &str) -> Machine {
    nics(&[forcedeth(generation)], arguments)
}

/// An appliance on that generation, with its link up.
fn rig(generation: &str, arguments: &str) -> Rig {
    let rig = Rig::with(machine(generation, arguments));
    rig.appliance.wait_for_line("link up", CONSOLE).unwrap();
    rig
}

/// All that netperf can, and pings of all sizes.
fn works_on(generation: &str, chipset: &str, interrupts: &str) {
    let mut rig = rig(generation, "");
    let text = rig.appliance.console().text();
    assert!(text.contains(&format!("{chipset} (forcedeth)")), "{text}");
    assert!(text.contains(interrupts), "{text}");
    for size in [0, 1, 17, 18, 56, 1472, 1473, 8000, 30_000] {
        let result = ping_flood(rig.appliance.network(), rig.ready.address, 200, size).unwrap();
        assert_eq!(result.received, 200, "{size}");
    }
    for test in Test::ALL {
        rig.run(test);
    }
    assert!(rig.counter("interrupts") > 1000);
    assert_eq!(rig.counter("nic.resets"), 0);
    assert_eq!(rig.counter("nic.lost_interrupts"), 0);
    is_content(&rig);
    rig.is_at_rest();
    rig.end();
}

/// The model has nothing against the driver.
fn is_content(rig: &Rig) {
    let complaints = model(rig, "complaints");
    assert_eq!(complaints, "");
}

/// Gives the model a line.
fn model(rig: &Rig, line: &str) -> String {
    rig.appliance.nic_model(0).unwrap().ask(line).unwrap()
}

#[test]
fn it_works_on_the_nforce2() {
    works_on("nforce2", "nForce2", "interrupts by INTx");
}

#[test]
fn it_works_on_the_nforce3() {
    works_on("nforce3", "nForce3 250", "interrupts by INTx");
}

#[test]
fn it_works_on_the_ck804() {
    works_on("ck804", "CK804", "interrupts by INTx");
}

#[test]
fn it_works_on_the_mcp51() {
    works_on("mcp51", "MCP51", "interrupts by INTx");
}

#[test]
fn it_works_on_the_mcp55() {
    works_on("mcp55", "MCP55", "interrupts by MSI");
}

#[test]
fn it_works_on_the_mcp61() {
    works_on("mcp61", "MCP61", "interrupts by MSI");
}

#[test]
fn it_works_on_the_mcp79() {
    works_on("mcp79", "MCP79", "interrupts by MSI");
}

/// Without offloads, with those of 32-bit descriptors, and with those of 64-bit ones.
const KINDS: [(&str, &[&str]); 3] = [
    ("nforce2", &[""]),
    ("nforce3", &["", "tso=off"]),
    ("mcp55", &["", "tso=off", "csum=off", "gro=off"]),
];

#[test]
fn every_segment_is_as_the_rfcs_have_it() {
    for (generation, settings) in KINDS {
        for arguments in settings {
            println!("-- {generation} {arguments}");
            let rig = rig(generation, arguments);
            wire::is_as_the_rfcs_have_it(&rig);
            is_content(&rig);
            rig.end();
        }
    }
}

#[test]
fn the_same_bytes_come_whatever_the_offloads() {
    for (generation, settings) in KINDS {
        for arguments in settings {
            println!("-- {generation} {arguments}");
            let rig = rig(generation, arguments);
            streams::carry_the_same_bytes(&rig);
            is_content(&rig);
            rig.end();
        }
    }
}

#[test]
fn mtus_up_to_the_largest() {
    for (generation, mtu) in [("nforce3", 9000), ("mcp55", 576), ("mcp55", 9100)] {
        let nics = vec![forcedeth(generation)];
        let machine = Machine {
            nics,
            ..append(&format!("mtu={mtu}"))
        };
        let rig = mtu::on(machine, mtu);
        is_content(&rig);
        rig.end();
    }
    let rig = rig("mcp61", "mtu=9000");
    let text = rig.appliance.console().text();
    assert!(text.contains("mtu=9000 is more than this NIC can take; using 1500"));
    rig.end();
}

#[test]
fn each_receive_mode_and_limit_of_interrupts() {
    for (arguments, most_a_second) in [
        ("rx=poll", 0),
        ("rx=napi", u64::MAX),
        ("rx=adaptive", u64::MAX),
        ("rx=napi itr=2000", 2500),
    ] {
        let mut rig = rig("mcp55", arguments);
        let before = (rig.counter("interrupts"), Instant::now());
        for test in [Test::TcpRr, Test::TcpStream, Test::TcpMaerts] {
            rig.run(test);
        }
        let count = rig.counter("interrupts") - before.0;
        let seconds = before.1.elapsed().as_secs() + 1;
        println!("{arguments}: {count} interrupts in {seconds} s");
        assert!(
            count <= most_a_second.saturating_mul(seconds),
            "{arguments}"
        );
        is_content(&rig);
        rig.end();
    }
}

#[test]
fn on_a_q35_and_on_user_networking() {
    let on_q35 = Machine {
        machine: MachineType::Q35,
        ..machine("mcp79", "")
    };
    let rig = Rig::with(on_q35);
    rig.run(Test::TcpRr);
    rig.end();
    let rig = Rig::on(machine("ck804", "ip=dhcp"), Network::user().unwrap());
    assert_eq!(rig.appliance.network().kind(), NetKind::User);
    rig.run(Test::TcpRr);
    rig.run(Test::TcpStream);
    rig.end();
}

/// A fault: what the model is told, the test during which it happens, and the counters
/// that tell of it with what they tell at least.
type Fault = (&'static str, Test, &'static [(&'static str, u64)]);

const FAULTS: [Fault; 18] = [
    (
        "fault rx crc 50",
        Test::TcpStream,
        &[("drop.nic_error", 50), ("nic.rx_crc_errors", 50)],
    ),
    (
        "fault rx overflow 50",
        Test::TcpStream,
        &[("drop.nic_error", 50), ("nic.rx_missed", 50)],
    ),
    (
        "fault rx symbol 5",
        Test::TcpRr,
        &[("drop.nic_error", 5), ("nic.rx_other_errors", 5)],
    ),
    (
        "fault rx length 5",
        Test::TcpRr,
        &[("drop.nic_length", 5), ("nic.rx_length_errors", 5)],
    ),
    ("fault rx invalid 5", Test::TcpRr, &[("drop.nic_error", 5)]),
    ("fault rx framing 50", Test::TcpStream, &[]),
    (
        "fault overrun 200",
        Test::TcpStream,
        &[("nic.rx_missed", 200), ("nic.rx_no_buffer", 200)],
    ),
    (
        "fault tx underflow 20",
        Test::TcpMaerts,
        &[("nic.tx_errors", 20)],
    ),
    ("fault tx carrier 5", Test::TcpRr, &[("nic.tx_errors", 5)]),
    (
        "fault tx collision 5",
        Test::TcpMaerts,
        &[("nic.tx_errors", 5)],
    ),
    ("fault tx retry 5", Test::TcpMaerts, &[("nic.tx_errors", 5)]),
    ("fault lost 3", Test::TcpRr, &[]),
    ("fault late 30 20", Test::TcpRr, &[]),
    ("flap 300", Test::TcpMaerts, &[]),
    ("fault stuck", Test::TcpMaerts, &[("nic.resets", 1)]),
    ("fault recover", Test::TcpStream, &[("nic.resets", 1)]),
    ("fault master", Test::TcpMaerts, &[("nic.cut_off", 1)]),
    ("fault master 700", Test::TcpStream, &[]),
];

/// The counters that a generation has not.
fn lacks(generation: &str, counter: &str) -> bool {
    let own = counter.starts_with("nic.rx_") || counter == "nic.tx_errors";
    generation == "nforce2" && own
}

/// Each fault in mid-transfer is counted and got over, and the next netperf runs.
fn gets_over_faults(generation: &str) {
    let mut rig = rig(generation, "rx=napi");
    for (line, test, counters) in FAULTS {
        println!("-- {generation}: {line}");
        let wanted: BTreeMap<_, _> = counters
            .iter()
            .filter(|(name, _)| !lacks(generation, name))
            .map(|(name, more)| (*name, rig.counter(name) + more))
            .collect();
        let mut command = rig.netperf().length(LENGTH).test_command(test);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = Running::start(&mut command).unwrap();
        std::thread::sleep(BEFORE);
        let from = rig.appliance.console().len();
        model(&rig, line);
        if line.starts_with("flap") {
            for what in ["link down", "link up"] {
                rig.appliance
                    .wait_for_line_after(from, what, CONSOLE)
                    .unwrap();
            }
        }
        let status = client.wait(Duration::from_secs(60)).unwrap();
        assert!(status.expect("netperf ends").success(), "{line}");
        let begin = Instant::now();
        for (name, value) in wanted {
            while rig.counter(name) < value {
                assert!(begin.elapsed() < NOTICE, "{line}: {name} is not counted");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        rig.run(Test::TcpRr);
    }
    is_content(&rig);
    rig.is_well();
    rig.end();
}

#[test]
fn an_mcp55_gets_over_faults() {
    gets_over_faults("mcp55");
}

#[test]
fn an_nforce2_gets_over_faults() {
    gets_over_faults("nforce2");
}

/// A link that comes late and at another speed.
#[test]
fn the_link_takes_any_speed() {
    let mut rig = rig("mcp79", "");
    for (how, said) in [
        ("down", "link down"),
        ("100 half", "link up, 100 Mbit/s half duplex"),
        ("10 full", "link up, 10 Mbit/s full duplex"),
        ("up", "link up, 1000 Mbit/s full duplex"),
    ] {
        let from = rig.appliance.console().len();
        model(&rig, &format!("link {how}"));
        rig.appliance
            .wait_for_line_after(from, said, CONSOLE)
            .unwrap();
        if how != "down" {
            Netperf::new(&rig.appliance, rig.ready)
                .run(Test::TcpRr)
                .unwrap();
        }
    }
    is_content(&rig);
    rig.is_well();
    rig.end();
}

/// In mid-transfer the next look at the ring can make up for one that is lost. Where
/// nothing else is going on, it has to be noticed.
#[test]
fn a_lost_interrupt_is_noticed() {
    for generation in ["ck804", "mcp55"] {
        let mut rig = rig(generation, "rx=napi");
        rig.run(Test::TcpRr);
        model(&rig, "fault lost 1");
        let mut ping = rig.appliance.network().command("ping");
        ping.args(["-c", "1", "-W", "5"])
            .arg(rig.ready.address.to_string());
        let output = process::run(&mut ping, CONSOLE).unwrap();
        output.success().unwrap();
        rig.wait_for_counter("nic.lost_interrupts", 1);
        rig.is_well();
        rig.end();
    }
}
