//! The PHY: its registers, which the MAC reaches one at a time; its negotiation (IEEE
//! 802.3 clauses 22, 28 and 40); and what single kinds of it need.

use bitflags::bitflags;

use super::ids::{Features, Model};
use super::regs::{
    MII_ADDRESS_SHIFT, MII_CONTROL, MII_DATA, MII_STATUS, MiiControl, MiiStatus, PHY_INTERFACE,
    POWER_STATE2, PhyInterface, PowerState2,
};
use crate::hw::Registers;
use crate::nic::Link;

const BMCR: u32 = 0;
const BMSR: u32 = 1;
const PHYSID1: u32 = 2;
const PHYSID2: u32 = 3;
const ANAR: u32 = 4;
const ANLPAR: u32 = 5;
const ANER: u32 = 6;
const CTRL1000: u32 = 9;
const STAT1000: u32 = 10;
/// Registers of the vendors' own.
const SREVISION: u32 = 22;
const RESV1: u32 = 23;
const NCONFIG: u32 = 28;

/// How often an access is looked at before it counts as failed: 64 bits at 2.5 MHz take
/// 26 µs, and a look over PCI 120 ns at least.
const ACCESS_LOOKS: u32 = 5_000;
/// How long BMCR.RESET may stand (IEEE 802.3, 22.2.4.1.1: 0.5 s), in ms.
const RESET_TIMEOUT_MS: u32 = 500;

bitflags! {
    /// BMCR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Bmcr: u16 {
        const AN_RESTART = 1 << 9;
        const ISOLATE = 1 << 10;
        const POWER_DOWN = 1 << 11;
        const AN_ENABLE = 1 << 12;
        const LOOPBACK = 1 << 14;
        const RESET = 1 << 15;
        const _ = !0;
    }
}

bitflags! {
    /// BMSR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Bmsr: u16 {
        const LINK = 1 << 2;
        const AN_COMPLETE = 1 << 5;
        /// There are 1000 Mbit/s.
        const EXTENDED_STATUS = 1 << 8;
        const _ = !0;
    }
}

bitflags! {
    /// ANAR and ANLPAR.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    struct Ability: u16 {
        const T10_HALF = 1 << 5;
        const T10_FULL = 1 << 6;
        const T100_HALF = 1 << 7;
        const T100_FULL = 1 << 8;
        const PAUSE = 1 << 10;
        const ASM_DIR = 1 << 11;
        const _ = !0;
    }
}

/// CTRL1000: 1000BASE-T.
const CTRL1000_HALF: u16 = 1 << 8;
const CTRL1000_FULL: u16 = 1 << 9;
/// STAT1000: the partner can do 1000BASE-T in full duplex.
const STAT1000_FULL: u16 = 1 << 11;
/// ANER: the partner negotiates.
const ANER_PARTNER: u16 = 1 << 0;

/// The PHY did not answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Silent;

/// Kinds of PHY that need something of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    MarvellE3016,
    Cicada,
    Vitesse,
    Realtek8211B,
    Realtek8211C,
    Realtek8201,
    Other,
}

/// The PHY's place and kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Phy {
    address: u32,
    kind: Kind,
    gigabit: bool,
}

/// What was negotiated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Negotiated {
    /// The link.
    pub link: Link,
    /// The partner negotiates.
    pub partner_negotiates: bool,
    /// The partner sends pause frames that are to be obeyed.
    pub pause_rx: bool,
}

impl Phy {
    /// Finds it.
    ///
    /// # Errors
    ///
    /// No PHY answers at any address.
    pub fn find<R: Registers>(regs: &R) -> Result<Self, Silent> {
        // Address 0 is some PHYs' word for all of them, so it comes last.
        let address = (1..=32).map(|address| address & 0x1f).find(|address| {
            let answers =
                |register| read_at(regs, *address, register).is_ok_and(|value| value != 0xffff);
            answers(PHYSID1) && answers(PHYSID2)
        });
        let mut phy = Self {
            address: address.ok_or(Silent)?,
            kind: Kind::Other,
            gigabit: false,
        };
        let id = [phy.read(regs, PHYSID1)?, phy.read(regs, PHYSID2)?];
        let revision = phy.read(regs, RESV1)?;
        phy.kind = Kind::of(id, revision);
        let status = Bmsr::from_bits_retain(phy.read(regs, BMSR)?);
        phy.gigabit = status.contains(Bmsr::EXTENDED_STATUS);
        Ok(phy)
    }

    /// Its address.
    pub fn address(&self) -> u32 {
        self.address
    }

    /// Whether it can do 1000 Mbit/s.
    pub fn is_gigabit(&self) -> bool {
        self.gigabit
    }

    /// Resets it, gives it what its kind needs, and has it negotiate everything it can.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn set_up<R: Registers>(
        &self,
        regs: &R,
        model: &Model,
        delay: &mut dyn FnMut(u32),
    ) -> Result<(), Silent> {
        if self.kind == Kind::MarvellE3016 {
            self.change(regs, NCONFIG, 0x0300, 0)?;
        }
        match self.kind {
            Kind::Realtek8211B => self.tune_8211b(regs)?,
            Kind::Realtek8211C => self.reset_8211c(regs, delay)?,
            Kind::Realtek8201 => self.tune_8201(regs, model)?,
            _ => {}
        }
        let advertised = self.advertise(regs)?;
        if self.kind == Kind::Realtek8211C {
            // It was reset by its own pin.
            let start = Bmcr::AN_ENABLE | Bmcr::AN_RESTART;
            self.change(regs, BMCR, 0, start.bits())?;
        } else {
            self.reset(regs, delay)?;
        }
        match self.kind {
            Kind::Cicada => self.tune_cicada(regs)?,
            Kind::Vitesse => self.tune_vitesse(regs)?,
            Kind::Realtek8211B => self.tune_8211b(regs)?,
            Kind::Realtek8201 => {
                self.tune_8201(regs, model)?;
                self.uncross_8201(regs)?;
            }
            _ => {}
        }
        // Some forget what they advertise of pause frames in a reset.
        self.write(regs, ANAR, advertised)?;
        let unusable = Bmcr::ISOLATE | Bmcr::POWER_DOWN | Bmcr::LOOPBACK;
        let start = Bmcr::AN_ENABLE | Bmcr::AN_RESTART;
        self.change(regs, BMCR, unusable.bits(), start.bits())
    }

    /// Advertises everything, and returns the register for that.
    fn advertise<R: Registers>(&self, regs: &R) -> Result<u16, Silent> {
        let all = Ability::T10_HALF
            | Ability::T10_FULL
            | Ability::T100_HALF
            | Ability::T100_FULL
            | Ability::PAUSE
            | Ability::ASM_DIR;
        let advertised = self.read(regs, ANAR)? | all.bits();
        self.write(regs, ANAR, advertised)?;
        if self.gigabit {
            // The MAC does 1000 Mbit/s in full duplex only, and only by RGMII.
            let interface = PhyInterface::from_bits_retain(regs.read32(PHY_INTERFACE));
            let full = if interface.contains(PhyInterface::RGMII) {
                CTRL1000_FULL
            } else {
                0
            };
            self.change(regs, CTRL1000, CTRL1000_HALF | CTRL1000_FULL, full)?;
        }
        Ok(advertised)
    }

    fn reset<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) -> Result<(), Silent> {
        let control = Bmcr::from_bits_retain(self.read(regs, BMCR)?);
        let reset = control | Bmcr::AN_ENABLE | Bmcr::RESET;
        self.write(regs, BMCR, reset.bits())?;
        for _ in 0..RESET_TIMEOUT_MS {
            delay(1_000);
            let control = Bmcr::from_bits_retain(self.read(regs, BMCR)?);
            if !control.contains(Bmcr::RESET) {
                return Ok(());
            }
        }
        Err(Silent)
    }

    /// Whether the link has been up without a break since this was asked last, as one
    /// register tells: a lost link stays in it until it was read.
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn has_stayed_up<R: Registers>(&self, regs: &R) -> Result<bool, Silent> {
        let status = Bmsr::from_bits_retain(self.read(regs, BMSR)?);
        Ok(status.contains(Bmsr::LINK | Bmsr::AN_COMPLETE))
    }

    /// How the link is, after [`has_stayed_up`](Self::has_stayed_up).
    ///
    /// # Errors
    ///
    /// It does not answer.
    pub fn look<R: Registers>(&self, regs: &R) -> Result<Negotiated, Silent> {
        let status = Bmsr::from_bits_retain(self.read(regs, BMSR)?);
        if !status.contains(Bmsr::LINK | Bmsr::AN_COMPLETE) {
            return Ok(Negotiated::default());
        }
        let own = Ability::from_bits_retain(self.read(regs, ANAR)?);
        let partner = Ability::from_bits_retain(self.read(regs, ANLPAR)?);
        let up = |mbps, full_duplex| Link::Up { mbps, full_duplex };
        let both = own & partner;
        let link = if self.gigabit
            && self.read(regs, CTRL1000)? & CTRL1000_FULL != 0
            && self.read(regs, STAT1000)? & STAT1000_FULL != 0
        {
            up(1000, true)
        } else if both.contains(Ability::T100_FULL) {
            up(100, true)
        } else if both.contains(Ability::T100_HALF) {
            up(100, false)
        } else {
            up(10, both.contains(Ability::T10_FULL))
        };
        let full_duplex = matches!(
            link,
            Link::Up {
                full_duplex: true,
                ..
            }
        );
        // IEEE 802.3, table 28B-3, for an end that advertises both bits and sends none.
        let pause_rx = full_duplex
            && (partner.contains(Ability::PAUSE)
                || partner.intersection(Ability::PAUSE | Ability::ASM_DIR) == Ability::ASM_DIR);
        Ok(Negotiated {
            link,
            partner_negotiates: self.read(regs, ANER)? & ANER_PARTNER != 0,
            pause_rx,
        })
    }

    /// Visits its registers, as far as it answers.
    pub fn registers<R: Registers>(&self, regs: &R, visit: &mut dyn FnMut(u32, u16)) {
        for register in 0..32 {
            if let Ok(value) = self.read(regs, register) {
                visit(register, value);
            }
        }
    }

    /// What Linux writes to tune an 8211B; what it does is Realtek's secret.
    fn tune_8211b<R: Registers>(&self, regs: &R) -> Result<(), Silent> {
        for (register, value) in [
            (31, 0x0000),
            (25, 0x8e00),
            (31, 0x0001),
            (19, 0xad17),
            (20, 0xfb54),
            (24, 0xf5c7),
            (31, 0x0000),
        ] {
            self.write(regs, register, value)?;
        }
        Ok(())
    }

    /// Resets an 8211C by its pin, which is the only reset that it obeys, and keeps it
    /// from its low power modes.
    fn reset_8211c<R: Registers>(
        &self,
        regs: &R,
        delay: &mut dyn FnMut(u32),
    ) -> Result<(), Silent> {
        const SETTLE_US: u32 = 25_000;
        let power = PowerState2::from_bits_retain(regs.read32(POWER_STATE2));
        regs.write32(POWER_STATE2, (power | PowerState2::PHY_RESET).bits());
        delay(SETTLE_US);
        regs.write32(
            POWER_STATE2,
            power.difference(PowerState2::PHY_RESET).bits(),
        );
        delay(SETTLE_US);
        self.change(regs, 17, 0, 0x0008)?;
        self.write(regs, 31, 0x0005)?;
        self.change(regs, 1, 0, 0x0200)?;
        self.write(regs, 31, 0x0000)
    }

    fn tune_8201<R: Registers>(&self, regs: &R, model: &Model) -> Result<(), Silent> {
        if model.features.contains(Features::PHY_INIT_FIX) {
            self.change(regs, 17, 0, 0x1000)?;
        }
        Ok(())
    }

    /// Keeps an 8201 from looking for crossed cables, which it gets wrong.
    fn uncross_8201<R: Registers>(&self, regs: &R) -> Result<(), Silent> {
        self.write(regs, 31, 0x0001)?;
        self.change(regs, 25, 0x0003, 0x0001)?;
        self.write(regs, 31, 0x0000)
    }

    fn tune_cicada<R: Registers>(&self, regs: &R) -> Result<(), Silent> {
        let interface = PhyInterface::from_bits_retain(regs.read32(PHY_INTERFACE));
        if interface.contains(PhyInterface::RGMII) {
            self.change(regs, RESV1, 0xfe00, 0x1200)?;
            self.change(regs, NCONFIG, 0, 0x0004)?;
        }
        self.change(regs, SREVISION, 0, 0x2000)
    }

    /// What Linux does to a Vitesse: steps through registers of its own that Vitesse has
    /// not described.
    fn tune_vitesse<R: Registers>(&self, regs: &R) -> Result<(), Silent> {
        self.write(regs, 31, 0x52b5)?;
        self.write(regs, 16, 0xaf8a)?;
        self.change(regs, 18, 0, 0)?;
        self.change(regs, 17, 0x000c, 0x0008)?;
        self.write(regs, 16, 0x8f8a)?;
        self.write(regs, 16, 0xaf86)?;
        self.change(regs, 18, 0x000c, 0x0008)?;
        self.change(regs, 17, 0, 0)?;
        self.write(regs, 16, 0x8f86)?;
        self.write(regs, 16, 0xaf82)?;
        self.change(regs, 18, 0, 0)?;
        self.change(regs, 17, 0x0180, 0x0100)?;
        self.write(regs, 16, 0x8f82)?;
        self.write(regs, 31, 0x0000)
    }

    fn read<R: Registers>(&self, regs: &R, register: u32) -> Result<u16, Silent> {
        read_at(regs, self.address, register)
    }

    fn write<R: Registers>(&self, regs: &R, register: u32, value: u16) -> Result<(), Silent> {
        begin(regs);
        regs.write32(MII_DATA, value.into());
        let command = self.address << MII_ADDRESS_SHIFT | register | MiiControl::WRITE.bits();
        finish(regs, command)
    }

    /// Clears and sets bits of a register.
    fn change<R: Registers>(
        &self,
        regs: &R,
        register: u32,
        clear: u16,
        set: u16,
    ) -> Result<(), Silent> {
        let value = self.read(regs, register)?;
        self.write(regs, register, value & !clear | set)
    }
}

fn read_at<R: Registers>(regs: &R, address: u32, register: u32) -> Result<u16, Silent> {
    begin(regs);
    finish(regs, address << MII_ADDRESS_SHIFT | register)?;
    let status = MiiStatus::from_bits_truncate(regs.read32(MII_STATUS));
    if status.contains(MiiStatus::ERROR) {
        return Err(Silent);
    }
    Ok(regs.read32(MII_DATA) as u16)
}

/// Ends what may be under way, and forgets what became of it. A change of the link is
/// not forgotten: FreeBSD would.
fn begin<R: Registers>(regs: &R) {
    regs.write32(MII_STATUS, MiiStatus::ACCESS.bits());
    let control = MiiControl::from_bits_retain(regs.read32(MII_CONTROL));
    if control.contains(MiiControl::IN_USE) {
        regs.write32(MII_CONTROL, MiiControl::IN_USE.bits());
        let _ = is_idle(regs);
    }
}

fn finish<R: Registers>(regs: &R, command: u32) -> Result<(), Silent> {
    regs.write32(MII_CONTROL, command);
    if is_idle(regs) { Ok(()) } else { Err(Silent) }
}

fn is_idle<R: Registers>(regs: &R) -> bool {
    (0..ACCESS_LOOKS).any(|_| {
        let control = MiiControl::from_bits_retain(regs.read32(MII_CONTROL));
        !control.contains(MiiControl::IN_USE)
    })
}

impl Kind {
    /// That of the PHY with these identifiers (IEEE 802.3, 22.2.4.3.1), where Realtek's
    /// gigabit PHYs say their revision in a register of their own.
    fn of([id1, id2]: [u16; 2], realtek_revision: u16) -> Self {
        const MARVELL: u32 = 0x5043;
        const CICADA: u32 = 0x03f1;
        const VITESSE: u32 = 0x01c1;
        const REALTEK: u32 = 0x0732;
        /// Some Realtek PHYs have no first identifier.
        const REALTEK_SHORT: u32 = 0x0020;
        let oui = u32::from(id1 & 0x03ff) << 6 | u32::from(id2 >> 10);
        match (oui, id2 >> 4 & 0x3f) {
            (MARVELL, 0x22) => Self::MarvellE3016,
            (CICADA, _) => Self::Cicada,
            (VITESSE, _) => Self::Vitesse,
            (REALTEK | REALTEK_SHORT, 0x11) if realtek_revision & 1 == 0 => Self::Realtek8211B,
            (REALTEK | REALTEK_SHORT, 0x11) => Self::Realtek8211C,
            (REALTEK | REALTEK_SHORT, 0x20) => Self::Realtek8201,
            _ => Self::Other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phys_are_known_by_their_identifiers() {
        for (ids, revision, kind) in [
            ([0x0141, 0x0e20], 0, Kind::MarvellE3016),
            ([0x0141, 0x0cc2], 0, Kind::Other),
            ([0x000f, 0xc413], 0, Kind::Cicada),
            ([0x0007, 0x0421], 0, Kind::Vitesse),
            ([0x001c, 0xc912], 0, Kind::Realtek8211B),
            ([0x001c, 0xc914], 1, Kind::Realtek8211C),
            ([0x0000, 0x8201], 0, Kind::Realtek8201),
            ([0xffff, 0xffff], 0, Kind::Other),
        ] {
            assert_eq!(Kind::of(ids, revision), kind, "{ids:x?}");
        }
    }
}
