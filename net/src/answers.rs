//! The answers that are made without smoltcp: to a ping that came in fragments, to
//! a late segment of a connection that has ended, and to segments that are doubted.

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{
    EthernetAddress, EthernetFrame, EthernetProtocol, EthernetRepr, IpProtocol, Ipv4Packet,
    Ipv4Repr, TcpControl, TcpPacket, TcpRepr, TcpSeqNumber,
};
use uniperf_drivers::nic::{Offload, Transmit, TxError};

use crate::checksum::Sum;
use crate::counters::StackCounters;
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TcpFrame};

const HEADERS: usize = ETHERNET_HEADER + IPV4_HEADER;
const ICMP: u8 = 1;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;

/// Whether a datagram is a ping. It must have an IPv4 header without options.
pub fn is_echo_request(frame: &[u8]) -> bool {
    frame.len() >= HEADERS + 8
        && frame[ETHERNET_HEADER + 9] == ICMP
        && frame[HEADERS] == ECHO_REQUEST
        && frame[HEADERS + 1] == 0
}

/// Answers a ping (RFC 792), cut into fragments as the MTU asks. The request is
/// made into its answer in place.
///
/// smoltcp could do it but for its fragmenter: that takes the checksum over a
/// larger buffer than the message, and holds one datagram, which may be waiting
/// for room in the ring.
///
/// # Errors
///
/// [`TxError::RingFull`] if the ring cannot take all fragments; none is sent.
pub fn answer_echo<T: Transmit>(
    frame: &mut [u8],
    mtu: usize,
    tx: &mut T,
    counters: &mut StackCounters,
) -> Result<(), TxError> {
    if !Sum::default().add(&frame[HEADERS..]).is_good() {
        counters.drop_checksum += 1;
        return Ok(());
    }
    let (headers, message) = frame.split_at_mut(HEADERS);
    let (ethernet, ip) = headers.split_at_mut(ETHERNET_HEADER);
    let (to, from) = ethernet[..12].split_at_mut(6);
    to.swap_with_slice(from);
    let (source, destination) = ip[12..].split_at_mut(4);
    source.swap_with_slice(destination);
    ip[8] = 64;
    message[0] = ECHO_REPLY;
    message[2..4].fill(0);
    let checksum = Sum::default().add(message).checksum();
    message[2..4].copy_from_slice(&checksum);
    send_fragments(headers, message, mtu, tx, counters)
}

fn send_fragments<T: Transmit>(
    headers: &mut [u8],
    message: &[u8],
    mtu: usize,
    tx: &mut T,
    counters: &mut StackCounters,
) -> Result<(), TxError> {
    let most = (mtu - IPV4_HEADER) & !7;
    let count = message.len().div_ceil(most);
    if tx.free() < count {
        return Err(TxError::RingFull);
    }
    for (index, piece) in message.chunks(most).enumerate() {
        let more = u16::from(index + 1 < count) << 13;
        let offset = (index * most / 8) as u16;
        let ip = &mut headers[ETHERNET_HEADER..];
        ip[2..4].copy_from_slice(&((IPV4_HEADER + piece.len()) as u16).to_be_bytes());
        ip[6..8].copy_from_slice(&(more | offset).to_be_bytes());
        ip[10..12].fill(0);
        let checksum = Sum::default().add(ip).checksum();
        ip[10..12].copy_from_slice(&checksum);
        let len = HEADERS + piece.len();
        tx.send(len, &[], Offload::None, |buffer| {
            buffer[..HEADERS].copy_from_slice(headers);
            buffer[HEADERS..len].copy_from_slice(piece);
        })?;
        counters.tx_frames += 1;
        counters.tx_bytes += len as u64;
    }
    Ok(())
}

/// A segment without payload and options that acknowledges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bare {
    /// Whether it is a SYN.
    pub opens: bool,
    /// Its sequence number.
    pub seq: u32,
    /// What it acknowledges.
    pub ack: u32,
    /// Its window field.
    pub window: u16,
}

impl Bare {
    /// Acknowledges a late segment of a connection that has ended (RFC 9293 section
    /// 3.10.7.4, TIME-WAIT). Everything that the answer says is in the segment.
    pub fn late(segment: &TcpFrame) -> Self {
        Self {
            opens: false,
            seq: segment.ack,
            ack: segment.end,
            window: 0,
        }
    }
}

/// Answers a segment, to the station that it came from.
///
/// # Errors
///
/// Those of [`Transmit::send`].
pub fn answer_segment<T: Transmit>(
    segment: &TcpFrame,
    frame: &[u8],
    answer: Bare,
    tx: &mut T,
    counters: &mut StackCounters,
) -> Result<(), TxError> {
    let name = segment.tuple;
    let tcp = TcpRepr {
        src_port: name.local_port,
        dst_port: name.remote_port,
        control: if answer.opens {
            TcpControl::Syn
        } else {
            TcpControl::None
        },
        seq_number: TcpSeqNumber(answer.seq as i32),
        ack_number: Some(TcpSeqNumber(answer.ack as i32)),
        window_len: answer.window,
        window_scale: None,
        max_seg_size: None,
        sack_permitted: false,
        sack_ranges: [None; 3],
        timestamp: None,
        payload: &[],
    };
    let ip = Ipv4Repr {
        src_addr: name.local,
        dst_addr: name.remote,
        next_header: IpProtocol::Tcp,
        payload_len: tcp.buffer_len(),
        hop_limit: 64,
    };
    let ethernet = EthernetRepr {
        src_addr: EthernetAddress::from_bytes(&frame[..6]),
        dst_addr: EthernetAddress::from_bytes(&frame[6..12]),
        ethertype: EthernetProtocol::Ipv4,
    };
    let len = HEADERS + tcp.buffer_len();
    let checksums = ChecksumCapabilities::default();
    tx.send(len, &[], Offload::None, |buffer| {
        let buffer = &mut buffer[..len];
        ethernet.emit(&mut EthernetFrame::new_unchecked(&mut *buffer));
        let packet = &mut buffer[ETHERNET_HEADER..];
        ip.emit(&mut Ipv4Packet::new_unchecked(&mut *packet), &checksums);
        tcp.emit(
            &mut TcpPacket::new_unchecked(&mut packet[IPV4_HEADER..]),
            &ip.src_addr.into(),
            &ip.dst_addr.into(),
            &checksums,
        );
    })?;
    counters.tx_frames += 1;
    counters.tx_bytes += len as u64;
    Ok(())
}
