//! What `napi-weight` found, as a table and as JSON.

use std::fmt::Write;

use serde_json::{Value, json};

use super::super::guests::on_off;
use super::super::{Findings, Scenario};
use super::{Direction, NapiWeight, Point, Sample, Setup};
use crate::measure::Summary;
use crate::measure::table::{Table, alone, with_spread};

/// A figure: its name in JSON, its unit, and where it is.
type Figure = (&'static str, &'static str, fn(&Sample) -> Option<f64>);

const TX: Figure = ("tx", "Mbit/s", |sample| Some(sample.tx));
const RX: Figure = ("rx", "Mbit/s", |sample| Some(sample.rx));

/// All of them, in the table's order.
const FIGURES: [Figure; 8] = [
    TX,
    RX,
    ("interrupts", "1/s", |sample| Some(sample.pace.interrupts)),
    ("polls", "1/s", |sample| sample.pace.polls),
    ("budget_exhausted", "% of polls", |sample| {
        sample.pace.exhausted
    }),
    ("nic_drops", "frames/s", |sample| {
        Some(sample.pace.nic_drops)
    }),
    ("tap_drops", "frames/s", |sample| Some(sample.tap_drops)),
    ("cpu", "%", |sample| Some(sample.pace.cpu)),
];

/// The table.
pub fn tables(scenario: &NapiWeight, findings: &Findings<NapiWeight>) -> String {
    let mut text = findings.heading(scenario);
    let skew = findings
        .samples
        .values()
        .flatten()
        .map(|sample| sample.skew);
    if let Some(skew) = Summary::of(skew) {
        let _ = writeln!(
            text,
            "streams began within {:.2} s of each other (median {:.2} s), and were measured when \
             all had begun",
            skew.max, skew.median
        );
    }
    let _ = write!(text, "\n{}", table(scenario, findings));
    let complaints = findings.complaints();
    if !complaints.is_empty() {
        let _ = write!(text, "\n{complaints}");
    }
    text
}

fn table(scenario: &NapiWeight, findings: &Findings<NapiWeight>) -> Table {
    let mut table = Table::new([
        "streams",
        "<guest",
        "weight",
        "<replenish",
        "<TSO",
        "tx Mbit/s",
        "rx Mbit/s",
        "interrupts/s",
        "polls/s",
        "exhausted",
        "drops/s: NIC",
        "tap",
        "CPU",
    ]);
    let setups = scenario.setups();
    let points = setups.first().map(|setup| scenario.points(*setup));
    for point in points.into_iter().flatten() {
        for &setup in &setups {
            if findings.samples.contains_key(&(setup, point)) {
                table.push(row(scenario, findings, setup, point));
            }
        }
    }
    table
}

fn row(
    scenario: &NapiWeight,
    findings: &Findings<NapiWeight>,
    setup: Setup,
    point: Point,
) -> Vec<String> {
    let replenish = match setup {
        Setup::Uniperf { replenish, .. } => replenish.name(),
        Setup::Linux { .. } => "",
    };
    let mut row = vec![
        point.to_string(),
        scenario.kind(setup).to_string(),
        setup.weight().to_string(),
        replenish.into(),
        on_off(setup.tso()).into(),
    ];
    for (name, unit, figure) in FIGURES {
        let summary = findings.summary(setup, point, figure);
        let percent = unit.starts_with('%');
        row.push(match &summary {
            // No stream is to flow that way.
            _ if (name, point.direction) == (TX.0, Direction::Rx) => "-".into(),
            _ if (name, point.direction) == (RX.0, Direction::Tx) => "-".into(),
            Some(_) if unit == "Mbit/s" => with_spread(summary.as_ref()),
            Some(_) if percent => format!("{} %", alone(summary.as_ref())),
            Some(summary) if name.ends_with("drops") && summary.max == 0.0 => "0".into(),
            _ => alone(summary.as_ref()),
        });
    }
    row
}

/// `settings` and `results`.
pub fn json(scenario: &NapiWeight, findings: &Findings<NapiWeight>) -> (Value, Vec<Value>) {
    let directions = scenario.directions.iter();
    let replenish = scenario.replenish.iter();
    let settings = json!({
        "streams": scenario.streams,
        "directions": directions.map(|direction| direction.name()).collect::<Vec<_>>(),
        "weights": scenario.weights,
        "replenish": replenish.map(|replenish| replenish.name()).collect::<Vec<_>>(),
        "tso": scenario.tso,
    });
    let results = findings.samples.keys().map(|&(setup, point)| {
        let mut result = json!({
            "guest": scenario.kind(setup).name(),
            "weight": setup.weight(),
            "replenish": match setup {
                Setup::Uniperf { replenish, .. } => Some(replenish.name()),
                Setup::Linux { .. } => None,
            },
            "tso": setup.tso(),
            "direction": point.direction.name(),
            "streams": point.streams,
        });
        let further: [Figure; 2] = [
            ("measured", "s", |sample| Some(sample.seconds)),
            ("skew", "s", |sample| Some(sample.skew)),
        ];
        for (name, unit, figure) in FIGURES.into_iter().chain(further) {
            if let Some(summary) = findings.summary(setup, point, figure) {
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
    use super::super::tests::{findings, scenario};
    use super::*;

    #[test]
    fn a_row_has_all_figures_of_a_setup() {
        let text = tables(&scenario(), &findings());
        let rows = |begin: &str| {
            let lines = text.lines().filter(|line| line.starts_with(begin));
            lines
                .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
                .collect::<Vec<_>>()
        };
        let rows_of_both = rows("10 tx + 10 rx");
        assert_eq!(rows_of_both.len(), 8, "{text}");
        assert_eq!(
            rows_of_both[0],
            "10 tx + 10 rx uniperf 8 in on 1,100 ±9% 500 ±0% 310 4,000 12.5 % 0 250 87.5 %"
        );
        assert_eq!(
            rows_of_both[4],
            "10 tx + 10 rx linux 64 on 1,100 ±9% 500 ±0% 310 - - 0 250 87.5 %"
        );
        // Nothing flows the other way.
        assert!(rows("1 rx  ")[0].contains(" on - 500 ±0% "), "{text}");
        assert!(text.contains("within 0.25 s of each other"), "{text}");
    }

    #[test]
    fn json_has_settings_and_figures_with_their_units() {
        let json = findings().json(&scenario());
        assert_eq!(json["settings"]["weights"], json!([8, 64]));
        assert_eq!(json["settings"]["directions"], json!(["tx", "rx", "both"]));
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 8 * 6);
        let first = &results[0];
        assert_eq!(first["guest"], "uniperf");
        assert_eq!(first["interrupts"]["median"], 310.0);
        assert_eq!(first["budget_exhausted"]["unit"], "% of polls");
        assert_eq!(first["skew"]["samples"], json!([0.25, 0.25]));
        let linux = results
            .iter()
            .find(|result| result["guest"] == "linux")
            .unwrap();
        assert_eq!(linux["replenish"], Value::Null);
        assert!(linux.get("polls").is_none());
    }
}
