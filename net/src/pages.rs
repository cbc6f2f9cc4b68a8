//! The page store: the bytes of everything that the appliance makes up itself,
//! the "file" of a stream and the payload of a datagram.
//!
//! The file begins with the bytes 0xff 0 0 0. Word *n* behind that is the number *n*
//! in four digits of seven bits, the highest first. So the place of each byte can be
//! told, and where the file begins anew, from a capture or by whoever receives a stream
//! (docs/netperf.md). A buffer that is filled once can be sent from over and over:
//! nothing writes into it again.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes of the file that datagrams are sent from: no datagram is longer.
const DATAGRAM_FILE: usize = 1 << 16;

/// Where the file begins; no other byte of it is the same.
const BEGIN: u8 = 0xff;

/// Fills a buffer with the file's first bytes.
pub fn fill(buffer: &mut [u8]) {
    for (number, bytes) in (0..).zip(buffer.chunks_mut(4)) {
        bytes.copy_from_slice(&word(number)[..bytes.len()]);
    }
    if let Some(first) = buffer.first_mut() {
        *first = BEGIN;
    }
}

/// A number's digits of seven bits.
fn word(number: u32) -> [u8; 4] {
    let digit = |place: u32| (number & 0x7f << (7 * place)) << place;
    (digit(3) | digit(2) | digit(1) | digit(0)).to_be_bytes()
}

/// The file that datagrams are sent from.
pub struct Pages(Box<[u8]>);

impl Pages {
    /// Makes it.
    pub fn new() -> Self {
        let mut file = vec![0; DATAGRAM_FILE].into_boxed_slice();
        fill(&mut file);
        Self(file)
    }

    /// Its first `len` bytes, at most 64 KiB.
    pub fn first(&self, len: usize) -> &[u8] {
        &self.0[..len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_place_is_told_by_its_bytes() {
        let mut file = vec![0; 256 * 1024];
        fill(&mut file);
        assert_eq!(file[..8], [BEGIN, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(file[4 * 65535..], [0, 3, 127, 127]);
        assert!(file[1..].iter().all(|byte| *byte != BEGIN));
        let mut short = [7; 5];
        fill(&mut short);
        assert_eq!(short, [BEGIN, 0, 0, 0, 0]);
        fill(&mut []);
        assert_eq!(Pages::new().first(65_507)[65_504..], [0, 0, 127]);
    }
}
