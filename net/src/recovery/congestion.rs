//! How much may be under way: slow start and congestion avoidance (RFC 5681),
//! with CUBIC's factors in its Reno-friendly region (RFC 9438 section 4.3). On
//! paths that a test bench has, with round trips below 100 ms, CUBIC's curve
//! itself stays below that region.

/// The initial window in segments (RFC 6928).
const INITIAL_SEGMENTS: u32 = 10;
/// The window is never larger: more than any send buffer.
const LARGEST: u32 = 16 << 20;

/// A congestion window, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Congestion {
    window: u32,
    threshold: u32,
    /// The window before the last reduction.
    prior: u32,
    prior_threshold: u32,
    mss: u32,
}

impl Congestion {
    /// A connection's beginning.
    pub fn new(mss: u32) -> Self {
        Self {
            window: INITIAL_SEGMENTS * mss,
            threshold: u32::MAX,
            prior: 0,
            prior_threshold: u32::MAX,
            mss,
        }
    }

    /// Segments have so many payload bytes from now on.
    pub fn set_mss(&mut self, mss: u32) {
        self.mss = mss;
    }

    /// How many bytes may be under way.
    pub fn window(&self) -> u32 {
        self.window
    }

    /// So many bytes were acknowledged, in a round trip in which at most `flight`
    /// were under way at a time.
    pub fn acknowledged(&mut self, bytes: u32, flight: u32) {
        let slow = self.window < self.threshold;
        // A window that is not used says nothing of the path (RFC 7661).
        let used = if slow {
            2 * u64::from(flight)
        } else {
            u64::from(flight) + 2 * u64::from(self.mss)
        };
        if used < u64::from(self.window) {
            return;
        }
        let more = if slow {
            bytes
        } else {
            let more = u64::from(bytes) * u64::from(self.mss) / u64::from(self.window);
            // RFC 9438 section 4.3: slower up to where the last loss was.
            let more = if self.window < self.prior {
                more * 53 / 100
            } else {
                more
            };
            more.max(1) as u32
        };
        self.window = self.window.saturating_add(more).min(LARGEST);
    }

    /// Something was lost.
    pub fn lost(&mut self) {
        self.reduce();
        self.window = self.threshold;
    }

    /// A timeout. Of several in a row, the first is the one that counts.
    pub fn timed_out(&mut self, first: bool) {
        if first {
            self.reduce();
        }
        self.start_slowly();
    }

    /// Goes back to one segment, to grow fast up to where the last reduction was.
    pub fn start_slowly(&mut self) {
        self.window = self.mss;
    }

    /// Nothing was sent for longer than a timeout (RFC 5681 section 4.1).
    pub fn rested(&mut self) {
        self.window = self.window.min(INITIAL_SEGMENTS * self.mss);
    }

    /// The last reduction was a mistake.
    pub fn undo(&mut self) {
        self.window = self.window.max(self.prior);
        self.threshold = self.prior_threshold;
    }

    /// RFC 9438 section 4.6, from the window and not from what is under way: it grows
    /// only as far as it is used.
    fn reduce(&mut self) {
        self.prior = self.window;
        self.prior_threshold = self.threshold;
        let kept = (u64::from(self.window) * 7 / 10) as u32;
        self.threshold = kept.max(2 * self.mss);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    #[test]
    fn doubles_then_creeps_and_comes_back() {
        let mut congestion = Congestion::new(MSS);
        congestion.acknowledged(10_000, 10_000);
        assert_eq!(congestion.window(), 20_000);
        congestion.lost();
        assert_eq!(congestion.window(), 14_000);
        // A window's worth of acknowledgements makes it one segment larger, or
        // half of one below the last loss.
        for _ in 0..14 {
            congestion.acknowledged(MSS, 14_000);
        }
        assert!((14_400..14_600).contains(&congestion.window()));
        congestion.undo();
        assert_eq!(congestion.window(), 20_000);
    }

    #[test]
    fn a_timeout_starts_anew_and_keeps_its_aim() {
        let mut congestion = Congestion::new(MSS);
        congestion.timed_out(true);
        congestion.timed_out(false);
        assert_eq!(congestion.window(), MSS);
        for _ in 0..6 {
            congestion.acknowledged(MSS, congestion.window());
        }
        assert_eq!(congestion.window(), 7_000);
        congestion.acknowledged(MSS, 7_000);
        assert!(congestion.window() < 7_200);
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut congestion = Congestion::new(MSS);
        for _ in 0..100 {
            congestion.acknowledged(1, 1);
        }
        assert_eq!(congestion.window(), 10_000);
    }
}
