//! Who may begin a connection while a flood of SYNs goes on.
//!
//! Handshakes have few places. When half of them are taken, only those get one whose
//! address is known to be real, as a handshake has ended there not long ago. Another
//! SYN is answered by a SYN that acknowledges something it did not send. A host that
//! is there resets that, with the number that we acknowledged (RFC 9293 section
//! 3.10.7.3), and sends its SYN again; Linux does so after a few milliseconds. The
//! number is a keyed hash of the connection's name: nothing need be remembered to
//! tell that the reset proves the address.
//!
//! SYN cookies would do without that detour, but need the initial sequence number
//! to be of our choice, which is smoltcp's.

use alloc::vec::Vec;
use core::hash::{Hash, Hasher};

use siphasher::sip::SipHasher13;
use smoltcp::wire::Ipv4Address;

use crate::frame::Tuple;

/// Addresses that are known to be real.
const MOST_KNOWN: usize = 64;

/// Remembers addresses, and asks others to prove theirs.
pub struct SynGuard {
    hasher: SipHasher13,
    /// The latest first.
    known: Vec<Ipv4Address>,
}

impl SynGuard {
    /// A guard that knows nobody; `secret` is the hash's key.
    pub fn new(secret: u64) -> Self {
        Self {
            hasher: SipHasher13::new_with_keys(secret, !secret.rotate_left(32)),
            known: Vec::with_capacity(MOST_KNOWN),
        }
    }

    /// Whether an address is known to be real.
    pub fn knows(&self, address: Ipv4Address) -> bool {
        self.known.contains(&address)
    }

    /// An address has proved to be real.
    pub fn meet(&mut self, address: Ipv4Address) {
        if self.known.first() == Some(&address) {
            return;
        }
        match self.known.iter().position(|known| *known == address) {
            Some(place) => _ = self.known.remove(place),
            None => self.known.truncate(MOST_KNOWN - 1),
        }
        self.known.insert(0, address);
    }

    /// The number that only a host can know that what is sent to the connection's
    /// peer arrives at.
    pub fn proof(&self, name: &Tuple) -> u32 {
        let mut hasher = self.hasher;
        name.hash(&mut hasher);
        hasher.finish() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> Ipv4Address {
        Ipv4Address::from(0x0a00_0000 + number as u32)
    }

    #[test]
    fn the_oldest_is_forgotten() {
        let mut guard = SynGuard::new(1);
        for number in 0..MOST_KNOWN {
            guard.meet(address(number));
        }
        assert!(guard.knows(address(0)));
        guard.meet(address(0));
        guard.meet(address(MOST_KNOWN));
        assert!(guard.knows(address(0)) && guard.knows(address(MOST_KNOWN)));
        assert!(!guard.knows(address(1)) && guard.knows(address(2)));
        assert_eq!(guard.known.len(), MOST_KNOWN);
    }

    #[test]
    fn proofs_depend_on_the_name_and_the_secret() {
        let name = Tuple {
            local: address(1),
            remote: address(2),
            local_port: 3,
            remote_port: 4,
        };
        let other = Tuple {
            remote_port: 5,
            ..name
        };
        let guard = SynGuard::new(1);
        assert_eq!(guard.proof(&name), guard.proof(&name));
        assert_ne!(guard.proof(&name), guard.proof(&other));
        assert_ne!(guard.proof(&name), SynGuard::new(2).proof(&name));
    }
}
