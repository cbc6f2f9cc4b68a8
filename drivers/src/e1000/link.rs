//! The link: bringing it up, and seeing how it is (SDM chapters 8 and 14.5).

use super::ids::{Generation, Media, Model};
use super::phy::{Pause, Phy, Silent};
use super::regs::{
    CTRL, Ctrl, FCAH, FCAL, FCRTH, FCRTL, FCRTL_XONE, FCT, FCTTV, PBA, RXCW, Rxcw, STATUS, Status,
    TCTL, TCTL_COLD_MASK, TCTL_COLD_SHIFT, TXCW, Txcw,
};
use crate::hw::Registers;
use crate::nic::Link;

/// Looks at a dark fibre link before the driver stops waiting for negotiation.
const PATIENCE: u32 = 3;

/// What a fibre or backplane port says of itself when it negotiates.
const FIBRE_ABILITIES: Txcw = Txcw::FD.union(Txcw::PAUSE).union(Txcw::ASM_DIR);

/// The link's upkeep.
pub struct LinkCare {
    model: &'static Model,
    dark_looks: u32,
    /// Fibre: the partner does not negotiate, and the link is forced up.
    forced: bool,
}

impl LinkCare {
    /// For one model's medium.
    pub fn new(model: &'static Model) -> Self {
        Self {
            model,
            dark_looks: 0,
            forced: false,
        }
    }

    /// Starts the link after a reset.
    ///
    /// # Errors
    ///
    /// A copper part's PHY does not answer.
    pub fn set_up<R: Registers>(
        &mut self,
        regs: &R,
        delay: &mut dyn FnMut(u32),
    ) -> Result<(), Silent> {
        self.dark_looks = 0;
        self.forced = false;
        set_up_flow_control(regs);
        let ctrl = Ctrl::from_bits_retain(regs.read32(CTRL));
        let quiet = ctrl.difference(
            Ctrl::LRST
                | Ctrl::ILOS
                | Ctrl::FRCSPD
                | Ctrl::FRCDPX
                | Ctrl::RFCE
                | Ctrl::TFCE
                | Ctrl::VME
                | Ctrl::PHY_RST,
        );
        match self.model.media {
            Media::Copper => {
                let mut wanted = quiet | Ctrl::SLU;
                if self.forces_speed() {
                    wanted |= Ctrl::FRCSPD | Ctrl::FRCDPX;
                }
                regs.write32(CTRL, wanted.bits());
                Phy::new(regs, self.model.generation, delay).set_up()
            }
            Media::Fibre | Media::Serdes => {
                regs.write32(TXCW, (FIBRE_ABILITIES | Txcw::ANE).bits());
                regs.write32(CTRL, quiet.difference(Ctrl::SLU).bits());
                Ok(())
            }
        }
    }

    /// An 82543's MAC does not hear from its PHY and is told the speed.
    fn forces_speed(&self) -> bool {
        self.model.generation == Generation::I82543
    }

    /// How the link is now.
    pub fn look<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) -> Link {
        if self.model.media == Media::Copper && self.forces_speed() {
            let mut phy = Phy::new(regs, self.model.generation, delay);
            return phy.m88_link().unwrap_or(Link::Down);
        }
        let status = Status::from_bits_retain(regs.read32(STATUS));
        if !status.contains(Status::LU) {
            return Link::Down;
        }
        let mbps = if self.model.media != Media::Copper || status.contains(Status::SPEED_1000) {
            1000
        } else if status.contains(Status::SPEED_100) {
            100
        } else {
            10
        };
        Link::Up {
            mbps,
            full_duplex: status.contains(Status::FD),
        }
    }

    /// Fits the MAC to a link that has just come up.
    pub fn came_up<R: Registers>(
        &self,
        regs: &R,
        mbps: u32,
        full_duplex: bool,
        delay: &mut dyn FnMut(u32),
    ) {
        // Half duplex at 1000 Mbit/s extends the carrier to 512 bytes.
        let distance = if full_duplex || mbps < 1000 {
            0x40
        } else {
            0x200
        };
        let tctl = regs.read32(TCTL) & !TCTL_COLD_MASK | distance << TCTL_COLD_SHIFT;
        regs.write32(TCTL, tctl);

        let ctrl = Ctrl::from_bits_retain(regs.read32(CTRL));
        let mut wanted = ctrl.difference(Ctrl::RFCE | Ctrl::TFCE);
        if full_duplex {
            wanted |= self.negotiated_pause(regs, delay);
        }
        if self.model.media == Media::Copper && self.forces_speed() {
            wanted.remove(Ctrl::SPEED_100 | Ctrl::SPEED_1000 | Ctrl::FD);
            wanted.set(Ctrl::SPEED_100, mbps == 100);
            wanted.set(Ctrl::SPEED_1000, mbps == 1000);
            wanted.set(Ctrl::FD, full_duplex);
        }
        regs.write32(CTRL, wanted.bits());
    }

    /// What both ends agreed on for PAUSE frames. A PHY that has fallen silent
    /// leaves them off.
    fn negotiated_pause<R: Registers>(&self, regs: &R, delay: &mut dyn FnMut(u32)) -> Ctrl {
        let (ours, theirs) = match self.model.media {
            Media::Copper => {
                let mut phy = Phy::new(regs, self.model.generation, delay);
                phy.pause_abilities().unwrap_or_default()
            }
            Media::Fibre | Media::Serdes => {
                let theirs = Rxcw::from_bits_retain(regs.read32(RXCW));
                let theirs = Pause {
                    symmetric: theirs.contains(Rxcw::PAUSE),
                    asymmetric: theirs.contains(Rxcw::ASM_DIR),
                };
                (
                    Pause {
                        symmetric: !self.forced,
                        asymmetric: !self.forced,
                    },
                    theirs,
                )
            }
        };
        Pause::resolve(ours, theirs)
    }

    /// Fibre's regular care: a partner that does not negotiate gets a forced
    /// link, and one that begins to gets negotiation back (SDM 8.6.2).
    pub fn tend<R: Registers>(&mut self, regs: &R) {
        if self.model.media == Media::Copper {
            return;
        }
        let ctrl = Ctrl::from_bits_retain(regs.read32(CTRL));
        let negotiates = Rxcw::from_bits_retain(regs.read32(RXCW)).contains(Rxcw::C);
        if self.forced {
            if negotiates {
                regs.write32(TXCW, (FIBRE_ABILITIES | Txcw::ANE).bits());
                regs.write32(CTRL, ctrl.difference(Ctrl::SLU).bits());
                self.forced = false;
                self.dark_looks = 0;
            }
            return;
        }
        let up = Status::from_bits_retain(regs.read32(STATUS)).contains(Status::LU);
        if up || negotiates || !self.has_signal(ctrl) {
            self.dark_looks = 0;
            return;
        }
        self.dark_looks += 1;
        if self.dark_looks >= PATIENCE {
            regs.write32(TXCW, FIBRE_ABILITIES.bits());
            regs.write32(CTRL, (ctrl | Ctrl::SLU | Ctrl::FD).bits());
            self.forced = true;
        }
    }

    /// Whether light comes in, as pin 1 tells: low for a signal up to the 82544,
    /// high for one after it. A backplane has no such pin.
    fn has_signal(&self, ctrl: Ctrl) -> bool {
        let high = ctrl.contains(Ctrl::SWDPIN1);
        match self.model.media {
            Media::Fibre if self.model.generation <= Generation::I82544 => !high,
            Media::Fibre => high,
            Media::Copper | Media::Serdes => true,
        }
    }
}

/// Tells the NIC what a PAUSE frame is, and how full its FIFO may get before it
/// sends one (SDM 14.4, IEEE 802.3 annex 31B).
fn set_up_flow_control<R: Registers>(regs: &R) {
    regs.write32(FCAL, 0x00c2_8001);
    regs.write32(FCAH, 0x0000_0100);
    regs.write32(FCT, 0x8808);
    regs.write32(FCTTV, 0xffff);
    // XOFF leaves room for a full-size frame each way while it travels.
    let fifo = (regs.read32(PBA) & 0xffff) << 10;
    let high = fifo.saturating_sub(0x2400).max(0x800) & !7;
    regs.write32(FCRTL, high.saturating_sub(1500) & !7 | FCRTL_XONE);
    regs.write32(FCRTH, high);
}
