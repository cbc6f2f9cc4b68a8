//! `uniperf.iso`: one image for CDs and USB sticks, for BIOS and UEFI.
//!
//! The CD's file system has the image and GRUB's menu. Behind it lies a FAT volume
//! that UEFI boots from, and that appears as a partition of a stick: its
//! `uniperf.cfg` has the boot arguments, to be edited without building anything.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use super::fat::{UEFI_DEFAULT, Volume};
use super::grub::{self, Platform};
use super::{ensure_plain, volume_size};
use crate::folder::Folder;
use crate::machine::Image;
use crate::process;

const TIMEOUT: Duration = Duration::from_secs(60);
/// The time that all files get: the same image makes the same file.
const DATE: &str = "315532800";
const LABEL: &str = "UNIPERF";

/// GRUB's first commands: the rest is on the CD's file system.
const FIND: &str = "search --no-floppy --label UNIPERF --set=root\n\
    configfile ($root)/boot/grub/grub.cfg\n";

/// The menu, after the settings. A serial line that is not there is no hindrance.
const MENU: &str = r#"serial --unit=0 --speed=115200
terminal_input console serial
terminal_output console serial
set gfxpayload=keep
set timeout=3

if [ -f ($root,msdos2)/uniperf.cfg ]; then
    source ($root,msdos2)/uniperf.cfg
fi
menuentry "uniperf $arguments" {
    linux ($root)/uniperf.efi $arguments
}
menuentry "uniperf $arguments (by multiboot2)" {
    multiboot2 ($root)/uniperf.efi $arguments
}
"#;

/// Makes the ISO image in the file `path`: it boots `image` with `arguments`, unless
/// its `uniperf.cfg` is edited.
pub fn make(image: &Image, arguments: &str, path: &Path) -> Result<()> {
    ensure_plain(arguments)?;
    let folder = Folder::new()?;
    let root = folder.path().join("root");
    let boot = root.join("boot/grub");
    fs::create_dir_all(&boot)?;
    fs::copy(image.path(), root.join("uniperf.efi"))?;
    let menu = settings(arguments) + MENU;
    fs::write(boot.join("grub.cfg"), menu)?;
    grub::make_image(Platform::BiosCd, FIND, &boot.join("bios.img"))?;

    let uefi = folder.path().join("grub.efi");
    grub::make_image(Platform::Uefi, FIND, &uefi)?;
    let partition = folder.path().join("partition");
    let volume = Volume::make(&partition, volume_size(&[&uefi])?)?;
    volume.copy(&uefi, UEFI_DEFAULT)?;
    volume.write(&settings(arguments), "uniperf.cfg")?;

    let mut command = Command::new("xorriso");
    command.args(["-as", "mkisofs", "-quiet", "-V", LABEL, "-R"]);
    command.args(["-b", "boot/grub/bios.img", "-no-emul-boot"]);
    command.args([
        "-boot-load-size",
        "4",
        "-boot-info-table",
        "--grub2-boot-info",
    ]);
    let first_sector = grub::library("i386-pc")?.join("boot_hybrid.img");
    command.arg("--grub2-mbr").arg(first_sector);
    command.arg("--mbr-force-bootable");
    command
        .args(["-append_partition", "2", "0xef"])
        .arg(&partition);
    command.args([
        "-eltorito-alt-boot",
        "-e",
        "--interval:appended_partition_2:all::",
    ]);
    command.args(["-no-emul-boot", "-o"]).arg(path).arg(&root);
    command.env("SOURCE_DATE_EPOCH", DATE);
    let finished =
        process::run(&mut command, TIMEOUT).context("an ISO is made by Debian's xorriso")?;
    finished.success()?;
    Ok(())
}

fn settings(arguments: &str) -> String {
    format!(
        "# The boot arguments of uniperf, such as set arguments=\"ip=10.77.0.2/24 rx=poll\".\n\
         set arguments=\"{arguments}\"\n"
    )
}
