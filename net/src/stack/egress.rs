//! Frames out: those sockets that have something to say, in turn.

use smoltcp::iface::{PollResult, SocketSet};
use smoltcp::socket::tcp::State;
use uniperf_drivers::nic::Transmit;

use super::{Set, Slot, Stack};
use crate::device::Port;
use crate::flows::Phase;

/// Frames that a socket sends before the next one has its turn.
pub(super) const QUANTUM: usize = 32;

/// Nothing happens sooner by itself to a connection that has just sent all it has,
/// in microseconds: loss recovery's shortest probe is five times this.
const SOONEST: i64 = 10_000;

/// What came of a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// Nothing is left to send now; the socket is to be asked again at this
    /// time, in smoltcp's microseconds.
    Done(Option<i64>),
    /// The same of a connection in mid-life, all of whose data the last frame
    /// had: nothing else about it has changed.
    CaughtUp,
    /// The quantum was used up.
    More,
    /// The ring is full.
    RingFull,
    /// The peer's station address is not known yet; a question was sent.
    Unresolved(Option<i64>),
}

impl Stack {
    /// Gives a turn to every socket whose deadline has come.
    pub(crate) fn run_timers(&mut self) {
        let now = self.now.total_micros();
        while let Some(number) = self.timers.pop_due(now) {
            let slot = self.slot(number);
            if let Slot::Tcp(flow) = slot {
                self.flows.slow_down(flow);
                if self.flows.at(flow).phase == Phase::Open {
                    let at = self.next_of_flow(flow);
                    // Most often what the deadline was for has come meanwhile.
                    if at.is_none_or(|at| at > now) {
                        self.arm(number, at);
                        continue;
                    }
                }
            }
            self.queue(slot);
        }
        self.time_wait.expire(self.now_ns);
        self.reassembly.expire(self.now_ns);
        if self
            .addressing
            .deadline()
            .is_some_and(|at| at <= self.now_ns)
        {
            self.queue(Slot::Common);
        }
    }

    /// When [`run_timers`](Self::run_timers) has something to do, in
    /// nanoseconds. `None` if nothing but a frame can start anything.
    pub(crate) fn deadline(&self) -> Option<u64> {
        let sockets = self
            .timers
            .next()
            .map(|at| (at.max(0) as u64).saturating_mul(1000));
        let ended = earlier(sockets, self.time_wait.deadline());
        let incomplete = earlier(ended, self.reassembly.deadline());
        earlier(incomplete, self.addressing.deadline())
    }

    /// Lets the sockets whose turn it is send. Returns whether the ring was too
    /// full for some.
    pub(crate) fn egress<T: Transmit>(&mut self, tx: &mut T) -> bool {
        while let Some(number) = self.turn.pop_front() {
            let slot = self.slot(number);
            self.place(slot).queued = false;
            let turn = match slot {
                Slot::Common => self.turn_of_common(tx),
                Slot::Udp(slot) => self.turn_of_udp(slot, tx),
                Slot::Tcp(slot) => self.turn_of_flow(slot, tx),
            };
            match turn {
                Turn::Done(at) => self.arm(number, at),
                Turn::CaughtUp => {
                    let at = self.now.total_micros() + SOONEST;
                    self.timers.arm(number, at);
                }
                Turn::Unresolved(at) => {
                    self.arm(number, at);
                    if !core::mem::replace(&mut self.place(slot).unresolved, true) {
                        self.unresolved.push(number);
                    }
                }
                Turn::More => self.queue(slot),
                Turn::RingFull => {
                    self.place(slot).queued = true;
                    self.turn.push_front(number);
                    return true;
                }
            }
        }
        false
    }

    fn arm(&mut self, number: u32, at: Option<i64>) {
        if let Some(at) = at {
            self.timers.arm(number, at);
        }
    }

    fn turn_of_common<T: Transmit>(&mut self, tx: &mut T) -> Turn {
        let turn = self.drive(Set::Common, tx);
        let before = self.addressing.current();
        let notice = self
            .addressing
            .update(&mut self.interface, &mut self.common, self.now_ns);
        self.notices.extend(notice);
        if self.addressing.current() != before {
            self.neighbours.clear();
            // Connections from an address that is gone end.
            let slots: alloc::vec::Vec<u32> = self.flows.iter().map(|(slot, _)| slot).collect();
            for slot in slots {
                self.queue(Slot::Tcp(slot));
            }
        }
        turn
    }

    fn turn_of_flow<T: Transmit>(&mut self, slot: u32, tx: &mut T) -> Turn {
        if self.flows.at(slot).phase == Phase::Free {
            return Turn::Done(None);
        }
        if self.flows.at(slot).limit <= self.now_ns {
            self.give_up(slot);
            if self.flows.at(slot).phase == Phase::Free {
                return Turn::Done(None);
            }
        }
        self.recover(slot, tx);
        let turn = self.drive(Set::Flow(slot), tx);
        if turn == Turn::CaughtUp {
            return turn;
        }
        self.settle(slot, false);
        match turn {
            Turn::Unresolved(at) => {
                self.flows.at(slot).silenced = true;
                match self.rest(slot, at) {
                    Turn::Done(at) => Turn::Unresolved(at),
                    other => other,
                }
            }
            Turn::Done(at) => self.rest(slot, at),
            turn => turn,
        }
    }

    /// A connection has nothing more to send now: decides when to look again,
    /// and whether it is over.
    fn rest(&mut self, slot: u32, at: Option<i64>) -> Turn {
        let flow = self.flows.at(slot);
        match flow.phase {
            Phase::Free => Turn::Done(None),
            Phase::Aborted => {
                self.end_flow(slot);
                Turn::Done(None)
            }
            Phase::Ended if !flow.end_told => Turn::Done(None),
            Phase::Ended | Phase::Over => {
                let soon = self.now.total_micros() + LATE_ACKNOWLEDGEMENT;
                if at.is_some_and(|at| at < soon) {
                    return Turn::Done(at);
                }
                let flow = self.flows.at(slot);
                let (tuple, peer_end) = (flow.tuple, flow.peer_end);
                if flow.state == State::TimeWait {
                    self.time_wait.insert(tuple, peer_end, self.now_ns);
                }
                self.end_flow(slot);
                Turn::Done(None)
            }
            Phase::HalfOpen | Phase::Open | Phase::Released => {
                Turn::Done(sooner(at, flow.deadline(self.patience)))
            }
        }
    }

    /// Patience with a connection has ended.
    fn give_up(&mut self, slot: u32) {
        match self.flows.at(slot).phase {
            Phase::HalfOpen => {
                self.counters.half_open_timeouts += 1;
                self.end_flow(slot);
            }
            Phase::Released => {
                self.abort_slot(slot);
            }
            _ => {}
        }
    }

    /// Lets a socket set send up to [`QUANTUM`] frames.
    fn drive<T: Transmit>(&mut self, set: Set, tx: &mut T) -> Turn {
        for _ in 0..QUANTUM {
            let before = self.counters.tx_payload;
            let (result, asked, refused) = self.poll_egress(set, tx);
            if refused {
                return Turn::RingFull;
            }
            if let Set::Flow(slot) = set
                && result != PollResult::None
                && self.has_caught_up(slot, self.counters.tx_payload - before)
            {
                return Turn::CaughtUp;
            }
            let at = self.next_of(set);
            if result == PollResult::None {
                return match asked {
                    // It wanted to send and did not: see `device::Port`.
                    true => Turn::Unresolved(at),
                    false => Turn::Done(at),
                };
            }
            if at.is_none_or(|at| at > self.now.total_micros()) {
                return Turn::Done(at);
            }
        }
        Turn::More
    }

    /// Whether a connection in mid-life has just sent all the data it has in one
    /// frame, which had `payload` bytes of it. Then nobody need be asked what comes next, which costs
    /// a tenth of a short transaction: nothing comes sooner than [`SOONEST`].
    fn has_caught_up(&mut self, slot: u32, payload: u64) -> bool {
        let flow = self.flows.at(slot);
        let socket = flow.socket();
        payload == socket.send_queue() as u64
            && flow.phase == Phase::Open
            && flow.state == State::Established
            && socket.state() == State::Established
    }

    pub(super) fn poll_egress<T: Transmit>(
        &mut self,
        set: Set,
        tx: &mut T,
    ) -> (PollResult, bool, bool) {
        let path_mss = match set {
            Set::Flow(slot) => {
                let remote = self.flows.at(slot).tuple.remote;
                self.path_mss_to(remote)
            }
            Set::Common => None,
        };
        let mss = path_mss.map_or(self.offloads.mss(), usize::from);
        let may_be_long = match set {
            Set::Flow(slot) => self.flows.at(slot).socket().send_queue() > mss,
            Set::Common => false,
        };
        let (sockets, report) = match set {
            Set::Common => (&mut self.common, None),
            Set::Flow(slot) => self.flows.at(slot).drivable(),
        };
        let mut port = Port {
            frame: None,
            tx,
            reserve: self.reserve,
            counters: &mut self.counters,
            shape: &self.shape,
            is_tcp: matches!(set, Set::Flow(_)),
            may_be_long,
            path_mss,
            offloads: &self.offloads,
            scratch: &mut self.scratch,
            report,
            sent: None,
            asked: false,
            refused: false,
        };
        let result = self.interface.poll_egress(self.now, &mut port, sockets);
        let (sent, asked, refused) = (port.sent, port.asked, port.refused);
        self.note_sent(set, sent);
        (result, asked, refused)
    }

    /// When a connection wants its next turn, in smoltcp's microseconds.
    fn next_of_flow(&mut self, slot: u32) -> Option<i64> {
        let at = self.next_of(Set::Flow(slot));
        sooner(at, self.flows.at(slot).deadline(self.patience))
    }

    /// When a socket set wants its next turn, in smoltcp's microseconds.
    pub(super) fn next_of(&mut self, set: Set) -> Option<i64> {
        let sockets: &SocketSet<'static> = match set {
            Set::Common => &self.common,
            Set::Flow(slot) => &self.flows.at(slot).sockets,
        };
        let at = self.interface.poll_at(self.now, sockets);
        at.map(|at| at.total_micros())
    }
}

/// The earlier of two times, of which either may be never.
pub(crate) fn earlier(a: Option<u64>, b: Option<u64>) -> Option<u64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// The earlier of a time in smoltcp's microseconds and one in nanoseconds, of
/// which either may be never.
fn sooner(at: Option<i64>, nanoseconds: Option<u64>) -> Option<i64> {
    let other = nanoseconds.map(|at| at.div_ceil(1000) as i64);
    match (at, other) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}

/// An acknowledgement is late by less than this, in microseconds.
const LATE_ACKNOWLEDGEMENT: i64 = 1_000_000;
