//! The memory that sockets may take, as a sum of bytes.
//!
//! Each connection takes what it costs when it begins, and gives it back when it
//! has ended. A test takes the cost of its connection when it is set up, so that
//! a test that was not refused is not refused later.

use core::mem::size_of;

use smoltcp::iface::SocketStorage;

use crate::flows::Flow;

/// Bytes that a connection takes in the tables of connections and of deadlines,
/// with the room that these leave for growth.
const IN_TABLES: usize = 128;

/// Bytes that a connection takes besides its buffers.
pub const CONNECTION: usize = size_of::<Flow>() + size_of::<SocketStorage<'static>>() + IN_TABLES;

/// What a connection takes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// Receive buffer.
    pub receive: usize,
    /// Send buffer.
    pub send: usize,
    /// What the service keeps for it.
    pub beside: usize,
}

impl Room {
    /// Everything together.
    pub fn cost(&self) -> usize {
        self.buffers() + self.beside + CONNECTION
    }

    /// The buffers alone.
    pub fn buffers(&self) -> usize {
        self.receive + self.send
    }

    /// The same with each buffer of more than `least` bytes halved, though not
    /// below `least`. `None` where there is none.
    pub fn smaller(&self, least: usize) -> Option<Self> {
        let halved = |bytes: usize| match bytes > least {
            true => (bytes / 2).max(least),
            false => bytes,
        };
        let smaller = Self {
            receive: halved(self.receive),
            send: halved(self.send),
            ..*self
        };
        (smaller != *self).then_some(smaller)
    }
}

/// What is taken of the memory for sockets, and what is left.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    limit: usize,
    taken: usize,
}

impl Budget {
    /// `limit` bytes, all of them left.
    pub fn new(limit: usize) -> Self {
        Self { limit, taken: 0 }
    }

    /// Takes `bytes`, if they are left.
    #[must_use]
    pub fn take(&mut self, bytes: usize) -> bool {
        let fits = bytes <= self.left();
        if fits {
            self.taken += bytes;
        }
        fits
    }

    /// Takes back `bytes` that were taken.
    pub fn give_back(&mut self, bytes: usize) {
        self.taken = self.taken.saturating_sub(bytes);
    }

    /// Bytes that are left.
    pub fn left(&self) -> usize {
        self.limit - self.taken
    }

    /// Bytes that are taken.
    pub fn taken(&self) -> usize {
        self.taken
    }

    /// Bytes in all.
    pub fn limit(&self) -> usize {
        self.limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::println;

    #[test]
    fn no_more_can_be_taken_than_there_is() {
        let mut budget = Budget::new(100);
        assert!(budget.take(60) && !budget.take(41) && budget.take(40));
        assert_eq!((budget.left(), budget.taken()), (0, 100));
        budget.give_back(60);
        assert_eq!(budget.left(), 60);
    }

    #[test]
    fn only_large_buffers_shrink() {
        let room = Room {
            receive: 512,
            send: 4,
            beside: 100,
        };
        let sizes = |room: Room| (room.receive, room.send, room.beside);
        assert_eq!(room.smaller(64).map(sizes), Some((256, 4, 100)));
        let least = Room {
            receive: 64,
            ..room
        };
        assert_eq!(least.smaller(64), None);
        let odd = Room {
            receive: 65,
            send: 100,
            ..room
        };
        assert_eq!(odd.smaller(64).map(sizes), Some((64, 64, 100)));
    }

    /// Of a size that docs/architecture.md and README.md speak of.
    #[test]
    fn a_connection_costs_little_besides_its_buffers() {
        println!("{CONNECTION} bytes a connection without its buffers");
        const { assert!(CONNECTION <= 2048) };
    }
}
