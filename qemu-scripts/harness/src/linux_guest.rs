//! The Linux guest that the appliance is compared with: Debian's kernel, its NIC
//! drivers and netserver, on the same virtual hardware.
//!
//! `qemu-scripts/setup --for peer` makes it. It says the same ready line as the
//! appliance, and its console is a shell that knows `poweroff`.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::machine::{Beside, Image, Machine, cache_folder, repository};
use crate::process;

/// What making it may take: a download of 70 MB and its unpacking.
const SETUP_TIMEOUT: Duration = Duration::from_secs(600);
/// Memory in MiB, unless the user says otherwise.
pub const MEMORY: u32 = 256;

/// The guest's kernel, and `machine` changed so that it runs Linux.
pub fn prepare(machine: Machine) -> Result<(Image, Machine)> {
    let mut setup = Command::new(repository().join("qemu-scripts/setup"));
    setup.args(["--for", "peer"]);
    process::run(&mut setup, SETUP_TIMEOUT)?.success()?;
    let folder = folder()?;
    let image = Image::at(folder.join("vmlinuz"))?;
    let machine = Machine {
        append: format!("console=ttyS0 quiet panic=-1 {}", machine.append),
        beside: Beside::File(folder.join("initrd")),
        ..machine
    };
    Ok((image, machine))
}

/// Adds the `kexec` command to a prepared guest, and `file` as `/image/NAME`. Linux
/// unpacks RAM file systems one after the other, so `initrd` gets one that ends with
/// both.
pub fn with_kexec(machine: Machine, file: &Path, initrd: &Path) -> Result<Machine> {
    let folder = folder()?;
    let Beside::File(given) = &machine.beside else {
        bail!("the guest is not prepared");
    };
    let name = file.file_name().context("no file")?.to_string_lossy();
    let entry = |path: &str, mode| cpio::NewcBuilder::new(path).mode(mode);
    let image = [
        (
            entry("image", 0o040_755),
            Box::new(std::io::empty()) as Box<dyn Content>,
        ),
        (
            entry(&format!("image/{name}"), 0o100_644),
            Box::new(File::open(file)?),
        ),
    ];
    // What is not compressed has to come first, as it begins at a multiple of 4 bytes.
    let mut parts = cpio::write_cpio(image.into_iter(), File::create(initrd)?)?;
    for part in [given, &folder.join("kexec")] {
        std::io::copy(&mut File::open(part)?, &mut parts)?;
    }
    Ok(Machine {
        beside: Beside::File(initrd.into()),
        ..machine
    })
}

/// What a file of an archive is read from.
trait Content: std::io::Read + std::io::Seek {}

impl<T: std::io::Read + std::io::Seek> Content for T {}

/// Where setup leaves it.
fn folder() -> Result<PathBuf> {
    Ok(cache_folder()?.join("linux-peer"))
}
