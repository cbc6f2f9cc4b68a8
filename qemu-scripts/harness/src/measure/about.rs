//! What is to be known of this machine and its programs.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use serde_json::{Value, json};

use crate::nic::NicModel;
use crate::process;
use crate::qemu;

const TIMEOUT: Duration = Duration::from_secs(10);
/// How long to look at how busy this machine is.
const LOOK: Duration = Duration::from_millis(500);
/// Percent of this machine that may be at other work unmentioned.
const QUIET: f64 = 5.0;
const DAY: u64 = 86_400;

/// What was measured with what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct About {
    /// When it began, in UTC, as RFC 3339 has it.
    pub date: String,
    /// The version that the image says.
    pub uniperf: String,
    /// The kernel that the Linux guest says.
    pub linux: Option<String>,
    /// QEMU's version.
    pub qemu: String,
    /// netperf's version.
    pub netperf: String,
    /// This machine's CPU.
    pub cpu: String,
    /// How many of them.
    pub cpus: usize,
    /// Percent of this machine that was at other work when it began.
    pub busy: f64,
    /// Seconds that all of it took.
    pub took: f64,
}

impl About {
    /// Looks around, where guests are to have that NIC; what they say is not known yet.
    pub fn look(nic: &NicModel) -> Result<Self> {
        let qemu = said(qemu::program(nic.is_modelled())?, "--version")?;
        Ok(Self {
            date: now()?,
            qemu: version(&qemu),
            netperf: netperf_version()?,
            cpu: cpu_model(&std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default()),
            cpus: std::thread::available_parallelism()?.get(),
            busy: busy(),
            ..Self::default()
        })
    }

    /// A line of warning where this machine was not quiet; else nothing.
    pub fn noise(&self) -> String {
        match self.busy {
            busy if busy > QUIET => format!(
                "this machine was {busy:.0} % busy with other work: these figures are noisy\n"
            ),
            _ => String::new(),
        }
    }

    /// The versions, as JSON reports have them.
    pub fn versions(&self) -> Value {
        json!({
            "uniperf": self.uniperf,
            "linux": self.linux,
            "qemu": self.qemu,
            "netperf": self.netperf,
        })
    }

    /// This machine, as JSON reports have it.
    pub fn host(&self) -> Value {
        json!({
            "cpu": self.cpu,
            "cpus": self.cpus,
            "busy_percent_at_start": self.busy,
        })
    }
}

/// Percent of all CPUs that is at work while this process only waits.
fn busy() -> f64 {
    let times = || cpu_times(&std::fs::read_to_string("/proc/stat").unwrap_or_default());
    let before = times();
    std::thread::sleep(LOOK);
    let (before, after) = match (before, times()) {
        (Some(before), Some(after)) if after.1 > before.1 => (before, after),
        _ => return 0.0,
    };
    100.0 * (after.0 - before.0) as f64 / (after.1 - before.1) as f64
}

/// Ticks at work, and all ticks, of /proc/stat.
fn cpu_times(stat: &str) -> Option<(u64, u64)> {
    let line = stat.lines().find(|line| line.starts_with("cpu "))?;
    // user nice system idle iowait irq softirq steal; guests are in user already.
    let times = line.split_whitespace().skip(1).take(8);
    let times: Vec<u64> = times.map_while(|word| word.parse().ok()).collect();
    let total = times.iter().sum();
    let idle: u64 = times.get(3..5)?.iter().sum();
    Some((total - idle, total))
}

/// netperf's version.
pub(crate) fn netperf_version() -> Result<String> {
    Ok(version(&said("netperf", "-V")?))
}

/// The time in UTC, as RFC 3339 has it.
pub(crate) fn now() -> Result<String> {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
    Ok(date(now.as_secs()))
}

fn said(program: impl AsRef<Path>, argument: &str) -> Result<String> {
    let program = program.as_ref();
    let output = process::run(Command::new(program).arg(argument), TIMEOUT)?;
    let text = output.stdout.trim().to_owned() + output.stderr.trim();
    let line = text.lines().next();
    Ok(line
        .with_context(|| format!("{} is silent", program.display()))?
        .into())
}

/// The word after "version".
fn version(text: &str) -> String {
    let after = text.split_once("ersion ").map_or(text, |(_, after)| after);
    first_word(after).into()
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

fn cpu_model(cpuinfo: &str) -> String {
    let line = cpuinfo.lines().find(|line| line.starts_with("model name"));
    let model = line.and_then(|line| line.split_once(": "));
    model.map_or("CPU", |(_, model)| model).trim().into()
}

/// Seconds since 1970 as RFC 3339 has them in UTC.
fn date(seconds: u64) -> String {
    let (mut days, time) = (seconds / DAY, seconds % DAY);
    let leap =
        |year: u64| year.is_multiple_of(4) && !year.is_multiple_of(100) || year.is_multiple_of(400);
    let mut year = 1970;
    while days >= 365 + u64::from(leap(year)) {
        days -= 365 + u64::from(leap(year));
        year += 1;
    }
    let february = 28 + u64::from(leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hours, minutes, seconds) = (time / 3600, time / 60 % 60, time % 60);
    let day = days + 1;
    format!("{year}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}Z")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date(0), "1970-01-01T00:00:00Z");
        assert_eq!(date(951_782_399), "2000-02-28T23:59:59Z");
        assert_eq!(date(951_782_400), "2000-02-29T00:00:00Z");
        assert_eq!(date(1_704_067_199), "2023-12-31T23:59:59Z");
        assert_eq!(date(1_735_603_200), "2024-12-31T00:00:00Z");
    }

    #[test]
    fn work_is_what_is_neither_idle_nor_waiting_for_disks() {
        let stat = "cpu  10 1 20 60 5 2 1 1 9 9\ncpu0 1 1 1 1\n";
        assert_eq!(cpu_times(stat), Some((35, 100)));
        assert_eq!(cpu_times("cpu  1 2"), None);
        assert!((0.0..=100.0).contains(&busy()));
    }

    #[test]
    fn other_work_is_mentioned_when_there_is_much() {
        let about = |busy| About {
            busy,
            ..About::default()
        };
        assert_eq!(about(4.9).noise(), "");
        assert!(about(57.3).noise().contains(" 57 % busy "));
    }

    #[test]
    fn versions_are_found() {
        let qemu = "QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7)";
        assert_eq!(version(qemu), "7.2.22");
        assert_eq!(version("Netperf version 2.7.0"), "2.7.0");
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\n";
        assert_eq!(cpu_model(cpuinfo), "Some CPU @ 2 GHz");
        assert_eq!(cpu_model(""), "CPU");
    }
}
