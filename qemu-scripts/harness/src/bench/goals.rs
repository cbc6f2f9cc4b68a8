//! What the appliance is to reach, and whether it did.

use serde_json::{Value, json};

use super::case::{Case, Contestant};
use super::report::{Metric, Report};
use crate::measure::table::number;
use crate::netperf::Test;

/// Something to be reached.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Goal {
    /// Of which test.
    pub case: Case,
    /// Which of its figures.
    pub metric: Metric,
    /// What the appliance's figure is divided by, if by anything.
    pub against: Option<(Contestant, Case)>,
    /// The bound.
    pub bound: Bound,
}

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// Not less than this.
    AtLeast(f64),
    /// Not more than this.
    AtMost(f64),
}

/// Seconds from power-on until it listens.
pub const BOOT: Bound = Bound::AtMost(0.3);

const RR: Case = Case::Netperf(Test::TcpRr);
const UDP_RR: Case = Case::Netperf(Test::UdpRr);
const CRR: Case = Case::Netperf(Test::TcpCrr);

/// All goals for tests; a report shows those that it has the figures for.
pub const GOALS: [Goal; 17] = [
    times_linux(Test::TcpStream, 1.5),
    times_linux(Test::TcpMaerts, 4.0),
    times_linux(Test::UdpStream, 3.0),
    // The same client at both ends of the comparison.
    of_ceiling(Case::PING, Case::PING),
    // netperf's own client has more to do than ours.
    of_ceiling(RR, Case::PING_BYTE),
    instructions(RR, 4_000.0),
    instructions(UDP_RR, 3_000.0),
    instructions(CRR, 8_500.0),
    tenth_of_linux(RR),
    tenth_of_linux(UDP_RR),
    tenth_of_linux(CRR),
    same_rate(100),
    same_rate(1_000),
    same_rate(10_000),
    same_instructions(100),
    same_instructions(1_000),
    same_instructions(10_000),
];

/// The rate does not fall with more connections open.
const fn same_rate(connections: usize) -> Goal {
    Goal {
        case: Case::Flows(connections),
        metric: Metric::Rate,
        against: Some((Contestant::Uniperf, Case::Flows(1))),
        bound: Bound::AtLeast(0.9),
    }
}

/// A transaction does not cost more with more connections open.
const fn same_instructions(connections: usize) -> Goal {
    Goal {
        case: Case::Flows(connections),
        metric: Metric::Instructions,
        against: Some((Contestant::Uniperf, Case::Flows(1))),
        bound: Bound::AtMost(1.1),
    }
}

const fn times_linux(test: Test, factor: f64) -> Goal {
    Goal {
        case: Case::Netperf(test),
        metric: Metric::Rate,
        against: Some((Contestant::Linux, Case::Netperf(test))),
        bound: Bound::AtLeast(factor),
    }
}

const fn of_ceiling(case: Case, ceiling: Case) -> Goal {
    Goal {
        case,
        metric: Metric::Rate,
        against: Some((Contestant::Reflect, ceiling)),
        bound: Bound::AtLeast(0.95),
    }
}

const fn instructions(case: Case, most: f64) -> Goal {
    Goal {
        case,
        metric: Metric::Instructions,
        against: None,
        bound: Bound::AtMost(most),
    }
}

const fn tenth_of_linux(case: Case) -> Goal {
    Goal {
        case,
        metric: Metric::Instructions,
        against: Some((Contestant::Linux, case)),
        bound: Bound::AtMost(0.1),
    }
}

impl Bound {
    /// Whether `figure` keeps it.
    pub fn is_met(self, figure: f64) -> bool {
        match self {
            Self::AtLeast(least) => figure >= least,
            Self::AtMost(most) => figure <= most,
        }
    }

    /// As a table has it, with the verdict on `figure`.
    pub fn verdict(self, figure: f64) -> String {
        let verdict = if self.is_met(figure) { "met" } else { "missed" };
        match self {
            Self::AtLeast(least) => format!("≥ {}: {verdict}", number(least)),
            Self::AtMost(most) => format!("≤ {}: {verdict}", number(most)),
        }
    }

    /// As the JSON report has it.
    pub fn json(self, figure: f64) -> Value {
        let (kind, bound) = match self {
            Self::AtLeast(least) => ("at_least", least),
            Self::AtMost(most) => ("at_most", most),
        };
        json!({ kind: bound, "figure": figure, "met": self.is_met(figure) })
    }
}

impl Goal {
    /// The appliance's figure, as it is held against the bound.
    pub fn figure(&self, report: &Report) -> Option<f64> {
        let own = report.summary(Contestant::Uniperf, self.case, self.metric)?;
        match self.against {
            None => Some(own.median),
            Some((contestant, case)) => {
                let other = report.summary(contestant, case, self.metric)?;
                (other.median > 0.0).then(|| own.median / other.median)
            }
        }
    }

    /// As the JSON report has it, if the figures are there.
    pub fn json(&self, report: &Report) -> Option<Value> {
        let mut value = self.bound.json(self.figure(report)?);
        value["test"] = json!(self.case.to_string());
        value["metric"] = json!(self.metric.name());
        if let Some((contestant, case)) = self.against {
            let against = json!({ "contestant": contestant.name(), "test": case.to_string() });
            value["against"] = against;
        }
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_kept_or_not() {
        let (least, most) = (Bound::AtLeast(1.5), Bound::AtMost(4000.0));
        assert!(least.is_met(1.5) && !least.is_met(1.49));
        assert!(most.is_met(4000.0) && !most.is_met(4001.0));
        assert_eq!(least.verdict(1.6), "≥ 1.50: met");
        assert_eq!(most.verdict(40_600.0), "≤ 4,000: missed");
        assert_eq!(most.json(1.0)["at_most"], 4000.0);
        assert_eq!(most.json(1.0)["met"], true);
    }
}
