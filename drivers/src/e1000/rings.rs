//! The two rings: where a frame goes in and out.
//!
//! In either ring the NIC owns the descriptors from its head up to, but not
//! including, its tail register. Head equal to tail means that it owns none, so
//! one descriptor always stays with the driver (SDM 3.2.6 and 3.4).
//!
//! Order of memory accesses: the NIC sees what was stored before a tail register
//! is written, because [`Registers::write32`] promises it; the release fence in
//! front says the same to the compiler. The other way, the NIC writes a
//! descriptor's DD bit after the data, PCI keeps its writes in order, x86 does
//! not move a load before an earlier load, and the acquire fence keeps the
//! compiler from doing so.

use alloc::boxed::Box;
use alloc::vec;
use core::sync::atomic::{Ordering, fence};

use super::dma::DescriptorRing;
use super::offload::{CHECKSUMMED, Context, LAST, SuperSegment, Tso, longest_super_segment};
use super::pieces::{Cutter, LONGEST, Rules};
use super::received::Completed;
use super::regs::{RDBAH, RDBAL, RDH, RDLEN, RDT, TDBAH, TDBAL, TDH, TDLEN, TDT, TxBits};
use crate::buffers::Buffers;
use crate::hw::{DmaSlice, OutOfDmaMemory, Platform, Registers};
use crate::nic::{Offload, Receive, RxDropped, RxFrame, Transmit, TxError};

/// An Ethernet header: the shortest thing that is a frame.
const ETHERNET_HEADER: usize = 14;
/// The shortest frame on the wire, without CRC.
const SHORTEST_FRAME: usize = 60;
/// Bytes of a CRC.
const CRC: usize = 4;

/// How a receive ring is to be made.
pub struct RxLayout {
    /// Descriptors; a multiple of 8.
    pub ring: usize,
    /// Bytes in a buffer, as RCTL is told.
    pub buffer: usize,
    /// Whether the NIC strips the CRC.
    pub crc_stripped: bool,
}

/// Frames after which descriptors go back to the ring unless another number is set,
/// or a quarter of a small ring.
/// Each time is a write to the NIC, at which QEMU also looks for frames that wait.
const REPLENISH: usize = 32;

/// The receive ring. Descriptor *i* always has buffer *i*.
pub struct RxRing<R> {
    regs: R,
    ring: DescriptorRing,
    buffers: Buffers,
    /// The descriptor that the NIC completes next.
    next: usize,
    /// What RDT holds.
    tail: usize,
    /// Descriptors recycled since RDT was written.
    held: usize,
    replenish: usize,
    crc: usize,
    inside_long_frame: bool,
    dropped: RxDropped,
}

impl<R: Registers> RxRing<R> {
    /// Takes the memory. [`restart`](Self::restart) and [`open`](Self::open)
    /// hand it to the NIC.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        regs: R,
        platform: &mut impl Platform,
        layout: &RxLayout,
    ) -> Result<Self, OutOfDmaMemory> {
        // A buffer aligned to its size, a power of two, crosses no 64 KB line
        // (see `DescriptorRing::new`).
        Ok(Self {
            regs,
            ring: DescriptorRing::new(platform, layout.ring)?,
            buffers: Buffers::new(platform, layout.ring, layout.buffer, layout.buffer)?,
            next: 0,
            tail: 0,
            held: 0,
            replenish: REPLENISH.min(layout.ring / 4),
            crc: if layout.crc_stripped { 0 } else { CRC },
            inside_long_frame: false,
            dropped: RxDropped::default(),
        })
    }

    /// Tells the NIC, whose receiver is off, of a ring with no buffer.
    pub fn restart(&mut self) {
        for index in 0..self.ring.len() {
            self.ring.write(index, self.buffers.bus(index), 0);
        }
        self.next = 0;
        self.inside_long_frame = false;
        self.regs.write32(RDBAL, self.ring.bus() as u32);
        self.regs.write32(RDBAH, (self.ring.bus() >> 32) as u32);
        self.regs.write32(RDLEN, self.ring.bytes() as u32);
        self.regs.write32(RDH, 0);
        self.regs.write32(RDT, 0);
    }

    /// Hands all buffers to the NIC, whose receiver is on.
    pub fn open(&mut self) {
        self.hand_back();
    }

    /// The next descriptor, if the NIC has completed it.
    fn completed(&self) -> Option<Completed> {
        let completed = Completed::of(self.ring.high(self.next))?;
        fence(Ordering::Acquire);
        Some(completed)
    }

    /// The length of the whole good frame in this buffer, or nothing, counted.
    fn accept(&mut self, completed: Completed) -> Option<usize> {
        let len = completed.len().saturating_sub(self.crc);
        let whole = completed.ends_good_frame() && !self.inside_long_frame;
        if whole && (ETHERNET_HEADER..=self.buffers.size()).contains(&len) {
            return Some(len);
        }
        self.refuse(completed);
        None
    }

    #[cold]
    fn refuse(&mut self, completed: Completed) {
        let last = completed.ends_frame();
        let first = !core::mem::replace(&mut self.inside_long_frame, !last);
        if first && last && completed.broken() {
            self.dropped.errors += 1;
        } else {
            self.dropped.length += u64::from(last);
        }
    }

    /// Makes the next descriptor ready for the NIC, and now and then says so.
    fn recycle(&mut self) {
        self.ring.write(self.next, self.buffers.bus(self.next), 0);
        self.next = self.ring.after(self.next);
        self.held += 1;
        if self.held >= self.replenish {
            self.hand_back();
        }
    }

    fn hand_back(&mut self) {
        // One behind `next` keeps the gap: the NIC may fill up to there, and
        // finds head equal to tail only when it has filled everything.
        self.tail = self.ring.before(self.next);
        self.held = 0;
        fence(Ordering::Release);
        self.regs.write32(RDT, self.tail as u32);
    }
}

impl<R: Registers> Receive for RxRing<R> {
    fn poll(&mut self, budget: usize, mut sink: impl FnMut(RxFrame<'_>)) -> usize {
        let mut delivered = 0;
        // Refused frames cost no budget, so the ring's length bounds the work.
        for _ in 0..self.ring.len() {
            if delivered == budget {
                break;
            }
            let Some(completed) = self.completed() else {
                break;
            };
            if let Some(len) = self.accept(completed) {
                sink(RxFrame {
                    bytes: self.buffers.bytes(self.next, len),
                    checksum: completed.verdict(),
                });
                delivered += 1;
            }
            self.recycle();
        }
        if self.held > 0 {
            self.hand_back();
        }
        delivered
    }

    fn pending(&self) -> bool {
        self.completed().is_some()
    }

    fn set_replenish(&mut self, frames: usize) {
        self.replenish = frames.max(1);
    }

    fn free_buffers(&self) -> usize {
        let head = self.regs.read32(RDH) as usize % self.ring.len();
        self.ring.distance(head, self.tail)
    }

    fn dropped(&self) -> RxDropped {
        self.dropped
    }
}

/// How a transmit ring is to be made.
pub struct TxLayout {
    /// Descriptors; a multiple of 8.
    pub ring: usize,
    /// Longest frame in bytes, without CRC.
    pub max_frame: usize,
    /// How buffers have to be cut.
    pub rules: Rules,
    /// Buffers for super-segments that `fill` writes whole; 0 for no TSO.
    pub large: usize,
}

/// The transmit ring.
///
/// A frame has a *slot*, with a buffer for its header or for the whole of it,
/// and as many descriptors as it needs. A super-segment that is longer than that
/// buffer has one of a few *large* buffers instead. Slots, descriptors and large
/// buffers are used in turn.
pub struct TxRing<R> {
    regs: R,
    ring: DescriptorRing,
    buffers: Buffers,
    large: Option<Buffers>,
    /// The frames in flight, by slot.
    frames: Box<[InFlight]>,
    /// The slot of the oldest frame in flight.
    oldest: usize,
    /// The slot of the next frame.
    next: usize,
    /// Frames in flight.
    in_flight: usize,
    /// How many of them the NIC has been told of.
    told: usize,
    /// The next descriptor to fill.
    tail: usize,
    /// Descriptors that can be filled.
    unused: usize,
    /// The next large buffer.
    next_large: usize,
    /// Large buffers that are not in flight.
    free_large: usize,
    /// What the NIC was last told of checksums; it keeps that.
    context: Option<Context>,
    /// Whether the last frame was a super-segment.
    after_tso: bool,
    tso: Tso,
    tso_max_bytes: usize,
    max_frame: usize,
    rules: Rules,
    /// Descriptors that a frame without fragments may need.
    descriptors_a_frame: usize,
    reclaimed: u64,
}

/// What a slot's frame holds until it is sent.
#[derive(Clone, Copy, Default)]
struct InFlight {
    /// Its last descriptor.
    last: u32,
    descriptors: u16,
    large: bool,
}

/// What a frame needs of the ring.
struct Need {
    /// Bytes of the whole frame.
    len: usize,
    /// Bytes in its longest descriptor.
    longest: usize,
    /// Whether its last bytes get a descriptor of their own.
    sentinel: bool,
    large: bool,
    work: Work,
}

/// What the NIC is to do to a frame.
enum Work {
    Nothing,
    Checksum(Context),
    Cut(SuperSegment),
}

impl<R: Registers> TxRing<R> {
    /// Takes the memory. [`restart`](Self::restart) hands the ring to the NIC.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        regs: R,
        platform: &mut impl Platform,
        layout: &TxLayout,
    ) -> Result<Self, OutOfDmaMemory> {
        let (ring, frame, rules) = (layout.ring, layout.max_frame, layout.rules);
        // Slots are as many as can be queued whatever they ask for, so `free`
        // is true for any mix: each may need a context descriptor besides its
        // own. The first behind a super-segment may need a sentinel, and one
        // descriptor stays unused.
        let descriptors_a_frame = 1 + rules.most(frame, LONGEST) + rules.extra(frame, false);
        let slots = (ring - 2) / descriptors_a_frame;
        // Cache lines of their own, so that filling one buffer and the NIC's
        // reading of its neighbour do not meet.
        let size = frame.max(SHORTEST_FRAME).next_multiple_of(64);
        let tso_max_bytes = longest_super_segment(ring - 1, rules);
        let large = match layout.large {
            0 => None,
            count => Some(Buffers::new(
                platform,
                count,
                tso_max_bytes.next_multiple_of(64),
                64,
            )?),
        };
        Ok(Self {
            regs,
            ring: DescriptorRing::new(platform, ring)?,
            buffers: Buffers::new(platform, slots, size, 64)?,
            large,
            frames: vec![InFlight::default(); slots].into_boxed_slice(),
            oldest: 0,
            next: 0,
            in_flight: 0,
            told: 0,
            tail: 0,
            unused: ring - 1,
            next_large: 0,
            free_large: layout.large,
            context: None,
            after_tso: false,
            tso: Tso::default(),
            tso_max_bytes,
            max_frame: frame,
            rules,
            descriptors_a_frame,
            reclaimed: 0,
        })
    }

    /// Says what may be cut from now on. Returns it, and the longest
    /// super-segment in bytes: nothing, and 0, where there are no buffers for it.
    pub fn set_tso(&mut self, tso: Tso) -> (Tso, usize) {
        self.tso = if self.large.is_some() {
            tso
        } else {
            Tso::default()
        };
        let any = self.tso.v4 || self.tso.v6;
        (self.tso, if any { self.tso_max_bytes } else { 0 })
    }

    /// Hands the empty ring to the NIC, whose transmitter is off. Frames in
    /// flight are lost and their buffers are free.
    pub fn restart(&mut self) {
        for index in 0..self.ring.len() {
            self.ring.write(index, 0, 0);
        }
        self.oldest = 0;
        self.next = 0;
        self.in_flight = 0;
        self.told = 0;
        self.tail = 0;
        self.unused = self.ring.len() - 1;
        self.next_large = 0;
        self.free_large = self.large.as_ref().map_or(0, Buffers::count);
        self.context = None;
        self.after_tso = false;
        self.regs.write32(TDBAL, self.ring.bus() as u32);
        self.regs.write32(TDBAH, (self.ring.bus() >> 32) as u32);
        self.regs.write32(TDLEN, self.ring.bytes() as u32);
        self.regs.write32(TDH, 0);
        fence(Ordering::Release);
        self.regs.write32(TDT, 0);
    }

    /// What a look at the transmitter shows, if it has been told of frames and
    /// has not finished the last: two equal looks mean that nothing moved.
    pub fn unfinished(&self) -> Option<(u64, u32)> {
        let last = (self.oldest + self.told.checked_sub(1)?) % self.frames.len();
        (!self.done(&self.frames[last])).then(|| (self.reclaimed, self.regs.read32(TDH)))
    }

    fn done(&self, frame: &InFlight) -> bool {
        self.ring.high(frame.last as usize) & TxBits::DD.bits() != 0
    }

    /// The slot after `slot`.
    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.frames.len() {
            0
        } else {
            slot + 1
        }
    }

    /// What a frame needs, if it can be sent and there is room for it.
    #[inline]
    fn need(&self, filled: usize, payload: &[DmaSlice], offload: Offload) -> Result<Need, TxError> {
        let len = payload
            .iter()
            .fold(filled, |sum, piece| sum.saturating_add(piece.len));
        let mut need = Need {
            len,
            longest: LONGEST,
            sentinel: self.after_tso && payload.is_empty(),
            large: false,
            work: Work::Nothing,
        };
        let mut fits = (ETHERNET_HEADER..=self.max_frame).contains(&len);
        let mut descriptors = 0;
        match offload {
            Offload::None => {}
            Offload::Checksum { start, offset } => {
                let context = Context::checksum(start, offset, len)?;
                need.work = Work::Checksum(context);
                descriptors = usize::from(self.context != Some(context));
            }
            Offload::Tso { ipv6, mss } => {
                let whole = SuperSegment { ipv6, mss };
                fits =
                    len <= self.tso_max_bytes && whole.fits(self.tso, filled, len, self.max_frame);
                need.longest = self.rules.longest_tso(mss);
                need.sentinel = true;
                need.large = filled > self.buffers.size();
                need.work = Work::Cut(whole);
                descriptors = 1;
            }
        }
        if !fits {
            return Err(TxError::Unsupported);
        }
        descriptors += self.rules.most(filled, need.longest) + self.rules.extra(len, need.sentinel);
        for piece in payload {
            descriptors += self.rules.most(piece.len, need.longest);
        }
        if descriptors > self.unused
            || self.in_flight == self.frames.len()
            || need.large && self.free_large == 0
        {
            let never = descriptors >= self.ring.len();
            return Err(if never {
                TxError::Unsupported
            } else {
                TxError::RingFull
            });
        }
        Ok(need)
    }

    fn push(&mut self, low: u64, high: u64) {
        self.ring.write(self.tail, low, high);
        self.tail = self.ring.after(self.tail);
        self.unused -= 1;
    }

    /// Writes the descriptor of a piece that need not be cut, where `left` bytes
    /// of the frame have none yet. Returns how many are left then.
    fn push_whole(&mut self, piece: DmaSlice, left: usize, command: TxBits) -> usize {
        if piece.len == left {
            self.push(piece.bus, piece.len as u64 | (command | LAST).bits());
        } else if piece.len > 0 {
            self.push(piece.bus, piece.len as u64 | command.bits());
        }
        left - piece.len
    }

    /// Writes the descriptors of a piece that may have to be cut.
    #[inline(never)]
    fn push_cut(&mut self, mut piece: DmaSlice, cutter: &mut Cutter, command: TxBits) {
        while piece.len > 0 {
            let bus = piece.bus;
            let (len, last) = cutter.next(&mut piece);
            let end = if last { LAST } else { TxBits::empty() };
            self.push(bus, len as u64 | (command | end).bits());
        }
    }
}

impl<R: Registers> Transmit for TxRing<R> {
    fn send<T>(
        &mut self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, TxError> {
        let need = self.need(header_len, payload, offload)?;
        // Gathered frames are padded by the NIC (TCTL.PSP), whole ones here, so
        // that an emulation that knows no padding sends them right.
        let padding = if payload.is_empty() {
            SHORTEST_FRAME.saturating_sub(header_len)
        } else {
            0
        };
        let (buffers, index) = match &mut self.large {
            Some(large) if need.large => (large, self.next_large),
            _ => (&mut self.buffers, self.next),
        };
        let header = DmaSlice {
            bus: buffers.bus(index),
            len: header_len + padding,
        };
        let (filled, zeroes) = buffers
            .bytes_mut(index, header.len)
            .split_at_mut(header_len);
        zeroes.fill(0);
        let result = fill(filled);

        let (context, command) = match need.work {
            Work::Nothing => (None, TxBits::IFCS),
            Work::Checksum(context) => (Some(context), CHECKSUMMED),
            Work::Cut(whole) => {
                let (context, command) = whole.prepare(filled, need.len);
                (Some(context), command)
            }
        };
        let unused = self.unused;
        self.after_tso = command.contains(TxBits::TSE);
        if let Some(context) = context.filter(|_| context != self.context) {
            self.push(context.low, context.high);
            // A super-segment's is good for one. Whether the one for frames
            // outlives it differs from part to part.
            self.context = Some(context).filter(|_| !self.after_tso);
        }
        let len = need.len + padding;
        if len <= need.longest && !need.sentinel && !self.rules.pci_x {
            let mut left = self.push_whole(header, len, command);
            for piece in payload.iter().filter(|piece| piece.len > 0) {
                left = self.push_whole(*piece, left, command);
            }
        } else {
            let mut cutter = Cutter::new(self.rules, len, need.longest, need.sentinel);
            self.push_cut(header, &mut cutter, command);
            for piece in payload {
                self.push_cut(*piece, &mut cutter, command);
            }
        }
        self.frames[self.next] = InFlight {
            last: self.ring.before(self.tail) as u32,
            descriptors: (unused - self.unused) as u16,
            large: need.large,
        };
        if need.large {
            self.free_large -= 1;
            self.next_large += 1;
            if self.large.as_ref().map(Buffers::count) == Some(self.next_large) {
                self.next_large = 0;
            }
        }
        self.next = self.after(self.next);
        self.in_flight += 1;
        Ok(result)
    }

    fn accepts(
        &self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
    ) -> Result<(), TxError> {
        self.need(header_len, payload, offload).map(|_| ())
    }

    fn flush(&mut self) {
        if self.told != self.in_flight {
            fence(Ordering::Release);
            self.regs.write32(TDT, self.tail as u32);
            self.told = self.in_flight;
        }
    }

    fn reclaim(&mut self) -> usize {
        let before = self.told;
        while self.told > 0 {
            let frame = self.frames[self.oldest];
            if !self.done(&frame) {
                break;
            }
            self.unused += usize::from(frame.descriptors);
            self.free_large += usize::from(frame.large);
            self.oldest = self.after(self.oldest);
            self.told -= 1;
        }
        fence(Ordering::Acquire);
        let frames = before - self.told;
        self.in_flight -= frames;
        self.reclaimed += frames as u64;
        frames
    }

    fn free(&self) -> usize {
        // `unused` is 0 behind a super-segment that took all there was.
        let descriptors = self.unused.saturating_sub(self.after_tso.into());
        (self.frames.len() - self.in_flight).min(descriptors / self.descriptors_a_frame)
    }

    fn capacity(&self) -> usize {
        self.frames.len()
    }
}
