//! The hash of a connection's name.
//!
//! A multiplication of two mixed words, folded (as in wyhash): a handful of
//! instructions. Its secret differs from boot to boot, so that a peer cannot
//! choose ports that all fall together.

use core::hash::{BuildHasher, Hasher};

/// Makes hashers with a secret.
#[derive(Clone, Copy, Debug)]
pub struct FlowHash {
    secret: u64,
}

impl FlowHash {
    /// A hash whose secret comes from `seed`.
    pub fn new(seed: u64) -> Self {
        Self {
            secret: fold(seed ^ 0x9e37_79b9_7f4a_7c15, 0xbf58_476d_1ce4_e5b9) | 1,
        }
    }
}

impl BuildHasher for FlowHash {
    type Hasher = FlowHasher;

    fn build_hasher(&self) -> FlowHasher {
        FlowHasher { state: self.secret }
    }
}

/// A running hash.
pub struct FlowHasher {
    state: u64,
}

impl Hasher for FlowHasher {
    fn finish(&self) -> u64 {
        self.state
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.state = fold(
            self.state ^ value,
            0x94d0_49bb_1331_11eb ^ self.state.rotate_left(32),
        );
    }
}

fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
