//! How long a round trip takes, and how long to wait for one (RFC 6298).

const MILLISECOND: u64 = 1_000_000;
/// The timeout before anything was measured (RFC 6298 section 2).
const INITIAL: u64 = 1000 * MILLISECOND;
/// The least that is added to the round trip. RFC 6298 asks for a second in all;
/// hosts of today use this much, and peers' delayed acknowledgements are shorter.
const LEAST_MARGIN: u64 = 200 * MILLISECOND;
const LONGEST: u64 = 60_000 * MILLISECOND;

/// An estimate of the round trip time, in nanoseconds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rtt {
    smoothed: u64,
    variation: u64,
    least: u64,
}

impl Rtt {
    /// Takes a measurement.
    pub fn sample(&mut self, rtt: u64) {
        if self.smoothed == 0 {
            self.smoothed = rtt.max(1);
            self.variation = rtt / 2;
            self.least = rtt;
            return;
        }
        let error = self.smoothed.abs_diff(rtt);
        self.variation = (3 * self.variation + error) / 4;
        self.smoothed = ((7 * self.smoothed + rtt) / 8).max(1);
        self.least = self.least.min(rtt);
    }

    /// The smoothed round trip time; `None` before the first measurement.
    pub fn smoothed(&self) -> Option<u64> {
        (self.smoothed > 0).then_some(self.smoothed)
    }

    /// The shortest round trip seen; 0 before the first measurement.
    pub fn least(&self) -> u64 {
        self.least
    }

    /// The retransmission timeout after so many in a row.
    pub fn timeout(&self, backoff: u32) -> u64 {
        let once = match self.smoothed() {
            Some(smoothed) => smoothed + (4 * self.variation).max(LEAST_MARGIN),
            None => INITIAL,
        };
        once.saturating_mul(1 << backoff.min(16)).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_round_trip_is_waited_for_a_little_longer() {
        let mut rtt = Rtt::default();
        assert_eq!(rtt.timeout(0), INITIAL);
        for _ in 0..100 {
            rtt.sample(10 * MILLISECOND);
        }
        assert_eq!(rtt.timeout(0), 10 * MILLISECOND + LEAST_MARGIN);
        assert_eq!(rtt.timeout(2), 4 * (10 * MILLISECOND + LEAST_MARGIN));
        assert_eq!(rtt.timeout(u32::MAX), LONGEST);
    }

    #[test]
    fn variation_lengthens_the_wait() {
        let mut rtt = Rtt::default();
        for n in 0..100 {
            rtt.sample((100 + 200 * (n % 2)) * MILLISECOND);
        }
        assert!(rtt.timeout(0) > 550 * MILLISECOND);
        assert_eq!(rtt.least(), 100 * MILLISECOND);
    }
}
