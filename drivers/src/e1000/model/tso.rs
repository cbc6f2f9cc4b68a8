//! The model's TCP segmentation, after SDM 3.3.6, 3.5.5 and 3.5.9.

use super::ones_complement_sum;
use crate::e1000::ids::{Generation, Model};
use crate::e1000::regs::TxBits;

/// A context descriptor with TSE.
pub struct TsoContext {
    ipcss: usize,
    ipcso: usize,
    ipcse: usize,
    tucss: usize,
    tucso: usize,
    payload: usize,
    header: usize,
    mss: usize,
    ipv4: bool,
}

impl TsoContext {
    pub fn decode(low: u64, high: u64) -> Self {
        let bits = TxBits::from_bits_retain(high);
        assert!(bits.contains(TxBits::TCP | TxBits::DEXT));
        let byte = |word: u64, at: u32| (word >> at & 0xff) as usize;
        assert_eq!(low >> 48, 0, "TUCSE: to the end of each segment");
        Self {
            ipcss: byte(low, 0),
            ipcso: byte(low, 8),
            ipcse: (low >> 16 & 0xffff) as usize,
            tucss: byte(low, 32),
            tucso: byte(low, 40),
            payload: (high & 0xf_ffff) as usize,
            header: byte(high, 40),
            mss: (high >> 48) as usize,
            ipv4: bits.contains(TxBits::IP),
        }
    }

    /// Panics over what the manual or an erratum forbids: see `docs/e1000.md`.
    pub fn check(&self, model: &Model, pba: u32, pieces: &[usize], len: usize) {
        assert_eq!(self.header + self.payload, len, "PAYLEN");
        assert!(self.header <= 240 && self.mss > 0);
        let fifo = match model.generation {
            Generation::I82574 => 40,
            _ => 64,
        };
        let fifo = (fifo - pba as usize) * 1024;
        assert!(self.header + self.mss + 80 <= fifo, "the FIFO is too small");
        assert!(pieces[0] > self.header, "headers alone, or in parts");
        let longest = match model.generation {
            Generation::I82574 => 4096,
            _ => 4096.min(4 * self.mss),
        };
        assert!(
            pieces.iter().all(|piece| *piece <= longest),
            "the FIFO runs over: {pieces:?}"
        );
        assert!(pieces.last().unwrap() <= &8, "no sentinel: {pieces:?}");
        assert!(model.generation != Generation::I82543);
        assert!(!matches!(model.device, 0x1019 | 0x101a | 0x1075));
        assert!(self.ipv4 || model.generation == Generation::I82574);
    }

    /// The segments, with the checksums that the first data descriptor asked
    /// for. What the header's fields hold at first is not made good:
    /// sums begin from it, as they do in the NIC.
    pub fn cut(&self, frame: &[u8], ixsm: bool, txsm: bool) -> Vec<Vec<u8>> {
        let (prototype, mut payload) = frame.split_at(self.header);
        let mut segments = Vec::new();
        let mut sequence = read(prototype, self.tucss + 4, 4);
        let mut identification = read(prototype, self.ipcss + 4, 2);
        while !payload.is_empty() {
            let (part, rest) = payload.split_at(self.mss.min(payload.len()));
            payload = rest;
            let mut segment = [prototype, part].concat();
            if self.ipv4 {
                let length = segment.len() - self.ipcss;
                write(&mut segment, self.ipcss + 2, 2, length as u32);
                write(&mut segment, self.ipcss + 4, 2, identification);
            } else {
                // The manual's formula is that of the PCI parts; the later
                // part's leaves the IPv6 header out.
                let length = segment.len() - self.ipcss - 40;
                write(&mut segment, self.ipcss + 4, 2, length as u32);
            }
            write(&mut segment, self.tucss + 4, 4, sequence);
            if !payload.is_empty() {
                segment[self.tucss + 13] &= !0b1001;
            }
            let pseudo = read(&segment, self.tucso, 2) + (segment.len() - self.tucss) as u32;
            write(
                &mut segment,
                self.tucso,
                2,
                (pseudo & 0xffff) + (pseudo >> 16),
            );
            if ixsm {
                let sum = !ones_complement_sum(&segment[self.ipcss..=self.ipcse]);
                write(&mut segment, self.ipcso, 2, sum.into());
            }
            if txsm {
                let sum = !ones_complement_sum(&segment[self.tucss..]);
                write(&mut segment, self.tucso, 2, sum.into());
            }
            sequence = sequence.wrapping_add(part.len() as u32);
            identification = identification.wrapping_add(1);
            segments.push(segment);
        }
        segments
    }
}

fn read(bytes: &[u8], at: usize, len: usize) -> u32 {
    bytes[at..at + len]
        .iter()
        .fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn write(bytes: &mut [u8], at: usize, len: usize, value: u32) {
    bytes[at..at + len].copy_from_slice(&value.to_be_bytes()[4 - len..]);
}
