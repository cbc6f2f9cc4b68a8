//! smoltcp's view of the NIC: one received frame, and the transmit half.
//!
//! A [`Port`] lives for one call into smoltcp. The frame is read where the NIC
//! put it, and what smoltcp sends is written where the NIC will fetch it.

use alloc::vec;
use alloc::vec::Vec;

use smoltcp::phy::{Checksum, ChecksumCapabilities, Device, DeviceCapabilities, Medium};
use smoltcp::phy::{RxToken, TxToken};
use smoltcp::time::Instant;
use uniperf_drivers::hw::DmaSlice;
use uniperf_drivers::nic::{Offload, Transmit, TxError};

use crate::counters::StackCounters;
use crate::frame::ETHERNET_HEADER;

/// What smoltcp is told of the NIC: an MTU of `mtu` bytes of IP packet, and
/// that received checksums, except ICMP's, have been seen to before.
pub fn shape(mtu: usize) -> DeviceCapabilities {
    let mut checksum = ChecksumCapabilities::default();
    checksum.ipv4 = Checksum::Tx;
    checksum.tcp = Checksum::Tx;
    checksum.udp = Checksum::Tx;
    let mut capabilities = DeviceCapabilities::default();
    capabilities.medium = Medium::Ethernet;
    capabilities.max_transmission_unit = mtu + ETHERNET_HEADER;
    capabilities.checksum = checksum;
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
    /// What was sent is counted here.
    pub counters: &'a mut StackCounters,
    /// What smoltcp is told.
    pub shape: &'a DeviceCapabilities,
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
        let outgoing = Outgoing {
            tx: self.tx,
            counters: self.counters,
        };
        Some((Received(frame), outgoing))
    }

    fn transmit(&mut self, _: Instant) -> Option<Self::TxToken<'_>> {
        self.asked = true;
        if self.tx.free() <= self.reserve {
            self.refused = true;
            return None;
        }
        Some(Outgoing {
            tx: self.tx,
            counters: self.counters,
        })
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.shape.clone()
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
}

impl<T: Transmit> TxToken for Outgoing<'_, T> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut fill = Some(f);
        let sent = self.tx.send(len, &[], Offload::None, |buffer| {
            fill.take().expect("called once")(&mut buffer[..len])
        });
        match sent {
            Ok(result) => {
                self.counters.tx_frames += 1;
                self.counters.tx_bytes += len as u64;
                result
            }
            Err(error) => {
                match error {
                    TxError::RingFull => self.counters.drop_tx_full += 1,
                    TxError::Unsupported => self.counters.drop_tx_unsupported += 1,
                }
                // smoltcp needs its result all the same.
                fill.take().expect("not called")(&mut vec![0; len])
            }
        }
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
