//! Page tables: the first 4 GiB and every device BAR are mapped one to one.

use core::ops::Range;
use core::ptr::NonNull;
use core::sync::atomic::{AtomicUsize, Ordering};

use x86_64::registers::control::Cr3;
use x86_64::registers::model_specific::Msr;
use x86_64::structures::paging::mapper::{MapToError, MappedFrame, TranslateResult};
use x86_64::structures::paging::{
    FrameAllocator, Mapper, OffsetPageTable, Page, PageTable, PageTableFlags, PhysFrame, Size2MiB,
    Size4KiB, Translate,
};
use x86_64::{PhysAddr, VirtAddr};

use crate::memory::{LARGE_PAGE, Region};

/// Where Hermit's own virtual addresses begin; nothing may be mapped one to one
/// from here on.
const ONE_TO_ONE_LIMIT: u64 = 1 << 46;
const MAPPED_AT_BOOT: u64 = 4 << 30;
const UNCACHED: PageTableFlags = PageTableFlags::NO_CACHE.union(PageTableFlags::WRITE_THROUGH);
/// Once [`enable_write_combining`] was called.
const WRITE_COMBINING: PageTableFlags = PageTableFlags::WRITE_THROUGH;

/// Page-table pages for BARs above 4 GiB: two a BAR at the most.
const SPARE_TABLES: usize = 16;
#[repr(C, align(4096))]
struct Tables([PageTable; SPARE_TABLES]);
static mut TABLES: Tables = Tables([const { PageTable::new() }; SPARE_TABLES]);
static TABLES_USED: AtomicUsize = AtomicUsize::new(0);

/// A BAR cannot be mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapError {
    /// It lies above the addresses that are mapped one to one.
    TooHigh,
    /// The page tables set aside for BARs are used up.
    OutOfTables,
}

impl core::fmt::Display for MapError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Self::TooHigh => "its registers lie above 64 TiB",
            Self::OutOfTables => "out of page tables for device registers",
        })
    }
}

struct Spare;

// SAFETY: each page of the array is given out once, and the image that holds it
// is mapped one to one, so its address is that of a physical frame.
unsafe impl FrameAllocator<Size4KiB> for Spare {
    fn allocate_frame(&mut self) -> Option<PhysFrame> {
        let used = TABLES_USED.fetch_add(1, Ordering::Relaxed);
        (used < SPARE_TABLES).then(|| {
            let base = (&raw const TABLES) as u64;
            PhysFrame::containing_address(PhysAddr::new(base + used as u64 * 4096))
        })
    }
}

fn page_tables() -> OffsetPageTable<'static> {
    let root = Cr3::read().0.start_address().as_u64() as *mut PageTable;
    // SAFETY: all page tables lie in memory that is mapped one to one; they are
    // changed only here and by Hermit, on one CPU, and never at the same time.
    unsafe { OffsetPageTable::new(&mut *root, VirtAddr::new(0)) }
}

/// Turns caching off for whatever below 4 GiB is not in `ram`: device registers, the
/// BIOS.
///
/// # Safety
///
/// The first 4 GiB must be mapped one to one by 2 MiB pages.
pub unsafe fn uncache_holes(ram: impl Iterator<Item = Region> + Clone) {
    let mut tables = page_tables();
    let mut start = LARGE_PAGE;
    while start < MAPPED_AT_BOOT {
        let end = start + LARGE_PAGE;
        if !ram
            .clone()
            .any(|region| region.start < end && start < region.end)
        {
            set_caching(&mut tables, start, UNCACHED);
        }
        start = end;
    }
    x86_64::instructions::tlb::flush_all();
}

fn set_caching(tables: &mut OffsetPageTable<'_>, address: u64, caching: PageTableFlags) {
    let page = Page::<Size2MiB>::containing_address(VirtAddr::new(address));
    let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | caching;
    // SAFETY: only the memory type changes, and no RAM is in the page.
    if let Ok(flush) = unsafe { tables.update_flags(page, flags) } {
        flush.ignore();
    }
}

/// Maps a BAR one to one and uncached, and returns its first byte.
///
/// # Errors
///
/// See [`MapError`].
pub fn map_uncached(bar: Region) -> Result<NonNull<u8>, MapError> {
    map(bar, UNCACHED, |_| false)
}

/// Maps memory that Hermit does not know of one to one, and returns its first byte.
/// Below 4 GiB all is mapped.
///
/// # Errors
///
/// See [`MapError`].
pub fn map_memory(region: Region) -> Result<NonNull<u8>, MapError> {
    map(region, PageTableFlags::empty(), |_| true)
}

/// Maps video memory one to one so that the CPU sends what is written in bursts, and
/// returns its first byte. A large page that has `usable` RAM next to it stays as it
/// is.
///
/// # Errors
///
/// See [`MapError`].
pub fn map_write_combining(
    video: Region,
    usable: impl Iterator<Item = Region> + Clone,
) -> Result<NonNull<u8>, MapError> {
    enable_write_combining();
    map(video, WRITE_COMBINING, |page| {
        let mut usable = usable.clone();
        usable.any(|ram| ram.start < page.end && page.start < ram.end)
    })
}

/// Gives the page-table flags of [`WRITE_COMBINING`] that meaning, instead of
/// write-through, which nobody uses (Intel SDM volume 3, 12.12.2; every 64-bit CPU
/// has the register).
fn enable_write_combining() {
    const PAGE_ATTRIBUTES: Msr = Msr::new(0x277);
    const WRITE_COMBINING_TYPE: u64 = 0x01;
    let mut register = PAGE_ATTRIBUTES;
    // SAFETY: entry 1 alone changes, and no page uses it yet.
    unsafe {
        let types = register.read();
        register.write(types & !(0xff << 8) | WRITE_COMBINING_TYPE << 8);
    }
}

fn map(
    region: Region,
    caching: PageTableFlags,
    stays: impl Fn(Region) -> bool,
) -> Result<NonNull<u8>, MapError> {
    if region.end > ONE_TO_ONE_LIMIT {
        return Err(MapError::TooHigh);
    }
    let mut tables = page_tables();
    let mut start = region.start & !(LARGE_PAGE - 1);
    while start < region.end {
        if !(start < MAPPED_AT_BOOT && stays(start..start + LARGE_PAGE)) {
            map_large_page(&mut tables, start, caching)?;
        }
        start += LARGE_PAGE;
    }
    x86_64::instructions::tlb::flush_all();
    NonNull::new(region.start as *mut u8).ok_or(MapError::TooHigh)
}

fn map_large_page(
    tables: &mut OffsetPageTable<'_>,
    address: u64,
    caching: PageTableFlags,
) -> Result<(), MapError> {
    match tables.translate(VirtAddr::new(address)) {
        TranslateResult::Mapped {
            frame: MappedFrame::Size2MiB(_),
            flags,
            ..
        } => {
            if flags & UNCACHED != caching {
                set_caching(tables, address, caching);
            }
            Ok(())
        }
        TranslateResult::Mapped { .. } => Ok(()),
        _ => {
            let frame = PhysFrame::<Size2MiB>::containing_address(PhysAddr::new(address));
            let flags = PageTableFlags::PRESENT | PageTableFlags::WRITABLE | caching;
            // SAFETY: nothing was mapped there, and the frame is a device's.
            match unsafe { tables.identity_map(frame, flags, &mut Spare) } {
                Ok(flush) => {
                    flush.ignore();
                    Ok(())
                }
                Err(MapToError::FrameAllocationFailed) => Err(MapError::OutOfTables),
                Err(_) => Ok(()),
            }
        }
    }
}

/// Whether `range` of virtual addresses is mapped, at its first and last byte.
pub fn is_mapped(range: Range<u64>) -> bool {
    let tables = page_tables();
    [range.start, range.end - 1].into_iter().all(|address| {
        VirtAddr::try_new(address).is_ok_and(|address| tables.translate_addr(address).is_some())
    })
}
