//! What a test is, whichever message asked for it, and whether it can be had.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};

use super::wire::{Flags, OmniRequest, Request, TcpCcRequest, TcpStreamRequest, Text};

/// An error number of the client's system, which is taken to be Linux: the
/// client prints its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno(pub i32);

impl Errno {
    /// Out of memory.
    pub const NO_MEMORY: Self = Errno(12);
    /// Busy.
    pub const BUSY: Self = Errno(16);
    /// The request makes no sense.
    pub const INVALID: Self = Errno(22);
    /// No destination address.
    pub const NO_DESTINATION: Self = Errno(89);
    /// A datagram would be too long.
    pub const MESSAGE_SIZE: Self = Errno(90);
    /// Protocol and socket type do not go together.
    pub const PROTOCOL_TYPE: Self = Errno(91);
    /// No such protocol here.
    pub const PROTOCOL: Self = Errno(93);
    /// No such kind of socket here.
    pub const SOCKET_TYPE: Self = Errno(94);
    /// No such test here.
    pub const NOT_SUPPORTED: Self = Errno(95);
    /// No such address family here.
    pub const ADDRESS_FAMILY: Self = Errno(97);
    /// The port is taken.
    pub const ADDRESS_IN_USE: Self = Errno(98);
    /// No buffers.
    pub const NO_BUFFERS: Self = Errno(105);
    /// netserver's own number for a request type that it does not know.
    pub const UNKNOWN_REQUEST: Self = Errno(998);
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match *self {
            Self::NO_MEMORY => "out of memory",
            Self::BUSY => "a test is running",
            Self::INVALID => "the request makes no sense",
            Self::NO_DESTINATION => "the client named no data port to send to",
            Self::MESSAGE_SIZE => "longer than a datagram can be",
            Self::PROTOCOL_TYPE => "protocol and socket type do not match",
            Self::PROTOCOL => "only TCP and UDP are served",
            Self::SOCKET_TYPE => "only stream and datagram sockets are served",
            Self::NOT_SUPPORTED => "not supported",
            Self::ADDRESS_FAMILY => "only IPv4 is served",
            Self::ADDRESS_IN_USE => "the data port is in use",
            Self::NO_BUFFERS => "no buffers",
            Self::UNKNOWN_REQUEST => "unknown request",
            Errno(number) => return write!(f, "error {number}"),
        })
    }
}

/// Transport of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// TCP.
    Tcp,
    /// UDP.
    Udp,
}

/// How long a test goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Until the client has had enough.
    None,
    /// So many seconds.
    Seconds(u32),
    /// So many transactions, or bytes where there are no transactions.
    Units(u64),
}

/// What the glue shall open for a test's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Open {
    /// A TCP listener, or a UDP port.
    pub transport: Transport,
    /// The port that the client insists on; `None` leaves the choice.
    pub port: Option<u16>,
    /// Whether connection follows connection; else the listener takes one.
    pub many: bool,
    /// Whether the server will receive data.
    pub receives: bool,
    /// Whether the server will send data.
    pub sends: bool,
    /// Bytes of a request, or of a receive; `None` is the receive buffer's.
    pub receive_size: Option<u32>,
    /// Bytes of a response, or of a send; `None` is the send buffer's.
    pub send_size: Option<u32>,
    /// Send buffer that was asked for, in bytes.
    pub send_buffer: Option<u32>,
    /// Receive buffer that was asked for, in bytes.
    pub recv_buffer: Option<u32>,
    /// Turn Nagle's algorithm off.
    pub no_delay: bool,
    /// Turn keep-alive on.
    pub keep_alive: bool,
    /// IP type of service that was asked for.
    pub tos: Option<u8>,
    /// Congestion control that was asked for; empty is the default.
    pub congestion_control: Text<16>,
}

/// What the glue did open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// The port.
    pub port: u16,
    /// Send buffer of a data socket, in bytes.
    pub send_buffer: u32,
    /// Receive buffer of a data socket, in bytes.
    pub recv_buffer: u32,
    /// Whether Nagle's algorithm is off.
    pub no_delay: bool,
    /// IP type of service in force, if one was set.
    pub tos: Option<u8>,
    /// Congestion control in force; empty where there is none.
    pub congestion_control: Text<16>,
}

/// A test that can be served.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spec {
    /// The request that asked for it.
    pub request: Request,
    /// What to open for its data.
    pub open: Open,
    /// How long it goes on.
    pub limit: Limit,
    /// Whether each transaction has a connection of its own.
    pub connection_each: bool,
    /// Whether the client wants CPU utilisation.
    pub measure_cpu: bool,
    /// The omni request's flags, for what the client wants in the results.
    pub flags: Flags,
    /// The client's end of the data; port 0 where it is not known beforehand.
    pub client: SocketAddr,
}

/// What UDP over IPv4 can carry in one datagram, in bytes.
const LONGEST_DATAGRAM: u32 = 65_507;

/// Address families as netperf numbers them.
mod family {
    pub const ANY: u32 = 0;
    pub const IPV4: u32 = 4;
}

/// Socket types as netperf numbers them.
mod socket {
    pub const STREAM: u32 = 1;
    pub const DATAGRAM: u32 = 2;
}

/// IP protocol numbers.
mod protocol {
    pub const DEFAULT: u32 = 0;
    pub const TCP: u32 = 6;
    pub const UDP: u32 = 17;
}

impl Spec {
    /// Whether the test counts transactions: it goes both ways, or it only
    /// connects and closes.
    pub fn is_transactional(&self) -> bool {
        self.open.receives == self.open.sends
    }

    /// The name that the test has in netperf, or would have.
    pub fn name(&self) -> &'static str {
        match (self.open.transport, self.open.receives, self.open.sends) {
            (Transport::Tcp, true, true) if self.connection_each => "TCP_CRR",
            (Transport::Tcp, true, true) => "TCP_RR",
            (Transport::Tcp, true, false) => "TCP_STREAM",
            (Transport::Tcp, false, true) => "TCP_MAERTS",
            (Transport::Tcp, false, false) => "TCP_CC",
            (Transport::Udp, true, true) => "UDP_RR",
            (Transport::Udp, _, false) => "UDP_STREAM",
            (Transport::Udp, false, true) => "UDP_MAERTS",
        }
    }

    /// The test that an omni request asks for. `peer` is the other end of the
    /// control connection.
    pub fn from_omni(request: &OmniRequest, peer: IpAddr) -> Result<Self, Errno> {
        check_family(request.ipfamily)?;
        let transport = transport(request.protocol, request.socket_type)?;
        let (receives, sends) = (request.direction.receives(), request.direction.sends());
        let flags = request.flags;
        let connection_each = flags.has(Flags::CONNECT_TEST);
        let either = |transaction: i32, stream: i32| asked(transaction).or_else(|| asked(stream));
        let spec = Spec {
            request: Request::Omni,
            open: Open {
                transport,
                port: port(request.data_port)?,
                many: connection_each,
                receives,
                sends,
                receive_size: either(request.request_size, request.receive_size),
                send_size: either(request.response_size, request.send_size),
                send_buffer: asked(request.send_buf_size),
                recv_buffer: asked(request.recv_buf_size),
                no_delay: flags.has(Flags::NO_DELAY),
                keep_alive: flags.has(Flags::KEEP_ALIVE),
                tos: u8::try_from(request.socket_tos).ok(),
                congestion_control: request.cong_control,
            },
            limit: limit(request.test_length),
            connection_each,
            measure_cpu: flags.has(Flags::MEASURE_CPU),
            flags,
            client: client_address(request, peer)?,
        };
        spec.check()?;
        Ok(spec)
    }

    /// The test that an old TCP_STREAM request asks for.
    pub fn from_tcp_stream(request: &TcpStreamRequest, peer: IpAddr) -> Result<Self, Errno> {
        check_family(request.ipfamily)?;
        let mut spec = Spec::classic(Request::TcpStream, request.port, peer)?;
        spec.open.receives = true;
        spec.open.send_buffer = asked(request.send_buf_size);
        spec.open.recv_buffer = asked(request.recv_buf_size);
        spec.open.no_delay = request.no_delay != 0;
        // Bytes come as if they were seconds here: only the client knows.
        spec.limit = u32::try_from(request.test_length)
            .ok()
            .filter(|&seconds| seconds > 0)
            .map_or(Limit::None, Limit::Seconds);
        spec.open.receive_size = asked(request.receive_size);
        spec.measure_cpu = request.measure_cpu != 0;
        Ok(spec)
    }

    /// The test that a TCP_CC request asks for.
    pub fn from_tcp_cc(request: &TcpCcRequest, peer: IpAddr) -> Result<Self, Errno> {
        check_family(request.ipfamily)?;
        let mut spec = Spec::classic(Request::TcpCc, request.port, peer)?;
        spec.open.many = true;
        spec.connection_each = true;
        spec.open.send_buffer = asked(request.send_buf_size);
        spec.open.recv_buffer = asked(request.recv_buf_size);
        spec.open.no_delay = request.no_delay != 0;
        spec.limit = limit(request.test_length);
        spec.measure_cpu = request.measure_cpu != 0;
        Ok(spec)
    }

    fn classic(request: Request, data_port: u32, peer: IpAddr) -> Result<Self, Errno> {
        Ok(Spec {
            request,
            open: Open {
                transport: Transport::Tcp,
                port: port(data_port)?,
                many: false,
                receives: false,
                sends: false,
                receive_size: None,
                send_size: None,
                send_buffer: None,
                recv_buffer: None,
                no_delay: false,
                keep_alive: false,
                tos: None,
                congestion_control: Text::EMPTY,
            },
            limit: Limit::None,
            connection_each: false,
            measure_cpu: false,
            flags: Flags::default(),
            client: SocketAddr::new(peer, 0),
        })
    }

    /// Combinations that no test has.
    fn check(&self) -> Result<(), Errno> {
        let Open {
            receives, sends, ..
        } = self.open;
        match self.open.transport {
            Transport::Tcp if !receives && !sends && !self.connection_each => Err(Errno::INVALID),
            Transport::Tcp => Ok(()),
            Transport::Udp if self.connection_each => Err(Errno::NOT_SUPPORTED),
            Transport::Udp if !receives && !sends => Err(Errno::INVALID),
            Transport::Udp if sends && self.open.send_size > Some(LONGEST_DATAGRAM) => {
                Err(Errno::MESSAGE_SIZE)
            }
            Transport::Udp if !receives && self.client.port() == 0 => Err(Errno::NO_DESTINATION),
            Transport::Udp => Ok(()),
        }
    }
}

/// The size of a send when the client leaves it to the server, in bytes: the
/// buffer's, as far as the transport can carry it.
pub(super) fn default_send_size(transport: Transport, buffer: u32) -> u32 {
    match transport {
        Transport::Tcp => buffer.max(1),
        Transport::Udp => buffer.clamp(1, LONGEST_DATAGRAM),
    }
}

fn check_family(family: u32) -> Result<(), Errno> {
    match family {
        family::ANY | family::IPV4 => Ok(()),
        _ => Err(Errno::ADDRESS_FAMILY),
    }
}

fn transport(protocol: u32, socket_type: u32) -> Result<Transport, Errno> {
    match (protocol, socket_type) {
        (protocol::TCP | protocol::DEFAULT, socket::STREAM) => Ok(Transport::Tcp),
        (protocol::UDP | protocol::DEFAULT, socket::DATAGRAM) => Ok(Transport::Udp),
        (protocol::TCP | protocol::UDP, socket::STREAM | socket::DATAGRAM) => {
            Err(Errno::PROTOCOL_TYPE)
        }
        (protocol::TCP | protocol::UDP | protocol::DEFAULT, _) => Err(Errno::SOCKET_TYPE),
        _ => Err(Errno::PROTOCOL),
    }
}

fn port(port: u32) -> Result<Option<u16>, Errno> {
    match u16::try_from(port) {
        Ok(0) => Ok(None),
        Ok(port) => Ok(Some(port)),
        Err(_) => Err(Errno::INVALID),
    }
}

fn asked(size: i32) -> Option<u32> {
    u32::try_from(size).ok().filter(|&size| size > 0)
}

fn limit(test_length: i32) -> Limit {
    match u32::try_from(test_length) {
        Ok(0) => Limit::None,
        Ok(seconds) => Limit::Seconds(seconds),
        Err(_) => Limit::Units(test_length.unsigned_abs().into()),
    }
}

/// The client's end of the data. It names no address where it has bound none,
/// and then sends from where it controls.
fn client_address(request: &OmniRequest, peer: IpAddr) -> Result<SocketAddr, Errno> {
    let port = port(request.netperf_port)?.unwrap_or(0);
    let [a, b, c, d, ..] = request.netperf_ip;
    let address = Ipv4Addr::new(a, b, c, d);
    if address.is_unspecified() {
        Ok(SocketAddr::new(peer, port))
    } else {
        Ok(SocketAddr::new(address.into(), port))
    }
}
