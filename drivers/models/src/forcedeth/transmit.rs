//! The transmitter: from the host's descriptors onto the wire.

use std::time::Duration;

use super::Forcedeth;
use super::faults::TxFault;
use super::receive::{ETHERNET_HEADER, SHORTEST};
use super::registers::*;
use super::ring::{
    ERROR, Format, OWNED, Ring, TX2_CHECKSUM_L3, TX2_CHECKSUM_L4, TX2_TSO, TX2_TSO_SHIFT,
    TX3_VLAN_PRESENT,
};
use super::statistics::Counter;
use crate::DmaError;
use crate::device::Host;
use crate::offload::{cut, fill_checksums};

/// The most that one frame's descriptors may add up to: an IP packet of the largest size
/// and its header.
const GATHERED_MAX: usize = 65_535 + 18;
/// The longest frame without and with jumbo frames, a VLAN tag included. NVIDIA is said
/// to give 9202 bytes as its limit.
const FRAME_MAX: usize = 1518;
const JUMBO_MAX: usize = 9202;
/// Frames under way that the generations with a limit bear.
const TX_LIMIT: u32 = 16;

/// The transmitter's own state.
#[derive(Debug, Default)]
pub(super) struct Transmitter {
    next: u32,
    kicked: bool,
    paused_until: Option<Duration>,
}

impl Transmitter {
    /// Begins at the start of the ring.
    pub(super) fn restart(&mut self) {
        self.next = 0;
        self.kicked = false;
    }

    /// There may be something to send.
    pub(super) fn kick(&mut self) {
        self.kicked = true;
    }

    /// Sends nothing until then.
    pub(super) fn pause(&mut self, until: Duration) {
        self.paused_until = Some(until);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.paused_until.filter(|_| self.kicked)
    }
}

/// A frame as the host has described it.
struct Gathered {
    frame: Vec<u8>,
    /// The first descriptor's flags and tag.
    flags: u32,
    vlan: u32,
    /// Its descriptors: the first one, how many, and the last one's flags.
    first: u32,
    count: u32,
    last_flags: u32,
}

/// Why the transmitter stands still.
enum Stop {
    /// There is nothing more to send.
    Idle,
    /// Memory is out of reach.
    Unreachable,
    /// The descriptors make no sense.
    Wrong(String),
}

impl Forcedeth {
    fn transmits(&self) -> bool {
        let control = self.get(TRANSMITTER_CONTROL) & (xmit::START | xmit::PATH_EN);
        let reset = self.get(TX_RX_CONTROL) & txrx::RESET != 0;
        control == xmit::START && !reset && !self.is_gated() && !self.faults.tx_stuck
    }

    /// Sends what the host has ready.
    pub(super) fn transmit(&mut self, host: &mut Host) {
        self.transmitter
            .paused_until
            .take_if(|until| *until <= host.now);
        if !self.transmitter.kicked || !self.transmits() {
            return;
        }
        if self.transmitter.paused_until.is_some() {
            return;
        }
        let Some(ring) = self.tx_ring() else {
            host.complaints
                .add("a descriptor format that this generation does not know");
            self.transmitter.kicked = false;
            return;
        };
        self.check_limit(ring, host);
        for _ in 0..ring.len {
            match self.gather(ring, host) {
                Ok(gathered) => self.send_gathered(ring, gathered, host),
                Err(Stop::Idle) => {
                    self.transmitter.kicked = false;
                    return;
                }
                Err(Stop::Unreachable) => return,
                Err(Stop::Wrong(what)) => {
                    host.complaints.add(what);
                    self.raise(irq::RECOVER_ERROR);
                    self.transmitter.kicked = false;
                    return;
                }
            }
        }
    }

    fn tx_ring(&self) -> Option<Ring> {
        let (format, number) = Format::of(self.get(TX_RX_CONTROL));
        let high = u64::from(self.get(TX_RING_PHYS_ADDR_HIGH)) << 32;
        let high = if format == Some(Format::V3) { high } else { 0 };
        Some(Ring {
            format: format.filter(|_| self.traits.formats.contains(&number))?,
            base: high | u64::from(self.get(TX_RING_PHYS_ADDR)),
            len: (self.get(RING_SIZES) & 0x3fff) + 1,
        })
    }

    /// Complains of more frames ready to be sent than the generation bears.
    fn check_limit(&self, ring: Ring, host: &mut Host) {
        if !self.traits.tx_limit {
            return;
        }
        let (mut index, mut frames) = (self.transmitter.next % ring.len, 0);
        for _ in 0..ring.len {
            match ring.flags(&mut host.dma, index) {
                Ok(flags) if flags & OWNED != 0 => {
                    frames += u32::from(flags & ring.format.tx().last != 0);
                }
                _ => return,
            }
            if frames > TX_LIMIT {
                host.complaints.add(format_args!(
                    "more than {TX_LIMIT} frames under way, which hangs this generation"
                ));
                return;
            }
            index = ring.after(index);
        }
    }

    /// Reads the next frame.
    fn gather(&mut self, ring: Ring, host: &mut Host) -> Result<Gathered, Stop> {
        let stop = |error| match error {
            DmaError::NotMaster => Stop::Unreachable,
            _ => Stop::Wrong(error.to_string()),
        };
        let first = self.transmitter.next % ring.len;
        let mut gathered = Gathered {
            frame: Vec::new(),
            flags: 0,
            vlan: 0,
            first,
            count: 0,
            last_flags: 0,
        };
        let mut index = first;
        loop {
            let descriptor = ring.read(&mut host.dma, index).map_err(stop)?;
            let is_first = gathered.count == 0;
            if descriptor.flags & OWNED == 0 && is_first {
                return Err(Stop::Idle);
            }
            if descriptor.flags & OWNED == 0 {
                return Err(Stop::Wrong(
                    "a frame whose last descriptor is missing".into(),
                ));
            }
            if is_first {
                gathered.flags = descriptor.flags;
                gathered.vlan = descriptor.vlan;
            }
            let len = (descriptor.flags & ring.format.length_mask()) as usize + 1;
            let start = gathered.frame.len();
            if start + len > GATHERED_MAX {
                return Err(Stop::Wrong(format!(
                    "a frame of more than {GATHERED_MAX} bytes"
                )));
            }
            gathered.frame.resize(start + len, 0);
            host.dma
                .read(descriptor.buffer, &mut gathered.frame[start..])
                .map_err(stop)?;
            gathered.count += 1;
            if descriptor.flags & ring.format.tx().last != 0 {
                gathered.last_flags = descriptor.flags;
                return Ok(gathered);
            }
            if gathered.count == ring.len {
                return Err(Stop::Wrong("a whole ring without a frame's end".into()));
            }
            index = ring.after(index);
        }
    }

    fn send_gathered(&mut self, ring: Ring, mut gathered: Gathered, host: &mut Host) {
        let fault = self.faults.take_transmit();
        let sent = fault.is_none() && self.send_frame(ring.format, &mut gathered, host);
        let mut causes = irq::TX_OK;
        let names = ring.format.tx();
        let mut status = 0;
        if !sent {
            status = ERROR | self.count_failure(ring.format, fault);
            causes |= irq::TX_ERR;
        }
        if gathered.flags & names.forced_interrupt != 0 && ring.format == Format::V1 {
            causes |= irq::TX_FORCED;
        }
        self.complete(ring, &gathered, status, host);
        self.raise(causes);
    }

    /// The status bits of a frame that was not sent, which it counts.
    fn count_failure(&mut self, format: Format, fault: Option<TxFault>) -> u32 {
        let names = format.tx();
        self.totals.tx_errors += 1;
        let (bit, counter) = match fault {
            Some(TxFault::Underflow) | None => (names.underflow, Counter::TxUnderflow),
            Some(TxFault::Carrier) => (names.carrier_lost, Counter::TxCarrierLost),
            Some(TxFault::LateCollision) => (names.late_collision, Counter::TxLateCollision),
            Some(TxFault::Retry) => (names.retry_error, Counter::TxRetryError),
        };
        self.counters.add(counter, 1);
        bit
    }

    /// Gives the descriptors back, the last one with what became of the frame.
    fn complete(&mut self, ring: Ring, gathered: &Gathered, status: u32, host: &mut Host) {
        let keeps = ring.format.length_mask() | ring.format.tx().last;
        let mut index = gathered.first;
        for number in 1..=gathered.count {
            let flags = if number == gathered.count {
                gathered.last_flags & keeps | status
            } else {
                ring.flags(&mut host.dma, index).unwrap_or(0) & !OWNED
            };
            if let Err(error) = ring.write_flags(&mut host.dma, index, flags) {
                host.complaints.add(error);
            }
            index = ring.after(index);
        }
        self.transmitter.next = index;
    }

    /// Does what the descriptors ask for, and sends. `false` where that cannot be.
    fn send_frame(&mut self, format: Format, gathered: &mut Gathered, host: &mut Host) -> bool {
        let frame = &mut gathered.frame;
        if frame.len() < ETHERNET_HEADER {
            host.complaints
                .add(format_args!("a frame of {} bytes to send", frame.len()));
            return false;
        }
        self.insert_tag(format, gathered.vlan, frame, host);
        if format == Format::V1 {
            return self.put_on_wire(frame, host);
        }
        let flags = gathered.flags;
        let asks = flags & (TX2_TSO | TX2_CHECKSUM_L3 | TX2_CHECKSUM_L4) != 0;
        if asks && !self.traits.checksum {
            host.complaints
                .add("an offload that this generation has not");
            return self.put_on_wire(frame, host);
        }
        if flags & TX2_TSO != 0 {
            let mss = (flags >> TX2_TSO_SHIFT & 0x3fff) as usize;
            return self.send_cut(frame, mss, host);
        }
        let (l3, l4) = (flags & TX2_CHECKSUM_L3 != 0, flags & TX2_CHECKSUM_L4 != 0);
        if !fill_checksums(frame, l3, l4) {
            host.complaints
                .add("a checksum for a packet that is neither TCP nor UDP");
        }
        self.put_on_wire(frame, host)
    }

    fn send_cut(&mut self, frame: &[u8], mss: usize, host: &mut Host) -> bool {
        let mut segments = Vec::new();
        if cut(frame, mss, |segment| segments.push(segment.to_vec())).is_none() {
            host.complaints
                .add("a super-segment that is no TCP packet, or whose MSS is 0");
            return false;
        }
        self.totals.tx_super_segments += 1;
        // Each segment that is too long is complained of, and the others are sent.
        let refused = segments
            .iter()
            .filter(|segment| !self.put_on_wire(segment, host))
            .count();
        refused == 0
    }

    fn insert_tag(&self, format: Format, vlan: u32, frame: &mut Vec<u8>, host: &mut Host) {
        let asked = format == Format::V3 && vlan & TX3_VLAN_PRESENT != 0;
        let able = self.traits.vlan
            && self.get(TX_RX_CONTROL) & txrx::VLANINS != 0
            && self.get(VLAN_CONTROL) & vlan::ENABLE != 0;
        if asked && !able {
            host.complaints.add("a VLAN tag while tags are off");
        } else if asked {
            let [_, _, high, low] = vlan.to_be_bytes();
            frame.splice(12..12, [0x81, 0x00, high, low]);
        }
    }

    fn put_on_wire(&mut self, frame: &[u8], host: &mut Host) -> bool {
        let most = if self.traits.jumbo {
            JUMBO_MAX
        } else {
            FRAME_MAX
        };
        if frame.len() > most {
            host.complaints.add(format_args!(
                "a frame of {} bytes, where {most} is the most",
                frame.len()
            ));
            return false;
        }
        let mut padded = [0; SHORTEST];
        let frame = if frame.len() < SHORTEST {
            padded[..frame.len()].copy_from_slice(frame);
            &padded[..]
        } else {
            frame
        };
        let kind = match frame {
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Counter::TxBroadcast,
            [first, ..] if first & 1 != 0 => Counter::TxMulticast,
            _ => Counter::TxUnicast,
        };
        for (counter, count) in [
            (kind, 1),
            (Counter::TxFrames, 1),
            (Counter::TxZeroRetransmits, 1),
            (Counter::TxBytes, frame.len() as u32 + 4),
        ] {
            self.counters.add(counter, count);
        }
        self.totals.tx_frames += 1;
        self.totals.tx_bytes += frame.len() as u64;
        if self.loops_back() {
            self.take_own(frame, host);
        } else if self.matching_link().is_some() {
            host.send(frame);
        } else {
            self.totals.tx_unheard += 1;
        }
        true
    }
}
