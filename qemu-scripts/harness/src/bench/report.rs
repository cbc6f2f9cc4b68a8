//! What a bench found: for programs as JSON, for people see `tables`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::case::{Case, Contestant, Work};
use super::goals::{BOOT, GOALS};
use super::target::Sample;
use crate::measure::{About, Boot, Summary};

/// The number of the JSON's shape: it changes when a field changes its meaning or
/// goes away, not when one is added.
pub const SCHEMA: u32 = 1;

/// How it was measured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// QEMU's name of the NIC.
    pub nic: String,
    /// QEMU's `-accel`.
    pub accelerator: String,
    /// The appliance's boot arguments beyond its address.
    pub append: String,
    /// How often each contestant was booted.
    pub rounds: u32,
    /// Seconds a test, or the factor of its work under `icount`.
    pub seconds: u64,
    /// Whether instructions were counted.
    pub icount: bool,
}

/// One of a test's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Metric {
    /// Transactions or 10^6 bits a second.
    Rate,
    /// Percent of the remote CPU.
    RemoteCpu,
    /// µs of the remote CPU a transaction or a KB.
    ServiceDemand,
    /// Guest instructions a transaction or a KB.
    Instructions,
    /// Frames that the guest received for each transaction.
    Frames,
    /// µs of the quickest answer to a ping.
    LatencyMin,
    /// µs within which half of the answers came.
    LatencyMedian,
    /// µs within which 99 of 100 came.
    LatencyP99,
}

impl Metric {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Rate,
        Self::RemoteCpu,
        Self::ServiceDemand,
        Self::Instructions,
        Self::Frames,
        Self::LatencyMin,
        Self::LatencyMedian,
        Self::LatencyP99,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::RemoteCpu => "remote_cpu",
            Self::ServiceDemand => "service_demand",
            Self::Instructions => "instructions",
            Self::Frames => "frames_received",
            Self::LatencyMin => "latency_min",
            Self::LatencyMedian => "latency_median",
            Self::LatencyP99 => "latency_p99",
        }
    }

    /// Its unit, for a test with such work.
    pub fn unit(self, work: Work) -> &'static str {
        match (self, work) {
            (Self::Rate, Work::Transactions) => "trans/s",
            (Self::Rate, Work::Bytes) => "Mbit/s",
            (Self::RemoteCpu, _) => "%",
            (Self::ServiceDemand, Work::Transactions) => "us/trans",
            (Self::ServiceDemand, Work::Bytes) => "us/KB",
            (Self::Instructions, Work::Transactions) => "instr/trans",
            (Self::Instructions, Work::Bytes) => "instr/KB",
            (Self::Frames, _) => "frames/trans",
            (Self::LatencyMin | Self::LatencyMedian | Self::LatencyP99, _) => "us",
        }
    }

    fn of(self, sample: &Sample) -> Option<f64> {
        let ping = sample.ping.as_ref();
        match self {
            Self::Rate => sample.rate,
            Self::RemoteCpu => sample.remote_cpu,
            Self::ServiceDemand => sample.service_demand,
            Self::Instructions => sample.instructions,
            Self::Frames => sample.frames,
            // By another clock than the guest's, and so not under icount.
            _ if sample.rate.is_none() => None,
            Self::LatencyMin => ping.map(|ping| ping.min),
            Self::LatencyMedian => ping.map(|ping| ping.median),
            Self::LatencyP99 => ping.map(|ping| ping.p99),
        }
    }
}

/// Everything that a bench found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was measured with what.
    pub about: About,
    /// How it was measured.
    pub settings: Settings,
    /// What each boot took.
    pub boots: BTreeMap<Contestant, Vec<Boot>>,
    /// What each test found, round by round.
    pub samples: BTreeMap<(Contestant, Case), Vec<Sample>>,
    /// Why a test could not be run, where it is the contestant that cannot.
    pub failures: BTreeMap<(Contestant, Case), String>,
}

impl Report {
    /// One figure of one test over all rounds, where it was measured.
    pub fn summary(&self, contestant: Contestant, case: Case, metric: Metric) -> Option<Summary> {
        let samples = self.samples.get(&(contestant, case))?;
        Summary::of(samples.iter().filter_map(|sample| metric.of(sample)))
    }

    /// Seconds from power-on to ready.
    pub fn boot(&self, contestant: Contestant) -> Option<Summary> {
        let boots = self.boots.get(&contestant)?;
        Summary::of(boots.iter().map(|boot| boot.power_on_to_ready))
    }

    /// The whole report.
    pub fn json(&self) -> Value {
        json!({
            "schema": SCHEMA,
            "date": self.about.date,
            "versions": self.about.versions(),
            "host": self.about.host(),
            "took_seconds": self.about.took,
            "settings": {
                "nic": self.settings.nic,
                "accel": self.settings.accelerator,
                "append": self.settings.append,
                "rounds": self.settings.rounds,
                "seconds": self.settings.seconds,
                "icount": self.settings.icount,
            },
            "boots": self.boots_json(),
            "results": self.results_json(),
            "failures": self.failures_json(),
            "goals": self.goals_json(),
        })
    }

    fn boots_json(&self) -> Vec<Value> {
        let boot = |(contestant, boots): (&Contestant, &Vec<Boot>)| {
            let ready = self.boot(*contestant)?.json();
            let own: Vec<_> = boots.iter().map(|boot| boot.guest_milliseconds).collect();
            Some(json!({
                "contestant": contestant.name(),
                "power_on_to_ready_seconds": ready,
                "by_the_guest_milliseconds": own,
            }))
        };
        self.boots.iter().filter_map(boot).collect()
    }

    fn failures_json(&self) -> Vec<Value> {
        let failure = |((contestant, case), why): (&(Contestant, Case), &String)| json!({ "contestant": contestant.name(), "test": case.to_string(), "why": why });
        self.failures.iter().map(failure).collect()
    }

    fn results_json(&self) -> Vec<Value> {
        self.samples
            .keys()
            .map(|(contestant, case)| {
                let mut result = Map::new();
                result.insert("contestant".into(), json!(contestant.name()));
                result.insert("test".into(), json!(case.to_string()));
                result.insert("arguments".into(), json!(case.arguments()));
                for metric in Metric::ALL {
                    if let Some(summary) = self.summary(*contestant, *case, metric) {
                        let mut value = summary.json();
                        value["unit"] = json!(metric.unit(case.work()));
                        result.insert(metric.name().into(), value);
                    }
                }
                Value::Object(result)
            })
            .collect()
    }

    fn goals_json(&self) -> Vec<Value> {
        let mut goals: Vec<_> = GOALS.iter().filter_map(|goal| goal.json(self)).collect();
        // Under icount the guests' clocks run at another pace.
        let boot = self.boot(Contestant::Uniperf);
        if let Some(boot) = boot.filter(|_| !self.settings.icount) {
            let mut goal = BOOT.json(boot.median);
            goal["test"] = json!("boot");
            goal["metric"] = json!("power_on_to_ready_seconds");
            goals.push(goal);
        }
        goals
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::bench::ping::PingResult;
    use crate::netperf::Test;

    pub fn rate(rate: f64) -> Sample {
        Sample {
            rate: Some(rate),
            remote_cpu: Some(25.0),
            service_demand: Some(35.0),
            ..Sample::default()
        }
    }

    pub fn ping(rate: f64) -> Sample {
        Sample {
            rate: Some(rate),
            ping: Some(PingResult {
                transactions: rate as u64,
                lost: 0,
                elapsed: 1.0,
                min: 90.0,
                median: 100.0,
                p99: 300.0,
            }),
            ..Sample::default()
        }
    }

    /// Two rounds with the appliance at 1.5 times Linux and 0.75 of the ceiling.
    pub fn report() -> Report {
        let mut report = Report::default();
        report.settings.rounds = 2;
        report.about.uniperf = "0.1.0".into();
        let case = Case::Netperf(Test::TcpRr);
        let mut add = |contestant, case, samples: [Sample; 2]| {
            report.samples.insert((contestant, case), samples.into());
        };
        add(Contestant::Uniperf, case, [rate(5900.0), rate(6100.0)]);
        add(Contestant::Linux, case, [rate(3900.0), rate(4100.0)]);
        add(
            Contestant::Reflect,
            Case::PING_BYTE,
            [ping(8000.0), ping(8000.0)],
        );
        let boot = |power_on_to_ready| Boot {
            power_on_to_ready,
            guest_milliseconds: 150,
        };
        report
            .boots
            .insert(Contestant::Uniperf, vec![boot(0.25), boot(0.27)]);
        report.boots.insert(Contestant::Linux, vec![boot(2.0); 2]);
        report
    }

    #[test]
    fn json_has_figures_with_their_units_and_goals_with_verdicts() {
        let json = report().json();
        assert_eq!(json["schema"], SCHEMA);
        let results = json["results"].as_array().unwrap();
        assert_eq!(results.len(), 3);
        let own = &results[0];
        assert_eq!(own["contestant"], "uniperf");
        assert_eq!(own["test"], "TCP_RR 1,1");
        assert_eq!(own["rate"]["median"], 6000.0);
        assert_eq!(own["rate"]["unit"], "trans/s");
        assert_eq!(own["rate"]["samples"].as_array().unwrap().len(), 2);
        assert_eq!(own["service_demand"]["unit"], "us/trans");
        assert!(own.get("instructions").is_none());
        assert_eq!(results[2]["latency_p99"]["median"], 300.0);

        let goals = json["goals"].as_array().unwrap();
        assert_eq!(goals.len(), 2, "{goals:?}");
        assert_eq!(goals[0]["against"]["contestant"], "reflect");
        assert_eq!(goals[0]["figure"], 0.75);
        assert_eq!(goals[0]["met"], false);
        assert_eq!(goals[1]["test"], "boot");
        assert_eq!(goals[1]["met"], true);
        let boots = json["boots"].as_array().unwrap();
        assert_eq!(boots[0]["power_on_to_ready_seconds"]["median"], 0.26);
    }

    #[test]
    fn under_icount_there_are_instructions_and_no_times() {
        let mut report = report();
        report.settings.icount = true;
        let counted = |instructions| Sample {
            instructions: Some(instructions),
            ..Sample::default()
        };
        let case = Case::Netperf(Test::TcpRr);
        report.samples.clear();
        for (contestant, instructions) in
            [(Contestant::Uniperf, 3900.0), (Contestant::Linux, 40_000.0)]
        {
            let samples = vec![counted(instructions)];
            report.samples.insert((contestant, case), samples);
        }
        let json = report.json();
        let instructions = &json["results"][0]["instructions"];
        assert_eq!(instructions["median"], 3900.0);
        assert_eq!(instructions["unit"], "instr/trans");
        assert_eq!(instructions["spread_percent"], Value::Null);
        let goals = json["goals"].as_array().unwrap();
        let met: Vec<_> = goals.iter().map(|goal| &goal["met"]).collect();
        assert_eq!(met, [true, true]);
    }
}
