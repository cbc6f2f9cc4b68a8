//! A TCP peer that does what it is told, right or wrong: a station of its own on the
//! tap, without a kernel's TCP behind it.

use std::mem;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use etherparse::TransportSlice;
use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TcpHeader, TcpOptionElement};
use nix::errno::Errno;
use nix::sys::socket::sockopt::ReceiveTimeout;
use nix::sys::socket::{MsgFlags, recv, send, setsockopt};
use nix::sys::time::TimeVal;

use crate::frames::{BROADCAST, packet_socket};
use crate::machine::mac;
use crate::network::Network;

const TIMEOUT: Duration = Duration::from_secs(5);
const ETHERTYPE_IPV4: u16 = 0x0800;

/// A connection of which every segment is made by hand.
#[derive(Debug)]
pub struct RawPeer {
    socket: OwnedFd,
    own: (Ipv4Addr, u16),
    other: (Ipv4Addr, u16),
    /// The sequence number of what is sent next.
    pub next: u32,
    /// The sequence number of what is to come next; acknowledged in what is sent.
    pub awaited: u32,
    /// The window in what is sent.
    pub window: u16,
}

/// A segment that has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Its header.
    pub header: TcpHeader,
    /// Its bytes.
    pub payload: Vec<u8>,
}

impl Received {
    /// One past its last sequence number.
    pub fn end(&self) -> u32 {
        let flags = u32::from(self.header.syn) + u32::from(self.header.fin);
        let length = self.payload.len() as u32 + flags;
        self.header.sequence_number.wrapping_add(length)
    }
}

impl RawPeer {
    /// Connects from the address `own` of the tap's network, which nobody else has,
    /// to `other`. It offers `window` without scaling, and no options but an MSS.
    pub fn connect(
        network: &Network,
        own: Ipv4Addr,
        other: SocketAddr,
        window: u16,
    ) -> Result<Self> {
        network.as_tap()?;
        let socket = network
            .enter(|| packet_socket(ETHERTYPE_IPV4))?
            .context("no packet socket")?;
        only_for(&socket, own)?;
        let IpAddr::V4(address) = other.ip() else {
            bail!("IPv4 only");
        };
        let mut peer = Self {
            socket,
            own: (own, 40_000),
            other: (address, other.port()),
            next: 0x7fff_ff00,
            awaited: 0,
            window,
        };
        peer.introduce()?;
        peer.send_with(&[], |tcp| {
            tcp.syn = true;
            tcp.ack = false;
            let _ = tcp.set_options(&[TcpOptionElement::MaximumSegmentSize(1460)]);
        })?;
        let reply = peer.receive(TIMEOUT)?.context("no answer to the SYN")?;
        ensure!(reply.header.syn && reply.header.ack, "refused: {reply:?}");
        peer.next = peer.next.wrapping_add(1);
        peer.awaited = reply.end();
        peer.acknowledge()?;
        Ok(peer)
    }

    /// Tells the appliance its station address, by asking for that of the appliance.
    fn introduce(&self) -> Result<()> {
        let mut request = vec![0, 1, 8, 0, 6, 4, 0, 1];
        request.extend(self.mac());
        request.extend(self.own.0.octets());
        request.extend([0; 6]);
        request.extend(self.other.0.octets());
        let frame = [&BROADCAST[..], &self.mac(), &[0x08, 0x06], &request].concat();
        self.put(&frame)
    }

    fn mac(&self) -> [u8; 6] {
        let [a, b, c, d] = self.own.0.octets();
        [0x02, 1, a, b, c, d]
    }

    /// Sends bytes, or nothing, as what comes next in the stream, and moves on.
    pub fn send(&mut self, payload: &[u8]) -> Result<()> {
        self.send_with(payload, |tcp| tcp.psh = !payload.is_empty())?;
        self.next = self.next.wrapping_add(payload.len() as u32);
        Ok(())
    }

    /// Acknowledges what is before `awaited`.
    pub fn acknowledge(&self) -> Result<()> {
        self.send_with(&[], |_| {})
    }

    /// Sends a segment with whatever `change` makes of its header.
    pub fn send_with(&self, payload: &[u8], change: impl FnOnce(&mut TcpHeader)) -> Result<()> {
        self.put(&self.segment(payload, change))
    }

    /// The frame of a segment.
    pub fn segment(&self, payload: &[u8], change: impl FnOnce(&mut TcpHeader)) -> Vec<u8> {
        let mut tcp = TcpHeader::new(self.own.1, self.other.1, self.next, self.window);
        tcp.ack = true;
        tcp.acknowledgment_number = self.awaited;
        change(&mut tcp);
        let builder = PacketBuilder::ethernet2(self.mac(), mac(0))
            .ipv4(self.own.0.octets(), self.other.0.octets(), 64)
            .tcp_header(tcp);
        let mut frame = Vec::new();
        builder.write(&mut frame, payload).expect("there is memory");
        frame
    }

    fn put(&self, frame: &[u8]) -> Result<()> {
        match send(self.socket.as_raw_fd(), frame, MsgFlags::empty()) {
            // The queue is full: lost, as on any wire.
            Ok(_) | Err(Errno::ENOBUFS) => Ok(()),
            Err(error) => bail!("cannot send: {error}"),
        }
    }

    /// The next segment of the connection, or `None` if there is none within `timeout`.
    pub fn receive(&self, timeout: Duration) -> Result<Option<Received>> {
        let deadline = Instant::now() + timeout;
        let mut buffer = vec![0; 2048];
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let flags = match left.is_zero() {
                true => MsgFlags::MSG_DONTWAIT,
                false => MsgFlags::empty(),
            };
            // To wait for nothing is to wait for ever.
            let wait = left.max(Duration::from_millis(1));
            let wait = TimeVal::new(wait.as_secs().cast_signed(), wait.subsec_micros().into());
            setsockopt(&self.socket, ReceiveTimeout, &wait)?;
            match recv(self.socket.as_raw_fd(), &mut buffer, flags) {
                Ok(count) => {
                    if let Some(received) = self.parse(&buffer[..count]) {
                        return Ok(Some(received));
                    }
                }
                Err(Errno::EAGAIN) if left.is_zero() => return Ok(None),
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                Err(error) => bail!("cannot receive: {error}"),
            }
        }
    }

    fn parse(&self, frame: &[u8]) -> Option<Received> {
        let sliced = SlicedPacket::from_ethernet(frame).ok()?;
        let (Some(NetSlice::Ipv4(ip)), Some(TransportSlice::Tcp(tcp))) =
            (sliced.net, sliced.transport)
        else {
            return None;
        };
        let from = (ip.header().source_addr(), tcp.source_port());
        let ours = from == self.other && tcp.destination_port() == self.own.1;
        ours.then(|| Received {
            header: tcp.to_header(),
            payload: tcp.payload().to_vec(),
        })
    }
}

/// Has a packet socket receive only what is sent to the IPv4 address `own`.
fn only_for(socket: &OwnedFd, own: Ipv4Addr) -> Result<()> {
    const DESTINATION: u32 = 14 + 16;
    let statement = |code: u32, k: u32| libc::sock_filter {
        code: code as u16,
        jt: 0,
        jf: 0,
        k,
    };
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, DESTINATION),
        libc::sock_filter {
            jf: 1,
            ..statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, own.into())
        },
        statement(libc::BPF_RET | libc::BPF_K, u32::MAX),
        statement(libc::BPF_RET | libc::BPF_K, 0),
    ];
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: `filter` points at `program`, which has `len` entries; the kernel copies
    // both.
    let result = unsafe {
        libc::setsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_ATTACH_FILTER,
            (&raw const filter).cast(),
            mem::size_of_val(&filter) as libc::socklen_t,
        )
    };
    ensure!(
        result == 0,
        "no filter: {}",
        std::io::Error::last_os_error()
    );
    Ok(())
}
