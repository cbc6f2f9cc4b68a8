//! A tap device of this machine.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;

use nix::libc;
use nix::net::if_::if_nametoindex;

use super::{Wire, some_frame};

nix::ioctl_write_ptr_bad!(
    /// Attaches an open `/dev/net/tun` to a device.
    set_interface,
    libc::TUNSETIFF,
    libc::ifreq
);

/// A tap device in the network namespace where it was opened.
#[derive(Debug)]
pub struct Tap {
    file: File,
    lost: u64,
}

impl Tap {
    /// Opens the tap called `name`.
    ///
    /// # Errors
    ///
    /// The name is too long, there is no such tap, or it may not be opened.
    pub fn open(name: &str) -> io::Result<Self> {
        if name.is_empty() || name.len() >= libc::IFNAMSIZ {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("'{name}' is no network device's name"),
            ));
        }
        // Opening one that is not there would make it, and nothing would be on its other
        // end.
        if if_nametoindex(name).is_err() {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!(
                    "it is not in this network namespace: make it with ip tuntap add dev {name} \
                     mode tap, and ip link set {name} up"
                ),
            ));
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .custom_flags(libc::O_NONBLOCK)
            .open("/dev/net/tun")?;
        // SAFETY: all bytes zero are a value of this structure of integers.
        let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
        for (to, from) in request.ifr_name.iter_mut().zip(name.bytes()) {
            *to = from.cast_signed();
        }
        // Frames as they are on a wire: this machine's kernel cuts super-segments and
        // completes checksums before it hands them over.
        request.ifr_ifru.ifru_flags = (libc::IFF_TAP | libc::IFF_NO_PI) as libc::c_short;
        // SAFETY: the request is a structure of the kind that the call takes.
        unsafe { set_interface(file.as_raw_fd(), &raw const request) }?;
        Ok(Self { file, lost: 0 })
    }
}

impl Wire for Tap {
    fn send(&mut self, frame: &[u8]) {
        // The device may be down, or its queue full.
        if self.file.write(frame).is_err() {
            self.lost += 1;
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        some_frame(self.file.read(buffer))
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.file.as_fd())
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tap_that_is_not_there_is_not_made() {
        let error = Tap::open("no-such-tap0").unwrap_err();
        assert!(error.to_string().contains("ip tuntap add dev no-such-tap0"));
        assert!(if_nametoindex("no-such-tap0").is_err());
        assert!(Tap::open("a-name-that-is-too-long").is_err());
    }
}
