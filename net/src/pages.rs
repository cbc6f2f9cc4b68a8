//! The page store: the bytes of everything that the appliance makes up itself,
//! the "file" of a stream and the payload of a datagram.
//!
//! Word *n* of the file, four bytes in network order, is the number *n*, so that
//! a capture shows where in the file a byte is from. A buffer that is filled once
//! can be sent from over and over: nothing writes into it again.

use alloc::boxed::Box;
use alloc::vec;

/// Bytes of the file that datagrams are sent from: no datagram is longer.
const DATAGRAM_FILE: usize = 1 << 16;

/// Fills a buffer with the file's first bytes.
pub fn fill(buffer: &mut [u8]) {
    for (number, word) in (0u32..).zip(buffer.chunks_mut(4)) {
        word.copy_from_slice(&number.to_be_bytes()[..word.len()]);
    }
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
    fn words_are_their_numbers() {
        let mut buffer = [0xff; 11];
        fill(&mut buffer);
        assert_eq!(buffer, [0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(Pages::new().first(65_507)[65_504..], [0, 0, 0x3f]);
    }
}
