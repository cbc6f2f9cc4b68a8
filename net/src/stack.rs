//! The stack: sockets as services see them, and frames as the receive loop
//! hands them in.
//!
//! A frame's way: [`Stack::receive`] finds the one socket set it concerns and
//! lets smoltcp process it there; what that means to a service is queued as an
//! [`Event`]; the service reads and writes in place; [`Stack::egress`] lets the
//! sockets that have something to say send it. Sockets that nothing happened to
//! are not looked at.

mod datagrams;
mod egress;
mod guard;
mod happenings;
mod ingress;
mod listing;
mod paths;
mod repair;

pub(crate) use egress::earlier;

use alloc::boxed::Box;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::RangeInclusive;

use smoltcp::iface::{self, Interface, SocketSet};
use smoltcp::phy::DeviceCapabilities;
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, Ipv4Cidr};
use uniperf_drivers::nic::{Capabilities, MacAddress};

use crate::address::{Addressing, Notice};
pub use crate::budget::Room;
use crate::config::Config;
use crate::counters::StackCounters;
use crate::device::{Described, shape};
use crate::flows::{Flows, Phase};
use crate::frame::{ETHERNET_HEADER, Station};
use crate::gro::Gro;
use crate::hash::FlowHash;
use crate::listeners::{Listeners, Reservation};
use crate::neighbours::Neighbours;
use crate::offload::Offloads;
use crate::pages::Pages;
use crate::path_mtu::Paths;
use crate::rate::RateLimit;
use crate::reassembly::Reassembly;
use crate::syn_guard::SynGuard;
use crate::time_wait::TimeWait;
use crate::timers::Timers;
use crate::udp::UdpSockets;
pub use crate::udp::{Datagram, Payload, SendError, Socket as UdpSocket};
use egress::Turn;
use happenings::Note;

/// A VLAN tag's bytes: frames may be longer by so much than the MTU says.
const VLAN_TAG: usize = 4;

/// Deadlines so far away, in microseconds, are those of connections at rest.
const FAR: i64 = 2_000_000;

/// Every host must take packets of this size (RFC 791 section 3.1).
const SMALLEST_MTU: usize = 576;

/// Names a connection until it has ended. A name is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FlowId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Names a UDP socket until it is closed. A name is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// Names a listener until it is taken down. A name is not used again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ListenerId {
    pub(crate) port: u16,
    pub(crate) serial: u32,
}

impl ListenerId {
    pub(crate) const NONE: Self = Self { port: 0, serial: 0 };

    /// The port that is listened on.
    pub fn port(self) -> u16 {
        self.port
    }
}

/// Who is told what happens to a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The service's number: its place in the loop's list.
    pub service: u8,
    /// Comes back with each event; the service's own.
    pub token: u32,
}

/// Why a socket could not be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenError {
    /// The port is taken.
    PortInUse,
    /// All data ports are taken.
    NoPortFree,
    /// Too little of the memory for sockets is left, or there are as many UDP
    /// sockets as there can be.
    NoSocketFree,
}

impl core::fmt::Display for OpenError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            OpenError::PortInUse => "the port is in use",
            OpenError::NoPortFree => "all data ports are in use (see ports=)",
            OpenError::NoSocketFree => "the memory for sockets is in use",
        })
    }
}

impl core::error::Error for OpenError {}

/// The sockets and everything below them, down to the NIC.
pub struct Stack {
    interface: Box<Interface>,
    shape: DeviceCapabilities,
    offloads: Offloads,
    /// Where software cuts super-segments.
    scratch: Vec<u8>,
    station: Station,
    mtu: usize,

    /// The DHCP client. ARP, ICMP and what belongs to no socket go here too.
    common: SocketSet<'static>,
    flows: Flows,
    syn_guard: SynGuard,
    time_wait: TimeWait,
    udp: UdpSockets,
    neighbours: Neighbours,
    pages: Pages,
    paths: Paths,
    /// Identification of the datagram that was cut last.
    next_id: u16,
    listeners: Listeners,
    data_ports: RangeInclusive<u16>,
    next_port: u16,
    addressing: Addressing,
    linger: u64,
    /// How long a peer may be silent, in nanoseconds.
    patience: u64,
    reassembly: Reassembly,
    gro: Gro,
    unreachable: RateLimit,

    /// Slots (see [`Slot`]) that may have something to send.
    turn: VecDeque<u32>,
    common_place: Place,
    /// Slots that wait for the peer's station address.
    unresolved: Vec<u32>,
    timers: Timers,
    notes: VecDeque<Note>,
    notices: VecDeque<Notice>,

    now: Instant,
    now_ns: u64,
    /// Descriptors kept for answers to received frames.
    reserve: usize,
    counters: StackCounters,
}

/// Where a socket set stands with regard to its turn to send.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// It waits for its turn.
    queued: bool,
    /// It waits for the peer's station address.
    unresolved: bool,
}

/// One of smoltcp's socket sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Set {
    Common,
    Flow(u32),
}

/// What can have a turn to send, by a number: what the queue of turns and the
/// timers know it by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Slot {
    Common,
    Udp(u32),
    Tcp(u32),
}

impl Stack {
    /// A stack for a station, on a NIC that can do what `nic` says and whose
    /// transmit ring holds `transmit_ring` frames.
    ///
    /// Needs about 150 KiB of stack for a moment: smoltcp's interface holds a
    /// 64 KiB buffer and is moved once.
    pub fn new(
        config: &Config,
        mac: MacAddress,
        nic: &Capabilities,
        transmit_ring: usize,
        now: u64,
    ) -> Self {
        let mtu = config
            .mtu
            .clamp(SMALLEST_MTU, nic.max_mtu.max(SMALLEST_MTU));
        let offloads = Offloads::new(config, nic, mtu, transmit_ring);
        let shape = shape(mtu, &offloads);
        let instant = to_instant(now);
        let mut setup = iface::Config::new(EthernetAddress(mac.0).into());
        setup.random_seed = config.seed;
        let mut interface = Box::new(Interface::new(setup, &mut Described(&shape), instant));
        let mut common = SocketSet::new(Vec::new());
        let addressing = Addressing::new(&config.address, &mut interface, &mut common, now);
        let hash = FlowHash::new(config.seed);
        let mut stack = Self {
            interface,
            shape,
            offloads,
            scratch: Vec::new(),
            station: Station {
                mac,
                longest: ETHERNET_HEADER + VLAN_TAG + mtu,
            },
            mtu,
            common,
            flows: Flows::new(&config.tcp, config.socket_memory, hash),
            syn_guard: SynGuard::new(config.secret),
            time_wait: TimeWait::new(config.tcp.time_wait_entries, config.tcp.time_wait, hash),
            udp: UdpSockets::new(&config.udp, hash),
            neighbours: Neighbours::new(hash),
            pages: Pages::new(),
            next_id: config.seed as u16,
            paths: Paths::new(hash),
            listeners: Listeners::new(&config.data_ports, hash),
            data_ports: config.data_ports.clone(),
            next_port: *config.data_ports.start(),
            addressing,
            linger: config.tcp.linger,
            patience: config.tcp.timeout,
            reassembly: Reassembly::new(
                config.udp.reassembly_buffers,
                config.udp.reassembly_timeout,
            ),
            gro: Gro::new(config.gro),
            unreachable: RateLimit::new(config.udp.unreachable_per_second),
            turn: VecDeque::with_capacity(64),
            common_place: Place::default(),
            unresolved: Vec::new(),
            timers: Timers::new(FAR),
            notes: VecDeque::with_capacity(64),
            notices: VecDeque::new(),
            now: instant,
            now_ns: now,
            reserve: config.weight.min(transmit_ring / 4),
            counters: StackCounters::default(),
        };
        stack.queue(Slot::Common);
        stack
    }

    /// Listens on a port, or on any free data port. Any number of connections
    /// can be made to it, each of which takes `room`, as long as there is
    /// memory. Ports come in turn, so that one is not used again at once.
    ///
    /// # Errors
    ///
    /// [`OpenError::PortInUse`] and [`OpenError::NoPortFree`].
    pub fn listen_tcp(
        &mut self,
        port: Option<u16>,
        room: Room,
        owner: Owner,
    ) -> Result<ListenerId, OpenError> {
        self.listeners.add(port, room, false, owner)
    }

    /// As [`listen_tcp`](Self::listen_tcp), with the memory for one connection at
    /// a time set aside. What is left after that is `to_leave` bytes or more.
    ///
    /// # Errors
    ///
    /// Any [`OpenError`].
    pub fn listen_tcp_reserved(
        &mut self,
        port: Option<u16>,
        room: Room,
        to_leave: usize,
        owner: Owner,
    ) -> Result<ListenerId, OpenError> {
        let needed = room.cost().saturating_add(to_leave);
        self.make_way(needed);
        if self.socket_memory_left() < needed {
            return Err(OpenError::NoSocketFree);
        }
        let listener = self.listeners.add(port, room, true, owner)?;
        // There is so much, as was seen above.
        let _ = self.flows.spend(room.cost());
        Ok(listener)
    }

    /// Stops listening. Connections that were accepted go on; those whose
    /// handshake goes on are reset.
    pub fn unlisten(&mut self, listener: ListenerId) {
        let Some(known) = self.listeners.remove(listener) else {
            return;
        };
        if known.reservation == Reservation::Kept {
            self.flows.refund(known.room.cost());
        }
        while let Some(slot) = self.flows.half_open_of(listener) {
            self.flows.established(slot);
            self.abort_slot(slot);
        }
    }

    /// Bytes of the memory for sockets that are left.
    pub fn socket_memory_left(&self) -> usize {
        self.flows.budget().left()
    }

    /// Bytes of the memory for sockets in all.
    pub fn socket_memory(&self) -> usize {
        self.flows.budget().limit()
    }

    /// Ends handshakes, oldest first, as far as one that needs `bytes` wants it.
    fn make_way(&mut self, bytes: usize) {
        while let Some(oldest) = self.flows.must_give_way(bytes) {
            self.end_flow(oldest);
            self.counters.half_open_evicted += 1;
        }
    }

    /// Ends a connection: its memory goes back to where it came from.
    fn end_flow(&mut self, slot: u32) {
        if let Some((listener, cost)) = self.flows.end(slot)
            && !self.listeners.keep(listener)
        {
            self.flows.refund(cost);
        }
    }

    /// The socket of a connection, to read from and write to. Its turn to send
    /// comes when the service returns. `None` when the connection has ended.
    pub fn tcp(&mut self, flow: FlowId) -> Option<&mut tcp::Socket<'static>> {
        self.flows.owned(flow)?;
        self.queue(Slot::Tcp(flow.slot));
        Some(self.flows.at(flow.slot).socket_mut())
    }

    /// Gives a connection another token, or to another service.
    pub fn set_owner(&mut self, flow: FlowId, owner: Owner) {
        if let Some(flow) = self.flows.owned(flow) {
            flow.owner = owner;
        }
    }

    /// Lets go of a connection: what was queued is still sent, then it is
    /// closed, within [`TcpConfig::linger`](crate::config::TcpConfig::linger).
    /// If data waits unread, or comes later, it is reset, as RFC 9293 section
    /// 3.6 asks. There are no more events.
    pub fn release(&mut self, flow: FlowId) {
        let limit = self.now_ns.saturating_add(self.linger);
        let slot = flow.slot;
        let Some(flow) = self.flows.owned(flow) else {
            return;
        };
        if flow.phase == Phase::Ended {
            flow.phase = Phase::Over;
        } else if flow.socket().can_recv() {
            return self.abort_slot(slot);
        } else {
            flow.socket_mut().close();
            flow.phase = Phase::Released;
            flow.limit = limit;
        }
        self.queue(Slot::Tcp(slot));
    }

    /// Resets a connection. There are no more events.
    pub fn abort(&mut self, flow: FlowId) {
        let slot = flow.slot;
        match self.flows.owned(flow) {
            Some(flow) if flow.phase == Phase::Ended => {
                flow.phase = Phase::Over;
                self.queue(Slot::Tcp(slot));
            }
            Some(_) => self.abort_slot(slot),
            None => {}
        }
    }

    /// Opens a UDP socket on a port, or on any free data port. `payload` says
    /// whether the service wants to see what comes.
    ///
    /// # Errors
    ///
    /// Any [`OpenError`].
    pub fn open_udp(
        &mut self,
        port: Option<u16>,
        payload: Payload,
        owner: Owner,
    ) -> Result<UdpId, OpenError> {
        let port = match port {
            Some(0) => return Err(OpenError::PortInUse),
            Some(port) if self.udp.find(port).is_some() => return Err(OpenError::PortInUse),
            Some(port) => port,
            None => self.free_port(|stack, port| stack.udp.find(port).is_none())?,
        };
        let cost = self.udp.cost(payload);
        if !self.flows.spend(cost) {
            return Err(OpenError::NoSocketFree);
        }
        match self.udp.open(port, payload, owner) {
            Some(slot) => Ok(self.udp.id(slot)),
            None => {
                self.flows.refund(cost);
                Err(OpenError::NoSocketFree)
            }
        }
    }

    /// The port that a UDP socket is bound to.
    pub fn udp_port(&mut self, socket: UdpId) -> Option<u16> {
        let slot = self.udp.owned(socket)?;
        Some(self.udp.at(slot).port())
    }

    /// A UDP socket, to receive from and send with. Its turn to send comes when
    /// the service returns. `None` when it was closed.
    pub fn udp(&mut self, socket: UdpId) -> Option<&mut UdpSocket> {
        let slot = self.udp.owned(socket)?;
        self.queue(Slot::Udp(slot));
        Some(&mut self.udp.at(slot).socket)
    }

    /// Asks for one [`Event::Datagrams`] when datagrams have left and made room.
    pub fn udp_want_room(&mut self, socket: UdpId) {
        if let Some(slot) = self.udp.owned(socket) {
            self.udp.at(slot).wants_room = true;
        }
    }

    /// Closes a UDP socket. What was queued is still sent; what has come and
    /// was not read is gone.
    pub fn close_udp(&mut self, socket: UdpId) {
        if let Some(slot) = self.udp.owned(socket) {
            self.udp.close(slot);
            self.queue(Slot::Udp(slot));
        }
    }

    /// The present address.
    pub fn address(&self) -> Option<Ipv4Cidr> {
        self.addressing.current()
    }

    /// Largest IP packet in bytes.
    pub fn mtu(&self) -> usize {
        self.mtu
    }

    /// When the present batch of frames was taken, in nanoseconds.
    pub fn now(&self) -> u64 {
        self.now_ns
    }

    /// What happened so far.
    pub fn counters(&self) -> StackCounters {
        StackCounters {
            dhcp_renewals: self.addressing.renewals,
            drop_reassembly_timeout: self.reassembly.timeouts,
            drop_reassembly_evicted: self.reassembly.evictions,
            ..self.counters
        }
    }

    /// Sets the clock for what follows.
    pub(crate) fn set_now(&mut self, now: u64) {
        self.now_ns = now;
        self.now = to_instant(now);
    }

    /// How many connections there are.
    #[cfg(test)]
    pub(crate) fn flow_count(&self) -> usize {
        self.flows.len()
    }

    /// How many TCP sockets were ever made.
    #[cfg(test)]
    pub(crate) fn sockets_made(&self) -> usize {
        self.flows.made()
    }

    /// The link came up.
    pub(crate) fn link_up(&mut self) {
        self.addressing.link_up(&mut self.common, self.now_ns);
        self.neighbours.clear();
        self.queue(Slot::Common);
    }

    /// How many frames went into the transmit ring so far.
    pub(crate) fn frames_sent(&self) -> u64 {
        self.counters.tx_frames
    }

    /// The next thing that happened to the address.
    pub(crate) fn next_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    fn abort_slot(&mut self, slot: u32) {
        self.counters.broken += 1;
        let flow = self.flows.at(slot);
        flow.socket_mut().abort();
        flow.phase = Phase::Aborted;
        self.queue(Slot::Tcp(slot));
    }

    /// Gives a socket set a turn to send.
    fn queue(&mut self, slot: Slot) {
        if !core::mem::replace(&mut self.place(slot).queued, true) {
            self.turn.push_back(self.number(slot));
        }
    }

    fn place(&mut self, slot: Slot) -> &mut Place {
        match slot {
            Slot::Common => &mut self.common_place,
            Slot::Udp(slot) => &mut self.udp.at(slot).place,
            Slot::Tcp(slot) => &mut self.flows.at(slot).place,
        }
    }

    fn number(&self, slot: Slot) -> u32 {
        match slot {
            Slot::Common => 0,
            Slot::Udp(slot) => 1 + slot,
            Slot::Tcp(slot) => 1 + self.udp.limit() as u32 + slot,
        }
    }

    fn slot(&self, number: u32) -> Slot {
        let udp = self.udp.limit() as u32;
        match number {
            0 => Slot::Common,
            number if number <= udp => Slot::Udp(number - 1),
            number => Slot::Tcp(number - 1 - udp),
        }
    }

    fn free_port(&mut self, is_free: impl Fn(&Self, u16) -> bool) -> Result<u16, OpenError> {
        for _ in self.data_ports.clone() {
            let port = self.next_port;
            self.next_port = match port {
                last if last == *self.data_ports.end() => *self.data_ports.start(),
                port => port + 1,
            };
            if is_free(self, port) {
                return Ok(port);
            }
        }
        Err(OpenError::NoPortFree)
    }
}

/// smoltcp counts microseconds.
fn to_instant(nanoseconds: u64) -> Instant {
    Instant::from_micros((nanoseconds / 1000) as i64)
}
