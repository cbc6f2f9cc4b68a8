//! What the card can be told to do wrong.

use std::time::Duration;

use super::Myri10ge;
use crate::device::Host;

/// Why a received frame is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxFault {
    /// The FCS does not fit.
    Crc,
    /// The line was disturbed.
    Phy,
    /// The SRAM had no room.
    Overrun,
    /// The link was faster than the card.
    Overflow,
    /// The frame was too short.
    Runt,
}

/// Faults that are still to come, or that last.
#[derive(Debug, Default)]
pub struct Faults {
    /// The next so many frames are lost so.
    pub receive: Option<(RxFault, u32)>,
    /// Nothing is sent until the firmware is reset.
    pub tx_stuck: bool,
    /// Commands are not answered.
    pub is_silent: bool,
    /// The next so many DMA tests fail.
    pub dma_tests: u32,
    /// The next so many hand-offs are not answered.
    pub hand_offs: u32,
    /// Reads of the host's memory that have never ended.
    pub lost_tags: u32,
    /// Memory is out of reach, as if the function were no bus master.
    pub bus_master_off: bool,
    /// Memory is out of reach until then.
    pub bus_master_back_at: Option<Duration>,
    /// The link comes back then.
    pub link_back_at: Option<Duration>,
}

impl Faults {
    pub(super) fn deadline(&self) -> Option<Duration> {
        let dues = [self.link_back_at, self.bus_master_back_at];
        dues.into_iter().flatten().min()
    }

    pub(super) fn take_receive(&mut self) -> Option<RxFault> {
        let (kind, left) = self.receive?;
        self.receive = (left > 1).then_some((kind, left - 1));
        (left > 0).then_some(kind)
    }

    pub(super) fn take_dma_test(&mut self) -> bool {
        take(&mut self.dma_tests)
    }

    pub(super) fn take_handoff(&mut self) -> bool {
        take(&mut self.hand_offs)
    }
}

/// Whether one was left.
fn take(left: &mut u32) -> bool {
    let is_left = *left > 0;
    *left = left.saturating_sub(1);
    is_left
}

impl Myri10ge {
    /// Ends the faults that are over.
    pub(super) fn end_faults(&mut self, host: &mut Host) {
        let master_back = self.faults.bus_master_back_at.take_if(|at| *at <= host.now);
        if master_back.is_some() {
            self.faults.bus_master_off = false;
        }
        let link_back = self.faults.link_back_at.take_if(|at| *at <= host.now);
        if link_back.is_some() {
            self.set_link(true, host);
        }
    }

    /// The link is lost, and comes back `time` later.
    pub fn flap_link(&mut self, time: Duration, host: &mut Host) {
        self.set_link(false, host);
        self.faults.link_back_at = Some(host.now + time);
    }
}
