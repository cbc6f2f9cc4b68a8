//! What a receive descriptor says once the NIC has completed it (SDM 3.2.3).

use super::regs::{RxErrors, RxStatus};
use crate::nic::RxChecksum;

/// The upper half of a completed receive descriptor.
#[derive(Clone, Copy)]
pub struct Completed(u64);

impl Completed {
    const BROKEN: RxErrors = RxErrors::CE
        .union(RxErrors::SE)
        .union(RxErrors::SEQ)
        .union(RxErrors::CXE)
        .union(RxErrors::RXE);

    /// What an upper half says, if the NIC has written it.
    pub const fn of(high: u64) -> Option<Self> {
        let this = Self(high);
        if this.status().contains(RxStatus::DD) {
            Some(this)
        } else {
            None
        }
    }

    /// Bytes in the buffer.
    pub const fn len(self) -> usize {
        self.0 as u16 as usize
    }

    const fn status(self) -> RxStatus {
        RxStatus::from_bits_retain((self.0 >> 32) as u8)
    }

    const fn errors(self) -> RxErrors {
        RxErrors::from_bits_retain((self.0 >> 40) as u8)
    }

    /// Whether this is a frame's last buffer.
    pub const fn ends_frame(self) -> bool {
        self.status().contains(RxStatus::EOP)
    }

    /// Whether there is an error in the frame.
    pub const fn broken(self) -> bool {
        self.errors().intersects(Self::BROKEN)
    }

    /// Whether this is a good frame's last buffer: one look for both.
    pub const fn ends_good_frame(self) -> bool {
        let end = RxStatus::EOP.bits() as u16;
        let broken = (Self::BROKEN.bits() as u16) << 8;
        (self.0 >> 32) as u16 & (end | broken) == end
    }

    /// What the NIC says of the frame's checksums (SDM 3.2.9).
    pub fn verdict(self) -> RxChecksum {
        let (status, errors) = (self.status(), self.errors());
        if status.contains(RxStatus::IXSM) {
            RxChecksum::Unknown
        } else if errors.intersects(RxErrors::IPE | RxErrors::TCPE) {
            RxChecksum::Bad
        } else if status.contains(RxStatus::TCPCS) {
            // Without IPCS it is IPv6, whose header has no checksum.
            RxChecksum::Good
        } else if status.contains(RxStatus::IPCS) {
            RxChecksum::IpGood
        } else {
            RxChecksum::Unknown
        }
    }
}
