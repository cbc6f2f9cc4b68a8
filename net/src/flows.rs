//! The table of connections: found by a hash of the 4-tuple, each with a
//! socket set of its own, made on demand from a bounded pool.
//!
//! smoltcp looks at every socket of a set for each segment, and its listening
//! socket takes one connection. So each connection has a set with one socket in
//! it, and a SYN to a port that is listened on gets one from the pool. Sockets
//! are never given back to the allocator: their buffers are used again as they
//! are.

use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{Socket, tcp};
use smoltcp::time::Duration;
use smoltcp::wire::IpListenEndpoint;

use crate::config::{ClassConfig, TcpConfig};
use crate::frame::Tuple;
use crate::hash::FlowHash;
use crate::recovery::Recovery;
use crate::stack::{FlowId, ListenerId, Owner, Place, SocketClass};

/// How long an acknowledgement waits for something to ride on: smoltcp's own
/// choice, which a service may have changed.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// Says that a flow has no deadline of its own.
pub const NEVER: u64 = u64::MAX;

/// Where a connection stands between the network and its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No connection: the socket is in the pool.
    Free,
    /// The handshake has begun.
    HalfOpen,
    /// A service has it.
    Open,
    /// It has ended, and the service is being told.
    Ended,
    /// It has ended, and nobody is to be told.
    Over,
    /// The service has let go of it; it is closing.
    Released,
    /// It is to be reset.
    Aborted,
}

/// A connection.
pub struct Flow {
    /// The set that holds its socket.
    pub sockets: SocketSet<'static>,
    handle: SocketHandle,
    generation: u32,
    class: SocketClass,
    /// The four numbers that name it.
    pub tuple: Tuple,
    /// What it was made to.
    pub listener: ListenerId,
    /// Who is told what happens.
    pub owner: Owner,
    /// Where it stands.
    pub phase: Phase,
    /// When patience with it ends, in nanoseconds.
    pub limit: u64,
    /// The sequence number behind the peer's FIN.
    pub peer_end: u32,
    /// Where it stands with regard to its turn to send.
    pub place: Place,
    /// Whether the set may still hold its peace because the last peer's station
    /// address was not known.
    pub silenced: bool,
    /// Whether the owner is about to be told of progress.
    pub touched: bool,
    /// Whether the owner was told that the peer has closed.
    pub fin_told: bool,
    /// Whether the owner was told that the connection has ended.
    pub end_told: bool,
    /// Its state when last looked at.
    pub state: tcp::State,
    /// What is lost of what it sent, and what to do about it.
    pub recovery: Recovery,
}

impl Flow {
    /// Its socket.
    pub fn socket(&self) -> &tcp::Socket<'static> {
        self.sockets.get(self.handle)
    }

    /// Its socket, to be changed.
    pub fn socket_mut(&mut self) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Whether what comes next is acknowledged with the next turn to send, or may
    /// wait for something to ride on.
    pub fn acknowledge_at_once(&mut self, at_once: bool) {
        let delay = if at_once { Duration::ZERO } else { ACK_DELAY };
        self.socket_mut().set_ack_delay(Some(delay));
    }

    /// Makes the set forget that it waits for a station address: smoltcp keeps
    /// that with the set's entry, not with the socket.
    fn forget_silence(&mut self) {
        if core::mem::take(&mut self.silenced)
            && let Socket::Tcp(socket) = self.sockets.remove(self.handle)
        {
            self.handle = self.sockets.add(socket);
        }
    }
}

/// The table of connections.
pub struct Flows {
    slots: Vec<Flow>,
    names: HashMap<Tuple, u32, FlowHash>,
    /// Free slots of each class.
    free: [Vec<u32>; 2],
    /// Slots of each class, free or not.
    made: [usize; 2],
    /// Connections whose handshake goes on, oldest first. Short: it is bounded
    /// by [`TcpConfig::half_open`].
    half_open: Vec<u32>,
    config: TcpConfig,
}

impl Flows {
    /// An empty table.
    pub fn new(config: &TcpConfig, hash: FlowHash) -> Self {
        Self {
            slots: Vec::new(),
            names: HashMap::with_hasher(hash),
            free: [Vec::new(), Vec::new()],
            made: [0; 2],
            half_open: Vec::new(),
            config: config.clone(),
        }
    }

    /// Which slot holds the connection of that name.
    pub fn find(&self, tuple: &Tuple) -> Option<u32> {
        self.names.get(tuple).copied()
    }

    /// The connection in a slot, which must exist.
    pub fn at(&mut self, slot: u32) -> &mut Flow {
        &mut self.slots[slot as usize]
    }

    /// The connection that a service knows by `id`, as long as it has it.
    pub fn owned(&mut self, id: FlowId) -> Option<&mut Flow> {
        let flow = self.slots.get_mut(id.slot as usize)?;
        let owned = matches!(flow.phase, Phase::Open | Phase::Ended);
        (flow.generation == id.generation && owned).then_some(flow)
    }

    /// The id of the connection in a slot.
    pub fn id(&self, slot: u32) -> FlowId {
        FlowId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// All connections, with their slots.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Flow)> {
        let used = |(_, flow): &(u32, &Flow)| flow.phase != Phase::Free;
        (0u32..).zip(&self.slots).filter(used)
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// How many sockets were ever made.
    #[cfg(test)]
    pub fn made(&self) -> usize {
        self.slots.len()
    }

    /// How many more there can be.
    pub fn free_sockets(&self) -> usize {
        self.config.control.count + self.config.data.count - self.names.len()
    }

    /// The oldest connection whose handshake goes on, if there are so many that
    /// it must go before one of `class` can begin.
    pub fn must_give_way(&self, class: SocketClass) -> Option<u32> {
        if self.half_open.len() >= self.config.half_open {
            return self.half_open.first().copied();
        }
        if self.has_room(class) {
            return None;
        }
        let same_class = |slot: &&u32| self.slots[**slot as usize].class == class;
        self.half_open.iter().find(same_class).copied()
    }

    fn has_room(&self, class: SocketClass) -> bool {
        let limit = self.class_config(class).count;
        !self.free[class as usize].is_empty() || self.made[class as usize] < limit
    }

    /// Begins a connection, with segments of at most `largest_mss` payload bytes:
    /// takes a socket from the pool and lets it listen.
    /// `None` if all are taken.
    pub fn begin(
        &mut self,
        tuple: Tuple,
        class: SocketClass,
        listener: ListenerId,
        owner: Owner,
        largest_mss: usize,
        now: u64,
    ) -> Option<u32> {
        let slot = self.take_slot(class)?;
        let config = &self.config;
        let flow = &mut self.slots[slot as usize];
        flow.tuple = tuple;
        flow.listener = listener;
        flow.owner = owner;
        flow.phase = Phase::HalfOpen;
        flow.limit = now + config.half_open_timeout;
        flow.touched = false;
        flow.fin_told = false;
        flow.end_told = false;
        flow.forget_silence();
        prepare(flow.socket_mut(), config, &tuple);
        flow.state = tcp::State::Listen;
        flow.recovery = Recovery::new(largest_mss);
        self.names.insert(tuple, slot);
        self.half_open.push(slot);
        Some(slot)
    }

    /// The handshake of a connection has ended well.
    pub fn established(&mut self, slot: u32) {
        self.forget_half_open(slot);
        let flow = self.at(slot);
        flow.phase = Phase::Open;
        flow.limit = NEVER;
    }

    /// Puts a connection's socket back into the pool.
    pub fn end(&mut self, slot: u32) {
        let flow = &mut self.slots[slot as usize];
        let before = core::mem::replace(&mut flow.phase, Phase::Free);
        if before == Phase::Free {
            return;
        }
        flow.limit = NEVER;
        flow.generation = flow.generation.wrapping_add(1);
        // Without a further turn nothing is sent.
        flow.socket_mut().abort();
        let (class, tuple) = (flow.class, flow.tuple);
        self.names.remove(&tuple);
        self.free[class as usize].push(slot);
        if before == Phase::HalfOpen {
            self.forget_half_open(slot);
        }
    }

    /// Connections to a listener whose handshake goes on.
    pub fn half_open_of(&self, listener: ListenerId) -> Option<u32> {
        let same = |slot: &&u32| self.slots[**slot as usize].listener == listener;
        self.half_open.iter().find(same).copied()
    }

    fn forget_half_open(&mut self, slot: u32) {
        self.half_open.retain(|&other| other != slot);
    }

    fn class_config(&self, class: SocketClass) -> &ClassConfig {
        match class {
            SocketClass::Control => &self.config.control,
            SocketClass::Data => &self.config.data,
        }
    }

    fn take_slot(&mut self, class: SocketClass) -> Option<u32> {
        if let Some(slot) = self.free[class as usize].pop() {
            return Some(slot);
        }
        let config = *self.class_config(class);
        if self.made[class as usize] == config.count {
            return None;
        }
        self.made[class as usize] += 1;
        self.slots.push(new_flow(class, &config));
        Some(self.slots.len() as u32 - 1)
    }
}

fn new_flow(class: SocketClass, config: &ClassConfig) -> Flow {
    let rx = tcp::SocketBuffer::new(vec![0; config.rx_bytes]);
    let tx = tcp::SocketBuffer::new(vec![0; config.tx_bytes]);
    let mut sockets = SocketSet::new(Vec::with_capacity(1));
    let handle = sockets.add(tcp::Socket::new(rx, tx));
    Flow {
        sockets,
        handle,
        generation: 0,
        class,
        tuple: Tuple::NONE,
        listener: ListenerId::NONE,
        owner: Owner::default(),
        phase: Phase::Free,
        limit: NEVER,
        peer_end: 0,
        place: Place::default(),
        silenced: false,
        touched: false,
        fin_told: false,
        end_told: false,
        state: tcp::State::Closed,
        recovery: Recovery::new(0),
    }
}

/// Makes a socket from the pool as good as new, and lets it listen.
fn prepare(socket: &mut tcp::Socket<'_>, config: &TcpConfig, tuple: &Tuple) {
    socket.abort();
    socket.set_congestion_control(tcp::CongestionControl::None);
    socket.set_keep_alive(Some(Duration::from_micros(config.keep_alive / 1000)));
    socket.set_timeout(Some(Duration::from_micros(config.timeout / 1000)));
    socket.set_nagle_enabled(true);
    socket.set_ack_delay(Some(ACK_DELAY));
    let endpoint = IpListenEndpoint {
        addr: Some(tuple.local.into()),
        port: tuple.local_port,
    };
    socket
        .listen(endpoint)
        .expect("a closed socket can listen on a port that a SYN came to");
}
