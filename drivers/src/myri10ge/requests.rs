//! Requests to send, and the rules for those of a super-segment.
//!
//! The card does not count for itself. For each request of payload the driver says
//! whether a segment begins with it, whether one ends before it does, and for those of
//! how many reads the segment is made that begins there; and which requests are of the
//! last segment.

use super::regs::{SEND_LEN, SEND_SMALL_SIZE, flag};
use crate::hw::DmaSlice;

/// Words of a request.
pub const WORDS: usize = SEND_LEN / 8;

/// A request to read one piece of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// Where the piece is.
    pub bus: u64,
    /// Where a checksum goes in the frame, or a super-segment's MSS.
    pub pseudo_hdr_offset: u16,
    /// Bytes.
    pub len: u16,
    /// Requests of the frame or segment that begins here.
    pub rdma_count: u8,
    /// How far into the piece a checksum begins, or TCP in the headers of a
    /// super-segment; of one of IPv6, the length of the TCP header.
    pub cksum_offset: u8,
    /// See [`flag`].
    pub flags: u8,
}

impl Request {
    /// The request as the card reads it: two words, as they lie in memory.
    pub fn words(&self) -> [u64; WORDS] {
        let mut bytes = [0; SEND_LEN];
        bytes[..8].copy_from_slice(&self.bus.to_be_bytes());
        bytes[8..10].copy_from_slice(&self.pseudo_hdr_offset.to_be_bytes());
        bytes[10..12].copy_from_slice(&self.len.to_be_bytes());
        bytes[13] = self.rdma_count;
        bytes[14] = self.cksum_offset;
        bytes[15] = self.flags;
        let [first, second] =
            [0, 8].map(|at| u64::from_ne_bytes(core::array::from_fn(|index| bytes[at + index])));
        [first, second]
    }

    /// The last four bytes, by which a request becomes valid, as a register takes them.
    pub fn last_word(&self) -> u32 {
        u32::from_le_bytes([0, self.rdma_count, self.cksum_offset, self.flags])
    }
}

/// The pieces of `memory` between multiples of `boundary`, a power of two.
pub fn pieces(memory: DmaSlice, boundary: u64) -> impl Iterator<Item = DmaSlice> {
    let mut rest = memory;
    core::iter::from_fn(move || {
        if rest.len == 0 {
            return None;
        }
        let room = boundary - (rest.bus & (boundary - 1));
        let piece = DmaSlice {
            bus: rest.bus,
            len: rest.len.min(room as usize),
        };
        rest.bus += piece.len as u64;
        rest.len -= piece.len;
        Some(piece)
    })
}

/// How many pieces that are.
#[inline]
pub fn count_pieces(memory: DmaSlice, boundary: u64) -> usize {
    if memory.len == 0 {
        return 0;
    }
    let last = memory.bus + memory.len as u64 - 1;
    (last / boundary - memory.bus / boundary + 1) as usize
}

/// Makes requests of the pieces of a frame that is sent as it is: `len` bytes, with a
/// checksum from one offset to be put at another where there is to be one.
pub fn whole(requests: &mut [Request], len: usize, checksum: Option<(u8, u16)>) {
    let count = requests.len() as u8;
    let mut flags = flag::NO_TSO;
    if len <= SEND_SMALL_SIZE {
        flags |= flag::SMALL;
    }
    if checksum.is_some() {
        flags |= flag::CKSUM;
    }
    let (start, place) = checksum.unwrap_or_default();
    let mut before = 0;
    for request in requests.iter_mut() {
        request.pseudo_hdr_offset = place;
        request.rdma_count = 1;
        request.cksum_offset = usize::from(start).saturating_sub(before) as u8;
        request.flags = flags;
        if checksum.is_some() {
            request.flags |= odd(before);
        }
        before += usize::from(request.len);
    }
    requests[0].flags |= flag::FIRST;
    requests[0].rdma_count = count;
}

/// Where TCP is in a super-segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tcp {
    /// Over IPv6.
    pub ipv6: bool,
    /// Bytes before its header.
    pub start: u8,
    /// Bytes of its header.
    pub len: u8,
}

/// Makes requests of the pieces of a super-segment, the first `headers` of which are
/// those of its headers.
pub fn super_segment(requests: &mut [Request], headers: usize, mss: u16, tcp: Tcp) {
    for request in requests.iter_mut() {
        request.pseudo_hdr_offset = mss;
        request.cksum_offset = if tcp.ipv6 { tcp.len } else { 0 };
        request.rdma_count = 1;
    }
    let (of_headers, payload) = requests.split_at_mut(headers);
    let mut before = 0;
    for request in of_headers.iter_mut() {
        request.flags = flag::TSO_HDR | odd(before);
        if !tcp.ipv6 {
            request.cksum_offset = usize::from(tcp.start).saturating_sub(before) as u8;
        }
        before += usize::from(request.len);
    }
    of_headers[0].flags |= flag::FIRST;
    of_headers[0].rdma_count = headers as u8;
    cut(payload, usize::from(mss));
}

/// The flag of a piece with `before` bytes of its segment before it.
fn odd(before: usize) -> u8 {
    if before % 2 == 1 { flag::ALIGN_ODD } else { 0 }
}

/// The flags and counts of payload.
fn cut(payload: &mut [Request], mss: usize) {
    let kind = match mss <= SEND_SMALL_SIZE {
        true => flag::TSO_PLD | flag::SMALL,
        false => flag::TSO_PLD,
    };
    // Bytes of the segment under way before the request, and where that segment begins.
    let mut filled = 0;
    let mut begin = 0;
    for index in 0..payload.len() {
        let request = &mut payload[index];
        request.flags = kind | odd(filled);
        if filled == 0 {
            request.flags |= flag::FIRST;
            begin = index;
        }
        let end = filled + usize::from(request.len);
        if end > mss {
            request.flags |= flag::TSO_CHOP;
            // The one that began before ends here, this request being its last.
            payload[begin].rdma_count = (index - begin + 1) as u8;
            begin = index;
        }
        filled = end % mss;
        payload[begin].rdma_count = (index - begin + 1) as u8;
    }
    payload[begin..]
        .iter_mut()
        .for_each(|request| request.flags |= flag::TSO_LAST);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn payload(lens: &[u16]) -> Vec<Request> {
        let request = |len: &u16| Request {
            len: *len,
            ..Request::default()
        };
        lens.iter().map(request).collect()
    }

    fn marks(requests: &[Request]) -> Vec<(u8, u8)> {
        let small = flag::SMALL | flag::TSO_PLD;
        requests
            .iter()
            .map(|request| (request.flags & !small, request.rdma_count))
            .collect()
    }

    #[test]
    fn a_request_is_laid_down_byte_by_byte() {
        let request = Request {
            bus: 0x0102_0304_0506_0708,
            pseudo_hdr_offset: 0x0910,
            len: 0x1112,
            rdma_count: 0x13,
            cksum_offset: 0x14,
            flags: 0x15,
        };
        let bytes: Vec<u8> = request
            .words()
            .iter()
            .flat_map(|word| word.to_ne_bytes())
            .collect();
        assert_eq!(
            bytes,
            [1, 2, 3, 4, 5, 6, 7, 8, 9, 16, 17, 18, 0, 19, 20, 21]
        );
        assert_eq!(request.last_word().to_le_bytes(), bytes[12..]);
    }

    #[test]
    fn segments_are_marked_where_they_begin_and_are_cut() {
        const F: u8 = flag::FIRST;
        const C: u8 = flag::TSO_CHOP;
        const L: u8 = flag::TSO_LAST;
        const O: u8 = flag::ALIGN_ODD;
        for (lens, mss, expected) in [
            (&[100][..], 100, &[(F | L, 1)][..]),
            (&[100, 100], 100, &[(F, 1), (F | L, 1)]),
            (&[50, 50, 30], 100, &[(F, 2), (0, 1), (F | L, 1)]),
            (&[250], 100, &[(F | C | L, 1)]),
            (&[51, 98, 51], 100, &[(F, 2), (O | C | L, 2), (O | L, 1)]),
            (&[150, 30, 40], 100, &[(F | C, 3), (0, 1), (C | L, 1)]),
            (&[60, 60, 60], 100, &[(F, 2), (C | L, 2), (L, 1)]),
            (&[60, 240, 10], 100, &[(F, 2), (C, 1), (F | L, 1)]),
        ] {
            let mut requests = payload(lens);
            cut(&mut requests, mss);
            // A request in the midst of a segment says nothing by its count.
            for (index, (mark, wanted)) in marks(&requests).iter().zip(expected).enumerate() {
                assert_eq!(mark.0, wanted.0, "{lens:?}: flags of {index}");
                if mark.0 & (F | C) != 0 {
                    assert_eq!(mark.1, wanted.1, "{lens:?}: reads of {index}");
                }
            }
        }
    }

    proptest! {
        #[test]
        fn pieces_cross_no_boundary_and_are_as_many_as_counted(bus in 0u64..20_000, len in 0usize..70_000, aligned: bool) {
            let boundary = if aligned { 4096 } else { 2048 };
            let memory = DmaSlice { bus, len };
            let all: Vec<DmaSlice> = pieces(memory, boundary).collect();
            prop_assert_eq!(all.len(), count_pieces(memory, boundary));
            let mut at = bus;
            for piece in &all {
                prop_assert_eq!(piece.bus, at);
                prop_assert!(piece.len > 0);
                prop_assert_eq!(piece.bus / boundary, (piece.bus + piece.len as u64 - 1) / boundary);
                at += piece.len as u64;
            }
            prop_assert_eq!(at, bus + len as u64);
        }
    }
}
