//! Folders for sockets and captures that nobody needs afterwards.

use std::path::Path;

use anyhow::Result;
use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::cleanup::{Registration, Resource, register};

/// What the names begin with; the process id follows.
const PREFIX: &str = "uniperf-harness-";

/// A folder that goes with its handle, with this process, or, where that was
/// killed, when the next one is made.
#[derive(Debug)]
pub(crate) struct Folder {
    folder: TempDir,
    _registration: Registration,
}

impl Folder {
    pub(crate) fn new() -> Result<Self> {
        remove_stale(&std::env::temp_dir());
        let prefix = format!("{PREFIX}{}-", std::process::id());
        let folder = tempfile::Builder::new().prefix(&prefix).tempdir()?;
        let registration = register(Resource::Folder(folder.path().into()));
        Ok(Self {
            folder,
            _registration: registration,
        })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }
}

/// Removes the folders of processes that are no more.
fn remove_stale(parent: &Path) {
    for entry in std::fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(owner);
        if owner.is_some_and(|pid| kill(pid, None) == Err(Errno::ESRCH)) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

fn owner(name: &str) -> Option<Pid> {
    let (pid, _) = name.strip_prefix(PREFIX)?.split_once('-')?;
    let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
    Some(Pid::from_raw(pid))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_the_dead_are_removed_and_no_others() {
        let parent = tempfile::tempdir().unwrap();
        let mut child = std::process::Command::new("true").spawn().unwrap();
        child.wait().unwrap();
        let dead = format!("{PREFIX}{}-a", child.id());
        let live = format!("{PREFIX}{}-a", std::process::id());
        let other = "uniperf-image".to_owned();
        for name in [&dead, &live, &other] {
            std::fs::create_dir(parent.path().join(name)).unwrap();
        }
        remove_stale(parent.path());
        assert!(!parent.path().join(&dead).exists());
        assert!(parent.path().join(&live).exists());
        assert!(parent.path().join(&other).exists());
    }
}
