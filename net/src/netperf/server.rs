//! The netperf server as a service on the stack: [`Session`]s and their tests,
//! tied to sockets.

use alloc::boxed::Box;
use alloc::vec::Vec;
use core::net::{IpAddr, SocketAddr};

use smoltcp::socket::tcp;
use smoltcp::wire::{IpAddress, IpEndpoint};

use super::client::{Client, DataSocket};
use super::role::Role;
use super::room;
use super::session::{Action, Host, Session};
use super::spec::{Errno, Open, Opened, Transport};
use super::test::{Accept, Received, Step};
use super::wire::Text;
use super::{Report, Snapshot};
use crate::config::{Buffers, Config};
use crate::machine::Machine;
use crate::rate::RateLimit;
use crate::services::{Context, Event, Service};
use crate::stack::{Datagram, FlowId, ListenerId, OpenError, Payload, Room, SendError, Stack};
use crate::timers::Timers;

/// Where netperf looks for its server.
pub const CONTROL_PORT: u16 = 12865;

/// Lines a second on the console, where each takes several milliseconds. What
/// is more is counted.
const LINES_A_SECOND: u32 = 32;

/// Deadlines so far away, in nanoseconds, are most often put off.
const FAR: i64 = 2_000_000_000;

/// The part of the memory for sockets that tests leave to control connections,
/// so that a client can be told that there is no more.
const LEFT_TO_CONTROL: usize = 16;

/// Responses up to this many bytes may share a segment with others.
const SHORT: u32 = 1460;

/// Datagrams handled before others get their turn.
const DATAGRAMS_A_TURN: usize = 64;

/// Counts of what the server did.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    clients: u64,
    tests_started: u64,
    tests_finished: u64,
    tests_abandoned: u64,
    refused: u64,
    dropped: u64,
}

/// The netperf server.
pub struct Server {
    host: Host,
    /// What a control connection takes.
    control_room: Room,
    /// The largest buffers of a data connection.
    data_buffers: Buffers,
    /// Those of a UDP socket.
    datagram_buffers: Buffers,
    clients: Vec<Option<Box<Client>>>,
    /// Places in `clients` where nobody is.
    free: Vec<u32>,
    /// When each client wants to be looked at, in nanoseconds.
    timers: Timers,
    listener: Option<ListenerId>,
    lines: RateLimit,
    lines_left_out: u64,
    counters: Counters,
}

impl Server {
    /// A server that says of itself what `host` says.
    pub fn new(host: Host, config: &Config) -> Self {
        let udp = &config.udp.sockets;
        Self {
            host,
            control_room: room::control(&config.tcp),
            data_buffers: config.tcp.data,
            datagram_buffers: Buffers {
                receive: udp.rx_bytes,
                send: udp.tx_bytes,
            },
            clients: Vec::new(),
            free: Vec::new(),
            timers: Timers::new(FAR),
            listener: None,
            lines: RateLimit::new(LINES_A_SECOND),
            lines_left_out: 0,
            counters: Counters::default(),
        }
    }

    fn client(&mut self, index: usize) -> Option<&mut Client> {
        self.clients.get_mut(index)?.as_deref_mut()
    }

    /// Has a client looked at no later than its session asks for.
    #[inline]
    fn set_timer(&mut self, index: usize) {
        let Some(client) = self.client(index) else {
            return;
        };
        let at = client.session.poll_at().unwrap_or(u64::MAX);
        if at < client.timer {
            client.timer = at;
            self.timers.arm(index as u32, at as i64);
        }
    }

    fn greet(&mut self, cx: &mut Context<'_>, control: FlowId, peer: IpEndpoint) {
        self.counters.clients += 1;
        let session = Session::new(socket_address(peer), self.host);
        let client = Some(Box::new(Client::new(session, control)));
        let index = match self.free.pop() {
            Some(index) => {
                self.clients[index as usize] = client;
                index as usize
            }
            None => {
                self.clients.push(client);
                self.clients.len() - 1
            }
        };
        cx.stack
            .set_owner(control, cx.owner(Role::Control(index).token()));
        self.control_progress(cx, index);
    }

    /// Moves bytes between a control connection and its session until neither
    /// has anything for the other.
    fn control_progress(&mut self, cx: &mut Context<'_>, index: usize) {
        loop {
            let Some(client) = self.client(index) else {
                return;
            };
            let mut moved = client.send_answers(cx);
            if client.has_requests(cx) {
                let at = now(cx.machine);
                moved |= client.take_requests(cx, at) > 0;
            }
            self.obey(cx, index);
            if !moved {
                return self.set_timer(index);
            }
        }
    }

    /// The control connection is at its end.
    fn control_ended(&mut self, cx: &mut Context<'_>, index: usize) {
        self.control_progress(cx, index);
        if let Some(client) = self.client(index) {
            client.session.closed();
            self.obey(cx, index);
        }
    }

    /// Looks at the clock on behalf of a client.
    fn poll(&mut self, cx: &mut Context<'_>, index: usize) {
        let at = now(cx.machine);
        if let Some(client) = self.client(index) {
            client.session.poll(at);
            self.obey(cx, index);
            self.control_progress(cx, index);
        }
    }

    /// Does what a client's session asks for.
    fn obey(&mut self, cx: &mut Context<'_>, index: usize) {
        while let Some(action) = self.client(index).and_then(|c| c.session.next_action()) {
            match action {
                Action::Open(open) => self.open(cx, index, &open),
                Action::SendEmpty { to, count } => {
                    if let Some(client) = self.client(index) {
                        client.send_empty(cx, to, count);
                    }
                }
                Action::CloseData => self.end_data(cx, index, Stack::release),
                Action::AbortData => self.end_data(cx, index, Stack::abort),
                Action::CloseControl => {
                    if let Some(client) = self.client(index) {
                        client.is_leaving = true;
                        client.send_answers(cx);
                    }
                }
                Action::Report(report) => self.report(cx, &report),
            }
        }
        if self.client(index).is_some_and(|client| client.has_left(cx)) {
            self.clients[index] = None;
            self.free.push(index as u32);
        }
    }

    fn report(&mut self, cx: &mut Context<'_>, report: &Report) {
        let count = match report {
            Report::Started { .. } => &mut self.counters.tests_started,
            Report::Finished { .. } => &mut self.counters.tests_finished,
            Report::Abandoned { .. } => &mut self.counters.tests_abandoned,
            Report::Refused { .. } => &mut self.counters.refused,
            Report::Dropped { .. } => &mut self.counters.dropped,
        };
        *count += 1;
        if !self.lines.allow(cx.now) {
            self.lines_left_out += 1;
            return;
        }
        let left_out = core::mem::take(&mut self.lines_left_out);
        if left_out > 0 {
            cx.print(format_args!("netperf: {left_out} lines left out\n"));
        }
        cx.print(format_args!("{report}\n"));
    }

    fn open(&mut self, cx: &mut Context<'_>, index: usize, open: &Open) {
        let owner = cx.owner(Role::Data(index).token());
        let (socket, buffers) = match open.transport {
            Transport::Tcp => {
                let stack = &mut *cx.stack;
                let room = room::data(open, self.data_buffers, stack.socket_memory_left());
                let to_leave = stack.socket_memory() / LEFT_TO_CONTROL;
                let listener = stack.listen_tcp_reserved(open.port, room, to_leave, owner);
                let buffers = Buffers {
                    receive: room.receive,
                    send: room.send,
                };
                (listener.map(DataSocket::Listener), buffers)
            }
            Transport::Udp => (
                cx.stack
                    .open_udp(open.port, Payload::Counted, owner)
                    .map(DataSocket::Udp),
                self.datagram_buffers,
            ),
        };
        let outcome = socket.map_err(errno).and_then(|socket| {
            let port = socket.port(cx.stack).ok_or(Errno::NO_BUFFERS)?;
            let Some(client) = self.client(index) else {
                return Err(Errno::NO_BUFFERS);
            };
            client.data = Some(socket);
            client.no_delay = open.no_delay;
            Ok(Opened {
                port,
                send_buffer: buffers.send as u32,
                recv_buffer: buffers.receive as u32,
                no_delay: open.no_delay,
                tos: None,
                congestion_control: match open.transport {
                    Transport::Tcp => Text::new("reno"),
                    Transport::Udp => Text::EMPTY,
                },
            })
        });
        let at = now(cx.machine);
        if let Some(client) = self.client(index) {
            client.session.opened(outcome, at);
            self.datagrams(cx, index);
        }
    }

    fn end_data(&mut self, cx: &mut Context<'_>, index: usize, end: impl Fn(&mut Stack, FlowId)) {
        if let Some(client) = self.client(index) {
            client.end_data(cx, end);
        }
    }

    fn data_accepted(
        &mut self,
        cx: &mut Context<'_>,
        index: usize,
        flow: FlowId,
        peer: IpEndpoint,
    ) {
        let now = cx.now;
        let Some(client) = self.client(index) else {
            return cx.stack.abort(flow);
        };
        let Some(test) = client.session.test_mut() else {
            return cx.stack.abort(flow);
        };
        match test.accept(ip(peer.addr), now) {
            Accept::Serve(connection) => {
                // Nagle's algorithm waits with the last, short segment of a long
                // response for an acknowledgement that the client delays. Linux does
                // not, as the segments before it were full (Minshall's variant).
                let long_responses = test.spec().is_transactional() && test.send_size() > SHORT;
                let nagle = !client.no_delay && !long_responses;
                if let Some(socket) = cx.stack.tcp(flow) {
                    socket.set_nagle_enabled(nagle);
                }
                client.connections.push((flow, connection));
                self.data_progress(cx, index, flow);
                self.set_timer(index);
            }
            Accept::Served(step) => {
                cx.stack.release(flow);
                match step {
                    Step::Ended => self.poll(cx, index),
                    _ => self.set_timer(index),
                }
            }
            Accept::Refuse => cx.stack.abort(flow),
        }
    }

    /// The fast path of TCP tests: reads what came, writes what may be written.
    /// The data itself does not matter, so neither touches it.
    #[inline]
    fn data_progress(&mut self, cx: &mut Context<'_>, index: usize, flow: FlowId) {
        let Some(client) = self.client(index) else {
            return;
        };
        let Some(at) = client.connections.iter().position(|(id, _)| *id == flow) else {
            return;
        };
        let (Some(socket), Some(test)) = (cx.stack.tcp(flow), client.session.test_mut()) else {
            return;
        };
        let connection = &mut client.connections[at].1;
        let mut step = Step::Continue;
        loop {
            let mut moved = 0;
            if test.wants_data(connection) {
                let taken = take(socket);
                if taken > 0 {
                    step = test.received(connection, taken, cx.now);
                    moved += taken;
                }
            }
            let sendable = test.sendable(connection);
            if step == Step::Continue && sendable > 0 {
                let given = give(socket, sendable);
                if given > 0 {
                    step = test.sent(connection, given, cx.now);
                    moved += given;
                }
            }
            let all_read = socket.recv_queue() == 0 && test.sendable(connection) == 0;
            if all_read || moved == 0 || step != Step::Continue {
                break;
            }
        }
        self.take_step(cx, index, flow, step);
    }

    fn data_closed(&mut self, cx: &mut Context<'_>, index: usize, flow: FlowId, is_reset: bool) {
        self.data_progress(cx, index, flow);
        let now = cx.now;
        let Some(client) = self.client(index) else {
            return;
        };
        if !client.connections.iter().any(|(id, _)| *id == flow) {
            return;
        }
        let step = match client.session.test_mut() {
            Some(test) if is_reset => test.reset(now),
            Some(test) => test.closed_by_client(now),
            None => Step::Close,
        };
        self.take_step(cx, index, flow, step);
        if is_reset && let Some(client) = self.client(index) {
            client.connections.retain(|(id, _)| *id != flow);
        }
    }

    #[inline]
    fn take_step(&mut self, cx: &mut Context<'_>, index: usize, flow: FlowId, step: Step) {
        match step {
            Step::Continue => {}
            Step::Close => {
                if let Some(client) = self.client(index) {
                    client.connections.retain(|(id, _)| *id != flow);
                }
                cx.stack.release(flow);
            }
            Step::Ended => self.poll(cx, index),
        }
    }

    /// The fast path of UDP tests.
    fn datagrams(&mut self, cx: &mut Context<'_>, index: usize) {
        let Some(client) = self.client(index) else {
            return;
        };
        let Some(DataSocket::Udp(id)) = client.data else {
            return;
        };
        let (Some(socket), Some(test)) = (cx.stack.udp(id), client.session.test_mut()) else {
            return;
        };
        let mut is_over = false;
        while !is_over && let Some(Datagram { peer, len }) = socket.receive() {
            match test.datagram_received(peer.into(), len, cx.now) {
                Received::Foreign | Received::Counted => {}
                Received::Reply(bytes) => match socket.send(peer, bytes) {
                    Ok(()) => is_over = test.datagram_sent(bytes, cx.now) == Step::Ended,
                    Err(_) => test.datagram_failed(),
                },
                Received::Ended => is_over = true,
            }
        }
        let mut sent = 0;
        while !is_over
            && sent < DATAGRAMS_A_TURN
            && let Some((SocketAddr::V4(to), bytes)) = test.datagram_due()
        {
            match socket.send(to, bytes) {
                Ok(()) => is_over = test.datagram_sent(bytes, cx.now) == Step::Ended,
                Err(SendError::Full) => break,
                Err(SendError::Unaddressable) => {
                    test.datagram_failed();
                    break;
                }
            }
            sent += 1;
        }
        if !is_over && test.datagram_due().is_some() {
            cx.stack.udp_want_room(id);
        }
        if is_over {
            self.poll(cx, index);
        } else {
            self.set_timer(index);
        }
    }
}

impl Service for Server {
    fn start(&mut self, cx: &mut Context<'_>) {
        let owner = cx.owner(Role::Listener.token());
        match cx
            .stack
            .listen_tcp(Some(CONTROL_PORT), self.control_room, owner)
        {
            Ok(listener) => self.listener = Some(listener),
            Err(error) => cx.print(format_args!("netperf: port {CONTROL_PORT}: {error}\n")),
        }
    }

    fn is_ready(&self) -> bool {
        self.listener.is_some()
    }

    #[inline]
    fn on_event(&mut self, cx: &mut Context<'_>, event: Event) {
        match event {
            Event::Accepted {
                flow, peer, token, ..
            } => match Role::from_token(token) {
                Role::Listener => self.greet(cx, flow, peer),
                Role::Data(index) => self.data_accepted(cx, index, flow, peer),
                Role::Control(_) => cx.stack.abort(flow),
            },
            Event::Touched { flow, token } => match Role::from_token(token) {
                Role::Data(index) => self.data_progress(cx, index, flow),
                Role::Control(index) => self.control_progress(cx, index),
                Role::Listener => {}
            },
            Event::Datagrams { token, .. } => {
                if let Role::Data(index) = Role::from_token(token) {
                    self.datagrams(cx, index);
                }
            }
            Event::PeerClosed { flow, token } => match Role::from_token(token) {
                Role::Data(index) => self.data_closed(cx, index, flow, false),
                Role::Control(index) => self.control_ended(cx, index),
                Role::Listener => {}
            },
            Event::Closed { flow, token, .. } => match Role::from_token(token) {
                Role::Data(index) => self.data_closed(cx, index, flow, true),
                Role::Control(index) => {
                    self.control_ended(cx, index);
                    if let Some(client) = self.client(index) {
                        client.control = None;
                        self.obey(cx, index);
                    }
                }
                Role::Listener => {}
            },
        }
    }

    #[inline]
    fn deadline(&self) -> Option<u64> {
        self.timers.next().map(|at| at as u64)
    }

    fn on_timer(&mut self, cx: &mut Context<'_>) {
        let now = cx.machine.now();
        while let Some(index) = self.timers.pop_due(now as i64) {
            let index = index as usize;
            if let Some(client) = self.client(index) {
                client.timer = u64::MAX;
                self.poll(cx, index);
            }
            self.set_timer(index);
        }
    }

    fn counters(&self, visit: &mut dyn FnMut(&str, u64)) {
        let sessions = (self.clients.len() - self.free.len()) as u64;
        visit("netperf.clients", self.counters.clients);
        visit("netperf.tests_started", self.counters.tests_started);
        visit("netperf.tests_finished", self.counters.tests_finished);
        visit("netperf.tests_abandoned", self.counters.tests_abandoned);
        visit("netperf.refused", self.counters.refused);
        visit("netperf.dropped", self.counters.dropped);
        visit("rest.netperf_sessions", sessions);
    }
}

/// The present moment, as exact as the machine has it.
pub(super) fn now(machine: &dyn Machine) -> Snapshot {
    Snapshot {
        now: machine.now(),
        cpu: machine.cpu_time(),
    }
}

/// Takes all received bytes that lie in one piece.
#[inline]
fn take(socket: &mut tcp::Socket<'_>) -> usize {
    socket.recv(|bytes| (bytes.len(), bytes.len())).unwrap_or(0)
}

/// Queues up to `most` bytes: whatever is in the send buffer goes out.
#[inline]
fn give(socket: &mut tcp::Socket<'_>, most: usize) -> usize {
    let queue = |room: &mut [u8]| {
        let count = room.len().min(most);
        (count, count)
    };
    socket.send(queue).unwrap_or(0)
}

fn errno(error: OpenError) -> Errno {
    match error {
        OpenError::PortInUse => Errno::ADDRESS_IN_USE,
        OpenError::NoPortFree | OpenError::NoSocketFree => Errno::NO_BUFFERS,
    }
}

fn ip(address: IpAddress) -> IpAddr {
    address.into()
}

fn socket_address(endpoint: IpEndpoint) -> SocketAddr {
    SocketAddr::new(ip(endpoint.addr), endpoint.port)
}

impl DataSocket {
    fn port(self, stack: &mut Stack) -> Option<u16> {
        match self {
            DataSocket::Listener(listener) => Some(listener.port()),
            DataSocket::Udp(socket) => stack.udp_port(socket),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_failure_to_open_has_an_error_number() {
        assert_eq!(errno(OpenError::PortInUse), Errno::ADDRESS_IN_USE);
        assert_eq!(errno(OpenError::NoPortFree), Errno::NO_BUFFERS);
        assert_eq!(errno(OpenError::NoSocketFree), Errno::NO_BUFFERS);
    }
}
