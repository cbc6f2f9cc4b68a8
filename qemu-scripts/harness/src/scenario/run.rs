//! A scenario's turns: boots, measurements, and what is kept when one of them fails or
//! a signal ends it all.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, bail, ensure};

use super::{Failure, Findings, Kind, Scenario};
use crate::cleanup::{LastWords, give_way_to_signal};
use crate::machine::{Image, Machine};
use crate::measure::{About, Guest, Progress, Saved};
use crate::network::NetKind;

/// Failures in a row after which there is no sense in going on.
const PATIENCE: u32 = 3;

/// What is left when it is over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The tables.
    pub text: String,
    /// The files.
    pub files: Vec<PathBuf>,
    /// Whether everything was measured.
    pub whole: bool,
}

/// Runs `scenario`, and leaves its files in `folder`. What fails is passed over. Where
/// a signal ends it, what was found until then is printed and saved.
///
/// # Errors
///
/// It cannot begin, nothing at all could be measured, or no files can be written.
pub fn run<S: Scenario>(scenario: &S, folder: &Path) -> Result<Outcome> {
    ensure!(
        NetKind::best() == NetKind::Tap,
        "scenarios need network namespaces and taps: run them as root"
    );
    let guests = guests(scenario)?;
    let about = About::look(&scenario.common().nic)?;
    if !about.noise().is_empty() {
        eprint!("uniperf: {}", about.noise());
    }
    let findings = Findings::new(about, scenario.common().rounds);
    let findings = Arc::new(Mutex::new(findings));
    let words = last_words(scenario, &findings, folder);
    let mut turns = Turns {
        scenario,
        progress: Progress::new(steps(scenario), |step| guess(scenario, step)),
        findings: &findings,
        failures_in_a_row: 0,
        round: 0,
    };
    turns.all(&guests);
    drop(words);
    give_way_to_signal();
    let findings = lock(&findings);
    if findings.samples.is_empty() {
        let why = findings.failures.first().map(|failure| &failure.why);
        bail!("nothing was measured: {}", why.map_or("", |why| why));
    }
    report(scenario, &findings, folder)
}

type Shared<S> = Arc<Mutex<Findings<S>>>;
type Step<S> = (<S as Scenario>::Setup, Option<<S as Scenario>::Point>);
type Prepared<S> = Vec<(<S as Scenario>::Setup, Image, Machine)>;

fn lock<S: Scenario>(findings: &Shared<S>) -> MutexGuard<'_, Findings<S>> {
    findings.lock().unwrap_or_else(PoisonError::into_inner)
}

fn guests<S: Scenario>(scenario: &S) -> Result<Prepared<S>> {
    let setups = scenario.setups();
    ensure!(!setups.is_empty(), "there is nothing to measure");
    let prepare = |setup| {
        let (image, machine) = scenario.guest(setup)?;
        Ok((setup, image, machine))
    };
    setups.into_iter().map(prepare).collect()
}

fn steps<S: Scenario>(scenario: &S) -> Vec<Step<S>> {
    let mut steps = Vec::new();
    for _ in 0..scenario.common().rounds {
        for setup in scenario.setups() {
            let points = scenario.points(setup).into_iter().map(Some);
            let all = std::iter::once(None).chain(points);
            steps.extend(all.map(|point| (setup, point)));
        }
    }
    steps
}

/// What a step takes, before it was done once.
fn guess<S: Scenario>(scenario: &S, (setup, point): Step<S>) -> Duration {
    match (scenario.kind(setup), point) {
        (Kind::Uniperf, None) => Duration::from_secs(2),
        (Kind::Linux, None) => Duration::from_secs(8),
        (_, Some(_)) => scenario.length(),
    }
}

fn last_words<S: Scenario>(scenario: &S, findings: &Shared<S>, folder: &Path) -> LastWords {
    let (scenario, findings) = (scenario.clone(), Arc::clone(findings));
    let folder = folder.to_owned();
    LastWords::new(move || {
        let findings = lock(&findings);
        if findings.samples.is_empty() {
            return;
        }
        match report(&scenario, &findings, &folder) {
            Ok(outcome) => outcome.print(),
            Err(error) => eprintln!("uniperf: {error:#}"),
        }
    })
}

fn report<S: Scenario>(scenario: &S, findings: &Findings<S>, folder: &Path) -> Result<Outcome> {
    let saved = Saved::new(folder, &format!("{}-", S::NAME), &findings.about.date);
    let mut files = vec![saved.write("json", &format!("{:#}\n", findings.json(scenario)))?];
    if let Some(plot) = scenario.plot(findings)? {
        files.push(saved.write("svg", &plot)?);
    }
    Ok(Outcome {
        text: scenario.tables(findings),
        files,
        whole: findings.is_whole() && findings.failures.is_empty(),
    })
}

impl Outcome {
    /// Prints the tables, and where the files are.
    pub fn print(&self) {
        print!("\n{}", self.text);
        for file in &self.files {
            eprintln!("uniperf: {}", file.display());
        }
    }
}

/// The turns that are taken.
struct Turns<'a, S: Scenario> {
    scenario: &'a S,
    progress: Progress<Step<S>>,
    findings: &'a Shared<S>,
    failures_in_a_row: u32,
    round: u32,
}

impl<S: Scenario> Turns<'_, S> {
    /// Round after round, until the end or until all fails.
    fn all(&mut self, guests: &Prepared<S>) {
        let begin = Instant::now();
        for round in 1..=self.scenario.common().rounds {
            self.round = round;
            for (setup, image, machine) in guests {
                self.take(*setup, image, machine);
                lock(self.findings).about.took = begin.elapsed().as_secs_f64();
                if self.failures_in_a_row >= PATIENCE {
                    eprintln!("uniperf: {PATIENCE} failures in a row: that is the end");
                    return;
                }
            }
            lock(self.findings).rounds.done = round;
        }
    }

    /// Boots a setup, measures all of its points, and switches it off. What follows a
    /// failure in the same boot is left out.
    fn take(&mut self, setup: S::Setup, image: &Image, machine: &Machine) {
        let points = self.scenario.points(setup);
        self.begin(&format!("{setup}: boot"));
        let mut guest = match Guest::boot(image, machine) {
            Ok((guest, boot)) => {
                let took = format!("ready after {:.2} s", boot.power_on_to_ready);
                self.progress.end(&took);
                guest
            }
            Err(error) => return self.fail(format!("{setup}"), &error, points.len() + 1),
        };
        self.note_version(setup, &guest);
        for (index, point) in points.iter().enumerate() {
            match self.measure(&mut guest, setup, *point) {
                Ok(sample) => {
                    self.progress.end(&self.scenario.said(&sample));
                    self.failures_in_a_row = 0;
                    let mut findings = lock(self.findings);
                    let samples = findings.samples.entry((setup, *point));
                    samples.or_default().push(sample);
                }
                Err(error) => {
                    give_way_to_signal();
                    eprintln!("{}", guest.logs());
                    let what = format!("{setup}: {point}");
                    return self.fail(what, &error, points.len() - index);
                }
            }
        }
        if let Err(error) = guest.end().context("cannot be switched off") {
            self.fail(format!("{setup}"), &error, 0);
        }
    }

    /// Measures once, and once more when that fails.
    fn measure(
        &mut self,
        guest: &mut Guest,
        setup: S::Setup,
        point: S::Point,
    ) -> Result<S::Sample> {
        let what = format!("{setup}: {point}");
        self.begin(&what);
        self.scenario.measure(guest, setup, point).or_else(|error| {
            give_way_to_signal();
            let why = format!("failed, once more: {error:#}");
            self.progress.again(&why);
            self.begin(&what);
            self.scenario.measure(guest, setup, point)
        })
    }

    fn begin(&mut self, what: &str) {
        let rounds = self.scenario.common().rounds;
        self.progress.begin(self.round, rounds, what);
    }

    /// Notes a failure, because of which `steps` steps are not done.
    fn fail(&mut self, what: String, error: &Error, steps: usize) {
        give_way_to_signal();
        let why = format!("{error:#}");
        self.progress.skip(steps, &format!("failed: {why}"));
        self.failures_in_a_row += 1;
        let failure = Failure {
            round: self.round,
            what,
            why: why.lines().next().unwrap_or_default().into(),
        };
        lock(self.findings).failures.push(failure);
    }

    fn note_version(&self, setup: S::Setup, guest: &Guest) {
        let about = &mut lock(self.findings).about;
        let unknown = || "?".to_owned();
        match self.scenario.kind(setup) {
            Kind::Uniperf => {
                let version = guest.console_line("uniperf: version ");
                about.uniperf = version.unwrap_or_else(unknown);
            }
            Kind::Linux => {
                let kernel = guest.console_line("Linux ").unwrap_or_else(unknown);
                about.linux = Some(format!("Linux {kernel}"));
            }
        }
    }
}
