//! What smoltcp is told, and how.

use super::{ENOUGH_LATER, Hint, Phase, Recovery, Wanted};

impl Recovery {
    /// What smoltcp is to be made to do now.
    pub fn take_wanted(&mut self) -> Wanted {
        core::mem::take(&mut self.wanted)
    }

    /// What makes smoltcp send its first segment again: this, shown four times. The
    /// first makes sure that smoltcp has counted no duplicates before.
    pub fn repeat(&mut self) -> Hint {
        self.repeating = true;
        let unit = 1 << self.shift;
        let window = self.round(self.limit());
        let window = if window != self.told {
            window
        } else if window > unit {
            window - unit
        } else {
            window + unit
        };
        self.told = window;
        self.hint(window)
    }

    /// What tells smoltcp how much it may send, if it would send more or less than
    /// it may; `queue` is how many bytes it has, sent or not.
    pub fn take_limit(&mut self, queue: usize) -> Option<Hint> {
        if !self.established || self.window == 0 {
            return None;
        }
        let queue = queue as u32;
        let is_calm = self.phase == Phase::Calm && self.held.is_empty() && self.duplicates == 0;
        if is_calm && queue <= self.congestion.window() && queue <= self.told.min(self.window) {
            return None;
        }
        let window = self.round(self.limit());
        if window.min(queue) == self.told.min(queue) {
            return None;
        }
        self.told = window;
        Some(self.hint(window))
    }

    /// How far from the first byte not acknowledged smoltcp may send.
    fn limit(&self) -> u32 {
        let room = self.congestion.window().saturating_sub(self.under_way());
        let sent = self.cursor.wrapping_sub(self.una);
        sent.saturating_add(room).min(self.window)
    }

    /// As a window can say it; never none, which would mean something else.
    fn round(&self, window: u32) -> u32 {
        (window >> self.shift).max(1) << self.shift
    }

    pub(super) fn hint(&self, window: u32) -> Hint {
        Hint {
            seq: self.rcv_nxt,
            ack: self.una,
            window: (window >> self.shift) as u16,
        }
    }

    /// RFC 6675 section 4's pipe: what is still on its way.
    fn under_way(&self) -> u32 {
        if matches!(self.phase, Phase::Rewinding { .. }) {
            return self.cursor.wrapping_sub(self.una);
        }
        let left = self.in_flight().saturating_sub(self.bytes_held());
        let Phase::Repairing { .. } = self.phase else {
            return left;
        };
        let lost = self.held.lost((ENOUGH_LATER - 1) * self.mss).max(self.mss);
        let again = if self.repeated.is_some() { self.mss } else { 0 };
        left.saturating_sub(lost) + again
    }
}
