//! The PHY of copper parts: its registers (SDM 13.4.7) and its negotiation
//! (IEEE 802.3 clauses 22 and 28).

use super::ids::Generation;
use super::regs::{
    CTRL, CTRL_EXT, Ctrl, CtrlExt, MDIC, MDIC_PHYADD_SHIFT, MDIC_REGADD_SHIFT, Mdic,
};
use crate::hw::Registers;
use crate::nic::Link;

use bitflags::bitflags;

/// Control.
pub const BMCR: u32 = 0;
/// Identifier, upper half.
pub const PHYID1: u32 = 2;
/// What is advertised.
pub const ANAR: u32 = 4;
/// What the partner advertises.
pub const ANLPAR: u32 = 5;
/// What is advertised of 1000BASE-T.
pub const CTRL1000: u32 = 9;
/// The M88 PHY's specific status: what was negotiated.
pub const M88_STATUS: u32 = 17;

/// The address of the only PHY that the MDI bus has.
const PHY_ADDRESS: u32 = 1;
/// How long one register access may take (64 bits at 2.5 MHz, and room).
const ACCESS_TIMEOUT_US: u32 = 2_000;
/// How long BMCR.RESET may stand (IEEE 802.3, 22.2.4.1.1: 0.5 s).
const RESET_TIMEOUT_US: u32 = 500_000;

bitflags! {
    /// BMCR (IEEE 802.3, 22.2.4.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Bmcr: u16 {
        /// Restart negotiation.
        const ANRESTART = 1 << 9;
        /// Cut off from the MAC.
        const ISOLATE = 1 << 10;
        /// Powered down.
        const PDOWN = 1 << 11;
        /// Negotiation on.
        const AUTOEN = 1 << 12;
        /// Loopback.
        const LOOPBACK = 1 << 14;
        /// Reset.
        const RESET = 1 << 15;
        const _ = !0;
    }

    /// ANAR and ANLPAR (IEEE 802.3, 28.2.4.1).
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Ability: u16 {
        /// The selector of IEEE 802.3.
        const CSMA = 1 << 0;
        /// 10 and 100 Mbit/s, both duplexes.
        const T10_T100 = 0xf << 5;
        /// Symmetric PAUSE.
        const PAUSE = 1 << 10;
        /// Asymmetric PAUSE.
        const ASM_DIR = 1 << 11;
        const _ = !0;
    }
}

/// CTRL1000: 1000BASE-T full duplex.
const CTRL1000_FULL: u16 = 1 << 9;

/// M88_STATUS: link.
const M88_LINK: u16 = 1 << 10;
/// M88_STATUS: speed and duplex are resolved.
const M88_RESOLVED: u16 = 1 << 11;
/// M88_STATUS: full duplex.
const M88_FULL: u16 = 1 << 13;

/// The PHY did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent;

/// The PHY's registers.
pub struct Phy<'a, R: Registers> {
    regs: &'a R,
    generation: Generation,
    delay: &'a mut dyn FnMut(u32),
}

impl<'a, R: Registers> Phy<'a, R> {
    /// The PHY of the NIC behind `regs`.
    pub fn new(regs: &'a R, generation: Generation, delay: &'a mut dyn FnMut(u32)) -> Self {
        Self {
            regs,
            generation,
            delay,
        }
    }

    /// Sees to it that the PHY negotiates everything it can.
    ///
    /// A link that the firmware's boot code brought up is kept: to negotiate
    /// again would cost seconds.
    ///
    /// # Errors
    ///
    /// The PHY does not answer.
    pub fn set_up(&mut self) -> Result<(), Silent> {
        if self.generation == Generation::I82543 {
            self.release_82543_reset();
        }
        if matches!(self.read(PHYID1)?, 0 | 0xffff) {
            return Err(Silent);
        }
        let mut control = Bmcr::from_bits_retain(self.read(BMCR)?);
        let unusable = Bmcr::ISOLATE | Bmcr::PDOWN | Bmcr::LOOPBACK;
        let healthy = control.contains(Bmcr::AUTOEN) && !control.intersects(unusable);
        if !healthy {
            self.reset()?;
            control = Bmcr::from_bits_retain(self.read(BMCR)?).difference(unusable);
        }
        let advertised = Ability::from_bits_retain(self.read(ANAR)?);
        let wanted = advertised | Ability::CSMA | Ability::T10_T100;
        let gigabit = self.read(CTRL1000)?;
        if healthy && wanted == advertised && gigabit & CTRL1000_FULL != 0 {
            return Ok(());
        }
        self.write(ANAR, wanted.bits())?;
        self.write(CTRL1000, gigabit | CTRL1000_FULL)?;
        self.write(BMCR, (control | Bmcr::AUTOEN | Bmcr::ANRESTART).bits())
    }

    fn reset(&mut self) -> Result<(), Silent> {
        self.write(BMCR, Bmcr::RESET.bits())?;
        for _ in 0..RESET_TIMEOUT_US / 100 {
            (self.delay)(100);
            if self.read(BMCR)? & Bmcr::RESET.bits() == 0 {
                return Ok(());
            }
        }
        Err(Silent)
    }

    /// What both ends advertise of PAUSE: ours, then the partner's.
    ///
    /// # Errors
    ///
    /// The PHY does not answer.
    pub fn pause_abilities(&mut self) -> Result<(Pause, Pause), Silent> {
        let ours = Ability::from_bits_retain(self.read(ANAR)?);
        let theirs = Ability::from_bits_retain(self.read(ANLPAR)?);
        let pause = |ability: Ability| Pause {
            symmetric: ability.contains(Ability::PAUSE),
            asymmetric: ability.contains(Ability::ASM_DIR),
        };
        Ok((pause(ours), pause(theirs)))
    }

    /// The link as the M88 PHY of an 82543 sees it; later parts' MACs see it
    /// for themselves.
    ///
    /// # Errors
    ///
    /// The PHY does not answer.
    pub fn m88_link(&mut self) -> Result<Link, Silent> {
        let status = self.read(M88_STATUS)?;
        if status & M88_LINK == 0 || status & M88_RESOLVED == 0 {
            return Ok(Link::Down);
        }
        let mbps = match status >> 14 {
            0 => 10,
            1 => 100,
            _ => 1000,
        };
        Ok(Link::Up {
            mbps,
            full_duplex: status & M88_FULL != 0,
        })
    }

    /// Reads a register.
    ///
    /// # Errors
    ///
    /// The PHY does not answer.
    pub fn read(&mut self, register: u32) -> Result<u16, Silent> {
        if self.generation == Generation::I82543 {
            return Ok(self.read_by_pins(register));
        }
        self.access(register, Mdic::OP_READ, 0)
    }

    /// Writes a register.
    ///
    /// # Errors
    ///
    /// The PHY does not answer.
    pub fn write(&mut self, register: u32, value: u16) -> Result<(), Silent> {
        if self.generation == Generation::I82543 {
            self.write_by_pins(register, value);
            return Ok(());
        }
        self.access(register, Mdic::OP_WRITE, value).map(drop)
    }

    fn access(&mut self, register: u32, operation: Mdic, value: u16) -> Result<u16, Silent> {
        let command = operation.bits()
            | PHY_ADDRESS << MDIC_PHYADD_SHIFT
            | register << MDIC_REGADD_SHIFT
            | u32::from(value);
        self.regs.write32(MDIC, command);
        for waited in 0..=ACCESS_TIMEOUT_US {
            if waited > 0 {
                (self.delay)(1);
            }
            let bits = self.regs.read32(MDIC);
            let state = Mdic::from_bits_retain(bits);
            if state.contains(Mdic::ERROR) {
                return Err(Silent);
            }
            if state.contains(Mdic::READY) {
                return Ok(bits as u16);
            }
        }
        Err(Silent)
    }
}

/// What one end of a link can do with PAUSE frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pause {
    /// Sends and heeds them.
    pub symmetric: bool,
    /// Sends or heeds them, one without the other.
    pub asymmetric: bool,
}

impl Pause {
    /// What CTRL is to have when these two meet (IEEE 802.3, table 28B-3).
    pub fn resolve(ours: Pause, theirs: Pause) -> Ctrl {
        if ours.symmetric && theirs.symmetric {
            Ctrl::RFCE | Ctrl::TFCE
        } else if !(ours.asymmetric && theirs.asymmetric) {
            Ctrl::empty()
        } else if theirs.symmetric {
            Ctrl::TFCE
        } else if ours.symmetric {
            Ctrl::RFCE
        } else {
            Ctrl::empty()
        }
    }
}

/// The 82543 has no MDIC: software drives MDC and MDIO (IEEE 802.3, 22.2.4.5).
impl<R: Registers> Phy<'_, R> {
    const PREAMBLE: u32 = 0xffff_ffff;
    const START_READ: u32 = 0b0110;
    const START_WRITE: u32 = 0b0101;

    /// Holds the PHY in reset and lets it go: pin 4 is its reset line.
    fn release_82543_reset(&mut self) {
        let pins = CtrlExt::from_bits_retain(self.regs.read32(CTRL_EXT)) | CtrlExt::SDP4_DIR;
        self.regs
            .write32(CTRL_EXT, pins.difference(CtrlExt::SDP4_DATA).bits());
        (self.delay)(10_000);
        self.regs
            .write32(CTRL_EXT, (pins | CtrlExt::SDP4_DATA).bits());
        (self.delay)(10_000);
    }

    fn read_by_pins(&mut self, register: u32) -> u16 {
        self.shift_out(Self::PREAMBLE, 32);
        self.shift_out(Self::START_READ << 10 | PHY_ADDRESS << 5 | register, 14);
        self.set(Ctrl::SWDPIO2 | Ctrl::SWDPIN2, Ctrl::empty());
        // The turnaround; where no PHY answers, the data that follows is all ones.
        self.shift_in();
        let value = (0..16).fold(0, |value, _| value << 1 | u16::from(self.shift_in()));
        self.shift_in();
        value
    }

    fn write_by_pins(&mut self, register: u32, value: u16) {
        self.shift_out(Self::PREAMBLE, 32);
        let command = Self::START_WRITE << 12 | PHY_ADDRESS << 7 | register << 2 | 0b10;
        self.shift_out(command << 16 | u32::from(value), 32);
    }

    fn shift_out(&mut self, value: u32, bits: u32) {
        let outputs = Ctrl::SWDPIO2 | Ctrl::SWDPIO3;
        for bit in (0..bits).rev() {
            let data = if value >> bit & 1 != 0 {
                Ctrl::SWDPIN2
            } else {
                Ctrl::empty()
            };
            self.set(Ctrl::SWDPIN2 | Ctrl::SWDPIN3 | outputs, data | outputs);
            self.set(Ctrl::SWDPIN3, Ctrl::SWDPIN3);
            self.set(Ctrl::SWDPIN3, Ctrl::empty());
        }
    }

    fn shift_in(&mut self) -> bool {
        self.set(Ctrl::SWDPIN3, Ctrl::SWDPIN3);
        let bit = self.regs.read32(CTRL) & Ctrl::SWDPIN2.bits() != 0;
        self.set(Ctrl::SWDPIN3, Ctrl::empty());
        bit
    }

    fn set(&mut self, pins: Ctrl, levels: Ctrl) {
        let ctrl = Ctrl::from_bits_retain(self.regs.read32(CTRL));
        self.regs
            .write32(CTRL, (ctrl.difference(pins) | levels).bits());
        self.regs.read32(CTRL);
        (self.delay)(2);
    }
}
