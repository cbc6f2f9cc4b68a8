//! A model as a PCI device of QEMU's, by the vfio-user protocol.
//!
//! One thread answers QEMU (register accesses, memory that comes and goes, interrupts
//! being set up); one carries frames and keeps the time; one listens to the person or
//! the test. They take turns with the model.

mod control;
mod vfio;
mod worker;

use std::io;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use nix::sys::eventfd::{EfdFlags, EventFd};

use crate::device::{Device, Host};
use crate::link::Wire;

/// Where a served model is reached.
#[derive(Clone, Debug)]
pub struct Options {
    /// The vfio-user socket that QEMU connects to. It must not exist.
    pub socket: PathBuf,
    /// A socket for commands, if there is to be one.
    pub control: Option<PathBuf>,
}

/// Serves `device` on `wire` to one QEMU, until that ends. `ready` is called when it may
/// connect.
///
/// # Errors
///
/// A socket cannot be made, or QEMU and the model do not understand each other.
pub fn serve<D: Device + 'static>(
    device: D,
    wire: Box<dyn Wire>,
    options: &Options,
    ready: impl FnOnce(),
) -> Result<()> {
    let shared = Arc::new(Shared::new(device, wire)?);
    let server = vfio::server(shared.lock().device.config(), &options.socket)
        // What the crate says of it has the cause in it already.
        .map_err(|error| anyhow!("cannot listen on {}: {error}", options.socket.display()))?;
    let control = match &options.control {
        Some(path) => Some(control::Listener::start(path, Arc::clone(&shared))?),
        None => None,
    };
    let worker = worker::start(Arc::clone(&shared));
    ready();
    let result = server.run(&mut vfio::Backend::new(&shared));
    shared.end();
    // It ends when it is told to; a panic there was already shown.
    drop(worker.join());
    drop(control);
    result.context("QEMU and the model do not understand each other")
}

/// The model and what it reaches.
struct Core<D> {
    device: D,
    host: Host,
}

impl<D: Device> Core<D> {
    /// Does what is due.
    fn advance(&mut self) {
        self.device.advance(&mut self.host);
        self.host.interrupts.advance(self.host.now);
    }

    fn deadline(&self) -> Option<Duration> {
        let dues = [self.device.deadline(), self.host.interrupts.deadline()];
        dues.into_iter().flatten().min()
    }
}

/// What the threads share.
struct Shared<D> {
    core: Mutex<Core<D>>,
    started: Instant,
    /// Wakes the worker up.
    wake: EventFd,
    ending: AtomicBool,
}

impl<D: Device> Shared<D> {
    fn new(device: D, wire: Box<dyn Wire>) -> io::Result<Self> {
        Ok(Self {
            core: Mutex::new(Core {
                device,
                host: Host::new(wire),
            }),
            started: Instant::now(),
            wake: EventFd::from_flags(EfdFlags::EFD_NONBLOCK | EfdFlags::EFD_CLOEXEC)?,
            ending: AtomicBool::new(false),
        })
    }

    /// The model, told of the time.
    fn lock(&self) -> MutexGuard<'_, Core<D>> {
        let mut core = self.core.lock().unwrap_or_else(PoisonError::into_inner);
        core.host.now = self.started.elapsed();
        core
    }

    /// Runs `run` on the model, and wakes the worker where it now has to do something
    /// sooner.
    fn with<T>(&self, run: impl FnOnce(&mut Core<D>) -> T) -> T {
        let mut core = self.lock();
        let before = (core.deadline(), core.device.takes_frames());
        let result = run(&mut core);
        let after = (core.deadline(), core.device.takes_frames());
        let sooner = match (before.0, after.0) {
            (Some(before), Some(after)) => after < before,
            (None, after) => after.is_some(),
            (Some(_), None) => false,
        };
        if sooner || (after.1 && !before.1) {
            self.wake_worker();
        }
        result
    }

    fn wake_worker(&self) {
        // It fails only where it is full, and so has been woken up.
        let _ = self.wake.write(1);
    }

    fn end(&self) {
        self.ending.store(true, Ordering::Release);
        self.wake_worker();
    }

    fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }
}

/// Removes a socket that a process that is gone has left at `path`.
fn remove_stale(path: &Path) -> io::Result<()> {
    // A file of another kind refuses connections just so, and is somebody's.
    let kind = std::fs::symlink_metadata(path).map(|entry| entry.file_type());
    if !kind.is_ok_and(|kind| kind.is_socket()) {
        return Ok(());
    }
    match std::os::unix::net::UnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_that_is_left_over_is_removed_and_a_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("file"), folder.path().join("socket"));
        std::fs::write(&file, "precious").unwrap();
        drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
        for path in [&file, &socket, &folder.path().join("none")] {
            remove_stale(path).unwrap();
        }
        assert!(!socket.exists());
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "precious");
    }
}
