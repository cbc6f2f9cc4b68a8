//! The model's DMA: what it does to the rings and the buffers.

use super::tso::TsoContext;
use super::{Memory, State};
use crate::e1000::ids::Generation;
use crate::e1000::regs::*;

impl State {
    pub(super) fn receive(&mut self, frame: &[u8], status: RxStatus, errors: RxErrors) -> bool {
        let rctl = Rctl::from_bits_retain(self.get(RCTL));
        let up = self.get(STATUS) & Status::LU.bits() != 0;
        if !rctl.contains(Rctl::EN) || !up || !self.wanted(frame, rctl) {
            return false;
        }
        if frame.len() + 4 > 1522 && !rctl.contains(Rctl::LPE) {
            self.count(ROC, 1);
            return false;
        }
        let mut bytes = frame.to_vec();
        if !rctl.contains(Rctl::SECRC) {
            bytes.extend([0xc5; 4]);
        }
        let size = buffer_size(rctl);
        let ring = self.get(RDLEN) / 16;
        let free = (self.get(RDT) + ring - self.get(RDH)) % ring;
        let needed = bytes.len().div_ceil(size);
        if free < needed as u32 {
            self.count(RNBC, 1);
            self.count(MPC, 1);
            self.icr |= Icr::RXO.bits();
            return false;
        }
        for (index, chunk) in bytes.chunks(size).enumerate() {
            let last = index + 1 == needed;
            let mut bits = RxStatus::DD;
            if last {
                bits |= RxStatus::EOP | status;
            }
            let errors = if last { errors } else { RxErrors::empty() };
            self.fill_rx_descriptor(chunk, bits, errors);
        }
        self.count(GPRC, 1);
        self.count(GORCL, frame.len() as u32 + 4);
        self.icr |= Icr::RXT0.bits();
        true
    }

    fn wanted(&self, frame: &[u8], rctl: Rctl) -> bool {
        if frame.first().is_some_and(|byte| byte & 1 != 0) {
            return rctl.contains(Rctl::BAM) && frame.starts_with(&[0xff; 6]);
        }
        let mut address = self.get(RAL).to_le_bytes().to_vec();
        address.extend(&self.get(RAH).to_le_bytes()[..2]);
        self.get(RAH) & RAH_AV != 0 && (frame.len() < 6 || frame.starts_with(&address))
    }

    pub(super) fn fill_rx_descriptor(&mut self, chunk: &[u8], status: RxStatus, errors: RxErrors) {
        let head = self.get(RDH);
        let at = self.base(RDBAL) + u64::from(head) * 16;
        let (buffer, old) = self.descriptor(at);
        assert_eq!(old, 0, "descriptor {head} is not a fresh one");
        self.dma_write(buffer, chunk);
        let mut high = [0; 8];
        high[..2].copy_from_slice(&(chunk.len() as u16).to_le_bytes());
        high[4] = status.bits();
        high[5] = errors.bits();
        self.dma_write(at + 8, &high);
        self.regs.insert(RDH, (head + 1) % (self.get(RDLEN) / 16));
    }

    pub(super) fn transmit_one(&mut self) -> bool {
        let (head, tail) = (self.get(TDH), self.get(TDT));
        if self.faults.tx_dead || head == tail || self.get(TCTL) & Tctl::EN.bits() == 0 {
            return false;
        }
        let at = self.base(TDBAL) + u64::from(head) * 16;
        let (low, high) = self.descriptor(at);
        let bits = TxBits::from_bits_retain(high);
        assert!(
            !bits.contains(TxBits::DD),
            "descriptor {head} was sent before"
        );
        if bits.contains(TxBits::DEXT) && !bits.contains(TxBits::DTYP_DATA) {
            assert!(self.frame.is_empty(), "a context inside a frame");
            if bits.contains(TxBits::TSE) {
                self.tso_context = Some(TsoContext::decode(low, high));
            } else {
                let [.., start, offset, _, _] = low.to_le_bytes();
                self.context = Some((start.into(), offset.into()));
            }
        } else {
            self.take_data(low, bits);
        }
        if bits.contains(TxBits::RS) {
            let report = (high | TxBits::DD.bits()).to_le_bytes();
            self.dma_write(at + 8, &report);
            self.icr |= Icr::TXDW.bits();
        }
        self.regs.insert(TDH, (head + 1) % (self.get(TDLEN) / 16));
        true
    }

    fn take_data(&mut self, buffer: u64, bits: TxBits) {
        let extended = bits.contains(TxBits::DEXT);
        let mask = if extended { 0xf_ffff } else { 0xffff };
        let len = (bits.bits() & mask) as usize;
        assert!((1..=16288).contains(&len), "a descriptor of {len} bytes");
        assert!(bits.contains(TxBits::IFCS));
        if self.model.generation == Generation::I82544
            && self.get(STATUS) & Status::PCIX_MODE.bits() != 0
        {
            let end = (buffer % 8 + len as u64 % 16) % 16;
            assert!(
                len <= 4 || !matches!(end, 1..=4 | 9..=12),
                "the 82544 hangs"
            );
        }
        if self.frame.is_empty() {
            self.checksum = extended && bits.contains(TxBits::POPTS_TXSM);
            self.ip_checksum = extended && bits.contains(TxBits::POPTS_IXSM);
            self.cutting = extended && bits.contains(TxBits::TSE);
            let pci_x = self.get(STATUS) & Status::PCIX_MODE.bits() != 0;
            assert!(
                !pci_x || len <= 2015,
                "a first descriptor of {len} bytes on PCI-X"
            );
        }
        assert_eq!(bits.contains(TxBits::TSE), self.cutting);
        self.pieces.push(len);
        let bytes = self.dma_read(buffer, len);
        self.frame.extend(bytes);
        if bits.contains(TxBits::EOP) {
            self.finish_frame();
        }
    }

    fn finish_frame(&mut self) {
        let mut frame = std::mem::take(&mut self.frame);
        let pieces = std::mem::take(&mut self.pieces);
        let tso = std::mem::replace(&mut self.after_tso, self.cutting);
        if self.cutting {
            let context = self.tso_context.take().expect("no context for it alone");
            context.check(self.model, self.get(PBA), &pieces, frame.len());
            for segment in context.cut(&frame, self.ip_checksum, self.checksum) {
                self.put_on_wire(segment);
            }
            return;
        }
        assert!(
            !tso || pieces.len() > 1 || frame.len() <= 8,
            "a single descriptor behind a super-segment is reported too early"
        );
        if self.checksum {
            let (start, offset) = self.context.expect("a checksum without a context");
            let sum = !ones_complement_sum(&frame[start..]);
            frame[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
        }
        self.put_on_wire(frame);
    }

    fn put_on_wire(&mut self, mut frame: Vec<u8>) {
        if self.get(TCTL) & Tctl::PSP.bits() != 0 && frame.len() < 60 {
            frame.resize(60, 0);
        }
        self.count(GPTC, 1);
        self.count(GOTCL, frame.len() as u32 + 4);
        self.sent.push(frame);
    }

    fn base(&self, low: usize) -> u64 {
        u64::from(self.get(low + 4)) << 32 | u64::from(self.get(low))
    }

    fn descriptor(&self, at: u64) -> (u64, u64) {
        let bytes = self.dma_read(at, 16);
        let half =
            |range: std::ops::Range<usize>| u64::from_le_bytes(bytes[range].try_into().unwrap());
        (half(0..8), half(8..16))
    }

    fn at(&self, bus: u64, len: usize) -> *mut u8 {
        let inside = |memory: &&Memory| {
            bus >= memory.bus && bus + len as u64 <= memory.bus + memory.len as u64
        };
        let memory = self.memory.iter().find(inside);
        let memory = memory.unwrap_or_else(|| panic!("DMA to {bus:#x}, {len} bytes"));
        std::ptr::with_exposed_provenance_mut(memory.cpu + (bus - memory.bus) as usize)
    }

    fn dma_read(&self, bus: u64, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: `at` checked that the bytes lie in memory that was handed out,
        // and driver and model take turns on one thread.
        unsafe {
            self.at(bus, len)
                .copy_to_nonoverlapping(bytes.as_mut_ptr(), len)
        };
        bytes
    }

    fn dma_write(&mut self, bus: u64, bytes: &[u8]) {
        // SAFETY: as in `dma_read`.
        unsafe {
            self.at(bus, bytes.len())
                .copy_from_nonoverlapping(bytes.as_ptr(), bytes.len())
        };
    }
}

/// Adds up big-endian 16-bit words with end-around carry (RFC 1071).
pub fn ones_complement_sum(bytes: &[u8]) -> u16 {
    let mut sum: u32 = bytes
        .chunks(2)
        .map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

fn buffer_size(rctl: Rctl) -> usize {
    match (rctl.contains(Rctl::BSEX), (rctl.bits() >> 16) & 3) {
        (false, bsize) => 2048 >> bsize,
        (true, 0) => panic!("BSIZE 0 with BSEX is reserved"),
        (true, bsize) => 32768 >> bsize,
    }
}
