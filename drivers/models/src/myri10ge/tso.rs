//! The rules for the requests of a super-segment.
//!
//! The card does not count by itself: where a segment begins, which request a boundary
//! falls into, and of how many reads each segment is made is what the driver says. So
//! the model works it out from the lengths alone, and holds the driver's word against it.

use super::layout::{MAX_TSO6_HDR, SEND_SMALL_SIZE, flag};
use super::transmit::Request;

const HEADER: usize = 14;
const TAG: usize = 4;

/// What is checked of a request's flags.
const FLAGS: u8 =
    flag::TSO_PLD | flag::TSO_CHOP | flag::TSO_LAST | flag::FIRST | flag::ALIGN_ODD | flag::TSO_HDR;

/// Checks the requests of a super-segment whose bytes are `bytes`.
///
/// # Errors
///
/// What the driver has said that is not so.
pub(super) fn check(requests: &[Request], bytes: &[u8]) -> Result<(), String> {
    let mss = usize::from(requests[0].pseudo_hdr_offset);
    let headers = headers_of(bytes).ok_or("a super-segment without whole TCP headers")?;
    let count = usize::from(requests[0].rdma_count);
    let of_headers = requests.iter().take(count);
    let header_bytes: usize = of_headers.map(|request| usize::from(request.len)).sum();
    if mss == 0 || header_bytes != headers.len {
        return Err(format!(
            "a super-segment with an MSS of {mss} and {header_bytes} bytes of headers, not {}",
            headers.len
        ));
    }
    if requests
        .iter()
        .any(|one| usize::from(one.pseudo_hdr_offset) != mss)
    {
        return Err("requests of one super-segment name different MSS".into());
    }
    check_checksum_offsets(requests, count, &headers)?;
    let (of_headers, of_payload) = requests.split_at(count);
    let starts = extents(of_headers).into_iter();
    for (index, (request, (start, _))) in of_headers.iter().zip(starts).enumerate() {
        let first = if index == 0 { flag::FIRST } else { 0 };
        expect(index, request, flag::TSO_HDR | first | odd(start), None)?;
    }
    check_payload(of_payload, count, mss)
}

/// The pieces of payload: where each begins and ends.
fn extents(requests: &[Request]) -> Vec<(usize, usize)> {
    let mut start = 0;
    let extent = |request: &Request| {
        let end = start + usize::from(request.len);
        (std::mem::replace(&mut start, end), end)
    };
    requests.iter().map(extent).collect()
}

fn check_payload(requests: &[Request], before: usize, mss: usize) -> Result<(), String> {
    let extents = extents(requests);
    let Some((_, total)) = extents.last().copied() else {
        return Err("a super-segment without payload".into());
    };
    let last_segment = (total - 1) / mss;
    let small = if mss <= SEND_SMALL_SIZE {
        flag::SMALL
    } else {
        0
    };
    for (index, (request, (start, end))) in requests.iter().zip(&extents).enumerate() {
        let (from, to) = (start / mss, (end - 1) / mss);
        let begins = start % mss == 0;
        let chops = from != to;
        let mut flags = flag::TSO_PLD | small | odd(start % mss);
        flags |= if begins { flag::FIRST } else { 0 };
        flags |= if chops { flag::TSO_CHOP } else { 0 };
        flags |= if to == last_segment {
            flag::TSO_LAST
        } else {
            0
        };
        // Of the segment that begins in it, or last begins in it, if any does.
        let reads = (begins || chops).then(|| {
            let behind = extents[index..].iter();
            behind.take_while(|(start, _)| start / mss <= to).count()
        });
        expect(before + index, request, flags, reads)?;
    }
    Ok(())
}

fn expect(index: usize, request: &Request, flags: u8, reads: Option<usize>) -> Result<(), String> {
    let said = request.flags & FLAGS;
    let counts = reads.is_none_or(|reads| usize::from(request.rdma_count) == reads);
    if said == flags && counts {
        return Ok(());
    }
    Err(format!(
        "request {index} of a super-segment has the flags {said:#04x} and {} reads, not \
         {flags:#04x} and {reads:?}",
        request.rdma_count
    ))
}

/// The flag of a piece with `before` bytes of its segment before it.
fn odd(before: usize) -> u8 {
    if before % 2 == 1 { flag::ALIGN_ODD } else { 0 }
}

/// With IPv6 each request says how long the TCP header is; with IPv4 those of the headers
/// say where in them it begins.
fn check_checksum_offsets(
    requests: &[Request],
    count: usize,
    headers: &Headers,
) -> Result<(), String> {
    let starts = extents(requests);
    let is_right = |(index, request): (usize, &Request)| {
        let wanted = match (headers.is_v6, index < count) {
            (true, _) => headers.tcp,
            (false, true) => (headers.len - headers.tcp).saturating_sub(starts[index].0),
            (false, false) => 0,
        };
        usize::from(request.cksum_offset) == wanted
    };
    let is_too_long = headers.is_v6 && headers.len > MAX_TSO6_HDR as usize;
    if is_too_long || !requests.iter().enumerate().all(is_right) {
        return Err(
            "a super-segment that says wrongly where TCP is, or has too much before".into(),
        );
    }
    Ok(())
}

/// The headers of a TCP segment.
struct Headers {
    is_v6: bool,
    /// All of them.
    len: usize,
    /// TCP's.
    tcp: usize,
}

fn headers_of(bytes: &[u8]) -> Option<Headers> {
    let kind = |at: usize| Some([*bytes.get(at)?, *bytes.get(at + 1)?]);
    let (network, kind) = match kind(HEADER - 2)? {
        [0x81, 0x00] => (HEADER + TAG, kind(HEADER + TAG - 2)?),
        kind => (HEADER, kind),
    };
    let (is_v6, ip) = match kind {
        [0x08, 0x00] => (false, usize::from(bytes.get(network)? & 0xf) * 4),
        [0x86, 0xdd] => (true, 40),
        _ => return None,
    };
    let tcp = usize::from(bytes.get(network + ip + 12)? >> 4) * 4;
    let len = network + ip + tcp;
    (ip >= 20 && tcp >= 20 && len < bytes.len()).then_some(Headers { is_v6, len, tcp })
}
