//! A model of the 8254x for the host's tests: registers, and DMA done when the
//! test says so. It can misbehave on demand, and it panics where a driver does
//! what the manual forbids.

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use super::ids::{self, Generation, Media, Model};
use super::model_serial::{Mdio, Microwire};
use super::regs::*;
use crate::hw::{DmaRegion, OutOfDmaMemory, Platform, Registers};
use crate::nic::Link;

/// The address in the model's EEPROM.
pub const MAC: [u8; 6] = [0x00, 0x1b, 0x21, 0x0a, 0x0b, 0x0c];

/// How the model misbehaves.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub eeprom_silent: bool,
    pub phy_silent: bool,
    pub reset_stuck: bool,
    /// The transmitter takes no descriptor.
    pub tx_dead: bool,
    /// Statistics are not cleared by reading, as some are not in QEMU.
    pub sticky_statistics: bool,
    /// The registers are gone from the bus.
    pub absent: bool,
}

/// The NIC, the bus and the memory, shared by driver and test.
#[derive(Clone)]
pub struct Hardware(Arc<Mutex<State>>);

pub struct State {
    pub model: &'static Model,
    pub faults: Faults,
    pub eeprom: [u16; 64],
    pub phy: [u16; 32],
    pub sent: Vec<Vec<u8>>,
    pub now_us: u64,
    pub memory_left: usize,
    /// Every register write since it was last emptied.
    pub writes: Vec<(usize, u32)>,
    pub resets: usize,
    /// Fibre: what the far end does.
    pub light: bool,
    pub partner_negotiates: bool,
    regs: BTreeMap<usize, u32>,
    icr: u32,
    ims: u32,
    microwire: Microwire,
    mdio: Mdio,
    memory: Vec<Memory>,
    next_bus: u64,
    frame: Vec<u8>,
    context: Option<(usize, usize)>,
    checksum: bool,
}

struct Memory {
    bus: u64,
    cpu: usize,
    len: usize,
}

impl Hardware {
    /// A NIC with link, just powered on.
    pub fn new(device: u16) -> Self {
        let model = ids::find(ids::VENDOR, device).unwrap();
        let mut state = State {
            model,
            faults: Faults::default(),
            eeprom: eeprom(),
            phy: phy(),
            sent: Vec::new(),
            now_us: 0,
            memory_left: usize::MAX,
            writes: Vec::new(),
            resets: 0,
            light: true,
            partner_negotiates: true,
            regs: BTreeMap::new(),
            icr: 0,
            ims: 0,
            microwire: Microwire::default(),
            mdio: Mdio::default(),
            memory: Vec::new(),
            next_bus: 0x1_2345_0000,
            frame: Vec::new(),
            context: None,
            checksum: false,
        };
        state.reset();
        state.resets = 0;
        Self(Arc::new(Mutex::new(state)))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// Writes a good frame to the next receive buffers; false if it was lost.
    pub fn receive(&self, frame: &[u8]) -> bool {
        self.receive_flagged(frame, RxStatus::IXSM, RxErrors::empty())
    }

    /// The same with status and error bits in the last descriptor.
    pub fn receive_flagged(&self, frame: &[u8], status: RxStatus, errors: RxErrors) -> bool {
        self.state().receive(frame, status, errors)
    }

    /// Takes up to `descriptors` from the transmit ring; returns how many.
    pub fn transmit(&self, descriptors: usize) -> usize {
        let mut state = self.state();
        (0..descriptors)
            .take_while(|_| state.transmit_one())
            .count()
    }

    /// Whether the NIC drives its interrupt line.
    pub fn line(&self) -> bool {
        let state = self.state();
        state.icr & state.ims != 0
    }

    /// Raises causes, as ICS would.
    pub fn raise(&self, causes: Icr) {
        self.state().icr |= causes.bits();
    }

    /// Whether interrupts are let through at all.
    pub fn unmasked(&self) -> u32 {
        self.state().ims
    }

    /// Plugs or pulls the cable.
    pub fn set_link(&self, link: Link) {
        let mut state = self.state();
        state.set_link(link);
        state.icr |= Icr::LSC.bits();
    }

    /// Adds to a statistics register.
    pub fn count(&self, register: usize, amount: u32) {
        self.state().count(register, amount);
    }

    /// Looks at a register without touching it.
    pub fn peek(&self, register: usize) -> u32 {
        self.state().get(register)
    }

    /// Sets a register from the NIC's side.
    pub fn poke(&self, register: usize, value: u32) {
        self.state().regs.insert(register, value);
    }
}

impl Registers for Hardware {
    fn read32(&self, offset: usize) -> u32 {
        self.state().read(offset)
    }

    fn write32(&self, offset: usize, value: u32) {
        self.state().write(offset, value);
    }
}

impl Platform for Hardware {
    fn dma_alloc(&mut self, len: usize, align: usize) -> Result<DmaRegion, OutOfDmaMemory> {
        let mut state = self.state();
        if len > state.memory_left {
            return Err(OutOfDmaMemory { requested: len });
        }
        state.memory_left -= len;
        let layout = Layout::from_size_align(len, align).unwrap();
        // SAFETY: no driver asks for 0 bytes.
        let cpu = NonNull::new(unsafe { alloc_zeroed(layout) }).unwrap();
        let bus = state.next_bus.next_multiple_of(align as u64);
        state.next_bus = bus + len as u64;
        state.memory.push(Memory {
            bus,
            cpu: cpu.as_ptr().expose_provenance(),
            len,
        });
        // SAFETY: the memory is fresh, never freed, and reached by nothing but
        // the model's DMA, which plays the NIC.
        Ok(unsafe { DmaRegion::new(cpu, bus, len) })
    }

    fn delay_us(&mut self, microseconds: u32) {
        self.state().now_us += u64::from(microseconds);
    }
}

impl State {
    /// Makes the EEPROM's checksum right.
    pub fn seal_eeprom(&mut self) {
        let sum = self.eeprom[..63]
            .iter()
            .fold(0u16, |sum, word| sum.wrapping_add(*word));
        self.eeprom[63] = 0xbaba_u16.wrapping_sub(sum);
    }

    fn reset(&mut self) {
        self.resets += 1;
        // PBA outlives a reset.
        let pba = self.get(PBA);
        let link = self.get(STATUS);
        self.regs.clear();
        self.regs.insert(PBA, if pba == 0 { 48 } else { pba });
        self.regs.insert(STATUS, link);
        self.regs.insert(MANC, MANC_ARP_EN);
        let [a, b, c, d, e, f] = MAC;
        self.regs.insert(RAL, u32::from_le_bytes([a, b, c, d]));
        self.regs
            .insert(RAH, u32::from_le_bytes([e, f, 0, 0]) | RAH_AV);
        self.icr = 0;
        self.ims = 0;
        self.frame.clear();
        self.context = None;
        match self.model.media {
            Media::Copper if link == 0 => {
                self.set_link(Link::Up {
                    mbps: 1000,
                    full_duplex: true,
                });
            }
            Media::Copper => {}
            _ => self.negotiate_fibre(),
        }
    }

    fn set_link(&mut self, link: Link) {
        let mut status = self.get(STATUS) & !0xc3 | Status::GIO_MASTER_ENABLE.bits();
        let mut phy = 0;
        if let Link::Up { mbps, full_duplex } = link {
            status |= Status::LU.bits() | u32::from(full_duplex);
            phy = 1 << 10 | 1 << 11 | u16::from(full_duplex) << 13;
            match mbps {
                10 => {}
                100 => {
                    status |= Status::SPEED_100.bits();
                    phy |= 1 << 14;
                }
                _ => {
                    status |= Status::SPEED_1000.bits();
                    phy |= 2 << 14;
                }
            }
        }
        self.phy[17] = phy;
        self.regs.insert(STATUS, status);
    }

    /// What the link of a fibre part comes to.
    pub fn negotiate_fibre(&mut self) {
        let ctrl = Ctrl::from_bits_retain(self.get(CTRL));
        let negotiates = self.get(TXCW) & Txcw::ANE.bits() != 0;
        let up = self.light
            && !ctrl.contains(Ctrl::LRST)
            && if negotiates {
                self.partner_negotiates
            } else {
                ctrl.contains(Ctrl::SLU)
            };
        let status = self.get(STATUS) & !3 | if up { 3 } else { 0 };
        self.regs.insert(STATUS, status);
        let heard = self.light && self.partner_negotiates;
        self.regs.insert(
            RXCW,
            if heard {
                Rxcw::C.bits() | Rxcw::PAUSE.bits()
            } else {
                0
            },
        );
        let pin_high = self.light != (self.model.generation <= Generation::I82544);
        let pin = if pin_high {
            Ctrl::SWDPIN1
        } else {
            Ctrl::empty()
        };
        self.regs
            .insert(CTRL, (ctrl.difference(Ctrl::SWDPIN1) | pin).bits());
    }

    fn get(&self, register: usize) -> u32 {
        self.regs.get(&register).copied().unwrap_or(0)
    }

    fn count(&mut self, register: usize, amount: u32) {
        let value = self.get(register).saturating_add(amount);
        self.regs.insert(register, value);
    }

    fn read(&mut self, offset: usize) -> u32 {
        assert_eq!(offset % 4, 0);
        if self.faults.absent {
            return !0;
        }
        let value = self.get(offset);
        match offset {
            ICR => return std::mem::take(&mut self.icr),
            IMS => return self.ims,
            EECD => return self.microwire.read(value, self.model),
            STATUS if self.get(CTRL) & Ctrl::GIO_MASTER_DISABLE.bits() != 0 => {
                return value & !Status::GIO_MASTER_ENABLE.bits();
            }
            CTRL if self.model.generation == Generation::I82543 => {
                return self.mdio.read(value);
            }
            GORCL | GOTCL => return value,
            GORCH | GOTCH => {
                self.regs.insert(offset - 4, 0);
                self.regs.insert(offset, 0);
            }
            0x4000..=0x40fc if !self.faults.sticky_statistics => {
                self.regs.insert(offset, 0);
            }
            _ => {}
        }
        value
    }

    fn write(&mut self, offset: usize, value: u32) {
        assert_eq!(offset % 4, 0);
        self.writes.push((offset, value));
        let no_itr = !self.model.has_itr();
        assert!(
            !(no_itr && matches!(offset, ITR | RADV | TADV)),
            "no register {offset:#x}"
        );
        match offset {
            CTRL | CTRL_DUP => self.write_ctrl(value),
            EECD => {
                self.microwire
                    .write(value, &self.eeprom, self.faults.eeprom_silent);
                self.regs.insert(EECD, value);
            }
            EERD => self.write_eerd(value),
            MDIC => self.write_mdic(value),
            ICR => self.icr &= !value,
            IMS => self.ims |= value,
            IMC => self.ims &= !value,
            RDT | TDT => {
                let len = self.get(offset - 0x10);
                assert!(value < len / 16, "tail {value} of a ring of {len} bytes");
                self.regs.insert(offset, value);
            }
            TXCW => {
                self.regs.insert(TXCW, value);
                self.negotiate_fibre();
            }
            _ => {
                self.regs.insert(offset, value);
            }
        }
    }

    fn write_ctrl(&mut self, value: u32) {
        let mut ctrl = Ctrl::from_bits_retain(value);
        if ctrl.contains(Ctrl::RST) && !self.faults.reset_stuck {
            assert!(
                self.get(RCTL) & Rctl::EN.bits() == 0,
                "reset while receiving"
            );
            assert!(self.get(TCTL) & Tctl::EN.bits() == 0, "reset while sending");
            self.reset();
            return;
        }
        ctrl.remove(Ctrl::PHY_RST);
        self.mdio.write(ctrl, &mut self.phy, self.faults.phy_silent);
        self.regs.insert(CTRL, ctrl.bits());
        if self.model.media != Media::Copper {
            self.negotiate_fibre();
        }
    }

    fn write_eerd(&mut self, value: u32) {
        let (shift, done) = match self.model.generation {
            Generation::I82541 | Generation::I82574 => (2, 1 << 1),
            Generation::I82543 | Generation::I82544 => panic!("no EERD"),
            _ => (8, 1 << 4),
        };
        assert!(value & EERD_START != 0);
        let index = (value >> shift) as usize & 0x3f;
        let word = u32::from(self.eeprom[index]);
        let answer = if self.faults.eeprom_silent {
            0
        } else {
            word << 16 | done
        };
        self.regs.insert(EERD, answer);
    }

    fn write_mdic(&mut self, value: u32) {
        assert!(self.model.generation != Generation::I82543, "no MDIC");
        if self.faults.phy_silent {
            self.regs.insert(MDIC, value);
            return;
        }
        let command = Mdic::from_bits_retain(value);
        let register = (value >> MDIC_REGADD_SHIFT) as usize & 0x1f;
        let mut answer = value | Mdic::READY.bits();
        if value >> MDIC_PHYADD_SHIFT & 0x1f != 1 {
            answer |= Mdic::ERROR.bits();
        } else if command.contains(Mdic::OP_READ) {
            answer = answer & !0xffff | u32::from(self.phy[register]);
        } else {
            write_phy(&mut self.phy, register, value as u16);
        }
        self.regs.insert(MDIC, answer);
    }

    fn receive(&mut self, frame: &[u8], status: RxStatus, errors: RxErrors) -> bool {
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

    fn fill_rx_descriptor(&mut self, chunk: &[u8], status: RxStatus, errors: RxErrors) {
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

    fn transmit_one(&mut self) -> bool {
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
            let [.., start, offset, _, _] = low.to_le_bytes();
            self.context = Some((start.into(), offset.into()));
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
        }
        let bytes = self.dma_read(buffer, len);
        self.frame.extend(bytes);
        if bits.contains(TxBits::EOP) {
            self.finish_frame();
        }
    }

    fn finish_frame(&mut self) {
        let mut frame = std::mem::take(&mut self.frame);
        if self.get(TCTL) & Tctl::PSP.bits() != 0 && frame.len() < 60 {
            frame.resize(60, 0);
        }
        if self.checksum {
            let (start, offset) = self.context.expect("a checksum without a context");
            let sum = !ones_complement_sum(&frame[start..]);
            frame[offset..offset + 2].copy_from_slice(&sum.to_be_bytes());
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

/// A write to a PHY register: resets and restarts are over at once.
pub fn write_phy(phy: &mut [u16; 32], register: usize, value: u16) {
    phy[register] = if register == 0 {
        value & !(1 << 15 | 1 << 9)
    } else {
        value
    };
    if register == 0 && value & 1 << 15 != 0 {
        phy[0] = 1 << 12;
    }
}

fn buffer_size(rctl: Rctl) -> usize {
    match (rctl.contains(Rctl::BSEX), (rctl.bits() >> 16) & 3) {
        (false, bsize) => 2048 >> bsize,
        (true, 0) => panic!("BSIZE 0 with BSEX is reserved"),
        (true, bsize) => 32768 >> bsize,
    }
}

fn eeprom() -> [u16; 64] {
    let mut eeprom = [0x1234; 64];
    for (word, pair) in eeprom.iter_mut().zip(MAC.chunks(2)) {
        *word = u16::from_le_bytes([pair[0], pair[1]]);
    }
    eeprom[0x0f] = 0x00f0;
    let sum = eeprom[..63]
        .iter()
        .fold(0u16, |sum, word| sum.wrapping_add(*word));
    eeprom[63] = 0xbaba_u16.wrapping_sub(sum);
    eeprom
}

fn phy() -> [u16; 32] {
    let mut phy = [0; 32];
    phy[0] = 1 << 12;
    phy[2] = 0x0141;
    phy[4] = 0x0de1;
    phy[5] = 0x05e1;
    phy[9] = 0x0300;
    phy
}
