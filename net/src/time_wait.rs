//! Connections that have ended, remembered for a while (RFC 9293 section 3.6.1).
//!
//! smoltcp keeps a whole socket with its buffers for each. All that is needed
//! is the connection's name, and the sequence number behind the peer's last
//! byte: a repeated FIN is acknowledged, and a new SYN with the same name is
//! let through when its sequence number is beyond (RFC 1122 section 4.2.2.13).

use alloc::collections::VecDeque;

use hashbrown::HashMap;

use crate::frame::{TcpFrame, Tuple};
use crate::hash::FlowHash;

/// Names of ended connections.
pub struct TimeWait {
    entries: HashMap<Tuple, Entry, FlowHash>,
    /// In the order in which they run out.
    order: VecDeque<(u64, Tuple)>,
    lifetime: u64,
    most: usize,
}

struct Entry {
    expires: u64,
    peer_end: u32,
}

/// What to do with a segment of a connection that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The connection is not remembered, or may be made anew.
    Unknown,
    /// Say again that everything has come.
    Acknowledge,
    /// Do nothing.
    Ignore,
}

impl TimeWait {
    /// Remembers up to `most` connections for `lifetime` nanoseconds.
    pub fn new(most: usize, lifetime: u64, hash: FlowHash) -> Self {
        Self {
            entries: HashMap::with_hasher(hash),
            order: VecDeque::new(),
            lifetime,
            most,
        }
    }

    /// How many connections are remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Remembers a connection; `peer_end` is the sequence number behind the
    /// last byte that the peer has sent.
    pub fn insert(&mut self, tuple: Tuple, peer_end: u32, now: u64) {
        if self.most == 0 {
            return;
        }
        while self.order.len() >= self.most {
            self.forget_oldest();
        }
        let expires = now + self.lifetime;
        self.entries.insert(tuple, Entry { expires, peer_end });
        self.order.push_back((expires, tuple));
    }

    /// Decides on a segment.
    pub fn look(&mut self, segment: &TcpFrame) -> Answer {
        if self.entries.is_empty() {
            return Answer::Unknown;
        }
        let Some(entry) = self.entries.get(&segment.tuple) else {
            return Answer::Unknown;
        };
        if segment.flags.resets() {
            // RFC 1337: a reset must not end this state early.
            return Answer::Ignore;
        }
        if segment.flags.opens() && segment.seq.wrapping_sub(entry.peer_end) as i32 >= 0 {
            self.entries.remove(&segment.tuple);
            return Answer::Unknown;
        }
        if segment.end == segment.seq {
            // A late acknowledgement asks for nothing.
            return Answer::Ignore;
        }
        Answer::Acknowledge
    }

    /// When the oldest runs out.
    pub fn deadline(&self) -> Option<u64> {
        self.order.front().map(|&(expires, _)| expires)
    }

    /// Forgets what has run out.
    pub fn expire(&mut self, now: u64) {
        while self.deadline().is_some_and(|expires| expires <= now) {
            self.forget_oldest();
        }
    }

    fn forget_oldest(&mut self) {
        if let Some((expires, tuple)) = self.order.pop_front()
            // The name may have been used again since.
            && self.entries.get(&tuple).is_some_and(|entry| entry.expires == expires)
        {
            self.entries.remove(&tuple);
        }
    }
}
