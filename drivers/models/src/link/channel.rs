//! A cable whose other end is a test.

use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::{Arc, Mutex, PoisonError};

use super::Wire;

/// Both ends of a cable in one process. Copies are handles of the same one.
#[derive(Clone, Debug, Default)]
pub struct Channel(Arc<Mutex<Ends>>);

#[derive(Debug, Default)]
struct Ends {
    sent: Vec<Vec<u8>>,
    coming: VecDeque<Vec<u8>>,
}

impl Channel {
    fn ends<T>(&self, run: impl FnOnce(&mut Ends) -> T) -> T {
        run(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes what the model has sent.
    pub fn take_sent(&self) -> Vec<Vec<u8>> {
        self.ends(|ends| std::mem::take(&mut ends.sent))
    }

    /// Puts a frame on its way to the model.
    pub fn put(&self, frame: Vec<u8>) {
        self.ends(|ends| ends.coming.push_back(frame));
    }
}

impl Wire for Channel {
    fn send(&mut self, frame: &[u8]) {
        self.ends(|ends| ends.sent.push(frame.to_vec()));
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let Some(frame) = self.ends(|ends| ends.coming.pop_front()) else {
            return Ok(None);
        };
        let len = frame.len().min(buffer.len());
        buffer[..len].copy_from_slice(&frame[..len]);
        Ok(Some(len))
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    fn lost(&self) -> u64 {
        0
    }
}
