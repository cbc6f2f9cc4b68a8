//! What the NIC does to sent frames so that the CPU need not: checksums, and
//! cutting super-segments.
//!
//! smoltcp writes one TCP segment of up to 64 KiB where it may, with its MSS
//! beside it. The NIC cuts it (TSO), or [`gso`] does so just above the driver.

use alloc::vec::Vec;

use smoltcp::wire::IpProtocol;
use uniperf_drivers::gso;
use uniperf_drivers::nic::{Capabilities, Offload, RxChecksum, Transmit, TxError};

use crate::checksum::pseudo_header;
use crate::config::Config;
use crate::counters::StackCounters;
use crate::frame::{ETHERNET_HEADER, IPV4_HEADER, TCP_HEADER};

/// Bytes of headers without options.
const HEADERS: usize = ETHERNET_HEADER + IPV4_HEADER + TCP_HEADER;
/// Where the TCP header starts. The stack sends no IP options.
const TCP_START: usize = ETHERNET_HEADER + IPV4_HEADER;
/// Where the checksum is in a TCP header (RFC 9293 section 3.1).
const TCP_CHECKSUM: usize = 16;
/// Where the addresses are in an IPv4 header.
const ADDRESSES: core::ops::Range<usize> = 12..20;

/// The longest super-segment: an IPv4 packet's length is 16 bits.
const LONGEST: usize = ETHERNET_HEADER + 65535;
/// A super-segment may take this part of the transmit ring, so that others have
/// room beside it.
const RING_SHARE: usize = 4;

/// How frames are to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offloads {
    /// The NIC fills in TCP and UDP checksums.
    checksum: bool,
    /// The NIC's verdict on received checksums counts.
    verdict: bool,
    /// The NIC cuts super-segments.
    tso: bool,
    /// Longest super-segment in bytes, from its Ethernet header on.
    super_segment: usize,
    /// Payload bytes of a full segment.
    mss: u16,
}

impl Offloads {
    /// What `config` allows and the NIC can, for an MTU of `mtu` bytes and a
    /// transmit ring that takes `ring` frames.
    pub fn new(config: &Config, capabilities: &Capabilities, mtu: usize, ring: usize) -> Self {
        let mss = mtu - IPV4_HEADER - TCP_HEADER;
        let checksum = config.checksum_offload && capabilities.tx_checksum;
        let tso = config.tso && checksum && capabilities.tso_v4;
        let by_software = (HEADERS + ring / RING_SHARE * mss).min(LONGEST);
        Self {
            checksum,
            verdict: config.checksum_offload,
            tso,
            super_segment: if tso {
                capabilities.tso_max_bytes.min(LONGEST)
            } else {
                by_software
            },
            mss: mss as u16,
        }
    }

    /// What is to be believed of the NIC's verdict on a received frame.
    pub fn verdict(&self, said: RxChecksum) -> RxChecksum {
        if self.verdict {
            said
        } else {
            RxChecksum::Unknown
        }
    }

    /// Longest super-segment in bytes, from its Ethernet header on; `None` where
    /// it would not hold two segments.
    pub fn super_segment(&self) -> Option<usize> {
        let is_worth_it = self.super_segment >= HEADERS + 2 * usize::from(self.mss);
        is_worth_it.then_some(self.super_segment)
    }

    /// Whether the NIC fills in TCP and UDP checksums.
    pub fn checksum(&self) -> bool {
        self.checksum
    }

    /// Payload bytes of a full segment.
    pub fn mss(&self) -> usize {
        self.mss.into()
    }

    /// Whether `tx` has room for the longest super-segment, above `reserve`
    /// frames, if segments have `mss` payload bytes, or as many as the link takes.
    pub fn has_room<T: Transmit>(&self, tx: &T, reserve: usize, mss: Option<u16>) -> bool {
        let mss = mss.unwrap_or(self.mss);
        let Some(longest) = self.super_segment() else {
            return tx.free() > reserve;
        };
        if self.tso {
            let whole = Offload::Tso { ipv6: false, mss };
            match tx.accepts(longest, &[], whole) {
                Ok(()) => return true,
                Err(TxError::RingFull) => return false,
                Err(TxError::Unsupported) => {}
            }
        }
        tx.free() > reserve + gso::segments(longest - HEADERS, mss)
    }

    /// Queues a TCP segment that fits the MTU. `fill` writes all of it but the
    /// TCP checksum.
    ///
    /// # Errors
    ///
    /// As for [`Transmit::send`].
    pub fn send_tcp<T: Transmit, R>(
        &self,
        tx: &mut T,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> Result<R, TxError> {
        let offload = if self.checksum {
            Offload::Checksum {
                start: TCP_START as u16,
                offset: (TCP_START + TCP_CHECKSUM) as u16,
            }
        } else {
            Offload::None
        };
        tx.send(len, &[], offload, |frame| {
            let result = fill(frame);
            let (headers, segment) = frame.split_at_mut(TCP_START);
            let addresses = &headers[ETHERNET_HEADER..][ADDRESSES];
            let pseudo = pseudo_header(addresses, IpProtocol::Tcp.into(), segment.len());
            let sum = if self.checksum {
                pseudo.sum()
            } else {
                pseudo.add(segment).checksum()
            };
            segment[TCP_CHECKSUM..][..2].copy_from_slice(&sum);
            result
        })
    }

    /// Queues a super-segment, to be cut into segments of `mss` payload bytes.
    /// `scratch` is used where software has to cut it.
    ///
    /// # Errors
    ///
    /// The ring has no room, or the segments can never be sent; `fill` was
    /// called all the same if software was to cut.
    pub fn send_super_segment<T: Transmit, R>(
        &self,
        tx: &mut T,
        len: usize,
        mss: u16,
        scratch: &mut Vec<u8>,
        counters: &mut StackCounters,
        fill: impl FnOnce(&mut [u8]) -> R,
    ) -> (R, Result<(), TxError>) {
        counters.tx_super_segments += 1;
        let whole = Offload::Tso { ipv6: false, mss };
        if self.tso && tx.accepts(len, &[], whole).is_ok() {
            let mut fill = Some(fill);
            let mut result = None;
            let sent = tx.send(len, &[], whole, |frame| {
                result = fill.take().map(|fill| fill(frame));
            });
            if let Some(result) = result {
                return (result, sent);
            }
            // `accepts` was wrong; what is left of the promise is to fill.
            let fill = fill.take().expect("not called yet");
            scratch.resize(len.max(scratch.len()), 0);
            return (fill(&mut scratch[..len]), sent);
        }
        counters.tx_cut_by_software += 1;
        counters.tx_copied += len.saturating_sub(HEADERS) as u64;
        if scratch.len() < len {
            scratch.resize(len, 0);
        }
        let result = fill(&mut scratch[..len]);
        let cut = gso::Cut {
            ipv6: false,
            mss,
            checksum_offload: self.checksum,
        };
        let sent = gso::send(tx, &scratch[..len], cut).map(|_| ());
        (result, sent)
    }
}
