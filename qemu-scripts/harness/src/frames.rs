//! Ethernet frames as bytes, put on the tap without anyone checking them.

use std::cell::Cell;
use std::io::IoSlice;
use std::mem;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;

use crate::machine::mac;
use crate::network::Network;

/// The broadcast address.
pub const BROADCAST: [u8; 6] = [0xff; 6];

/// Sends frames out of `tap0`, that is to the appliance's first NIC.
#[derive(Debug)]
pub struct FrameSender {
    socket: OwnedFd,
    sent: Cell<u32>,
}

/// A tap's queue holds 1000 frames, and a NIC's ring 256: after so many the sender
/// pauses, lest the rest be lost before anyone has to bear them.
const BURST: u32 = 50;
const PAUSE: Duration = Duration::from_millis(2);

impl FrameSender {
    /// A sender on `network`, which is a tap.
    pub fn new(network: &Network) -> Result<Self> {
        network.as_tap()?;
        let socket = network
            .enter(|| packet_socket(0))?
            .context("no packet socket")?;
        Ok(Self {
            socket,
            sent: Cell::new(0),
        })
    }

    /// How many frames were sent.
    pub fn sent(&self) -> u32 {
        self.sent.get()
    }

    /// Puts `frame` on the wire as it is.
    pub fn send(&self, frame: &[u8]) -> Result<()> {
        // SAFETY: the pointer and the length are those of a slice.
        let sent = unsafe {
            libc::send(
                self.socket.as_raw_fd(),
                frame.as_ptr().cast(),
                frame.len(),
                0,
            )
        };
        let error = std::io::Error::last_os_error();
        ensure!(sent >= 0, "cannot send {} bytes: {error}", frame.len());
        self.sent.set(self.sent.get() + 1);
        if self.sent.get().is_multiple_of(BURST) {
            std::thread::sleep(PAUSE);
        }
        Ok(())
    }
}

impl FrameSender {
    /// Puts `frames` on the wire, one after another without a pause, and returns how
    /// many the tap's queue had room for.
    pub fn send_all(&self, frames: &[Vec<u8>]) -> Result<usize> {
        let mut slices: Vec<_> = frames.iter().map(|frame| IoSlice::new(frame)).collect();
        // SAFETY: all bytes zero are a value of this structure: no address, no control
        // data, no slices.
        let empty: libc::mmsghdr = unsafe { mem::zeroed() };
        let mut messages = vec![empty; slices.len()];
        for (message, slice) in messages.iter_mut().zip(&mut slices) {
            // An `IoSlice` is an `iovec`, as its documentation guarantees.
            message.msg_hdr.msg_iov = std::ptr::from_mut(slice).cast();
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the messages point at slices, and these at frames, that live until
        // the call returns; the count is theirs.
        let sent = unsafe {
            libc::sendmmsg(
                self.socket.as_raw_fd(),
                messages.as_mut_ptr(),
                messages.len() as u32,
                0,
            )
        };
        match Errno::result(sent) {
            Ok(sent) => Ok(usize::try_from(sent)?),
            Err(Errno::ENOBUFS) => Ok(0),
            Err(error) => bail!("cannot send {} frames: {error}", frames.len()),
        }
    }
}

/// A socket for whole frames on `tap0` of the namespace that the thread is in. It
/// receives those of type `ethertype`, or none for 0.
pub(crate) fn packet_socket(ethertype: u16) -> std::io::Result<OwnedFd> {
    // SAFETY: the name ends with a zero.
    let interface = unsafe { libc::if_nametoindex(c"tap0".as_ptr()) };
    // SAFETY: no pointers are passed.
    let socket = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if interface == 0 || socket < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and nobody else's.
    let socket = unsafe { OwnedFd::from_raw_fd(socket) };
    // SAFETY: all bytes zero are a value of this structure of integers.
    let mut address: libc::sockaddr_ll = unsafe { mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_ifindex = interface.cast_signed();
    address.sll_protocol = ethertype.to_be();
    // SAFETY: the pointer and the length are those of `address`.
    let bound = unsafe {
        libc::bind(
            socket.as_raw_fd(),
            (&raw const address).cast(),
            mem::size_of_val(&address) as libc::socklen_t,
        )
    };
    if bound < 0 {
        return Err(std::io::Error::last_os_error());
    }
    Ok(socket)
}

/// An Ethernet frame to the appliance's first NIC.
pub fn ethernet(ethertype: u16, payload: &[u8]) -> Vec<u8> {
    ethernet_to(mac(0), ethertype, payload)
}

/// An Ethernet frame to `destination`.
pub fn ethernet_to(destination: [u8; 6], ethertype: u16, payload: &[u8]) -> Vec<u8> {
    let source = [0x02, 0, 0, 0, 0, 0x99];
    let ethertype = ethertype.to_be_bytes();
    [&destination[..], &source, &ethertype, payload].concat()
}

/// An IPv4 packet from 10.77.0.1 to 10.77.0.2 with a right header checksum.
pub fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
    let length = (20 + payload.len()) as u16;
    let mut header = vec![0x45, 0];
    header.extend(length.to_be_bytes());
    header.extend([0x12, 0x34, 0, 0, 64, protocol, 0, 0]);
    header.extend([10, 77, 0, 1, 10, 77, 0, 2]);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend(payload);
    header
}

/// The Internet checksum of `bytes`.
pub fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| {
        let low = word.get(1).copied().unwrap_or(0);
        u32::from(u16::from_be_bytes([word[0], low]))
    });
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

/// Bytes that are random but the same in each run.
#[derive(Debug)]
pub struct Noise(u64);

impl Noise {
    /// A sequence that depends on `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number (xorshift64*).
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// The next `count` bytes.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.number() as u8).collect()
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.number() % limit as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_with_its_checksum_sums_up_to_nothing() {
        let packet = ipv4(17, &[1, 2, 3]);
        assert_eq!(packet.len(), 23);
        assert_eq!(checksum(&packet[..20]), 0);
    }

    #[test]
    fn noise_is_the_same_each_time() {
        assert_eq!(Noise::new(1).bytes(64), Noise::new(1).bytes(64));
        assert_ne!(Noise::new(1).bytes(64), Noise::new(2).bytes(64));
    }
}
