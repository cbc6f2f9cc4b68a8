//! CPU utilisation, in netperf's terms.

use crate::machine::{CpuTime, Machine};

/// A moment, with the CPU time spent until then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Nanoseconds, as [`Machine::now`] counts.
    pub now: u64,
    /// CPU cycles, as [`Machine::cpu_time`] counts.
    pub cpu: CpuTime,
}

impl Snapshot {
    /// The machine's present moment.
    pub fn of(machine: &impl Machine) -> Self {
        Snapshot {
            now: machine.now(),
            cpu: machine.cpu_time(),
        }
    }
}

/// netperf's code for "the kernel's own idle counter", which it prints as `I`.
/// That is what [`CpuTime`] is: no sampled ticks (`S`), no soaker process
/// (`L`), but every cycle of the idle wait counted where it is spent.
pub const METHOD_IDLE_COUNTER: u32 = 1;

/// What netperf prints for a figure that nobody measured.
pub const UNKNOWN: f32 = -1.0;

/// The calibrated rate of the idle counter: what it counts in a second when
/// there is nothing to do. It counts cycles, so nothing needs calibrating.
pub fn idle_rate(cpu: CpuTime) -> f32 {
    cpu.frequency as f32
}

/// Busy cycles from `start` to `end`, in percent of the cycles that `elapsed`
/// nanoseconds have. `elapsed` is shorter than the time between the two where
/// a test's end was found late: nothing of the test ran in the rest. Where it is
/// 0, as for a connection that is closed as soon as it is made, all the cycles
/// between the two count.
pub fn utilisation(start: CpuTime, end: CpuTime, elapsed: u64) -> f32 {
    let total = end.total.saturating_sub(start.total);
    let idle = end.idle.saturating_sub(start.idle);
    let busy = total.saturating_sub(idle);
    let available = match elapsed {
        0 => total as f64,
        elapsed => elapsed as f64 / 1e9 * end.frequency as f64,
    };
    if available <= 0.0 {
        return UNKNOWN;
    }
    (busy as f64 / available * 100.0).min(100.0) as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    const GHZ: u64 = 1_000_000_000;

    fn cpu(total: u64, idle: u64) -> CpuTime {
        CpuTime {
            total,
            idle,
            frequency: GHZ,
        }
    }

    #[test]
    fn busy_cycles_of_the_elapsed_time() {
        let (start, end) = (cpu(5 * GHZ, 4 * GHZ), cpu(7 * GHZ, 5 * GHZ + GHZ / 2));
        assert_eq!(utilisation(start, end, 2 * GHZ), 25.0);
        assert_eq!(utilisation(start, end, GHZ), 50.0);
    }

    #[test]
    fn never_above_all_of_it() {
        assert_eq!(utilisation(cpu(0, 0), cpu(2 * GHZ, 0), GHZ), 100.0);
    }

    #[test]
    fn a_test_without_length_has_the_time_around_it() {
        assert_eq!(utilisation(cpu(0, 0), cpu(4, 3), 0), 25.0);
    }

    #[test]
    fn unknown_without_time_or_clock() {
        assert_eq!(utilisation(cpu(1, 0), cpu(1, 0), 0), UNKNOWN);
        let stopped = CpuTime::default();
        assert_eq!(utilisation(stopped, stopped, GHZ), UNKNOWN);
    }
}
