//! What is being done, and how much time is left.

use std::collections::{HashMap, VecDeque};
use std::hash::Hash;
use std::io::Write;
use std::time::{Duration, Instant};

/// Knows what is still to be done, and learns how long it takes; equal steps take
/// the same time.
pub struct Progress<S> {
    left: VecDeque<S>,
    guesses: HashMap<S, Duration>,
    begun: Instant,
}

impl<S: Copy + Eq + Hash> Progress<S> {
    /// All `steps` are to be done, in this order; each takes about what `guess`
    /// says, until it was done once.
    pub fn new(steps: Vec<S>, guess: impl Fn(S) -> Duration) -> Self {
        let guesses = steps.iter().map(|step| (*step, guess(*step))).collect();
        Self {
            left: steps.into(),
            guesses,
            begun: Instant::now(),
        }
    }

    /// Says on the terminal that the next step begins.
    pub fn begin(&mut self, round: u32, rounds: u32, what: &str) {
        self.begun = Instant::now();
        let time = clock(self.remaining());
        eprint!("uniperf: round {round} of {rounds}, {time} left: {what} ... ");
        let _ = std::io::stderr().flush();
    }

    /// Says what the step has come to, and learns from how long it took.
    pub fn end(&mut self, what: &str) {
        eprintln!("{what}");
        if let Some(step) = self.left.pop_front() {
            self.guesses.insert(step, self.begun.elapsed());
        }
    }

    /// Says that the next `count` steps are not done.
    pub fn skip(&mut self, count: usize, why: &str) {
        eprintln!("{why}");
        self.left.drain(..count.min(self.left.len()));
    }

    /// Says that the step is to be done again.
    pub fn again(&self, why: &str) {
        eprintln!("{why}");
    }

    fn remaining(&self) -> Duration {
        let guess = |step: &S| self.guesses.get(step).copied().unwrap_or_default();
        self.left.iter().map(guess).sum()
    }
}

/// Minutes and seconds.
fn clock(time: Duration) -> String {
    let seconds = time.as_secs_f64().round() as u64;
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_left_is_learnt_from_the_steps_before() {
        let mut progress = Progress::new(vec!["boot"; 3], |_| Duration::from_secs(40));
        assert_eq!(progress.remaining(), Duration::from_secs(120));
        progress.begin(1, 1, "test");
        progress.again("failed");
        assert_eq!(progress.remaining(), Duration::from_secs(120));
        progress.begin(1, 1, "test");
        progress.end("done");
        assert!(progress.remaining() < Duration::from_secs(40));
        progress.skip(1, "not at all");
        assert_eq!(progress.left.len(), 1);
        for _ in 0..3 {
            progress.end("one more than there are");
        }
        assert_eq!(progress.remaining(), Duration::ZERO);
    }

    #[test]
    fn times_are_minutes_and_seconds() {
        assert_eq!(clock(Duration::from_millis(59_600)), "1:00");
        assert_eq!(clock(Duration::from_secs(605)), "10:05");
    }
}
