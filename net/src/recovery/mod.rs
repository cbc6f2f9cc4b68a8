//! Loss recovery of the sender, beside smoltcp.
//!
//! smoltcp keeps the data and sends it; this module keeps the books and decides:
//! what is lost (RFC 6675 and RFC 6582, with a timer as in RFC 8985 where too few
//! segments follow a lost one), how much may be under way (RFC 5681), and how long
//! to wait (RFC 6298, RFC 8985's probe). smoltcp's own part in that is switched
//! off, and it is told what to do in the words it understands:
//!
//! - how much it may send by the window that acknowledgements carry;
//! - to send its first segment again by three duplicate acknowledgements;
//! - to send everything again by its own retransmission timer.
//!
//! A [`Recovery`] belongs to one connection. It sees each segment that comes, before
//! smoltcp does ([`hear`](Recovery::hear)), and each that was sent
//! ([`sent`](Recovery::sent)). While nothing is lost that is a few comparisons.

mod ahead;
mod arrivals;
mod clock;
mod congestion;
mod orders;
mod rtt;
mod scoreboard;
mod segment;
#[cfg(test)]
mod tests;

pub use segment::Sent;

use smoltcp::wire::TcpOption;

use crate::frame::TcpFrame;
use ahead::Ahead;
use congestion::Congestion;
use rtt::Rtt;
use scoreboard::Scoreboard;
use segment::{Header, Offer, before, is_bare, later};

/// How many later segments must have come before one is taken for lost without
/// further waiting (RFC 5681's three duplicate acknowledgements).
const ENOUGH_LATER: u32 = 3;
/// How many missing segments are too many to be sent again one by one.
const MANY_MISSING: u32 = 4;

/// What becomes of a received segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// smoltcp is to see it.
    News,
    /// There is nothing in it for smoltcp.
    Known,
}

/// What to think of a reset or of a SYN that comes amid a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breach {
    /// It is the peer's.
    Right,
    /// It may be anybody's.
    Doubtful,
    /// It is nobody's concern.
    Stray,
}

/// What smoltcp is to be made to do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Wanted {
    /// It may go on.
    #[default]
    Nothing,
    /// The first segment is to be sent again.
    Repeat,
    /// All that is not acknowledged is to be sent again.
    Rewind,
}

/// An acknowledgement to be shown to smoltcp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hint {
    /// The sequence number.
    pub seq: u32,
    /// The acknowledgement number.
    pub ack: u32,
    /// The window field.
    pub window: u16,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    /// Nothing is known to be lost.
    #[default]
    Calm,
    /// The first segment was sent again to see whether it was lost.
    Probing {
        /// What was sent before.
        recover: u32,
    },
    /// Segments are lost, all of them sent before `recover`.
    Repairing {
        /// What was sent before the loss was noticed.
        recover: u32,
    },
    /// Everything is being sent again, up to `recover`.
    Rewinding {
        /// What was sent before.
        recover: u32,
    },
}

/// The last time that the first segment was sent again.
#[derive(Clone, Copy, Debug)]
struct Repeat {
    at: u64,
    /// Behind the last byte that was sent before it.
    nxt: u32,
}

/// The books of one connection. Times are in nanoseconds.
#[derive(Debug)]
pub struct Recovery {
    phase: Phase,
    /// Whether our SYN was sent, and whether it was acknowledged.
    open: bool,
    established: bool,
    /// Whether the peer reports what it holds beyond holes.
    sack: bool,
    /// By how many bits the peer's windows are shifted, and ours.
    shift: u8,
    own_shift: u8,
    /// Timeouts in a row.
    backoff: u8,
    /// Whether a probe was sent since the last progress.
    probed: bool,
    /// What smoltcp is to be made to do.
    wanted: Wanted,
    /// Whether it was told to send the first segment again, and has not done so.
    repeating: bool,
    /// Whether it is being made to send everything again.
    rewinding: bool,
    mss: u32,
    largest_mss: u32,

    /// The first byte not acknowledged, and the one behind the last ever sent.
    una: u32,
    nxt: u32,
    /// Where smoltcp goes on sending: before `nxt` while everything is sent again.
    cursor: u32,
    /// The peer's window, and what smoltcp was told it is.
    window: u32,
    told: u32,
    /// Duplicate acknowledgements of a peer that reports no more than that.
    duplicates: u32,
    congestion: Congestion,
    /// Most bytes that were in flight in this round trip, and in the one before.
    peak: u32,
    last_peak: u32,
    /// What ends this round trip when it is acknowledged.
    round_end: u32,

    /// The byte expected of the peer next, and the end of the window it has.
    rcv_nxt: u32,
    rcv_end: u32,
    ahead: Ahead,
    /// Where the peer's FIN is that came before what it follows.
    early_fin: Option<u32>,

    rtt: Rtt,
    /// A byte that is timed, and when it was sent.
    timed: Option<(u32, u64)>,
    /// Since when progress is waited for.
    since: u64,
    /// When the peer was last heard.
    heard: u64,
    /// When something was last sent.
    last_sent: u64,
    /// Since when the peer holds something beyond the first hole.
    hole_since: Option<u64>,
    repeated: Option<Repeat>,
    /// Whether anything was sent again since a loss was suspected.
    has_repeated: bool,
    held: Scoreboard,
}

impl Recovery {
    /// Before a connection, whose segments will have at most `largest_mss`
    /// payload bytes.
    pub fn new(largest_mss: usize) -> Self {
        let mss = largest_mss as u32;
        Self {
            phase: Phase::Calm,
            open: false,
            established: false,
            sack: false,
            shift: 0,
            own_shift: 0,
            backoff: 0,
            probed: false,
            wanted: Wanted::Nothing,
            repeating: false,
            rewinding: false,
            mss,
            largest_mss: mss,
            una: 0,
            nxt: 0,
            cursor: 0,
            window: 0,
            told: 0,
            duplicates: 0,
            congestion: Congestion::new(mss),
            peak: 0,
            last_peak: 0,
            round_end: 0,
            rcv_nxt: 0,
            rcv_end: 0,
            ahead: Ahead::default(),
            early_fin: None,
            rtt: Rtt::default(),
            timed: None,
            since: 0,
            heard: 0,
            last_sent: 0,
            hole_since: None,
            repeated: None,
            has_repeated: false,
            held: Scoreboard::default(),
        }
    }

    /// Looks at a received segment, before smoltcp does.
    pub fn hear(&mut self, segment: &TcpFrame, frame: &[u8], now: u64) -> Heard {
        let header = Header::of(frame);
        if segment.flags.opens() && !self.open {
            self.meet(Offer::read(&header));
            return Heard::News;
        }
        if !self.open || segment.flags.synchronizes() || segment.flags.resets() {
            return Heard::News;
        }
        let possible =
            self.nxt.wrapping_sub(self.una) + u32::from(self.established && self.told == 0);
        let acknowledged = segment.ack.wrapping_sub(self.una);
        if !self.is_acceptable(segment) || acknowledged > possible {
            return Heard::News;
        }
        self.heard = now;
        self.take_data(segment);
        let window = u32::from(header.window()) << self.shift;
        let was_open = self.window > 0 && window > 0;
        let is_repeat = acknowledged == 0 && self.nxt != self.una && is_bare(segment);
        if is_repeat && !self.sack && window == self.window {
            self.duplicates += 1;
        }
        self.window = window;
        let mut again = false;
        let mut more = false;
        if self.sack && header.has_options() {
            for option in header.options() {
                if let TcpOption::SackRange(blocks) = option {
                    for (left, right) in blocks.into_iter().flatten() {
                        // RFC 2883: what came twice.
                        again |= !before(segment.ack, right);
                        more |= self.held.add(left, right, self.nxt);
                    }
                }
            }
        }
        if acknowledged > 0 {
            self.progress(segment.ack, again, now);
        }
        if more || self.duplicates > 0 {
            self.look_for_loss(now);
        }
        if is_repeat && was_open {
            return Heard::Known;
        }
        self.told = window;
        Heard::News
    }

    /// RFC 5961 sections 3.2 and 4.2: what a reset or SYN is.
    pub fn breach(&self, segment: &TcpFrame) -> Breach {
        if !self.open || segment.flags.resets() && segment.seq == self.rcv_nxt {
            Breach::Right
        } else if segment.flags.synchronizes()
            || before(self.rcv_nxt, segment.seq) && before(segment.seq, self.rcv_end)
        {
            Breach::Doubtful
        } else {
            Breach::Stray
        }
    }

    /// The sequence number, acknowledgement and window field of an acknowledgement.
    pub fn standing(&self) -> (u32, u32, u16) {
        let window = self.rcv_end.wrapping_sub(self.rcv_nxt) >> self.own_shift;
        let window = u16::try_from(window).unwrap_or(u16::MAX);
        (self.nxt, self.rcv_nxt, window)
    }

    /// What a SYN says.
    fn meet(&mut self, offer: Offer) {
        self.mss = u32::from(offer.mss).clamp(LEAST_MSS, self.largest_mss.max(LEAST_MSS));
        self.congestion = Congestion::new(self.mss);
        self.shift = offer.shift;
        self.sack = offer.sack;
    }

    /// Everything up to `ack` has arrived; `again` says that the peer got
    /// something twice.
    fn progress(&mut self, ack: u32, again: bool, now: u64) {
        let bytes = ack.wrapping_sub(self.una);
        self.established = true;
        if let Some((byte, at)) = self.timed
            && !before(ack, byte)
        {
            self.rtt.sample(now - at);
            self.timed = None;
        }
        let repeated = self.repeated.take();
        self.una = ack;
        self.nxt = later(self.nxt, ack);
        if !before(ack, self.round_end) {
            self.last_peak = self.peak;
            self.peak = self.in_flight();
            self.round_end = self.nxt;
        }
        self.cursor = later(self.cursor, ack);
        self.held.advance(ack);
        self.duplicates = 0;
        self.since = now;
        self.backoff = 0;
        self.probed = false;
        self.wanted = Wanted::Nothing;
        self.hole_since = (!self.held.is_empty()).then_some(now);
        if self.phase == Phase::Calm {
            let used = self.peak.max(self.last_peak);
            return self.congestion.acknowledged(bytes, used);
        }
        // An answer this soon is one to the first sending (RFC 4015's question).
        let too_soon = |repeat: &Repeat| now - repeat.at < self.rtt.least() * 3 / 4;
        let needless = again
            || match &repeated {
                Some(repeat) => too_soon(repeat),
                None => !self.has_repeated,
            };
        self.repaired(bytes, needless);
    }

    /// Progress while something was lost, or thought to be.
    fn repaired(&mut self, bytes: u32, needless: bool) {
        match self.phase {
            Phase::Calm => {}
            Phase::Probing { .. } if needless => self.phase = Phase::Calm,
            Phase::Probing { recover } => {
                self.congestion.lost();
                self.go_on_repairing(recover);
            }
            Phase::Repairing { .. } if needless => {
                self.congestion.undo();
                self.phase = Phase::Calm;
            }
            Phase::Repairing { recover } => self.go_on_repairing(recover),
            Phase::Rewinding { recover } => {
                self.congestion
                    .acknowledged(bytes, self.congestion.window());
                if !before(self.una, recover) {
                    self.phase = Phase::Calm;
                }
            }
        }
    }

    /// RFC 6582: what comes first now was sent before the loss was noticed, a
    /// round trip ago, so it is lost as well.
    fn go_on_repairing(&mut self, recover: u32) {
        if !before(self.una, recover) {
            self.phase = Phase::Calm;
        } else if self.is_mostly_missing(recover) {
            self.congestion.start_slowly();
            self.rewind();
        } else {
            self.phase = Phase::Repairing { recover };
            self.wanted = Wanted::Repeat;
        }
    }

    /// Whether a round trip for each hole would take longer than sending again
    /// what the peer holds.
    fn is_mostly_missing(&self, recover: u32) -> bool {
        let held = self.held.bytes() - self.held.bytes_from(recover);
        let missing = recover.wrapping_sub(self.una).saturating_sub(held);
        missing > held.max(MANY_MISSING * self.mss)
    }

    /// The peer holds more beyond the first hole.
    fn look_for_loss(&mut self, now: u64) {
        if matches!(self.phase, Phase::Rewinding { .. }) {
            return;
        }
        self.hole_since.get_or_insert(now);
        // RFC 6675 section 4, IsLost.
        let enough = (ENOUGH_LATER - 1) * self.mss;
        match self.repeated {
            None if self.bytes_held() > enough => self.repair(),
            None => {}
            // What was sent after the repetition has come, the repetition not.
            Some(repeat) => {
                let later = self.held.bytes_from(repeat.nxt);
                let waited = now - repeat.at > self.overtaking() + self.rtt.smoothed().unwrap_or(0);
                if later > enough || later > 0 && waited {
                    self.repeated = None;
                    self.repair();
                }
            }
        }
    }

    fn repair(&mut self) {
        if !matches!(self.phase, Phase::Repairing { .. }) {
            self.congestion.lost();
            self.phase = Phase::Repairing { recover: self.nxt };
            self.has_repeated = false;
        }
        self.wanted = Wanted::Repeat;
    }

    /// Notes a segment that smoltcp has sent.
    pub fn sent(&mut self, sent: &Sent, now: u64) {
        if sent.flags.synchronizes() {
            return self.opened(sent, now);
        }
        self.rcv_nxt = later(self.rcv_nxt, sent.ack);
        self.rcv_end = sent
            .ack
            .wrapping_add(u32::from(sent.window) << self.own_shift);
        if !self.open || sent.end == sent.seq {
            return;
        }
        let flight = self.in_flight();
        if flight > 0 && sent.seq == self.una && !self.is_going_on(sent) {
            return self.sent_again(sent, now);
        }
        // A probe of a closed window is not under way.
        if self.told == 0 && before(self.nxt, sent.end) {
            return;
        }
        self.cursor = later(self.cursor, sent.end);
        if before(self.nxt, sent.end) {
            if flight == 0 {
                self.begin_flight(now);
            }
            self.nxt = sent.end;
            self.peak = self.peak.max(self.in_flight());
            if self.timed.is_none() {
                self.timed = Some((sent.end, now));
            }
            self.last_sent = now;
        }
    }

    /// Whether smoltcp just went on after having been made to start again.
    fn is_going_on(&self, sent: &Sent) -> bool {
        !self.rewinding && !self.repeating && sent.seq == self.cursor
    }

    fn opened(&mut self, syn: &Sent, now: u64) {
        let again = self.open && self.una == syn.seq;
        self.open = true;
        self.una = syn.seq;
        self.nxt = syn.seq.wrapping_add(1);
        self.cursor = self.nxt;
        self.round_end = self.nxt;
        self.held.clear(self.una);
        self.own_shift = syn.shift;
        self.rcv_nxt = syn.ack;
        self.ahead.clear(syn.ack);
        self.rcv_end = syn
            .ack
            .wrapping_add(u32::from(syn.window) << self.own_shift);
        self.timed = (!again).then_some((self.nxt, now));
        self.since = now;
        self.heard = now;
        self.last_sent = now;
    }

    fn begin_flight(&mut self, now: u64) {
        self.since = now;
        self.heard = now;
        if now - self.last_sent > self.rtt.timeout(0) {
            self.congestion.rested();
        }
    }

    fn sent_again(&mut self, sent: &Sent, now: u64) {
        if core::mem::take(&mut self.rewinding) {
            self.cursor = sent.end;
        } else if !core::mem::take(&mut self.repeating) {
            // smoltcp's own timer.
            self.time_out(now);
            self.wanted = Wanted::Nothing;
            self.rewinding = false;
            self.cursor = sent.end;
        }
        // RFC 6298 section 3 (Karn).
        self.timed = None;
        self.since = now;
        self.last_sent = now;
        self.has_repeated = true;
        self.repeated = Some(Repeat {
            at: now,
            nxt: self.nxt,
        });
    }

    fn time_out(&mut self, now: u64) {
        self.congestion.timed_out(self.backoff == 0);
        self.backoff = self.backoff.saturating_add(1);
        self.since = now;
        self.rewind();
    }

    fn rewind(&mut self) {
        self.phase = Phase::Rewinding { recover: self.nxt };
        self.held.clear(self.una);
        self.duplicates = 0;
        self.hole_since = None;
        self.repeated = None;
        self.timed = None;
        self.wanted = Wanted::Rewind;
        self.repeating = false;
        self.rewinding = true;
        self.cursor = self.una;
    }

    /// Whether a segment with this sequence number may be under way.
    pub fn is_in_flight(&self, seq: u32) -> bool {
        self.established && seq.wrapping_sub(self.una) < self.in_flight()
    }

    /// The path takes segments of no more than `mss` payload bytes: what is under way
    /// is sent again, if it may hold larger ones. It was not lost to congestion
    /// (RFC 1191 section 6.5). Returns whether there is anything to send.
    pub fn narrow(&mut self, mss: usize, now: u64) -> bool {
        let mss = (mss as u32).max(LEAST_MSS);
        if mss >= self.mss {
            return false;
        }
        self.mss = mss;
        self.congestion.set_mss(mss);
        self.since = now;
        self.rewind();
        true
    }

    /// Whether smoltcp has still to be made to send everything again.
    pub fn is_rewinding(&self) -> bool {
        self.rewinding
    }

    /// smoltcp could not be made to send everything again: the first segment has
    /// to do.
    pub fn rewind_failed(&mut self) {
        self.rewinding = false;
        self.cursor = self.nxt;
        self.wanted = Wanted::Repeat;
    }

    fn in_flight(&self) -> u32 {
        self.nxt.wrapping_sub(self.una)
    }

    /// How many bytes the peer holds beyond the first hole.
    fn bytes_held(&self) -> u32 {
        if self.sack {
            return self.held.bytes();
        }
        let most = self.in_flight().saturating_sub(self.mss);
        self.duplicates.saturating_mul(self.mss).min(most)
    }
}

/// As smoltcp, and Linux, take it.
const LEAST_MSS: u32 = 48;
