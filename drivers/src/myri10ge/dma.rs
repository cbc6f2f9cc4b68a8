//! Words of memory that the card writes.
//!
//! Everything `unsafe` of the driver is in this file and in `buffers.rs`.

use volatile::VolatilePtr;

use crate::hw::{DmaRegion, OutOfDmaMemory, Platform};

/// Memory of 32-bit big-endian words that the card and the driver share. The card may
/// write them at any time, so every access is volatile.
pub struct Words {
    memory: DmaRegion,
}

// SAFETY: each access is a volatile one of a whole aligned word, or of a byte, which any
// number of threads may make at the same time as the card makes its own; what they find
// is one or the other's value, as with registers.
unsafe impl Sync for Words {}

impl Words {
    /// Takes memory for `len` bytes, a multiple of 4, aligned to `align` bytes.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        platform: &mut impl Platform,
        len: usize,
        align: usize,
    ) -> Result<Self, OutOfDmaMemory> {
        let memory = platform.dma_alloc(len, align.max(4))?;
        Ok(Self { memory })
    }

    /// Where the card finds the first.
    pub const fn bus(&self) -> u64 {
        self.memory.bus()
    }

    /// Bytes.
    pub const fn len(&self) -> usize {
        self.memory.len()
    }

    /// The word at byte `at`.
    #[inline]
    pub fn read(&self, at: usize) -> u32 {
        u32::from_be(self.word(at).read())
    }

    /// Writes the word at byte `at`.
    #[inline]
    pub fn write(&self, at: usize, value: u32) {
        self.word(at).write(value.to_be());
    }

    /// The byte at `at`.
    #[inline]
    pub fn read_byte(&self, at: usize) -> u8 {
        self.byte(at).read()
    }

    /// Writes the byte at `at`.
    #[inline]
    pub fn write_byte(&self, at: usize, value: u8) {
        self.byte(at).write(value);
    }

    fn word(&self, at: usize) -> VolatilePtr<'_, u32> {
        assert!(at.is_multiple_of(4) && at + 4 <= self.memory.len());
        // SAFETY: the word lies in the region, which is aligned to 4 bytes at least; any
        // bytes are a number; and no reference to this memory exists, only such pointers.
        unsafe { VolatilePtr::new(self.memory.cpu().add(at).cast()) }
    }

    fn byte(&self, at: usize) -> VolatilePtr<'_, u8> {
        assert!(at < self.memory.len());
        // SAFETY: as in `word`.
        unsafe { VolatilePtr::new(self.memory.cpu().add(at)) }
    }
}
