//! What the peer sent that came before what it follows.

use super::scoreboard::Scoreboard;
use crate::sack::{self, Blocks};

/// The ranges held beyond the first byte that is missing.
#[derive(Debug, Default)]
pub struct Ahead {
    held: Scoreboard,
    /// First byte of the segment that came last.
    latest: u32,
}

impl Ahead {
    /// A connection begins; `next` is the first byte to come.
    pub fn clear(&mut self, next: u32) {
        self.held.clear(next);
    }

    /// Bytes from `left` to before `right` came, beyond `next`, the first missing
    /// one. What does not fit before `end`, the window's, is not kept by smoltcp as
    /// it is, and so not reported.
    pub fn came(&mut self, left: u32, right: u32, next: u32, end: u32) {
        self.held.advance(next);
        self.held.add(left, right, end);
        self.latest = left;
    }

    /// What is to be reported when `next` is the first missing byte: the range
    /// that grew last, then the others (RFC 2018 section 4).
    pub fn blocks(&mut self, next: u32) -> Option<Blocks> {
        if self.held.is_empty() {
            return None;
        }
        self.held.advance(next);
        let has_latest =
            |&(left, right): &(u32, u32)| self.latest.wrapping_sub(left) < right.wrapping_sub(left);
        let first = self.held.blocks().find(has_latest);
        let others = self.held.blocks().filter(|block| Some(*block) != first);
        let blocks = sack::blocks(first.into_iter().chain(others));
        (!blocks.is_empty()).then_some(blocks)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_last_is_reported_first() {
        let mut ahead = Ahead::default();
        let start = u32::MAX - 150;
        let at = |offset: u32| start.wrapping_add(offset);
        ahead.clear(start);
        assert!(ahead.blocks(start).is_none());
        for (left, right) in [(100, 200), (300, 400), (500, 600), (700, 800), (900, 950)] {
            ahead.came(at(left), at(right), start, at(1000));
        }
        ahead.came(at(400), at(450), start, at(1000));
        let expected = [(300, 450), (100, 200), (500, 600), (700, 800)];
        let expected = expected.map(|(left, right)| (at(left), at(right)));
        assert_eq!(*ahead.blocks(start).unwrap(), expected);
        ahead.came(at(990), at(1001), start, at(1000));
        assert_eq!(*ahead.blocks(at(880)).unwrap(), [(at(900), at(950))]);
        assert!(ahead.blocks(at(950)).is_none());
    }
}
