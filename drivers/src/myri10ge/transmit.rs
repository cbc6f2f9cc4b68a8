//! The transmit ring, which is in the card and written with the CPU's own stores.
//!
//! A frame has a *slot*, with a buffer for its header or for the whole of it, and as many
//! requests as it needs. A super-segment that is longer than that buffer has one of a few
//! *large* buffers instead. Slots and large buffers are used in turn.
//!
//! The card looks at the next request all the time, and goes on to those behind it once
//! that is valid. So the first request of a batch is written without its flags, all that
//! is behind it as it is, and a flush writes those flags: one word, which is the doorbell.

use alloc::boxed::Box;
use alloc::vec;

use super::interrupts::{Interrupts, field};
use super::regs::{MAX_SEND_DESC, SEND_LEN};
use super::requests::{self, Request, Tcp};
use crate::buffers::Buffers;
use crate::gso;
use crate::hw::{DmaSlice, OutOfDmaMemory, Platform, Window};
use crate::nic::{Offload, TSO_INLINE, Transmit, TxError};

/// An Ethernet header: the shortest thing that is a frame.
const ETHERNET_HEADER: usize = 14;
/// The shortest frame on the wire, without FCS. The card pads nothing.
const SHORTEST_FRAME: usize = 60;
/// The longest IP packet, behind an Ethernet header.
const LONGEST_SUPER_SEGMENT: usize = ETHERNET_HEADER + 65_535;
/// The smallest MSS to be cut by: below it the headers are most of what is sent.
const SMALLEST_MSS: u16 = 64;
/// Requests of a super-segment: 64 KB between multiples of 2 KB, and some fragments.
const MAX_REQUESTS: usize = 128;
/// How far into a frame a checksum may begin, and may be put.
const MAX_CKSUM_START: u16 = 255;
const MAX_CKSUM_PLACE: u16 = 127;
/// Buffers of 64 KB for super-segments.
const LARGE_BUFFERS: usize = 32;
/// Headers of IPv4 super-segments: the firmware has room for the longest.
const IPV4_HEADERS: usize = 1024;

/// How a transmit ring is to be made.
#[derive(Clone, Copy)]
pub struct TxLayout {
    /// Slots: frames that can be in flight.
    pub slots: usize,
    /// Longest frame in bytes, without FCS.
    pub max_frame: usize,
}

/// What the card says of its ring.
#[derive(Clone, Copy, Debug)]
pub struct TxPlace {
    /// Where it is in the window.
    pub offset: usize,
    /// Requests that it holds.
    pub len: usize,
    /// No read crosses a multiple of this.
    pub boundary: u64,
    /// Bytes of headers that an IPv6 super-segment may have; 0 where it is not cut.
    pub max_tso6: usize,
}

/// The transmit ring.
pub struct TxRing<W> {
    window: W,
    interrupts: Interrupts<W>,
    layout: TxLayout,
    place: TxPlace,
    buffers: Buffers,
    large: Buffers,
    /// The frames in flight, by slot.
    frames: Box<[InFlight]>,
    /// The slot of the oldest frame in flight, and of the next.
    oldest: usize,
    next: usize,
    in_flight: usize,
    /// The next request to write, and how many can be.
    tail: usize,
    unused: usize,
    next_large: usize,
    free_large: usize,
    /// Where the first request's last word goes that makes the batch valid, and it.
    doorbell: Option<(usize, u32)>,
    /// Frames that the card has said it has sent, as it counts.
    done: u32,
    reclaimed: u64,
    bytes: u64,
}

/// What a slot's frame holds until it is sent.
#[derive(Clone, Copy, Default)]
struct InFlight {
    /// Bytes that go out, without FCS; a super-segment's are those of its segments.
    bytes: u32,
    frames: u16,
    requests: u16,
    large: bool,
}

/// What a frame needs of the ring.
struct Need {
    /// Bytes of the whole frame.
    len: usize,
    padding: usize,
    requests: usize,
    large: bool,
}

impl<W: Window> TxRing<W> {
    /// Takes the memory. [`restart`](Self::restart) makes it an empty ring.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        window: W,
        interrupts: Interrupts<W>,
        platform: &mut impl Platform,
        layout: TxLayout,
    ) -> Result<Self, OutOfDmaMemory> {
        // Up to 2 KiB, none lies across a multiple of that.
        let size = match layout.max_frame.next_power_of_two() {
            size if size <= 2048 => 2048,
            _ => layout.max_frame.next_multiple_of(64),
        };
        let large = LONGEST_SUPER_SEGMENT.next_multiple_of(64);
        Ok(Self {
            buffers: Buffers::new(platform, layout.slots, size, 4096)?,
            large: Buffers::new(platform, LARGE_BUFFERS, large, 4096)?,
            frames: vec![InFlight::default(); layout.slots].into_boxed_slice(),
            place: TxPlace {
                offset: 0,
                len: 0,
                boundary: 2048,
                max_tso6: 0,
            },
            window,
            interrupts,
            layout,
            oldest: 0,
            next: 0,
            in_flight: 0,
            tail: 0,
            unused: 0,
            next_large: 0,
            free_large: 0,
            doorbell: None,
            done: 0,
            reclaimed: 0,
            bytes: 0,
        })
    }

    /// Makes the ring empty, before the interface comes up. Frames in flight are lost and
    /// their buffers are free.
    pub fn restart(&mut self, place: TxPlace) {
        self.place = place;
        self.oldest = 0;
        self.next = 0;
        self.in_flight = 0;
        self.tail = 0;
        // One stays unused, so that the card always finds an end.
        self.unused = place.len - 1;
        self.next_large = 0;
        self.free_large = self.large.count();
        self.doorbell = None;
        self.done = 0;
    }

    /// How many slots there are.
    pub fn slots(&self) -> usize {
        self.frames.len()
    }

    /// The longest super-segment in bytes.
    pub fn tso_max_bytes(&self) -> usize {
        LONGEST_SUPER_SEGMENT
    }

    /// Frames and bytes sent so far, with FCS.
    pub fn sent(&self) -> (u64, u64) {
        (self.reclaimed, self.bytes)
    }

    /// What a look at the transmitter shows, if there is something in flight.
    pub fn unfinished(&self) -> Option<(u64, u32)> {
        let flushed = self.in_flight > 0 && self.doorbell.is_none();
        flushed.then(|| (self.reclaimed, self.interrupts.word(field::SEND_DONE_COUNT)))
    }

    /// Requests that a frame without fragments may need.
    fn requests_a_frame(&self) -> usize {
        match self.buffers.size() {
            2048 => 1,
            size => size / self.place.boundary as usize + 2,
        }
    }

    fn after(&self, slot: usize) -> usize {
        if slot + 1 == self.frames.len() {
            0
        } else {
            slot + 1
        }
    }

    /// The buffer for a frame's first bytes, and where it is.
    fn header(&self, large: bool, len: usize) -> DmaSlice {
        let bus = match large {
            true => self.large.bus(self.next_large),
            false => self.buffers.bus(self.next),
        };
        DmaSlice { bus, len }
    }

    /// What a frame needs, if it can be sent and there is room for it.
    #[inline]
    fn need(&self, filled: usize, payload: &[DmaSlice], offload: Offload) -> Result<Need, TxError> {
        let len = payload
            .iter()
            .fold(filled, |sum, piece| sum.saturating_add(piece.len));
        let mut fits = (ETHERNET_HEADER..=self.layout.max_frame).contains(&len);
        let mut large = false;
        let mut most = MAX_SEND_DESC;
        match offload {
            Offload::None => {}
            Offload::Checksum { start, offset } => {
                fits &= (ETHERNET_HEADER as u16..=MAX_CKSUM_START).contains(&start)
                    && (start..=MAX_CKSUM_PLACE).contains(&offset)
                    && usize::from(offset) + 2 <= len;
            }
            Offload::Tso { ipv6, mss } => {
                fits = self.can_cut(ipv6, mss, filled, len);
                large = filled > self.buffers.size();
                most = MAX_REQUESTS;
            }
        }
        // A short frame that gathers cannot be padded behind its fragments.
        let padding = SHORTEST_FRAME.saturating_sub(len);
        if !fits || filled == 0 || padding > 0 && !payload.is_empty() {
            return Err(TxError::Unsupported);
        }
        let boundary = self.place.boundary;
        let header = self.header(large, filled + padding);
        let mut requests = requests::count_pieces(header, boundary);
        for piece in payload {
            requests += requests::count_pieces(*piece, boundary);
        }
        if let Offload::Tso { .. } = offload {
            // Headers and the payload behind them are requests of their own.
            requests += 1;
        }
        if requests > most || requests >= self.place.len {
            return Err(TxError::Unsupported);
        }
        if requests > self.unused
            || self.in_flight == self.frames.len()
            || large && self.free_large == 0
        {
            return Err(TxError::RingFull);
        }
        Ok(Need {
            len,
            padding,
            requests,
            large,
        })
    }

    /// Whether the card can cut a super-segment of `len` bytes, of which `filled` are not
    /// payload by reference.
    fn can_cut(&self, ipv6: bool, mss: u16, filled: usize, len: usize) -> bool {
        let inline = if len > filled { TSO_INLINE } else { 0 };
        let headers = gso::shortest_headers(ipv6);
        let most = if ipv6 {
            self.place.max_tso6
        } else {
            IPV4_HEADERS
        };
        len <= LONGEST_SUPER_SEGMENT
            && mss >= SMALLEST_MSS
            && headers + usize::from(mss) <= self.layout.max_frame
            && headers <= most
            && headers + inline <= filled
            && headers < len
    }

    /// Writes a frame's requests.
    fn write(&mut self, requests: &[Request]) {
        for (index, request) in requests.iter().enumerate() {
            let at = self.place.offset + self.tail * SEND_LEN;
            self.tail = if self.tail + 1 == self.place.len {
                0
            } else {
                self.tail + 1
            };
            let mut request = *request;
            if index == 0 && self.doorbell.is_none() {
                self.doorbell = Some((at + SEND_LEN - 4, request.last_word()));
                request.flags = 0;
            }
            self.window.copy_to(at, &request.words());
        }
        self.unused -= requests.len();
    }
}

/// What a frame is to be sent as.
#[derive(Default)]
struct Prepared {
    /// Bytes that have requests of their own, before all others.
    headers: usize,
    checksum: Option<(u8, u16)>,
    mss: Option<u16>,
    /// Where TCP is, of a super-segment.
    tcp: Tcp,
}

impl Prepared {
    /// A frame that is not cut.
    fn of(offload: Offload) -> Self {
        let checksum = match offload {
            Offload::Checksum { start, offset } => Some((start as u8, offset)),
            _ => None,
        };
        Self {
            checksum,
            ..Self::default()
        }
    }
}

/// Writes into the headers of a super-segment of `len` bytes what the card starts from:
/// the lengths, and the pseudo-header's sum, of the whole, as Linux leaves them. What
/// makes one segment only is a frame with a checksum.
fn prepare(filled: &mut [u8], len: usize, ipv6: bool, mss: u16) -> Prepared {
    let layout = gso::Layout::assumed(filled, ipv6);
    let headers = &mut filled[..layout.end()];
    let (tcp, payload) = (layout.tcp(), len - headers.len());
    layout.complete(headers, payload);
    if payload <= mss.into() {
        return Prepared {
            checksum: Some((tcp as u8, (tcp + gso::TCP_CHECKSUM) as u16)),
            ..Prepared::default()
        };
    }
    Prepared {
        headers: headers.len(),
        checksum: None,
        mss: Some(mss),
        tcp: Tcp {
            ipv6,
            start: tcp as u8,
            len: (headers.len() - tcp) as u8,
        },
    }
}

/// Appends requests for the pieces of `memory`.
fn push(all: &mut [Request; MAX_REQUESTS], count: &mut usize, memory: DmaSlice, boundary: u64) {
    for piece in requests::pieces(memory, boundary) {
        all[*count] = Request {
            bus: piece.bus,
            len: piece.len as u16,
            ..Request::default()
        };
        *count += 1;
    }
}

impl<W: Window> Transmit for TxRing<W> {
    fn send<T>(
        &mut self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
        fill: impl FnOnce(&mut [u8]) -> T,
    ) -> Result<T, TxError> {
        let need = self.need(header_len, payload, offload)?;
        let header = self.header(need.large, header_len + need.padding);
        let (buffers, index) = match need.large {
            true => (&mut self.large, self.next_large),
            false => (&mut self.buffers, self.next),
        };
        let (filled, zeroes) = buffers
            .bytes_mut(index, header.len)
            .split_at_mut(header_len);
        zeroes.fill(0);
        let result = fill(filled);

        let boundary = self.place.boundary;
        let mut all = [Request::default(); MAX_REQUESTS];
        let mut count = 0;
        let cut = match offload {
            Offload::Tso { ipv6, mss } => prepare(filled, need.len, ipv6, mss),
            _ => Prepared::of(offload),
        };
        let (head, inline) = split(header, cut.headers);
        push(&mut all, &mut count, head, boundary);
        let of_headers = count;
        push(&mut all, &mut count, inline, boundary);
        for piece in payload {
            push(&mut all, &mut count, *piece, boundary);
        }
        let mut bytes = need.len + need.padding;
        let mut segments = 1;
        match cut.mss {
            Some(mss) => {
                requests::super_segment(&mut all[..count], of_headers, mss, cut.tcp);
                segments = gso::segments(need.len - cut.headers, mss);
                bytes += (segments - 1) * cut.headers;
            }
            None => requests::whole(&mut all[..count], bytes, cut.checksum),
        }
        self.write(&all[..count]);
        self.frames[self.next] = InFlight {
            bytes: (bytes + 4 * segments) as u32,
            frames: segments as u16,
            requests: count as u16,
            large: need.large,
        };
        self.next = self.after(self.next);
        self.in_flight += 1;
        if need.large {
            self.next_large = (self.next_large + 1) % self.large.count();
            self.free_large -= 1;
        }
        debug_assert!(count <= need.requests);
        Ok(result)
    }

    fn flush(&mut self) {
        if let Some((at, word)) = self.doorbell.take() {
            self.window.fence();
            self.window.write32(at, word);
        }
    }

    fn reclaim(&mut self) -> usize {
        if self.in_flight == 0 {
            return 0;
        }
        let count = self.interrupts.word(field::SEND_DONE_COUNT);
        let sent = count.wrapping_sub(self.done) as usize;
        // A card that has lost its mind does not give buffers back that are in use.
        let sent = if sent <= self.in_flight { sent } else { 0 };
        self.done = self.done.wrapping_add(sent as u32);
        for _ in 0..sent {
            let frame = self.frames[self.oldest];
            self.oldest = self.after(self.oldest);
            self.unused += usize::from(frame.requests);
            self.free_large += usize::from(frame.large);
            self.reclaimed += u64::from(frame.frames);
            self.bytes += u64::from(frame.bytes);
        }
        self.in_flight -= sent;
        // While interrupts are masked the card says nothing by itself.
        let is_filling = self.in_flight * 2 > self.frames.len()
            || self.unused * 2 < self.place.len
            || self.free_large * 2 < self.large.count();
        if is_filling && self.interrupts.is_masked() {
            self.interrupts.ask();
        }
        sent
    }

    fn accepts(
        &self,
        header_len: usize,
        payload: &[DmaSlice],
        offload: Offload,
    ) -> Result<(), TxError> {
        self.need(header_len, payload, offload).map(|_| ())
    }

    fn free(&self) -> usize {
        (self.unused / self.requests_a_frame()).min(self.frames.len() - self.in_flight)
    }

    fn capacity(&self) -> usize {
        let requests = self.place.len.saturating_sub(1);
        (requests / self.requests_a_frame()).min(self.frames.len())
    }
}

/// The first `at` bytes of `memory`, and the rest.
fn split(memory: DmaSlice, at: usize) -> (DmaSlice, DmaSlice) {
    let head = DmaSlice {
        bus: memory.bus,
        len: at,
    };
    let rest = DmaSlice {
        bus: memory.bus + at as u64,
        len: memory.len - at,
    };
    (head, rest)
}
