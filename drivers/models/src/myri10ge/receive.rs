//! From the wire into the host's buffers.

use super::layout::*;
use super::{Myri10ge, RxFault};
use crate::device::Host;

/// Big buffers and small ones that a card keeps back before it asks its peer to pause.
const RESERVE: usize = 8;
/// Buffers lie in pages of this size.
const PAGE: u64 = 4096;
/// A pause frame's EtherType, that of all MAC control frames (IEEE 802.3, annex 31A).
const MAC_CONTROL: [u8; 2] = [0x88, 0x08];
const HEADER: usize = 14;
const SHORTEST: usize = 60;
const BROADCAST: [u8; 6] = [0xff; 6];

/// Both rings, and where the interrupt queue goes on.
#[derive(Debug, Default)]
pub(super) struct Receiver {
    pub(super) small: Ring,
    pub(super) big: Ring,
    /// Slots of the interrupt queue written.
    slots: usize,
}

impl Receiver {
    pub(super) fn has_room(&self) -> bool {
        let has_room = |ring: &Ring| ring.free() >= RESERVE;
        has_room(&self.small) && has_room(&self.big)
    }
}

/// A ring of buffers, that the host writes the addresses of.
#[derive(Debug)]
pub(super) struct Ring {
    addresses: Vec<u8>,
    /// Which slots hold a buffer that was not used.
    filled: Vec<bool>,
    next: usize,
}

impl Default for Ring {
    fn default() -> Self {
        Self {
            addresses: vec![0; RECV_SLOTS * RECV_LEN],
            filled: vec![false; RECV_SLOTS],
            next: 0,
        }
    }
}

impl Ring {
    /// Takes what the host writes into the ring. A slot whose lower word is all ones
    /// does not count yet.
    pub(super) fn write(&mut self, host: &mut Host, at: usize, data: &[u8]) {
        let Some(place) = self.addresses.get_mut(at..at + data.len()) else {
            host.complaints
                .add("a write behind the end of a receive ring");
            return;
        };
        place.copy_from_slice(data);
        if data.is_empty() {
            return;
        }
        for slot in at / RECV_LEN..=(at + data.len() - 1) / RECV_LEN {
            // It counts by its lower word, which comes last.
            if at + data.len() <= slot * RECV_LEN + 4 {
                if self.filled[slot] {
                    host.complaints
                        .add("a receive buffer's upper half was written when it counted already");
                }
                continue;
            }
            if at + data.len() < (slot + 1) * RECV_LEN {
                continue;
            }
            let low = word(&self.addresses, slot * RECV_LEN + 4);
            self.filled[slot] = low != u32::MAX;
        }
    }

    fn address(&self, slot: usize) -> u64 {
        let at = slot * RECV_LEN;
        u64::from(word(&self.addresses, at)) << 32 | u64::from(word(&self.addresses, at + 4))
    }

    /// Buffers that can be used now: those from the next one on, without a gap.
    fn free(&self) -> usize {
        let in_order = (0..RECV_SLOTS).map(|step| (self.next + step) % RECV_SLOTS);
        in_order.take_while(|slot| self.filled[*slot]).count()
    }

    /// Takes `count` buffers, if that many are there.
    fn take(&mut self, count: usize) -> Option<Vec<u64>> {
        let slots: Vec<usize> = (0..count)
            .map(|step| (self.next + step) % RECV_SLOTS)
            .collect();
        if count > RECV_SLOTS || !slots.iter().all(|slot| self.filled[*slot]) {
            return None;
        }
        for slot in &slots {
            self.filled[*slot] = false;
        }
        self.next = (self.next + count) % RECV_SLOTS;
        Some(slots.into_iter().map(|slot| self.address(slot)).collect())
    }
}

impl Myri10ge {
    pub(super) fn take_from_wire(&mut self, frame: &[u8], host: &mut Host) {
        if !self.is_up() {
            self.totals.rx_unheard += 1;
            return;
        }
        let before = self.dropped;
        if !host.dma.is_master() {
            // The card can put it nowhere, and soon has no room for more.
            self.dropped.overrun = self.dropped.overrun.wrapping_add(1);
        } else if self.passes(frame) {
            self.deliver(frame, host);
        }
        if self.dropped != before {
            self.status.news(host.now);
        }
    }

    /// Whether the frame is whole and meant for the host. If not it is counted.
    fn passes(&mut self, frame: &[u8]) -> bool {
        let counter = match self.faults.take_receive() {
            Some(RxFault::Crc) => &mut self.dropped.bad_crc32,
            Some(RxFault::Phy) => &mut self.dropped.bad_phy,
            Some(RxFault::Overrun) => &mut self.dropped.overrun,
            Some(RxFault::Overflow) => &mut self.dropped.link_overflow,
            Some(RxFault::Runt) => &mut self.dropped.runt,
            None if frame.len() < HEADER => &mut self.dropped.runt,
            None if frame.len() > self.parameters.mtu as usize => {
                &mut self.dropped.link_error_or_filtered
            }
            None if frame[12..14] == MAC_CONTROL => &mut self.dropped.pause,
            None => match self.filtered_by(&frame[..6]) {
                Some(counter) => counter,
                None => return true,
            },
        };
        *counter = counter.wrapping_add(1);
        false
    }

    /// The counter of the filter that stops frames to `destination`.
    fn filtered_by(&mut self, destination: &[u8]) -> Option<&mut u32> {
        let parameters = &self.parameters;
        if parameters.promiscuous || destination == BROADCAST {
            return None;
        }
        if destination[0] & 1 != 0 {
            let joined = parameters.groups.iter().any(|group| group == destination);
            let stays_out = !parameters.all_multicast && !joined;
            return stays_out.then_some(&mut self.dropped.multicast_filtered);
        }
        let is_ours = parameters.mac.is_some_and(|mac| mac == destination);
        (!is_ours).then_some(&mut self.dropped.unicast_filtered)
    }

    fn deliver(&mut self, frame: &[u8], host: &mut Host) {
        // A cable carries nothing shorter; a tap does.
        let mut padded = frame.to_vec();
        padded.resize(frame.len().max(SHORTEST), 0);
        let is_small = padded.len() <= self.parameters.small as usize;
        let (ring, size, counter) = if is_small {
            let size = self.parameters.small as usize + PAD;
            let counter = &mut self.dropped.no_small_buffer;
            (&mut self.receiver.small, size, counter)
        } else {
            let size = self.parameters.big as usize;
            (
                &mut self.receiver.big,
                size,
                &mut self.dropped.no_big_buffer,
            )
        };
        let needed = (padded.len() + PAD).div_ceil(size.max(1));
        let count = match self.parameters.always_big as usize {
            count if count > 0 && !is_small => count.max(needed),
            _ => needed,
        };
        let Some(buffers) = ring.take(count) else {
            *counter = counter.wrapping_add(1);
            return;
        };
        let sum = checksum(&padded[HEADER..]);
        let mut bytes = vec![0; PAD];
        bytes.extend_from_slice(&padded);
        for (buffer, piece) in buffers.iter().zip(bytes.chunks(size)) {
            check_buffer(host, *buffer, piece.len(), is_small);
            if let Err(error) = host.dma.write(*buffer, piece) {
                host.complaints
                    .add(format_args!("a received frame: {error}"));
            }
        }
        self.totals.rx_frames += 1;
        self.totals.rx_bytes += padded.len() as u64;
        self.complete(host, sum, padded.len() as u16);
    }

    /// Writes the next slot of the interrupt queue.
    fn complete(&mut self, host: &mut Host, sum: u16, len: u16) {
        let Some(queue) = self.parameters.intrq else {
            return;
        };
        let count = self.parameters.intrq_len as usize / SLOT_LEN;
        let place = self.receiver.slots % count.max(1) * SLOT_LEN;
        let slot = queue.wrapping_add(place as u64);
        if host.dma.load32(slot).is_ok_and(|word| word >> 16 != 0) {
            host.complaints
                .add("the interrupt queue is full of slots that were not read");
        }
        let [a, b] = sum.to_be_bytes();
        let [c, d] = len.to_be_bytes();
        if let Err(error) = host.dma.store32(slot, u32::from_le_bytes([a, b, c, d])) {
            host.complaints
                .add(format_args!("the interrupt queue: {error}"));
        }
        self.receiver.slots += 1;
        self.status.received(host.now);
    }
}

/// What is known of where buffers may lie: small ones inside a page, and what goes into a
/// big one in pages one behind the other, from the beginning of a buffer on.
fn check_buffer(host: &mut Host, address: u64, len: usize, is_small: bool) {
    let last = address.wrapping_add(len as u64).wrapping_sub(1);
    if is_small && address / PAGE != last / PAGE {
        host.complaints
            .add("a small buffer lies across a page's boundary");
    }
    if !address.is_multiple_of(8) {
        host.complaints
            .add("a receive buffer is not aligned to 8 bytes");
    }
}

/// The ones' complement sum of `bytes` (RFC 1071), not complemented.
pub(super) fn checksum(bytes: &[u8]) -> u16 {
    let (words, rest) = bytes.as_chunks::<2>();
    let mut sum: u32 = words
        .iter()
        .map(|word| u32::from(u16::from_be_bytes(*word)))
        .sum();
    sum += rest.first().map_or(0, |byte| u32::from(*byte) << 8);
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}
