//! What the peer has said it holds beyond a hole (RFC 2018).

use alloc::vec::Vec;

/// Most ranges remembered. A peer that reports more of them than that is not
/// believed further: what is forgotten is only sent again later.
const MOST_RANGES: usize = 32;

/// Sequence numbers relative to the first byte that is not acknowledged.
type Range = core::ops::Range<u32>;

/// The ranges that the peer holds, in order, apart from each other.
#[derive(Debug, Default)]
pub struct Scoreboard {
    ranges: Vec<Range>,
    /// The sequence number that the ranges count from.
    una: u32,
}

impl Scoreboard {
    /// Whether the peer holds nothing beyond a hole.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Forgets everything; `una` is the first byte not acknowledged.
    pub fn clear(&mut self, una: u32) {
        self.ranges.clear();
        self.una = una;
    }

    /// Everything before `una`, which must not go back, is acknowledged.
    pub fn advance(&mut self, una: u32) {
        let by = una.wrapping_sub(self.una);
        self.una = una;
        self.ranges.retain_mut(|range| {
            range.start = range.start.saturating_sub(by);
            range.end = range.end.saturating_sub(by);
            range.start < range.end
        });
    }

    /// Adds a block that the peer reports; `nxt` is behind the last byte sent.
    /// Returns whether the peer holds more than was known. A block that is not
    /// within what was sent and not acknowledged says nothing.
    pub fn add(&mut self, left: u32, right: u32, nxt: u32) -> bool {
        let sent = nxt.wrapping_sub(self.una);
        let block = left.wrapping_sub(self.una)..right.wrapping_sub(self.una);
        // The first byte is missing: that is what the acknowledgement says.
        if block.start == 0 || block.start >= block.end || block.end > sent {
            return false;
        }
        let before = self.bytes();
        let first = self.ranges.partition_point(|r| r.end < block.start);
        let behind = self.ranges.partition_point(|r| r.start <= block.end);
        if first < behind {
            let start = self.ranges[first].start.min(block.start);
            let end = self.ranges[behind - 1].end.max(block.end);
            self.ranges[first] = start..end;
            self.ranges.drain(first + 1..behind);
        } else if self.ranges.len() < MOST_RANGES {
            self.ranges.insert(first, block);
        }
        self.bytes() > before
    }

    /// The ranges, in order: the first byte of each, and the one behind its last.
    pub fn blocks(&self) -> impl Iterator<Item = (u32, u32)> {
        let at = |offset| self.una.wrapping_add(offset);
        self.ranges.iter().map(move |r| (at(r.start), at(r.end)))
    }

    /// How many bytes the peer holds.
    pub fn bytes(&self) -> u32 {
        self.ranges.iter().map(|r| r.end - r.start).sum()
    }

    /// How many of the bytes from the sequence number `from` on it holds.
    pub fn bytes_from(&self, from: u32) -> u32 {
        let from = from.wrapping_sub(self.una);
        let above = |r: &Range| r.end.saturating_sub(r.start.max(from));
        self.ranges.iter().map(above).sum()
    }

    /// How many bytes are missing that have more than `enough` bytes held
    /// behind them: the sum over those that RFC 6675 section 4 calls lost.
    pub fn lost(&self, enough: u32) -> u32 {
        let (mut lost, mut held, mut start) = (0, 0, u32::MAX);
        for range in self.ranges.iter().rev() {
            if held > enough {
                lost += start - range.end;
            }
            held += range.end - range.start;
            start = range.start;
        }
        if held > enough {
            lost += start;
        }
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn board(una: u32, blocks: &[(u32, u32)], nxt: u32) -> Scoreboard {
        let mut board = Scoreboard::default();
        board.clear(una);
        for &(left, right) in blocks {
            board.add(una.wrapping_add(left), una.wrapping_add(right), nxt);
        }
        board
    }

    #[test]
    fn lost_is_what_has_enough_behind_it() {
        let board = board(1000, &[(100, 200), (300, 400), (500, 600)], 2000);
        assert_eq!(board.lost(250), 100);
        assert_eq!(board.lost(150), 200);
        assert_eq!(board.lost(0), 300);
        assert_eq!(board.lost(300), 0);
        assert_eq!(board.bytes_from(1350), 150);
    }

    #[test]
    fn thousands_of_blocks_are_bounded() {
        let blocks: Vec<_> = (1..5000u32).map(|n| (n * 10, n * 10 + 1)).collect();
        let board = board(u32::MAX - 100, &blocks, 1_000_000);
        assert_eq!(board.ranges.len(), MOST_RANGES);
    }

    /// A byte's distance from the first, beyond both ends of what was sent.
    fn near() -> impl Strategy<Value = u32> {
        prop_oneof![(-20i32..130).prop_map(|near| near as u32), any::<u32>()]
    }

    proptest! {
        /// Against a map of bytes, whatever the peer says.
        #[test]
        fn holds_what_was_reported(
            una in any::<u32>(),
            steps in proptest::collection::vec((near(), near(), 0u32..30), 0..60),
        ) {
            let nxt = una.wrapping_add(100);
            let mut now = una;
            let mut model = [false; 100];
            let mut board = board(una, &[], nxt);
            for (left, right, by) in steps {
                let done = now.wrapping_sub(una);
                if by < 5 {
                    now = now.wrapping_add(by.min(100 - done));
                    board.advance(now);
                    model[..now.wrapping_sub(una) as usize].fill(false);
                } else {
                    let more = board.add(una.wrapping_add(left), una.wrapping_add(right), nxt);
                    let sane = left > done && left < right && right <= 100;
                    let before = model.iter().filter(|held| **held).count();
                    if sane {
                        model[left as usize..right as usize].fill(true);
                    }
                    let after = model.iter().filter(|held| **held).count();
                    prop_assert_eq!(more, after > before);
                }
                let done = now.wrapping_sub(una);
                prop_assert_eq!(board.bytes() as usize, model.iter().filter(|held| **held).count());
                for at in done..100 {
                    let held = model[at as usize..].iter().filter(|held| **held).count();
                    prop_assert_eq!(board.bytes_from(una.wrapping_add(at)) as usize, held);
                }
                for enough in 0..10 {
                    let behind = |at: usize| model[at..].iter().filter(|held| **held).count();
                    let lost = (done as usize..100)
                        .filter(|&at| !model[at] && behind(at) > enough)
                        .count();
                    prop_assert_eq!(board.lost(enough as u32) as usize, lost);
                }
                prop_assert!(board.ranges.windows(2).all(|pair| pair[0].end < pair[1].start));
            }
        }
    }
}
