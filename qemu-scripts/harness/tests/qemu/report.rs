//! `qemu-scripts/report`'s work, on an appliance whose NIC is a model of an nForce's.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd::{Pid, ttyname};
use uniperf_harness::Test;
use uniperf_harness::process::{self, Log, Running};

use crate::rig::{Rig, nics};

const TIMEOUT: Duration = Duration::from_secs(180);
const POLL: Duration = Duration::from_millis(5);

/// A pseudo-terminal that is to the appliance's console what a serial port would be.
struct SerialPort {
    path: PathBuf,
    _open: OwnedFd,
}

impl SerialPort {
    fn of(rig: &Rig) -> Self {
        let pair = openpty(None, None).unwrap();
        // Until somebody sets it up, a terminal sends back what comes.
        let mut settings = tcgetattr(&pair.slave).unwrap();
        cfmakeraw(&mut settings);
        tcsetattr(&pair.slave, SetArg::TCSANOW, &settings).unwrap();
        let mut typed = File::from(pair.master);
        let said = typed.try_clone().unwrap();
        let mut console = rig.appliance.console_input().unwrap();
        std::thread::spawn(move || std::io::copy(&mut typed, &mut console));
        let log = rig.appliance.console().clone();
        std::thread::spawn(move || pass_on(&log, said));
        Self {
            path: ttyname(&pair.slave).unwrap(),
            _open: pair.slave,
        }
    }
}

/// What the console says from now on.
fn pass_on(log: &Log, mut to: File) {
    let mut next = log.len();
    while !log.is_closed() {
        for line in log.since(next) {
            next += 1;
            if to.write_all(format!("{line}\r\n").as_bytes()).is_err() {
                return;
            }
        }
        std::thread::sleep(POLL);
    }
}

fn report(rig: &Rig, port: &SerialPort, file: &Path) -> Command {
    let network = rig.appliance.network();
    let mut command = network.command(env!("CARGO_BIN_EXE_uniperf-qemu"));
    command
        .arg("report")
        .arg(rig.ready.address.to_string())
        .args(["--seconds", "1", "--serial"])
        .arg(&port.path)
        .arg("--out")
        .arg(file);
    command
}

/// The lines of a section.
fn section<'a>(report: &'a str, title: &str) -> &'a str {
    let heading = format!("\n=== {title}\n");
    let (_, rest) = report
        .split_once(&heading)
        .unwrap_or_else(|| panic!("no section {title} in {report}"));
    rest.split_once("\n=== ")
        .map_or(rest, |(section, _)| section)
}

#[test]
fn a_report_of_an_nforce_nic_has_it_all() {
    let rig = Rig::with(nics(&["forcedeth".parse().unwrap()], ""));
    let port = SerialPort::of(&rig);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("report.txt");
    let finished = process::run(&mut report(&rig, &port, &file), TIMEOUT)
        .unwrap()
        .success()
        .unwrap();
    println!("{}", finished.stderr);
    let text = std::fs::read_to_string(&file).unwrap();
    println!("{text}");

    assert!(finished.stderr.contains("/issues"), "{finished}");
    assert!(section(&text, "What with").contains("netperf here     2."));
    for title in ["Registers before", "Registers after"] {
        let registers = section(&text, title);
        for begin in [
            "forcedeth 10de:0373 ",
            "pci 000: 037310de",
            "nic 000: ",
            "phy ",
        ] {
            assert!(registers.contains(begin), "{begin} in {title}");
        }
        assert!(registers.trim_end().ends_with("end of hardware"), "{title}");
    }
    for test in Test::ALL {
        let typed = format!("netperf -H 10.77.0.2 -p 12865 -t {test} -l 1 -c -C\n");
        assert!(section(&text, "netperf").contains(&typed), "{test}");
    }
    assert!(section(&text, "Pings").contains("ping with 65507 bytes: all came back"));
    let streams = section(&text, "Streams, byte by byte");
    assert_eq!(streams.matches("as it should be").count(), 2, "{streams}");
    assert!(streams.contains("as many counted there"), "{streams}");
    let changed = section(&text, "Counters that have changed");
    for name in ["interrupts ", "nic.rx_frames ", "nic.tx_frames "] {
        assert!(changed.contains(name), "{name}");
    }
    let said = section(&text, "What the console said meanwhile");
    assert!(said.contains("netperf: TCP_RR from 10.77.0.1:"), "{said}");
    assert!(section(&text, "Summary").contains("Everything that was tried went well."));
    assert!(text.ends_with("end of report\n"));

    ctrl_c_leaves_what_was_found(&rig, &port, &folder.path().join("cut.txt"));
    rig.end();
}

fn ctrl_c_leaves_what_was_found(rig: &Rig, port: &SerialPort, file: &Path) {
    let mut command = report(rig, port, file);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command).unwrap();
    let mut stderr = running.take_stderr().unwrap();
    let begin = Instant::now();
    let text = || std::fs::read_to_string(file).unwrap_or_default();
    while !text().contains("\n=== Pings\n") {
        assert!(begin.elapsed() < TIMEOUT, "{}", text());
        std::thread::sleep(POLL);
    }
    let pid = Pid::from_raw(running.id().cast_signed());
    kill(pid, Signal::SIGINT).unwrap();
    let status = running.wait(Duration::from_secs(10)).unwrap();
    assert_eq!(status.expect("it ends").code(), Some(130));
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    assert!(said.contains("what was found so far is in"), "{said}");
    let text = text();
    assert!(section(&text, "Registers before").contains("end of hardware"));
    assert!(text.contains("=== Stopped by a signal"), "{text}");
    assert!(!text.contains("FAILED"), "{text}");
}
