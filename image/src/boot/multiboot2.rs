//! Multiboot2 (GNU Multiboot2 specification, version 2.0): GRUB's `multiboot2`.
//!
//! The header that GRUB looks for is the image builder's work; it has the image
//! loaded anywhere below 4 GiB, and entered in 32-bit mode also under UEFI.

use core::cell::UnsafeCell;
use core::num::NonZeroU64;

use multiboot2::{
    BootInformation, BootInformationHeader, EFIMemoryAreaType, FramebufferField, FramebufferType,
    MaybeDynSized, TagHeader,
};
use uniperf_kernel::handover::{Channel, Handover, Pixels, Screen};
use uniperf_kernel::memory::Kind;
use uniperf_kernel::{boot, clock, power};

const UEFI_PAGE: u64 = 4096;

/// The loader gives a copy of the ACPI root pointer in its own record, which does
/// not last; the tables that it leads to do.
struct Rsdp(UnsafeCell<[u8; 36]>);

// SAFETY: written once, before anything else runs.
unsafe impl Sync for Rsdp {}

static RSDP: Rsdp = Rsdp(UnsafeCell::new([0; 36]));

/// From the entry code; `info` is what the loader put into EBX.
pub(super) extern "C" fn start(info: *const BootInformationHeader) -> ! {
    let entry_tsc = clock::tsc();
    // SAFETY: this is the boot processor's first function in long mode, entered
    // once, with the image's page tables; `info` is the loader's.
    unsafe {
        boot::hand_over(|handover| match BootInformation::load(info) {
            Ok(info) => hand_over(&info, handover),
            Err(error) => power::stop(format_args!("the multiboot2 information: {error}")),
        });
        boot::start(super::image(), entry_tsc)
    }
}

fn hand_over(info: &BootInformation<'_>, handover: &mut Handover) {
    handover.protocol = "multiboot2";
    if let Some(line) = info.command_line_tag().and_then(|tag| tag.cmdline().ok()) {
        handover.command_line.extend(line.bytes());
    }
    if let Some(map) = info.memory_map_tag() {
        handover.take_memory(map.memory_areas().iter().map(|area| {
            let end = area.start_address().saturating_add(area.size());
            let kind = Kind::of_e820(area.typ().into());
            (area.start_address()..end, kind)
        }));
    } else if let Some(map) = info.efi_memory_map_tag() {
        handover.take_memory(map.memory_areas().map(|area| {
            let end = area
                .phys_start
                .saturating_add(area.page_count.saturating_mul(UEFI_PAGE));
            (area.phys_start..end, kind(area.ty))
        }));
    }
    handover.firmware = info
        .module_tags()
        .next()
        .map(|module| u64::from(module.start_address())..u64::from(module.end_address()));
    handover.rsdp = rsdp(info);
    handover.screen = info.framebuffer_tag().and_then(|tag| {
        let tag = tag.ok()?;
        match tag.buffer_type().ok()? {
            FramebufferType::Text => Some(Screen::Text {
                address: tag.address(),
                columns: u16::try_from(tag.width()).ok()?,
                rows: u16::try_from(tag.height()).ok()?,
            }),
            FramebufferType::RGB { red, green, blue } => Some(Screen::Pixels(Pixels {
                address: tag.address(),
                width: tag.width(),
                height: tag.height(),
                pitch: tag.pitch(),
                bits: tag.bpp(),
                red: channel(red),
                green: channel(green),
                blue: channel(blue),
            })),
            FramebufferType::Indexed { .. } => None,
        }
    });
}

/// What memory is for once boot services have ended, as GRUB has seen to (UEFI 2.10,
/// table 7.10).
fn kind(kind: EFIMemoryAreaType) -> Kind {
    match kind {
        EFIMemoryAreaType::LOADER_CODE
        | EFIMemoryAreaType::LOADER_DATA
        | EFIMemoryAreaType::BOOT_SERVICES_CODE
        | EFIMemoryAreaType::BOOT_SERVICES_DATA
        | EFIMemoryAreaType::CONVENTIONAL => Kind::Usable,
        EFIMemoryAreaType::ACPI_RECLAIM | EFIMemoryAreaType::ACPI_NON_VOLATILE => Kind::Tables,
        _ => Kind::Other,
    }
}

fn channel(field: FramebufferField) -> Channel {
    Channel {
        shift: field.position,
        bits: field.size,
    }
}

fn rsdp(info: &BootInformation<'_>) -> Option<NonZeroU64> {
    let tag = match (info.rsdp_v2_tag(), info.rsdp_v1_tag()) {
        (Some(tag), _) => tag.as_bytes(),
        (None, Some(tag)) => tag.as_bytes(),
        (None, None) => return None,
    };
    let pointer = tag.get(size_of::<TagHeader>()..)?;
    // SAFETY: see `Sync`.
    let copy = unsafe { &mut *RSDP.0.get() };
    for (place, byte) in copy.iter_mut().zip(pointer) {
        *place = *byte;
    }
    NonZeroU64::new(copy.as_ptr() as u64)
}
