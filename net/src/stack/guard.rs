//! Segments that would break or hijack what goes on, and are answered with a
//! question instead.

use uniperf_drivers::nic::Transmit;

use super::Stack;
use crate::answers::{self, Bare};
use crate::flows::Phase;
use crate::frame::TcpFrame;
use crate::recovery::Breach;

/// Nanoseconds between two challenges of a connection (RFC 5961 section 7).
const CHALLENGE_EVERY: u64 = 1_000_000_000;

impl Stack {
    /// Takes a reset, or a SYN, of a connection that there is.
    pub(super) fn disrupt<T: Transmit>(
        &mut self,
        slot: u32,
        segment: &TcpFrame,
        frame: &[u8],
        tx: &mut T,
    ) {
        // What came before it decides which number is the right one.
        if let Some(joined) = self.gro.take_of(slot) {
            self.feed_joined(joined, tx);
        }
        if !self.is_challenged(slot, segment, frame, tx) {
            self.feed(slot, segment, frame, tx);
        }
    }

    /// RFC 5961 sections 3 and 4: a reset that does not hit the very next sequence
    /// number, and a SYN amid a connection, may come from anybody. Whoever is at the
    /// other end is asked, by an acknowledgement: one without that connection resets
    /// it with the right number. Returns whether `segment` was of that kind.
    fn is_challenged<T: Transmit>(
        &mut self,
        slot: u32,
        segment: &TcpFrame,
        frame: &[u8],
        tx: &mut T,
    ) -> bool {
        let now = self.now_ns;
        let flow = self.flows.at(slot);
        let is_repeated = flow.phase == Phase::HalfOpen && segment.flags.synchronizes();
        let breach = flow.recovery.breach(segment);
        if is_repeated || breach == Breach::Right {
            return false;
        }
        if breach == Breach::Doubtful && now >= flow.challenge_at {
            flow.challenge_at = now + CHALLENGE_EVERY;
            let (seq, ack, window) = flow.recovery.standing();
            let challenge = Bare {
                opens: false,
                seq,
                ack,
                window,
            };
            self.counters.challenges += 1;
            self.answer(segment, frame, challenge, tx);
        }
        true
    }

    /// Whether a segment of no connection is a SYN that has to wait until its sender
    /// has proved its address; see [`SynGuard`](crate::syn_guard::SynGuard).
    pub(super) fn is_doubted<T: Transmit>(
        &mut self,
        segment: &TcpFrame,
        frame: &[u8],
        tx: &mut T,
    ) -> bool {
        let peer = segment.tuple.remote;
        if segment.flags.resets() && segment.seq == self.syn_guard.proof(&segment.tuple) {
            self.syn_guard.meet(peer);
        }
        let asks = segment.flags.opens() && self.is_listened_on(&segment.tuple);
        if !asks || !self.flows.is_crowded() || self.syn_guard.knows(peer) {
            return false;
        }
        let proof = self.syn_guard.proof(&segment.tuple);
        // What would be the right acknowledgement is no question.
        if proof == segment.end {
            return false;
        }
        let question = Bare {
            opens: true,
            seq: proof,
            ack: proof,
            window: 0,
        };
        self.counters.doubted += 1;
        self.answer(segment, frame, question, tx);
        true
    }

    /// Answers a segment without smoltcp.
    pub(super) fn answer<T: Transmit>(
        &mut self,
        segment: &TcpFrame,
        frame: &[u8],
        answer: Bare,
        tx: &mut T,
    ) {
        if answers::answer_segment(segment, frame, answer, tx, &mut self.counters).is_err() {
            self.counters.drop_tx_full += 1;
        }
    }
}
