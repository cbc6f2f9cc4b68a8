//! What `sendpage-cpu` found, in netperf's own columns.

use std::fmt::Write;

use serde_json::{Value, json};

use super::super::guests::{Kind, on_off};
use super::super::{Findings, Scenario};
use super::{Point, Role, SendpageCpu, Setup};
use crate::measure::Summary;
use crate::measure::table::{Table, number, with_spread};
use crate::netperf::{NetperfResult, Test};

/// A figure: its name in JSON, its unit, and where it is.
type Figure = (&'static str, &'static str, fn(&NetperfResult) -> f64);

/// netperf's own, in its order.
const FIGURES: [Figure; 5] = [
    ("throughput", "Mbit/s", |result| result.throughput),
    ("local_cpu", "%", |result| result.local_cpu),
    ("remote_cpu", "%", |result| result.remote_cpu),
    ("local_service_demand", "us/KB", |result| {
        result.local_service_demand
    }),
    ("remote_service_demand", "us/KB", |result| {
        result.remote_service_demand
    }),
];

/// All tables.
pub fn tables(scenario: &SendpageCpu, findings: &Findings<SendpageCpu>) -> String {
    let mut text = findings.heading(scenario);
    for role in Role::ALL {
        let table = netperfs(scenario, findings, role);
        if !table.is_empty() {
            let _ = write!(text, "\n{}\n\n{table}", title(role));
        }
    }
    let demand = guests_demand(scenario, findings);
    if !demand.is_empty() {
        let _ = write!(text, "\nWhat a KB costs the guest, us/KB\n\n{demand}");
    }
    let complaints = findings.complaints();
    if !complaints.is_empty() {
        let _ = write!(text, "\n{complaints}");
    }
    text
}

fn title(role: Role) -> &'static str {
    match role {
        Role::Receiver => "The guest receives: local is this machine, remote the guest",
        Role::Sender => "The guest sends: local is this machine, remote the guest",
        Role::Client => {
            "The guest sends by its own netperf: local is the guest, remote this machine"
        }
    }
}

/// netperf's columns for all tests in `role`.
fn netperfs(scenario: &SendpageCpu, findings: &Findings<SendpageCpu>, role: Role) -> Table {
    let mut table = Table::new([
        "test",
        "<TSO",
        "<guest",
        "throughput",
        "CPU: local",
        "remote",
        "demand: local",
        "remote",
    ]);
    let mut units = vec![String::new(); 3];
    units.extend(FIGURES.iter().map(|(_, unit, _)| (*unit).to_owned()));
    for &test in role.tests() {
        for setup in scenario.setups() {
            let point = Point { role, test };
            let figures = FIGURES.map(|(_, _, figure)| {
                findings.summary(setup, point, |result| Some(figure(result)))
            });
            if figures[0].is_none() {
                continue;
            }
            if table.is_empty() {
                table.push(units.clone());
            }
            let mut row = vec![
                test.to_string(),
                on_off(setup.tso).into(),
                setup.kind.to_string(),
            ];
            row.extend(figures.iter().map(|figure| with_spread(figure.as_ref())));
            table.push(row);
        }
    }
    table
}

/// The guest's own service demand, the appliance's beside Linux's.
fn guests_demand(scenario: &SendpageCpu, findings: &Findings<SendpageCpu>) -> Table {
    let mut table = Table::new(["the guest", "<TSO", "uniperf", "linux", "ratio"]);
    // What each of the two does in a row. Linux sends a file's pages by a netperf of
    // its own only.
    let receives = |test| (Role::Receiver, test);
    let maerts = (Role::Sender, Test::TcpMaerts);
    let rows = [
        (
            "receives TCP_SENDFILE",
            receives(Test::TcpSendfile),
            receives(Test::TcpSendfile),
        ),
        (
            "receives TCP_STREAM",
            receives(Test::TcpStream),
            receives(Test::TcpStream),
        ),
        ("sends TCP_MAERTS", maerts, maerts),
        (
            "sends, linux by TCP_SENDFILE",
            maerts,
            (Role::Client, Test::TcpSendfile),
        ),
    ];
    for (name, own, other) in rows {
        for &tso in &scenario.tso {
            let demand = |kind, (role, test)| {
                let point = Point { role, test };
                own_demand(findings, Setup { kind, tso }, point)
            };
            let own = demand(Kind::Uniperf, own);
            let other = demand(Kind::Linux, other);
            let ratio = match (&own, &other) {
                (Some(own), Some(other)) if other.median > 0.0 => number(own.median / other.median),
                _ => continue,
            };
            table.push(vec![
                name.into(),
                on_off(tso).into(),
                with_spread(own.as_ref()),
                with_spread(other.as_ref()),
                ratio,
            ]);
        }
    }
    table
}

/// The service demand of the guest, whichever end netperf calls it.
fn own_demand(findings: &Findings<SendpageCpu>, setup: Setup, point: Point) -> Option<Summary> {
    findings.summary(setup, point, |result| {
        Some(match point.role {
            Role::Client => result.local_service_demand,
            Role::Receiver | Role::Sender => result.remote_service_demand,
        })
    })
}

/// `settings` and `results`.
pub fn json(scenario: &SendpageCpu, findings: &Findings<SendpageCpu>) -> (Value, Vec<Value>) {
    let settings = json!({ "tso": scenario.tso });
    let results = findings.samples.keys().map(|&(setup, point)| {
        let mut result = json!({
            "guest": setup.kind.name(),
            "tso": setup.tso,
            "test": point.test.name(),
            "guest_is": point.role.name(),
            "local_is": match point.role {
                Role::Client => "guest",
                Role::Receiver | Role::Sender => "host",
            },
        });
        for (name, unit, figure) in FIGURES {
            let summary = findings.summary(setup, point, |result| Some(figure(result)));
            if let Some(summary) = summary {
                result[name] = summary.json();
                result[name]["unit"] = json!(unit);
            }
        }
        result
    });
    (settings, results.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::About;
    use crate::scenario::Failure;
    use crate::scenario::guests::tests::common;

    fn result(test: Test, throughput: f64, demand: f64) -> NetperfResult {
        let row = format!("131072 16384 16384 5.00 {throughput} 30.0 90.0 1.5 {demand}\n");
        NetperfResult::from_table(test, &row).unwrap()
    }

    fn findings() -> (SendpageCpu, Findings<SendpageCpu>) {
        let scenario = SendpageCpu {
            common: common(),
            tso: vec![true, false],
        };
        let mut findings = Findings::new(About::default(), 2);
        let mut add = |kind, tso, role, test, demand: f64| {
            let results = [result(test, 900.0, demand), result(test, 1100.0, demand)];
            let key = (Setup { kind, tso }, Point { role, test });
            findings.samples.insert(key, results.into());
        };
        let maerts = Test::TcpMaerts;
        add(Kind::Uniperf, true, Role::Sender, maerts, 2.0);
        add(Kind::Linux, true, Role::Sender, maerts, 8.0);
        add(Kind::Uniperf, false, Role::Sender, maerts, 4.0);
        let file = Test::TcpSendfile;
        add(Kind::Linux, true, Role::Client, file, 6.0);
        findings.rounds.done = 2;
        (scenario, findings)
    }

    #[test]
    fn tables_have_netperfs_columns_and_the_ratio_of_the_guests() {
        let (scenario, findings) = findings();
        let text = tables(&scenario, &findings);
        let words = |begin: &str| -> Vec<&str> {
            let line = text.lines().find(|line| line.starts_with(begin));
            line.unwrap_or_else(|| panic!("{begin}: {text}"))
                .split_whitespace()
                .collect()
        };
        let own = words("TCP_MAERTS  on   uniperf");
        assert_eq!(
            &own[3..],
            [
                "1,000", "±10%", "30.0", "±0%", "90.0", "±0%", "1.50", "±0%", "2.00", "±0%"
            ]
        );
        assert!(words("sends TCP_MAERTS").ends_with(&["8.00", "±0%", "0.25"]));
        // The client's own demand is netperf's local one.
        assert!(words("sends, linux by").ends_with(&["1.50", "±0%", "1.33"]));
        assert!(
            !text.contains("The guest receives"),
            "nothing of it was measured"
        );
        assert!(!text.contains("rounds came to their end"));
    }

    #[test]
    fn what_is_missing_is_said() {
        let (scenario, mut findings) = findings();
        findings.rounds.done = 1;
        findings.failures.push(Failure {
            round: 2,
            what: "linux, TSO off".into(),
            why: "no console line".into(),
        });
        let text = tables(&scenario, &findings);
        assert!(text.contains("only 1 of 2 rounds"), "{text}");
        assert!(text.ends_with("not measured in round 2: linux, TSO off: no console line\n"));
        let json = findings.json(&scenario);
        assert_eq!(json["rounds_done"], 1);
        assert_eq!(json["failures"][0]["why"], "no console line");
    }

    #[test]
    fn json_says_who_is_local() {
        let (scenario, findings) = findings();
        let json = findings.json(&scenario);
        assert_eq!(json["scenario"], "sendpage-cpu");
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 4);
        let client = results.iter().find(|result| result["local_is"] == "guest");
        let client = client.unwrap();
        assert_eq!(client["guest"], "linux");
        assert_eq!(client["throughput"]["median"], 1000.0);
        assert_eq!(client["local_service_demand"]["unit"], "us/KB");
    }
}
