//! Sockets as QEMU's `-netdev dgram` and `-netdev stream` have them.

use std::io::{self, IoSlice, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};

use super::{FRAME_MAX, Wire, some_frame};

/// A Unix datagram socket: a frame is a datagram.
#[derive(Debug)]
pub struct Datagram {
    socket: UnixDatagram,
    own: PathBuf,
    peer: PathBuf,
    lost: u64,
}

impl Datagram {
    /// Binds `own` and sends to `peer`, which may come into being later.
    ///
    /// # Errors
    ///
    /// The socket cannot be bound there.
    pub fn bind(own: &Path, peer: &Path) -> io::Result<Self> {
        let socket = UnixDatagram::bind(own)?;
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            own: own.into(),
            peer: peer.into(),
            lost: 0,
        })
    }
}

impl Drop for Datagram {
    fn drop(&mut self) {
        // It may be gone with its folder.
        drop(std::fs::remove_file(&self.own));
    }
}

impl Wire for Datagram {
    fn send(&mut self, frame: &[u8]) {
        if self.socket.send_to(frame, &self.peer).is_err() {
            self.lost += 1;
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        some_frame(self.socket.recv(buffer))
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

/// A Unix stream socket: each frame comes after its length, 32 bits in network order.
#[derive(Debug)]
pub struct Stream {
    socket: UnixStream,
    /// What has come and is not yet a whole frame.
    coming: Vec<u8>,
    /// What the far end has not taken yet, after a frame that it took in part.
    going: Vec<u8>,
    lost: u64,
}

impl Stream {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    ///
    /// Nobody listens there.
    pub fn connect(path: &Path) -> io::Result<Self> {
        Self::new(UnixStream::connect(path)?)
    }

    fn new(socket: UnixStream) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        Ok(Self {
            socket,
            coming: Vec::new(),
            going: Vec::new(),
            lost: 0,
        })
    }

    /// The frame that begins what has come, if it is whole: where it is.
    fn whole(&self) -> io::Result<Option<std::ops::Range<usize>>> {
        let Some(length) = self.coming.first_chunk() else {
            return Ok(None);
        };
        let len = u32::from_be_bytes(*length) as usize;
        if len > FRAME_MAX {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                format!("a frame of {len} bytes: the far end speaks something else"),
            ));
        }
        let range = 4..4 + len;
        Ok((self.coming.len() >= range.end).then_some(range))
    }

    /// Sends the rest of a frame. Whether there is none left.
    fn finish(&mut self) -> bool {
        while !self.going.is_empty() {
            match self.socket.write(&self.going) {
                Ok(len) if len > 0 => drop(self.going.drain(..len)),
                _ => return false,
            }
        }
        true
    }
}

impl Wire for Stream {
    fn send(&mut self, frame: &[u8]) {
        if !self.finish() {
            self.lost += 1;
            return;
        }
        let length = (frame.len() as u32).to_be_bytes();
        let parts = [IoSlice::new(&length), IoSlice::new(frame)];
        match self.socket.write_vectored(&parts) {
            Ok(0) | Err(_) => self.lost += 1,
            Ok(len) => {
                let all = length.iter().chain(frame);
                self.going.extend(all.skip(len));
                self.finish();
            }
        }
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        let range = match self.whole()? {
            Some(range) => range,
            None => {
                let mut more = [0; 16_384];
                match some_frame(self.socket.read(&mut more))? {
                    None => return Ok(None),
                    Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                    Some(len) => self.coming.extend_from_slice(&more[..len]),
                }
                match self.whole()? {
                    Some(range) => range,
                    None => return Ok(None),
                }
            }
        };
        let len = range.len().min(buffer.len());
        buffer[..len].copy_from_slice(&self.coming[range.start..][..len]);
        self.coming.drain(..range.end);
        Ok(Some(len))
    }

    fn readable(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }

    fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_frames_both_ways() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("1"), folder.path().join("2"));
        let mut first = Datagram::bind(&one, &two).unwrap();
        first.send(b"nobody is there yet");
        assert_eq!(first.lost(), 1);
        let mut second = Datagram::bind(&two, &one).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(second.receive(&mut buffer).unwrap(), None);
        first.send(b"frame");
        assert_eq!(second.receive(&mut buffer).unwrap(), Some(5));
        assert_eq!(&buffer[..5], b"frame");
        drop(first);
        assert!(!one.exists());
    }

    #[test]
    fn frames_of_a_stream_may_come_in_pieces() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(ours).unwrap();
        let mut buffer = [0; 100];
        let bytes = [0, 0, 0, 3, 1, 2, 3, 0, 0, 0, 1, 9];
        for (at, byte) in bytes.iter().enumerate() {
            theirs.write_all(&[*byte]).unwrap();
            let expected = match at {
                6 => Some(3),
                11 => Some(1),
                _ => None,
            };
            assert_eq!(stream.receive(&mut buffer).unwrap(), expected, "{at}");
        }
        assert_eq!(buffer[0], 9);
        stream.send(&[7; 5]);
        let mut sent = [0; 9];
        theirs.read_exact(&mut sent).unwrap();
        assert_eq!(sent, [0, 0, 0, 5, 7, 7, 7, 7, 7]);
    }

    #[test]
    fn a_stream_that_ends_or_speaks_nonsense_is_an_error() {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(ours).unwrap();
        (&theirs).write_all(&[0xff; 8]).unwrap();
        assert!(stream.receive(&mut [0; 10]).is_err());
        let (ours, theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(ours).unwrap();
        drop(theirs);
        assert!(stream.receive(&mut [0; 10]).is_err());
        stream.send(&[1]);
        assert_eq!(stream.lost(), 1);
    }

    #[test]
    fn a_far_end_that_does_not_read_loses_whole_frames_only() {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut stream = Stream::new(ours).unwrap();
        let frame = vec![5; 60_000];
        for _ in 0..100 {
            stream.send(&frame);
        }
        let lost = stream.lost();
        assert!(lost > 0 && lost < 100);
        theirs.set_nonblocking(true).unwrap();
        let mut all = Vec::new();
        let mut buffer = vec![0; 100_000];
        loop {
            match theirs.read(&mut buffer) {
                Ok(len) => all.extend_from_slice(&buffer[..len]),
                Err(_) if stream.finish() && stream.going.is_empty() => {
                    match theirs.read(&mut buffer) {
                        Ok(len) => all.extend_from_slice(&buffer[..len]),
                        Err(_) => break,
                    }
                }
                Err(_) => {}
            }
        }
        assert_eq!(all.len() as u64, (100 - lost) * 60_004);
    }
}
