//! The receive rings and the interrupt queue.
//!
//! Frames up to a certain length go into small buffers and all others into big ones. The
//! card completes a frame by a slot in the interrupt queue: its length, and the sum over
//! its bytes. Which buffer it is in follows from that, as each ring is used in order. The
//! driver writes addresses of buffers into the card, eight at a time.

use core::sync::atomic::{Ordering, fence};

use super::checksum;
use super::dma::Words;
use super::regs::{PAD, RECV_LEN, SLOT_LEN};
use crate::buffers::Buffers;
use crate::hw::{OutOfDmaMemory, Platform, Window};
use crate::nic::{Receive, RxDropped, RxFrame};

/// Addresses that go to the card at once: those of a burst of 64 bytes.
pub const BURST: usize = 8;
/// An Ethernet header, and the tag that may be in it.
const HEADER: usize = 14;
const TAG: usize = 4;
/// Frames of up to so many bytes go into small buffers: without payload, mostly.
pub const SMALL: usize = 128 - PAD;
/// Buffers up to this size lie in one page each.
const PAGE: usize = 4096;
/// Frames after which buffers go back unless another number is set.
const REPLENISH: usize = 32;

/// Where the card has its rings, and how long they are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Places {
    /// The ring of small buffers.
    pub small: usize,
    /// The ring of big ones.
    pub big: usize,
    /// Slots of each.
    pub slots: usize,
}

/// One ring of buffers. The buffer with number *n* since the start is in slot *n* of the
/// card's, and in buffer *n* of ours, each modulo how many there are.
struct Ring {
    buffers: Buffers,
    /// Where it is in the card, and its slots there.
    place: usize,
    slots: usize,
    /// Buffers that the card was given, and that it has used.
    given: usize,
    used: usize,
}

impl Ring {
    fn new(
        platform: &mut impl Platform,
        count: usize,
        size: usize,
        align: usize,
    ) -> Result<Self, OutOfDmaMemory> {
        Ok(Self {
            buffers: Buffers::new(platform, count, size, align)?,
            place: 0,
            slots: count,
            given: 0,
            used: 0,
        })
    }

    fn restart(&mut self, window: &impl Window, place: usize, slots: usize) {
        self.place = place;
        self.slots = slots;
        self.given = 0;
        self.used = 0;
        self.replenish(window);
    }

    /// Buffers that the card may fill.
    fn free(&self) -> usize {
        self.given - self.used
    }

    /// Gives buffers back that were used, in whole bursts.
    fn replenish(&mut self, window: &impl Window) {
        while self.given + BURST <= self.used + self.buffers.count() {
            self.give_burst(window);
        }
    }

    /// The card may look at the first slot of a burst before the others are there. So the
    /// first has an address that is none until they are, as in the open drivers.
    fn give_burst(&mut self, window: &impl Window) {
        let address = |number: usize| self.buffers.bus(number % self.buffers.count());
        let mut words = [0; BURST];
        for (index, word) in words.iter_mut().enumerate() {
            *word = address(self.given + index).to_be();
        }
        let first = address(self.given);
        words[0] = (first | u64::from(u32::MAX)).to_be();
        let at = self.place + self.given % self.slots * RECV_LEN;
        window.fence();
        window.copy_to(at, &words);
        window.fence();
        window.write32(at + 4, (first as u32).to_be());
        self.given += BURST;
    }

    /// The first `len` bytes of the buffer that was used `number`-th.
    fn bytes(&self, number: usize, len: usize) -> &[u8] {
        self.buffers.bytes(number % self.buffers.count(), len)
    }
}

/// Both rings and the queue.
pub struct RxRing<W> {
    window: W,
    small: Ring,
    big: Ring,
    queue: Words,
    /// The slot of the queue that the card fills next.
    next: usize,
    /// Frames since buffers went back.
    held: usize,
    replenish: usize,
    dropped: RxDropped,
    frames: u64,
    bytes: u64,
}

/// What the firmware is told of big buffers for frames of `mtu` bytes behind their
/// headers: the next power of two. Less of it is memory; that is no lie that matters, as
/// the firmware writes no more than a frame of the MTU.
pub fn big_size(mtu: usize) -> usize {
    (PAD + HEADER + TAG + mtu).next_power_of_two()
}

impl<W: Window> RxRing<W> {
    /// Takes memory for `count` buffers in each ring, a multiple of 8, for frames of up
    /// to `mtu` bytes behind their headers, and for a queue of `slots`.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        window: W,
        platform: &mut impl Platform,
        count: usize,
        mtu: usize,
        slots: usize,
    ) -> Result<Self, OutOfDmaMemory> {
        let needed = PAD + HEADER + TAG + mtu;
        // Up to a page none lies across the boundary of one.
        let size = match big_size(mtu) {
            size if size <= PAGE => size,
            _ => needed.next_multiple_of(PAGE),
        };
        Ok(Self {
            window,
            small: Ring::new(platform, count, (SMALL + PAD).next_power_of_two(), PAGE)?,
            big: Ring::new(platform, count, size, PAGE)?,
            queue: Words::new(platform, slots * SLOT_LEN, PAGE)?,
            next: 0,
            held: 0,
            replenish: REPLENISH,
            dropped: RxDropped::default(),
            frames: 0,
            bytes: 0,
        })
    }

    /// Where the queue is on the bus, and its bytes.
    pub fn queue(&self) -> (u64, usize) {
        (self.queue.bus(), self.queue.len())
    }

    /// How many buffers each ring has.
    pub fn count(&self) -> usize {
        self.big.buffers.count()
    }

    /// Frames and bytes delivered so far, with FCS.
    pub fn delivered(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    /// Empties the queue, before the card is told of it.
    pub fn clear(&mut self) {
        for at in (0..self.queue.len()).step_by(SLOT_LEN) {
            self.queue.write(at, 0);
        }
        self.next = 0;
        self.held = 0;
    }

    /// Gives the card all buffers, in rings that are at `places`.
    pub fn restart(&mut self, places: Places) {
        self.small.restart(&self.window, places.small, places.slots);
        self.big.restart(&self.window, places.big, places.slots);
    }

    /// The next frame's length and sum, if the card has delivered one.
    #[inline]
    fn completed(&self) -> Option<(usize, u16)> {
        let slot = self.queue.read(self.next);
        let (sum, len) = ((slot >> 16) as u16, (slot & 0xffff) as usize);
        if len == 0 {
            return None;
        }
        fence(Ordering::Acquire);
        Some((len, sum))
    }

    /// Marks the slot as read, and goes on to the next.
    #[inline]
    fn advance(&mut self) {
        self.queue.write(self.next, 0);
        self.next += SLOT_LEN;
        if self.next == self.queue.len() {
            self.next = 0;
        }
    }

    fn hand_back(&mut self) {
        self.held = 0;
        self.small.replenish(&self.window);
        self.big.replenish(&self.window);
    }
}

impl<W: Window> Receive for RxRing<W> {
    fn poll(&mut self, budget: usize, mut sink: impl FnMut(RxFrame<'_>)) -> usize {
        let mut delivered = 0;
        // Refused frames cost no budget, so the queue's length bounds the work.
        for _ in 0..self.queue.len() / SLOT_LEN {
            if delivered == budget {
                break;
            }
            let Some((len, sum)) = self.completed() else {
                break;
            };
            self.advance();
            let ring = if len <= SMALL {
                &mut self.small
            } else {
                &mut self.big
            };
            let number = ring.used;
            let is_sane = (HEADER..=ring.buffers.size() - PAD).contains(&len) && ring.free() > 0;
            if is_sane {
                ring.used += 1;
                let frame = &ring.bytes(number, PAD + len)[PAD..];
                sink(RxFrame {
                    bytes: frame,
                    checksum: checksum::verdict(frame, sum),
                });
                delivered += 1;
                self.bytes += len as u64 + 4;
            } else {
                self.dropped.length += 1;
                ring.used += usize::from(ring.free() > 0);
            }
            self.held += 1;
            if self.held >= self.replenish {
                self.hand_back();
            }
        }
        if self.held > 0 {
            self.hand_back();
        }
        self.frames += delivered as u64;
        delivered
    }

    fn pending(&self) -> bool {
        self.completed().is_some()
    }

    fn set_replenish(&mut self, frames: usize) {
        self.replenish = frames.clamp(1, self.count());
    }

    fn free_buffers(&self) -> usize {
        // Those that wait for a burst to be full are nobody else's.
        self.big.free().next_multiple_of(BURST)
    }

    fn dropped(&self) -> RxDropped {
        self.dropped
    }
}
