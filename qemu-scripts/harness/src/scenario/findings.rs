//! What a scenario has found so far.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::Scenario;
use crate::measure::{About, Summary};

/// The number of the JSON's shape, of all scenarios: it changes when a field changes
/// its meaning or goes away, not when one is added.
pub const SCHEMA: u32 = 1;

/// Something that could not be measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// In which round, from 1.
    pub round: u32,
    /// What it was.
    pub what: String,
    /// Why.
    pub why: String,
}

/// How far it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    /// How many there were to be.
    pub wanted: u32,
    /// How many came to their end.
    pub done: u32,
}

/// A point of a setup.
type Place<S> = (<S as Scenario>::Setup, <S as Scenario>::Point);

/// All that is known.
pub struct Findings<S: Scenario> {
    /// What was measured with what.
    pub about: About,
    /// How far it came.
    pub rounds: Rounds,
    /// What each point of each setup came to, round by round.
    pub samples: BTreeMap<Place<S>, Vec<S::Sample>>,
    /// What could not be measured.
    pub failures: Vec<Failure>,
}

impl<S: Scenario> Findings<S> {
    /// Nothing yet.
    pub fn new(about: About, rounds: u32) -> Self {
        Self {
            about,
            rounds: Rounds {
                wanted: rounds,
                done: 0,
            },
            samples: BTreeMap::new(),
            failures: Vec::new(),
        }
    }

    /// One figure of one point over all rounds, where it was measured.
    pub fn summary(
        &self,
        setup: S::Setup,
        point: S::Point,
        figure: impl Fn(&S::Sample) -> Option<f64>,
    ) -> Option<Summary> {
        let samples = self.samples.get(&(setup, point))?;
        Summary::of(samples.iter().filter_map(figure))
    }

    /// All that stands above a table: who, on what, how, and what is to be borne in
    /// mind.
    pub(super) fn heading(&self, scenario: &S) -> String {
        let (about, common) = (&self.about, scenario.common());
        let linux = match &about.linux {
            Some(linux) => format!(" and {linux}"),
            None => String::new(),
        };
        let append = match common.append.as_str() {
            "" => String::new(),
            append => format!(" with '{append}'"),
        };
        let rounds = match self.rounds.wanted {
            1 => "1 round".to_owned(),
            wanted => format!("medians of {wanted} rounds, ± half of the range"),
        };
        let cut = match self.is_whole() {
            true => String::new(),
            false => format!(
                "cut short: only {} of {} rounds came to their end\n",
                self.rounds.done, self.rounds.wanted
            ),
        };
        format!(
            "{}: uniperf {}{append}{linux}\nQEMU {}, {}, {}; netperf {}; {} x {}\n\
             {}, {} s each; {rounds}\n{}{cut}",
            S::NAME,
            about.uniperf,
            about.qemu,
            common.nic,
            common.accelerator.name(),
            about.netperf,
            about.cpus,
            about.cpu,
            about.date,
            common.seconds,
            about.noise(),
        )
    }

    /// The failures, a line each, below a table.
    pub(super) fn complaints(&self) -> String {
        let line = |Failure { round, what, why }: &Failure| {
            format!("not measured in round {round}: {what}: {why}\n")
        };
        self.failures.iter().map(line).collect()
    }

    /// Whether all rounds came to their end.
    pub fn is_whole(&self) -> bool {
        self.rounds.done == self.rounds.wanted
    }

    /// The whole report.
    pub fn json(&self, scenario: &S) -> Value {
        let (settings, results) = scenario.json(self);
        let common = scenario.common();
        let failures: Vec<_> = self.failures.iter().map(Failure::json).collect();
        json!({
            "schema": SCHEMA,
            "scenario": S::NAME,
            "date": self.about.date,
            "versions": self.about.versions(),
            "host": self.about.host(),
            "took_seconds": self.about.took,
            "nic": common.nic.to_string(),
            "accel": common.accelerator.name(),
            "append": common.append,
            "seconds": common.seconds,
            "rounds": self.rounds.wanted,
            "rounds_done": self.rounds.done,
            "settings": settings,
            "results": results,
            "failures": failures,
        })
    }
}

impl Failure {
    fn json(&self) -> Value {
        json!({ "round": self.round, "what": self.what, "why": self.why })
    }
}
