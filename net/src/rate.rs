//! A limit on how often something is done.

const SECOND: u64 = 1_000_000_000;

/// Allows so many a second, all of them at once if need be.
pub struct RateLimit {
    per_second: u32,
    left: u32,
    /// When the present second began.
    since: u64,
}

impl RateLimit {
    /// Allows `per_second`.
    pub fn new(per_second: u32) -> Self {
        Self {
            per_second,
            left: per_second,
            since: 0,
        }
    }

    /// Whether it may be done once more at `now`, in nanoseconds.
    pub fn allow(&mut self, now: u64) -> bool {
        if now.saturating_sub(self.since) >= SECOND {
            self.since = now;
            self.left = self.per_second;
        }
        let allowed = self.left > 0;
        self.left = self.left.saturating_sub(1);
        allowed
    }
}
