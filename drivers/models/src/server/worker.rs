//! The thread that takes frames off the wire and keeps the time.

use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;

use super::Shared;
use crate::device::Device;
use crate::link::FRAME_MAX;

use std::os::fd::{AsFd, OwnedFd};

/// Frames taken before QEMU gets its turn with the model.
const BATCH: usize = 32;
/// The longest sleep.
const NAP: Duration = Duration::from_secs(1);

/// Starts it. It ends when the shared state says so.
pub(super) fn start<D: Device + 'static>(shared: Arc<Shared<D>>) -> JoinHandle<()> {
    std::thread::spawn(move || run(&shared))
}

fn run<D: Device>(shared: &Shared<D>) {
    let mut buffer = vec![0; FRAME_MAX];
    let readable = shared
        .lock()
        .host
        .wire
        .readable()
        .and_then(|fd| fd.try_clone_to_owned().ok());
    let mut wire = readable;
    while !shared.is_ending() {
        let (nap, listens) = {
            let core = shared.lock();
            let due = core.deadline();
            let nap = due.map_or(NAP, |due| due.saturating_sub(core.host.now).min(NAP));
            (nap, core.device.takes_frames())
        };
        sleep(shared, wire.as_ref().filter(|_| listens), nap);
        if carry(shared, &mut buffer).is_err() {
            // The cable is cut: no more frames come, and the guest may go on.
            wire = None;
        }
    }
}

/// Waits for a frame, for being woken, or for `nap`.
fn sleep<D: Device>(shared: &Shared<D>, wire: Option<&OwnedFd>, nap: Duration) {
    let mut fds = vec![PollFd::new(shared.wake.as_fd(), PollFlags::POLLIN)];
    fds.extend(wire.map(|wire| PollFd::new(wire.as_fd(), PollFlags::POLLIN)));
    // What it fails with is a signal, which is as good as a wake.
    let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(nap)), None);
    // It is empty where it was not the wake.
    let _ = shared.wake.read();
}

/// Does what is due, and gives the model what has come for it.
fn carry<D: Device>(shared: &Shared<D>, buffer: &mut [u8]) -> std::io::Result<()> {
    let mut core = shared.lock();
    let core = &mut *core;
    core.advance();
    for _ in 0..BATCH {
        if !core.device.takes_frames() {
            break;
        }
        let Some(len) = core.host.wire.receive(buffer)? else {
            break;
        };
        core.device.receive(&mut core.host, &buffer[..len]);
    }
    Ok(())
}
