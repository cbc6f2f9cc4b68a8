//! A file loaded next to the image: what a boot loader offers as Linux's initrd, or
//! what `initrd=PATH` names on the volume that the image came from.

use core::ptr;

use uefi::boot::{self as services, AllocateType, MemoryType};
use uefi::proto::device_path::{DevicePath, FfiDevicePath};
use uefi::proto::loaded_image::LoadedImage;
use uefi::proto::media::file::{File, FileAttribute, FileMode};
use uefi::proto::media::fs::SimpleFileSystem;
use uefi::proto::unsafe_protocol;
use uefi::{CStr16, Handle, Status};
use uefi_raw::protocol::media::LoadFile2Protocol;
use uniperf_kernel::console;
use uniperf_kernel::memory::Region;

const PAGE: usize = 4096;
/// The longest path that `initrd=` may have.
const PATH_LEN: usize = 256;

/// A vendor's media path with the number that Linux gave to initrds, and its end
/// (UEFI 2.10, 10.3.5.3; Linux's include/linux/efi.h).
const INITRD_PATH: [u8; 24] = [
    4, 3, 20, 0, 0x27, 0xe4, 0x68, 0x55, 0xfc, 0x68, 0x3d, 0x4f, 0xac, 0x74, 0xca, 0x55, 0x52,
    0x31, 0xcc, 0x68, 0x7f, 0xff, 4, 0,
];

#[repr(transparent)]
#[unsafe_protocol(LoadFile2Protocol::GUID)]
struct LoadFile2(LoadFile2Protocol);

/// Loads it, where there is one, and returns where it lies.
pub(super) fn load(image: Handle, command_line: &[u8]) -> Option<Region> {
    from_loader().or_else(|| {
        let path = path(command_line)?;
        let file = from_volume(image, path);
        if file.is_none() {
            console::print(format_args!(
                "uniperf: initrd= names no file that can be read\n"
            ));
        }
        file
    })
}

fn from_loader() -> Option<Region> {
    // SAFETY: the bytes are a whole device path.
    let mut path =
        unsafe { DevicePath::from_ffi_ptr(INITRD_PATH.as_ptr().cast::<FfiDevicePath>()) };
    let handle = services::locate_device_path::<LoadFile2>(&mut path).ok()?;
    let protocol = super::describe::look_at::<LoadFile2>(handle)?;
    let this = ptr::from_ref(&protocol.0).cast_mut();
    let load = |len: &mut usize, place: *mut u8| {
        // SAFETY: the protocol's own function, with a path that ends, and as much
        // room as `len` says.
        unsafe {
            ((*this).load_file)(
                this,
                path.as_ffi_ptr().cast(),
                false.into(),
                len,
                place.cast(),
            )
        }
    };
    let mut len = 0;
    if load(&mut len, ptr::null_mut()) != Status::BUFFER_TOO_SMALL {
        return None;
    }
    let region = allocate(len)?;
    (load(&mut len, region.start as *mut u8) == Status::SUCCESS).then_some(region)
}

fn from_volume(image: Handle, path: &[u8]) -> Option<Region> {
    let device = super::describe::look_at::<LoadedImage>(image)?.device()?;
    let mut volume = super::describe::look_at::<SimpleFileSystem>(device)?;
    let mut text = [0_u16; PATH_LEN];
    let units = path.iter().map(|byte| match byte {
        b'/' => u16::from(b'\\'),
        byte => u16::from(*byte),
    });
    for (place, unit) in text[..PATH_LEN - 1].iter_mut().zip(units) {
        *place = unit;
    }
    let name = CStr16::from_u16_until_nul(&text).ok()?;
    let file = volume
        .open_volume()
        .ok()?
        .open(name, FileMode::Read, FileAttribute::empty())
        .ok()?;
    let mut file = file.into_regular_file()?;
    file.set_position(u64::MAX).ok()?;
    let len = usize::try_from(file.get_position().ok()?).ok()?;
    file.set_position(0).ok()?;
    let region = allocate(len)?;
    // SAFETY: the memory was allocated for this, `len` bytes and more.
    let place = unsafe { core::slice::from_raw_parts_mut(region.start as *mut u8, len) };
    (file.read(place).ok()? == len).then_some(region)
}

/// `len` bytes of memory below 4 GiB, where they stay mapped.
fn allocate(len: usize) -> Option<Region> {
    let below = AllocateType::MaxAddress(u64::from(u32::MAX));
    let pages = len.div_ceil(PAGE);
    if pages == 0 {
        return None;
    }
    let place = services::allocate_pages(below, MemoryType::LOADER_DATA, pages).ok()?;
    let start = place.as_ptr() as u64;
    Some(start..start + len as u64)
}

fn path(command_line: &[u8]) -> Option<&[u8]> {
    command_line
        .split(|byte| *byte == b' ')
        .find_map(|word| word.strip_prefix(b"initrd="))
        .filter(|path| !path.is_empty() && path.len() < PATH_LEN)
}
