//! Fields at fixed places of a record.

/// Writes little-endian fields into a record.
pub struct Fields<'a>(pub &'a mut [u8]);

impl Fields<'_> {
    /// Bytes at offset `at`.
    pub fn bytes(&mut self, at: usize, value: &[u8]) {
        self.0[at..at + value.len()].copy_from_slice(value);
    }

    /// 8 bits.
    pub fn u8(&mut self, at: usize, value: u8) {
        self.bytes(at, &[value]);
    }

    /// 16 bits.
    pub fn u16(&mut self, at: usize, value: u16) {
        self.bytes(at, &value.to_le_bytes());
    }

    /// 32 bits.
    pub fn u32(&mut self, at: usize, value: u32) {
        self.bytes(at, &value.to_le_bytes());
    }

    /// 64 bits.
    pub fn u64(&mut self, at: usize, value: u64) {
        self.bytes(at, &value.to_le_bytes());
    }
}
