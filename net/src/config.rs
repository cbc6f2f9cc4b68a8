//! What can be set: plain data, with the defaults that the appliance boots with.

use core::ops::RangeInclusive;

use smoltcp::wire::{Ipv4Address, Ipv4Cidr};

const KIB: usize = 1024;
const MICROSECOND: u64 = 1_000;
const SECOND: u64 = 1_000_000_000;

/// The whole configuration of the stack and the receive loop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    /// Where the address comes from.
    pub address: AddressConfig,
    /// Largest IP packet in bytes, at least 576; the NIC's own limit caps it.
    pub mtu: usize,
    /// Ports that data sockets are opened on when any port will do.
    pub data_ports: RangeInclusive<u16>,
    /// How the receive loop learns of frames.
    pub rx_mode: RxMode,
    /// Most frames that one poll handles (NAPI's weight).
    pub weight: usize,
    /// Frames after which receive descriptors go back to the ring; `None`
    /// keeps the driver's own choice.
    pub replenish: Option<usize>,
    /// Most interrupts a second; 0 is no limit.
    pub interrupts_per_second: u32,
    /// Whether the NIC may fill in checksums, and its verdict on those received
    /// be believed.
    pub checksum_offload: bool,
    /// Whether the NIC may cut super-segments; it needs checksum offload.
    pub tso: bool,
    /// Whether received segments of one flow are joined.
    pub gro: bool,
    /// Seeds sequence numbers, port choice and the flow hash; should differ on
    /// every boot.
    pub seed: u64,
    /// The key of what peers must not guess though they see what comes from the seed;
    /// should differ on every boot.
    pub secret: u64,
    /// Bytes that the sockets may take, of TCP and of UDP together: their
    /// buffers, and what is kept for each beside them.
    pub socket_memory: usize,
    /// What connections may take.
    pub tcp: TcpConfig,
    /// What datagrams may take.
    pub udp: UdpConfig,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            address: AddressConfig::Dhcp,
            mtu: 1500,
            data_ports: 12866..=32767,
            rx_mode: RxMode::default(),
            weight: 64,
            replenish: None,
            interrupts_per_second: 0,
            checksum_offload: true,
            tso: true,
            gro: true,
            seed: 0,
            secret: 0,
            socket_memory: 28 << 20,
            tcp: TcpConfig::default(),
            udp: UdpConfig::default(),
        }
    }
}

/// Where the address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressConfig {
    /// A DHCP server gives it.
    Dhcp,
    /// It is set by hand.
    Static {
        /// The address, which must be one that a host can have, with the
        /// length of its network's prefix.
        cidr: Ipv4Cidr,
        /// The default gateway.
        gateway: Option<Ipv4Address>,
    },
}

/// How the receive loop learns of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxMode {
    /// Interrupts start polling; polling ends when the ring is empty.
    Napi,
    /// Polls for ever and never waits. The CPU is always busy.
    Poll,
    /// As `Napi`, but where frames come less than `hold_ns` apart, goes on
    /// polling until there was none for so long. It saves an interrupt and a
    /// wake-up where the next frame is near. The time spent polling counts as
    /// busy, so netperf's CPU figures rise with it; where frames come further
    /// apart, as in a request and response test whose round trip is longer, it
    /// is not spent.
    Adaptive {
        /// Nanoseconds of silence after which the loop waits.
        hold_ns: u64,
    },
}

impl RxMode {
    /// Adaptive polling's default: a few times what an interrupt, its exit from
    /// the idle wait and its two register accesses cost. Polling for much
    /// longer than that costs more than it can save.
    pub const DEFAULT_HOLD_NS: u64 = 10 * MICROSECOND;
}

impl Default for RxMode {
    fn default() -> Self {
        Self::Adaptive {
            hold_ns: Self::DEFAULT_HOLD_NS,
        }
    }
}

/// What connections may take. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TcpConfig {
    /// Buffers of connections that carry commands.
    pub control: Buffers,
    /// The largest buffers of connections that carry data.
    pub data: Buffers,
    /// Most connections whose handshake has not ended. One more pushes out the
    /// oldest of them, so a flood of SYNs cannot keep others out.
    pub half_open: usize,
    /// A handshake that takes longer is given up.
    pub half_open_timeout: u64,
    /// A peer that is silent for so long is asked whether it is still there.
    pub keep_alive: u64,
    /// How many peers are asked a second at the most. Where there are so many
    /// that this is too few, each is asked less often.
    pub keep_alives_per_second: u32,
    /// A peer that is silent for so long, though data, or a question whether it
    /// is there, was sent to it, is taken for gone; later by as much as it is
    /// asked later than [`keep_alive`](Self::keep_alive).
    pub timeout: u64,
    /// A connection that its service has let go of ends within this time.
    pub linger: u64,
    /// How long a connection's addresses are remembered after it has ended.
    pub time_wait: u64,
    /// Most ended connections that are remembered; the oldest are forgotten.
    pub time_wait_entries: usize,
}

impl Default for TcpConfig {
    fn default() -> Self {
        Self {
            // A message of netperf's has 656 bytes, and one way there are at
            // most two at a time.
            control: Buffers {
                receive: 2 * KIB,
                send: 2 * KIB,
            },
            data: Buffers {
                receive: 512 * KIB,
                send: 256 * KIB,
            },
            half_open: 256,
            half_open_timeout: 10 * SECOND,
            keep_alive: 10 * SECOND,
            keep_alives_per_second: 100,
            timeout: 30 * SECOND,
            linger: 20 * SECOND,
            time_wait: 10 * SECOND,
            time_wait_entries: 4096,
        }
    }
}

/// Sizes of a socket's buffers, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Receive buffer.
    pub receive: usize,
    /// Send buffer.
    pub send: usize,
}

/// How many sockets of one kind there may be, and how large their buffers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassConfig {
    /// Most sockets at a time.
    pub count: usize,
    /// Bytes of a socket's receive buffer.
    pub rx_bytes: usize,
    /// Bytes of a socket's transmit buffer.
    pub tx_bytes: usize,
}

/// What datagrams may take.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UdpConfig {
    /// UDP sockets.
    pub sockets: ClassConfig,
    /// Most datagrams that a socket holds in each direction.
    pub packets: usize,
    /// Datagrams that can be put together from fragments at a time, 64 KiB
    /// each. One more pushes out the oldest.
    pub reassembly_buffers: usize,
    /// Nanoseconds after which an incomplete datagram is thrown away.
    pub reassembly_timeout: u64,
    /// Most ICMP "port unreachable" and "protocol unreachable" answers a second.
    pub unreachable_per_second: u32,
}

impl Default for UdpConfig {
    fn default() -> Self {
        Self {
            sockets: ClassConfig {
                count: 64,
                rx_bytes: 256 * KIB,
                tx_bytes: 192 * KIB,
            },
            packets: 512,
            reassembly_buffers: 8,
            reassembly_timeout: 2 * SECOND,
            unreachable_per_second: 1000,
        }
    }
}
