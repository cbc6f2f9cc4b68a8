//! The table of connections: found by a hash of the 4-tuple, each with a
//! socket set of its own, made on demand within a budget of memory.
//!
//! smoltcp looks at every socket of a set for each segment, and its listening
//! socket takes one connection. So each connection has a set with one socket in
//! it, and a SYN to a port that is listened on gets one. The buffers of a
//! connection that has ended serve the next one that wants such, and go back to
//! the allocator when others need their memory.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;

use hashbrown::HashMap;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{Socket, tcp};
use smoltcp::time::Duration;
use smoltcp::wire::IpListenEndpoint;

use crate::budget::{Budget, CONNECTION, Room};
use crate::config::TcpConfig;
use crate::frame::Tuple;
use crate::hash::FlowHash;
use crate::listeners::Listener;
use crate::pages;
use crate::recovery::Recovery;
use crate::sack::Blocks;
use crate::stack::{FlowId, ListenerId, Owner, Place, earlier};

/// How long an acknowledgement waits for something to ride on: smoltcp's own
/// choice, which a service may have changed.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// The part of the memory for sockets that pools keep at the most. What large
/// buffers leave behind is in pieces once small ones have been put into it, so most
/// of it goes back at once.
const POOLED: usize = 8;

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
    room: Room,
    /// Whether its memory is what its listener had set aside.
    is_reserved: bool,
    /// Its place among the handshakes that go on.
    handshake: u64,
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
    /// From when on it may be challenged, in nanoseconds.
    pub challenge_at: u64,
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

    /// What smoltcp is to drive, and what its acknowledgements are to report.
    pub fn drivable(&mut self) -> (&mut SocketSet<'static>, Option<Blocks>) {
        (&mut self.sockets, self.recovery.report())
    }

    /// When patience with it ends, or its loss recovery has something to do, in
    /// nanoseconds. A silent peer is borne with for `patience`.
    pub fn deadline(&self, patience: u64) -> Option<u64> {
        let limit = (self.limit != NEVER).then_some(self.limit);
        earlier(limit, self.recovery.deadline(patience))
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

/// Slots without a connection whose buffers have the same sizes.
struct Pool {
    receive: usize,
    send: usize,
    slots: Vec<u32>,
}

/// The table of connections.
pub struct Flows {
    slots: Vec<Flow>,
    names: HashMap<Tuple, u32, FlowHash>,
    budget: Budget,
    /// Free slots that still have buffers, one pool for each size. There are
    /// few: tests have few sizes, all of them powers of two.
    pools: Vec<Pool>,
    /// Bytes that the pools hold.
    pooled: usize,
    /// Free slots without buffers.
    bare: Vec<u32>,
    /// Connections whose handshake goes on, oldest first.
    half_open: BTreeMap<u64, u32>,
    /// Bytes that they have taken.
    half_open_bytes: usize,
    next_handshake: u64,
    config: TcpConfig,
}

impl Flows {
    /// An empty table, with room for as many connections as `budget` bytes are
    /// enough for: a table that grew would need its old and its new memory at once,
    /// each in one piece, which there may not be among thousands of buffers.
    pub fn new(config: &TcpConfig, budget: usize, hash: FlowHash) -> Self {
        let least = CONNECTION + config.control.receive + config.control.send;
        let most = budget / least;
        Self {
            slots: Vec::with_capacity(most),
            names: HashMap::with_capacity_and_hasher(most, hash),
            budget: Budget::new(budget),
            pools: Vec::new(),
            pooled: 0,
            bare: Vec::new(),
            half_open: BTreeMap::new(),
            half_open_bytes: 0,
            next_handshake: 0,
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

    /// The memory for sockets.
    pub fn budget(&self) -> &Budget {
        &self.budget
    }

    /// Whether half of the handshakes that there can be go on.
    pub fn is_crowded(&self) -> bool {
        self.half_open.len() * 2 >= self.config.half_open
    }

    /// Takes `bytes` of the memory for sockets; pools are emptied as far as it
    /// needs. Returns whether there was so much.
    #[must_use]
    pub fn spend(&mut self, bytes: usize) -> bool {
        let fits = self.budget.take(bytes);
        while fits && self.budget.left() < self.pooled {
            self.shed();
        }
        fits
    }

    /// Gives back memory that was spent.
    pub fn refund(&mut self, bytes: usize) {
        self.budget.give_back(bytes);
    }

    /// The oldest connection whose handshake goes on, if it must go before one that
    /// needs `bytes` more can begin: there are too many of them, or they have the
    /// memory that is lacking.
    pub fn must_give_way(&self, bytes: usize) -> Option<u32> {
        let oldest = self.half_open.values().next().copied()?;
        let is_full = self.half_open.len() >= self.config.half_open;
        let lacking = bytes.saturating_sub(self.budget.left());
        let helps = (1..=self.half_open_bytes).contains(&lacking);
        (is_full || helps).then_some(oldest)
    }

    /// Begins a connection to `listener`, with segments of at most `largest_mss`
    /// payload bytes, and lets its socket listen. Its memory is that which the
    /// listener had set aside if `is_reserved`. `None` if there is not enough.
    pub fn begin(
        &mut self,
        tuple: Tuple,
        listener: &Listener,
        is_reserved: bool,
        largest_mss: usize,
        now: u64,
    ) -> Option<u32> {
        if !is_reserved && !self.spend(listener.room.cost()) {
            return None;
        }
        let keep_alive = self.keep_alive();
        let Some(slot) = self.take_slot(listener.room) else {
            if !is_reserved {
                self.refund(listener.room.cost());
            }
            return None;
        };
        let config = &self.config;
        let flow = &mut self.slots[slot as usize];
        flow.is_reserved = is_reserved;
        flow.handshake = self.next_handshake;
        flow.tuple = tuple;
        flow.listener = listener.id;
        flow.owner = listener.owner;
        flow.phase = Phase::HalfOpen;
        flow.limit = now + config.half_open_timeout;
        flow.challenge_at = 0;
        flow.touched = false;
        flow.fin_told = false;
        flow.end_told = false;
        flow.forget_silence();
        prepare(flow.socket_mut(), &tuple);
        keep_alive.set(flow.socket_mut());
        flow.state = tcp::State::Listen;
        flow.recovery = Recovery::new(largest_mss);
        self.names.insert(tuple, slot);
        self.half_open.insert(self.next_handshake, slot);
        self.half_open_bytes += own_bytes(&self.slots[slot as usize]);
        self.next_handshake += 1;
        Some(slot)
    }

    /// The handshake of a connection has ended well.
    pub fn established(&mut self, slot: u32) {
        self.forget_handshake(slot);
        let flow = self.at(slot);
        flow.phase = Phase::Open;
        flow.limit = NEVER;
    }

    /// Ends a connection. Returns the listener whose memory it had, and how much;
    /// `None` if it had its own, which is given back.
    pub fn end(&mut self, slot: u32) -> Option<(ListenerId, usize)> {
        match self.slots[slot as usize].phase {
            Phase::Free => return None,
            Phase::HalfOpen => self.forget_handshake(slot),
            _ => {}
        }
        let flow = &mut self.slots[slot as usize];
        flow.phase = Phase::Free;
        flow.limit = NEVER;
        flow.generation = flow.generation.wrapping_add(1);
        // Without a further turn nothing is sent.
        flow.socket_mut().abort();
        let (room, listener, is_reserved) = (flow.room, flow.listener, flow.is_reserved);
        self.budget.give_back(own_bytes(flow));
        self.names.remove(&flow.tuple);
        self.pool(slot, room);
        is_reserved.then_some((listener, room.cost()))
    }

    fn forget_handshake(&mut self, slot: u32) {
        let flow = &self.slots[slot as usize];
        self.half_open.remove(&flow.handshake);
        self.half_open_bytes -= own_bytes(flow);
    }

    /// Connections to a listener whose handshake goes on.
    pub fn half_open_of(&self, listener: ListenerId) -> Option<u32> {
        let same = |slot: &&u32| self.slots[**slot as usize].listener == listener;
        self.half_open.values().find(same).copied()
    }

    /// A connection's deadline has come: lets it ask its peer whether it is
    /// still there as often as is right for the present number of connections.
    pub fn slow_down(&mut self, slot: u32) {
        let keep_alive = self.keep_alive();
        let flow = self.at(slot);
        if flow.phase != Phase::Free {
            keep_alive.set(flow.socket_mut());
        }
    }

    fn keep_alive(&self) -> KeepAlive {
        KeepAlive::new(&self.config, self.names.len())
    }

    /// A slot with buffers for `room`, whose memory has been taken. `None` if what
    /// is left of the memory is in pieces that are too small.
    fn take_slot(&mut self, room: Room) -> Option<u32> {
        let fits = |pool: &&mut Pool| (pool.receive, pool.send) == (room.receive, room.send);
        let pooled = self.pools.iter_mut().find(fits);
        if let Some(slot) = pooled.and_then(|pool| pool.slots.pop()) {
            self.pooled -= room.buffers();
            self.slots[slot as usize].room = room;
            return Some(slot);
        }
        let slot = self.bare.pop().unwrap_or_else(|| {
            self.slots.push(bare_flow());
            self.slots.len() as u32 - 1
        });
        while !furnish(&mut self.slots[slot as usize], room) {
            if self.pooled == 0 {
                self.bare.push(slot);
                return None;
            }
            self.shed();
        }
        Some(slot)
    }

    /// Keeps a slot for the next connection that needs such buffers, unless
    /// their memory is needed.
    fn pool(&mut self, slot: u32, room: Room) {
        let fits = |pool: &Pool| (pool.receive, pool.send) == (room.receive, room.send);
        let index = self.pools.iter().position(fits).unwrap_or_else(|| {
            self.pools.push(Pool {
                receive: room.receive,
                send: room.send,
                slots: Vec::new(),
            });
            self.pools.len() - 1
        });
        self.pools[index].slots.push(slot);
        self.pooled += room.buffers();
        let most = self.budget.left().min(self.budget.limit() / POOLED);
        while self.pooled > most {
            self.shed();
        }
    }

    /// Gives the buffers of a free slot back to the allocator, the largest first.
    fn shed(&mut self) {
        let has_slots = |pool: &&mut Pool| !pool.slots.is_empty();
        let pools = self.pools.iter_mut().filter(has_slots);
        let largest = pools.max_by_key(|pool| pool.receive + pool.send);
        let Some(pool) = largest else {
            self.pooled = 0;
            return;
        };
        if let Some(slot) = pool.slots.pop() {
            self.pooled -= pool.receive + pool.send;
            self.slots[slot as usize].sockets = SocketSet::new(Vec::new());
            self.bare.push(slot);
        }
    }
}

/// How often silent peers are asked whether they are still there.
///
/// So that connections at rest cost next to nothing, the questions to all of
/// them together are bounded: the more there are, the less often each is asked.
#[derive(Clone, Copy)]
struct KeepAlive {
    interval: Duration,
    timeout: Duration,
}

impl KeepAlive {
    fn new(config: &TcpConfig, connections: usize) -> Self {
        const SECOND: u64 = 1_000_000_000;
        let spread = connections as u64 * SECOND / u64::from(config.keep_alives_per_second.max(1));
        let interval = config.keep_alive.max(spread);
        let patience = config.timeout.saturating_sub(config.keep_alive);
        Self {
            interval: Duration::from_micros(interval / 1000),
            timeout: Duration::from_micros((interval + patience) / 1000),
        }
    }

    fn set(self, socket: &mut tcp::Socket<'_>) {
        socket.set_keep_alive(Some(self.interval));
        socket.set_timeout(Some(self.timeout));
    }
}

/// Bytes that a connection has taken itself, and not from its listener.
fn own_bytes(flow: &Flow) -> usize {
    match flow.is_reserved {
        true => 0,
        false => flow.room.cost(),
    }
}

/// A slot without a socket.
fn bare_flow() -> Flow {
    Flow {
        sockets: SocketSet::new(Vec::new()),
        handle: SocketHandle::default(),
        generation: 0,
        room: Room::default(),
        is_reserved: false,
        handshake: 0,
        tuple: Tuple::NONE,
        listener: ListenerId::NONE,
        owner: Owner::default(),
        phase: Phase::Free,
        limit: NEVER,
        peer_end: 0,
        challenge_at: 0,
        place: Place::default(),
        silenced: false,
        touched: false,
        fin_told: false,
        end_told: false,
        state: tcp::State::Closed,
        recovery: Recovery::new(0),
    }
}

/// Gives a slot without a socket one with new buffers, if there is memory for them
/// in one piece each. Returns whether there was.
fn furnish(flow: &mut Flow, room: Room) -> bool {
    let (Some(receive), Some(mut file)) = (zeroes(room.receive), zeroes(room.send)) else {
        return false;
    };
    let receive = tcp::SocketBuffer::new(receive);
    // What services send without writing it is the page store's.
    pages::fill(&mut file);
    let send = tcp::SocketBuffer::new(file);
    flow.sockets = SocketSet::new(Vec::with_capacity(1));
    flow.handle = flow.sockets.add(tcp::Socket::new(receive, send));
    flow.room = room;
    flow.silenced = false;
    true
}

/// A buffer, if there is the memory.
fn zeroes(len: usize) -> Option<Vec<u8>> {
    let mut buffer = Vec::new();
    buffer.try_reserve_exact(len).ok()?;
    buffer.resize(len, 0);
    Some(buffer)
}

/// Makes a socket as good as new, and lets it listen.
fn prepare(socket: &mut tcp::Socket<'_>, tuple: &Tuple) {
    socket.abort();
    socket.set_congestion_control(tcp::CongestionControl::None);
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
