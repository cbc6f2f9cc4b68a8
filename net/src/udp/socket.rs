//! A UDP socket: two queues of datagrams.

use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::fmt;
use core::net::{Ipv4Addr, SocketAddrV4};

/// Most payload bytes of a datagram: an IPv4 packet's length is 16 bits.
pub const LONGEST: usize = 65_535 - 20 - 8;

/// A datagram's peer and length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Datagram {
    /// Where it comes from or goes to.
    pub peer: SocketAddrV4,
    /// Payload bytes.
    pub len: usize,
}

/// What becomes of the payload of received datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    /// It is kept until the service takes it.
    Kept,
    /// Only its length is: the service has no use for the bytes.
    Counted,
}

/// Why a datagram was not queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SendError {
    /// The queue is full; see [`Stack::udp_want_room`](crate::stack::Stack::udp_want_room).
    Full,
    /// Nobody can have that address or port, or no datagram can be that long.
    Unaddressable,
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SendError::Full => "the send buffer is full",
            SendError::Unaddressable => "no datagram can be sent there",
        })
    }
}

impl core::error::Error for SendError {}

/// A UDP socket.
pub struct Socket {
    payload: Payload,
    received: Queue,
    pub(super) to_send: Queue,
}

/// How much a queue holds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    pub bytes: usize,
    pub datagrams: usize,
}

/// Datagrams in order, some with their bytes.
pub(super) struct Queue {
    datagrams: VecDeque<Queued>,
    /// The bytes of those that have theirs here, one after the other.
    bytes: VecDeque<u8>,
    /// The sum of all lengths.
    held: usize,
    bounds: Bounds,
}

/// Bytes that a datagram takes in a queue, besides its own.
pub(super) const QUEUED: usize = size_of::<Queued>();

#[derive(Clone, Copy)]
struct Queued {
    datagram: Datagram,
    has_bytes: bool,
}

impl Queue {
    fn new(bounds: Bounds) -> Self {
        Self {
            datagrams: VecDeque::new(),
            bytes: VecDeque::new(),
            held: 0,
            bounds,
        }
    }

    fn has_room_for(&self, len: usize) -> bool {
        self.datagrams.len() < self.bounds.datagrams && self.held + len <= self.bounds.bytes
    }

    /// Adds a datagram, with its bytes or without. Returns whether there was
    /// room.
    fn push(&mut self, datagram: Datagram, bytes: Option<&[u8]>) -> bool {
        if !self.has_room_for(datagram.len) {
            return false;
        }
        self.held += datagram.len;
        self.bytes.extend(bytes.unwrap_or_default());
        self.datagrams.push_back(Queued {
            datagram,
            has_bytes: bytes.is_some(),
        });
        true
    }

    /// The first datagram, and its bytes if it has any of its own.
    pub fn first(&mut self) -> Option<(Datagram, Option<&[u8]>)> {
        let first = *self.datagrams.front()?;
        let bytes = first
            .has_bytes
            .then(|| &self.bytes.make_contiguous()[..first.datagram.len]);
        Some((first.datagram, bytes))
    }

    /// Takes the first datagram out.
    pub fn pop(&mut self) -> Option<Datagram> {
        let first = self.datagrams.pop_front()?;
        self.held -= first.datagram.len;
        if first.has_bytes {
            self.bytes.drain(..first.datagram.len);
        }
        Some(first.datagram)
    }

    fn clear(&mut self) {
        self.datagrams.clear();
        self.bytes.clear();
        self.held = 0;
    }
}

impl Socket {
    pub(super) fn new(received: Bounds, to_send: Bounds) -> Self {
        Self {
            payload: Payload::Counted,
            received: Queue::new(received),
            to_send: Queue::new(to_send),
        }
    }

    pub(super) fn open(&mut self, payload: Payload) {
        self.payload = payload;
    }

    pub(super) fn payload(&self) -> Payload {
        self.payload
    }

    pub(super) fn clear(&mut self) {
        self.received.clear();
        self.to_send.clear();
    }

    /// Takes the next received datagram. Its bytes are gone.
    #[inline]
    pub fn receive(&mut self) -> Option<Datagram> {
        self.received.pop()
    }

    /// Takes the next received datagram and puts its bytes into `payload`,
    /// which is emptied before; none if only lengths are [kept](Payload).
    pub fn receive_into(&mut self, payload: &mut Vec<u8>) -> Option<Datagram> {
        let (_, bytes) = self.received.first()?;
        payload.clear();
        payload.extend_from_slice(bytes.unwrap_or_default());
        self.received.pop()
    }

    /// Queues a datagram of so many bytes of the page store.
    ///
    /// # Errors
    ///
    /// Any [`SendError`].
    #[inline]
    pub fn send(&mut self, peer: SocketAddrV4, len: usize) -> Result<(), SendError> {
        self.queue(Datagram { peer, len }, None)
    }

    /// Queues a datagram with these bytes.
    ///
    /// # Errors
    ///
    /// Any [`SendError`].
    pub fn send_slice(&mut self, peer: SocketAddrV4, payload: &[u8]) -> Result<(), SendError> {
        let len = payload.len();
        self.queue(Datagram { peer, len }, Some(payload))
    }

    fn queue(&mut self, datagram: Datagram, bytes: Option<&[u8]>) -> Result<(), SendError> {
        let peer = datagram.peer;
        if !is_host(*peer.ip()) || peer.port() == 0 || datagram.len > LONGEST {
            return Err(SendError::Unaddressable);
        }
        match self.to_send.push(datagram, bytes) {
            true => Ok(()),
            false => Err(SendError::Full),
        }
    }

    /// A datagram has come. Returns whether there was room for it.
    #[inline]
    pub(crate) fn take(&mut self, from: SocketAddrV4, payload: &[u8]) -> bool {
        let datagram = Datagram {
            peer: from,
            len: payload.len(),
        };
        let bytes = (self.payload == Payload::Kept).then_some(payload);
        self.received.push(datagram, bytes)
    }

    /// Payload bytes that wait to be read.
    pub fn recv_queue(&self) -> usize {
        self.received.held
    }

    /// Payload bytes that wait to be sent.
    pub fn send_queue(&self) -> usize {
        self.to_send.held
    }

    /// Datagrams that wait to be sent.
    pub(crate) fn datagrams_to_send(&self) -> usize {
        self.to_send.datagrams.len()
    }
}

/// Whether an address can be one host's.
fn is_host(address: Ipv4Addr) -> bool {
    !(address.is_unspecified()
        || address.is_broadcast()
        || address.is_multicast()
        || address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 5000);

    fn socket() -> Socket {
        let bounds = Bounds {
            bytes: 100,
            datagrams: 4,
        };
        Socket::new(bounds, bounds)
    }

    #[test]
    fn bytes_stay_with_their_datagram() {
        let mut socket = socket();
        socket.open(Payload::Kept);
        let mut payload = vec![9; 5];
        for round in 0..50u8 {
            let sent: [&[u8]; 3] = [&[round; 3], &[], &[round + 1; 7]];
            for bytes in sent {
                assert!(socket.take(PEER, bytes));
            }
            assert_eq!(socket.recv_queue(), 10);
            for bytes in sent {
                let datagram = socket.receive_into(&mut payload).unwrap();
                assert_eq!((datagram.peer, datagram.len), (PEER, bytes.len()));
                assert_eq!(payload, bytes);
            }
            assert_eq!(socket.receive(), None);
        }
    }

    #[test]
    fn both_bounds_hold() {
        let mut socket = socket();
        assert!(socket.take(PEER, &[0; 100]));
        assert!(!socket.take(PEER, &[0]), "bytes");
        socket.receive();
        for _ in 0..4 {
            assert_eq!(socket.send(PEER, 0), Ok(()));
        }
        assert_eq!(socket.send(PEER, 0), Err(SendError::Full), "datagrams");
    }

    #[test]
    fn refuses_what_cannot_be_sent() {
        let mut socket = Socket::new(
            Bounds {
                bytes: 0,
                datagrams: 0,
            },
            Bounds {
                bytes: 1 << 20,
                datagrams: 9,
            },
        );
        let to = |address: [u8; 4], port| SocketAddrV4::new(address.into(), port);
        for peer in [
            to([0; 4], 1),
            to([255; 4], 1),
            to([224, 0, 0, 1], 1),
            to([127, 0, 0, 1], 1),
            to([10, 0, 0, 1], 0),
        ] {
            assert_eq!(
                socket.send(peer, 1),
                Err(SendError::Unaddressable),
                "{peer}"
            );
        }
        assert_eq!(socket.send(PEER, LONGEST), Ok(()));
        assert_eq!(
            socket.send(PEER, LONGEST + 1),
            Err(SendError::Unaddressable)
        );
    }
}
