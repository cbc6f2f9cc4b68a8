//! Memory-mapped registers of a device.

use core::ops::Range;
use core::ptr::NonNull;

use uniperf_drivers::hw::{Registers, Window};
use volatile::VolatilePtr;

use crate::{clock, paging};

/// A device's register window, mapped uncached.
#[derive(Clone, Copy, Debug)]
pub struct Mmio {
    base: NonNull<u8>,
    len: usize,
}

// SAFETY: the window is mapped for good and for every CPU; registers may be
// accessed from interrupt handlers.
unsafe impl Send for Mmio {}

impl Mmio {
    /// Maps the physical addresses of a BAR.
    ///
    /// # Errors
    ///
    /// [`paging::MapError`] where the page tables have no room.
    pub fn map(bar: Range<u64>) -> Result<Self, paging::MapError> {
        let len = (bar.end - bar.start) as usize;
        let base = paging::map_uncached(bar)?;
        Ok(Self { base, len })
    }

    #[inline]
    fn register(&self, offset: usize) -> VolatilePtr<'_, u32> {
        assert!(offset.is_multiple_of(4) && offset + 4 <= self.len);
        // SAFETY: the window is mapped, and the register lies in it, aligned.
        unsafe { VolatilePtr::new(self.base.byte_add(offset).cast()) }
    }
}

impl Registers for Mmio {
    #[inline]
    fn read32(&self, offset: usize) -> u32 {
        u32::from_le(self.register(offset).read())
    }

    // x86 makes stores visible in program order, also from write-back to
    // uncached memory (Intel SDM volume 3, 9.2.2); the volatile store keeps the
    // compiler from moving other volatile accesses past it, and the fence the
    // plain ones.
    #[inline]
    fn write32(&self, offset: usize, value: u32) {
        core::sync::atomic::compiler_fence(core::sync::atomic::Ordering::Release);
        self.register(offset).write(value.to_le());
    }
}

/// A device's memory that is written in bursts: mapped so that the CPU joins stores.
///
/// Reads are not cached; stores may linger until a fence (Intel SDM volume 3, 12.3.1).
#[derive(Clone, Copy, Debug)]
pub struct WriteCombined(Mmio);

impl WriteCombined {
    /// Maps the physical addresses of a BAR.
    ///
    /// # Errors
    ///
    /// [`paging::MapError`] where the page tables have no room.
    pub fn map(bar: Range<u64>) -> Result<Self, paging::MapError> {
        let len = (bar.end - bar.start) as usize;
        let base = paging::map_write_combining(bar, core::iter::empty())?;
        Ok(Self(Mmio { base, len }))
    }

    #[inline]
    fn word(&self, offset: usize) -> VolatilePtr<'_, u64> {
        let Mmio { base, len } = self.0;
        assert!(offset.is_multiple_of(8) && offset + 8 <= len);
        // SAFETY: the window is mapped, and the word lies in it, aligned.
        unsafe { VolatilePtr::new(base.byte_add(offset).cast()) }
    }
}

impl Registers for WriteCombined {
    #[inline]
    fn read32(&self, offset: usize) -> u32 {
        self.0.read32(offset)
    }

    #[inline]
    fn write32(&self, offset: usize, value: u32) {
        self.fence();
        self.0.write32(offset, value);
        self.fence();
    }
}

impl Window for WriteCombined {
    #[inline]
    fn copy_to(&self, offset: usize, words: &[u64]) {
        for (at, word) in (offset..).step_by(8).zip(words) {
            self.word(at).write(*word);
        }
    }

    fn copy_from(&self, offset: usize, words: &mut [u64]) {
        for (at, word) in (offset..).step_by(8).zip(words) {
            *word = self.word(at).read();
        }
    }

    #[inline]
    fn fence(&self) {
        // SAFETY: it orders stores, and does nothing else.
        unsafe { core::arch::x86_64::_mm_sfence() };
    }

    fn delay_us(&self, microseconds: u32) {
        clock::delay_us(microseconds);
    }
}
