//! The MAC's access to the PHY: one register at a time, by the management interface.

use std::time::Duration;

use super::Forcedeth;
use super::registers::mii;

/// Where a board has its PHY.
const PHY_ADDRESS: u32 = 1;

/// The management interface.
#[derive(Debug, Default)]
pub(super) struct Mdio {
    status: u32,
    data: u32,
    control: u32,
    /// Reads of the control register that still find it in use.
    busy: u32,
}

impl Mdio {
    pub(super) fn status(&self) -> u32 {
        self.status
    }

    pub(super) fn clear_status(&mut self, bits: u32) {
        self.status &= !(bits & mii::STATUS);
    }

    pub(super) fn link_changed(&mut self) {
        self.status |= mii::LINKCHANGE;
    }

    pub(super) fn control(&mut self) -> u32 {
        let in_use = self.busy > 0;
        self.busy = self.busy.saturating_sub(1);
        self.control | if in_use { mii::INUSE } else { 0 }
    }

    pub(super) fn data(&self) -> u32 {
        self.data
    }

    pub(super) fn set_data(&mut self, value: u32) {
        self.data = value & 0xffff;
    }
}

impl Forcedeth {
    /// Reads or writes a register of the PHY. Writing the in-use bit ends what is under
    /// way.
    pub(super) fn mii_command(&mut self, value: u32, now: Duration) {
        if value & mii::INUSE != 0 {
            self.mdio.busy = 0;
            return;
        }
        self.mdio.control = value & (mii::WRITE | 0x3ff);
        if self.faults.mii_stuck {
            self.mdio.busy = u32::MAX;
            return;
        }
        self.mdio.busy = 1;
        let register = (value & 0x1f) as usize;
        if value >> 5 & 0x1f != PHY_ADDRESS || self.faults.phy_absent {
            self.mdio.data = 0xffff;
            self.mdio.status |= mii::ERROR;
        } else if value & mii::WRITE != 0 {
            let before = self.phy.link();
            self.phy.write(register, self.mdio.data as u16, now);
            self.link_changed(before);
        } else {
            self.mdio.data = self.phy.read(register).into();
        }
    }
}
