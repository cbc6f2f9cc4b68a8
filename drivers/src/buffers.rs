//! Buffers that a NIC fills or sends from.

use core::ptr::NonNull;

use crate::hw::{DmaRegion, OutOfDmaMemory, Platform};

/// Equal buffers in one piece of DMA memory.
///
/// A buffer belongs either to the NIC or to the driver. The rings keep that
/// account; a buffer's bytes are asked for only while it is the driver's.
pub struct Buffers {
    memory: DmaRegion,
    size: usize,
    count: usize,
}

impl Buffers {
    /// Takes memory for `count` buffers of `size` bytes, aligned to `align`.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        platform: &mut impl Platform,
        count: usize,
        size: usize,
        align: usize,
    ) -> Result<Self, OutOfDmaMemory> {
        let memory = platform.dma_alloc(count * size, align)?;
        Ok(Self {
            memory,
            size,
            count,
        })
    }

    /// Bytes in a buffer.
    pub const fn size(&self) -> usize {
        self.size
    }

    /// How many buffers there are.
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Where the NIC finds buffer `index`.
    pub const fn bus(&self, index: usize) -> u64 {
        self.memory.bus() + (index * self.size) as u64
    }

    /// The first `len` bytes of buffer `index`, which the NIC has handed back.
    pub fn bytes(&self, index: usize, len: usize) -> &[u8] {
        let start = self.start(index, len);
        // SAFETY: `start` checked that the bytes lie in the region, which is
        // initialised (it came zeroed) and lives on; the buffer is not the
        // NIC's, so nothing writes to it before the driver hands it back, for
        // which it needs `&mut` to the ring that holds this borrow.
        unsafe { core::slice::from_raw_parts(start.as_ptr(), len) }
    }

    /// The same to be written.
    pub fn bytes_mut(&mut self, index: usize, len: usize) -> &mut [u8] {
        let start = self.start(index, len);
        // SAFETY: as in `bytes`; and `&mut self` makes this the only reference
        // into the region.
        unsafe { core::slice::from_raw_parts_mut(start.as_ptr(), len) }
    }

    fn start(&self, index: usize, len: usize) -> NonNull<u8> {
        assert!(index < self.count && len <= self.size);
        // SAFETY: the region holds `count` buffers of `size` bytes, so the
        // offset of buffer `index` lies inside it.
        unsafe { self.memory.cpu().add(index * self.size) }
    }
}
