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

use super::dma::{Buffers, DescriptorRing};
use super::regs::{
    RDBAH, RDBAL, RDH, RDLEN, RDT, RxErrors, RxStatus, TDBAH, TDBAL, TDH, TDLEN, TDT, TxBits,
};
use crate::hw::{DmaSlice, OutOfDmaMemory, Platform, Registers};
use crate::nic::{Offload, Receive, RxChecksum, RxDropped, RxFrame, Transmit, TxError};

/// An Ethernet header: the shortest thing that is a frame.
const ETHERNET_HEADER: usize = 14;
/// The shortest frame on the wire, without CRC.
const SHORTEST_FRAME: usize = 60;
/// Bytes of a CRC.
const CRC: usize = 4;
/// Bytes cut off a piece of memory that ends where an 82544 must not stop.
const SAFE_TAIL: usize = 4;

/// How a receive ring is to be made.
pub struct RxLayout {
    /// Descriptors; a multiple of 8.
    pub ring: usize,
    /// Bytes in a buffer, as RCTL is told.
    pub buffer: usize,
    /// Whether the NIC strips the CRC.
    pub crc_stripped: bool,
}

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

/// A receive descriptor that the NIC has completed.
#[derive(Clone, Copy)]
struct Completed {
    len: usize,
    status: RxStatus,
    errors: RxErrors,
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
            replenish: 1,
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

    /// The next descriptor, if the NIC has completed it (SDM 3.2.3).
    fn completed(&self) -> Option<Completed> {
        let high = self.ring.high(self.next);
        let [len_low, len_high, _, _, status, errors, _, _] = high.to_le_bytes();
        let status = RxStatus::from_bits_retain(status);
        if !status.contains(RxStatus::DD) {
            return None;
        }
        fence(Ordering::Acquire);
        Some(Completed {
            len: u16::from_le_bytes([len_low, len_high]).into(),
            status,
            errors: RxErrors::from_bits_retain(errors),
        })
    }

    /// The length of the whole good frame in this buffer, or nothing, counted.
    fn accept(&mut self, completed: Completed) -> Option<usize> {
        let last = completed.status.contains(RxStatus::EOP);
        let first = !core::mem::replace(&mut self.inside_long_frame, !last);
        if !(first && last) {
            self.dropped.length += u64::from(last);
            return None;
        }
        let broken = RxErrors::CE | RxErrors::SE | RxErrors::SEQ | RxErrors::CXE | RxErrors::RXE;
        if completed.errors.intersects(broken) {
            self.dropped.errors += 1;
            return None;
        }
        let len = completed.len.saturating_sub(self.crc);
        if !(ETHERNET_HEADER..=self.buffers.size()).contains(&len) {
            self.dropped.length += 1;
            return None;
        }
        Some(len)
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
                    checksum: verdict(completed),
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

/// What the NIC says of a frame's checksums (SDM 3.2.9).
fn verdict(completed: Completed) -> RxChecksum {
    let Completed { status, errors, .. } = completed;
    if status.contains(RxStatus::IXSM) {
        RxChecksum::Unknown
    } else if errors.intersects(RxErrors::IPE | RxErrors::TCPE) {
        RxChecksum::Bad
    } else if status.contains(RxStatus::TCPCS) {
        // Without IPCS it is IPv6, whose header has no checksum.
        RxChecksum::Good
    } else if status.contains(RxStatus::IPCS) {
        RxChecksum::IpGood
    } else {
        RxChecksum::Unknown
    }
}

/// How a transmit ring is to be made.
pub struct TxLayout {
    /// Descriptors; a multiple of 8.
    pub ring: usize,
    /// Longest frame in bytes, without CRC.
    pub max_frame: usize,
    /// Whether buffers may not end just anywhere: an 82544 on PCI-X.
    pub split_ends: bool,
}

/// Where a checksum starts and goes: what a context descriptor tells the NIC.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Context {
    start: u8,
    offset: u8,
}

/// The transmit ring.
///
/// A frame has a *slot*, with a buffer for its header or for the whole of it,
/// and as many descriptors as it needs. Slots and descriptors are used in turn.
pub struct TxRing<R> {
    regs: R,
    ring: DescriptorRing,
    buffers: Buffers,
    /// The last descriptor of each slot's frame.
    last: Box<[usize]>,
    /// The slot of the oldest frame in flight.
    oldest: usize,
    /// Frames in flight.
    in_flight: usize,
    /// How many of them the NIC has been told of.
    told: usize,
    /// The oldest descriptor in flight.
    clean: usize,
    /// The next descriptor to fill.
    tail: usize,
    /// What the NIC was last told of checksums; it keeps that.
    context: Option<Context>,
    max_frame: usize,
    split_ends: bool,
    reclaimed: u64,
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
        // Slots are as many as can be queued whatever they ask for, so `free`
        // is true for any mix: each may need a context descriptor, its own, and
        // one more where ends are split.
        let descriptors_a_frame = if layout.split_ends { 3 } else { 2 };
        let slots = (layout.ring - 1) / descriptors_a_frame;
        // Cache lines of their own, so that filling one buffer and the NIC's
        // reading of its neighbour do not meet.
        let size = layout.max_frame.max(SHORTEST_FRAME).next_multiple_of(64);
        Ok(Self {
            regs,
            ring: DescriptorRing::new(platform, layout.ring)?,
            buffers: Buffers::new(platform, slots, size, 64)?,
            last: vec![0; slots].into_boxed_slice(),
            oldest: 0,
            in_flight: 0,
            told: 0,
            clean: 0,
            tail: 0,
            context: None,
            max_frame: layout.max_frame,
            split_ends: layout.split_ends,
            reclaimed: 0,
        })
    }

    /// Hands the empty ring to the NIC, whose transmitter is off. Frames in
    /// flight are lost and their buffers are free.
    pub fn restart(&mut self) {
        for index in 0..self.ring.len() {
            self.ring.write(index, 0, 0);
        }
        self.oldest = 0;
        self.in_flight = 0;
        self.told = 0;
        self.clean = 0;
        self.tail = 0;
        self.context = None;
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
        let last = (self.oldest + self.told.checked_sub(1)?) % self.buffers.count();
        (!self.done(last)).then(|| (self.reclaimed, self.regs.read32(TDH)))
    }

    fn done(&self, slot: usize) -> bool {
        self.ring.high(self.last[slot]) & TxBits::DD.bits() != 0
    }

    fn unused(&self) -> usize {
        self.ring.len() - 1 - self.ring.distance(self.clean, self.tail)
    }

    /// The lengths of the one or two descriptors for a piece of memory; the
    /// second may be 0.
    fn cut(&self, piece: DmaSlice) -> (usize, usize) {
        if self.split_ends && piece.len > SAFE_TAIL && ends_badly(piece) {
            (piece.len - SAFE_TAIL, SAFE_TAIL)
        } else {
            (piece.len, 0)
        }
    }

    fn descriptors_for(&self, piece: DmaSlice) -> usize {
        match self.cut(piece) {
            (0, _) => 0,
            (_, 0) => 1,
            _ => 2,
        }
    }

    /// Writes the descriptors of one piece of a frame; returns the last's index.
    fn push_piece(&mut self, piece: DmaSlice, command: TxBits) {
        let (first, second) = self.cut(piece);
        if first > 0 {
            self.push(piece.bus, first as u64 | command.bits());
        }
        if second > 0 {
            self.push(piece.bus + first as u64, second as u64 | command.bits());
        }
    }

    fn push(&mut self, low: u64, high: u64) {
        self.ring.write(self.tail, low, high);
        self.tail = self.ring.after(self.tail);
    }

    /// Tells the NIC where the checksums of the frames that follow lie (SDM 3.3.6).
    fn push_context(&mut self, context: Context) {
        let summed = u64::from(context.start) | u64::from(context.offset) << 8;
        // TCP keeps its checksum 16 bytes in. For UDP, at 6, the NIC sends a
        // result of 0 as 0xffff.
        let tcp = if context.offset.wrapping_sub(context.start) == 16 {
            TxBits::TCP
        } else {
            TxBits::empty()
        };
        self.push(summed << 32, (TxBits::DEXT | tcp).bits());
        self.context = Some(context);
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
        let len = payload
            .iter()
            .fold(header_len, |sum, piece| sum.saturating_add(piece.len));
        if !(ETHERNET_HEADER..=self.max_frame).contains(&len) {
            return Err(TxError::Unsupported);
        }
        let context = context_for(offload, len)?;
        let new_context = context.filter(|_| context != self.context);

        let slot = (self.oldest + self.in_flight) % self.buffers.count();
        // Gathered frames are padded by the NIC (TCTL.PSP), whole ones here, so
        // that an emulation that knows no padding sends them right.
        let padded = if payload.is_empty() {
            header_len.max(SHORTEST_FRAME)
        } else {
            header_len
        };
        let header = DmaSlice {
            bus: self.buffers.bus(slot),
            len: padded,
        };
        let pieces = || core::iter::once(header).chain(payload.iter().copied());
        let needed = usize::from(new_context.is_some())
            + pieces()
                .map(|piece| self.descriptors_for(piece))
                .sum::<usize>();
        if needed >= self.ring.len() {
            return Err(TxError::Unsupported);
        }
        if self.in_flight == self.buffers.count() || needed > self.unused() {
            return Err(TxError::RingFull);
        }

        let buffer = self.buffers.bytes_mut(slot, padded);
        let (frame, padding) = buffer.split_at_mut(header_len);
        padding.fill(0);
        let result = fill(frame);

        if let Some(context) = new_context {
            self.push_context(context);
        }
        let command = match context {
            None => TxBits::IFCS,
            Some(_) => TxBits::DEXT | TxBits::DTYP_DATA | TxBits::IFCS | TxBits::POPTS_TXSM,
        };
        for piece in pieces() {
            self.push_piece(piece, command);
        }
        // A report for every frame: its write-back shares the burst with its
        // neighbours', and buffers come back in order and at once.
        let last = self.ring.before(self.tail);
        self.ring.set_high(last, (TxBits::EOP | TxBits::RS).bits());
        self.last[slot] = last;
        self.in_flight += 1;
        Ok(result)
    }

    fn flush(&mut self) {
        if self.told != self.in_flight {
            fence(Ordering::Release);
            self.regs.write32(TDT, self.tail as u32);
            self.told = self.in_flight;
        }
    }

    fn reclaim(&mut self) -> usize {
        let mut frames = 0;
        while self.told > 0 && self.done(self.oldest) {
            self.clean = self.ring.after(self.last[self.oldest]);
            self.oldest = (self.oldest + 1) % self.buffers.count();
            self.in_flight -= 1;
            self.told -= 1;
            frames += 1;
        }
        fence(Ordering::Acquire);
        self.reclaimed += frames as u64;
        frames
    }

    fn free(&self) -> usize {
        let slots = self.buffers.count();
        let descriptors_a_frame = if self.split_ends { 3 } else { 2 };
        (slots - self.in_flight).min(self.unused() / descriptors_a_frame)
    }

    fn capacity(&self) -> usize {
        self.buffers.count()
    }
}

/// The context that an offload asks for; `len` is the frame's.
fn context_for(offload: Offload, len: usize) -> Result<Option<Context>, TxError> {
    match offload {
        Offload::None => Ok(None),
        Offload::Checksum { start, offset } => {
            let fits = usize::from(start) < len && usize::from(offset) + 2 <= len;
            match (u8::try_from(start), u8::try_from(offset)) {
                (Ok(start), Ok(offset)) if fits => Ok(Some(Context { start, offset })),
                _ => Err(TxError::Unsupported),
            }
        }
        Offload::Tso { .. } => Err(TxError::Unsupported),
    }
}

/// Whether an 82544 on PCI-X hangs over a buffer that ends as this one does.
///
/// It does when the end, counted from the last 8-byte line before the start,
/// falls on bytes 1 to 4 of an 8-byte line (the erratum as the BSD drivers
/// state it). Cutting off [`SAFE_TAIL`] bytes moves the end to a good place, and
/// a piece as short as that is safe wherever it ends.
fn ends_badly(piece: DmaSlice) -> bool {
    let end = (piece.bus & 7) + (piece.len as u64 & 15);
    (1..=4).contains(&(end & 7))
}
