//! Serial ports and screens, as `console=` has them.

use std::time::Duration;

use uniperf_harness::{
    Appliance, BOOT_TIMEOUT, BootDevice, Firmware, FirmwareBoot, Image, Machine, Network,
    ScreenKind, SerialPort, Test, media,
};

use crate::rig::{Rig, append};

const TIMEOUT: Duration = Duration::from_secs(20);
const TEXT: ScreenKind = ScreenKind::Text;

fn start(machine: Machine) -> Appliance {
    Appliance::start(&Image::built().unwrap(), &machine, Network::tap().unwrap()).unwrap()
}

fn with_screen(serial: SerialPort, arguments: &str) -> Machine {
    Machine {
        screen: true,
        serial,
        ..append(arguments)
    }
}

/// The appliance is there, by the peer's account.
fn answers(appliance: &mut Appliance) -> bool {
    let network = appliance.network();
    let mut ping = network.command("ping");
    ping.args(["-c", "1", "-W", "1", "10.77.0.2"]);
    let deadline = std::time::Instant::now() + TIMEOUT;
    while std::time::Instant::now() < deadline {
        if ping.output().unwrap().status.success() {
            return true;
        }
    }
    false
}

#[test]
fn a_screen_shows_what_the_serial_line_does_and_scrolls() {
    let mut appliance = start(with_screen(SerialPort::Com1, ""));
    let ready = appliance.ready(TIMEOUT).unwrap();
    let line = format!("uniperf: ready {} {}", ready.address, ready.milliseconds);
    appliance.wait_for_screen(TEXT, &line, TIMEOUT).unwrap();
    appliance.counters().unwrap();
    let sent = appliance.console().text();
    appliance
        .wait_for_screen(TEXT, "end of counters", TIMEOUT)
        .unwrap();
    let screen = appliance.screen(TEXT).unwrap();
    let text = screen.join("\n");
    let text = text.trim_end();
    assert!(sent.replace('\r', "").contains(text), "{text}");
    assert!(!screen.contains(&line), "it did not scroll");
}

#[test]
fn without_a_serial_port_the_screen_has_it_all() {
    let mut appliance = start(with_screen(SerialPort::Absent, ""));
    appliance
        .wait_for_screen(TEXT, "uniperf: ready 10.77.0.2 ", TIMEOUT)
        .unwrap();
    assert_eq!(appliance.console().len(), 0);
}

#[test]
fn with_neither_it_works_all_the_same() {
    let mut appliance = start(Machine {
        serial: SerialPort::Absent,
        ..Machine::default()
    });
    assert!(answers(&mut appliance));
}

#[test]
fn com2_is_used_when_named_or_when_there_is_no_com1() {
    for arguments in ["console=com2", "console=ttyS1,115200n8", ""] {
        let rig = Rig::with(Machine {
            serial: SerialPort::Com2,
            ..append(arguments)
        });
        rig.run(Test::TcpRr);
        rig.end();
    }
}

/// Nobody knows its interrupt: what is typed is found by polling.
#[test]
fn a_serial_port_may_be_anywhere() {
    let mut rig = Rig::with(Machine {
        serial: SerialPort::At(0x2a8),
        ..append("console=0x2a8")
    });
    rig.is_well();
    rig.end();
}

#[test]
fn a_named_port_that_does_not_answer_is_said_on_the_others() {
    const COMPLAINT: &str = "no UART answers at 0x2f8, which console= names";
    let rig = Rig::with(append("console=com2"));
    assert!(rig.appliance.console().text().contains(COMPLAINT));
    rig.end();
    let mut appliance = start(with_screen(SerialPort::Com1, "console=com2,screen"));
    appliance.wait_for_screen(TEXT, COMPLAINT, TIMEOUT).unwrap();
    assert!(answers(&mut appliance));
    assert_eq!(appliance.console().len(), 0);
}

#[test]
fn a_named_screen_that_is_not_there_is_said_on_a_serial_line() {
    for arguments in ["console=screen", "console=screen,com1"] {
        let rig = Rig::with(append(arguments));
        let text = rig.appliance.console().text();
        let complaints = text.matches("there is no screen, which console= names");
        assert_eq!(complaints.count(), 1, "{arguments}");
        rig.end();
    }
}

#[test]
fn off_is_silence() {
    let mut appliance = start(with_screen(SerialPort::Com1, "console=off"));
    assert!(answers(&mut appliance));
    assert_eq!(appliance.console().len(), 0);
    let screen = appliance.screen(TEXT).unwrap();
    assert!(!screen.iter().any(|line| line.contains("uniperf")));
}

/// UEFI gives a frame buffer, in which the console draws its text.
#[test]
fn uefi_hosts_show_it_in_their_frame_buffer() {
    let folder = tempfile::tempdir().unwrap();
    let volume = folder.path().join("volume");
    media::make_volume(&Image::built().unwrap(), &volume).unwrap();
    let start = FirmwareBoot::new(Firmware::Uefi, BootDevice::Disk(volume));
    let machine = Machine {
        memory: 256,
        ..with_screen(SerialPort::Absent, "ip=dhcp")
    };
    let network = Network::tap().unwrap();
    let mut appliance = Appliance::start_by_firmware(&start, &machine, network).unwrap();
    appliance
        .wait_for_screen(ScreenKind::Pixels, "uniperf: ready 10.77.0.", BOOT_TIMEOUT)
        .unwrap();
}

/// Also where it ends before Hermit has started.
#[test]
fn a_refusal_is_seen_on_the_screen() {
    let mut appliance = start(Machine {
        memory: 20,
        stays_when_stopped: true,
        ..with_screen(SerialPort::Absent, "")
    });
    appliance
        .wait_for_screen(TEXT, "MiB of memory are too little", TIMEOUT)
        .unwrap();
}

#[test]
fn a_failure_is_seen_on_the_screen() {
    let mut appliance = start(Machine {
        stays_when_stopped: true,
        ..with_screen(SerialPort::Com1, "console=com1,screen")
    });
    appliance.ready(TIMEOUT).unwrap();
    appliance.type_line("panic").unwrap();
    appliance
        .wait_for_screen(TEXT, "uniperf: stopped: panic", TIMEOUT)
        .unwrap();
}
