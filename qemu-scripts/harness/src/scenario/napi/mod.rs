//! `napi-weight`: many streams both ways at once, over the NAPI weight, the time when
//! receive descriptors go back to the NIC, and TSO.

mod plot;
mod report;

use std::fmt;
use std::time::{Duration, SystemTime};

use anyhow::Result;
use serde_json::Value;

use super::activity::{Activity, Pace};
use super::guests::{Common, Kind, on_off};
use super::streams::{Flows, Moment, Streams, TapCounts, Way};
use super::{Findings, Scenario};
use crate::machine::{Image, Machine};
use crate::measure::{Guest, table::number};

/// The appliance's memory in MiB: room for 20 streams each way.
const MEMORY: u32 = 128;
/// The weight that the appliance has by default, and Linux's e1000 always.
pub const DEFAULT_WEIGHT: u32 = 64;
/// What a measurement takes beyond its time: the streams' start and end.
const AROUND: Duration = Duration::from_millis(1500);

/// What to measure.
#[derive(Clone, Debug)]
pub struct NapiWeight {
    /// As for all scenarios.
    pub common: Common,
    /// How many streams each way.
    pub streams: Vec<u32>,
    /// Which ways.
    pub directions: Vec<Direction>,
    /// NAPI weights, in frames.
    pub weights: Vec<u32>,
    /// When descriptors go back.
    pub replenish: Vec<Replenish>,
    /// With TSO, without, or both; without it, the default weight only.
    pub tso: Vec<bool>,
}

/// Which ways the streams flow, as the guest sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Direction {
    /// The guest sends.
    Tx,
    /// The guest receives.
    Rx,
    /// As many streams each way.
    Both,
}

/// When receive descriptors go back to the NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, clap::ValueEnum)]
pub enum Replenish {
    /// Within the poll, every four frames.
    In,
    /// When the poll is over.
    After,
}

/// A guest as it is booted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Setup {
    /// The appliance.
    Uniperf {
        /// Its NAPI weight.
        weight: u32,
        /// When it gives descriptors back.
        replenish: Replenish,
        /// Whether the NIC cuts super-segments.
        tso: bool,
    },
    /// Linux, whose weight and replenishing are its driver's.
    Linux {
        /// Whether the NIC cuts super-segments.
        tso: bool,
    },
}

/// So many streams that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Point {
    /// Which way.
    pub direction: Direction,
    /// How many, each way.
    pub streams: u32,
}

/// What one measurement finds, all over the same time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sample {
    /// 10^6 bit a second that the guest sent.
    pub tx: f64,
    /// 10^6 bit a second that it received.
    pub rx: f64,
    /// What the guest did for it.
    pub pace: Pace,
    /// Frames a second that were dropped on this machine, before the NIC.
    pub tap_drops: f64,
    /// Seconds that were measured.
    pub seconds: f64,
    /// Seconds between the first and the last stream's start.
    pub skew: f64,
}

impl Direction {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tx => "tx",
            Self::Rx => "rx",
            Self::Both => "both",
        }
    }
}

impl Replenish {
    /// Its name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::After => "after",
        }
    }

    /// The boot argument `replenish=`: descriptors go back every so many frames, and
    /// always at the end of a poll.
    fn frames(self) -> u32 {
        match self {
            Self::In => 4,
            Self::After => 4096,
        }
    }
}

impl Setup {
    /// Whether the NIC cuts super-segments.
    pub fn tso(self) -> bool {
        match self {
            Self::Uniperf { tso, .. } | Self::Linux { tso } => tso,
        }
    }

    /// The NAPI weight.
    pub fn weight(self) -> u32 {
        match self {
            Self::Uniperf { weight, .. } => weight,
            Self::Linux { .. } => DEFAULT_WEIGHT,
        }
    }
}

impl fmt::Display for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Uniperf {
                weight,
                replenish,
                tso,
            } => write!(
                f,
                "uniperf, weight {weight}, replenish {} the poll, TSO {}",
                replenish.name(),
                on_off(*tso)
            ),
            Self::Linux { tso } => write!(f, "linux, TSO {}", on_off(*tso)),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let streams = self.streams;
        match self.direction {
            Direction::Tx => write!(f, "{streams} tx"),
            Direction::Rx => write!(f, "{streams} rx"),
            Direction::Both => write!(f, "{streams} tx + {streams} rx"),
        }
    }
}

impl Scenario for NapiWeight {
    type Setup = Setup;
    type Point = Point;
    type Sample = Sample;

    const NAME: &'static str = "napi-weight";

    fn common(&self) -> &Common {
        &self.common
    }

    fn setups(&self) -> Vec<Setup> {
        let mut setups = Vec::new();
        for &tso in &self.tso {
            // Where one weight was asked for, it stands for the default.
            let swept = |weight: u32| tso || weight == DEFAULT_WEIGHT || self.weights.len() == 1;
            for weight in self.weights.iter().copied().filter(|&weight| swept(weight)) {
                let uniperf = |&replenish| Setup::Uniperf {
                    weight,
                    replenish,
                    tso,
                };
                setups.extend(self.replenish.iter().map(uniperf));
            }
            setups.extend(self.common.linux.then_some(Setup::Linux { tso }));
        }
        setups
    }

    fn points(&self, _: Setup) -> Vec<Point> {
        let mut points = Vec::new();
        for &direction in &self.directions {
            let point = |&streams| Point { direction, streams };
            points.extend(self.streams.iter().map(point));
        }
        points
    }

    fn kind(&self, setup: Setup) -> Kind {
        match setup {
            Setup::Uniperf { .. } => Kind::Uniperf,
            Setup::Linux { .. } => Kind::Linux,
        }
    }

    fn guest(&self, setup: Setup) -> Result<(Image, Machine)> {
        let tso = on_off(setup.tso());
        let append = match setup {
            Setup::Linux { .. } => format!("tso={tso}"),
            Setup::Uniperf {
                weight, replenish, ..
            } => format!(
                "rx=napi weight={weight} replenish={} tso={tso}",
                replenish.frames()
            ),
        };
        self.common.guest(self.kind(setup), MEMORY, &append)
    }

    fn length(&self) -> Duration {
        Duration::from_secs(self.common.seconds) + AROUND
    }

    fn measure(&self, guest: &mut Guest, setup: Setup, point: Point) -> Result<Sample> {
        let kind = self.kind(setup);
        let wanted = Duration::from_secs(self.common.seconds);
        let (tx, rx) = match point.direction {
            Direction::Tx => (point.streams, 0),
            Direction::Rx => (0, point.streams),
            Direction::Both => (point.streams, point.streams),
        };
        let streams = Streams::start(guest, tx, rx, wanted)?;
        let before = Snapshot::take(guest, kind)?;
        std::thread::sleep(wanted);
        let after = Snapshot::take(guest, kind)?;
        Sample::of(&streams.end(guest)?, &before, &after)
    }

    fn said(&self, sample: &Sample) -> String {
        let (tx, rx) = (number(sample.tx), number(sample.rx));
        match (sample.tx > 0.0, sample.rx > 0.0) {
            (true, true) => format!("{tx} + {rx} Mbit/s"),
            (false, true) => format!("{rx} Mbit/s"),
            _ => format!("{tx} Mbit/s"),
        }
    }

    fn tables(&self, findings: &Findings<Self>) -> String {
        report::tables(self, findings)
    }

    fn json(&self, findings: &Findings<Self>) -> (Value, Vec<Value>) {
        report::json(self, findings)
    }

    fn plot(&self, findings: &Findings<Self>) -> Result<Option<String>> {
        plot::svg(self, findings).map(Some)
    }
}

/// What guest and tap have done until a moment.
struct Snapshot {
    moment: Moment,
    activity: Activity,
    tap_drops: u64,
}

impl Snapshot {
    fn take(guest: &mut Guest, kind: Kind) -> Result<Self> {
        let begin = now()?;
        let activity = Activity::of(guest, kind)?;
        Ok(Self {
            // The question and the answer take time.
            moment: (begin + now()?) / 2.0,
            activity,
            tap_drops: TapCounts::of(guest)?.dropped,
        })
    }
}

fn now() -> Result<Moment> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(now.as_secs_f64())
}

impl Sample {
    fn of(flows: &Flows, before: &Snapshot, after: &Snapshot) -> Result<Self> {
        let (begin, end) = (before.moment, after.moment);
        let dropped = after.tap_drops.saturating_sub(before.tap_drops);
        Ok(Self {
            tx: flows.rate(Way::Tx, begin, end),
            rx: flows.rate(Way::Rx, begin, end),
            pace: after.activity.since(&before.activity)?,
            tap_drops: dropped as f64 / (end - begin),
            seconds: end - begin,
            skew: flows.skew(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::About;
    use crate::scenario::guests::tests::common;

    fn sample(tx: f64, rx: f64, interrupts: f64) -> Sample {
        Sample {
            tx,
            rx,
            pace: Pace {
                cpu: 87.5,
                interrupts,
                polls: Some(4000.0),
                exhausted: Some(12.5),
                nic_drops: 0.0,
            },
            tap_drops: 250.0,
            seconds: 1.0,
            skew: 0.25,
        }
    }

    /// Two rounds of all points of [`scenario`].
    pub fn findings() -> Findings<NapiWeight> {
        let scenario = scenario();
        let mut findings = Findings::new(About::default(), 2);
        for setup in scenario.setups() {
            for point in scenario.points(setup) {
                let tx = if point.direction == Direction::Rx {
                    0.0
                } else {
                    1000.0
                };
                let rx = if point.direction == Direction::Tx {
                    0.0
                } else {
                    500.0
                };
                let mut samples = vec![sample(tx, rx, 300.0), sample(tx * 1.2, rx, 320.0)];
                if let Setup::Linux { .. } = setup {
                    for sample in &mut samples {
                        sample.pace.polls = None;
                        sample.pace.exhausted = None;
                    }
                }
                findings.samples.insert((setup, point), samples);
            }
        }
        findings.rounds.done = 2;
        findings
    }

    pub fn scenario() -> NapiWeight {
        NapiWeight {
            common: common(),
            streams: vec![1, 10],
            directions: vec![Direction::Tx, Direction::Rx, Direction::Both],
            weights: vec![8, 64],
            replenish: vec![Replenish::In, Replenish::After],
            tso: vec![true, false],
        }
    }

    #[test]
    fn without_tso_only_the_default_weight_is_measured() {
        let mut scenario = scenario();
        let setups = scenario.setups();
        assert_eq!(setups.len(), 4 + 1 + 2 + 1);
        let off = setups.iter().filter(|setup| !setup.tso());
        assert!(off.clone().all(|setup| setup.weight() == DEFAULT_WEIGHT));
        assert_eq!(off.count(), 3);
        scenario.weights = vec![16];
        assert_eq!(scenario.setups().len(), 2 + 1 + 2 + 1);
        scenario.common.linux = false;
        assert_eq!(scenario.setups().len(), 4);
    }

    #[test]
    fn setups_are_boot_arguments() {
        let mut scenario = scenario();
        scenario.common.append = "itr=8000".into();
        let setup = Setup::Uniperf {
            weight: 8,
            replenish: Replenish::After,
            tso: false,
        };
        let (_, machine) = scenario.guest(setup).unwrap();
        assert_eq!(
            machine.append,
            "rx=napi weight=8 replenish=4096 tso=off itr=8000"
        );
    }

    #[test]
    fn points_say_how_many_streams_flow_which_way() {
        let scenario = scenario();
        let points = scenario.points(Setup::Linux { tso: true });
        let points: Vec<_> = points.iter().map(Point::to_string).collect();
        let expected = [
            "1 tx",
            "10 tx",
            "1 rx",
            "10 rx",
            "1 tx + 1 rx",
            "10 tx + 10 rx",
        ];
        assert_eq!(points, expected);
    }
}
