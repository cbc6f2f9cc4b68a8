//! Causes of interrupts, the timer, and how they reach the host.

use std::time::Duration;

use super::Forcedeth;
use super::phy::Mode;
use super::registers::*;
use crate::device::Host;
use crate::interrupts::InterruptMode;

/// One step of the polling interval: 97 of them are a millisecond.
const STEP_NS: u64 = 10_240;

impl Forcedeth {
    /// Notes causes.
    pub(super) fn raise(&mut self, causes: u32) {
        let status = self.get(IRQ_STATUS) | causes & irq::ALL;
        self.set(IRQ_STATUS, status);
    }

    pub(super) fn read_status(&mut self, now: Duration) -> u32 {
        self.advance_timer(now);
        self.get(IRQ_STATUS)
    }

    /// With MSI-X on, what is written changes the bits it has set.
    pub(super) fn write_irq_mask(&mut self, value: u32, host: &Host) {
        let value = match host.interrupts.mode() {
            InterruptMode::MsiX => self.get(IRQ_MASK) ^ value,
            InterruptMode::Intx | InterruptMode::Msi => value,
        };
        self.set(IRQ_MASK, value & irq::ALL);
    }

    /// Tells the host of causes that stand and are not masked.
    pub(super) fn update_interrupts(&mut self, host: &mut Host) {
        let pending = self.get(IRQ_STATUS) & self.get(IRQ_MASK);
        match host.interrupts.mode() {
            InterruptMode::Intx => host.interrupts.set_level(pending != 0, host.now),
            InterruptMode::Msi => {
                // A message goes out when causes arise where none stood. To take the
                // mask's bit away and give it back feigns that, which Linux does for
                // causes that have arisen while it took others away.
                let level = pending != 0 && self.get(MSI_IRQ_MASK) & MSI_VECTOR_0 != 0;
                let rises = level && !self.msi_level;
                self.msi_level = level;
                if rises {
                    host.interrupts.message(0, host.now);
                }
            }
            InterruptMode::MsiX => self.update_msix(pending, host),
        }
    }

    /// Each cause has a vector of its own choice. One goes out when the first of its
    /// causes arises.
    fn update_msix(&mut self, pending: u32, host: &mut Host) {
        let maps = [self.get(MSIX_MAP0), self.get(MSIX_MAP1)];
        let vector = |bit: usize| maps[bit / 8] >> (bit % 8 * 4) & 7;
        let standing = (0..16)
            .filter(|bit| pending >> bit & 1 != 0)
            .fold(0, |vectors: u32, bit| vectors | 1 << vector(bit));
        let new = standing & !self.msix_signalled;
        self.msix_signalled = standing;
        for vector in (0..8).filter(|vector| new >> vector & 1 != 0) {
            host.interrupts.message(vector, host.now);
        }
    }

    pub(super) fn write_timer(&mut self, value: u32, now: Duration) {
        self.set(SETUP_REG6, value);
        self.timer = self.next_tick(now);
    }

    /// When the timer fires next, if it runs.
    pub(super) fn next_tick(&self, now: Duration) -> Option<Duration> {
        let steps = u64::from(self.get(POLLING_INTERVAL)).max(1);
        let runs = self.get(SETUP_REG6) & SETUP6_TIMER == SETUP6_TIMER;
        runs.then(|| now + Duration::from_nanos(steps * STEP_NS))
    }

    pub(super) fn advance_timer(&mut self, now: Duration) {
        if self.timer.is_some_and(|due| due <= now) {
            self.raise(irq::TIMER);
            self.timer = self.next_tick(now);
        }
    }

    /// The timer counts for nobody while its cause stands or is masked: it is looked at
    /// when the status is read.
    pub(super) fn timer_deadline(&self) -> Option<Duration> {
        let wanted = self.get(IRQ_MASK) & irq::TIMER != 0;
        let stands = self.get(IRQ_STATUS) & irq::TIMER != 0;
        self.timer.filter(|_| wanted && !stands)
    }

    /// The MAC watches the PHY for a change of the link while it is told to.
    pub(super) fn link_changed(&mut self, before: Option<Mode>) {
        if before == self.phy.link() {
            return;
        }
        self.totals.link_changes += 1;
        if self.get(ADAPTER_CONTROL) & adapter::RUNNING != 0 {
            self.mdio.link_changed();
        }
        self.update_link_cause();
    }

    pub(super) fn update_link_cause(&mut self) {
        let changed = self.mdio.status() & mii::LINKCHANGE != 0;
        if changed && self.get(MII_MASK) & mii::LINKCHANGE != 0 {
            self.raise(irq::LINK);
        }
    }
}
