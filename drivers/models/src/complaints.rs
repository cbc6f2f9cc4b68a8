//! What a guest did that hardware would not have borne.

use std::collections::BTreeMap;
use std::fmt::Display;

/// Kinds that are kept apart; what comes after them is only counted.
const KINDS: usize = 64;

/// Complaints of a model about its guest, by their text, with how often each arose.
///
/// A driver that a model has no complaint about has kept to what is known of the
/// hardware. Each kind is also written to the standard error output, once.
#[derive(Debug, Default)]
pub struct Complaints {
    kinds: BTreeMap<String, u64>,
    further: u64,
}

impl Complaints {
    /// Adds one.
    pub fn add(&mut self, what: impl Display) {
        let what = what.to_string();
        if let Some(count) = self.kinds.get_mut(&what) {
            *count += 1;
        } else if self.kinds.len() < KINDS {
            eprintln!("nic-model: the guest: {what}");
            self.kinds.insert(what, 1);
        } else {
            self.further += 1;
        }
    }

    /// How many there were.
    pub fn total(&self) -> u64 {
        self.kinds.values().sum::<u64>() + self.further
    }

    /// Each kind and how often it arose.
    pub fn kinds(&self) -> impl Iterator<Item = (&str, u64)> {
        self.kinds
            .iter()
            .map(|(what, count)| (what.as_str(), *count))
    }

    /// Forgets them.
    pub fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_never_stops_takes_no_more_memory() {
        let mut complaints = Complaints::default();
        for number in 0..1000 {
            complaints.add(number);
        }
        complaints.add(0);
        assert_eq!(complaints.total(), 1001);
        assert_eq!(complaints.kinds().count(), KINDS);
        assert_eq!(complaints.kinds().next(), Some(("0", 2)));
    }
}
