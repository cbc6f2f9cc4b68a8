//! Medians and spreads.

use serde_json::{Value, json};

/// Several measurements of one thing.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// The measurements in the order they were made.
    pub samples: Vec<f64>,
    /// The one in the middle, or the mean of the two there.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Summary {
    /// Sums up `samples`; `None` where there are none, or one is no number.
    pub fn of(samples: impl IntoIterator<Item = f64>) -> Option<Self> {
        let samples: Vec<f64> = samples.into_iter().collect();
        let mut sorted = samples.clone();
        sorted.sort_by(f64::total_cmp);
        if samples.iter().any(|sample| !sample.is_finite()) {
            return None;
        }
        Some(Self {
            median: median(&sorted)?,
            min: *sorted.first()?,
            max: *sorted.last()?,
            samples,
        })
    }

    /// Half of the range in percent of the median: the `±` of the tables. `None`
    /// for a single measurement, which says nothing about it.
    pub fn spread(&self) -> Option<f64> {
        let known = self.samples.len() > 1 && self.median != 0.0;
        known.then(|| (self.max - self.min) / 2.0 / self.median.abs() * 100.0)
    }

    /// As the JSON report has it.
    pub fn json(&self) -> Value {
        json!({
            "median": self.median,
            "min": self.min,
            "max": self.max,
            "spread_percent": self.spread(),
            "samples": self.samples,
        })
    }
}

/// The median of sorted numbers.
fn median(sorted: &[f64]) -> Option<f64> {
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted[middle - 1] + upper) / 2.0)
}

/// The value below or at which `percent` of the sorted `values` are (nearest rank).
pub fn percentile<T: Copy>(sorted: &[T], percent: usize) -> Option<T> {
    let rank = (sorted.len() * percent).div_ceil(100).max(1);
    sorted.get(rank - 1).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle_one_or_the_mean_of_two() {
        let median = |samples: &[f64]| Summary::of(samples.iter().copied()).map(|s| s.median);
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[7.0]), Some(7.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 6.0]), Some(5.5));
        assert_eq!(median(&[9.0, f64::NAN]), None);
    }

    #[test]
    fn the_spread_is_half_of_the_range() {
        let summary = Summary::of([90.0, 110.0, 100.0]).unwrap();
        assert_eq!((summary.min, summary.max), (90.0, 110.0));
        assert_eq!(summary.spread(), Some(10.0));
        assert_eq!(summary.samples, [90.0, 110.0, 100.0]);
        assert_eq!(Summary::of([5.0]).unwrap().spread(), None);
        assert_eq!(Summary::of([0.0, 0.0]).unwrap().spread(), None);
    }

    #[test]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<u32> = (1..=200).collect();
        assert_eq!(percentile(&values, 0), Some(1));
        assert_eq!(percentile(&values, 50), Some(100));
        assert_eq!(percentile(&values, 99), Some(198));
        assert_eq!(percentile(&values, 100), Some(200));
        assert_eq!(percentile(&[3], 99), Some(3));
        assert_eq!(percentile::<u8>(&[], 50), None);
    }
}
