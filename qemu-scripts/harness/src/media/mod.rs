//! What firmware boots from: a CD and USB image, a disk with GRUB on it, and a volume
//! with the image alone. All are made without mounting anything, so by any user.

mod disk;
mod fat;
pub(crate) mod grub;
mod iso;

use std::path::Path;

use anyhow::{Result, ensure};

use crate::machine::Image;

pub use disk::{Loader, make as make_disk, make_with_grub as make_grub_disk};
pub use iso::make as make_iso;

/// Room for everything beside the image on a disk, in KiB.
const ROOM: u64 = 1024;

/// Bytes that boot arguments may have to be put into a loader's configuration:
/// neither blanks other than spaces nor what a loader gives a meaning to.
fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b" =._:/,+-@%".contains(&byte)
}

/// An error where a boot loader would not take `arguments` as they are.
pub(crate) fn ensure_plain(arguments: &str) -> Result<()> {
    ensure!(
        arguments.bytes().all(is_plain),
        "a boot loader's configuration cannot have these boot arguments: {arguments}"
    );
    Ok(())
}

/// The size in KiB of a volume that holds `image`, `folder`'s loader and some more.
fn volume_size(files: &[&Path]) -> Result<u64> {
    let mut bytes = 0;
    for file in files {
        bytes += std::fs::metadata(file)?.len();
    }
    Ok((bytes / 1024 + ROOM).next_multiple_of(1024))
}

/// A volume with the image as what UEFI boots by itself, in the file `path`.
pub fn make_volume(image: &Image, path: &Path) -> Result<()> {
    let size = volume_size(&[image.path()])?;
    let volume = fat::Volume::make(path, size)?;
    volume.copy(image.path(), fat::UEFI_DEFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_that_a_loader_would_take_apart_are_refused() {
        ensure_plain("ip=10.77.0.2/24 rx=poll ports=20000-20031").unwrap();
        for arguments in ["a;b", "a\nb", "$x", "{a}", "\"a\"", "a#b", "\u{e4}"] {
            assert!(ensure_plain(arguments).is_err(), "{arguments}");
        }
    }
}
