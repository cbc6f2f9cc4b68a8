//! A disk as an installed Linux host has it: GRUB, for BIOS and UEFI, or systemd-boot,
//! and one partition with the image beside it.

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use super::fat::{UEFI_DEFAULT, Volume};
use super::grub::{self, Platform};
use super::{ensure_plain, volume_size};
use crate::folder::Folder;
use crate::machine::Image;

const SECTOR: u64 = 512;
/// The partition's first sector, as usual.
const PARTITION_AT: u64 = 2048;
/// An EFI system partition in a partition table of the old kind (UEFI 2.10, 5.2.2).
const EFI_SYSTEM: u8 = 0xef;
const ACTIVE: u8 = 0x80;
/// CHS addresses of partitions that are addressed otherwise.
const NO_CHS: [u8; 3] = [0xfe, 0xff, 0xff];
const TABLE_AT: usize = 0x1be;

const SYSTEMD_BOOT: &str = "/usr/lib/systemd/boot/efi/systemd-bootx64.efi";

/// The boot loader on a disk, and how it starts the image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// GRUB's command `linux`.
    GrubLinux,
    /// GRUB's command `multiboot2`.
    GrubMultiboot2,
    /// systemd-boot, for UEFI only.
    SystemdBoot,
}

/// Makes a disk in the file `path` whose `loader` starts `image` with `arguments`.
pub fn make(image: &Image, arguments: &str, loader: Loader, path: &Path) -> Result<()> {
    ensure_plain(arguments)?;
    let entry = |command| {
        format!("set timeout=0\nmenuentry uniperf {{ {command} /uniperf.efi {arguments} }}\n")
    };
    let start = |volume: &Volume, folder: &Path| match loader {
        Loader::GrubLinux => grub_disk(volume, &entry("linux"), folder),
        Loader::GrubMultiboot2 => grub_disk(volume, &entry("multiboot2"), folder),
        Loader::SystemdBoot => systemd_boot(volume, arguments),
    };
    make_with(image, "uniperf.efi", start, path)
}

/// Makes a disk in the file `path` with `image` as `/boot/uniperf.efi`, and with GRUB
/// and its `configuration`.
pub fn make_with_grub(image: &Image, configuration: &str, path: &Path) -> Result<()> {
    let start = |volume: &Volume, folder: &Path| grub_disk(volume, configuration, folder);
    make_with(image, "boot/uniperf.efi", start, path)
}

/// Makes a disk with `image` in the place `image_at`, and what `start` puts beside it; it
/// returns the disk's first sectors.
fn make_with(
    image: &Image,
    image_at: &str,
    start: impl FnOnce(&Volume, &Path) -> Result<Vec<u8>>,
    path: &Path,
) -> Result<()> {
    let folder = Folder::new()?;
    let partition = folder.path().join("partition");
    let volume = Volume::make(&partition, volume_size(&[image.path()])?)?;
    volume.copy(image.path(), image_at)?;
    let start = start(&volume, folder.path())?;
    let partition = fs::read(&partition)?;
    let start = with_partition(start, partition.len() as u64)?;
    let mut disk = fs::File::create(path)?;
    disk.write_all(&start)?;
    disk.seek(SeekFrom::Start(PARTITION_AT * SECTOR))?;
    disk.write_all(&partition)?;
    Ok(())
}

/// Puts GRUB on the volume, and returns the disk's first sectors.
fn grub_disk(volume: &Volume, configuration: &str, folder: &Path) -> Result<Vec<u8>> {
    let find = "search --no-floppy --file /grub.cfg --set=root\nconfigfile /grub.cfg\n";
    volume.write(configuration, "grub.cfg")?;
    let uefi = folder.join("grub.efi");
    grub::make_image(Platform::Uefi, find, &uefi)?;
    volume.copy(&uefi, UEFI_DEFAULT)?;
    let core = folder.join("core.img");
    grub::make_image(Platform::BiosDisk, find, &core)?;
    // As they are made, the first sector loads the second, and that one loads the
    // rest from behind itself.
    let mut start = fs::read(grub::library("i386-pc")?.join("boot.img"))?;
    start.extend(fs::read(core)?);
    Ok(start)
}

fn systemd_boot(volume: &Volume, arguments: &str) -> Result<Vec<u8>> {
    let loader = Path::new(SYSTEMD_BOOT);
    ensure!(
        loader.exists(),
        "systemd-boot is in Debian's package systemd-boot-efi"
    );
    volume.copy(loader, UEFI_DEFAULT)?;
    volume.write("timeout 0\n", "loader/loader.conf")?;
    volume.write(
        &format!("title uniperf\nlinux /uniperf.efi\noptions {arguments}\n"),
        "loader/entries/uniperf.conf",
    )?;
    Ok(vec![0; SECTOR as usize])
}

/// `start` with a partition table that has one partition of `length` bytes.
fn with_partition(mut start: Vec<u8>, length: u64) -> Result<Vec<u8>> {
    ensure!(
        start.len() as u64 <= PARTITION_AT * SECTOR,
        "GRUB does not fit in front of the partition"
    );
    let sectors = u32::try_from(length / SECTOR).context("too large a partition")?;
    let mut entry = vec![ACTIVE];
    entry.extend(NO_CHS);
    entry.push(EFI_SYSTEM);
    entry.extend(NO_CHS);
    entry.extend((PARTITION_AT as u32).to_le_bytes());
    entry.extend(sectors.to_le_bytes());
    start[TABLE_AT..][..entry.len()].copy_from_slice(&entry);
    start[TABLE_AT + entry.len()..0x1fe].fill(0);
    start[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    Ok(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_partition_table_has_one_partition_and_the_loader_stays() {
        let start = with_partition(vec![7; 1024], 3 << 20).unwrap();
        assert_eq!(start[..TABLE_AT], [7; TABLE_AT]);
        assert_eq!(start[TABLE_AT + 8..][..8], [0, 8, 0, 0, 0, 0x18, 0, 0]);
        assert_eq!(start[0x1fe..0x201], [0x55, 0xaa, 7]);
        assert!(with_partition(vec![0; 2 << 20], 1 << 20).is_err());
    }
}
