//! TCP_RR over ever more connections that are all open: what a transaction costs
//! must not depend on how many there are.

use std::time::Duration;

use anyhow::Result;

use super::case::{Case, Contestant};
use super::report::Report;
use super::target::{Extent, Target};
use super::{Guest, Options, Step, cases, note_versions, said};
use crate::machine::Machine;
use crate::measure::Progress;

/// Memory in MiB of the guests that many connections are opened to.
pub const MEMORY: u32 = 512;
/// After this time nothing of what opening the connections has left is to be done.
const SETTLE: Duration = Duration::from_millis(1500);
/// How often each number of connections is measured.
const REPEATS: u64 = 3;

/// What is to be done for a contestant.
pub fn steps(options: &Options, contestant: Contestant) -> Vec<Step> {
    let cases = flow_cases(options, contestant);
    let boot = (!cases.is_empty()).then_some(None);
    let steps = boot.into_iter().chain(cases.into_iter().map(Some));
    steps.map(|case| Step { contestant, case }).collect()
}

/// Seconds that one number of connections takes, before it was done once.
pub fn guess(options: &Options) -> f64 {
    (repeats(options) * seconds(options)) as f64 + SETTLE.as_secs_f64() + 1.0
}

fn flow_cases(options: &Options, contestant: Contestant) -> Vec<Case> {
    let mut cases = cases(options, contestant);
    let is_left_out = |case: &Case| {
        options.few_flows && (contestant == Contestant::Linux || matches!(case, Case::Scattered(_)))
    };
    cases.retain(|case| case.is_flows() && !is_left_out(case));
    cases
}

fn repeats(options: &Options) -> u64 {
    if options.few_flows { 1 } else { REPEATS }
}

fn seconds(options: &Options) -> u64 {
    options.seconds.div_ceil(2)
}

/// Boots a contestant, opens connections and measures, again and again. Where the
/// contestant can take no more connections, the report says so.
pub fn measure(
    options: &Options,
    contestant: Contestant,
    (image, machine): &Guest,
    progress: &mut Progress<Step>,
    report: &mut Report,
) -> Result<()> {
    let cases = flow_cases(options, contestant);
    if cases.is_empty() {
        return Ok(());
    }
    let machine = Machine {
        memory: MEMORY,
        ..machine.clone()
    };
    progress.begin(1, 1, &format!("{contestant} boot with {MEMORY} MiB"));
    let (mut target, boot) = Target::boot(contestant, image, &machine)?;
    progress.end(&format!("ready after {:.2} s", boot.power_on_to_ready));
    note_versions(&mut report.about, contestant, &target);
    let mut crowd = target.crowd()?;
    for case in cases {
        let Some(count) = case.connections() else {
            continue;
        };
        progress.begin(1, 1, &format!("{contestant} {case}"));
        if let Err(error) = target.grow(&mut crowd, count) {
            let why = format!("{} fit: {error:#}", crowd.len());
            progress.end(&why);
            report.failures.insert((contestant, case), why);
            // It may be at the end of its memory, and is of no further use.
            return Ok(());
        }
        std::thread::sleep(SETTLE);
        for _ in 0..repeats(options) {
            let extent = match options.icount {
                true => Extent::Work(seconds(options)),
                false => Extent::Time(Duration::from_secs(seconds(options))),
            };
            let sample = target.measure_crowd(&mut crowd, case, extent)?;
            let samples = report.samples.entry((contestant, case)).or_default();
            samples.push(sample);
        }
        let samples = &report.samples[&(contestant, case)];
        progress.end(&said(&samples[samples.len() - 1], case));
    }
    crowd.close()?;
    target.end()
}
