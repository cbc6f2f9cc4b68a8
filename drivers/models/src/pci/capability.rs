//! Capabilities of a PCI function: their bytes, and the bits a guest can change.

use super::Messages;

const POWER_MANAGEMENT: u8 = 0x01;
const MSI: u8 = 0x05;
const HYPERTRANSPORT: u8 = 0x08;
const VENDOR_SPECIFIC: u8 = 0x09;
const PCI_EXPRESS: u8 = 0x10;
const MSI_X: u8 = 0x11;

/// A capability. The pointer to the next one is filled in by the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capability {
    bytes: Vec<(u8, u8)>,
    messages: Messages,
}

impl Capability {
    fn new(id: u8) -> Self {
        Self {
            bytes: vec![(id, 0), (0, 0)],
            messages: Messages::default(),
        }
    }

    fn field(mut self, value: &[u8], writable: &[u8]) -> Self {
        self.bytes
            .extend(value.iter().copied().zip(writable.iter().copied()));
        self
    }

    /// Power management, version 2, with D1, D2 and waking from each state (PCI Bus
    /// Power Management Interface Specification 1.2, section 3.2).
    pub fn power_management() -> Self {
        Self::new(POWER_MANAGEMENT)
            .field(&0xfe02_u16.to_le_bytes(), &[0; 2])
            .field(&[0; 4], &[0x03, 0x01, 0, 0])
    }

    /// MSI with 64-bit addresses and masks for 2 to the power of `vectors` messages (PCI
    /// Local Bus Specification 3.0, section 6.8.1).
    pub fn msi(vectors: u8) -> Self {
        let control = 0x0180 | u16::from(vectors) << 1;
        let messages = 1_u16 << vectors;
        let masks = ((1_u64 << messages) - 1) as u32;
        let mut capability = Self::new(MSI)
            .field(&control.to_le_bytes(), &[0x71, 0])
            .field(&[0; 4], &[0xfc, 0xff, 0xff, 0xff])
            .field(&[0; 4], &[0xff; 4])
            .field(&[0; 4], &[0xff, 0xff, 0, 0])
            .field(&[0; 4], &masks.to_le_bytes())
            .field(&[0; 4], &[0; 4]);
        capability.messages.msi = messages;
        capability
    }

    /// MSI-X with `vectors` messages, its table at the start of base address register
    /// `table` and its pending bits at that of `pending` (section 6.8.2).
    pub fn msi_x(vectors: u16, table: u8, pending: u8) -> Self {
        let mut capability = Self::new(MSI_X)
            .field(&(vectors - 1).to_le_bytes(), &[0, 0xc0])
            .field(&u32::from(table).to_le_bytes(), &[0; 4])
            .field(&u32::from(pending).to_le_bytes(), &[0; 4]);
        capability.messages.msix = vectors;
        capability
    }

    /// HyperTransport's mapping of MSI at its fixed address (HyperTransport I/O Link
    /// Specification 3.0, section 7.12).
    pub fn hypertransport_msi() -> Self {
        Self::new(HYPERTRANSPORT).field(&0xa802_u16.to_le_bytes(), &[0x01, 0])
    }

    /// One that means what the vendor says, `len` bytes long with its head (section
    /// 6.8.3 of PCI 3.0's appendix H).
    pub fn vendor_specific(len: u8) -> Self {
        let body = vec![0; usize::from(len) - 3];
        Self::new(VENDOR_SPECIFIC)
            .field(&[len], &[0])
            .field(&body, &body)
    }

    /// An endpoint of PCI Express with a link of `lanes`, at 2.5 GT/s: capability version
    /// 1 (PCI Express Base Specification 1.1, section 7.8).
    pub fn pci_express(lanes: u8) -> Self {
        let link = u16::from(lanes) << 4 | 1;
        Self::new(PCI_EXPRESS)
            .field(&1_u16.to_le_bytes(), &[0; 2])
            .field(&0x0000_8fc0_u32.to_le_bytes(), &[0; 4])
            // Reads of 512 bytes, until somebody says that they may be longer.
            .field(&0x2810_u16.to_le_bytes(), &[0xff, 0x7f])
            .field(&[0; 2], &[0; 2])
            .field(&u32::from(link).to_le_bytes(), &[0; 4])
            .field(&[0; 2], &[0xc3, 0x01])
            .field(&link.to_le_bytes(), &[0; 2])
    }

    /// What it lets the function send.
    pub(super) fn messages(&self) -> Messages {
        self.messages
    }

    /// Its bytes, each with the bits that a guest can change.
    pub(super) fn bytes(&self) -> impl Iterator<Item = (u8, u8)> {
        self.bytes.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_are_as_long_as_the_specifications_say() {
        let len = |capability: Capability| capability.bytes().count();
        assert_eq!(len(Capability::power_management()), 8);
        assert_eq!(len(Capability::msi(3)), 24);
        assert_eq!(len(Capability::msi_x(8, 2, 3)), 12);
        assert_eq!(len(Capability::hypertransport_msi()), 4);
        assert_eq!(len(Capability::vendor_specific(0x1c)), 0x1c);
        assert_eq!(len(Capability::pci_express(8)), 0x14);
    }

    #[test]
    fn msi_has_a_mask_bit_for_each_message() {
        for (vectors, mask) in [(0, 1), (3, 0xff), (5, 0xffff_ffff)] {
            let capability = Capability::msi(vectors);
            let mask: u32 = mask;
            let writable: Vec<_> = capability.bytes().map(|(_, writable)| writable).collect();
            assert_eq!(writable[16..20], mask.to_le_bytes());
        }
    }
}
