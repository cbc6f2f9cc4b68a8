//! One TCP connection, judged as RFC 9293 has it.

use std::collections::VecDeque;
use std::time::Duration;

use etherparse::{TcpOptionElement, TcpSlice};

/// RFC 9293 section 3.8.6.3: an acknowledgement waits for less than this.
const LATEST_ACKNOWLEDGEMENT: Duration = Duration::from_millis(500);
/// Bytes of IPv4 and TCP headers without options.
const HEADERS: usize = 40;
/// What a peer takes that names no MSS (RFC 9293 section 3.7.1).
const DEFAULT_MSS: usize = 536;

/// What a connection came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Connection {
    /// Number of the packet that has its SYN.
    pub first_packet: usize,
    /// Payload bytes that the station sent, each counted once.
    pub sent: u64,
    /// Segments with payload among them.
    pub segments: u64,
    /// Payload bytes that the station acknowledged.
    pub received: u64,
    /// The station's segments without payload, SYN and FIN.
    pub acknowledgements: u64,
    /// Most segments of its peer that it acknowledged at once.
    pub longest_stretch: usize,
    /// The longest wait of a segment for its acknowledgement.
    pub longest_wait: Duration,
    /// Segments that the station sent again.
    pub resent: u64,
    /// Segments that its peer sent again.
    pub resent_by_peer: u64,
    /// How often its window went back by less than its scale can say (RFC 7323 section
    /// 2.4).
    pub rounded_windows: u64,
    /// The station's questions whether the peer is there or has room: a byte that
    /// had been sent before, or that does not fit the window.
    pub probes: u64,
    /// Super-segments of whole segments that have an empty one behind them, as QEMU's
    /// 8254x sends it.
    pub empty_tails: u64,
    /// Super-segments of two segments and more, by their identifications.
    pub super_segments: u64,
    /// Those that the sequence number wraps in.
    pub wrapped: u64,
    /// Whether the station has reset it.
    pub is_reset: bool,
    /// Whether its peer has.
    pub is_reset_by_peer: bool,
    /// Whether the station has sent its FIN.
    pub is_closed: bool,
}

/// What is known of one side. Sequence numbers count from its SYN.
#[derive(Debug, Default)]
struct Side {
    isn: Option<u32>,
    mss: Option<usize>,
    shift: Option<u8>,
    takes_sack: bool,
    /// One past the highest sequence number sent.
    next: u32,
    /// The highest sequence number of the other side that it has acknowledged.
    acknowledged: u32,
    /// The other side's sequence number that its window ends at.
    edge: u32,
    window: u32,
    fin: Option<u32>,
}

/// The station's last segment.
#[derive(Clone, Copy, Debug)]
struct Last {
    identification: u16,
    end: u32,
    payload: usize,
    ends_run: bool,
    acknowledgement: u32,
    window: u16,
    /// Where its super-segment begins, as the wire has it, how many segments that has
    /// so far, and whether the sequence number has wrapped in it.
    begin: u32,
    run: u64,
    wraps: bool,
}

/// A connection whose packets are coming.
#[derive(Debug)]
pub struct Conversation {
    summary: Connection,
    mtu: usize,
    own: Side,
    peer: Side,
    last: Option<Last>,
    /// Whether the station's last bytes came without PSH and FIN.
    unpushed: bool,
    /// Ends and times of the peer's segments that wait for acknowledgement.
    waiting: VecDeque<(u32, Duration)>,
}

impl Conversation {
    pub fn new(first_packet: usize, mtu: usize) -> Self {
        Self {
            summary: Connection {
                first_packet,
                ..Connection::default()
            },
            mtu,
            own: Side::default(),
            peer: Side::default(),
            last: None,
            unpushed: false,
            waiting: VecDeque::new(),
        }
    }

    /// Whether this SYN begins another connection of the same name.
    pub fn is_other(&self, syn: &TcpSlice<'_>) -> bool {
        self.peer.isn != Some(syn.sequence_number())
    }

    /// Takes a segment of the peer's.
    pub fn peers(&mut self, tcp: &TcpSlice<'_>, now: Duration) -> Vec<String> {
        let mut complaints = Vec::new();
        if tcp.syn() {
            self.peer.begin(tcp);
            self.peer.window = tcp.window_size().into();
            self.peer.edge = self.peer.window + 1;
            return complaints;
        }
        self.summary.is_reset_by_peer |= tcp.rst();
        let Some((start, end)) = self.peer.range(tcp) else {
            return complaints;
        };
        if tcp.ack()
            && let Some(isn) = self.own.isn
        {
            let acknowledgement = tcp.acknowledgment_number().wrapping_sub(isn);
            self.peer.offer(acknowledgement, tcp.window_size());
        }
        if end != start {
            if end.wrapping_sub(self.peer.next).cast_signed() <= 0 {
                self.summary.resent_by_peer += 1;
            } else {
                // A request is the answer to a response that it has whole.
                if self.unpushed && !tcp.payload().is_empty() {
                    complaints.push("the response before it has no PSH".into());
                }
                self.peer.next = end;
                self.waiting.push_back((end, now));
            }
        }
        complaints
    }

    /// Takes a segment of the station's.
    pub fn own(&mut self, identification: u16, tcp: &TcpSlice<'_>, now: Duration) -> Vec<String> {
        let mut complaints = Vec::new();
        let options = self.look_at_options(tcp, &mut complaints);
        if tcp.rst() {
            self.summary.is_reset = true;
            return complaints;
        }
        if !tcp.ack() {
            complaints.push("a segment without ACK".into());
            return complaints;
        }
        if tcp.syn() {
            self.own.begin(tcp);
            self.agree_on_scaling();
            if self.peer.isn.map(|isn| isn.wrapping_add(1)) != Some(tcp.acknowledgment_number()) {
                complaints.push("a SYN that acknowledges something else".into());
            }
            // Windows in SYNs are not scaled (RFC 7323 section 2.2).
            self.own.acknowledged = 1;
            self.own.edge = 1 + u32::from(tcp.window_size());
            return complaints;
        }
        let Some((start, end)) = self.own.range(tcp) else {
            complaints.push("a segment before the SYN".into());
            return complaints;
        };
        self.look_at_acknowledgement(tcp, now, &mut complaints);
        let resent = self.look_at_sequence(tcp, start, end, options, &mut complaints);
        self.look_at_run(identification, tcp, end, resent, &mut complaints);
        complaints
    }

    /// Windows are scaled if both sides have said that they can.
    fn agree_on_scaling(&mut self) {
        if self.own.shift.is_none() || self.peer.shift.is_none() {
            self.own.shift = None;
            self.peer.shift = None;
        }
    }

    /// RFC 9293 section 3.2, RFC 7323, RFC 2018: what may stand in a SYN, and what
    /// in other segments. Returns their bytes.
    fn look_at_options(&self, tcp: &TcpSlice<'_>, complaints: &mut Vec<String>) -> usize {
        let mut seen = [false; 3];
        for option in tcp.options_iterator() {
            let option = match option {
                Ok(option) => option,
                Err(error) => {
                    complaints.push(format!("options: {error}"));
                    continue;
                }
            };
            let allowed = match option {
                TcpOptionElement::Noop => true,
                TcpOptionElement::MaximumSegmentSize(mss) => {
                    tcp.syn()
                        && !std::mem::replace(&mut seen[0], true)
                        && usize::from(mss) == self.mtu - HEADERS
                }
                TcpOptionElement::WindowScale(shift) => {
                    tcp.syn()
                        && !std::mem::replace(&mut seen[1], true)
                        && shift <= 14
                        && self.peer.shift.is_some()
                }
                TcpOptionElement::SelectiveAcknowledgementPermitted => {
                    tcp.syn() && !std::mem::replace(&mut seen[2], true) && self.peer.takes_sack
                }
                TcpOptionElement::SelectiveAcknowledgement(first, rest) => {
                    let ack = tcp.acknowledgment_number();
                    let blocks = std::iter::once(Some(first)).chain(rest).flatten();
                    !tcp.syn()
                        && self.peer.takes_sack
                        && blocks
                            .into_iter()
                            .all(|(left, right)| self.is_block(ack, left, right))
                }
                TcpOptionElement::Timestamp(..) => false,
            };
            if !allowed {
                complaints.push(format!("option {option:?}"));
            }
        }
        if tcp.syn() && !seen[0] {
            complaints.push("a SYN without MSS".into());
        }
        tcp.options().len()
    }

    /// Whether a SACK block lies beyond the acknowledgement and in what was sent.
    fn is_block(&self, acknowledgement: u32, left: u32, right: u32) -> bool {
        let Some(isn) = self.peer.isn else {
            return false;
        };
        let [from, left, right] = [acknowledgement, left, right].map(|n| n.wrapping_sub(isn));
        from < left && left < right && right <= self.peer.next
    }

    /// RFC 9293 sections 3.4, 3.8.6 and 3.8.6.3: only what was sent is acknowledged,
    /// in time, and the window's right edge does not go back.
    fn look_at_acknowledgement(
        &mut self,
        tcp: &TcpSlice<'_>,
        now: Duration,
        complaints: &mut Vec<String>,
    ) {
        let Some(isn) = self.peer.isn else {
            return;
        };
        let acknowledgement = tcp.acknowledgment_number().wrapping_sub(isn);
        if acknowledgement > self.peer.next {
            complaints.push("acknowledges what was not sent".into());
        }
        if acknowledgement < self.own.acknowledged {
            complaints.push("takes an acknowledgement back".into());
        }
        let edge = self.own.edge;
        self.own.offer(acknowledgement, tcp.window_size());
        if self.own.edge < edge {
            let less = edge - self.own.edge;
            if less < 1 << self.own.shift.unwrap_or(0) {
                self.summary.rounded_windows += 1;
            } else {
                complaints.push(format!("shrinks its window by {less} bytes"));
            }
            self.own.edge = edge;
        }
        let mut stretch = 0;
        while let Some(&(end, since)) = self.waiting.front()
            && end <= acknowledgement
        {
            let wait = now.saturating_sub(since);
            if wait > LATEST_ACKNOWLEDGEMENT {
                complaints.push(format!("acknowledges {end} after {} ms", wait.as_millis()));
            }
            self.summary.longest_wait = self.summary.longest_wait.max(wait);
            self.waiting.pop_front();
            stretch += 1;
        }
        self.summary.longest_stretch = self.summary.longest_stretch.max(stretch);
    }

    /// RFC 9293 sections 3.4 and 3.7.1: bytes come in order, in the peer's window,
    /// in segments no longer than it takes. Returns whether they had been sent.
    fn look_at_sequence(
        &mut self,
        tcp: &TcpSlice<'_>,
        start: u32,
        end: u32,
        options: usize,
        complaints: &mut Vec<String>,
    ) -> bool {
        let payload = tcp.payload().len();
        let most = self.peer.mss.unwrap_or(DEFAULT_MSS).min(self.mtu - HEADERS) - options;
        if payload > most {
            complaints.push(format!("{payload} bytes where {most} are the most"));
        }
        if payload == 0 && !tcp.fin() {
            self.summary.acknowledgements += 1;
            return false;
        }
        let beyond = end > self.peer.edge + u32::from(tcp.fin());
        // Of what was sent before, or of what has no room.
        if payload == 1 && (end == self.own.next || beyond && self.peer.window == 0) {
            self.summary.probes += 1;
            return true;
        }
        if beyond {
            let by = end - self.peer.edge;
            complaints.push(format!("{by} bytes beyond the peer's window"));
        }
        if start < self.own.next {
            self.summary.resent += 1;
            return true;
        }
        if start > self.own.next {
            let gap = start - self.own.next;
            complaints.push(format!("leaves out {gap} sequence numbers"));
        }
        if self.own.fin.is_some() {
            complaints.push("sends behind its FIN".into());
        }
        self.own.next = end;
        self.summary.sent += payload as u64;
        self.summary.segments += u64::from(payload > 0);
        if tcp.fin() {
            self.own.fin = Some(end);
            self.summary.is_closed = true;
        }
        self.unpushed = payload > 0 && !tcp.psh() && !tcp.fin();
        false
    }

    /// What a super-segment was cut into has identifications from 0 on. Its segments
    /// are full but for the last, which alone has PSH or FIN (8254x manual, section
    /// 3.5.9), and say otherwise the same.
    fn look_at_run(
        &mut self,
        identification: u16,
        tcp: &TcpSlice<'_>,
        end: u32,
        resent: bool,
        complaints: &mut Vec<String>,
    ) {
        let payload = tcp.payload().len();
        let before = self.last.filter(|_| identification > 0);
        if payload == 0 && before.is_some_and(|last| last.ends_run && last.end == end) {
            self.summary.empty_tails += 1;
            return;
        }
        if identification > 0 {
            let continues = before.is_some_and(|last| {
                last.identification + 1 == identification
                    && (resent
                        || last.end == end.wrapping_sub(payload as u32 + u32::from(tcp.fin())))
                    && last.acknowledgement == tcp.acknowledgment_number()
                    && last.window == tcp.window_size()
            });
            let fits = before.is_some_and(|last| !last.ends_run && payload <= last.payload);
            if !continues {
                complaints.push("not the continuation of the segment before it".into());
            }
            if !fits {
                complaints.push("PSH, FIN or a short segment within a super-segment".into());
            }
        }
        let run = before.map_or(1, |last| last.run + 1);
        let begin = before.map_or(tcp.sequence_number(), |last| last.begin);
        let wraps = run > 1 && tcp.sequence_number().wrapping_add(payload as u32) < begin;
        self.summary.super_segments += u64::from(run == 2);
        self.summary.wrapped += u64::from(wraps && before.is_some_and(|last| !last.wraps));
        let shorter = before.is_some_and(|last| payload < last.payload);
        self.last = Some(Last {
            identification,
            end,
            payload,
            ends_run: tcp.psh() || tcp.fin() || payload == 0 || shorter,
            acknowledgement: tcp.acknowledgment_number(),
            window: tcp.window_size(),
            begin,
            run,
            wraps,
        });
    }

    /// The capture has ended, or another connection has taken the name.
    pub fn end(self, now: Duration) -> (Connection, Option<String>) {
        let mut summary = self.summary;
        summary.received = u64::from(self.own.acknowledged.saturating_sub(1));
        let is_over = summary.is_reset || summary.is_reset_by_peer;
        let late = self
            .waiting
            .front()
            .filter(|(_, since)| !is_over && now.saturating_sub(*since) > LATEST_ACKNOWLEDGEMENT);
        let complaint = match late {
            Some((end, _)) => Some(format!("{end} was never acknowledged")),
            None if self.unpushed && !is_over => Some("what was sent last has no PSH".into()),
            None => None,
        };
        (summary, complaint)
    }
}

impl Side {
    fn begin(&mut self, syn: &TcpSlice<'_>) {
        self.isn = Some(syn.sequence_number());
        self.next = self.next.max(1);
        for option in syn.options_iterator().flatten() {
            match option {
                TcpOptionElement::MaximumSegmentSize(mss) => self.mss = Some(mss.into()),
                TcpOptionElement::WindowScale(shift) => self.shift = Some(shift),
                TcpOptionElement::SelectiveAcknowledgementPermitted => self.takes_sack = true,
                _ => {}
            }
        }
    }

    /// Where a segment begins and ends.
    fn range(&self, tcp: &TcpSlice<'_>) -> Option<(u32, u32)> {
        let start = tcp.sequence_number().wrapping_sub(self.isn?);
        let length = tcp.payload().len() as u32 + u32::from(tcp.fin());
        Some((start, start.wrapping_add(length)))
    }

    /// Takes what a segment acknowledges and offers.
    fn offer(&mut self, acknowledgement: u32, window: u16) {
        self.acknowledged = self.acknowledged.max(acknowledgement);
        self.window = u32::from(window) << self.shift.unwrap_or(0);
        self.edge = acknowledgement + self.window;
    }
}
