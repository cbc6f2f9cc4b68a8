//! Frames in: each to the one socket set it concerns.

use smoltcp::socket::tcp::State;
use smoltcp::wire::Ipv4Address;
use uniperf_drivers::nic::{RxChecksum, RxFrame, Transmit};

use super::happenings::What;
use super::{Set, Slot, Stack};
use crate::answers::{self, Bare};
use crate::device::Port;
use crate::flows::Phase;
use crate::frame::{Drop, ETHERNET_HEADER, Fragment, Kind, TcpFrame, Tuple, is_tcp};
use crate::gro::{Joined, Offer};
use crate::path_mtu::TooLarge;
use crate::reassembly::Outcome;
use crate::recovery::Heard;
use crate::services::Ending;
use crate::time_wait::Answer;

impl Stack {
    /// Takes a frame. What answers it at once goes into the transmit ring,
    /// where there must be room for one frame.
    pub(crate) fn receive<T: Transmit>(&mut self, frame: RxFrame<'_>, tx: &mut T) {
        self.counters.rx_frames += 1;
        self.counters.rx_bytes += frame.bytes.len() as u64;
        let frame = RxFrame {
            checksum: self.offloads.verdict(frame.checksum),
            ..frame
        };
        match self.station.look(&frame) {
            Ok(Kind::Fragment(fragment)) => self.take_fragment(&fragment, tx),
            Ok(kind) => self.deliver(kind, frame.bytes, tx),
            Err(reason) => self.count_drop(reason),
        }
    }

    fn deliver<T: Transmit>(&mut self, kind: Kind<'_>, frame: &[u8], tx: &mut T) {
        match kind {
            Kind::Tcp(segment) => self.deliver_tcp(&segment, frame, tx),
            Kind::Udp(datagram) => self.deliver_udp(&datagram, frame, tx),
            Kind::Arp => {
                self.process(Set::Common, frame, tx);
                if let Some(ours) = self.addressing.current() {
                    let packet = &frame[ETHERNET_HEADER..];
                    self.neighbours.learn(packet, ours, self.now_ns);
                }
                self.resolved();
            }
            Kind::Icmp => match TooLarge::read(frame) {
                Some(message) => self.take_complaint(&message),
                None => self.process(Set::Common, frame, tx),
            },
            // Nobody's: smoltcp tells the sender so.
            Kind::OtherIp | Kind::Fragment(_) if self.unreachable.allow(self.now_ns) => {
                self.process(Set::Common, frame, tx);
            }
            Kind::OtherIp | Kind::Fragment(_) => self.counters.drop_no_protocol += 1,
        }
    }

    fn deliver_tcp<T: Transmit>(&mut self, segment: &TcpFrame, frame: &[u8], tx: &mut T) {
        if let Some(slot) = self.flows.find(&segment.tuple) {
            if segment.flags.disrupts() {
                return self.disrupt(slot, segment, frame, tx);
            }
            return self.join_or_feed(slot, segment, frame, tx);
        }
        match self.time_wait.look(segment) {
            Answer::Unknown => {}
            Answer::Ignore => return,
            Answer::Acknowledge => return self.answer(segment, frame, Bare::late(segment), tx),
        }
        if self.is_doubted(segment, frame, tx) {
            return;
        }
        match self.begin_flow(segment) {
            Some(slot) => self.feed(slot, segment, frame, tx),
            // Nobody's: smoltcp answers with a reset where one is due.
            None => self.process(Set::Common, frame, tx),
        }
    }

    /// Joins a segment to its neighbours, or delivers it.
    fn join_or_feed<T: Transmit>(
        &mut self,
        slot: u32,
        segment: &TcpFrame,
        frame: &[u8],
        tx: &mut T,
    ) {
        if self.gro.has_no_use_for(frame) {
            return self.feed(slot, segment, frame, tx);
        }
        if let Some(other) = self.gro.in_the_way(slot) {
            self.feed_joined(other, tx);
        }
        let offer = self.gro.offer(slot, segment, frame);
        if offer != Offer::Taken
            && self.gro.has_runs()
            && let Some(joined) = self.gro.take_of(slot)
        {
            self.feed_joined(joined, tx);
        }
        if offer == Offer::Refused {
            self.feed(slot, segment, frame, tx);
        }
    }

    /// Ends a batch of frames: delivers what waited for more.
    pub(crate) fn end_batch<T: Transmit>(&mut self, tx: &mut T) {
        while self.gro.has_runs()
            && let Some(joined) = self.gro.take_any()
        {
            self.feed_joined(joined, tx);
        }
    }

    pub(super) fn feed_joined<T: Transmit>(&mut self, joined: Joined, tx: &mut T) {
        let is_run = joined.frames > 1;
        if is_run {
            self.counters.rx_joined += u64::from(joined.frames);
            self.counters.rx_joined_runs += 1;
            // For smoltcp it is one segment, which may wait for another; as the
            // several that they are they may not (RFC 5681 section 4.2).
            self.flows.at(joined.flow).acknowledge_at_once(true);
        }
        self.feed(
            joined.flow,
            &joined.segment,
            &joined.frame[..joined.len],
            tx,
        );
        if is_run {
            self.flows.at(joined.flow).acknowledge_at_once(false);
        }
        self.gro.recycle(joined);
    }

    /// Lets a connection process a segment.
    pub(super) fn feed<T: Transmit>(
        &mut self,
        slot: u32,
        segment: &TcpFrame,
        frame: &[u8],
        tx: &mut T,
    ) {
        if segment.flags.closes() {
            self.flows.at(slot).peer_end = segment.end;
        }
        if self
            .flows
            .at(slot)
            .recovery
            .hear(segment, frame, self.now_ns)
            == Heard::Known
        {
            return self.queue(Slot::Tcp(slot));
        }
        let may_be_final = self.may_be_final(slot, segment);
        self.process(Set::Flow(slot), frame, tx);
        if may_be_final && self.is_at_rest(slot) {
            return;
        }
        self.deliver_early_fin(slot, tx);
        self.settle(slot, true);
        self.queue(Slot::Tcp(slot));
    }

    /// Whether a segment carries nothing but an acknowledgement, to a connection
    /// whose service does not wait for room.
    fn may_be_final(&mut self, slot: u32, segment: &TcpFrame) -> bool {
        let flow = self.flows.at(slot);
        segment.end == segment.seq
            && !segment.flags.resets()
            && flow.phase == Phase::Open
            && flow.state == State::Established
            && flow.socket().can_send()
    }

    /// Whether such a segment has left a connection with nothing to send and
    /// nothing to tell its service. Its deadlines have moved out, if at all.
    fn is_at_rest(&mut self, slot: u32) -> bool {
        let socket = self.flows.at(slot).socket();
        socket.state() == State::Established && socket.send_queue() == 0
    }

    /// Makes a connection for a SYN to a port that is listened on.
    fn begin_flow(&mut self, segment: &TcpFrame) -> Option<u32> {
        if !segment.flags.opens() || !self.is_our_address(segment.tuple.local) {
            return None;
        }
        let port = segment.tuple.local_port;
        let listener = *self.listeners.at(port)?;
        let is_reserved = self.listeners.lend(port);
        let cost = match is_reserved {
            true => 0,
            false => listener.room.cost(),
        };
        self.make_way(cost);
        let path = self.path_mss_to(segment.tuple.remote);
        let largest_mss = path.map_or(self.offloads.mss(), usize::from);
        let slot = self.flows.begin(
            segment.tuple,
            &listener,
            is_reserved,
            largest_mss,
            self.now_ns,
        );
        if slot.is_none() {
            self.counters.refused += 1;
        }
        slot
    }

    /// Draws the conclusions from a connection's state after it was driven:
    /// what its service is to be told, and whether it is over. `progress` says
    /// that a segment came.
    pub(super) fn settle(&mut self, slot: u32, progress: bool) {
        let id = self.flows.id(slot);
        let flow = self.flows.at(slot);
        let before = flow.state;
        let state = flow.socket().state();
        flow.state = state;

        if flow.phase == Phase::HalfOpen {
            match state {
                State::SynReceived => return,
                // Reset, refused, or timed out. The service never knew of it.
                State::Listen | State::Closed => return self.end_flow(slot),
                _ => self.accept(slot),
            }
        }
        let flow = self.flows.at(slot);
        match flow.phase {
            Phase::Open => {}
            Phase::Released => return self.settle_released(slot, before),
            _ => return,
        }
        let touched = progress && !core::mem::replace(&mut flow.touched, true);
        let closed = has_received_fin(state) && !core::mem::replace(&mut flow.fin_told, true);
        if touched {
            self.note(What::Touched, id);
        }
        if closed {
            self.note(What::PeerClosed, id);
        }
        if matches!(state, State::Closed | State::TimeWait) {
            let how = ending(before, state);
            self.count_ending(how);
            self.flows.at(slot).phase = Phase::Ended;
            self.note(What::Closed(how), id);
        }
    }

    /// A handshake has ended well: tells the service.
    fn accept(&mut self, slot: u32) {
        self.flows.established(slot);
        self.counters.accepted += 1;
        let id = self.flows.id(slot);
        let peer = self.flows.at(slot).tuple.remote;
        self.syn_guard.meet(peer);
        self.note(What::Accepted, id);
    }

    /// As [`settle`](Self::settle), for a connection that its service has let
    /// go of.
    fn settle_released(&mut self, slot: u32, before: State) {
        let flow = self.flows.at(slot);
        let state = flow.state;
        if matches!(state, State::Closed | State::TimeWait) {
            flow.phase = Phase::Over;
            self.count_ending(ending(before, state));
        } else if flow.socket().can_recv() {
            // RFC 9293 section 3.6: data that nobody will read.
            self.abort_slot(slot);
        }
    }

    fn take_fragment<T: Transmit>(&mut self, fragment: &Fragment<'_>, tx: &mut T) {
        self.counters.rx_fragments += 1;
        let [.., a, b, c, d] = fragment.key.addresses;
        if !self.is_our_address(Ipv4Address::new(a, b, c, d)) {
            return self.count_drop(Drop::NotOurs);
        }
        match self.reassembly.add(fragment, self.now_ns) {
            Outcome::Kept => {}
            Outcome::Bad => self.counters.drop_fragments += 1,
            Outcome::Complete(len) => {
                self.counters.reassembled += 1;
                let mut buffer = self.reassembly.take();
                self.receive_whole(&mut buffer[..len], tx);
                self.reassembly.recycle(buffer);
            }
        }
    }

    /// Takes a datagram that was put together from fragments.
    fn receive_whole<T: Transmit>(&mut self, frame: &mut [u8], tx: &mut T) {
        if answers::is_echo_request(frame) {
            // smoltcp's fragmenter has one buffer, which may be in use.
            let sent = answers::answer_echo(frame, self.mtu, tx, &mut self.counters);
            if sent.is_err() {
                self.counters.drop_tx_full += 1;
            }
            return;
        }
        let whole = RxFrame {
            bytes: frame,
            // The sum over the payload can only be taken now.
            checksum: RxChecksum::IpGood,
        };
        match self.station.look_inside(&whole) {
            Ok(kind) => self.deliver(kind, frame, tx),
            Err(reason) => self.count_drop(reason),
        }
    }

    /// Lets smoltcp process a frame with one socket set.
    pub(super) fn process<T: Transmit>(&mut self, set: Set, frame: &[u8], tx: &mut T) {
        let (sockets, report) = match set {
            Set::Common => (&mut self.common, None),
            Set::Flow(slot) => self.flows.at(slot).drivable(),
        };
        let mut port = Port {
            frame: Some(frame),
            tx,
            reserve: 0,
            counters: &mut self.counters,
            shape: &self.shape,
            is_tcp: is_tcp(frame),
            may_be_long: false,
            path_mss: None,
            offloads: &self.offloads,
            scratch: &mut self.scratch,
            report,
            sent: None,
            asked: false,
            refused: false,
        };
        self.interface
            .poll_ingress_single(self.now, &mut port, sockets);
        let sent = port.sent;
        self.note_sent(set, sent);
    }

    /// Somebody told us a station address: those that wait for one try again.
    fn resolved(&mut self) {
        while let Some(number) = self.unresolved.pop() {
            let slot = self.slot(number);
            self.place(slot).unresolved = false;
            self.queue(slot);
        }
    }

    /// Whether a SYN with that name would begin a connection.
    pub(super) fn is_listened_on(&self, name: &Tuple) -> bool {
        self.is_our_address(name.local) && self.listeners.at(name.local_port).is_some()
    }

    pub(super) fn is_our_address(&self, address: Ipv4Address) -> bool {
        let ours = self.addressing.current();
        ours.is_some_and(|ours| ours.address() == address)
    }

    fn count_ending(&mut self, how: Ending) {
        match how {
            Ending::Orderly => self.counters.closed += 1,
            Ending::Broken => self.counters.broken += 1,
        }
    }

    pub(super) fn count_drop(&mut self, reason: Drop) {
        let counter = match reason {
            Drop::Checksum => &mut self.counters.drop_checksum,
            Drop::Truncated => &mut self.counters.drop_truncated,
            Drop::Oversized => &mut self.counters.drop_oversized,
            Drop::Malformed => &mut self.counters.drop_malformed,
            Drop::NotOurs => &mut self.counters.drop_not_ours,
            Drop::Protocol => &mut self.counters.drop_protocol,
        };
        *counter += 1;
    }
}

/// How a connection has ended that was in state `before` and now is in `state`.
fn ending(before: State, state: State) -> Ending {
    if state == State::TimeWait || before == State::LastAck {
        Ending::Orderly
    } else {
        Ending::Broken
    }
}

/// Whether the peer has said that it will send nothing more.
fn has_received_fin(state: State) -> bool {
    matches!(
        state,
        State::CloseWait | State::LastAck | State::Closing | State::TimeWait
    )
}
