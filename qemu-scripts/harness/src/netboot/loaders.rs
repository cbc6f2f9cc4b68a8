//! The boot loaders' files in the folder that TFTP serves, as an administrator would
//! put them there. Each returns the name of the file to boot.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::IMAGE;
use crate::firmware::Firmware;
use crate::process;

const GRUB_TIMEOUT: Duration = Duration::from_secs(60);

/// PXELINUX and the library that it loads, where Debian's packages have them.
const PXELINUX: [&str; 2] = [
    "/usr/lib/PXELINUX/pxelinux.0",
    "/usr/lib/syslinux/modules/bios/ldlinux.c32",
];

pub(super) fn ipxe(folder: &Path, arguments: &str) -> Result<String> {
    let script = format!("#!ipxe\nkernel {IMAGE}\nimgargs {IMAGE} {arguments}\nboot\n");
    fs::write(folder.join("boot.ipxe"), script)?;
    Ok("boot.ipxe".into())
}

pub(super) fn pxelinux(folder: &Path, arguments: &str) -> Result<String> {
    for file in PXELINUX {
        let file = Path::new(file);
        let name = file.file_name().context("a path without a name")?;
        fs::copy(file, folder.join(name)).with_context(|| {
            format!(
                "no {}: install Debian's pxelinux and syslinux-common",
                file.display()
            )
        })?;
    }
    fs::create_dir(folder.join("pxelinux.cfg"))?;
    fs::write(
        folder.join("pxelinux.cfg/default"),
        format!("DEFAULT uniperf\nLABEL uniperf\n  KERNEL {IMAGE}\n  APPEND {arguments}\n"),
    )?;
    Ok("pxelinux.0".into())
}

pub(super) fn grub(
    folder: &Path,
    firmware: Firmware,
    command: &str,
    arguments: &str,
) -> Result<String> {
    let (platform, core) = match firmware {
        Firmware::Bios => ("i386-pc", "core.0"),
        Firmware::Uefi => ("x86_64-efi", "core.efi"),
    };
    let mut mknetdir = Command::new("grub-mknetdir");
    mknetdir.arg("--net-directory").arg(folder);
    mknetdir.arg("--subdir=grub").arg("--directory");
    mknetdir.arg(crate::media::grub::library(platform)?);
    let finished = process::run(&mut mknetdir, GRUB_TIMEOUT)
        .context("GRUB's network images are made by Debian's grub-common")?;
    finished.success()?;
    fs::write(
        folder.join("grub/grub.cfg"),
        format!("{command} /{IMAGE} {arguments}\nboot\n"),
    )?;
    Ok(format!("grub/{platform}/{core}"))
}
