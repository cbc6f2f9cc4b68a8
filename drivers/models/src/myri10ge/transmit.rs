//! From the ring of requests to the wire.

use super::layout::*;
use super::{Mcp, Myri10ge, tso};
use crate::device::Host;
use crate::offload::cut;

/// The shortest frame that a driver may ask for.
const SHORTEST: usize = 60;
/// Bytes that may lie before a checksum's start, and before its place.
const MAX_CKSUM_OFFSET: u16 = 255;
const MAX_PSEUDO_HDR_OFFSET: u16 = 127;
/// A read of the host's memory lies between two multiples of this. The firmware for
/// hosts that do not align completions makes shorter ones.
const BOUNDARY: u64 = 4096;
const UNALIGNED_BOUNDARY: u64 = 2048;
/// What a read longer than this comes to with the firmware that is wrong for the host.
const DAMAGED_FROM: usize = 128;

/// A request to send one piece of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) address: u64,
    /// Where the checksum goes, or the MSS of a super-segment.
    pub(super) pseudo_hdr_offset: u16,
    pub(super) len: u16,
    pub(super) rdma_count: u8,
    pub(super) cksum_offset: u8,
    pub(super) flags: u8,
}

impl Request {
    fn of(bytes: &[u8]) -> Self {
        let half = |at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        Self {
            address: u64::from(word(bytes, 0)) << 32 | u64::from(word(bytes, 4)),
            pseudo_hdr_offset: half(8),
            len: half(10),
            rdma_count: bytes[13],
            cksum_offset: bytes[14],
            flags: bytes[15],
        }
    }
}

/// The ring, as the host has written it.
#[derive(Debug)]
pub(super) struct Transmitter {
    requests: Vec<u8>,
    next: usize,
    /// What was wrong was such that a card would go on no more.
    is_wedged: bool,
}

impl Default for Transmitter {
    fn default() -> Self {
        Self {
            requests: vec![0; SEND_SLOTS * SEND_LEN],
            next: 0,
            is_wedged: false,
        }
    }
}

impl Transmitter {
    /// The request `step` slots behind the next one, if it is valid.
    fn peek(&self, step: usize) -> Option<Request> {
        let at = (self.next + step) % SEND_SLOTS * SEND_LEN;
        let request = Request::of(&self.requests[at..at + SEND_LEN]);
        (request.flags != 0 && step < SEND_SLOTS).then_some(request)
    }

    /// Takes `count` requests. What they held is no request any more.
    fn consume(&mut self, count: usize) {
        for _ in 0..count {
            let at = self.next * SEND_LEN;
            self.requests[at + SEND_LEN - 1] = 0;
            self.next = (self.next + 1) % SEND_SLOTS;
        }
    }
}

impl Myri10ge {
    /// Takes what the host writes into the ring, and sends what has become valid by it.
    pub(super) fn write_send(&mut self, host: &mut Host, at: usize, data: &[u8]) {
        let Some(place) = self.transmitter.requests.get_mut(at..at + data.len()) else {
            host.complaints
                .add("a write behind the end of the transmit ring");
            return;
        };
        place.copy_from_slice(data);
        if data.len() > SEND_LEN || (at % SEND_LEN) + data.len() >= SEND_LEN {
            self.transmit(host);
        }
    }

    /// Sends the frames that are wholly there.
    pub(super) fn transmit(&mut self, host: &mut Host) {
        let is_running = self.parameters.is_up && host.dma.is_master();
        while is_running && !self.faults.tx_stuck && !self.transmitter.is_wedged {
            let Some(first) = self.transmitter.peek(0) else {
                return;
            };
            let requests = match self.frame_from(first) {
                Ok(requests) => requests,
                Err(what) => {
                    host.complaints.add(what);
                    self.transmitter.is_wedged = true;
                    return;
                }
            };
            self.transmitter.consume(requests.len());
            if let Err(what) = self.send(host, &requests) {
                host.complaints.add(what);
                self.totals.tx_refused += 1;
            }
            self.status.sent(host.now);
        }
    }

    /// The requests of the frame that begins with `first`.
    fn frame_from(&self, first: Request) -> Result<Vec<Request>, &'static str> {
        let peek = |step| {
            let request = self.transmitter.peek(step);
            request.ok_or("a request was valid before those behind it were written")
        };
        if first.flags & flag::FIRST == 0 {
            return Err("a frame begins with a request that is not its first");
        }
        if first.flags & flag::NO_TSO != 0 {
            let count = usize::from(first.rdma_count);
            if count == 0 || count > MAX_SEND_DESC {
                return Err("a frame of no requests, or of more than 12");
            }
            return (0..count).map(peek).collect();
        }
        let headers = usize::from(first.rdma_count).max(1);
        let mut requests = Vec::new();
        // The last segment's requests say so, and their first how many they are.
        let mut end = None;
        while end.is_none_or(|end| requests.len() < end) {
            let request = peek(requests.len())?;
            let is_payload = requests.len() >= headers;
            if end.is_none() && is_payload && request.flags & flag::TSO_LAST != 0 {
                end = Some(requests.len() + usize::from(request.rdma_count).max(1));
            }
            requests.push(request);
        }
        Ok(requests)
    }

    fn send(&mut self, host: &mut Host, requests: &[Request]) -> Result<(), String> {
        let bytes = self.read_pieces(host, requests)?;
        let first = requests[0];
        if first.flags & flag::NO_TSO == 0 {
            tso::check(requests, &bytes)?;
            let mut segments = Vec::new();
            let mss = usize::from(first.pseudo_hdr_offset);
            cut(&bytes, mss, |segment| segments.push(segment.to_vec()))
                .ok_or("a super-segment that is no TCP")?;
            let most = self.parameters.mtu as usize;
            if segments.iter().any(|segment| segment.len() > most) {
                return Err(format!(
                    "a super-segment with an MSS of {mss}, where frames have up to {most} bytes"
                ));
            }
            self.totals.tx_super_segments += 1;
            segments.iter().for_each(|segment| self.put(host, segment));
            return Ok(());
        }
        check_whole(requests, bytes.len(), self.parameters.mtu as usize)?;
        let mut frame = bytes;
        if first.flags & flag::CKSUM != 0 {
            self.totals.tx_checksums += 1;
            fill(&mut frame, first)?;
        }
        self.put(host, &frame);
        Ok(())
    }

    fn read_pieces(&mut self, host: &mut Host, requests: &[Request]) -> Result<Vec<u8>, String> {
        let Mcp::Ethernet(kind) = self.mcp else {
            return Err("a request while no firmware runs".into());
        };
        let boundary = match kind.wants_aligned {
            true => BOUNDARY,
            false => UNALIGNED_BOUNDARY,
        };
        let mut bytes = Vec::new();
        for request in requests {
            let len = usize::from(request.len);
            let start = bytes.len();
            if len == 0 || request.address % boundary + u64::from(request.len) > boundary {
                return Err(format!(
                    "a request of {len} bytes, which is none or crosses a multiple of {boundary}"
                ));
            }
            bytes.resize(start + len, 0);
            let piece = &mut bytes[start..];
            host.dma
                .read(request.address, piece)
                .map_err(|error| error.to_string())?;
            if kind.wants_aligned && !self.variant.is_aligned() && len > DAMAGED_FROM {
                host.complaints
                    .add("firmware for aligned completions, in a host that has none");
                piece[len - 8..].fill(0);
            }
        }
        Ok(bytes)
    }

    fn put(&mut self, host: &mut Host, frame: &[u8]) {
        if !self.link_up {
            self.totals.tx_unheard += 1;
            return;
        }
        self.totals.tx_frames += 1;
        self.totals.tx_bytes += frame.len() as u64;
        // The last segment of a super-segment can be short.
        let mut padded = frame.to_vec();
        padded.resize(frame.len().max(SHORTEST), 0);
        host.send(&padded);
    }
}

/// Holds the requests of a frame that is sent as it is against what drivers agree on.
fn check_whole(requests: &[Request], len: usize, mtu: usize) -> Result<(), String> {
    let first = requests[0];
    if len < SHORTEST || len > mtu {
        return Err(format!("a frame of {len} bytes, with up to {mtu} allowed"));
    }
    let is_small = first.flags & flag::SMALL != 0;
    if is_small != (len <= SEND_SMALL_SIZE) {
        return Err(format!(
            "a frame of {len} bytes with the flags {:#04x}",
            first.flags
        ));
    }
    let has_sum = first.flags & flag::CKSUM != 0;
    let mut before = 0;
    for (index, request) in requests.iter().enumerate() {
        let is_odd = has_sum && before % 2 == 1;
        let mut flags = first.flags & !(flag::FIRST | flag::ALIGN_ODD);
        flags |= if index == 0 { flag::FIRST } else { 0 };
        flags |= if is_odd { flag::ALIGN_ODD } else { 0 };
        let offset = usize::from(first.cksum_offset).saturating_sub(before);
        if request.flags != flags || usize::from(request.cksum_offset) != offset {
            return Err(format!(
                "request {index} of a frame has the flags {:#04x} and the offset {}, not \
                 {flags:#04x} and {offset}",
                request.flags, request.cksum_offset
            ));
        }
        before += usize::from(request.len);
    }
    Ok(())
}

/// Writes the checksum that `first` asks for.
fn fill(frame: &mut [u8], first: Request) -> Result<(), String> {
    let (start, place) = (u16::from(first.cksum_offset), first.pseudo_hdr_offset);
    let fits = start <= MAX_CKSUM_OFFSET
        && (start..=MAX_PSEUDO_HDR_OFFSET).contains(&place)
        && usize::from(place) + 2 <= frame.len();
    if !fits || start == 0 {
        return Err(format!("a checksum from {start} on, to be put at {place}"));
    }
    // The field holds the pseudo-header's sum, which counts with the rest.
    let sum = match !super::receive::checksum(&frame[usize::from(start)..]) {
        // Zero would say that there is none (RFC 768); this is as much.
        0 => 0xffff,
        sum => sum,
    };
    let place = usize::from(place);
    frame[place..place + 2].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}
