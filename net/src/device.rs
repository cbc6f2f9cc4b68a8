//! smoltcp's view of the NIC: one received frame, and the transmit half.
//!
//! A [`Port`] lives for one call into smoltcp. The frame is read where the NIC
//! put it, and what smoltcp sends is written where the NIC will fetch it.

use alloc::vec;
use alloc::vec::Vec;
use core::num::{NonZeroU16, NonZeroUsize};

use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::phy::{PacketMeta, RxToken, TxToken};
use smoltcp::time::Instant;
use uniperf_drivers::hw::DmaSlice;
use uniperf_drivers::nic::{Offload, Transmit, TxError};

use crate::counters::StackCounters;
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TCP_HEADER};
use crate::offload::Offloads;
use crate::recovery::Sent;
use crate::sack::{self, Blocks};

/// What an interface that speaks TCP sends that is shorter is ARP.
const SHORTEST_TCP: usize = ETHERNET_HEADER + IPV4_HEADER + TCP_HEADER;

/// What smoltcp is told of the NIC: an MTU of `mtu` bytes of IP packet, and
/// that received checksums, except ICMP's, have been seen to before. TCP
/// checksums of sent frames are seen to by [`Offloads`].
pub fn shape(mtu: usize, offloads: &Offloads) -> DeviceCapabilities {
    let mut checksum = ChecksumCapabilities::default();
    checksum.ipv4 = Checksum::Tx;
    checksum.tcp = Checksum::None;
    checksum.udp = Checksum::Tx;
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = mtu + ETHERNET_HEADER;
    capabilities.checksum = checksum;
    capabilities.segmentation.tcpv4 = offloads.super_segment().and_then(NonZeroUsize::new);
    capabilities
}

/// The NIC for the time of one call into smoltcp.
pub struct Port<'a, T> {
    /// The received frame, until smoltcp takes it.
    pub frame: Option<&'a [u8]>,
    /// The transmit half.
    pub tx: &'a mut T,
    /// Descriptors that are kept for answers to received frames.
    pub reserve: usize,
    /// Whether what smoltcp sends is TCP, but for questions after addresses.
    pub is_tcp: bool,
    /// Whether a super-segment may come.
    pub may_be_long: bool,
    /// Most payload bytes of a segment, where its path takes less than the link.
    pub path_mss: Option<u16>,
    /// How TCP segments are sent.
    pub offloads: &'a Offloads,
    /// Where software cuts super-segments.
    pub scratch: &'a mut Vec<u8>,
    /// What was sent is counted here.
    pub counters: &'a mut StackCounters,
    /// What smoltcp is told.
    pub shape: &'a DeviceCapabilities,
    /// What acknowledgements are to report that came beyond a hole.
    pub report: Option<Blocks>,
    /// The TCP segment that was sent.
    pub sent: Option<Sent>,
    /// Whether smoltcp wanted to send.
    pub asked: bool,
    /// Whether it could not, because the ring is full.
    pub refused: bool,
}

impl<T: Transmit> Device for Port<'_, T> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Outgoing<'b, T>
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        let frame = self.frame.take()?;
        Some((Received(frame), self.outgoing()))
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        self.asked = true;
        let has_room = if self.may_be_long {
            self.offloads.has_room(self.tx, self.reserve, self.path_mss)
        } else {
            self.tx.free() > self.reserve
        };
        if !has_room {
            self.refused = true;
            return None;
        }
        Some(self.outgoing())
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.shape.clone()
    }
}

impl<T> Port<'_, T> {
    fn outgoing(&mut self) -> Outgoing<'_, T> {
        Outgoing {
            tx: self.tx,
            counters: self.counters,
            is_tcp: self.is_tcp,
            offloads: self.offloads,
            scratch: self.scratch,
            report: self.report.as_ref(),
            sent: &mut self.sent,
            path_mss: self.path_mss,
            mss: None,
        }
    }
}

/// A frame to be read in place.
pub struct Received<'a>(&'a [u8]);

impl RxToken for Received<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(self.0)
    }
}

/// A place in the transmit ring.
pub struct Outgoing<'a, T> {
    tx: &'a mut T,
    counters: &'a mut StackCounters,
    is_tcp: bool,
    offloads: &'a Offloads,
    scratch: &'a mut Vec<u8>,
    report: Option<&'a Blocks>,
    sent: &'a mut Option<Sent>,
    path_mss: Option<u16>,
    /// The MSS of a super-segment.
    mss: Option<NonZeroU16>,
}

impl<T> Outgoing<'_, T> {
    /// What a TCP segment of so many bytes is to be cut by.
    fn cut(&self, len: usize) -> Option<u16> {
        let mss = self.mss.map(NonZeroU16::get);
        match self.path_mss {
            Some(path) if len > SHORTEST_TCP + usize::from(path) => {
                Some(mss.map_or(path, |mss| mss.min(path)))
            }
            _ => mss,
        }
    }
}

impl<T: Transmit> TxToken for Outgoing<'_, T> {
    fn set_meta(&mut self, meta: PacketMeta) {
        self.mss = meta.segmentation_offload_size;
    }

    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let is_tcp = self.is_tcp && len >= SHORTEST_TCP;
        let cut = is_tcp.then(|| self.cut(len)).flatten();
        let note = self.sent;
        let f = |buffer: &mut [u8]| {
            let result = f(buffer);
            if is_tcp {
                *note = Some(Sent::read(&buffer[..len]));
            }
            result
        };
        if let Some(mss) = cut {
            let (result, sent) =
                self.offloads
                    .send_super_segment(self.tx, len, mss, self.scratch, self.counters, f);
            count(self.counters, len, sent);
            return result;
        }
        if let Some(blocks) = self.report
            && is_tcp
            && len <= sack::LONGEST
        {
            let mut buffer = [0; sack::LONGEST];
            let result = f(&mut buffer[..len]);
            let len = sack::report(&mut buffer, len, blocks);
            let copy = |frame: &mut [u8]| frame[..len].copy_from_slice(&buffer[..len]);
            let sent = self.offloads.send_tcp(self.tx, len, copy);
            count(self.counters, len, sent);
            return result;
        }
        let mut fill = Some(f);
        let mut write = |buffer: &mut [u8]| fill.take().expect("called once")(&mut buffer[..len]);
        let sent = if is_tcp {
            self.offloads.send_tcp(self.tx, len, &mut write)
        } else {
            self.tx.send(len, &[], Offload::None, &mut write)
        };
        count(
            self.counters,
            len,
            sent.as_ref().map(|_| ()).map_err(|error| *error),
        );
        match sent {
            Ok(result) => result,
            // smoltcp needs its result all the same.
            Err(_) => write(&mut vec![0; len]),
        }
    }
}

fn count(counters: &mut StackCounters, len: usize, sent: Result<(), TxError>) {
    match sent {
        Ok(()) => {
            counters.tx_frames += 1;
            counters.tx_bytes += len as u64;
        }
        Err(TxError::RingFull) => counters.drop_tx_full += 1,
        Err(TxError::Unsupported) => counters.drop_tx_unsupported += 1,
    }
}

/// A NIC that is there only to be described: smoltcp's interface takes its
/// capabilities from one when it is made.
pub struct Described<'a>(pub &'a DeviceCapabilities);

impl Device for Described<'_> {
    type RxToken<'b>
        = Received<'b>
    where
        Self: 'b;
    type TxToken<'b>
        = Nowhere
    where
        Self: 'b;

    fn receive(&mut self, _: Instant) -> Option<(Self::RxToken<'_>, Self::TxToken<'_>)> {
        None
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.0.clone()
    }
}

/// A place in a ring that does not exist.
pub struct Nowhere;

impl TxToken for Nowhere {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        f(&mut vec![0; len])
    }
}

/// The transmit half while the link is down: what is sent is lost, as it would
/// be on the wire, and does not fill the ring.
#[derive(Default)]
pub struct NoCarrier {
    scratch: Vec<u8>,
    dropped: u64,
}

impl NoCarrier {
    /// How many frames were lost.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

impl Transmit for NoCarrier {
    fn send<R>(
        &mut self,
        header_len: usize,
        _: &[DmaSlice],
        _: Offload,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError> {
        self.dropped += 1;
        if self.scratch.len() < header_len {
            self.scratch.resize(header_len, 0);
        }
        Ok(fill(&mut self.scratch[..header_len]))
    }

    fn flush(&mut self) {}

    fn reclaim(&mut self) -> usize {
        0
    }

    fn free(&self) -> usize {
        usize::MAX
    }

    fn capacity(&self) -> usize {
        usize::MAX
    }
}
