//! What the model can be told to do wrong.

use std::time::Duration;

use super::Forcedeth;
use super::phy::Partner;
use super::registers::irq;
use crate::device::Host;

/// An error that a received frame is flagged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RxFault {
    /// The FCS does not fit.
    Crc,
    /// The receiver's FIFO ran over.
    Overflow,
    /// A symbol that is none.
    Symbol,
    /// A length field that does not fit the frame's length.
    Length,
    /// Not a whole number of bytes. It is a soft error: the frame counts.
    Framing,
    /// The descriptor comes back without its valid bit.
    Invalid,
}

/// An error that a frame to be sent is flagged with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TxFault {
    /// Memory was too slow.
    Underflow,
    /// The carrier was lost.
    Carrier,
    /// A collision that came too late.
    LateCollision,
    /// Too many collisions.
    Retry,
}

/// Faults that are still to come, or that last.
#[derive(Debug, Default)]
pub struct Faults {
    /// The next so many frames are received with that error.
    pub receive: Option<(RxFault, u32)>,
    /// The next so many frames are sent with that error.
    pub transmit: Option<(TxFault, u32)>,
    /// So many frames find the receiver's FIFO full.
    pub overrun: u32,
    /// The transmitter does nothing until it is stopped or reset.
    pub tx_stuck: bool,
    /// The transmitter says that it is busy, whatever it is told.
    pub tx_busy: bool,
    /// The management interface never ends an access.
    pub mii_stuck: bool,
    /// No PHY answers.
    pub phy_absent: bool,
    /// Memory is out of reach, as if the function were no bus master.
    pub bus_master_off: bool,
    /// The link comes back then, to this partner.
    pub link_back_at: Option<(Duration, Partner)>,
    /// Memory is out of reach until then.
    pub bus_master_back_at: Option<Duration>,
}

impl Faults {
    pub(super) fn deadline(&self) -> Option<Duration> {
        let link_back_at = self.link_back_at.map(|(at, _)| at);
        let dues = [link_back_at, self.bus_master_back_at];
        dues.into_iter().flatten().min()
    }

    pub(super) fn take_receive(&mut self) -> Option<RxFault> {
        take(&mut self.receive)
    }

    pub(super) fn take_transmit(&mut self) -> Option<TxFault> {
        take(&mut self.transmit)
    }
}

/// One of those that are left.
fn take<T: Copy>(fault: &mut Option<(T, u32)>) -> Option<T> {
    let (kind, left) = (*fault)?;
    *fault = (left > 1).then_some((kind, left - 1));
    (left > 0).then_some(kind)
}

impl Forcedeth {
    /// Ends the faults that are over.
    pub(super) fn end_faults(&mut self, host: &Host) {
        let faults = &mut self.faults;
        let master_back = faults.bus_master_back_at.take_if(|at| *at <= host.now);
        if master_back.is_some() {
            faults.bus_master_off = false;
        }
        let link_back = faults.link_back_at.take_if(|(at, _)| *at <= host.now);
        if let Some((_, partner)) = link_back {
            self.set_partner(partner, host.now);
        }
    }

    /// The link is lost, and comes back `time` later.
    pub fn flap_link(&mut self, time: Duration, now: Duration) {
        let partner = self.phy.partner();
        self.set_partner(Partner::Absent, now);
        self.faults.link_back_at = Some((now + time, partner));
    }

    /// The rings are said to have gone wrong.
    pub fn raise_recover_error(&mut self) {
        self.raise(irq::RECOVER_ERROR);
    }
}
