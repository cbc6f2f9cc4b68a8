//! Memory that NICs reach: set aside at boot, mapped one to one by 2 MiB pages.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicU64, Ordering};

use uniperf_drivers::hw::{DmaRegion, OutOfDmaMemory};

static NEXT: AtomicU64 = AtomicU64::new(0);
static END: AtomicU64 = AtomicU64::new(0);

/// Hands over the physical memory that [`alloc`] gives out.
pub(crate) fn give(region: Range<u64>) {
    NEXT.store(region.start, Ordering::Relaxed);
    END.store(region.end, Ordering::Relaxed);
}

/// Takes `len` bytes of zeroed, physically contiguous memory, aligned to `align`
/// bytes (a power of two). It is never given back.
///
/// # Errors
///
/// [`OutOfDmaMemory`] when not that much is left.
pub fn alloc(len: usize, align: usize) -> Result<DmaRegion, OutOfDmaMemory> {
    let align = align as u64;
    let mut start = 0;
    NEXT.try_update(Ordering::Relaxed, Ordering::Relaxed, |next| {
        start = next.checked_add(align - 1)? & !(align - 1);
        let end = start.checked_add(len as u64)?;
        (end <= END.load(Ordering::Relaxed)).then_some(end)
    })
    .map_err(|_| OutOfDmaMemory { requested: len })?;
    let cpu = NonNull::new(start as *mut u8).ok_or(OutOfDmaMemory { requested: len })?;
    // SAFETY: the region is RAM, mapped one to one, that was kept from Hermit, and
    // each byte of it is given out once.
    unsafe {
        cpu.write_bytes(0, len);
        Ok(DmaRegion::new(cpu, start, len))
    }
}

/// Bytes not yet given out.
pub fn free() -> u64 {
    END.load(Ordering::Relaxed) - NEXT.load(Ordering::Relaxed)
}
