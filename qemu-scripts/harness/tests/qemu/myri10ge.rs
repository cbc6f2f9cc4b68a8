//! Our driver on the myri10ge model, and what can go wrong with a card.

use std::collections::BTreeMap;
use std::process::Stdio;
use std::time::{Duration, Instant};

use uniperf_harness::peers::ping_flood;
use uniperf_harness::process::{self, Running};
use uniperf_harness::{Appliance, Beside, Image, Machine, MachineType, NetKind, Network, Test};

use crate::rig::{Rig, append, nics};
use crate::{mtu, streams, wire};

/// How long a test runs during which something goes wrong, and when that happens.
const LENGTH: Duration = Duration::from_secs(3);
const BEFORE: Duration = Duration::from_secs(1);
/// How long the appliance may take to notice, to have given the card its firmware, and to
/// have counted.
const NOTICE: Duration = Duration::from_secs(30);
const CONSOLE: Duration = Duration::from_secs(30);

fn machine(name: &str, arguments: &str) -> Machine {
    nics(&[name.parse().unwrap()], arguments)
}

/// An appliance on that card, with its link up.
fn rig(name: &str, arguments: &str) -> Rig {
    let rig = Rig::with(machine(name, arguments));
    rig.appliance.wait_for_line("link up", CONSOLE).unwrap();
    rig
}

/// The model has nothing against the driver.
fn is_content(rig: &Rig) {
    assert_eq!(model(rig, "complaints"), "");
}

/// Gives the model a line.
fn model(rig: &Rig, line: &str) -> String {
    rig.appliance.nic_model(0).unwrap().ask(line).unwrap()
}

/// All that netperf can, and pings of all sizes.
fn works_on(name: &str, firmware: &str) {
    let mut rig = rig(name, "");
    let text = rig.appliance.console().text();
    assert!(text.contains(firmware), "{text}");
    assert!(text.contains("interrupts by MSI"), "{text}");
    model(&rig, "complaints clear");
    for size in [0, 1, 17, 18, 56, 84, 85, 1472, 1473, 8000, 30_000] {
        let result = ping_flood(rig.appliance.network(), rig.ready.address, 200, size).unwrap();
        assert_eq!(result.received, 200, "{size}");
    }
    for test in Test::ALL {
        rig.run(test);
    }
    assert!(rig.counter("interrupts") > 500);
    assert_eq!(rig.counter("nic.resets"), 0);
    assert_eq!(rig.counter("nic.lost_interrupts"), 0);
    is_content(&rig);
    rig.is_at_rest();
    rig.end();
}

#[test]
fn it_works_with_aligned_completions() {
    works_on("myri10ge", "runs firmware 1.4.57 for aligned completions");
}

#[test]
fn it_works_without() {
    works_on("myri10ge:unaligned", "runs firmware 1.4.57 for any host");
}

/// Every setting of the offloads: bytes arrive as they were sent, and what is on the wire
/// is as the RFCs have it.
#[test]
fn the_same_bytes_with_every_offload_on_and_off() {
    for arguments in ["", "tso=off", "tso=off csum=off", "csum=off"] {
        let rig = rig("myri10ge", arguments);
        streams::carry_the_same_bytes(&rig);
        wire::is_as_the_rfcs_have_it(&rig);
        is_content(&rig);
        rig.end();
    }
}

#[test]
fn mtus_up_to_the_largest() {
    for (name, mtu) in [
        ("myri10ge", 576),
        ("myri10ge", 9000),
        ("myri10ge:unaligned", 9000),
    ] {
        let machine = Machine {
            nics: vec![name.parse().unwrap()],
            ..append(&format!("mtu={mtu}"))
        };
        let rig = mtu::on(machine, mtu);
        for test in Test::ALL {
            rig.run(test);
        }
        rig.end();
    }
}

#[test]
fn each_receive_mode_and_limit_of_interrupts() {
    for (arguments, most_a_second) in [
        ("rx=poll", 60),
        ("rx=napi", u64::MAX),
        ("rx=adaptive", u64::MAX),
        ("rx=napi itr=1000", 1500),
    ] {
        let mut rig = rig("myri10ge", arguments);
        let before = (rig.counter("interrupts"), Instant::now());
        for test in [Test::TcpRr, Test::TcpStream] {
            rig.run(test);
        }
        let count = rig.counter("interrupts") - before.0;
        let seconds = before.1.elapsed().as_secs() + 1;
        println!("{arguments}: {count} interrupts in {seconds} s");
        assert!(
            count <= most_a_second.saturating_mul(seconds),
            "{arguments}"
        );
        rig.run(Test::TcpMaerts);
        is_content(&rig);
        rig.end();
    }
}

#[test]
fn on_a_q35_and_on_user_networking() {
    let on_q35 = Machine {
        machine: MachineType::Q35,
        ..machine("myri10ge", "")
    };
    let rig = Rig::with(on_q35);
    rig.run(Test::TcpRr);
    rig.end();
    let rig = Rig::on(machine("myri10ge", "ip=dhcp"), Network::user().unwrap());
    assert_eq!(rig.appliance.network().kind(), NetKind::User);
    rig.run(Test::TcpRr);
    rig.run(Test::TcpStream);
    rig.end();
}

/// A fault: what the model is told, the test during which it happens, and the counters
/// that tell of it with what they tell at least.
type Fault = (&'static str, Test, &'static [(&'static str, u64)]);

const FAULTS: [Fault; 11] = [
    (
        "fault rx crc 50",
        Test::TcpStream,
        &[("nic.rx_crc_errors", 50)],
    ),
    (
        "fault rx overrun 50",
        Test::TcpStream,
        &[("nic.rx_missed", 50)],
    ),
    ("fault rx phy 5", Test::TcpRr, &[("nic.rx_other_errors", 5)]),
    (
        "fault rx runt 5",
        Test::TcpRr,
        &[("nic.rx_length_errors", 5)],
    ),
    // Noticed at the next look, unless the loop has looked at the queue before.
    ("fault lost 1", Test::TcpRr, &[]),
    ("fault late 30 20", Test::TcpRr, &[]),
    ("flap 300", Test::TcpMaerts, &[]),
    ("fault stuck", Test::TcpMaerts, &[("nic.resets", 1)]),
    (
        "fault master",
        Test::TcpMaerts,
        &[("nic.cut_off", 1), ("nic.resets", 1)],
    ),
    ("fault master 700", Test::TcpStream, &[]),
    (
        "fault parity",
        Test::TcpMaerts,
        &[("nic.cut_off", 1), ("nic.resets", 1)],
    ),
];

/// Each fault in mid-transfer is counted and got over, and the next netperf runs.
#[test]
fn it_gets_over_faults() {
    let mut rig = rig("myri10ge", "rx=napi");
    for (line, test, counters) in FAULTS {
        println!("-- {line}");
        let wanted: BTreeMap<_, _> = counters
            .iter()
            .map(|(name, more)| (*name, rig.counter(name) + more))
            .collect();
        let mut command = rig.netperf().length(LENGTH).test_command(test);
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut client = Running::start(&mut command).unwrap();
        std::thread::sleep(BEFORE);
        model(&rig, line);
        let status = client.wait(Duration::from_secs(60)).unwrap();
        assert!(status.expect("netperf ends").success(), "{line}");
        let begin = Instant::now();
        for (name, value) in wanted {
            while rig.counter(name) < value {
                assert!(begin.elapsed() < NOTICE, "{line}: {name} is not counted");
                std::thread::sleep(Duration::from_millis(200));
            }
        }
        // Memory out of reach is what the model complains of, and was told to bring about.
        if line.starts_with("fault master") || line == "fault parity" {
            model(&rig, "complaints clear");
        }
        rig.run(Test::TcpRr);
    }
    is_content(&rig);
    rig.is_well();
    rig.end();
}

#[test]
fn a_lost_interrupt_is_noticed() {
    let mut rig = rig("myri10ge", "rx=napi");
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

/// What the appliance says of a card that it cannot start.
fn refusal(beside: Beside) -> String {
    let machine = Machine {
        beside,
        ..machine("myri10ge", "")
    };
    let image = Image::built().unwrap();
    let network = Network::tap().unwrap();
    let mut appliance = Appliance::start(&image, &machine, network).unwrap();
    appliance
        .wait_for_line("type reboot, or poweroff", CONSOLE)
        .unwrap();
    let text = appliance.console().text();
    appliance.wait(CONSOLE).unwrap();
    text
}

#[test]
fn without_firmware_it_says_what_is_missing_and_how_to_get_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        Beside::File(path)
    };
    for (beside, said) in [
        (Beside::Nothing, "none was loaded beside the image"),
        (
            file("initrd", b"no firmware"),
            "is no firmware, or is cut short",
        ),
        (
            file("archive", b"070701 and no more"),
            "none was loaded beside the image",
        ),
    ] {
        let text = refusal(beside);
        assert!(text.contains(said), "{text}");
        assert!(text.contains("Debian's package firmware-myricom"), "{text}");
        assert!(text.contains("type reboot, or poweroff"), "{text}");
    }
}

/// The firmware that set-up has got, cut short, and with one bit turned.
#[test]
fn damaged_firmware_is_refused_in_words() {
    let folder = tempfile::tempdir().unwrap();
    let whole = std::fs::read(uniperf_harness::myri10ge_firmware().unwrap()).unwrap();
    let mut bent = whole.clone();
    bent[200_000] ^= 4;
    for (name, bytes, said) in [
        ("cut", &whole[..100_000], "none was loaded beside the image"),
        ("bent", &bent[..], "the file is damaged"),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        let text = refusal(Beside::File(path));
        assert!(text.contains(said), "{name}: {text}");
    }
}

#[test]
fn a_card_that_runs_firmware_is_adopted() {
    let machine = Machine {
        beside: Beside::Nothing,
        ..machine("myri10ge:running", "")
    };
    let rig = Rig::with(machine);
    let text = rig.appliance.console().text();
    assert!(text.contains("runs firmware 1.4.55 for any host, the card's own"));
    for test in [Test::TcpRr, Test::TcpStream, Test::TcpMaerts] {
        rig.run(test);
    }
    is_content(&rig);
    rig.end();
}
