//! A super-segment, and three ways to cut it: by the model's NIC, by [`gso`],
//! and from scratch.

use super::*;
use crate::e1000::model::ones_complement_sum;
use crate::gso::{self, Cut};
use crate::hw::{DmaRegion, DmaSlice, Platform};

pub const ACK: u8 = 1 << 4;
pub const PSH: u8 = 1 << 3;
pub const FIN: u8 = 1 << 0;
pub const CWR: u8 = 1 << 7;

/// A super-segment.
#[derive(Clone, Debug)]
pub struct Whole {
    pub ipv6: bool,
    pub ip_options: usize,
    pub tcp_options: usize,
    pub flags: u8,
    pub sequence: u32,
    pub identification: u16,
    pub payload: usize,
    pub mss: u16,
    pub seed: u8,
}

pub const PLAIN: Whole = Whole {
    ipv6: false,
    ip_options: 0,
    tcp_options: 12,
    flags: ACK | PSH,
    sequence: 1000,
    identification: 1,
    payload: 5000,
    mss: 1448,
    seed: 0,
};

impl Whole {
    /// The headers, with rubbish where the contract allows it.
    pub fn headers(&self) -> Vec<u8> {
        self.headers_with([0xde, 0xad], self.sequence, self.identification, self.flags)
    }

    pub fn headers_with(&self, rubbish: [u8; 2], sequence: u32, id: u16, flags: u8) -> Vec<u8> {
        let mut bytes = vec![2, 0, 0, 0, 0, 9, 2, 0, 0, 0, 0, 8];
        if self.ipv6 {
            bytes.extend([0x86, 0xdd, 0x60, 1, 2, 3]);
            bytes.extend(rubbish);
            bytes.extend([6, 64]);
            bytes.extend((0..32).map(|at| self.seed.wrapping_mul(7).wrapping_add(at)));
        } else {
            bytes.extend([0x08, 0x00, 0x45 + (self.ip_options / 4) as u8, 0]);
            bytes.extend(rubbish);
            bytes.extend(id.to_be_bytes());
            bytes.extend([0x40, 0, 64, 6]);
            bytes.extend(rubbish);
            bytes.extend([10, 77, self.seed, 2, 10, 77, 0, 1]);
            bytes.extend(vec![1; self.ip_options]);
        }
        bytes.extend([0x12, 0x34, 0x04, 0xd2]);
        bytes.extend(sequence.to_be_bytes());
        bytes.extend([
            0,
            0,
            0,
            5,
            ((20 + self.tcp_options) / 4 * 16) as u8,
            flags,
            8,
            0,
        ]);
        bytes.extend(rubbish);
        bytes.extend([0, 0]);
        bytes.extend(vec![1; self.tcp_options]);
        bytes
    }

    pub fn payload(&self) -> Vec<u8> {
        (0..self.payload)
            .map(|at| (at * 13 + at / 256) as u8 ^ self.seed)
            .collect()
    }

    pub fn offload(&self) -> Offload {
        Offload::Tso {
            ipv6: self.ipv6,
            mss: self.mss,
        }
    }

    pub fn cut(&self, checksum_offload: bool) -> Cut {
        Cut {
            ipv6: self.ipv6,
            mss: self.mss,
            checksum_offload,
        }
    }

    /// The segments, from scratch: each is written as if it stood alone.
    pub fn reference(&self) -> Vec<Vec<u8>> {
        let payload = self.payload();
        let parts: Vec<&[u8]> = payload.chunks(self.mss.into()).collect();
        let mut sent = 0;
        let mut segments = Vec::new();
        for (index, part) in parts.iter().enumerate() {
            let mut flags = self.flags;
            if index + 1 != parts.len() {
                flags &= !(FIN | PSH);
            }
            if index != 0 {
                flags &= !CWR;
            }
            let sequence = (u64::from(self.sequence) + sent) as u32;
            let id = (usize::from(self.identification) + index) as u16;
            let mut segment = self.headers_with([0, 0], sequence, id, flags);
            let header = segment.len();
            segment.extend(*part);
            let ip_header = if self.ipv6 { 40 } else { 20 + self.ip_options };
            let tcp = 14 + ip_header;
            let tcp_len = (header - tcp + part.len()) as u16;
            let mut pseudo;
            if self.ipv6 {
                segment[18..20].copy_from_slice(&tcp_len.to_be_bytes());
                pseudo = segment[22..54].to_vec();
            } else {
                let total = tcp_len + ip_header as u16;
                segment[16..18].copy_from_slice(&total.to_be_bytes());
                let sum = !ones_complement_sum(&segment[14..tcp]);
                segment[24..26].copy_from_slice(&sum.to_be_bytes());
                pseudo = segment[26..34].to_vec();
            }
            pseudo.extend([0, 6]);
            pseudo.extend(tcp_len.to_be_bytes());
            pseudo.extend(&segment[tcp..]);
            let sum = !ones_complement_sum(&pseudo);
            segment[tcp + 16..tcp + 18].copy_from_slice(&sum.to_be_bytes());
            segment.resize(segment.len().max(60), 0);
            segments.push(segment);
            sent += part.len() as u64;
        }
        segments
    }

    /// The segments as the model's NIC cuts them, the payload behind `inline`
    /// bytes going by reference in pieces of the lengths given.
    pub fn by_nic(&self, bench: &mut Bench, inline: usize, cuts: &[usize]) -> Vec<Vec<u8>> {
        let payload = self.payload();
        let filled = [&self.headers()[..], &payload[..inline]].concat();
        let fragments = bench.lay_out(&payload[inline..], cuts);
        let (_, tx) = bench.nic.halves();
        assert_eq!(tx.accepts(filled.len(), &fragments, self.offload()), Ok(()));
        tx.send(filled.len(), &fragments, self.offload(), |buffer| {
            buffer.copy_from_slice(&filled);
        })
        .unwrap();
        bench.finish(1)
    }

    pub fn by_software(&self, bench: &mut Bench, checksum_offload: bool) -> Vec<Vec<u8>> {
        let frame = [self.headers(), self.payload()].concat();
        let (_, tx) = bench.nic.halves();
        let count = gso::send(tx, &frame, self.cut(checksum_offload)).unwrap();
        assert_eq!(count, self.payload.div_ceil(self.mss.into()));
        bench.finish(count)
    }
}

/// Bytes of an IP packet that [`Bench::new`]'s NIC sends.
pub const MTU: u16 = 1500;

/// A NIC, and memory to refer to.
pub struct Bench {
    pub hardware: Hardware,
    pub nic: E1000<Hardware>,
    pub region: DmaRegion,
}

impl Bench {
    pub fn new(device: u16, pci_x: bool) -> Self {
        Self::with(
            device,
            pci_x,
            Config {
                rx_ring: 8,
                tx_ring: 4096,
                mtu: MTU.into(),
            },
        )
    }

    pub fn with(device: u16, pci_x: bool, config: Config) -> Self {
        let hardware = Hardware::new(device);
        if pci_x {
            hardware.poke(STATUS, hardware.peek(STATUS) | Status::PCIX_MODE.bits());
        }
        let nic = start_with(&hardware, config).unwrap();
        let region = hardware.clone().dma_alloc(1 << 16, 64).unwrap();
        Self {
            hardware,
            nic,
            region,
        }
    }

    /// Puts `bytes` into memory, and names it in pieces.
    pub fn lay_out(&self, bytes: &[u8], cuts: &[usize]) -> Vec<DmaSlice> {
        // SAFETY: the region is longer than any payload, and the NIC is done
        // with what was there.
        unsafe {
            let start = std::ptr::NonNull::from(bytes).cast();
            self.region
                .cpu()
                .copy_from_nonoverlapping(start, bytes.len());
        }
        let mut at = 0;
        let mut pieces = Vec::new();
        for len in cuts.iter().copied().chain([bytes.len()]) {
            let end = bytes.len().min(at + len);
            pieces.push(self.region.slice(at..end));
            at = end;
        }
        pieces.retain(|piece| piece.len > 0);
        pieces
    }

    /// Lets the NIC send what is queued, and returns it.
    pub fn finish(&mut self, frames: usize) -> Vec<Vec<u8>> {
        let (_, tx) = self.nic.halves();
        tx.flush();
        self.hardware.transmit(usize::MAX);
        assert_eq!(tx.reclaim(), frames);
        assert_eq!(tx.free(), tx.capacity());
        std::mem::take(&mut self.hardware.state().sent)
    }
}
