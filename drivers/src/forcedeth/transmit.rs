//! The transmit ring.
//!
//! A frame has a *slot*, with a buffer for its header or for the whole of it, and as many
//! descriptors as it needs. A super-segment that is longer than that buffer has one of a
//! few *large* buffers instead. Slots, descriptors and large buffers are used in turn.
//!
//! The NIC may look at the ring at any time, not only when it is told to: a frame is its
//! own from the moment that its first descriptor's top bit is set, which is the last
//! thing done. Between queueing and that, a frame is *queued*, then *released* by a
//! flush, and *told* once the bit is set: some members of the family hang with more than
//! so many frames under way, and what is beyond waits for a reclaim.

use alloc::boxed::Box;
use alloc::vec;
use core::sync::atomic::{Ordering, fence};

use super::descriptor::{LONGEST, LONGEST_V1, OWNED, TX_CHECKSUMS, tx_cut, tx_failed, tx_last};
use super::dma::DescriptorRing;
use super::ids::Format;
use super::regs::{TX_RX_CONTROL, TxRx};
use crate::buffers::Buffers;
use crate::gso::{self, Layout};
use crate::hw::{DmaSlice, OutOfDmaMemory, Platform, Registers};
use crate::nic::{Offload, TSO_INLINE, Transmit, TxError};

/// An Ethernet header: the shortest thing that is a frame.
const ETHERNET_HEADER: usize = 14;
/// The shortest frame on the wire, without FCS.
const SHORTEST_FRAME: usize = 60;
/// The longest IP packet, behind an Ethernet header.
const LONGEST_SUPER_SEGMENT: usize = ETHERNET_HEADER + 65_535;
/// The smallest MSS to be cut by: below it the headers are most of what is sent.
const SMALLEST_MSS: u16 = 64;
/// Where TCP and UDP begin behind an IPv4 header without options. The NIC finds the
/// headers itself, and only those are known to be found.
const TRANSPORT: u16 = 34;
/// Buffers of 64 KB for super-segments: a dozen segments each at the least, so that the
/// wire stays busy while some are being filled.
const LARGE_BUFFERS: usize = 32;

/// How a transmit ring is to be made.
pub struct TxLayout {
    /// The descriptors' format.
    pub format: Format,
    /// Descriptors.
    pub ring: usize,
    /// Longest frame in bytes, without FCS.
    pub max_frame: usize,
    /// Whether the NIC inserts checksums and cuts.
    pub offloads: bool,
    /// Frames that may be under way.
    pub limit: usize,
    /// Bus addresses that the NIC reaches end before this one.
    pub dma_end: u64,
    /// What the control register holds besides the doorbell.
    pub control: TxRx,
}

/// The transmit ring.
pub struct TxRing<R> {
    regs: R,
    layout: TxLayout,
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
    /// How many of them were flushed.
    released: usize,
    /// How many of them the NIC owns or has sent.
    told: usize,
    /// The next descriptor to fill.
    tail: usize,
    /// Descriptors that can be filled.
    unused: usize,
    /// The next large buffer.
    next_large: usize,
    /// Large buffers that are not in flight.
    free_large: usize,
    /// Descriptors that a frame without fragments may need.
    descriptors_a_frame: usize,
    reclaimed: u64,
    bytes: u64,
    failed: u64,
}

/// What a slot's frame holds until it is sent.
#[derive(Clone, Copy, Default)]
struct InFlight {
    /// Its first descriptor, and the flags that hand it over.
    first: u32,
    flags: u32,
    /// Its last descriptor.
    last: u32,
    /// Bytes, with FCS.
    bytes: u32,
    descriptors: u16,
    large: bool,
}

/// What a frame needs of the ring.
struct Need {
    /// Bytes of the whole frame.
    len: usize,
    large: bool,
    /// What its first descriptor asks for; a super-segment's is known when its headers
    /// are written.
    request: u32,
    cut: Option<u16>,
}

/// The descriptors of one frame: the first and the last, each with its flags.
#[derive(Default)]
struct Chain {
    first: (usize, u32),
    last: (usize, u32),
    begun: bool,
}

impl Chain {
    /// Adds descriptor `index` with `len` bytes, and returns its flags. The first is the
    /// NIC's own only when the frame is handed over; those behind it can be at once.
    fn add(&mut self, index: usize, len: usize) -> u32 {
        let flags = len as u32 - 1;
        if self.begun {
            self.last = (index, flags | OWNED);
        } else {
            self.first = (index, flags);
            self.last = self.first;
            self.begun = true;
        }
        self.last.1
    }
}

impl<R: Registers> TxRing<R> {
    /// Takes the memory. [`restart`](Self::restart) makes it an empty ring.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        regs: R,
        platform: &mut impl Platform,
        layout: TxLayout,
    ) -> Result<Self, OutOfDmaMemory> {
        let descriptors_a_frame = layout.max_frame.div_ceil(longest(layout.format));
        // One descriptor stays unused, so that the NIC always finds an end.
        let slots = (layout.ring - 1) / descriptors_a_frame;
        // Cache lines of their own, so that filling one buffer and the NIC's reading of
        // its neighbour do not meet.
        let size = layout.max_frame.max(SHORTEST_FRAME).next_multiple_of(64);
        let large = if layout.offloads {
            let size = LONGEST_SUPER_SEGMENT.next_multiple_of(64);
            Some(Buffers::new(platform, LARGE_BUFFERS, size, 64)?)
        } else {
            None
        };
        Ok(Self {
            regs,
            ring: DescriptorRing::new(platform, layout.format, layout.ring)?,
            buffers: Buffers::new(platform, slots, size, 64)?,
            large,
            frames: vec![InFlight::default(); slots].into_boxed_slice(),
            oldest: 0,
            next: 0,
            in_flight: 0,
            released: 0,
            told: 0,
            tail: 0,
            unused: layout.ring - 1,
            next_large: 0,
            free_large: 0,
            descriptors_a_frame,
            reclaimed: 0,
            bytes: 0,
            failed: 0,
            layout,
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
        let end = |buffers: &Buffers| buffers.bus(buffers.count() - 1) + buffers.size() as u64;
        let large = self.large.as_ref().map_or(0, end);
        self.ring.bus_end().max(end(&self.buffers)).max(large)
    }

    /// The longest super-segment in bytes; 0 where it cannot cut.
    pub fn tso_max_bytes(&self) -> usize {
        let pieces = LONGEST_SUPER_SEGMENT.div_ceil(LONGEST) + 1;
        match self.large {
            Some(_) if pieces < self.ring.len() => LONGEST_SUPER_SEGMENT,
            _ => 0,
        }
    }

    /// Frames and bytes sent so far, with FCS, and frames that could not be.
    pub fn sent(&self) -> (u64, u64, u64) {
        (self.reclaimed - self.failed, self.bytes, self.failed)
    }

    /// Frames that wait for others to be sent first.
    pub fn is_holding_back(&self) -> bool {
        self.released > self.told
    }

    /// Makes the ring empty, while the transmitter is off. Frames in flight are lost and
    /// their buffers are free.
    pub fn restart(&mut self) {
        for index in 0..self.ring.len() {
            self.ring.write(index, 0, 0);
        }
        self.oldest = 0;
        self.next = 0;
        self.in_flight = 0;
        self.released = 0;
        self.told = 0;
        self.tail = 0;
        self.unused = self.ring.len() - 1;
        self.next_large = 0;
        self.free_large = self.large.as_ref().map_or(0, Buffers::count);
    }

    /// What a look at the transmitter shows, if the NIC has been told of frames and has
    /// not finished the last: two equal looks mean that nothing moved.
    pub fn unfinished(&self) -> Option<(u64, u32)> {
        let last = (self.oldest + self.told.checked_sub(1)?) % self.frames.len();
        if self.is_done(&self.frames[last]) {
            return None;
        }
        let done = (0..self.told)
            .map(|number| &self.frames[(self.oldest + number) % self.frames.len()])
            .take_while(|frame| self.is_done(frame))
            .count();
        Some((self.reclaimed, done as u32))
    }

    /// Rings the doorbell again, in case the NIC has missed it.
    pub fn kick(&self) {
        let control = self.layout.control | TxRx::KICK;
        self.regs.write32(TX_RX_CONTROL, control.bits());
    }

    fn is_done(&self, frame: &InFlight) -> bool {
        self.ring.flags(frame.last as usize) & OWNED == 0
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
            large: false,
            request: 0,
            cut: None,
        };
        let mut fits = (ETHERNET_HEADER..=self.layout.max_frame).contains(&len);
        match offload {
            Offload::None => {}
            Offload::Checksum { start, offset } => {
                // TCP keeps its checksum 16 bytes in, UDP 6.
                let known = start == TRANSPORT && matches!(offset.wrapping_sub(start), 6 | 16);
                fits &= self.layout.offloads && known && usize::from(offset) + 2 <= len;
                need.request = TX_CHECKSUMS;
            }
            Offload::Tso { ipv6, mss } => {
                fits = self.can_cut(ipv6, mss, filled, len);
                need.large = filled > self.buffers.size();
                need.cut = Some(mss);
            }
        }
        let reaches = |piece: &DmaSlice| {
            let end = piece.bus.checked_add(piece.len as u64);
            end.is_some_and(|end| end <= self.layout.dma_end)
        };
        if !fits || filled == 0 || !payload.iter().all(reaches) {
            return Err(TxError::Unsupported);
        }
        let most = |len: usize| len.div_ceil(longest(self.layout.format));
        let descriptors = most(filled) + payload.iter().map(|piece| most(piece.len)).sum::<usize>();
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

    /// Whether the NIC can cut a super-segment of `len` bytes, of which `filled` are not
    /// payload by reference. No open driver has it cut IPv6.
    fn can_cut(&self, ipv6: bool, mss: u16, filled: usize, len: usize) -> bool {
        let inline = if len > filled { TSO_INLINE } else { 0 };
        let headers = gso::shortest_headers(ipv6);
        self.layout.offloads
            && !ipv6
            && len <= self.tso_max_bytes()
            && mss >= SMALLEST_MSS
            && headers + usize::from(mss) <= self.layout.max_frame
            && headers + inline <= filled
            && headers < len
    }

    /// Writes the descriptors of a piece of memory.
    #[inline]
    fn push(&mut self, mut piece: DmaSlice, chain: &mut Chain) {
        let most = longest(self.layout.format);
        while piece.len > 0 {
            let len = piece.len.min(most);
            let index = self.tail;
            self.tail = self.ring.after(index);
            self.unused -= 1;
            let flags = chain.add(index, len);
            self.ring.write(index, piece.bus, flags);
            piece.bus += len as u64;
            piece.len -= len;
        }
    }

    /// Hands frames over to the NIC, as many as it bears. Whether there were any.
    fn tell(&mut self) -> bool {
        let before = self.told;
        let most = self.released.min(self.layout.limit);
        while self.told < most {
            let slot = (self.oldest + self.told) % self.frames.len();
            let frame = self.frames[slot];
            self.ring.set_flags(frame.first as usize, frame.flags);
            self.told += 1;
        }
        self.told != before
    }
}

/// Bytes that a descriptor can have.
const fn longest(format: Format) -> usize {
    match format {
        Format::V1 => LONGEST_V1,
        Format::V2 | Format::V3 => LONGEST,
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
        let (buffers, index) = match &mut self.large {
            Some(large) if need.large => (large, self.next_large),
            _ => (&mut self.buffers, self.next),
        };
        let header = DmaSlice {
            bus: buffers.bus(index),
            len: header_len,
        };
        // The NIC pads short frames: neither open driver does.
        let filled = buffers.bytes_mut(index, header_len);
        let result = fill(filled);
        let request = match need.cut {
            Some(mss) => prepare_cut(filled, need.len, mss),
            None => need.request,
        };

        let unused = self.unused;
        let mut chain = Chain::default();
        self.push(header, &mut chain);
        for piece in payload {
            self.push(*piece, &mut chain);
        }
        let end = tx_last(self.layout.format);
        let mut flags = OWNED | request | chain.first.1;
        if chain.first.0 == chain.last.0 {
            flags |= end;
        } else {
            self.ring.set_flags(chain.last.0, chain.last.1 | end);
        }
        self.frames[self.next] = InFlight {
            first: chain.first.0 as u32,
            flags,
            last: chain.last.0 as u32,
            bytes: (need.len.max(SHORTEST_FRAME) + 4) as u32,
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
        if self.released != self.in_flight {
            self.released = self.in_flight;
            if self.tell() {
                self.kick();
            }
        }
    }

    fn reclaim(&mut self) -> usize {
        let before = self.told;
        while self.told > 0 {
            let frame = self.frames[self.oldest];
            let flags = self.ring.flags(frame.last as usize);
            if flags & OWNED != 0 {
                break;
            }
            self.unused += usize::from(frame.descriptors);
            self.free_large += usize::from(frame.large);
            if tx_failed(flags) {
                self.failed += 1;
            } else {
                self.bytes += u64::from(frame.bytes);
            }
            self.oldest = self.after(self.oldest);
            self.told -= 1;
        }
        fence(Ordering::Acquire);
        let frames = before - self.told;
        self.in_flight -= frames;
        self.released -= frames;
        self.reclaimed += frames as u64;
        if frames > 0 && self.tell() {
            self.kick();
        }
        frames
    }

    fn free(&self) -> usize {
        (self.frames.len() - self.in_flight).min(self.unused / self.descriptors_a_frame)
    }

    fn capacity(&self) -> usize {
        self.frames.len()
    }
}

/// Makes the headers of a super-segment of `len` bytes, which `filled` begins with, what
/// the NIC wants: what the open drivers leave in them, the lengths and the checksum of
/// the whole packet, and the pseudo-header's sum in place of TCP's. Returns what the
/// first descriptor asks for. What makes one segment only goes as a frame with checksums.
fn prepare_cut(filled: &mut [u8], len: usize, mss: u16) -> u32 {
    let layout = Layout::assumed(filled, false);
    let headers = &mut filled[..layout.end()];
    let payload = len - headers.len();
    layout.complete(headers, payload);
    if payload <= mss.into() {
        TX_CHECKSUMS
    } else {
        tx_cut(mss)
    }
}
