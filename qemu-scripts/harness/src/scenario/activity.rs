//! What a guest has done since it started, by its own books.

use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::guests::Kind;
use crate::measure::Guest;

const CONSOLE_TIMEOUT: Duration = Duration::from_secs(30);
/// What Linux knows, in one answer of its shell.
const LINUX_BOOKS: &str = "grep -E 'now at|idle_sleep' /proc/timer_list; \
    grep eth0 /proc/interrupts /proc/net/dev";

/// Totals since the guest's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Activity {
    /// Seconds that the guest has run, by its own clock.
    pub seconds: f64,
    /// Seconds of these that its CPU did not wait for an interrupt.
    pub busy: f64,
    /// The NIC's interrupts.
    pub interrupts: u64,
    /// Polls of the NIC, where they are counted.
    pub polls: Option<u64>,
    /// Of these, the ones that found as many frames as the weight allows.
    pub exhausted: Option<u64>,
    /// Frames that the NIC had no room for.
    pub nic_drops: u64,
}

/// What it did in between, a second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pace {
    /// Percent of the CPU.
    pub cpu: f64,
    /// The NIC's interrupts a second.
    pub interrupts: f64,
    /// Polls a second.
    pub polls: Option<f64>,
    /// Percent of the polls that used their weight up.
    pub exhausted: Option<f64>,
    /// Frames a second that the NIC had no room for.
    pub nic_drops: f64,
}

impl Activity {
    /// Asks the guest.
    pub fn of(guest: &mut Guest, kind: Kind) -> Result<Self> {
        match kind {
            Kind::Uniperf => Self::of_appliance(guest),
            Kind::Linux => {
                let text = guest.shell(LINUX_BOOKS, CONSOLE_TIMEOUT)?;
                Self::of_linux(&text).with_context(|| format!("cannot read {text}"))
            }
        }
    }

    fn of_appliance(guest: &mut Guest) -> Result<Self> {
        let counters = guest.counters()?;
        let counter = |name: &str| {
            let value = counters.get(name);
            value.with_context(|| format!("there is no counter {name}"))
        };
        let frequency = counter("cpu.cycles_per_second")? as f64;
        let cycles = counter("cpu.cycles")?;
        let busy = cycles.saturating_sub(counter("cpu.idle_cycles")?);
        Ok(Self {
            seconds: cycles as f64 / frequency,
            busy: busy as f64 / frequency,
            interrupts: counter("interrupts")?,
            polls: Some(counter("polls")?),
            exhausted: Some(counter("polls.budget_exhausted")?),
            nic_drops: counter("nic.rx_missed")?,
        })
    }

    /// From /proc/timer_list, exact to the nanosecond as the tick stops in the idle
    /// loop, /proc/interrupts and /proc/net/dev.
    fn of_linux(text: &str) -> Option<Self> {
        let nanoseconds = |what: &str| -> Option<f64> {
            let mut lines = text.lines().filter(|line| line.ends_with(" nsecs"));
            let line = lines.find(|line| line.contains(what))?;
            let number = line.split_whitespace().find_map(|word| word.parse().ok());
            number.map(|number: f64| number / 1e9)
        };
        let line = |file: &str| {
            let mut lines = text.lines();
            lines.find_map(|line| line.trim().strip_prefix(file))
        };
        let interrupts = line("/proc/interrupts:")?.split_whitespace().nth(1)?;
        // After the name: bytes, packets, errors, drops.
        let (_, received) = line("/proc/net/dev:")?.split_once("eth0:")?;
        let seconds = nanoseconds("now at")?;
        Some(Self {
            seconds,
            busy: seconds - nanoseconds("idle_sleeptime")?,
            interrupts: interrupts.parse().ok()?,
            polls: None,
            exhausted: None,
            nic_drops: received.split_whitespace().nth(3)?.parse().ok()?,
        })
    }

    /// What happened from `earlier` until this.
    pub fn since(&self, earlier: &Self) -> Result<Pace> {
        let seconds = self.seconds - earlier.seconds;
        ensure!(seconds > 0.0, "the guest's clock stands still");
        let count = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let between = |now: Option<u64>, before: Option<u64>| Some(count(now?, before?));
        let polls = between(self.polls, earlier.polls);
        let exhausted = between(self.exhausted, earlier.exhausted);
        Ok(Pace {
            cpu: (100.0 * (self.busy - earlier.busy) / seconds).clamp(0.0, 100.0),
            interrupts: count(self.interrupts, earlier.interrupts) / seconds,
            polls: polls.map(|polls| polls / seconds),
            exhausted: match (exhausted, polls) {
                (Some(exhausted), Some(polls)) if polls > 0.0 => Some(100.0 * exhausted / polls),
                _ => None,
            },
            nic_drops: count(self.nic_drops, earlier.nic_drops) / seconds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_keeps_books_of_its_own() {
        let text = "/ # grep -E 'now at|idle_sleep' /proc/timer_list; grep eth0 \
            /proc/interrupts /proc/net/dev; echo end $((40+2))\n\
            now at 20000000000 nsecs\n  .idle_sleeptime : 15000000000 nsecs\n\
            /proc/interrupts: 10:      12246   IO-APIC  10-fasteoi   eth0\n\
            /proc/net/dev:  eth0: 5151326   77970    0    7    0     0          0         0 \
            429370382  288586    0    0    0     0       0          0\n";
        let activity = Activity::of_linux(text).unwrap();
        let expected = Activity {
            seconds: 20.0,
            busy: 5.0,
            interrupts: 12_246,
            polls: None,
            exhausted: None,
            nic_drops: 7,
        };
        assert_eq!(activity, expected);
        assert_eq!(Activity::of_linux("now at 5 nsecs\n"), None);
    }

    #[test]
    fn a_pace_is_by_the_guests_own_clock() {
        let before = Activity {
            seconds: 10.0,
            busy: 4.0,
            interrupts: 100,
            polls: Some(50),
            exhausted: Some(10),
            nic_drops: 0,
        };
        let after = Activity {
            seconds: 12.0,
            busy: 5.0,
            interrupts: 300,
            polls: Some(250),
            exhausted: Some(60),
            nic_drops: 6,
        };
        let pace = after.since(&before).unwrap();
        assert_eq!(
            (pace.cpu, pace.interrupts, pace.nic_drops),
            (50.0, 100.0, 3.0)
        );
        assert_eq!((pace.polls, pace.exhausted), (Some(100.0), Some(25.0)));
        assert!(before.since(&before).is_err());
        let silent = Activity {
            seconds: 13.0,
            ..after
        };
        assert_eq!(silent.since(&after).unwrap().exhausted, None);
    }
}
