//! Scenarios as short as can be: their figures make sense, and their files say them.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use uniperf_harness::measure::Guest;
use uniperf_harness::process::{self, Log, Running};
use uniperf_harness::scenario::napi::{Direction, NapiWeight, Replenish};
use uniperf_harness::scenario::sendpage::SendpageCpu;
use uniperf_harness::scenario::{self, Common, Findings, Kind, Outcome, Scenario};
use uniperf_harness::{Accelerator, Image, Machine, NicModel};

const TIMEOUT: Duration = Duration::from_secs(60);

fn common(linux: bool) -> Common {
    Common {
        image: Image::built().unwrap(),
        nic: NicModel::E1000,
        accelerator: Accelerator::Tcg,
        append: String::new(),
        linux,
        rounds: 1,
        seconds: 1,
    }
}

/// Runs `scenario` with its files in `folder`; returns what it leaves, and its JSON.
fn run<S: Scenario>(scenario: &S, folder: &Path) -> (Outcome, Value) {
    let outcome = scenario::run(scenario, folder).unwrap();
    outcome.print();
    assert!(outcome.whole);
    let latest = folder.join(format!("{}-latest.json", S::NAME));
    let json = serde_json::from_str(&std::fs::read_to_string(latest).unwrap()).unwrap();
    (outcome, json)
}

/// Every figure of `results` that is a summary is above 0.
fn assert_figures(results: &[Value], names: &[&str]) {
    for result in results {
        for name in names {
            let median = result[name]["median"].as_f64();
            assert!(
                median.is_some_and(|median| median > 0.0),
                "{name}: {result}"
            );
        }
    }
}

#[test]
fn sendpage_cpu_has_netperfs_figures_of_all_roles() {
    let scenario = SendpageCpu {
        common: common(true),
        tso: vec![false],
    };
    let folder = tempfile::tempdir().unwrap();
    let (outcome, json) = run(&scenario, folder.path());
    assert_eq!(json["schema"], scenario::SCHEMA);
    assert_eq!(json["rounds_done"], 1);
    let results = json["results"].as_array().unwrap();
    let of = |guest: &str| {
        let of = results.iter().filter(|result| result["guest"] == guest);
        of.map(|result| (result["test"].as_str(), result["guest_is"].as_str()))
            .collect::<Vec<_>>()
    };
    let receives = [
        (Some("TCP_STREAM"), Some("receiver")),
        (Some("TCP_SENDFILE"), Some("receiver")),
    ];
    for guest in ["uniperf", "linux"] {
        assert!(receives.iter().all(|test| of(guest).contains(test)));
        assert!(of(guest).contains(&(Some("TCP_MAERTS"), Some("sender"))));
    }
    assert_eq!(of("uniperf").len(), 3);
    assert!(of("linux").contains(&(Some("TCP_SENDFILE"), Some("sending client"))));
    assert_eq!(of("linux").len(), 5);
    let figures = [
        "throughput",
        "local_cpu",
        "remote_cpu",
        "local_service_demand",
        "remote_service_demand",
    ];
    assert_figures(results, &figures);
    assert!(
        outcome
            .text
            .contains("\nWhat a KB costs the guest, us/KB\n")
    );
    let rows = outcome.text.lines().filter(|line| line.starts_with("TCP_"));
    assert_eq!(rows.count(), 8);
}

#[test]
fn napi_weight_has_figures_of_both_ways_and_a_plot() {
    let scenario = NapiWeight {
        common: common(true),
        streams: vec![2],
        directions: vec![Direction::Tx, Direction::Rx, Direction::Both],
        weights: vec![8],
        replenish: vec![Replenish::After],
        tso: vec![true],
    };
    let folder = tempfile::tempdir().unwrap();
    let (outcome, json) = run(&scenario, folder.path());
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2 * 3);
    for result in results {
        let flows: &[&str] = match result["direction"].as_str() {
            Some("tx") => &["tx"],
            Some("rx") => &["rx"],
            _ => &["tx", "rx"],
        };
        let result = std::slice::from_ref(result);
        assert_figures(result, flows);
        assert_figures(result, &["cpu", "measured"]);
        if result[0]["guest"] == "uniperf" {
            assert_figures(result, &["polls"]);
        }
        assert!(result[0]["interrupts"]["median"].is_f64());
        assert!(result[0]["tap_drops"]["median"].is_f64());
    }
    let rows = outcome.text.lines().filter(|line| line.starts_with("2 "));
    assert_eq!(rows.count(), 6);

    let svg = folder.path().join("napi-weight-latest.svg");
    let svg = std::fs::read_to_string(svg).unwrap();
    let document = roxmltree::Document::parse(&svg).unwrap();
    assert!(document.root_element().has_tag_name("svg"));
    let texts: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name("text"))
        .filter_map(|node| Some(node.text()?.trim()))
        .collect();
    assert!(texts.contains(&"interrupts/s") && texts.contains(&"2 streams"));
}

/// `uniperf-qemu scenario sendpage-cpu` on the appliance alone, its files in `folder`.
fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_uniperf-qemu"));
    command
        .args(["scenario", "sendpage-cpu", "--peer", "none"])
        .args(["--seconds", "1", "--output"])
        .arg(folder)
        .args(arguments);
    command
}

#[test]
fn a_signal_leaves_what_was_found_until_then() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = command(folder.path(), &["--rounds", "9"]);
    command.stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut running = Running::start(&mut command).unwrap();
    let stdout = Log::follow(running.take_stdout().unwrap());
    let stderr = Log::follow(running.take_stderr().unwrap());
    let measured = |line: &str| line.contains("Mbit/s");
    stderr.wait_for(0, TIMEOUT, "figure", measured).unwrap();
    kill(Pid::from_raw(running.id().cast_signed()), Signal::SIGINT).unwrap();
    let status = running.wait(TIMEOUT).unwrap().expect("it ends");
    assert_eq!(status.code(), Some(128 + Signal::SIGINT as i32));

    let row = |line: &str| line.starts_with("TCP_SENDFILE  on   uniperf");
    stdout.wait_for(0, TIMEOUT, "row", row).unwrap();
    assert!(stdout.text().contains("only 0 of 9 rounds"));
    let latest = folder.path().join("sendpage-cpu-latest.json");
    let json = std::fs::read_to_string(latest).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["rounds_done"], 0);
    assert_figures(json["results"].as_array().unwrap(), &["throughput"]);
}

#[test]
fn where_nothing_can_be_measured_it_ends_soon_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let arguments = ["--rounds", "9", "--image", "/etc/passwd"];
    let mut command = command(folder.path(), &arguments);
    let finished = process::run(&mut command, TIMEOUT).unwrap();
    assert!(!finished.status.success());
    assert!(
        finished.stderr.contains("3 failures in a row"),
        "{finished}"
    );
    assert!(
        finished.stderr.contains("nothing was measured"),
        "{finished}"
    );
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

/// Counts how often it asks the appliance for its counters; one setup fails half-way.
#[derive(Clone)]
struct HalfBroken(Common);

impl Scenario for HalfBroken {
    type Setup = &'static str;
    type Point = u32;
    type Sample = usize;

    const NAME: &'static str = "half-broken";

    fn common(&self) -> &Common {
        &self.0
    }

    fn setups(&self) -> Vec<&'static str> {
        vec!["sound", "broken"]
    }

    fn points(&self, _: &'static str) -> Vec<u32> {
        vec![1, 2, 3]
    }

    fn kind(&self, _: &'static str) -> Kind {
        Kind::Uniperf
    }

    fn guest(&self, _: &'static str) -> Result<(Image, Machine)> {
        self.0.guest(Kind::Uniperf, 64, "")
    }

    fn length(&self) -> Duration {
        Duration::from_secs(1)
    }

    fn measure(&self, guest: &mut Guest, setup: &'static str, point: u32) -> Result<usize> {
        if setup == "broken" && point == 2 {
            bail!("broken on purpose\nwith more to say");
        }
        Ok(guest.counters()?.0.len())
    }

    fn said(&self, sample: &usize) -> String {
        format!("{sample} counters")
    }

    fn tables(&self, findings: &Findings<Self>) -> String {
        format!("{} places\n", findings.samples.len())
    }

    fn json(&self, findings: &Findings<Self>) -> (Value, Vec<Value>) {
        let places = findings.samples.iter();
        let result = |((setup, point), samples): (&(&str, u32), &Vec<usize>)| {
            json!([setup, point, samples.len()])
        };
        (json!({}), places.map(result).collect())
    }

    fn plot(&self, _: &Findings<Self>) -> Result<Option<String>> {
        Ok(None)
    }
}

#[test]
fn what_fails_is_passed_over_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let scenario = HalfBroken(Common {
        rounds: 2,
        ..common(false)
    });
    let outcome = scenario::run(&scenario, folder.path()).unwrap();
    assert!(!outcome.whole);
    assert_eq!(outcome.text, "4 places\n");
    let json = std::fs::read_to_string(&outcome.files[0]).unwrap();
    let json: Value = serde_json::from_str(&json).unwrap();
    let results = json!([
        ["broken", 1, 2],
        ["sound", 1, 2],
        ["sound", 2, 2],
        ["sound", 3, 2]
    ]);
    assert_eq!(json["results"], results);
    assert_eq!(json["rounds_done"], 2);
    let failure =
        |round| json!({ "round": round, "what": "broken: 2", "why": "broken on purpose" });
    assert_eq!(json["failures"], json!([failure(1), failure(2)]));
}
