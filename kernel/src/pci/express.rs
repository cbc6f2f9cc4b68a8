//! What PCI Express adds to a function (PCI Express Base Specification, 7.5.3).

use pci_types::ConfigRegionAccess;
use uniperf_drivers::hw::PcieLink;

use super::Function;

/// The capability's id.
pub(super) const ID: u8 = 0x10;
/// Device control in its low half, device status above.
pub(super) const DEVICE_CONTROL: u16 = 0x08;
/// Link control in its low half, link status above.
const LINK_CONTROL: u16 = 0x10;
/// In device control: the most that a function may read at once, 128 bytes << this.
const MAX_READ_REQUEST: u32 = 0b111 << 12;
/// The most that there is: 4096 bytes.
const LARGEST_READ_REQUEST: u32 = 5 << 12;

impl Function {
    /// Lets the function read as much as it can at once, and says how much that is, and
    /// how wide its link. `None` where it is not on PCI Express.
    pub fn open_pcie_link(&self, access: impl ConfigRegionAccess) -> Option<PcieLink> {
        let express = self.capability(ID, &access)?;
        let control = express + DEVICE_CONTROL;
        // SAFETY: the capability is the function's. Zeroes leave device status as it is,
        // and a read request's size may be changed while nothing is read.
        let (control, link) = unsafe {
            let before = access.read(self.address, control) & 0xffff;
            let wanted = before & !MAX_READ_REQUEST | LARGEST_READ_REQUEST;
            access.write(self.address, control, wanted);
            (
                access.read(self.address, control),
                access.read(self.address, express + LINK_CONTROL),
            )
        };
        Some(PcieLink {
            max_read_request: 128 << ((control & MAX_READ_REQUEST) >> 12).min(5),
            lanes: (link >> 20 & 0x3f) as u8,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::enumerate;
    use super::super::testing::Space;
    use super::*;

    #[test]
    fn the_largest_read_request_is_asked_for_and_the_width_is_read() {
        const NIC: (u8, u8, u8) = (0, 3, 0);
        let mut space = Space::default();
        space.endpoint(NIC, false);
        assert_eq!(enumerate(&space)[0].open_pcie_link(&space), None);
        space.set(NIC, 0x04, 0x0010_0006);
        space.set(NIC, 0x34, 0x60);
        space.set(NIC, 0x60, 0x0002_0010);
        space.set(NIC, 0x68, 0x000f_2810);
        space.set(NIC, 0x70, 0x1081_0040);
        let link = enumerate(&space)[0].open_pcie_link(&space);
        let expected = PcieLink {
            max_read_request: 4096,
            lanes: 8,
        };
        assert_eq!(link, Some(expected));
        assert_eq!(space.all(NIC)[&0x68], 0x0000_5810);
    }
}
