//! The time-stamp counter measured against another counter.

/// A counter of known frequency. It may stand still: firmware stops some.
pub(super) trait Counter {
    /// Counts a second.
    fn hz(&self) -> u64;

    /// The bits that count; it wraps at the highest.
    fn mask(&self) -> u64;

    /// Reads it, between two reads of the time-stamp counter.
    fn read(&mut self) -> Reading;
}

/// What a counter showed, at a time between two of the time-stamp counter's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub(super) before: u64,
    pub(super) count: u64,
    pub(super) after: u64,
}

impl Reading {
    /// The time-stamp counter when the counter was read, as far as is known.
    fn middle(&self) -> u64 {
        self.before.wrapping_add(self.doubt() / 2)
    }

    /// Cycles within which it was read.
    fn doubt(&self) -> u64 {
        self.after.saturating_sub(self.before)
    }
}

/// What both readings' doubt may be of the time between them. The result is off by
/// half of it at the most: a ten thousandth.
const PRECISION: u64 = 5_000;
/// The least and the most time that is taken, as a part of a second. The most is
/// less than what the 8254 takes to wrap.
const LEAST_TIME: u64 = 500;
const MOST_TIME: u64 = 25;
/// Readings of which the best is taken.
const TRIES: usize = 4;
/// A counter that shows the same so often stands still: reading takes more than 10 ns,
/// and the slowest of them counts every 838 ns.
const MOST_EQUAL: usize = 10_000;

/// The time-stamp counter's frequency in Hz; `None` when `counter` stands still.
pub(super) fn tsc(counter: &mut impl Counter) -> Option<u64> {
    let (least, most) = (counter.hz() / LEAST_TIME, counter.hz() / MOST_TIME);
    let mask = counter.mask();
    let start = best_reading(counter)?;
    loop {
        let mut end = next_count(counter)?;
        let counts = end.count.wrapping_sub(start.count) & mask;
        let doubt = start.doubt().saturating_add(end.doubt());
        let cycles = end.middle().wrapping_sub(start.middle());
        let precise = doubt.saturating_mul(PRECISION) <= cycles;
        if counts < least || counts < most && !precise {
            continue;
        }
        if !precise {
            end = best_reading(counter)?;
        }
        let counts = end.count.wrapping_sub(start.count) & mask;
        let cycles = end.middle().wrapping_sub(start.middle());
        let hz = u128::from(cycles) * u128::from(counter.hz()) / u128::from(counts.max(1));
        return u64::try_from(hz).ok();
    }
}

fn best_reading(counter: &mut impl Counter) -> Option<Reading> {
    let mut best = next_count(counter)?;
    for _ in 1..TRIES {
        let reading = next_count(counter)?;
        if reading.doubt() < best.doubt() {
            best = reading;
        }
    }
    Some(best)
}

/// The first reading with another count than now.
fn next_count(counter: &mut impl Counter) -> Option<Reading> {
    let first = counter.read().count;
    (0..MOST_EQUAL)
        .map(|_| counter.read())
        .find(|reading| reading.count != first)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const TSC_HZ: u64 = 2_400_000_000;

    /// A counter that is read in some thousand cycles, and at times in many more.
    struct Model {
        hz: u64,
        mask: u64,
        tsc: u64,
        reads: u64,
        held_up: fn(u64) -> u64,
    }

    impl Model {
        fn new(hz: u64, mask: u64, held_up: fn(u64) -> u64) -> Self {
            Self {
                hz,
                mask,
                tsc: 77,
                reads: 0,
                held_up,
            }
        }
    }

    impl Counter for Model {
        fn hz(&self) -> u64 {
            self.hz
        }

        fn mask(&self) -> u64 {
            self.mask
        }

        fn read(&mut self) -> Reading {
            let before = self.tsc;
            self.reads += 1;
            self.tsc += 600;
            let count = (u128::from(self.tsc) * u128::from(self.hz) / u128::from(TSC_HZ)) as u64;
            self.tsc += 600 + (self.held_up)(self.reads);
            Reading {
                before,
                count: count & self.mask,
                after: self.tsc,
            }
        }
    }

    fn is_off(hz: u64) -> u64 {
        hz.abs_diff(TSC_HZ) * 1_000_000 / TSC_HZ
    }

    #[test]
    fn every_counter_gives_a_ten_thousandth() {
        for (hz, mask) in [
            (100_000_000, u64::from(u32::MAX)),
            (14_318_180, u64::from(u32::MAX)),
            (3_579_545, 0xff_ffff),
            (1_193_182, 0xffff),
        ] {
            let mut model = Model::new(hz, mask, |_| 0);
            let measured = tsc(&mut model).unwrap();
            assert!(is_off(measured) <= 100, "{hz} Hz: {measured}");
            assert!(model.tsc < TSC_HZ / 50, "{hz} Hz: {} cycles", model.tsc);
        }
    }

    #[test]
    fn a_reading_that_was_held_up_is_passed_over() {
        let held_up = |reads| if reads % 7 < 3 { 400_000 } else { 0 };
        let measured = tsc(&mut Model::new(14_318_180, u64::from(u32::MAX), held_up)).unwrap();
        assert!(is_off(measured) <= 200, "{measured}");
    }

    #[test]
    fn a_machine_that_is_held_up_always_gives_something_all_the_same() {
        let mut model = Model::new(3_579_545, 0xff_ffff, |_| 3_000_000);
        let measured = tsc(&mut model).unwrap();
        assert!(is_off(measured) < 100_000, "{measured}");
        assert!(model.reads < 1000);
    }

    #[test]
    fn a_counter_that_stands_still_is_given_up() {
        assert_eq!(tsc(&mut Model::new(0, u64::MAX, |_| 0)), None);
        let mut stuck = Model::new(1_193_182, 0, |_| 0);
        assert_eq!(tsc(&mut stuck), None);
        assert!(stuck.reads <= MOST_EQUAL as u64 + 1);
    }

    proptest! {
        #[test]
        fn any_readings_are_survived(
            counts in proptest::collection::vec(any::<(u64, u64)>(), 1..20),
            hz in 1u64..1 << 40,
        ) {
            struct Noise(Vec<(u64, u64)>, usize, u64);
            impl Counter for Noise {
                fn hz(&self) -> u64 { self.2 }
                fn mask(&self) -> u64 { u64::MAX }
                fn read(&mut self) -> Reading {
                    self.1 += 1;
                    let (tsc, count) = self.0[self.1 % self.0.len()];
                    // In the end it stands still.
                    let count = if self.1 > 10_000 { 0 } else { count };
                    Reading { before: tsc, count, after: tsc.wrapping_add(count) }
                }
            }
            let _ = tsc(&mut Noise(counts, 0, hz));
        }
    }
}
