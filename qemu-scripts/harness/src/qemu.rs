//! Which QEMU runs a machine.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::machine::cache_folder;

/// The system's.
const SYSTEM: &str = "qemu-system-x86_64";

/// The QEMU for a machine, which takes device models of ours by vfio-user if it has to.
///
/// # Errors
///
/// There is none that can.
pub(crate) fn program(with_models: bool) -> Result<PathBuf> {
    if !with_models || system_has_vfio_user() {
        return Ok(SYSTEM.into());
    }
    let own = cache_folder()?.join("qemu-vfio-user").join(SYSTEM);
    if !own.is_file() {
        bail!(
            "{SYSTEM} has no vfio-user-pci, which device models need: \
             qemu-scripts/setup --for models gets one that has"
        );
    }
    Ok(own)
}

fn system_has_vfio_user() -> bool {
    static HAS: OnceLock<bool> = OnceLock::new();
    *HAS.get_or_init(|| has_vfio_user(Path::new(SYSTEM)))
}

/// Help for a device that is not there ends well, too.
fn has_vfio_user(qemu: &Path) -> bool {
    let mut command = Command::new(qemu);
    command
        .args(["-device", "vfio-user-pci,help"])
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
        .output()
        .is_ok_and(|output| output.stdout.starts_with(b"vfio-user-pci options"))
}
