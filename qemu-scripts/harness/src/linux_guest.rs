//! The Linux guest that the appliance is compared with: Debian's kernel, its e1000
//! driver and netserver, on the same virtual hardware.
//!
//! `qemu-scripts/setup --for peer` makes it. It says the same ready line as the
//! appliance, and its console is a shell that knows `poweroff`.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::machine::{Image, Machine, repository};
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
    let folder = folder().context("where is the cache? HOME is not set")?;
    let image = Image::at(folder.join("vmlinuz"))?;
    let machine = Machine {
        append: format!("console=ttyS0 quiet panic=-1 {}", machine.append),
        initrd: Some(folder.join("initrd")),
        ..machine
    };
    Ok((image, machine))
}

/// Where setup leaves it.
fn folder() -> Option<PathBuf> {
    let variable = |name| std::env::var_os(name).filter(|value| !value.is_empty());
    let cache = variable("UNIPERF_CACHE").map(PathBuf::from).or_else(|| {
        let home = || Some(PathBuf::from(variable("HOME")?).join(".cache"));
        let cache = variable("XDG_CACHE_HOME")
            .map(PathBuf::from)
            .or_else(home)?;
        Some(cache.join("uniperf"))
    })?;
    Some(cache.join("linux-peer"))
}
