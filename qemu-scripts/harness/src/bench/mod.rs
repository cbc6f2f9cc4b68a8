//! The appliance beside a Linux guest, in the same QEMU with the same NIC, and below
//! the ceiling that QEMU itself allows; see docs/bench.md.

mod case;
mod crowd;
mod flows;
mod goals;
mod message;
mod ping;
mod report;
mod tables;
mod target;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

pub use case::{Case, Contestant, Only, Work};
pub use crowd::{Crowd, CrowdResult, Pattern, Until};
pub use ping::{PingResult, REFLECTOR_PORT, netperf_udp, udp};
pub use report::{Metric, Report, SCHEMA, Settings};
pub use tables::render;
pub use target::Sample;

use target::{Extent, Target};

use crate::linux_guest;
use crate::machine::{Accelerator, Image, Machine};
use crate::measure::{About, Progress, Saved, table};
use crate::network::NetKind;
use crate::nic::NicModel;

/// The appliance's memory in MiB.
const MEMORY: u32 = 64;

/// What to measure, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// The appliance's image.
    pub image: Image,
    /// The NIC of all guests.
    pub nic: NicModel,
    /// What runs them.
    pub accelerator: Accelerator,
    /// The appliance's boot arguments.
    pub append: String,
    /// Whether to compare with a Linux guest.
    pub linux: bool,
    /// How often each contestant takes its turn.
    pub rounds: u32,
    /// Seconds a test.
    pub seconds: u64,
    /// Count instructions, and no time.
    pub icount: bool,
    /// Leave out of the measurements with many connections what takes long: the
    /// Linux guest, and the scattered ones.
    pub few_flows: bool,
    /// The tests to run; none means all.
    pub only: Vec<Only>,
}

/// Boots the contestants in turn, round after round, and measures them.
pub fn run(options: &Options) -> Result<Report> {
    ensure!(
        NetKind::best() == NetKind::Tap,
        "the bench needs network namespaces and taps: run it as root"
    );
    let begin = Instant::now();
    let machines = machines(options)?;
    let contestants: Vec<_> = machines.iter().map(|(who, _)| *who).collect();
    let mut report = Report {
        about: About::look(&options.nic)?,
        settings: Settings {
            nic: options.nic.to_string(),
            accelerator: options.accelerator.name().into(),
            append: boot_arguments(options),
            rounds: options.rounds,
            seconds: options.seconds,
            icount: options.icount,
        },
        ..Report::default()
    };
    let mut progress = Progress::new(steps(options, &contestants), |step| guess(options, step));
    for round in 1..=options.rounds {
        for (contestant, guest) in &machines {
            if !takes_turn(options, *contestant, round) {
                continue;
            }
            let mut turn = Turn {
                options,
                round,
                contestant: *contestant,
                progress: &mut progress,
                report: &mut report,
            };
            turn.take(guest.as_ref())?;
        }
    }
    for (contestant, guest) in &machines {
        if let Some(guest) = guest {
            flows::measure(options, *contestant, guest, &mut progress, &mut report)?;
        }
    }
    report.about.took = begin.elapsed().as_secs_f64();
    Ok(report)
}

/// Writes `report` as JSON into `folder`, under its date and as `latest.json`.
pub fn save(report: &Report, folder: &Path) -> Result<PathBuf> {
    let text = format!("{:#}\n", report.json());
    Saved::new(folder, "", &report.about.date).write("json", &text)
}

/// The appliance's boot arguments. Under icount it does not go on polling unless
/// it is told to: for how long it would depends on the guest's clock, which then
/// goes at another pace than the frames come, and the Linux guest does not either.
fn boot_arguments(options: &Options) -> String {
    if options.icount {
        format!("rx=napi {}", options.append).trim_end().into()
    } else {
        options.append.clone()
    }
}

/// What a contestant boots.
type Guest = (Image, Machine);

/// The contestants that have something to do, with what they boot.
fn machines(options: &Options) -> Result<Vec<(Contestant, Option<Guest>)>> {
    let machine = |append: &str| Machine {
        nics: vec![options.nic.clone()],
        append: append.into(),
        memory: MEMORY,
        icount: options.icount,
        accelerator: options.accelerator,
        ..Machine::default()
    };
    let mut all = Vec::new();
    for contestant in Contestant::ALL {
        if cases(options, contestant).is_empty() {
            continue;
        }
        let guest = match contestant {
            Contestant::Uniperf => Some((options.image.clone(), machine(&boot_arguments(options)))),
            Contestant::Reflect => {
                let append = format!("{} rx=reflect", options.append);
                Some((options.image.clone(), machine(&append)))
            }
            Contestant::Linux if !options.linux => continue,
            Contestant::Linux => {
                ensure!(
                    options.nic.is_known_to_linux(),
                    "the Linux guest has no driver for {}: add --peer none, or take an e1000",
                    options.nic
                );
                let machine = Machine {
                    memory: linux_guest::MEMORY,
                    ..machine("")
                };
                Some(linux_guest::prepare(machine)?)
            }
            Contestant::Host => None,
        };
        all.push((contestant, guest));
    }
    ensure!(!all.is_empty(), "there is nothing to measure");
    Ok(all)
}

fn cases(options: &Options, contestant: Contestant) -> Vec<Case> {
    let only = &options.only;
    let mut cases = contestant.cases(options.icount);
    cases.retain(|case| only.is_empty() || only.iter().any(|only| only.selects(*case)));
    cases
}

/// What is measured in each round.
fn round_cases(options: &Options, contestant: Contestant) -> Vec<Case> {
    let mut cases = cases(options, contestant);
    cases.retain(|case| !case.is_flows());
    cases
}

/// This machine's own netserver is no contestant: it is looked at once.
fn takes_turn(options: &Options, contestant: Contestant, round: u32) -> bool {
    let has_cases = !round_cases(options, contestant).is_empty();
    has_cases && (contestant != Contestant::Host || round == 1)
}

fn steps(options: &Options, contestants: &[Contestant]) -> Vec<Step> {
    let mut steps = Vec::new();
    for round in 1..=options.rounds {
        let turns = contestants
            .iter()
            .filter(|who| takes_turn(options, **who, round));
        for &contestant in turns {
            let cases = round_cases(options, contestant).into_iter().map(Some);
            let step = |case| Step { contestant, case };
            steps.extend(std::iter::once(None).chain(cases).map(step));
        }
    }
    for &contestant in contestants {
        steps.extend(flows::steps(options, contestant));
    }
    steps
}

/// A step of the whole bench: a boot (without a case) or a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Step {
    contestant: Contestant,
    case: Option<Case>,
}

/// What a step takes, before it was done once.
fn guess(options: &Options, step: Step) -> Duration {
    let seconds = match (step.contestant, step.case) {
        (Contestant::Host, None) => 0.2,
        (Contestant::Linux, None) => 6.0,
        (_, None) => 2.0,
        (_, Some(case)) if case.is_flows() => flows::guess(options),
        (_, Some(_)) if options.icount => 2.0 * options.seconds as f64 + 2.0,
        (_, Some(_)) => options.seconds as f64 + 0.4,
    };
    Duration::from_secs_f64(seconds)
}

/// One contestant's turn in one round.
struct Turn<'a> {
    options: &'a Options,
    round: u32,
    contestant: Contestant,
    progress: &'a mut Progress<Step>,
    report: &'a mut Report,
}

impl Turn<'_> {
    fn take(&mut self, guest: Option<&Guest>) -> Result<()> {
        self.begin("boot");
        let mut target = match guest {
            Some((image, machine)) => {
                let (target, boot) = Target::boot(self.contestant, image, machine)?;
                let boots = self.report.boots.entry(self.contestant).or_default();
                boots.push(boot);
                let took = format!("ready after {:.2} s", boot.power_on_to_ready);
                self.progress.end(&took);
                target
            }
            None => {
                let target = Target::host()?;
                self.progress.end("ready");
                target
            }
        };
        note_versions(&mut self.report.about, self.contestant, &target);
        for case in round_cases(self.options, self.contestant) {
            let result = self.measure(&mut target, case);
            let sample = match result {
                Ok(sample) => sample,
                Err(error) => {
                    self.progress.again("failed");
                    eprintln!("{}", target.logs());
                    return Err(error);
                }
            };
            self.progress.end(&said(&sample, case));
            let samples = self.report.samples.entry((self.contestant, case));
            samples.or_default().push(sample);
        }
        target.end()
    }

    /// Measures once, and once more when that fails: a lost datagram ends netperf's
    /// UDP_RR under `--icount`.
    fn measure(&mut self, target: &mut Target, case: Case) -> Result<Sample> {
        let extent = match self.options.icount {
            true => Extent::Work(self.options.seconds),
            false => Extent::Time(Duration::from_secs(self.options.seconds)),
        };
        self.begin(&case.to_string());
        target.measure(case, extent).or_else(|error| {
            self.progress
                .again(&format!("failed, once more: {error:#}"));
            self.begin(&case.to_string());
            target.measure(case, extent)
        })
    }

    fn begin(&mut self, what: &str) {
        let what = format!("{} {what}", self.contestant);
        self.progress.begin(self.round, self.options.rounds, &what);
    }
}

fn note_versions(about: &mut About, contestant: Contestant, target: &Target) {
    match contestant {
        Contestant::Uniperf | Contestant::Reflect => {
            let version = target.console_line("uniperf: version ");
            about.uniperf = version.unwrap_or_else(|| "?".into());
        }
        Contestant::Linux => {
            let kernel = target.console_line("Linux ");
            about.linux = Some(format!("Linux {}", kernel.unwrap_or_else(|| "?".into())));
        }
        Contestant::Host => {}
    }
}

/// A sample in a word.
fn said(sample: &Sample, case: Case) -> String {
    let text = |value: f64, metric: Metric| {
        let unit = metric.unit(case.work());
        format!("{} {unit}", table::number(value))
    };
    let rate = sample.rate.map(|rate| text(rate, Metric::Rate));
    let counted = sample.instructions;
    let counted = counted.map(|counted| text(counted, Metric::Instructions));
    rate.or(counted).unwrap_or_default()
}
