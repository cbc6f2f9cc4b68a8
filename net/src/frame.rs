//! A first look at a received frame: what it is, whom it is for, and whether
//! it is what was sent.
//!
//! smoltcp parses the frame again. This look exists because the flow, and with
//! it the socket set that smoltcp is given, must be known before; and because
//! the NIC's checksum verdict differs from frame to frame, which smoltcp's
//! fixed capabilities cannot say.

use core::hash::{Hash, Hasher};
use core::net::SocketAddrV4;

use smoltcp::wire::{ArpPacket, ArpRepr, EthernetProtocol, IpProtocol, Ipv4Address};
use uniperf_drivers::nic::{MacAddress, RxChecksum, RxFrame};

use crate::checksum::{Sum, pseudo_header};

/// Bytes of an Ethernet header.
pub const ETHERNET_HEADER: usize = 14;
/// Bytes of an IPv4 header without options.
pub const IPV4_HEADER: usize = 20;
/// Bytes of a TCP header without options.
pub const TCP_HEADER: usize = 20;
/// Bytes of a UDP header.
pub const UDP_HEADER: usize = 8;

/// Whether a frame that was found to be sound is a TCP segment.
pub fn is_tcp(frame: &[u8]) -> bool {
    const ETHERTYPE: core::ops::Range<usize> = 12..14;
    const IPV4_PROTOCOL: usize = ETHERNET_HEADER + 9;
    frame[ETHERTYPE] == u16::from(EthernetProtocol::Ipv4).to_be_bytes()
        && frame.get(IPV4_PROTOCOL).copied().map(IpProtocol::from) == Some(IpProtocol::Tcp)
}

/// Why a frame goes no further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drop {
    /// A checksum is wrong.
    Checksum,
    /// Shorter than its headers, or than they say it is.
    Truncated,
    /// Longer than the MTU allows.
    Oversized,
    /// Its headers contradict themselves or the RFCs.
    Malformed,
    /// For another station.
    NotOurs,
    /// Neither IPv4 nor ARP.
    Protocol,
}

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// An ARP packet.
    Arp,
    /// A whole TCP segment.
    Tcp(TcpFrame),
    /// A whole UDP datagram.
    Udp(UdpFrame<'a>),
    /// A part of a datagram.
    Fragment(Fragment<'a>),
    /// A whole ICMP message.
    Icmp,
    /// Any other IPv4 packet.
    OtherIp,
}

/// What the flow table wants to know of a TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFrame {
    /// Which connection it belongs to.
    pub tuple: Tuple,
    /// The flags byte.
    pub flags: TcpFlags,
    /// The sequence number.
    pub seq: u32,
    /// The sequence number behind its last byte, SYN and FIN counted.
    pub end: u32,
    /// The acknowledgement number.
    pub ack: u32,
}

/// The four numbers that name a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple {
    /// Our address.
    pub local: Ipv4Address,
    /// The peer's address.
    pub remote: Ipv4Address,
    /// Our port.
    pub local_port: u16,
    /// The peer's port.
    pub remote_port: u16,
}

impl Tuple {
    /// No connection.
    pub const NONE: Self = Self {
        local: Ipv4Address::UNSPECIFIED,
        remote: Ipv4Address::UNSPECIFIED,
        local_port: 0,
        remote_port: 0,
    };
}

/// In two words, for the flow table's hash.
impl Hash for Tuple {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let addresses = u64::from(u32::from(self.local)) << 32 | u64::from(u32::from(self.remote));
        let ports = u64::from(self.local_port) << 16 | u64::from(self.remote_port);
        state.write_u64(addresses);
        state.write_u64(ports);
    }
}

/// TCP's flags (RFC 9293 section 3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    const FIN: u8 = 1 << 0;
    const SYN: u8 = 1 << 1;
    const RST: u8 = 1 << 2;
    const PSH: u8 = 1 << 3;
    const ACK: u8 = 1 << 4;

    /// Whether the segment asks for a new connection.
    pub fn opens(self) -> bool {
        self.0 & (Self::SYN | Self::ACK | Self::RST | Self::FIN) == Self::SYN
    }

    /// Whether the segment does nothing but acknowledge, and push its data.
    pub fn only_acknowledges(self) -> bool {
        self.0 & !Self::PSH == Self::ACK
    }

    /// Whether the sender has no more data for now.
    pub fn pushes(self) -> bool {
        self.0 & Self::PSH != 0
    }

    /// Whether the segment is the sender's last.
    pub fn closes(self) -> bool {
        self.0 & Self::FIN != 0
    }

    /// Whether the segment is the sender's first.
    pub fn synchronizes(self) -> bool {
        self.0 & Self::SYN != 0
    }

    /// Whether the segment is a SYN or a reset, which have no place in a connection
    /// that goes on.
    pub fn disrupts(self) -> bool {
        self.0 & (Self::SYN | Self::RST) != 0
    }

    /// Whether the segment breaks a connection.
    pub fn resets(self) -> bool {
        self.0 & Self::RST != 0
    }
}

/// What the socket table wants to know of a UDP datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFrame<'a> {
    /// Where it goes.
    pub local: SocketAddrV4,
    /// Where it comes from.
    pub remote: SocketAddrV4,
    /// Its bytes.
    pub payload: &'a [u8],
}

/// A part of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// Which datagram it belongs to: source, destination, identification and
    /// protocol (RFC 791 section 3.2).
    pub key: FragmentKey,
    /// Where its bytes belong, counted from the end of the IP header.
    pub offset: usize,
    /// Whether more bytes follow it.
    pub more: bool,
    /// The Ethernet header and the first 20 bytes of the IP header.
    pub headers: &'a [u8],
    /// Its bytes.
    pub payload: &'a [u8],
}

/// What the fragments of a datagram have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentKey {
    /// Source and destination address as they stand in the header.
    pub addresses: [u8; 8],
    /// The identification field.
    pub id: u16,
    /// The protocol field.
    pub protocol: u8,
}

/// What a station must know of itself to look at frames.
#[derive(Clone, Copy, Debug)]
pub struct Station {
    /// The station address.
    pub mac: MacAddress,
    /// Longest frame in bytes, without CRC.
    pub longest: usize,
}

impl Station {
    /// Looks at a frame.
    #[inline]
    pub fn look<'a>(&self, frame: &RxFrame<'a>) -> Result<Kind<'a>, Drop> {
        if frame.checksum == RxChecksum::Bad {
            return Err(Drop::Checksum);
        }
        if frame.bytes.len() > self.longest {
            return Err(Drop::Oversized);
        }
        self.look_inside(frame)
    }

    /// Looks at a frame of any length: one put together from fragments.
    #[inline]
    pub fn look_inside<'a>(&self, frame: &RxFrame<'a>) -> Result<Kind<'a>, Drop> {
        let Some((ethernet, packet)) = frame.bytes.split_first_chunk::<ETHERNET_HEADER>() else {
            return Err(Drop::Truncated);
        };
        // The group bit: broadcast and multicast.
        let group = ethernet[0] & 1 != 0;
        if !group && ethernet[..6] != self.mac.0 {
            return Err(Drop::NotOurs);
        }
        match EthernetProtocol::from(be16(ethernet, 12)) {
            EthernetProtocol::Ipv4 => look_at_ipv4(frame, packet, group),
            EthernetProtocol::Arp => look_at_arp(packet),
            _ => Err(Drop::Protocol),
        }
    }
}

/// Only what smoltcp will not pass over in silence.
fn look_at_arp<'a>(packet: &[u8]) -> Result<Kind<'a>, Drop> {
    let packet = ArpPacket::new_checked(packet).map_err(|_| Drop::Truncated)?;
    ArpRepr::parse(&packet).map_err(|_| Drop::Malformed)?;
    Ok(Kind::Arp)
}

#[inline]
fn look_at_ipv4<'a>(frame: &RxFrame<'a>, packet: &'a [u8], group: bool) -> Result<Kind<'a>, Drop> {
    let Some(header) = packet.first_chunk::<IPV4_HEADER>() else {
        return Err(Drop::Truncated);
    };
    let header_len = usize::from(header[0] & 0xf) * 4;
    let total_len = usize::from(be16(header, 2));
    if header[0] >> 4 != 4 || header_len < IPV4_HEADER || total_len < header_len {
        return Err(Drop::Malformed);
    }
    if packet.len() < total_len {
        return Err(Drop::Truncated);
    }
    if frame.checksum == RxChecksum::Unknown && !Sum::default().add(&packet[..header_len]).is_good()
    {
        return Err(Drop::Checksum);
    }
    // RFC 1122 section 3.2.1.3: no sender's address is 0.0.0.0 (a DHCP server
    // has one, only its clients do not), the loopback's, multicast or broadcast.
    if matches!(header[12], 127 | 224..) || header[12..16] == [0; 4] {
        return Err(Drop::Malformed);
    }

    // What follows total_len is Ethernet's padding.
    let payload = &packet[header_len..total_len];
    let protocol = header[9];
    let addresses: &[u8; 8] = header[12..].first_chunk().expect("two addresses");
    let fragmentation = be16(header, 6);
    if fragmentation & 0x3fff != 0 {
        // RFC 1122 section 3.3.6: what is for one host comes to its station.
        if group {
            return Err(Drop::Malformed);
        }
        return Ok(Kind::Fragment(Fragment {
            key: FragmentKey {
                addresses: *addresses,
                id: be16(header, 4),
                protocol,
            },
            offset: usize::from(fragmentation & 0x1fff) * 8,
            more: fragmentation & 0x2000 != 0,
            headers: &frame.bytes[..ETHERNET_HEADER + IPV4_HEADER],
            payload,
        }));
    }

    let verified = frame.checksum == RxChecksum::Good;
    match IpProtocol::from(protocol) {
        // RFC 1122 section 4.2.3.10: no connection is made by broadcast.
        IpProtocol::Tcp if group => Err(Drop::Malformed),
        IpProtocol::Tcp => look_at_tcp(addresses, payload, verified).map(Kind::Tcp),
        IpProtocol::Udp => look_at_udp(addresses, payload, verified).map(Kind::Udp),
        IpProtocol::Icmp => Ok(Kind::Icmp),
        _ => Ok(Kind::OtherIp),
    }
}

#[inline]
fn look_at_tcp(addresses: &[u8; 8], segment: &[u8], verified: bool) -> Result<TcpFrame, Drop> {
    let Some(header) = segment.first_chunk::<TCP_HEADER>() else {
        return Err(Drop::Truncated);
    };
    let header_len = usize::from(header[12] >> 4) * 4;
    if header_len < TCP_HEADER {
        return Err(Drop::Malformed);
    }
    if segment.len() < header_len {
        return Err(Drop::Truncated);
    }
    let sum = || pseudo_header(addresses, IpProtocol::Tcp.into(), segment.len()).add(segment);
    if !verified && !sum().is_good() {
        return Err(Drop::Checksum);
    }
    let [a, b, c, d, e, f, g, h] = *addresses;
    let flags = TcpFlags(header[13]);
    let seq = be32(header, 4);
    let controls =
        u32::from(flags.0 & TcpFlags::SYN != 0) + u32::from(flags.0 & TcpFlags::FIN != 0);
    Ok(TcpFrame {
        tuple: Tuple {
            local: Ipv4Address::new(e, f, g, h),
            remote: Ipv4Address::new(a, b, c, d),
            local_port: be16(header, 2),
            remote_port: be16(header, 0),
        },
        flags,
        seq,
        end: seq.wrapping_add((segment.len() - header_len) as u32 + controls),
        ack: be32(header, 8),
    })
}

#[inline]
fn look_at_udp<'a>(
    addresses: &[u8; 8],
    datagram: &'a [u8],
    verified: bool,
) -> Result<UdpFrame<'a>, Drop> {
    let Some(header) = datagram.first_chunk::<UDP_HEADER>() else {
        return Err(Drop::Truncated);
    };
    let len = usize::from(be16(header, 4));
    if len < UDP_HEADER {
        return Err(Drop::Malformed);
    }
    let Some(covered) = datagram.get(..len) else {
        return Err(Drop::Truncated);
    };
    // RFC 768: an all-zero checksum means that the sender made none.
    let has_checksum = be16(header, 6) != 0;
    let sum = || pseudo_header(addresses, IpProtocol::Udp.into(), len).add(covered);
    if !verified && has_checksum && !sum().is_good() {
        return Err(Drop::Checksum);
    }
    let [a, b, c, d, e, f, g, h] = *addresses;
    Ok(UdpFrame {
        local: SocketAddrV4::new(Ipv4Address::new(e, f, g, h), be16(header, 2)),
        remote: SocketAddrV4::new(Ipv4Address::new(a, b, c, d), be16(header, 0)),
        payload: &covered[UDP_HEADER..],
    })
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}
