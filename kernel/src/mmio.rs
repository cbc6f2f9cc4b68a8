//! Memory-mapped registers of a device.

use core::ops::Range;
use core::ptr::NonNull;

use uniperf_drivers::hw::Registers;
use volatile::VolatilePtr;

use crate::paging;

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
