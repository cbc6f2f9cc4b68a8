//! The command behind `qemu-scripts/boot` and `qemu-scripts/run`: what it prints,
//! and that it leaves nothing behind however it ends.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use uniperf_harness::process::{self, Finished, Log, Running};

const TIMEOUT: Duration = Duration::from_secs(60);

/// `uniperf-qemu` with `arguments`, its tap in a namespace called `name`.
fn command(name: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uniperf-qemu"));
    command.arg(arguments[0]);
    command.args(["--namespace", &unique(name)]);
    command.args(&arguments[1..]);
    command
}

fn unique(name: &str) -> String {
    format!("uniperf-{name}-{}", std::process::id())
}

/// Boots, and returns once the appliance is ready.
fn booted(name: &str) -> (Running, Log) {
    let mut command = command(name, &["boot", "--net", "tap"]);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut boot = Running::start(&mut command).unwrap();
    let log = Log::follow(boot.take_stdout().unwrap());
    let ready = |line: &str| line.contains("uniperf: ready 10.77.0.2 ");
    log.wait_for(0, TIMEOUT, "ready line", ready).unwrap();
    (boot, log)
}

fn run(name: &str, arguments: &[&str]) -> Finished {
    process::run(&mut command(name, arguments), TIMEOUT).unwrap()
}

fn exists(name: &str) -> bool {
    Path::new("/run/netns").join(unique(name)).exists()
}

/// How many processes have `word` in their command line.
fn processes_with(word: &str) -> usize {
    let matches = |entry: std::io::Result<std::fs::DirEntry>| {
        let line = std::fs::read(entry.ok()?.path().join("cmdline")).ok()?;
        String::from_utf8_lossy(&line).contains(word).then_some(())
    };
    std::fs::read_dir("/proc")
        .unwrap()
        .filter_map(matches)
        .count()
}

#[test]
fn run_prints_netperfs_tables() {
    let finished = run("run", &["run", "--length", "1"]).success().unwrap();
    for test in ["TCP_RR", "TCP_STREAM", "TCP_MAERTS", "UDP_RR"] {
        let typed = format!("netperf -H 10.77.0.2 -p 12865 -t {test} -l 1 -c -C");
        assert!(finished.stdout.contains(&typed), "{finished}");
    }
    assert_eq!(finished.stdout.matches("us/Tr   us/Tr").count(), 2);
    assert_eq!(finished.stdout.matches("us/KB   us/KB").count(), 2);
    assert!(!exists("run"));
}

#[test]
fn run_takes_arguments_for_netperf() {
    let arguments = [
        "run", "--net", "user", "--", "-t", "UDP_RR", "-l", "1", "--", "-r", "8,8",
    ];
    let finished = run("arguments", &arguments).success().unwrap();
    assert!(
        finished.stdout.contains("UDP REQUEST/RESPONSE"),
        "{finished}"
    );
    assert!(finished.stdout.contains("-l 1 -- -r 8,8"), "{finished}");
}

#[test]
fn run_ends_as_netperf_does_and_shows_the_console() {
    let finished = run("fails", &["run", "--", "-t", "NO_SUCH_TEST"]);
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("uniperf: ready"), "{finished}");
    assert!(!exists("fails"));
}

#[test]
fn an_image_that_is_not_there_is_said_in_one_line() {
    let finished = run("image", &["boot", "--image", "/no/such/image"]);
    assert!(!finished.status.success());
    let error = "there is no image /no/such/image";
    assert!(finished.stderr.contains(error), "{finished}");
    assert!(!exists("image"));
}

#[test]
fn a_signal_ends_it_and_all_it_made() {
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP] {
        let (mut boot, _log) = booted("signal");
        assert!(exists("signal"));
        kill(Pid::from_raw(boot.id().cast_signed()), signal).unwrap();
        let status = boot.wait(TIMEOUT).unwrap().expect("it ends");
        assert_eq!(status.code(), Some(128 + signal as i32));
        assert!(!exists("signal"));
        assert_eq!(processes_with(&unique("signal")), 0);
    }
}

#[test]
fn a_namespace_in_use_is_left_alone() {
    let (mut boot, _log) = booted("busy");
    let finished = run("busy", &["boot", "--net", "tap"]);
    assert!(!finished.status.success());
    let error = format!("is in use by process {}", boot.id());
    assert!(finished.stderr.contains(&error), "{finished}");
    assert_eq!(boot.try_wait().unwrap(), None);
    boot.terminate(TIMEOUT).unwrap();
    assert!(!exists("busy"));
}

/// One that somebody else made is not replaced.
#[test]
fn a_foreign_namespace_is_left_alone() {
    let name = unique("foreign");
    let ip = |action: &str| {
        let status = std::process::Command::new("ip")
            .args(["netns", action, &name])
            .status()
            .unwrap();
        assert!(status.success());
    };
    ip("add");
    let finished = run("foreign", &["boot", "--net", "tap"]);
    let left = exists("foreign");
    ip("del");
    assert!(!finished.status.success());
    assert!(finished.stderr.contains("was not made here"), "{finished}");
    assert!(left);
}

#[test]
fn what_cannot_be_booted_is_said_why() {
    let long = "x".repeat(3000);
    for (arguments, reason) in [
        (["--append", long.as_str()], "are the most"),
        (["--nic", "nosuch"], "nosuch"),
        (["--image", "/etc/passwd"], "kernel"),
    ] {
        let finished = run(
            "refused",
            &[&["boot", "--net", "tap"][..], &arguments].concat(),
        );
        assert!(!finished.status.success());
        assert!(finished.stderr.contains(reason), "{finished}");
        assert!(!exists("refused"));
    }
}

#[test]
fn what_a_killed_one_leaves_the_next_one_removes() {
    let (mut boot, log) = booted("killed");
    boot.kill().unwrap();
    assert!(exists("killed"), "nothing could remove it");
    // QEMU dies with it, and holds the console's other end no longer.
    let begin = Instant::now();
    while processes_with(&unique("killed")) > 0 || !log.is_closed() {
        assert!(begin.elapsed() < TIMEOUT, "QEMU outlives its owner");
        std::thread::sleep(Duration::from_millis(50));
    }
    run("other", &["run", "--", "-t", "TCP_RR", "-l", "1"])
        .success()
        .unwrap();
    assert!(!exists("killed"));
}
