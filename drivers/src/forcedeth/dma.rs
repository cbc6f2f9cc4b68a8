//! The rings of descriptors that the driver shares with the NIC.
//!
//! Everything `unsafe` of the driver is in this file and in `buffers.rs`.

use core::sync::atomic::{Ordering, fence};

use volatile::{VolatilePtr, map_field};

use super::ids::Format;
use crate::hw::{DmaRegion, OutOfDmaMemory, Platform};

/// A descriptor with a 32-bit address.
#[repr(C, align(8))]
#[derive(Clone, Copy)]
struct Narrow {
    buffer: u32,
    flags: u32,
}

/// A descriptor with a 64-bit address, of which the upper half comes first. In one that
/// the NIC has filled, the VLAN tag is in place of the lower half.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Wide {
    buffer_high: u32,
    buffer_low: u32,
    vlan: u32,
    flags: u32,
}

/// A ring of descriptors.
///
/// The NIC owns those whose top bit of flags is set, and may access them at any time, so
/// every access is volatile, and flags are one aligned word, which cannot be torn.
pub struct DescriptorRing {
    memory: DmaRegion,
    len: usize,
    wide: bool,
}

impl DescriptorRing {
    /// Takes memory for `len` descriptors of `format`.
    ///
    /// # Errors
    ///
    /// No DMA memory is left.
    pub fn new(
        platform: &mut impl Platform,
        format: Format,
        len: usize,
    ) -> Result<Self, OutOfDmaMemory> {
        let wide = format == Format::V3;
        let size = if wide {
            size_of::<Wide>()
        } else {
            size_of::<Narrow>()
        };
        Ok(Self {
            memory: platform.dma_alloc(len * size, 64)?,
            len,
            wide,
        })
    }

    /// How many descriptors there are.
    pub const fn len(&self) -> usize {
        self.len
    }

    /// Where the NIC finds the first.
    pub const fn bus(&self) -> u64 {
        self.memory.bus()
    }

    /// Where the memory ends.
    pub const fn bus_end(&self) -> u64 {
        self.memory.bus() + self.memory.len() as u64
    }

    /// The index after `index`.
    pub const fn after(&self, index: usize) -> usize {
        if index + 1 == self.len { 0 } else { index + 1 }
    }

    /// Writes a descriptor, its flags after everything that was stored before.
    #[inline]
    pub fn write(&mut self, index: usize, buffer: u64, flags: u32) {
        if self.wide {
            let descriptor = self.wide(index);
            map_field!(descriptor.buffer_high).write(((buffer >> 32) as u32).to_le());
            map_field!(descriptor.buffer_low).write((buffer as u32).to_le());
            map_field!(descriptor.vlan).write(0);
        } else {
            let descriptor = self.narrow(index);
            map_field!(descriptor.buffer).write((buffer as u32).to_le());
        }
        self.set_flags(index, flags);
    }

    /// Writes a descriptor's flags, after everything that was stored before.
    #[inline]
    pub fn set_flags(&mut self, index: usize, flags: u32) {
        // The NIC may take the descriptor as soon as it sees them. x86 keeps stores in
        // order; the fence keeps the compiler from changing it.
        fence(Ordering::Release);
        if self.wide {
            let descriptor = self.wide(index);
            map_field!(descriptor.flags).write(flags.to_le());
        } else {
            let descriptor = self.narrow(index);
            map_field!(descriptor.flags).write(flags.to_le());
        }
    }

    /// Reads a descriptor's flags.
    #[inline]
    pub fn flags(&self, index: usize) -> u32 {
        u32::from_le(if self.wide {
            let descriptor = self.wide(index);
            map_field!(descriptor.flags).read()
        } else {
            let descriptor = self.narrow(index);
            map_field!(descriptor.flags).read()
        })
    }

    fn narrow(&self, index: usize) -> VolatilePtr<'_, Narrow> {
        assert!(index < self.len && !self.wide);
        // SAFETY: the region holds `len` such descriptors and `index` is below that, so
        // the address lies in it; it is aligned, because the region is aligned to 64
        // bytes; any bytes are a valid `Narrow`; and no reference to this memory exists,
        // only such pointers.
        unsafe { VolatilePtr::new(self.memory.cpu().cast::<Narrow>().add(index)) }
    }

    fn wide(&self, index: usize) -> VolatilePtr<'_, Wide> {
        assert!(index < self.len && self.wide);
        // SAFETY: as in `narrow`, for `Wide`.
        unsafe { VolatilePtr::new(self.memory.cpu().cast::<Wide>().add(index)) }
    }
}
