//! The table of UDP sockets: found by port, each in a socket set of its own,
//! from a bounded pool.

use alloc::vec;
use alloc::vec::Vec;

use hashbrown::HashMap;
use smoltcp::iface::{SocketHandle, SocketSet};
use smoltcp::socket::{Socket, udp};

use crate::config::UdpConfig;
use crate::hash::FlowHash;
use crate::stack::{Owner, Place, UdpId};

/// A UDP socket.
pub struct UdpSocket {
    /// The set that holds it.
    pub sockets: SocketSet<'static>,
    handle: SocketHandle,
    generation: u32,
    port: u16,
    /// Who is told what happens.
    pub owner: Owner,
    /// Where it stands.
    pub phase: UdpPhase,
    /// Where it stands with regard to its turn to send.
    pub place: Place,
    /// How many turns in a row it could not send, because the station address
    /// of the first datagram's receiver was not known.
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

impl UdpSocket {
    /// The socket.
    pub fn socket(&self) -> &udp::Socket<'static> {
        self.sockets.get(self.handle)
    }

    /// The socket, to be changed.
    pub fn socket_mut(&mut self) -> &mut udp::Socket<'static> {
        self.sockets.get_mut(self.handle)
    }

    /// Binds the emptied socket to its port.
    pub fn bind(&mut self) {
        let port = self.port;
        self.socket_mut()
            .bind(port)
            .expect("a closed socket can be bound to a port that is not zero");
    }

    /// Throws away all datagrams, read or not, sent or not, and the wait for a
    /// station address, which smoltcp keeps with the set's entry.
    pub fn empty(&mut self) {
        self.stuck = 0;
        if let Socket::Udp(mut socket) = self.sockets.remove(self.handle) {
            socket.close();
            self.handle = self.sockets.add(socket);
        }
    }

    /// The port it is bound to.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// The table of UDP sockets.
pub struct UdpSockets {
    slots: Vec<UdpSocket>,
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
    pub fn at(&mut self, slot: u32) -> &mut UdpSocket {
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
    pub fn iter(&self) -> impl Iterator<Item = &UdpSocket> {
        self.slots
            .iter()
            .filter(|socket| socket.phase == UdpPhase::Open)
    }

    /// How many sockets are not in the pool.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Opens a socket on a free port. `None` if all sockets are taken.
    pub fn open(&mut self, port: u16, owner: Owner) -> Option<u32> {
        let slot = self.take_slot()?;
        let socket = self.at(slot);
        socket.port = port;
        socket.owner = owner;
        socket.phase = UdpPhase::Open;
        socket.touched = false;
        socket.wants_room = false;
        socket.bind();
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

    /// Puts a socket back into the pool.
    pub fn end(&mut self, slot: u32) {
        let socket = self.at(slot);
        socket.phase = UdpPhase::Free;
        socket.generation = socket.generation.wrapping_add(1);
        socket.empty();
        self.free.push(slot);
    }

    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.free.pop() {
            return Some(slot);
        }
        if self.slots.len() == self.limit() {
            return None;
        }
        self.slots.push(new_socket(&self.config));
        Some(self.slots.len() as u32 - 1)
    }
}

fn new_socket(config: &UdpConfig) -> UdpSocket {
    let buffer = |bytes: usize| {
        let packets = vec![udp::PacketMetadata::EMPTY; config.packets];
        udp::PacketBuffer::new(packets, vec![0; bytes])
    };
    let rx = buffer(config.sockets.rx_bytes);
    let tx = buffer(config.sockets.tx_bytes);
    let mut sockets = SocketSet::new(Vec::with_capacity(1));
    let handle = sockets.add(udp::Socket::new(rx, tx));
    UdpSocket {
        sockets,
        handle,
        generation: 0,
        port: 0,
        owner: Owner::default(),
        phase: UdpPhase::Free,
        place: Place::default(),
        touched: false,
        wants_room: false,
        stuck: 0,
    }
}
