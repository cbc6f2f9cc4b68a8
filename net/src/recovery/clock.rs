//! What is done because time has passed.

use super::{Phase, Recovery, Wanted};

const MILLISECOND: u64 = 1_000_000;
/// A probe does not come sooner than this: a peer's CPU, in a virtual machine above
/// all, may be away for so long.
const SHORTEST_PROBE: u64 = 50 * MILLISECOND;
/// A peer may hold back the acknowledgement of a lone segment for so long
/// (RFC 8985 section 7.2).
const LATE_ACKNOWLEDGEMENT: u64 = 200 * MILLISECOND;
/// The least time that a segment may be overtaken by others.
const SHORTEST_OVERTAKING: u64 = MILLISECOND;

impl Recovery {
    /// When [`run_timers`](Self::run_timers) has something to do.
    pub fn deadline(&self, patience: u64) -> Option<u64> {
        // The handshake is smoltcp's own affair.
        if self.una == self.nxt || !self.established {
            return None;
        }
        let at = self.timeout_at().min(self.heard + patience);
        Some(
            [self.probe_at(), self.overtaken_at()]
                .into_iter()
                .flatten()
                .fold(at, u64::min),
        )
    }

    /// Draws the conclusions from what has not come by `now`. Returns whether the
    /// peer is gone: it was silent for `patience`.
    pub fn run_timers(&mut self, now: u64, patience: u64) -> bool {
        if self.deadline(patience).is_none_or(|at| at > now) {
            return false;
        }
        if now >= self.heard + patience {
            return true;
        }
        if now >= self.timeout_at() {
            self.time_out(now);
        } else if self.overtaken_at().is_some_and(|at| at <= now) {
            self.repair();
        } else {
            self.probed = true;
            self.has_repeated = false;
            self.phase = Phase::Probing { recover: self.nxt };
            self.wanted = Wanted::Repeat;
        }
        false
    }

    fn timeout_at(&self) -> u64 {
        self.since + self.rtt.timeout(self.backoff.into())
    }

    /// RFC 8985 section 7.2.
    fn probe_at(&self) -> Option<u64> {
        let quiet = self.phase == Phase::Calm && self.hole_since.is_none() && self.window > 0;
        if self.probed || !quiet || self.wanted != Wanted::Nothing {
            return None;
        }
        let round_trips = 2 * self.rtt.smoothed()?;
        let lone = if self.in_flight() <= self.mss {
            LATE_ACKNOWLEDGEMENT
        } else {
            0
        };
        Some(self.since + (round_trips + lone).max(SHORTEST_PROBE))
    }

    /// When the first segment is late by more than others may overtake it.
    fn overtaken_at(&self) -> Option<u64> {
        let waits = matches!(self.phase, Phase::Calm | Phase::Probing { .. });
        if !waits || !self.sack || self.repeated.is_some() || self.wanted != Wanted::Nothing {
            return None;
        }
        Some(self.hole_since? + self.overtaking())
    }

    /// RFC 8985 section 6.2: a quarter of a round trip.
    pub(super) fn overtaking(&self) -> u64 {
        (self.rtt.smoothed().unwrap_or(0) / 4).max(SHORTEST_OVERTAKING)
    }
}
