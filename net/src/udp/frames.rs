//! Datagrams into frames: one that fits the MTU in one, a longer one in
//! fragments (RFC 791 section 3.2), each as the ring has room.

use core::net::{Ipv4Addr, SocketAddrV4};

use smoltcp::wire::{EthernetProtocol, IpProtocol};
use uniperf_drivers::nic::{MacAddress, Offload, Transmit, TxError};

use crate::checksum::{Sum, pseudo_header};
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, UDP_HEADER};

/// The first byte behind the IP header.
const IP_PAYLOAD: usize = ETHERNET_HEADER + IPV4_HEADER;
/// The first byte of a whole datagram's payload.
const PAYLOAD: usize = IP_PAYLOAD + UDP_HEADER;
/// Where the checksum is in a UDP header (RFC 768).
const CHECKSUM: usize = 6;
/// RFC 1122 section 3.2.1.7 asks for 64 or more.
const TIME_TO_LIVE: u8 = 64;
/// The flag "don't fragment" beside the fragment offset.
const DONT_FRAGMENT: u16 = 1 << 14;
/// The flag "more fragments" there.
const MORE_FRAGMENTS: u16 = 1 << 13;

/// The way to a peer: the station that its packets go to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The peer's address.
    pub peer: Ipv4Addr,
    /// The peer's station, or the gateway's.
    pub station: MacAddress,
    /// Until when the station is believed to be right, in nanoseconds.
    pub until: u64,
    /// What else must still hold:
    /// [`Neighbours::version`](crate::neighbours::Neighbours::version).
    pub version: u32,
}

/// How far a datagram is sent that does not fit one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The identification that all its fragments have.
    id: u16,
    /// Bytes sent, the UDP header counted.
    offset: usize,
}

impl Cut {
    /// Nothing is sent yet.
    pub fn new(id: u16) -> Self {
        Self { id, offset: 0 }
    }
}

/// Whom a datagram is from and to.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// Our station.
    pub from_station: MacAddress,
    /// The next station on its way.
    pub to_station: MacAddress,
    /// Our address and port.
    pub from: SocketAddrV4,
    /// The peer's.
    pub to: SocketAddrV4,
}

impl Envelope {
    /// Writes the Ethernet header, and the IPv4 header of a packet with so many
    /// bytes behind it.
    fn write_headers(&self, buffer: &mut [u8], len: usize, id: u16, fragmentation: u16) {
        let headers: &mut [u8; IP_PAYLOAD] = buffer.first_chunk_mut().expect("room for headers");
        headers[..6].copy_from_slice(&self.to_station.0);
        headers[6..12].copy_from_slice(&self.from_station.0);
        headers[12..14].copy_from_slice(&u16::from(EthernetProtocol::Ipv4).to_be_bytes());
        let ip = &mut headers[ETHERNET_HEADER..];
        // Version 4, five words, no type of service.
        ip[..2].copy_from_slice(&[0x45, 0]);
        ip[2..4].copy_from_slice(&((IPV4_HEADER + len) as u16).to_be_bytes());
        ip[4..6].copy_from_slice(&id.to_be_bytes());
        ip[6..8].copy_from_slice(&fragmentation.to_be_bytes());
        ip[8..12].copy_from_slice(&[TIME_TO_LIVE, IpProtocol::Udp.into(), 0, 0]);
        ip[12..16].copy_from_slice(&self.from.ip().octets());
        ip[16..20].copy_from_slice(&self.to.ip().octets());
        let checksum = Sum::default().add(ip).checksum();
        ip[10..12].copy_from_slice(&checksum);
    }

    /// The UDP header of a datagram of `len` bytes, itself counted, without
    /// checksum.
    fn udp_header(&self, len: usize) -> [u8; UDP_HEADER] {
        let [a, b] = self.from.port().to_be_bytes();
        let [c, d] = self.to.port().to_be_bytes();
        let [e, f] = (len as u16).to_be_bytes();
        [a, b, c, d, e, f, 0, 0]
    }

    fn pseudo_header(&self, len: usize) -> Sum {
        let [a, b, c, d] = self.from.ip().octets();
        let [e, f, g, h] = self.to.ip().octets();
        pseudo_header(&[a, b, c, d, e, f, g, h], IpProtocol::Udp.into(), len)
    }

    /// Sends a datagram that fits one packet. `checksum_offload` says that the
    /// NIC fills in the checksum.
    ///
    /// # Errors
    ///
    /// As for [`Transmit::send`].
    pub fn send_whole<T: Transmit>(
        &self,
        tx: &mut T,
        payload: &[u8],
        checksum_offload: bool,
    ) -> Result<usize, TxError> {
        let len = UDP_HEADER + payload.len();
        let offload = match checksum_offload {
            true => Offload::Checksum {
                start: IP_PAYLOAD as u16,
                offset: (IP_PAYLOAD + CHECKSUM) as u16,
            },
            false => Offload::None,
        };
        tx.send(IP_PAYLOAD + len, &[], offload, |buffer| {
            self.write_headers(buffer, len, 0, DONT_FRAGMENT);
            buffer[IP_PAYLOAD..PAYLOAD].copy_from_slice(&self.udp_header(len));
            buffer[PAYLOAD..IP_PAYLOAD + len].copy_from_slice(payload);
            let pseudo_header = self.pseudo_header(len);
            let sum = match checksum_offload {
                true => pseudo_header.sum(),
                false => not_none(pseudo_header.add(&buffer[IP_PAYLOAD..][..len]).checksum()),
            };
            buffer[IP_PAYLOAD + CHECKSUM..PAYLOAD].copy_from_slice(&sum);
            IP_PAYLOAD + len
        })
    }

    /// Sends the next fragment of a datagram, of at most `mtu` bytes. Returns the
    /// frame's length, and whether it was the last.
    ///
    /// # Errors
    ///
    /// As for [`Transmit::send`].
    pub fn send_fragment<T: Transmit>(
        &self,
        tx: &mut T,
        cut: &mut Cut,
        payload: &[u8],
        mtu: usize,
    ) -> Result<(usize, bool), TxError> {
        let whole = UDP_HEADER + payload.len();
        let most = (mtu - IPV4_HEADER) & !7;
        let len = most.min(whole - cut.offset);
        let is_last = cut.offset + len == whole;
        let more = if is_last { 0 } else { MORE_FRAGMENTS };
        let fragmentation = more | (cut.offset / 8) as u16;
        let sent = tx.send(IP_PAYLOAD + len, &[], Offload::None, |buffer| {
            self.write_headers(buffer, len, cut.id, fragmentation);
            let body = &mut buffer[IP_PAYLOAD..IP_PAYLOAD + len];
            if cut.offset == 0 {
                let (header, first) = body.split_at_mut(UDP_HEADER);
                header.copy_from_slice(&self.udp_header(whole));
                let sum = self.pseudo_header(whole).add(header).add(payload);
                header[CHECKSUM..].copy_from_slice(&not_none(sum.checksum()));
                first.copy_from_slice(&payload[..len - UDP_HEADER]);
            } else {
                body.copy_from_slice(&payload[cut.offset - UDP_HEADER..][..len]);
            }
            IP_PAYLOAD + len
        })?;
        cut.offset += len;
        Ok((sent, is_last))
    }
}

/// RFC 768: a checksum that comes out as zero is sent as all ones, as zero says
/// that there is none.
fn not_none(checksum: [u8; 2]) -> [u8; 2] {
    match checksum {
        [0, 0] => [0xff, 0xff],
        checksum => checksum,
    }
}
