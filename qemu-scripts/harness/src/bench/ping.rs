//! A client for requests and responses that does nothing else: one request under
//! way at a time, as fast as the answers come.
//!
//! It speaks to the reflector (`rx=reflect`) in datagrams or bare Ethernet frames,
//! and to any netserver through a control connection of netperf's, so that the
//! ceiling and what is below it are measured by the same client.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt};
use nix::sys::time::TimeVal;

use super::message::{self, Transport};
use crate::frames;
use crate::measure::percentile;

/// The reflector's UDP port.
pub const REFLECTOR_PORT: u16 = 7;
/// The type of the frames that the reflector answers.
pub const ETHERTYPE: u16 = 0x88b5;
/// An answer that takes longer is lost.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(250);
/// After so many losses in a row nobody is there.
const LOSSES: u32 = 20;
const CONTROL_TIMEOUT: Duration = Duration::from_secs(5);
const MICROSECOND: f64 = 1_000.0;

/// What a run came to.
#[derive(Clone, Debug, PartialEq)]
pub struct PingResult {
    /// Requests that were answered.
    pub transactions: u64,
    /// Requests that were not.
    pub lost: u64,
    /// Seconds.
    pub elapsed: f64,
    /// Microseconds of the quickest answer.
    pub min: f64,
    /// Microseconds within which half of the answers came.
    pub median: f64,
    /// Microseconds within which 99 of 100 came.
    pub p99: f64,
}

impl PingResult {
    /// Answered requests a second.
    pub fn rate(&self) -> f64 {
        self.transactions as f64 / self.elapsed
    }

    fn new(mut nanoseconds: Vec<u64>, lost: u64, elapsed: Duration) -> Result<Self> {
        nanoseconds.sort_unstable();
        let at = |percent| percentile(&nanoseconds, percent).map(|ns| ns as f64 / MICROSECOND);
        Ok(Self {
            transactions: nanoseconds.len() as u64,
            lost,
            elapsed: elapsed.as_secs_f64(),
            min: at(0).context("there was no answer at all")?,
            median: at(50).context("no median")?,
            p99: at(99).context("no percentile")?,
        })
    }
}

/// Sends datagrams of `bytes` bytes to `peer`, which answers each with one.
pub fn udp(peer: SocketAddr, bytes: usize, length: Duration) -> Result<PingResult> {
    ping_datagrams(&udp_socket(peer.ip())?, peer, bytes, length)
}

/// Sends frames with `bytes` bytes of payload to the appliance's first NIC, from
/// `tap0` of the namespace that the calling thread is in.
pub fn ethernet(bytes: usize, length: Duration) -> Result<PingResult> {
    let socket = frames::packet_socket(ETHERTYPE).context("no packet socket")?;
    // Shorter ones come back as long as Ethernet's shortest.
    let request = frames::ethernet(ETHERTYPE, &vec![0x5a; bytes]);
    ping(socket.as_fd(), &request, length)
}

/// Opens a UDP_RR test of netperf's at the netserver `control`, and runs it with
/// this client.
pub fn netperf_udp(control: SocketAddr, bytes: usize, length: Duration) -> Result<PingResult> {
    let socket = udp_socket(control.ip())?;
    let mut session = TcpStream::connect_timeout(&control, CONTROL_TIMEOUT)
        .with_context(|| format!("no control connection to {control}"))?;
    session.set_read_timeout(Some(CONTROL_TIMEOUT))?;
    let port = socket.local_addr()?.port();
    session.write_all(&message::request(Transport::Udp(port), bytes, length))?;
    let mut answer = [0; message::LEN];
    session
        .read_exact(&mut answer)
        .context("netserver does not answer")?;
    let peer = SocketAddr::new(control.ip(), message::data_port(&answer)?);
    let result = ping_datagrams(&socket, peer, bytes, length)?;
    // Empty datagrams are netperf's word for the end; the results tell that the
    // server has heard it.
    for _ in 0..3 {
        // The second may come to a port that is closed by then.
        let _ = socket.send(&[]);
    }
    session
        .read_exact(&mut answer)
        .context("netserver does not end the test")?;
    Ok(result)
}

fn udp_socket(peer: IpAddr) -> Result<UdpSocket> {
    let any: IpAddr = match peer {
        IpAddr::V4(_) => std::net::Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => std::net::Ipv6Addr::UNSPECIFIED.into(),
    };
    Ok(UdpSocket::bind((any, 0))?)
}

fn ping_datagrams(
    socket: &UdpSocket,
    peer: SocketAddr,
    bytes: usize,
    length: Duration,
) -> Result<PingResult> {
    ensure!(bytes > 0, "an empty datagram is no request");
    socket.connect(peer)?;
    ping(socket.as_fd(), &vec![0x5a; bytes], length)
}

/// The loop. A loss costs its timeout; answers that come later than that are thrown
/// away, lest they be taken for those of the next request.
fn ping(socket: BorrowedFd<'_>, request: &[u8], length: Duration) -> Result<PingResult> {
    let timeout = TimeVal::new(0, ANSWER_TIMEOUT.subsec_micros().into());
    setsockopt(&socket, ReceiveTimeout, &timeout)?;
    let fd = socket.as_raw_fd();
    let mut buffer = vec![0; request.len().max(2048)];
    let mut nanoseconds = Vec::new();
    let (mut lost, mut in_a_row) = (0, 0);
    let begin = Instant::now();
    let mut last = begin;
    while last - begin < length {
        // An unreachable port is told here or in the receive, as a loss is.
        let answered = match send(fd, request, MsgFlags::empty()) {
            Ok(_) => answer(fd, &mut buffer, MsgFlags::empty())?,
            Err(Errno::ECONNREFUSED) => false,
            Err(error) => bail!("cannot send: {error}"),
        };
        let now = Instant::now();
        if answered {
            nanoseconds.push(u64::try_from((now - last).as_nanos())?);
            in_a_row = 0;
        } else {
            lost += 1;
            in_a_row += 1;
            ensure!(in_a_row < LOSSES, "no answer to {LOSSES} requests in a row");
            while answer(fd, &mut buffer, MsgFlags::MSG_DONTWAIT)? {}
        }
        last = now;
    }
    PingResult::new(nanoseconds, lost, last - begin)
}

/// Whether an answer came in time.
fn answer(fd: i32, buffer: &mut [u8], flags: MsgFlags) -> Result<bool> {
    match recv(fd, buffer, flags) {
        Ok(_) => Ok(true),
        Err(Errno::EAGAIN | Errno::EINTR | Errno::ECONNREFUSED) => Ok(false),
        Err(error) => bail!("cannot receive: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A peer that answers datagrams until an empty one comes, all but the first
    /// `deaf` of them.
    fn echo(deaf: u32) -> (SocketAddr, std::thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let address = socket.local_addr().unwrap();
        let thread = std::thread::spawn(move || {
            let mut buffer = [0; 2048];
            let mut count = 0;
            while let Ok((n @ 1.., from)) = socket.recv_from(&mut buffer) {
                count += 1;
                if count > deaf {
                    let _ = socket.send_to(&buffer[..n], from);
                }
            }
        });
        (address, thread)
    }

    fn end(address: SocketAddr, thread: std::thread::JoinHandle<()>) {
        let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
        socket.send_to(&[], address).unwrap();
        thread.join().unwrap();
    }

    #[test]
    fn answers_are_counted_and_timed() {
        let (address, thread) = echo(0);
        let result = udp(address, 100, Duration::from_millis(100)).unwrap();
        assert!(result.transactions > 10, "{result:?}");
        assert_eq!(result.lost, 0);
        assert!(result.min > 0.0 && result.min <= result.median);
        assert!(result.median <= result.p99);
        let mean = result.elapsed / result.transactions as f64 * 1e6;
        assert!(result.min <= mean, "{result:?}");
        assert!((result.rate() * result.elapsed - result.transactions as f64).abs() < 1e-6);
        end(address, thread);
    }

    #[test]
    fn losses_cost_time_and_nothing_else() {
        let (address, thread) = echo(2);
        let result = udp(address, 1, Duration::from_secs(1)).unwrap();
        assert_eq!(result.lost, 2);
        assert!(
            result.elapsed >= 1.0 && result.p99 < 250_000.0,
            "{result:?}"
        );
        end(address, thread);
    }

    #[test]
    fn nobody_there_is_an_error_in_bounded_time() {
        let begin = Instant::now();
        let (address, thread) = echo(u32::MAX);
        let error = udp(address, 1, Duration::from_secs(60)).unwrap_err();
        assert!(error.to_string().contains("no answer"), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(10));
        end(address, thread);
        assert!(udp(address, 0, Duration::from_secs(1)).is_err());
    }
}
