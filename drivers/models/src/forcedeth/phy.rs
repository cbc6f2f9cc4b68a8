//! An Ethernet PHY behind MII: what clause 22 of IEEE 802.3 says of its registers, with
//! autonegotiation and the partner at the other end of the cable.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

const BMCR: usize = 0;
const BMSR: usize = 1;
const PHYSID1: usize = 2;
const PHYSID2: usize = 3;
const ADVERTISE: usize = 4;
const LPA: usize = 5;
const EXPANSION: usize = 6;
const CTRL1000: usize = 9;
const STAT1000: usize = 10;
const ESTATUS: usize = 15;
/// Where Realtek's gigabit PHYs say their revision.
const REALTEK_REVISION: usize = 23;
/// Selects a page of the vendor's own registers in most PHYs.
const PAGE: usize = 31;

mod bmcr {
    pub(super) const SPEED1000: u16 = 0x0040;
    pub(super) const FULL_DUPLEX: u16 = 0x0100;
    pub(super) const AN_RESTART: u16 = 0x0200;
    pub(super) const POWER_DOWN: u16 = 0x0800;
    pub(super) const AN_ENABLE: u16 = 0x1000;
    pub(super) const SPEED100: u16 = 0x2000;
    pub(super) const LOOPBACK: u16 = 0x4000;
    pub(super) const RESET: u16 = 0x8000;
}

mod bmsr {
    pub(super) const EXTENDED: u16 = 0x0001;
    pub(super) const LINK: u16 = 0x0004;
    pub(super) const AN_ABLE: u16 = 0x0008;
    pub(super) const AN_COMPLETE: u16 = 0x0020;
    pub(super) const ESTATUS: u16 = 0x0100;
    pub(super) const TEN_AND_HUNDRED: u16 = 0x7800;
}

/// 1000BASE-T full and half duplex in CTRL1000; the partner's are two bits higher up.
const GIGABIT: [(u16, Mode); 2] = [
    (
        0x0200,
        Mode {
            mbps: 1000,
            full_duplex: true,
        },
    ),
    (
        0x0100,
        Mode {
            mbps: 1000,
            full_duplex: false,
        },
    ),
];
/// What ADVERTISE and LPA say, best first.
const FAST: [(u16, Mode); 4] = [
    (
        0x0100,
        Mode {
            mbps: 100,
            full_duplex: true,
        },
    ),
    (
        0x0080,
        Mode {
            mbps: 100,
            full_duplex: false,
        },
    ),
    (
        0x0040,
        Mode {
            mbps: 10,
            full_duplex: true,
        },
    ),
    (
        0x0020,
        Mode {
            mbps: 10,
            full_duplex: false,
        },
    ),
];
/// Pause frames, symmetric and not, in ADVERTISE and LPA.
const PAUSE: u16 = 0x0c00;
/// IEEE 802.3, and the partner has acknowledged.
const SELECTOR: u16 = 0x0001;
const ACKNOWLEDGE: u16 = 0x4000;

/// How long autonegotiation takes. Real PHYs take some two seconds.
const NEGOTIATION: Duration = Duration::from_millis(100);

/// Which PHY a board has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhyModel {
    Realtek8201,
    Marvell88e1111,
    CicadaCs8201,
    VitesseVsc8601,
    Realtek8211b,
    Realtek8211c,
}

impl PhyModel {
    fn ids(self) -> (u16, u16) {
        match self {
            Self::Realtek8201 => (0x0000, 0x8201),
            Self::Marvell88e1111 => (0x0141, 0x0cc2),
            Self::CicadaCs8201 => (0x000f, 0xc413),
            Self::VitesseVsc8601 => (0x0007, 0x0421),
            Self::Realtek8211b => (0x001c, 0xc912),
            Self::Realtek8211c => (0x001c, 0xc914),
        }
    }

    pub(super) fn is_gigabit(self) -> bool {
        self != Self::Realtek8201
    }
}

/// A speed and duplex.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Mbit/s.
    pub mbps: u32,
    /// Whether both ends can send at once.
    pub full_duplex: bool,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let duplex = if self.full_duplex { "full" } else { "half" };
        write!(f, "{} {duplex}", self.mbps)
    }
}

/// What is at the other end of the cable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partner {
    /// Nothing, or it is off.
    Absent,
    /// It negotiates, and can do everything.
    #[default]
    Everything,
    /// It negotiates, and can do one thing.
    Only(Mode),
}

impl FromStr for Partner {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let usage = || format!("'{text}' is no link: up, down, or such as '100 half'");
        let words: Vec<&str> = text.split_whitespace().collect();
        match words[..] {
            ["up"] => Ok(Self::Everything),
            ["down"] => Ok(Self::Absent),
            [speed, duplex] => {
                let mbps = speed
                    .parse()
                    .ok()
                    .filter(|mbps| [10, 100, 1000].contains(mbps));
                let full_duplex = match duplex {
                    "full" => true,
                    "half" => false,
                    _ => return Err(usage()),
                };
                Ok(Self::Only(Mode {
                    mbps: mbps.ok_or_else(usage)?,
                    full_duplex,
                }))
            }
            _ => Err(usage()),
        }
    }
}

impl Partner {
    fn can(self, mode: Mode) -> bool {
        match self {
            Self::Absent => false,
            Self::Everything => true,
            Self::Only(only) => only == mode,
        }
    }

    fn abilities(self, modes: &[(u16, Mode)]) -> u16 {
        let able = modes.iter().filter(|(_, mode)| self.can(*mode));
        able.fold(0, |bits, (bit, _)| bits | bit)
    }
}

/// A PHY and its partner.
#[derive(Debug)]
pub(super) struct Phy {
    model: PhyModel,
    registers: [u16; 32],
    /// The vendor's own registers, by page.
    pages: BTreeMap<(u16, usize), u16>,
    partner: Partner,
    link: Option<Mode>,
    /// The link was lost since BMSR was last read.
    was_down: bool,
    negotiated_at: Option<Duration>,
    complete: bool,
}

impl Phy {
    pub(super) fn new(model: PhyModel) -> Self {
        let mut phy = Self {
            model,
            registers: [0; 32],
            pages: BTreeMap::new(),
            partner: Partner::default(),
            link: None,
            was_down: true,
            negotiated_at: None,
            complete: false,
        };
        phy.set_defaults();
        phy
    }

    fn set_defaults(&mut self) {
        self.registers = [0; 32];
        self.pages.clear();
        let (id1, id2) = self.model.ids();
        self.registers[BMCR] = bmcr::AN_ENABLE | bmcr::FULL_DUPLEX;
        self.registers[PHYSID1] = id1;
        self.registers[PHYSID2] = id2;
        let fast = FAST.iter().fold(0, |bits, (bit, _)| bits | bit);
        self.registers[ADVERTISE] = fast | SELECTOR;
        if self.model.is_gigabit() {
            self.registers[CTRL1000] = GIGABIT.iter().fold(0, |bits, (bit, _)| bits | bit);
        }
    }

    /// Takes the PHY to where it is after power-on, and begins to negotiate.
    pub(super) fn reset(&mut self, now: Duration) {
        self.set_defaults();
        self.restart(now);
    }

    /// The link as it is.
    pub(super) fn link(&self) -> Option<Mode> {
        self.link
    }

    /// Whether what is sent comes back.
    pub(super) fn loops_back(&self) -> bool {
        self.registers[BMCR] & bmcr::LOOPBACK != 0
    }

    /// The partner that is plugged in.
    pub(super) fn partner(&self) -> Partner {
        self.partner
    }

    /// Plugs another partner in.
    pub(super) fn set_partner(&mut self, partner: Partner, now: Duration) {
        self.partner = partner;
        self.restart(now);
    }

    /// The link is lost, and what makes it again begins.
    fn restart(&mut self, now: Duration) {
        self.link = None;
        self.was_down = true;
        self.complete = false;
        let off = self.registers[BMCR] & bmcr::POWER_DOWN != 0;
        self.negotiated_at = (!off).then(|| now + NEGOTIATION);
    }

    pub(super) fn deadline(&self) -> Option<Duration> {
        self.negotiated_at
    }

    /// Ends a negotiation that is due.
    pub(super) fn advance(&mut self, now: Duration) {
        if self.negotiated_at.is_some_and(|due| due <= now) {
            self.negotiated_at = None;
            self.complete = self.partner != Partner::Absent;
            self.link = self.resolve();
        }
    }

    /// What both ends can do best.
    fn resolve(&self) -> Option<Mode> {
        let control = self.registers[BMCR];
        if control & bmcr::AN_ENABLE == 0 {
            let mbps = match control & (bmcr::SPEED100 | bmcr::SPEED1000) {
                0 => 10,
                bmcr::SPEED100 => 100,
                _ => 1000,
            };
            let full_duplex = control & bmcr::FULL_DUPLEX != 0;
            return Some(Mode { mbps, full_duplex }).filter(|mode| self.partner.can(*mode));
        }
        let gigabit = GIGABIT
            .iter()
            .filter(|(bit, _)| self.model.is_gigabit() && self.registers[CTRL1000] & bit != 0);
        let fast = FAST
            .iter()
            .filter(|(bit, _)| self.registers[ADVERTISE] & bit != 0);
        let mut modes = gigabit.chain(fast).map(|(_, mode)| *mode);
        modes.find(|mode| self.partner.can(*mode))
    }

    pub(super) fn read(&mut self, register: usize) -> u16 {
        let page = self.registers[PAGE];
        match register {
            BMSR => self.status(),
            LPA if self.complete => {
                let pause = if self.partner == Partner::Everything {
                    PAUSE
                } else {
                    0
                };
                self.partner.abilities(&FAST) | SELECTOR | ACKNOWLEDGE | pause
            }
            EXPANSION => u16::from(self.complete),
            STAT1000 if self.complete && self.model.is_gigabit() => {
                self.partner.abilities(&GIGABIT) << 2 | 0x3000
            }
            ESTATUS if self.model.is_gigabit() => 0x3000,
            REALTEK_REVISION if page == 0 => u16::from(self.model == PhyModel::Realtek8211c),
            16.. if register != PAGE => {
                let key = (page, register);
                self.pages.get(&key).copied().unwrap_or_default()
            }
            _ => self.registers.get(register).copied().unwrap_or(0xffff),
        }
    }

    fn status(&mut self) -> u16 {
        let mut status = bmsr::EXTENDED | bmsr::AN_ABLE | bmsr::TEN_AND_HUNDRED;
        if self.model.is_gigabit() {
            status |= bmsr::ESTATUS;
        }
        if self.complete && self.registers[BMCR] & bmcr::AN_ENABLE != 0 {
            status |= bmsr::AN_COMPLETE;
        }
        if self.link.is_some() && !self.was_down {
            status |= bmsr::LINK;
        }
        self.was_down = self.link.is_none();
        status
    }

    pub(super) fn write(&mut self, register: usize, value: u16, now: Duration) {
        let page = self.registers[PAGE];
        match register {
            BMCR => self.write_control(value, now),
            BMSR | PHYSID1 | PHYSID2 | LPA | EXPANSION | STAT1000 | ESTATUS => {}
            16.. if register != PAGE => {
                self.pages.insert((page, register), value);
            }
            _ => self.registers[register] = value,
        }
    }

    fn write_control(&mut self, value: u16, now: Duration) {
        if value & bmcr::RESET != 0 {
            // What else was written stays, as the PHYs do that Linux resets so.
            let kept = value & !(bmcr::RESET | bmcr::AN_RESTART);
            self.reset(now);
            self.registers[BMCR] = kept;
            self.restart(now);
            return;
        }
        let old = self.registers[BMCR];
        self.registers[BMCR] = value & !bmcr::AN_RESTART;
        let anew = bmcr::AN_ENABLE
            | bmcr::POWER_DOWN
            | bmcr::SPEED100
            | bmcr::SPEED1000
            | bmcr::FULL_DUPLEX;
        if (old ^ value) & anew != 0 || value & bmcr::AN_RESTART != 0 {
            self.restart(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Duration = Duration::from_secs(1);

    fn negotiated(model: PhyModel, partner: &str) -> Phy {
        let mut phy = Phy::new(model);
        phy.set_partner(partner.parse().unwrap(), Duration::ZERO);
        phy.advance(T);
        phy
    }

    fn mode(text: &str) -> Option<Mode> {
        match text.parse() {
            Ok(Partner::Only(mode)) => Some(mode),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_best_of_what_both_ends_can_is_negotiated() {
        let link = |model, partner| negotiated(model, partner).link();
        assert_eq!(link(PhyModel::Marvell88e1111, "up"), mode("1000 full"));
        assert_eq!(link(PhyModel::Realtek8201, "up"), mode("100 full"));
        assert_eq!(link(PhyModel::Realtek8201, "1000 full"), None);
        assert_eq!(link(PhyModel::Marvell88e1111, "10 half"), mode("10 half"));
        assert_eq!(link(PhyModel::Marvell88e1111, "down"), None);
    }

    #[test]
    fn a_lost_link_stays_in_the_status_until_it_was_read() {
        let mut phy = negotiated(PhyModel::Marvell88e1111, "up");
        phy.read(BMSR);
        assert_ne!(phy.read(BMSR) & bmsr::LINK, 0);
        phy.set_partner(Partner::Absent, T);
        phy.set_partner(Partner::Everything, T);
        phy.advance(2 * T);
        assert_eq!(phy.read(BMSR) & bmsr::LINK, 0);
        assert_ne!(phy.read(BMSR) & bmsr::LINK, 0);
    }

    #[test]
    fn registers_say_what_was_negotiated() {
        let mut phy = negotiated(PhyModel::Marvell88e1111, "100 half");
        assert_eq!(phy.read(LPA) & 0x1e0, 0x80);
        assert_eq!(phy.read(STAT1000) & 0xc00, 0);
        assert_ne!(phy.read(BMSR) & bmsr::AN_COMPLETE, 0);
        phy.write(BMCR, bmcr::SPEED100, T);
        phy.advance(2 * T);
        assert_eq!(phy.link(), mode("100 half"), "forced");
        phy.write(BMCR, bmcr::POWER_DOWN, T);
        assert_eq!((phy.link(), phy.deadline()), (None, None));
    }

    #[test]
    fn a_reset_ends_at_once_and_negotiates_anew() {
        let mut phy = negotiated(PhyModel::VitesseVsc8601, "up");
        phy.write(PAGE, 0x52b5, T);
        phy.write(16, 7, T);
        assert_eq!(phy.read(16), 7);
        phy.write(BMCR, bmcr::RESET | bmcr::AN_ENABLE, T);
        assert_eq!(phy.read(BMCR), bmcr::AN_ENABLE);
        assert_eq!((phy.read(PAGE), phy.link()), (0, None));
        phy.advance(2 * T);
        assert!(phy.link().is_some());
    }

    #[test]
    fn links_are_read_and_nonsense_is_not() {
        for text in ["", "sideways", "10", "20 full", "10 quarter", "up up"] {
            assert!(text.parse::<Partner>().is_err(), "{text}");
        }
    }
}
