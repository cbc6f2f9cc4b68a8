//! Datagrams put together from IP fragments (RFC 791 section 3.2, RFC 815).
//!
//! It stands in front of smoltcp, so that a whole datagram takes the same way
//! through the socket table as one that was never cut. Memory is bounded: the
//! buffers are a fixed number, and a new datagram pushes out the oldest.
//! Fragments that overlap spoil their datagram, as RFC 5722 has it for IPv6 and
//! Linux for both: an honest sender makes none.

use alloc::vec::Vec;

use crate::checksum::Sum;
use crate::frame::{ETHERNET_HEADER, Fragment, FragmentKey, IPV4_HEADER};

const HEADERS: usize = ETHERNET_HEADER + IPV4_HEADER;
/// Fragments start at multiples of this.
const BLOCK: usize = 8;
/// Most payload bytes that an IPv4 header can speak of.
const LARGEST: usize = 65_535 - IPV4_HEADER;
const BLOCKS: usize = LARGEST.div_ceil(BLOCK);
const WORDS: usize = BLOCKS.div_ceil(64);

/// What became of a fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It was kept, or was a copy of one that had been.
    Kept,
    /// It completed its datagram: a frame of so many bytes, which is at the
    /// start of what [`Reassembly::take`] gives.
    Complete(usize),
    /// It contradicts the others, and spoilt its datagram.
    Bad,
}

/// Datagrams in the making.
pub struct Reassembly {
    slots: Vec<Slot>,
    used: usize,
    complete: usize,
    timeout: u64,
    /// Incomplete datagrams that timed out.
    pub timeouts: u64,
    /// Incomplete datagrams that were pushed out.
    pub evictions: u64,
}

struct Slot {
    key: Option<FragmentKey>,
    /// When the first fragment came.
    since: u64,
    /// Which blocks have come.
    seen: [u64; WORDS],
    blocks: usize,
    /// Payload bytes of the whole, known once the last fragment has come.
    total: Option<usize>,
    /// One past the last payload byte that has come.
    end: usize,
    /// A frame: headers, then payload. Allocated when first used.
    buffer: Vec<u8>,
}

impl Reassembly {
    /// Room for `slots` datagrams, each given `timeout` nanoseconds.
    pub fn new(slots: usize, timeout: u64) -> Self {
        Self {
            slots: (0..slots.max(1)).map(|_| Slot::new()).collect(),
            used: 0,
            complete: 0,
            timeout,
            timeouts: 0,
            evictions: 0,
        }
    }

    /// How many buffers are not in use.
    pub fn free(&self) -> usize {
        self.slots.len() - self.used
    }

    /// When the oldest incomplete datagram times out.
    pub fn deadline(&self) -> Option<u64> {
        if self.used == 0 {
            return None;
        }
        let used = self.slots.iter().filter(|slot| slot.key.is_some());
        used.map(|slot| slot.since + self.timeout).min()
    }

    /// Throws away what has timed out.
    pub fn expire(&mut self, now: u64) {
        for slot in &mut self.slots {
            if slot.key.is_some() && now >= slot.since + self.timeout {
                slot.clear();
                self.used -= 1;
                self.timeouts += 1;
            }
        }
    }

    /// Takes a fragment.
    pub fn add(&mut self, fragment: &Fragment<'_>, now: u64) -> Outcome {
        let index = self.slot_for(&fragment.key, now);
        let slot = &mut self.slots[index];
        let outcome = slot.add(fragment);
        match outcome {
            Outcome::Kept => {}
            Outcome::Complete(_) => self.complete = index,
            Outcome::Bad => {
                slot.clear();
                self.used -= 1;
            }
        }
        outcome
    }

    /// Takes the buffer of the datagram that was completed last. Give it back
    /// with [`recycle`](Self::recycle).
    pub fn take(&mut self) -> Vec<u8> {
        let slot = &mut self.slots[self.complete];
        slot.clear();
        self.used -= 1;
        core::mem::take(&mut slot.buffer)
    }

    /// Gives a taken buffer back.
    pub fn recycle(&mut self, buffer: Vec<u8>) {
        self.slots[self.complete].buffer = buffer;
    }

    fn slot_for(&mut self, key: &FragmentKey, now: u64) -> usize {
        let mut oldest = 0;
        let mut free = None;
        for (index, slot) in self.slots.iter().enumerate() {
            match slot.key {
                Some(ref used) if used == key => return index,
                Some(_) if slot.since < self.slots[oldest].since => oldest = index,
                Some(_) => {}
                None => free = Some(index),
            }
        }
        let index = match free {
            Some(index) => {
                self.used += 1;
                index
            }
            None => {
                self.evictions += 1;
                oldest
            }
        };
        let slot = &mut self.slots[index];
        slot.clear();
        slot.key = Some(*key);
        slot.since = now;
        index
    }
}

impl Slot {
    fn new() -> Self {
        Self {
            key: None,
            since: 0,
            seen: [0; WORDS],
            blocks: 0,
            total: None,
            end: 0,
            buffer: Vec::new(),
        }
    }

    fn clear(&mut self) {
        if self.key.take().is_some() {
            self.seen = [0; WORDS];
            self.blocks = 0;
            self.total = None;
            self.end = 0;
        }
    }

    fn add(&mut self, fragment: &Fragment<'_>) -> Outcome {
        let end = fragment.offset + fragment.payload.len();
        let whole_blocks = fragment.payload.len().is_multiple_of(BLOCK);
        if fragment.payload.is_empty() || end > LARGEST || fragment.more && !whole_blocks {
            return Outcome::Bad;
        }
        if !self.fits(fragment, end) {
            return Outcome::Bad;
        }
        match self.mark(fragment.offset / BLOCK, end.div_ceil(BLOCK)) {
            Marked::New => {}
            Marked::Copy => return Outcome::Kept,
            Marked::Overlap => return Outcome::Bad,
        }

        if self.buffer.is_empty() {
            self.buffer.resize(HEADERS + LARGEST, 0);
        }
        if fragment.offset == 0 {
            self.buffer[..HEADERS].copy_from_slice(fragment.headers);
        }
        self.buffer[HEADERS + fragment.offset..HEADERS + end].copy_from_slice(fragment.payload);
        self.end = self.end.max(end);

        match self.total {
            Some(total) if self.blocks == total.div_ceil(BLOCK) => {
                self.finish(total);
                Outcome::Complete(HEADERS + total)
            }
            _ => Outcome::Kept,
        }
    }

    /// Whether the fragment agrees with what is known of the total length.
    fn fits(&mut self, fragment: &Fragment<'_>, end: usize) -> bool {
        match self.total {
            Some(total) => end <= total && (fragment.more || end == total),
            None if fragment.more => true,
            None => {
                self.total = Some(end);
                self.end <= end
            }
        }
    }

    /// Marks blocks as seen.
    fn mark(&mut self, first: usize, end: usize) -> Marked {
        let mut before = 0;
        for word in first / 64..end.div_ceil(64) {
            before += (self.seen[word] & mask(word, first, end)).count_ones() as usize;
        }
        if before == end - first {
            return Marked::Copy;
        }
        if before > 0 {
            return Marked::Overlap;
        }
        for word in first / 64..end.div_ceil(64) {
            self.seen[word] |= mask(word, first, end);
        }
        self.blocks += end - first;
        Marked::New
    }

    /// Makes the headers those of a datagram that was never cut.
    fn finish(&mut self, total: usize) {
        let header = &mut self.buffer[ETHERNET_HEADER..HEADERS];
        header[0] = 0x45;
        header[2..4].copy_from_slice(&((IPV4_HEADER + total) as u16).to_be_bytes());
        header[6..8].fill(0);
        header[10..12].fill(0);
        let checksum = Sum::default().add(header).checksum();
        header[10..12].copy_from_slice(&checksum);
    }
}

enum Marked {
    New,
    Copy,
    Overlap,
}

/// The bits of the `word`th word that belong to blocks `first..end`.
fn mask(word: usize, first: usize, end: usize) -> u64 {
    let low = first.saturating_sub(word * 64).min(64);
    let high = (end - word * 64).min(64);
    let below = |bit: usize| if bit == 64 { u64::MAX } else { (1 << bit) - 1 };
    below(high) & !below(low)
}
