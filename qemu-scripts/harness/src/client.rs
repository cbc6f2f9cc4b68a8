//! A netperf client of our own, for what netperf does not show: the bytes that the
//! server sends, and where they are in the sequence space.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};

const TIMEOUT: Duration = Duration::from_secs(10);
/// Bytes of a control message; docs/netperf.md has the fields' places.
const MESSAGE: usize = 656;
const OMNI: u32 = 97;
const OMNI_RESPONSE: u32 = 98;

/// What a test is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// The server sends so many bytes, as in TCP_MAERTS.
    Send(u32),
    /// The server receives until the client closes, as in TCP_STREAM.
    Receive,
    /// The server answers each request of so many bytes with as many, as in TCP_RR.
    Answer(u32),
}

/// A test that the server has agreed to.
#[derive(Debug)]
pub struct OwnTest {
    control: TcpStream,
    /// Where its data connection is to be made to.
    pub data: SocketAddr,
    /// The server's send buffer in bytes.
    pub send_buffer: usize,
}

impl OwnTest {
    /// Agrees with the netserver at `server` on a test over TCP, whose data
    /// connection will come from `from`; `None` is the address of the control
    /// connection. The calling thread must be where the server can be reached.
    pub fn open(server: SocketAddr, plan: Plan, from: Option<Ipv4Addr>) -> Result<Self> {
        let mut control = connect(server).context("no control connection")?;
        control.write_all(&request(plan, from))?;
        let mut answer = [0; MESSAGE];
        control
            .read_exact(&mut answer)
            .context("netserver does not answer")?;
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|n| answer[at + n]));
        ensure!(
            word(0) == OMNI_RESPONSE && word(4) == 0,
            "netserver refuses: message {} with error {}",
            word(0),
            word(4)
        );
        Ok(Self {
            control,
            data: SocketAddr::new(server.ip(), word(52).try_into()?),
            send_buffer: word(20).try_into()?,
        })
    }

    /// Makes the data connection.
    pub fn connect(&self) -> Result<TcpStream> {
        connect(self.data).context("no data connection")
    }

    /// Waits for the server's results; returns how many bytes it has received.
    pub fn results(mut self) -> Result<u64> {
        let mut results = [0; MESSAGE];
        self.control
            .read_exact(&mut results)
            .context("no results from netserver")?;
        let received = std::array::from_fn(|n| results[8 + n]);
        Ok(u64::from_be_bytes(received))
    }
}

fn connect(to: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect_timeout(&to, TIMEOUT)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(stream)
}

fn request(plan: Plan, from: Option<Ipv4Addr>) -> [u8; MESSAGE] {
    const UNSET: u32 = u32::MAX;
    const SERVER_SENDS: u32 = 2;
    const SERVER_RECEIVES: u32 = 4;
    let (direction, size, length) = match plan {
        Plan::Send(bytes) => (SERVER_SENDS, UNSET, bytes.wrapping_neg()),
        Plan::Receive => (SERVER_RECEIVES, UNSET, 0),
        Plan::Answer(bytes) => (SERVER_SENDS | SERVER_RECEIVES, bytes, 0),
    };
    let mut message = [0; MESSAGE];
    let mut put = |at: usize, value: u32| {
        message[at..at + 4].copy_from_slice(&value.to_be_bytes());
    };
    put(0, OMNI);
    // Any CPU; buffers and sizes of the server's choice.
    for at in [4, 8, 12, 32, 36] {
        put(at, UNSET);
    }
    // Alignment and number of its buffers.
    for (alignment, width) in [(16, 24), (40, 48)] {
        put(alignment, 8);
        put(width, 1);
    }
    put(28, size);
    put(52, size);
    put(64, length);
    // IPv4, stream, TCP.
    put(92, 4);
    put(96, 1);
    put(100, 6);
    put(104, direction);
    if let Some(from) = from {
        put(120, from.into());
    }
    message
}

/// Reads what the server sends, to its end or `most` bytes, and finds each byte where
/// it belongs. Returns how many bytes came, and how often the server's buffer began
/// anew before its end, as it does when all of it was acknowledged.
///
/// What the appliance sends is in docs/netperf.md.
pub fn read_pattern(stream: &mut TcpStream, period: usize, most: u64) -> Result<(u64, u64)> {
    let mut pattern = Pattern::new(period);
    let mut buffer = vec![0; 256 * 1024];
    let mut count = 0;
    while count < most {
        let room = buffer
            .len()
            .min((most - count).try_into().unwrap_or(usize::MAX));
        let read = match stream.read(&mut buffer[..room]) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => bail!("after {count} bytes: {error}"),
        };
        pattern
            .check(&buffer[..read])
            .with_context(|| format!("after {count} bytes"))?;
        count += read as u64;
    }
    Ok((count, pattern.restarts))
}

/// The next place in the server's buffer.
struct Pattern {
    buffer: Vec<u8>,
    place: usize,
    restarts: u64,
}

impl Pattern {
    /// Where the buffer begins; no other byte is the same.
    const BEGIN: u8 = 0xff;

    fn new(period: usize) -> Self {
        let digits = |n: usize| [21, 14, 7, 0].map(|bits| (n >> bits & 0x7f) as u8);
        let mut buffer: Vec<u8> = (0..period.div_ceil(4)).flat_map(digits).collect();
        buffer.truncate(period);
        buffer[0] = Self::BEGIN;
        Self {
            buffer,
            place: 0,
            restarts: 0,
        }
    }

    fn check(&mut self, mut bytes: &[u8]) -> Result<()> {
        while let Some(&first) = bytes.first() {
            if first == Self::BEGIN && self.place > 0 {
                self.restarts += 1;
                self.place = 0;
            }
            // Up to the end of the buffer, or to a begin before that.
            let rest = &self.buffer[self.place..];
            let begin = bytes[1..].iter().position(|byte| *byte == Self::BEGIN);
            let count = rest.len().min(begin.map_or(bytes.len(), |at| at + 1));
            let (piece, others) = bytes.split_at(count);
            let wrong = rest.iter().zip(piece).position(|(a, b)| a != b);
            if let Some(at) = wrong {
                let place = self.place + at;
                let found = &piece[at..piece.len().min(at + 8)];
                bail!("byte {place} of the buffer, and then {found:02x?}");
            }
            self.place = (self.place + count) % self.buffer.len();
            bytes = others;
        }
        Ok(())
    }
}

/// The sequence number that a connection awaits next. Needs root.
pub fn awaited_sequence(stream: &TcpStream) -> Result<u32> {
    let set = |option: i32, value: i32| {
        // SAFETY: the pointer and the length are those of `value`.
        let result = unsafe {
            libc::setsockopt(
                stream.as_raw_fd(),
                libc::IPPROTO_TCP,
                option,
                (&raw const value).cast(),
                size_of::<i32>() as libc::socklen_t,
            )
        };
        let error = std::io::Error::last_os_error();
        ensure!(result == 0, "TCP option {option}: {error}");
        Ok(())
    };
    // Linux's <linux/tcp.h>: repair mode shows the numbers; leaving it by -1 sends no
    // probe of the window.
    const RECEIVE_QUEUE: i32 = 1;
    const OFF_WITHOUT_PROBE: i32 = -1;
    set(libc::TCP_REPAIR, 1)?;
    set(libc::TCP_REPAIR_QUEUE, RECEIVE_QUEUE)?;
    let mut sequence = 0_u32;
    let mut length = size_of::<u32>() as libc::socklen_t;
    // SAFETY: the pointers are those of local variables, and `length` is the first
    // one's size.
    let result = unsafe {
        libc::getsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUEUE_SEQ,
            (&raw mut sequence).cast(),
            &raw mut length,
        )
    };
    let error = std::io::Error::last_os_error();
    set(libc::TCP_REPAIR, OFF_WITHOUT_PROBE)?;
    ensure!(result == 0, "no sequence number: {error}");
    Ok(sequence)
}

/// Where netperf's control connections are made to.
pub fn server(address: IpAddr) -> SocketAddr {
    SocketAddr::new(address, crate::network::CONTROL_PORT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pattern_is_followed_in_pieces_of_any_size() {
        let buffer = Pattern::new(4096).buffer;
        assert_eq!(buffer[..8], [0xff, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(buffer[4092..], [0, 0, 7, 127]);
        let stream = [&buffer[..], &buffer, &buffer[..100]].concat();
        for size in [1, 3, 4, 7, 1000, 4096, 9000] {
            let mut pattern = Pattern::new(4096);
            for piece in stream.chunks(size) {
                pattern.check(piece).unwrap();
            }
            assert_eq!((pattern.restarts, pattern.place), (0, 100));
        }
    }

    #[test]
    fn a_buffer_may_begin_anew_and_nothing_else() {
        let buffer = Pattern::new(4096).buffer;
        let mut pattern = Pattern::new(4096);
        pattern
            .check(&[&buffer[..401], &buffer[..100]].concat())
            .unwrap();
        pattern.check(&buffer[..3]).unwrap();
        assert_eq!((pattern.restarts, pattern.place), (2, 3));
        for wrong in [&buffer[404..410], &buffer[396..404], &buffer[1..9], &[0xfe]] {
            let mut pattern = Pattern::new(4096);
            pattern.check(&buffer[..400]).unwrap();
            assert!(pattern.check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn sequence_numbers_are_read() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let mut near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        if !nix::unistd::geteuid().is_root() {
            return;
        }
        let before = awaited_sequence(&near).unwrap();
        far.write_all(&[0; 100]).unwrap();
        near.read_exact(&mut [0; 100]).unwrap();
        let after = awaited_sequence(&near).unwrap();
        assert_eq!(after.wrapping_sub(before), 100);
    }
}
