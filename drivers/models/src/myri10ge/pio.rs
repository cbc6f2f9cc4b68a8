//! What drivers write into the card with stores of their own, rather than leave for it in
//! memory.

/// A block that counts once all of it was written.
#[derive(Clone, Debug)]
pub(super) struct Block {
    bytes: [u8; Self::LEN],
    /// Bytes written since it last counted, a bit for each.
    written: u64,
}

/// What a write into a block came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// More is to come.
    Part,
    /// All of it is there.
    Whole([u8; Block::LEN]),
    /// Its end was written, and not all before.
    Torn,
}

impl Default for Block {
    fn default() -> Self {
        Self {
            bytes: [0; Self::LEN],
            written: 0,
        }
    }
}

impl Block {
    /// Its length in bytes: a store buffer's.
    pub(super) const LEN: usize = 64;

    /// Takes what is written at byte `at`.
    pub(super) fn write(&mut self, at: usize, data: &[u8]) -> Written {
        for (at, byte) in (at..Self::LEN).zip(data) {
            self.bytes[at] = *byte;
            self.written |= 1 << at;
        }
        if at + data.len() < Self::LEN {
            return Written::Part;
        }
        match std::mem::take(&mut self.written) {
            u64::MAX => Written::Whole(self.bytes),
            _ => Written::Torn,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_counts_once_it_is_whole_and_never_torn() {
        let mut block = Block::default();
        for at in (0..56).step_by(8) {
            assert_eq!(block.write(at, &[at as u8; 8]), Written::Part);
        }
        let Written::Whole(bytes) = block.write(56, &[56; 8]) else {
            panic!("it is whole")
        };
        assert_eq!((bytes[0], bytes[63]), (0, 56));
        block.write(0, &[0; 8]);
        assert_eq!(block.write(56, &[0; 8]), Written::Torn);
        assert_eq!(block.write(60, &[0; 8]), Written::Torn);
    }
}
