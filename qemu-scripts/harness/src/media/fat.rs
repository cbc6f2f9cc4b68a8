//! FAT volumes in files, by mtools.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};

use crate::process;

/// What UEFI boots from a volume by itself (UEFI 2.10, 3.5.1.1).
pub const UEFI_DEFAULT: &str = "EFI/BOOT/BOOTX64.EFI";

const TIMEOUT: Duration = Duration::from_secs(30);
/// The time that all files get: the same content makes the same volume.
const DATE: &str = "315532800";
/// The volume's serial number, for the same reason.
const SERIAL: &str = "756e6970";

/// A FAT volume that fills a file.
pub struct Volume {
    path: PathBuf,
}

impl Volume {
    /// Makes an empty volume of `kibibytes`, a multiple of 1024, in the file `path`.
    pub fn make(path: &Path, kibibytes: u64) -> Result<Self> {
        let volume = Self { path: path.into() };
        let _ = std::fs::remove_file(path);
        let sectors = (kibibytes * 2).to_string();
        let options = ["-C", "-v", "UNIPERF", "-N", SERIAL, "-T", &sectors];
        // One head of 32 sectors a track, so that the sectors are whole tracks.
        volume.run("mformat", &options, &["-h", "1", "-s", "32", "::"])?;
        Ok(volume)
    }

    /// Copies the file `from` to `to`, whose folders are made.
    pub fn copy(&self, from: &Path, to: &str) -> Result<()> {
        for (end, _) in to.match_indices('/') {
            let folder = format!("::/{}", &to[..end]);
            if self.run("mdir", &[], &[&folder]).is_err() {
                self.run("mmd", &[], &[&folder])?;
            }
        }
        let from = from.to_str().context("a path that is no text")?;
        self.run("mcopy", &["-o"], &[from, &format!("::/{to}")])
    }

    /// Writes `text` to the file `to`.
    pub fn write(&self, text: &str, to: &str) -> Result<()> {
        let file = tempfile::NamedTempFile::new()?;
        std::fs::write(file.path(), text)?;
        self.copy(file.path(), to)
    }

    fn run(&self, program: &str, options: &[&str], rest: &[&str]) -> Result<()> {
        let mut command = Command::new(program);
        command.args(options).arg("-i").arg(&self.path).args(rest);
        command.env("SOURCE_DATE_EPOCH", DATE);
        let finished = process::run(&mut command, TIMEOUT)
            .context("a FAT volume is made by Debian's mtools")?;
        finished.success()?;
        Ok(())
    }
}
