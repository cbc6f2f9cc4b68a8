//! The members of the family.

/// Myricom.
pub const VENDOR: u16 = 0x14c1;

/// What is known of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// PCI device id.
    pub device: u16,
    /// The vendor's name.
    pub name: &'static str,
}

impl Model {
    /// Largest IP packet in bytes.
    pub const fn max_mtu(&self) -> usize {
        9000
    }
}

const MODELS: [Model; 2] = [
    Model {
        device: 0x0008,
        name: "Myri-10G (Z8E)",
    },
    Model {
        device: 0x0009,
        name: "Myri-10G (Z8E, second)",
    },
];

/// The member with that PCI vendor and device id.
pub fn find(vendor: u16, device: u16) -> Option<&'static Model> {
    let mut models = MODELS.iter();
    models.find(|model| vendor == VENDOR && model.device == device)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ids_of_linux_are_known_and_no_others() {
        for device in 0..0x20 {
            assert_eq!(find(VENDOR, device).is_some(), matches!(device, 8 | 9));
            assert_eq!(find(0x8086, device), None);
        }
    }
}
