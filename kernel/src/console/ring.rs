//! Bytes that wait: a queue that needs no heap.

/// A queue of at most `N` bytes.
#[derive(Debug)]
pub struct Ring<const N: usize> {
    bytes: [u8; N],
    read: usize,
    used: usize,
}

impl<const N: usize> Ring<N> {
    /// One in which nothing waits.
    pub const fn empty() -> Self {
        Self {
            bytes: [0; N],
            read: 0,
            used: 0,
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.used == 0
    }

    /// Appends a byte; returns false when there is no room for it.
    pub fn push(&mut self, byte: u8) -> bool {
        let room = self.used < N;
        if room {
            self.bytes[(self.read + self.used) % N] = byte;
            self.used += 1;
        }
        room
    }

    /// Takes the byte that has waited longest.
    pub fn pop(&mut self) -> Option<u8> {
        (self.used > 0).then(|| {
            let byte = self.bytes[self.read];
            self.read = (self.read + 1) % N;
            self.used -= 1;
            byte
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_out_in_their_order_and_none_is_overwritten() {
        let mut ring = Ring::<3>::empty();
        for round in 0..5 {
            for byte in 0..3 {
                assert!(ring.push(round + byte));
            }
            assert!(!ring.push(99));
            for byte in 0..3 {
                assert_eq!(ring.pop(), Some(round + byte));
            }
            assert_eq!(ring.pop(), None);
            ring.push(0);
            ring.pop();
        }
        assert!(ring.is_empty());
    }
}
