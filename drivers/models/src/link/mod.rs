//! The cable: where a model's frames go and where they come from.

mod channel;
mod socket;
mod tap;

use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;

pub use channel::Channel;
pub use socket::{Datagram, Stream};
pub use tap::Tap;

/// The largest frame that any of them carries, in bytes: 64 KiB and an Ethernet header.
pub const FRAME_MAX: usize = 65_536 + 18;

/// One end of a cable.
pub trait Wire: Send + fmt::Debug {
    /// Sends a frame, without its FCS. One that the far end cannot take is lost and
    /// counted.
    fn send(&mut self, frame: &[u8]);

    /// Takes the next frame into `buffer`, and returns its length, or `None` where there
    /// is none now.
    ///
    /// # Errors
    ///
    /// The cable is cut.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>>;

    /// What becomes readable when a frame comes.
    fn readable(&self) -> Option<BorrowedFd<'_>>;

    /// Frames that the far end did not take.
    fn lost(&self) -> u64;
}

/// A cable with nothing at its other end.
#[derive(Debug, Default)]
pub struct Unplugged {
    lost: u64,
}

impl Wire for Unplugged {
    fn send(&mut self, _: &[u8]) {
        self.lost += 1;
    }

    fn receive(&mut self, _: &mut [u8]) -> io::Result<Option<usize>> {
        Ok(None)
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

/// What a read of a frame came to: none where it would have to wait.
fn some_frame(read: io::Result<usize>) -> io::Result<Option<usize>> {
    match read {
        Ok(len) => Ok(Some(len)),
        Err(error) => match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(None),
            _ => Err(error),
        },
    }
}
