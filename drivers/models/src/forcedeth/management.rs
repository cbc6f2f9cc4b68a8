//! The management unit: a processor beside the MAC that can use it too, and the
//! semaphores by which it and the host share it.

use super::generation::Management;
use super::registers::{MGMT_GET_VERSION, MGMT_UNIT_INUSE, MGMT_VERSION, xmit};

/// What the unit says in the transmitter's control register.
const UNITS: u32 = xmit::MGMT_ST | xmit::SYNC | xmit::DATA_READY | xmit::MGMT_SEMA;

#[derive(Debug)]
pub(super) struct ManagementUnit {
    state: Management,
    asked: u32,
    version: u32,
    ready: bool,
}

impl ManagementUnit {
    pub(super) fn new(state: Management) -> Self {
        Self {
            state,
            asked: 0,
            version: 0,
            ready: false,
        }
    }

    /// The control register as it is read: the host's bits and the unit's.
    pub(super) fn control(&self, host: u32) -> u32 {
        if self.state == Management::Absent {
            return host;
        }
        let ready = if self.ready { xmit::DATA_READY } else { 0 };
        host & !UNITS | xmit::MGMT_ST | xmit::SYNC_PHY_INIT | ready
    }

    /// What of a write to it is kept. The unit answers when the start bit changes.
    pub(super) fn write_control(&mut self, was: u32, value: u32) -> u32 {
        if self.state == Management::Absent {
            return value & !(UNITS | xmit::HOST_SEMA);
        }
        if (was ^ value) & xmit::DATA_START != 0 {
            if self.asked == MGMT_GET_VERSION {
                self.version = MGMT_VERSION;
            }
            self.ready = !self.ready;
        }
        value & !UNITS
    }

    /// What the host will ask for.
    pub(super) fn ask(&mut self, what: u32) {
        self.asked = what;
    }

    pub(super) fn version(&self) -> u32 {
        self.version
    }

    pub(super) fn unit_control(&self) -> u32 {
        match self.state {
            Management::InUse => MGMT_UNIT_INUSE,
            Management::Absent | Management::Idle => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_host_takes_the_semaphore_and_asks_for_the_version() {
        let mut unit = ManagementUnit::new(Management::InUse);
        let control = unit.control(0);
        assert_ne!(control & xmit::MGMT_ST, 0);
        assert_eq!(control & xmit::SYNC, xmit::SYNC_PHY_INIT);
        let kept = unit.write_control(0, control | xmit::HOST_SEMA);
        assert_eq!(unit.control(kept) & xmit::HOST_SEMA, xmit::HOST_SEMA);
        let before = unit.control(kept);
        unit.ask(MGMT_GET_VERSION);
        let kept = unit.write_control(kept, before ^ xmit::DATA_START);
        assert_ne!((unit.control(kept) ^ before) & xmit::DATA_READY, 0);
        assert_eq!(unit.version(), MGMT_VERSION);
        assert_ne!(unit.unit_control(), 0);
    }

    #[test]
    fn where_there_is_no_unit_nobody_answers() {
        let mut unit = ManagementUnit::new(Management::Absent);
        unit.ask(MGMT_GET_VERSION);
        let kept = unit.write_control(0, xmit::HOST_SEMA | xmit::DATA_START | xmit::START);
        assert_eq!(unit.control(kept), xmit::DATA_START | xmit::START);
        assert_eq!((unit.version(), unit.unit_control()), (0, 0));
    }
}
