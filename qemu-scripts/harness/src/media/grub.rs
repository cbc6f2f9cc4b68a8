//! GRUB images with all modules that they need, so that nothing but their
//! configuration is read from the medium.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::process;

const TIMEOUT: Duration = Duration::from_secs(30);
/// Where GRUB's packages put what images are made of, a folder a platform.
const LIBRARY: &str = "/usr/lib/grub";
/// Modules of all images.
const MODULES: [&str; 20] = [
    "all_video",
    "chain",
    "configfile",
    "echo",
    "fat",
    "halt",
    "iso9660",
    "linux",
    "ls",
    "multiboot2",
    "normal",
    "part_gpt",
    "part_msdos",
    "reboot",
    "search",
    "search_fs_file",
    "search_label",
    "serial",
    "setpci",
    "test",
];

/// What a GRUB image is started by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Platform {
    /// The BIOS, from a disk's first sectors.
    BiosDisk,
    /// The BIOS, from a CD.
    BiosCd,
    /// UEFI, as an application.
    Uefi,
}

impl Platform {
    fn format(self) -> &'static str {
        match self {
            Self::BiosDisk => "i386-pc",
            Self::BiosCd => "i386-pc-eltorito",
            Self::Uefi => "x86_64-efi",
        }
    }

    fn library(self) -> Result<PathBuf> {
        match self {
            Self::BiosDisk | Self::BiosCd => library("i386-pc"),
            Self::Uefi => library("x86_64-efi"),
        }
    }
}

/// The folder of GRUB's parts for `platform`, as GRUB calls it.
pub fn library(platform: &str) -> Result<PathBuf> {
    let folder = Path::new(LIBRARY).join(platform);
    ensure!(
        folder.is_dir(),
        "there is no {}: install Debian's packages grub-pc-bin and grub-efi-amd64-bin",
        folder.display()
    );
    Ok(folder)
}

/// Writes the image for `platform` to the file `path`. It begins with the commands in
/// `configuration`.
pub fn make_image(platform: Platform, configuration: &str, path: &Path) -> Result<()> {
    let file = tempfile::NamedTempFile::new()?;
    std::fs::write(file.path(), configuration)?;
    let mut command = Command::new("grub-mkimage");
    command.args(["--format", platform.format(), "--prefix", "/boot/grub"]);
    command.arg("--directory").arg(platform.library()?);
    command.arg("--config").arg(file.path());
    command.arg("--output").arg(path).args(MODULES);
    if platform != Platform::Uefi {
        command.arg("biosdisk");
    }
    let finished = process::run(&mut command, TIMEOUT)
        .context("GRUB's images are made by Debian's grub-common")?;
    finished.success()?;
    Ok(())
}
