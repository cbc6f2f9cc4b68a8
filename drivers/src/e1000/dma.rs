//! The rings of descriptors that the driver shares with the NIC.
//!
//! Everything `unsafe` of the driver is in this file and in `buffers.rs`.

use volatile::{VolatilePtr, map_field};

use crate::hw::{DmaRegion, OutOfDmaMemory, Platform};

/// One descriptor of either ring (SDM 3.2.3 and 3.3.3).
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Descriptor {
    low: u64,
    high: u64,
}

/// Bytes in a descriptor.
pub const DESCRIPTOR: usize = size_of::<Descriptor>();

/// A ring of descriptors.
///
/// The NIC may access any of them at any time, so every access is volatile, and
/// each half is one aligned 8-byte access: on x86 it cannot be torn.
pub struct DescriptorRing {
    memory: DmaRegion,
    len: usize,
}

impl DescriptorRing {
    /// Takes memory for `len` descriptors.
    ///
    /// The ring is aligned to its size, up to 64 KB, so that no descriptor write
    /// of the first 82545 and 82546 crosses a 64 KB line, which they get wrong.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(platform: &mut impl Platform, len: usize) -> Result<Self, OutOfDmaMemory> {
        let bytes = len * DESCRIPTOR;
        let memory = platform.dma_alloc(bytes, bytes.next_power_of_two().min(1 << 16))?;
        Ok(Self { memory, len })
    }

    /// How many descriptors there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Where the NIC finds the first.
    pub const fn bus(&self) -> u64 {
        self.memory.bus()
    }

    /// Length in bytes.
    pub const fn bytes(&self) -> usize {
        self.len * DESCRIPTOR
    }

    /// The index after `index`.
    pub const fn after(&self, index: usize) -> usize {
        if index + 1 == self.len { 0 } else { index + 1 }
    }

    /// The index before `index`.
    pub const fn before(&self, index: usize) -> usize {
        if index == 0 { self.len - 1 } else { index - 1 }
    }

    /// How many steps lead from `from` to `to`.
    pub const fn distance(&self, from: usize, to: usize) -> usize {
        (to + self.len - from) % self.len
    }

    /// Writes a whole descriptor.
    pub fn write(&mut self, index: usize, low: u64, high: u64) {
        let descriptor = self.at(index);
        map_field!(descriptor.low).write(low.to_le());
        map_field!(descriptor.high).write(high.to_le());
    }

    /// Reads the upper half, where the NIC reports.
    pub fn high(&self, index: usize) -> u64 {
        let descriptor = self.at(index);
        u64::from_le(map_field!(descriptor.high).read())
    }

    fn at(&self, index: usize) -> VolatilePtr<'_, Descriptor> {
        assert!(index < self.len);
        // SAFETY: the region holds `len` descriptors and `index` is below that,
        // so the address lies in it; it is aligned, because the region is
        // aligned to 16 bytes at least; any bytes are a valid `Descriptor`; and
        // no reference to this memory exists, only such pointers.
        unsafe { VolatilePtr::new(self.memory.cpu().cast::<Descriptor>().add(index)) }
    }
}
