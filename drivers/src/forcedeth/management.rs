//! The management unit of some members: a processor beside the MAC, which may send and
//! receive through it as well. It and the host share it by two semaphores.

use super::regs::{
    MGMT_GET_VERSION, MGMT_IN_USE, MGMT_UNIT_CONTROL, MGMT_UNIT_GET_VERSION, MGMT_UNIT_VERSION,
    MGMT_VERSION, TRANSMITTER_CONTROL, Transmitter,
};
use crate::hw::Registers;

/// How long the unit may hold its semaphore, and may take to answer, in ms. Linux gives
/// it 5 s; a unit that takes as long is not there for us.
const TIMEOUT_MS: u32 = 200;
/// How often the host's semaphore is tried.
const TRIES: u32 = 2;

/// What the unit does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Management {
    /// It uses the MAC.
    pub uses_mac: bool,
    /// It has set the PHY up, which must not be done again.
    pub has_set_phy_up: bool,
}

fn control<R: Registers>(regs: &R) -> Transmitter {
    Transmitter::from_bits_retain(regs.read32(TRANSMITTER_CONTROL))
}

/// Asks what the unit does. One that does not run, or does not answer, does nothing.
pub fn ask<R: Registers>(regs: &R, delay: &mut dyn FnMut(u32)) -> Management {
    let runs = Transmitter::MGMT_ST | Transmitter::SYNC_PHY_INIT;
    if !control(regs).contains(runs) || !acquire(regs, delay) {
        return Management::default();
    }
    let Some(version) = version(regs, delay) else {
        return Management::default();
    };
    let uses_mac = version == 0 || regs.read32(MGMT_UNIT_CONTROL) & MGMT_IN_USE != 0;
    let sync = control(regs).intersection(Transmitter::SYNC);
    Management {
        uses_mac,
        has_set_phy_up: uses_mac && sync == Transmitter::SYNC_PHY_INIT,
    }
}

/// Takes the host's semaphore, when the unit does not hold its own.
fn acquire<R: Registers>(regs: &R, delay: &mut dyn FnMut(u32)) -> bool {
    let is_free = |control: Transmitter| !control.intersects(Transmitter::MGMT_SEMA);
    let free = (0..TIMEOUT_MS).any(|_| {
        let free = is_free(control(regs));
        if !free {
            delay(1_000);
        }
        free
    });
    free && (0..TRIES).any(|_| {
        let wanted = control(regs) | Transmitter::HOST_SEMA;
        regs.write32(TRANSMITTER_CONTROL, wanted.bits());
        let now = control(regs);
        let taken = now.contains(Transmitter::HOST_SEMA) && is_free(now);
        if !taken {
            delay(50);
        }
        taken
    })
}

/// Asks for the unit's version.
fn version<R: Registers>(regs: &R, delay: &mut dyn FnMut(u32)) -> Option<u32> {
    let before = control(regs);
    regs.write32(MGMT_UNIT_GET_VERSION, MGMT_GET_VERSION);
    let asked = before ^ Transmitter::DATA_START;
    regs.write32(TRANSMITTER_CONTROL, asked.bits());
    let answered = (0..TIMEOUT_MS).any(|_| {
        let changed = (control(regs) ^ before).contains(Transmitter::DATA_READY);
        if !changed {
            delay(1_000);
        }
        changed
    });
    let failed = control(regs).contains(Transmitter::DATA_ERROR);
    (answered && !failed).then(|| regs.read32(MGMT_UNIT_VERSION) & MGMT_VERSION)
}

/// Gives the host's semaphore back.
pub fn release<R: Registers>(regs: &R) {
    let without = control(regs).difference(Transmitter::HOST_SEMA);
    regs.write32(TRANSMITTER_CONTROL, without.bits());
}
