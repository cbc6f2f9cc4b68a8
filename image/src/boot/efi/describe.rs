//! What firmware says of the machine.

use core::num::NonZeroU64;

use uefi::boot::{self as services, OpenProtocolAttributes, OpenProtocolParams, ScopedProtocol};
use uefi::proto::ProtocolPointer;
use uefi::proto::console::gop::{GraphicsOutput, PixelFormat};
use uefi::proto::loaded_image::LoadedImage;
use uefi::table::cfg::ConfigTableEntry;
use uefi::{Handle, system};
use uniperf_kernel::handover::{Channel, CommandLine, Pixels, Screen};

use super::options;

/// Opens a protocol next to whoever else uses it; opening it for ourselves would
/// take the screen away from the firmware's console.
pub(super) fn look_at<P: ProtocolPointer + ?Sized>(handle: Handle) -> Option<ScopedProtocol<P>> {
    let params = OpenProtocolParams {
        handle,
        agent: services::image_handle(),
        controller: None,
    };
    // SAFETY: nothing else runs until it is closed again.
    unsafe { services::open_protocol(params, OpenProtocolAttributes::GetProtocol) }.ok()
}

pub(super) fn command_line(image: Handle, line: &mut CommandLine) {
    if let Some(image) = look_at::<LoadedImage>(image) {
        let bytes = image.load_options_as_bytes().unwrap_or_default();
        line.extend(options::command_line(bytes));
    }
}

/// The newer root pointer where there are two.
pub(super) fn rsdp() -> Option<NonZeroU64> {
    system::with_config_table(|tables| {
        let find = |guid| tables.iter().find(|table| table.guid == guid);
        let table =
            find(ConfigTableEntry::ACPI2_GUID).or_else(|| find(ConfigTableEntry::ACPI_GUID));
        NonZeroU64::new(table?.address as u64)
    })
}

/// The frame buffer, in the mode that the firmware has set.
pub(super) fn screen() -> Option<Screen> {
    let handle = services::get_handle_for_protocol::<GraphicsOutput>().ok()?;
    let mut output = look_at::<GraphicsOutput>(handle)?;
    let mode = output.current_mode_info();
    let (width, height) = mode.resolution();
    let whole = |shift| Channel { shift, bits: 8 };
    let (red, green, blue) = match mode.pixel_format() {
        PixelFormat::Rgb => (whole(0), whole(8), whole(16)),
        PixelFormat::Bgr => (whole(16), whole(8), whole(0)),
        PixelFormat::Bitmask => {
            let mask = mode.pixel_bitmask()?;
            (channel(mask.red), channel(mask.green), channel(mask.blue))
        }
        PixelFormat::BltOnly => return None,
    };
    Some(Screen::Pixels(Pixels {
        address: output.frame_buffer().as_mut_ptr() as u64,
        width: u32::try_from(width).ok()?,
        height: u32::try_from(height).ok()?,
        pitch: u32::try_from(mode.stride() * 4).ok()?,
        bits: 32,
        red,
        green,
        blue,
    }))
}

fn channel(mask: u32) -> Channel {
    Channel {
        shift: mask.trailing_zeros() as u8 % 32,
        bits: mask.count_ones() as u8,
    }
}
