//! UDP without smoltcp: a table of sockets that are found by port, from a bounded
//! pool, and their datagrams on the way to frames.
//!
//! smoltcp's UDP socket copies every payload, takes checksums byte by byte, and
//! looks each station up again for each datagram. Nothing of that is needed
//! where a service only wants to know that so many bytes came from somewhere.

pub mod frames;
mod socket;

pub use socket::{Datagram, Payload, SendError, Socket};

use alloc::vec::Vec;

use hashbrown::HashMap;

use crate::config::UdpConfig;
use crate::hash::FlowHash;
use crate::stack::{Owner, Place, UdpId};
use frames::{Cut, Hop};
use socket::Bounds;

/// A UDP socket and what the stack knows about it.
pub struct Entry {
    /// The socket itself.
    pub socket: Socket,
    generation: u32,
    port: u16,
    /// Who is told what happens.
    pub owner: Owner,
    /// Where it stands.
    pub phase: UdpPhase,
    /// Where it stands with regard to its turn to send.
    pub place: Place,
    /// The way of the datagram before, which most often is the next one's too.
    pub hop: Option<Hop>,
    /// How far the first datagram is sent that does not fit one packet.
    pub cut: Option<Cut>,
    /// How often the station of the first datagram's receiver was asked for in
    /// vain.
    pub stuck: u8,
    /// Whether the owner is about to be told of progress.
    pub touched: bool,
    /// Whether the owner wants to be told when datagrams have left.
    pub wants_room: bool,
}

/// Where a UDP socket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UdpPhase {
    /// In the pool.
    Free,
    /// A service has it.
    Open,
    /// The service has closed it; what it had queued is being sent.
    Closing,
}

impl Entry {
    /// Throws away all datagrams, read or not, sent or not.
    pub fn empty(&mut self) {
        self.stuck = 0;
        self.cut = None;
        self.socket.clear();
    }

    /// The first datagram to send, and its bytes if it has any of its own.
    pub fn first(&mut self) -> Option<(Datagram, Option<&[u8]>)> {
        self.socket.to_send.first()
    }

    /// The first datagram to send has left, or never will.
    pub fn pop(&mut self) {
        self.cut = None;
        self.socket.to_send.pop();
    }

    /// The port it is bound to.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The table of UDP sockets.
pub struct UdpSockets {
    slots: Vec<Entry>,
    ports: HashMap<u16, u32, FlowHash>,
    free: Vec<u32>,
    config: UdpConfig,
}

impl UdpSockets {
    /// An empty table.
    pub fn new(config: &UdpConfig, hash: FlowHash) -> Self {
        Self {
            slots: Vec::new(),
            ports: HashMap::with_hasher(hash),
            free: Vec::new(),
            config: config.clone(),
        }
    }

    /// Most sockets that there can be.
    pub fn limit(&self) -> usize {
        self.config.sockets.count
    }

    /// Which slot holds the socket that is bound to `port`.
    pub fn find(&self, port: u16) -> Option<u32> {
        self.ports.get(&port).copied()
    }

    /// The socket in a slot, which must exist.
    pub fn at(&mut self, slot: u32) -> &mut Entry {
        &mut self.slots[slot as usize]
    }

    /// The slot of the socket that a service knows by `id`, as long as it is
    /// open.
    pub fn owned(&self, id: UdpId) -> Option<u32> {
        let socket = self.slots.get(id.slot as usize)?;
        let owned = socket.generation == id.generation && socket.phase == UdpPhase::Open;
        owned.then_some(id.slot)
    }

    /// The id of the socket in a slot.
    pub fn id(&self, slot: u32) -> UdpId {
        UdpId {
            slot,
            generation: self.slots[slot as usize].generation,
        }
    }

    /// The open sockets.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.slots
            .iter()
            .filter(|socket| socket.phase == UdpPhase::Open)
    }

    /// How many sockets are not in the pool.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Opens a socket on a free port. `None` if all sockets are taken.
    pub fn open(&mut self, port: u16, payload: Payload, owner: Owner) -> Option<u32> {
        let slot = self.take_slot()?;
        let socket = self.at(slot);
        socket.port = port;
        socket.owner = owner;
        socket.phase = UdpPhase::Open;
        socket.touched = false;
        socket.wants_room = false;
        socket.socket.open(payload);
        self.ports.insert(port, slot);
        Some(slot)
    }

    /// Takes a socket from its service: nothing more is received.
    pub fn close(&mut self, slot: u32) {
        let socket = self.at(slot);
        socket.phase = UdpPhase::Closing;
        let port = socket.port;
        self.ports.remove(&port);
    }

    /// Ends a socket, whose buffers go back to the allocator. Returns what it
    /// has cost.
    pub fn end(&mut self, slot: u32) -> usize {
        let cost = self.cost(self.slots[slot as usize].socket.payload());
        let fresh = new_socket(&self.config);
        let socket = self.at(slot);
        socket.phase = UdpPhase::Free;
        socket.generation = socket.generation.wrapping_add(1);
        socket.empty();
        socket.socket = fresh;
        self.free.push(slot);
        cost
    }

    /// Bytes that a socket takes at the most.
    pub fn cost(&self, payload: Payload) -> usize {
        let buffers = match payload {
            Payload::Kept => self.config.sockets.rx_bytes + self.config.sockets.tx_bytes,
            Payload::Counted => 0,
        };
        buffers + 2 * self.config.packets * socket::QUEUED + size_of::<Entry>()
    }

    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.slots.len() == self.limit() {
            return None;
        }
        self.slots.push(new_entry(&self.config));
        Some(self.slots.len() as u32 - 1)
    }
}

fn new_socket(config: &UdpConfig) -> Socket {
    let bounds = |bytes: usize| Bounds {
        bytes,
        datagrams: config.packets,
    };
    Socket::new(
        bounds(config.sockets.rx_bytes),
        bounds(config.sockets.tx_bytes),
    )
}

fn new_entry(config: &UdpConfig) -> Entry {
    Entry {
        socket: new_socket(config),
        generation: 0,
        port: 0,
        owner: Owner::default(),
        phase: UdpPhase::Free,
        place: Place::default(),
        hop: None,
        cut: None,
        stuck: 0,
        touched: false,
        wants_room: false,
    }
}
