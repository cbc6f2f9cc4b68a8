//! The receive ring.
//!
//! There is no register that says how far the NIC or the driver is: a descriptor's top
//! bit says whose it is, and the NIC waits at the first that is not its own. To hand one
//! back is a store to memory. Whatever the NIC wrote of a frame was written before that
//! bit (PCI keeps its writes in order, x86 its loads; the acquire fence keeps the
//! compiler from changing that).

use core::sync::atomic::{Ordering, fence};

use super::descriptor::{OWNED, Received, received, verdict};
use super::dma::DescriptorRing;
use super::ids::Format;
use crate::buffers::Buffers;
use crate::hw::{OutOfDmaMemory, Platform};
use crate::nic::{Receive, RxChecksum, RxDropped, RxFrame};

/// An Ethernet header: the shortest thing that is a frame.
const ETHERNET_HEADER: usize = 14;
/// Bytes behind a buffer that stay unused, as the open drivers leave some for a NIC that
/// writes a little too much.
const SLACK: usize = 64;
/// Frames after which descriptors go back unless another number is set: those of a
/// cache line or two.
const REPLENISH: usize = 8;

/// The receive ring. Descriptor *i* always has buffer *i*.
pub struct RxRing {
    format: Format,
    /// The NIC checks checksums. What one that does not says of them means nothing.
    checks: bool,
    ring: DescriptorRing,
    buffers: Buffers,
    /// Bytes that the NIC may write to a buffer.
    room: usize,
    /// The descriptor that the NIC completes next.
    next: usize,
    /// Completed descriptors before `next` that have not gone back.
    held: usize,
    replenish: usize,
    dropped: RxDropped,
    frames: u64,
    bytes: u64,
}

impl RxRing {
    /// Takes the memory for `len` descriptors with buffers of `room` bytes, of a NIC that
    /// may check checksums.
    /// [`restart`](Self::restart) hands it to the NIC.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        platform: &mut impl Platform,
        format: Format,
        checks: bool,
        len: usize,
        room: usize,
    ) -> Result<Self, OutOfDmaMemory> {
        let size = (room + SLACK).next_multiple_of(64);
        Ok(Self {
            format,
            checks,
            ring: DescriptorRing::new(platform, format, len)?,
            buffers: Buffers::new(platform, len, size, 64)?,
            room,
            next: 0,
            held: 0,
            replenish: REPLENISH.min(len / 4).max(1),
            dropped: RxDropped::default(),
            frames: 0,
            bytes: 0,
        })
    }

    /// Where the ring is on the bus.
    pub fn bus(&self) -> u64 {
        self.ring.bus()
    }

    /// How many descriptors there are.
    pub fn descriptors(&self) -> usize {
        self.ring.len()
    }

    /// Where the memory of ring and buffers ends on the bus.
    pub fn bus_end(&self) -> u64 {
        let last = self.buffers.count() - 1;
        let buffers = self.buffers.bus(last) + self.buffers.size() as u64;
        self.ring.bus_end().max(buffers)
    }

    /// Frames and bytes delivered so far, with FCS.
    pub fn delivered(&self) -> (u64, u64) {
        (self.frames, self.bytes)
    }

    /// Hands all buffers to the NIC, whose receiver is off, as it begins anew at the
    /// first.
    pub fn restart(&mut self) {
        self.next = 0;
        self.held = 0;
        for index in 0..self.ring.len() {
            self.hand_over(index);
        }
    }

    #[inline]
    fn hand_over(&mut self, index: usize) {
        // The NIC has overwritten the address in the third format.
        let bus = self.buffers.bus(index);
        self.ring.write(index, bus, OWNED | self.room as u32);
    }

    /// The next descriptor's flags, if the NIC has completed it.
    #[inline]
    fn completed(&self) -> Option<u32> {
        let flags = self.ring.flags(self.next);
        if self.held == self.ring.len() || flags & OWNED != 0 {
            return None;
        }
        fence(Ordering::Acquire);
        Some(flags)
    }

    /// The length of the good frame that `flags` say, or nothing, counted.
    #[inline]
    fn accept(&mut self, flags: u32) -> Option<usize> {
        let outcome = received(self.format, flags);
        if let Received::Frame(len) = outcome
            && (ETHERNET_HEADER..=self.room).contains(&len)
        {
            return Some(len);
        }
        self.refuse(outcome);
        None
    }

    #[cold]
    fn refuse(&mut self, outcome: Received) {
        match outcome {
            Received::Broken => self.dropped.errors += 1,
            Received::Frame(_) | Received::WrongLength => self.dropped.length += 1,
        }
    }

    #[inline]
    fn recycle(&mut self) {
        self.next = self.ring.after(self.next);
        self.held += 1;
        if self.held >= self.replenish {
            self.hand_back();
        }
    }

    fn hand_back(&mut self) {
        let len = self.ring.len();
        let mut index = (self.next + len - self.held) % len;
        for _ in 0..self.held {
            self.hand_over(index);
            index = self.ring.after(index);
        }
        self.held = 0;
    }
}

impl Receive for RxRing {
    fn poll(&mut self, budget: usize, mut sink: impl FnMut(RxFrame<'_>)) -> usize {
        let mut delivered = 0;
        // Refused frames cost no budget, so the ring's length bounds the work.
        for _ in 0..self.ring.len() {
            if delivered == budget {
                break;
            }
            let Some(flags) = self.completed() else {
                break;
            };
            if let Some(len) = self.accept(flags) {
                sink(RxFrame {
                    bytes: self.buffers.bytes(self.next, len),
                    checksum: if self.checks {
                        verdict(flags)
                    } else {
                        RxChecksum::Unknown
                    },
                });
                delivered += 1;
                self.bytes += len as u64 + 4;
            }
            self.recycle();
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
        self.replenish = frames.clamp(1, self.ring.len());
    }

    fn free_buffers(&self) -> usize {
        (0..self.ring.len())
            .filter(|index| self.ring.flags(*index) & OWNED != 0)
            .count()
    }

    fn dropped(&self) -> RxDropped {
        self.dropped
    }
}
