//! The receiver: from the wire through the filter and the FIFO into the host's buffers.

use std::collections::VecDeque;
use std::time::Duration;

use super::faults::RxFault;
use super::registers::*;
use super::ring::{
    ERROR, Format, OWNED, RX2_CHECKSUM_IP, RX2_CHECKSUM_TCP, RX2_CHECKSUM_UDP, RX3_VLAN_PRESENT,
    Ring,
};
use super::statistics::Counter;
use super::{Forcedeth, RETRY};
use crate::device::Host;
use crate::offload::verdict;

/// Frames that are shorter were padded by who sent them.
pub(super) const SHORTEST: usize = 60;
pub(super) const ETHERNET_HEADER: usize = 14;
const VLAN_TAG: [u8; 2] = [0x81, 0x00];
/// Type fields up to this are lengths (IEEE 802.3, clause 3.2.6).
const LARGEST_LENGTH: u16 = 1500;
/// Where pause frames go (IEEE 802.3, annex 31B), and what they begin with.
pub(super) const PAUSE_ADDRESS: [u8; 6] = [0x01, 0x80, 0xc2, 0, 0, 1];
pub(super) const PAUSE_HEADER: [u8; 4] = [0x88, 0x08, 0x00, 0x01];

/// The receiver's own state.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    /// The descriptor for the next frame.
    next: u32,
    /// Frames that wait for a buffer.
    fifo: VecDeque<Vec<u8>>,
    retry_at: Option<Duration>,
    /// The partner was told to pause.
    holding: bool,
}

impl Receiver {
    /// Begins at the start of the ring, and forgets what waits.
    pub(super) fn restart(&mut self) {
        *self = Self::default();
    }

    /// What waits is lost when the receiver stops.
    pub(super) fn starts(&mut self, start: bool) {
        if !start {
            self.fifo.clear();
            self.retry_at = None;
        }
    }

    /// Whether a frame waits for a buffer, so that no more should come.
    pub(super) fn is_behind(&self) -> bool {
        !self.fifo.is_empty()
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.retry_at
    }
}

impl Forcedeth {
    fn receives(&self) -> bool {
        let control = self.get(RECEIVER_CONTROL) & (receiver::START | receiver::PATH_EN);
        let reset = self.get(TX_RX_CONTROL) & txrx::RESET != 0;
        control == receiver::START && !reset && !self.is_gated()
    }

    /// Takes a frame that the partner has sent.
    pub(super) fn take_from_wire(&mut self, frame: &[u8], host: &mut Host) {
        if !self.receives() || self.loops_back() || self.matching_link().is_none() {
            self.totals.rx_unheard += 1;
        } else if frame.len() < ETHERNET_HEADER {
            self.counters.add(Counter::RxRunt, 1);
            self.totals.rx_errors += 1;
            self.raise(irq::RX_ERROR);
        } else if !self.take_pause(frame, host.now) {
            self.take(frame, self.accepts(frame), host);
        }
    }

    /// Takes a frame that this MAC itself has sent.
    pub(super) fn take_own(&mut self, frame: &[u8], host: &mut Host) {
        let inside = self.get(PACKET_FILTER_FLAGS) & filter::LOOPBACK != 0;
        if self.receives() && frame.len() >= ETHERNET_HEADER {
            self.take(frame, inside || self.accepts(frame), host);
        } else {
            self.totals.rx_unheard += 1;
        }
    }

    fn take(&mut self, frame: &[u8], accepted: bool, host: &mut Host) {
        if !accepted {
            self.totals.rx_filtered += 1;
            return;
        }
        if self.faults.overrun > 0 {
            self.faults.overrun -= 1;
            self.totals.rx_dropped += 1;
            self.counters.add(Counter::RxOverflow, 1);
            self.counters.add(Counter::RxDropped, 1);
            self.raise(irq::RX_ERROR | irq::RX_NOBUF);
            return;
        }
        let mut frame = frame.to_vec();
        frame.resize(frame.len().max(SHORTEST), 0);
        self.receiver.fifo.push_back(frame);
        self.deliver_waiting(host);
    }

    /// Whether the filter lets a frame in. Broadcast frames always come in.
    fn accepts(&self, frame: &[u8]) -> bool {
        let flags = self.get(PACKET_FILTER_FLAGS);
        let Some(destination) = frame.first_chunk::<6>() else {
            return false;
        };
        if flags & filter::PROMISC != 0 || *destination == [0xff; 6] {
            return true;
        }
        if destination[0] & 1 == 0 {
            return flags & filter::MYADDR != 0 && *destination == self.station();
        }
        let [a, b, c, d, e, f] = *destination;
        let (low, high) = (
            u32::from_le_bytes([a, b, c, d]),
            u32::from_le_bytes([e, f, 0, 0]),
        );
        let fits = |value, mask, address| (value ^ self.get(address)) & self.get(mask) == 0;
        fits(low, MULTICAST_MASK_A, MULTICAST_ADDR_A)
            && fits(high, MULTICAST_MASK_B, MULTICAST_ADDR_B)
    }

    /// Obeys a pause frame, if it is one and is to be obeyed.
    fn take_pause(&mut self, frame: &[u8], now: Duration) -> bool {
        let is_pause = self.get(PACKET_FILTER_FLAGS) & filter::PAUSE_RX != 0
            && frame.starts_with(&PAUSE_ADDRESS)
            && frame[12..].starts_with(&PAUSE_HEADER);
        let (Some(quanta), true) = (frame.get(16..18), is_pause) else {
            return false;
        };
        let quanta = u32::from_be_bytes([0, 0, quanta[0], quanta[1]]);
        let mbps = self.phy.link().map_or(10, |link| link.mbps);
        // A quantum is the time of 512 bits.
        let time = Duration::from_nanos(u64::from(quanta) * 512_000 / u64::from(mbps));
        self.transmitter.pause(now + time);
        self.counters.add(Counter::RxPause, 1);
        self.totals.rx_pause += 1;
        true
    }

    /// Gives the host what waits for buffers, as far as it has them.
    pub(super) fn deliver_waiting(&mut self, host: &mut Host) {
        let waited = self.receiver.retry_at.take().is_some();
        if self.receiver.fifo.is_empty() {
            return;
        }
        while let Some(frame) = self.receiver.fifo.pop_front() {
            if !self.deliver(&frame, host) {
                self.receiver.fifo.push_front(frame);
                self.receiver.retry_at = Some(host.now + RETRY);
                if !waited {
                    self.totals.rx_waits += 1;
                    self.raise(irq::RX_NOBUF);
                }
                self.hold_partner(true, host);
                return;
            }
        }
        self.hold_partner(false, host);
    }

    /// Tells the partner to pause, or to go on, where that is set up.
    fn hold_partner(&mut self, hold: bool, host: &mut Host) {
        let may = self.traits.pause_tx && self.get(MISC1) & misc1::PAUSE_TX != 0;
        if !may || hold == self.receiver.holding {
            return;
        }
        self.receiver.holding = hold;
        let mut frame = PAUSE_ADDRESS.to_vec();
        frame.extend(self.station());
        frame.extend(PAUSE_HEADER);
        frame.extend(if hold { [0xff; 2] } else { [0; 2] });
        frame.resize(SHORTEST, 0);
        self.counters.add(Counter::TxPause, 1);
        self.totals.tx_pause += 1;
        if self.matching_link().is_some() && !self.loops_back() {
            host.send(&frame);
        }
    }

    /// The ring that the registers describe, if there is one.
    fn rx_ring(&self) -> Option<Ring> {
        let (format, number) = Format::of(self.get(TX_RX_CONTROL));
        let high = u64::from(self.get(RX_RING_PHYS_ADDR_HIGH)) << 32;
        let high = if format == Some(Format::V3) { high } else { 0 };
        Some(Ring {
            format: format.filter(|_| self.traits.formats.contains(&number))?,
            base: high | u64::from(self.get(RX_RING_PHYS_ADDR)),
            len: (self.get(RING_SIZES) >> 16 & 0x3fff) + 1,
        })
    }

    /// Gives a frame to the host. `false` where it has no buffer for it now.
    fn deliver(&mut self, frame: &[u8], host: &mut Host) -> bool {
        let Some(ring) = self.rx_ring() else {
            host.complaints
                .add("a descriptor format that this generation does not know");
            return self.drop_frame();
        };
        let index = self.receiver.next % ring.len;
        let descriptor = match ring.read(&mut host.dma, index) {
            Ok(descriptor) => descriptor,
            Err(error) => return self.drop_unreachable(error, host),
        };
        if descriptor.flags & OWNED == 0 {
            return false;
        }
        let fault = self.faults.take_receive();
        let (data, tag) = self.without_tag(frame);
        let data = match fault {
            Some(RxFault::Framing) => [data.as_slice(), &[0]].concat(),
            _ => data,
        };
        let room = descriptor.flags & ring.format.length_mask();
        let most = self.get(OFFLOAD_CONFIG) & 0x3fff;
        if data.len() > room.min(most) as usize {
            self.counters.add(Counter::RxTooLong, 1);
            self.totals.rx_errors += 1;
            self.raise(irq::RX_ERROR);
            return true;
        }
        let flags = data.len() as u32 | self.rx_flags(&data, ring.format, fault);
        let written = host
            .dma
            .write(descriptor.buffer, &data)
            .and_then(|()| ring.write_tag(&mut host.dma, index, tag))
            .and_then(|()| ring.write_flags(&mut host.dma, index, flags));
        if let Err(error) = written {
            return self.drop_unreachable(error, host);
        }
        self.receiver.next = ring.after(index);
        self.count_received(frame, flags);
        self.raise(irq::RX);
        true
    }

    fn drop_frame(&mut self) -> bool {
        self.totals.rx_dropped += 1;
        self.counters.add(Counter::RxDropped, 1);
        true
    }

    fn drop_unreachable(&mut self, error: crate::DmaError, host: &mut Host) -> bool {
        if error != crate::DmaError::NotMaster {
            host.complaints.add(error);
        }
        self.drop_frame()
    }

    /// The frame without its VLAN tag where tags are to be taken off, and what the
    /// descriptor says of the tag. Without one, or where tags are left on, the bits
    /// there mean nothing.
    fn without_tag(&self, frame: &[u8]) -> (Vec<u8>, u32) {
        let strips = self.traits.vlan
            && self.get(TX_RX_CONTROL) & txrx::VLANSTRIP != 0
            && self.get(VLAN_CONTROL) & vlan::ENABLE != 0;
        if strips && frame.len() >= 18 && frame[12..14] == VLAN_TAG {
            let tag = u32::from_be_bytes([0, 0, frame[14], frame[15]]);
            let data = [&frame[..12], &frame[16..]].concat();
            return (data, RX3_VLAN_PRESENT | tag);
        }
        let noise = if strips { 0 } else { RX3_VLAN_PRESENT | 0xfff };
        (frame.to_vec(), noise)
    }

    fn rx_flags(&self, frame: &[u8], format: Format, fault: Option<RxFault>) -> u32 {
        let names = format.rx();
        let error = match fault {
            None if length_is_wrong(frame) => names.length_error,
            None => 0,
            Some(RxFault::Crc) => names.crc_error,
            Some(RxFault::Overflow) => names.overflow,
            Some(RxFault::Symbol) => names.symbol,
            Some(RxFault::Length) => names.length_error,
            Some(RxFault::Framing) => names.framing | names.subtract_one,
            Some(RxFault::Invalid) => return 0,
        };
        let mut flags = names.valid | error | if error != 0 { ERROR } else { 0 };
        let checks = self.traits.checksum && self.get(TX_RX_CONTROL) & txrx::RXCHECK != 0;
        if checks && format != Format::V1 && error == 0 {
            let verdict = verdict(frame);
            for (right, bit) in [
                (verdict.ip, RX2_CHECKSUM_IP),
                (verdict.tcp && verdict.ip, RX2_CHECKSUM_TCP),
                (verdict.udp && verdict.ip, RX2_CHECKSUM_UDP),
            ] {
                flags |= if right { bit } else { 0 };
            }
        }
        flags
    }

    fn count_received(&mut self, frame: &[u8], flags: u32) {
        let (Some(format), _) = Format::of(self.get(TX_RX_CONTROL)) else {
            return;
        };
        let names = format.rx();
        if flags & ERROR != 0 || flags & names.valid == 0 {
            self.totals.rx_errors += 1;
            self.raise(irq::RX_ERROR);
            for (bit, counter) in [
                (names.crc_error, Counter::RxCrcError),
                (names.overflow, Counter::RxOverflow),
                (names.symbol, Counter::RxFrameError),
                (names.length_error, Counter::RxLengthError),
            ] {
                self.counters.add(counter, u32::from(flags & bit != 0));
            }
            return;
        }
        let kind = match frame {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Counter::RxBroadcast,
            [first, ..] if first & 1 != 0 => Counter::RxMulticast,
            _ => Counter::RxUnicast,
        };
        self.counters.add(kind, 1);
        self.counters.add(Counter::RxBytes, frame.len() as u32 + 4);
        self.totals.rx_frames += 1;
        self.totals.rx_bytes += frame.len() as u64;
    }
}

/// Whether the type field is a length, and not the frame's. Short frames are padded.
fn length_is_wrong(frame: &[u8]) -> bool {
    let field = u16::from_be_bytes([frame[12], frame[13]]);
    let data = frame.len() - ETHERNET_HEADER;
    let is_length = field <= LARGEST_LENGTH;
    is_length && (usize::from(field) > data || frame.len() > SHORTEST && usize::from(field) != data)
}
