//! One control connection: requests in, answers and actions out.

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::net::SocketAddr;

use super::answer;
use super::cpu::Snapshot;
use super::report::{Nonsense, Report};
use super::spec::{Errno, Open, Opened, Spec, Transport};
use super::test::Test;
use super::wire::{
    MESSAGE_LEN, Message, OmniRequest, Packet, Request, TcpCcRequest, TcpStreamRequest, Text,
};

/// How long the rest of a message may take, in nanoseconds.
const STALL: u64 = 20_000_000_000;

/// What the server says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Host {
    /// How many CPUs.
    pub cpus: u32,
    /// Name of the machine.
    pub system_model: Text<33>,
    /// Name of the CPU.
    pub cpu_model: Text<80>,
    /// The NIC that the tests go through.
    pub interface: Interface,
}

/// What the server says of its NIC; what is empty is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interface {
    /// Name.
    pub name: Text<16>,
    /// Driver.
    pub driver: Text<32>,
    /// The driver's version.
    pub version: Text<32>,
    /// The firmware's version.
    pub firmware: Text<32>,
    /// Place on the bus.
    pub bus: Text<32>,
    /// Slot.
    pub slot: Text<16>,
    /// PCI ids.
    pub pci: Option<PciIds>,
}

/// A NIC's PCI ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PciIds {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Subsystem vendor.
    pub subvendor: u16,
    /// Subsystem device.
    pub subdevice: u16,
}

/// What the glue has to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Action {
    /// Open a TCP listener or a UDP port for data, and answer with
    /// [`Session::opened`] before anything else.
    Open(Open),
    /// Send `count` empty datagrams from the data port: they tell the client
    /// that a test is over in which the server sent. They are best effort.
    SendEmpty {
        /// Where to.
        to: SocketAddr,
        /// How many.
        count: u8,
    },
    /// Stop listening, release the UDP port, and close the data connections in
    /// order: what they were given is sent before the end of stream, and what
    /// still comes is thrown away. Bound how long that may take.
    CloseData,
    /// Stop listening, release the UDP port, and reset the data connections:
    /// nobody waits for what they hold.
    AbortData,
    /// Send what is [`outgoing`](Session::outgoing), then close the control
    /// connection. The session is over.
    CloseControl,
    /// Print a line on the console.
    Report(Report),
}

#[derive(Debug)]
enum State {
    Idle,
    /// The request is in the inbox, whole, until the glue has answered.
    Opening(Spec),
    Testing(Box<Test>),
    Closed,
}

/// A control connection's state.
#[derive(Debug)]
pub struct Session {
    peer: SocketAddr,
    host: Host,
    state: State,
    inbox: [u8; MESSAGE_LEN],
    /// Bytes in the inbox.
    filled: usize,
    /// When the first of them came.
    since: u64,
    /// At most a response and a result: no request is read while there is
    /// anything in it.
    outbox: Vec<u8>,
    actions: VecDeque<Action>,
}

impl Session {
    /// A control connection with `peer` is established.
    pub fn new(peer: SocketAddr, host: Host) -> Self {
        Session {
            peer,
            host,
            state: State::Idle,
            inbox: [0; MESSAGE_LEN],
            filled: 0,
            since: 0,
            outbox: Vec::new(),
            actions: VecDeque::new(),
        }
    }

    /// The client's end of the control connection.
    pub fn peer(&self) -> SocketAddr {
        self.peer
    }

    /// Takes bytes from the control connection, and says how many. It takes
    /// fewer than there are while an answer waits to be sent or an
    /// [`Action::Open`] waits for [`opened`](Self::opened): leave the rest in
    /// the socket, and offer it again after that.
    pub fn receive(&mut self, bytes: &[u8], at: Snapshot) -> usize {
        let mut taken = 0;
        while taken < bytes.len() && self.is_receptive() {
            taken += self.take(&bytes[taken..], at.now);
            if !self.is_plausible() {
                self.drop_client(Nonsense::NotNetperf);
            } else if self.filled == MESSAGE_LEN {
                self.handle_message(at);
            }
        }
        match self.state {
            State::Closed => bytes.len(),
            _ => taken,
        }
    }

    /// The control connection has ended: end of stream, reset, or given up.
    pub fn closed(&mut self) {
        if matches!(self.state, State::Closed) {
            return;
        }
        if self.filled > 0 && !matches!(self.state, State::Opening(_)) {
            self.report(Report::Dropped {
                client: self.peer,
                why: Nonsense::Cut(self.filled),
            });
        }
        self.abandon_test();
        self.close();
    }

    /// Answers [`Action::Open`].
    pub fn opened(&mut self, outcome: Result<Opened, Errno>, at: Snapshot) {
        let State::Opening(spec) = self.state else {
            return;
        };
        match outcome {
            Ok(opened) => self.start(spec, opened, at),
            Err(errno) => self.refuse(spec.request, errno),
        }
        self.filled = 0;
    }

    /// Looks at the clock, and at whether the test is over.
    pub fn poll(&mut self, at: Snapshot) {
        if let State::Testing(test) = &mut self.state {
            test.poll(at.now);
            if test.is_over() {
                self.finish(at);
            }
        }
        if self
            .stall_deadline()
            .is_some_and(|deadline| deadline <= at.now)
        {
            self.drop_client(Nonsense::Stalled(self.filled));
        }
    }

    /// When to call [`poll`](Self::poll) at the latest, in nanoseconds.
    #[inline]
    pub fn poll_at(&self) -> Option<u64> {
        let test = match &self.state {
            State::Testing(test) if test.is_over() => Some(0),
            State::Testing(test) => test.deadline(),
            _ => None,
        };
        if self.filled == 0 {
            return test;
        }
        [test, self.stall_deadline()].into_iter().flatten().min()
    }

    /// The next thing to do.
    pub fn next_action(&mut self) -> Option<Action> {
        self.actions.pop_front()
    }

    /// Bytes to send on the control connection.
    pub fn outgoing(&self) -> &[u8] {
        &self.outbox
    }

    /// So many of the outgoing bytes were given to the control connection.
    pub fn sent(&mut self, bytes: usize) {
        self.outbox.drain(..bytes.min(self.outbox.len()));
    }

    /// The test whose data flows, if there is one.
    pub fn test(&self) -> Option<&Test> {
        match &self.state {
            State::Testing(test) => Some(test),
            _ => None,
        }
    }

    /// The test whose data flows, to tell it of the data.
    pub fn test_mut(&mut self) -> Option<&mut Test> {
        match &mut self.state {
            State::Testing(test) => Some(test),
            _ => None,
        }
    }

    /// Whether the session is over.
    pub fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    fn is_receptive(&self) -> bool {
        self.outbox.is_empty() && matches!(self.state, State::Idle | State::Testing(_))
    }

    fn take(&mut self, bytes: &[u8], now: u64) -> usize {
        let room = &mut self.inbox[self.filled..];
        let count = bytes.len().min(room.len());
        room[..count].copy_from_slice(&bytes[..count]);
        if self.filled == 0 {
            self.since = now;
        }
        self.filled += count;
        count
    }

    /// Whether what came so far can be the start of a message.
    fn is_plausible(&self) -> bool {
        match self.inbox.first_chunk() {
            Some(code) if self.filled >= code.len() => {
                Request::is_plausible(u32::from_be_bytes(*code))
            }
            _ => true,
        }
    }

    fn stall_deadline(&self) -> Option<u64> {
        let collecting = self.filled > 0 && matches!(self.state, State::Idle | State::Testing(_));
        collecting.then(|| self.since.saturating_add(STALL))
    }

    fn handle_message(&mut self, at: Snapshot) {
        let Ok(packet) = Packet::new_checked(self.inbox) else {
            return;
        };
        self.filled = 0;
        let request = Request::from_code(packet.code());
        if matches!(self.state, State::Testing(_)) {
            self.refuse(request, Errno::BUSY);
            return;
        }
        let peer = self.peer.ip();
        match request {
            Request::DebugOn | Request::DebugOff => self.answer(&answer::empty(request)),
            Request::SysInfo => self.answer(&answer::system(&self.host)),
            Request::CpuCalibrate => self.answer(&answer::calibration(&self.host, at.cpu)),
            // Sent unasked by a client that was given one: not needed here.
            Request::Passphrase => {}
            Request::Omni => {
                self.open(request, Spec::from_omni(&OmniRequest::parse(&packet), peer));
            }
            Request::TcpStream => {
                let asked = TcpStreamRequest::parse(&packet);
                self.open(request, Spec::from_tcp_stream(&asked, peer));
            }
            Request::TcpCc => {
                self.open(
                    request,
                    Spec::from_tcp_cc(&TcpCcRequest::parse(&packet), peer),
                );
            }
            Request::Foreign(_) => self.refuse(request, Errno::NOT_SUPPORTED),
            Request::Unknown(_) => self.refuse(request, Errno::UNKNOWN_REQUEST),
        }
    }

    fn open(&mut self, request: Request, spec: Result<Spec, Errno>) {
        match spec {
            Ok(spec) => {
                self.filled = MESSAGE_LEN;
                self.state = State::Opening(spec);
                self.actions.push_back(Action::Open(spec.open));
            }
            Err(errno) => self.refuse(request, errno),
        }
    }

    fn start(&mut self, spec: Spec, opened: Opened, at: Snapshot) {
        let Ok(request) = Packet::new_checked(self.inbox) else {
            return;
        };
        let test = Box::new(Test::new(spec, opened, self.peer.ip(), at));
        self.answer(&answer::response(&request, &test, &self.host, at.cpu));
        self.report(Report::Started {
            client: self.peer,
            spec,
            port: opened.port,
        });
        self.state = State::Testing(test);
    }

    fn finish(&mut self, at: Snapshot) {
        let State::Testing(test) = core::mem::replace(&mut self.state, State::Idle) else {
            return;
        };
        let (spec, totals) = (*test.spec(), test.totals(at));
        if spec.open.transport == Transport::Udp && !spec.open.receives {
            self.actions.push_back(Action::SendEmpty {
                to: spec.client,
                count: 3,
            });
        }
        self.actions.push_back(Action::CloseData);
        self.answer(&answer::results(&test, &totals, &self.host));
        self.report(Report::Finished {
            client: self.peer,
            spec,
            totals,
        });
    }

    fn abandon_test(&mut self) {
        let spec = match &self.state {
            State::Testing(test) => *test.spec(),
            _ => return,
        };
        self.actions.push_back(Action::AbortData);
        self.report(Report::Abandoned {
            client: self.peer,
            spec,
        });
    }

    /// Answers with an error, which makes the client say why and leave.
    fn refuse(&mut self, request: Request, errno: Errno) {
        self.report(Report::Refused {
            client: self.peer,
            code: request.code(),
            errno,
        });
        if self.test().is_some() {
            self.actions.push_back(Action::AbortData);
        }
        self.answer(&answer::refusal(request, errno));
        self.close();
    }

    fn drop_client(&mut self, why: Nonsense) {
        self.report(Report::Dropped {
            client: self.peer,
            why,
        });
        self.abandon_test();
        self.close();
    }

    fn close(&mut self) {
        self.state = State::Closed;
        self.filled = 0;
        self.actions.push_back(Action::CloseControl);
    }

    fn answer(&mut self, message: &Message) {
        self.outbox.extend_from_slice(message.bytes());
    }

    fn report(&mut self, report: Report) {
        self.actions.push_back(Action::Report(report));
    }
}

#[cfg(test)]
mod tests;
