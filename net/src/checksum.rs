//! The Internet checksum (RFC 1071), sixteen bytes at a time.
//!
//! A one's complement sum is the same in any byte order as long as all its
//! words are read in one, so words are read as the machine has them.

use core::slice::ChunksExact;

/// A running sum.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// Adds bytes; all but the last piece must have an even length.
    pub fn add(self, bytes: &[u8]) -> Self {
        let mut blocks = bytes.chunks_exact(BLOCK);
        let mut sum = self.0;
        if blocks.len() > 0 {
            sum = add_with_carry(sum, add_blocks(&mut blocks));
        }
        let mut words = blocks.remainder().chunks_exact(8);
        for word in &mut words {
            let word = u64::from_ne_bytes(word.try_into().expect("eight bytes"));
            sum = add_with_carry(sum, word);
        }
        // A copy of a few bytes would be a call.
        let mut rest = words.remainder();
        if let Some((word, after)) = rest.split_first_chunk() {
            sum = add_with_carry(sum, u64::from(u32::from_ne_bytes(*word)));
            rest = after;
        }
        if let Some((word, after)) = rest.split_first_chunk() {
            sum = add_with_carry(sum, u64::from(u16::from_ne_bytes(*word)));
            rest = after;
        }
        if let [last] = *rest {
            sum = add_with_carry(sum, u64::from(u16::from_ne_bytes([last, 0])));
        }
        Self(sum)
    }

    /// Adds a 16-bit number in network byte order.
    pub fn add_u16(self, value: u16) -> Self {
        Self(add_with_carry(self.0, u64::from(value.to_be())))
    }

    /// The sum in 16 bits, as it stands in memory.
    fn fold(self) -> u16 {
        let sum = (self.0 & 0xffff_ffff) + (self.0 >> 32);
        let sum = (sum & 0xffff) + ((sum >> 16) & 0xffff) + (sum >> 32);
        let sum = (sum & 0xffff) + (sum >> 16);
        ((sum & 0xffff) + (sum >> 16)) as u16
    }

    /// Whether the sum, taken over data and its checksum, says that both are
    /// as they were sent.
    pub fn is_good(self) -> bool {
        self.fold() == 0xffff
    }

    /// The sum itself, first byte first: what a NIC that completes a checksum
    /// wants to find in its place.
    pub fn sum(self) -> [u8; 2] {
        self.fold().to_ne_bytes()
    }

    /// The checksum as it goes into a header, first byte first.
    pub fn checksum(self) -> [u8; 2] {
        (!self.fold()).to_ne_bytes()
    }
}

/// Bytes that are added between two looks at whether there are more.
const BLOCK: usize = 64;

/// The sum of whole blocks. In words of 16 bytes it takes three additions for
/// each, one of them for the carry: where the NIC gives no verdict, half of what a
/// received stream costs is this loop.
fn add_blocks(blocks: &mut ChunksExact<'_, u8>) -> u64 {
    let mut sum = 0u128;
    let mut carries = 0;
    for block in blocks {
        for word in block.chunks_exact(16) {
            let word = u128::from_ne_bytes(word.try_into().expect("sixteen bytes"));
            let (next, carry) = sum.overflowing_add(word);
            sum = next;
            carries += u64::from(carry);
        }
    }
    let halves = add_with_carry(sum as u64, (sum >> 64) as u64);
    add_with_carry(halves, carries)
}

fn add_with_carry(sum: u64, word: u64) -> u64 {
    let (sum, carry) = sum.overflowing_add(word);
    sum + u64::from(carry)
}

/// The sum of a TCP or UDP pseudo-header (RFC 9293 section 3.1): the addresses
/// as they stand one after the other in the IPv4 header, the protocol, and the
/// length of what follows the IP header.
pub fn pseudo_header(addresses: &[u8], protocol: u8, length: usize) -> Sum {
    Sum::default()
        .add(addresses)
        .add_u16(u16::from(protocol))
        .add_u16(length as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// RFC 1071 section 3's example.
    #[test]
    fn rfc_example() {
        let data = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        let sum = Sum::default().add(&data);
        assert_eq!(sum.checksum(), (!0xddf2u16).to_be_bytes());
        assert!(sum.add(&sum.checksum()).is_good());
    }

    proptest! {
        #[test]
        fn agrees_with_smoltcp(data in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let ours = u16::from_be_bytes(Sum::default().add(&data).checksum());
            let theirs = !smoltcp::wire::checksum::data(&data);
            // Both forms of zero are the same number.
            prop_assert!(ours == theirs || (ours ^ theirs) == 0xffff && (ours == 0 || theirs == 0));
        }
    }
}
