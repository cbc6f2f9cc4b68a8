//! A model of the 8254x for the host's tests: registers, and DMA done when the
//! test says so. It can misbehave on demand, and it panics where a driver does
//! what the manual forbids.

mod dma;
mod serial;
mod tso;

use std::alloc::{Layout, alloc_zeroed};
use std::collections::BTreeMap;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, MutexGuard};

use super::ids::{self, Generation, Media, Model};
use super::regs::*;
use crate::hw::{DmaRegion, OutOfDmaMemory, Platform, Registers};
use crate::nic::Link;
pub use dma::ones_complement_sum;
use serial::{Mdio, Microwire};
use tso::TsoContext;

/// The address in the model's EEPROM.
pub const MAC: [u8; 6] = [0x00, 0x1b, 0x21, 0x0a, 0x0b, 0x0c];

/// How the model misbehaves.
#[derive(Clone, Copy, Default)]
pub struct Faults {
    pub eeprom_silent: bool,
    pub phy_silent: bool,
    pub reset_stuck: bool,
    /// A reset ends at once and changes nothing, as in QEMU.
    pub reset_idle: bool,
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
    /// The lengths of the frame's data descriptors so far.
    pieces: Vec<usize>,
    context: Option<(usize, usize)>,
    checksum: bool,
    ip_checksum: bool,
    tso_context: Option<TsoContext>,
    /// Whether the frame is a super-segment.
    cutting: bool,
    after_tso: bool,
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
            pieces: Vec::new(),
            context: None,
            checksum: false,
            ip_checksum: false,
            tso_context: None,
            cutting: false,
            after_tso: false,
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

    /// Writes the first buffer of a frame whose rest does not come.
    pub fn receive_half(&self, bytes: &[u8]) {
        self.state()
            .fill_rx_descriptor(bytes, RxStatus::DD, RxErrors::empty());
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
        self.pieces.clear();
        self.context = None;
        self.tso_context = None;
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
            ICS => self.icr |= value,
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
            if self.faults.reset_idle {
                self.resets += 1;
            } else {
                self.reset();
            }
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
