//! The family's PCI ids, and what each member can do.
//!
//! The lists of abilities are Linux's. FreeBSD knows the same of the members that it
//! lists, which end with the MCP67.

use bitflags::bitflags;

/// NVIDIA.
pub const VENDOR: u16 = 0x10de;

bitflags! {
    /// What a member can do, or needs.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Features: u32 {
        /// Jumbo frames, and descriptors of the second format.
        const LARGE_DESCRIPTORS = 1 << 0;
        /// Descriptors of the third format, which reach beyond 4 GiB.
        const HIGH_DMA = 1 << 1;
        /// Checksums both ways, and segmentation.
        const CHECKSUM = 1 << 2;
        /// MSI.
        const MSI = 1 << 3;
        /// Clocks and power that have to be switched on, and a reset of the MAC.
        const POWER_CONTROL = 1 << 4;
        /// The first group of counters.
        const STATISTICS_V1 = 1 << 5;
        /// The second group.
        const STATISTICS_V2 = 1 << 6;
        /// A processor of its own that may use the MAC.
        const MANAGEMENT_UNIT = 1 << 7;
        /// The station address comes in its right order.
        const MAC_IN_ORDER = 1 << 8;
        /// A partner that does not negotiate needs longer gaps in half duplex.
        const COLLISION_FIX = 1 << 9;
        /// It sends pause frames, set up in the first way.
        const PAUSE_TX_V1 = 1 << 10;
        /// In the second way.
        const PAUSE_TX_V2 = 1 << 11;
        /// In the third way.
        const PAUSE_TX_V3 = 1 << 12;
        /// It hangs with more than 16 frames under way.
        const TX_LIMIT = 1 << 13;
        /// The same, but not from revision A2 on.
        const TX_LIMIT_EARLY = 1 << 14;
        /// Back-off with several seeds.
        const GEAR_MODE = 1 << 15;
        /// A Realtek 8201 PHY needs a bit more.
        const PHY_INIT_FIX = 1 << 16;
        /// Revision A3 and later need a bit to leave their low power state.
        const LOW_POWER_FIX = 1 << 17;
    }
}

/// One member of the family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Model {
    /// PCI device id.
    pub device: u16,
    /// Its chipset.
    pub name: &'static str,
    /// What it can do.
    pub features: Features,
}

/// Formats of descriptors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// 32-bit addresses.
    V1,
    /// 32-bit addresses, jumbo frames and offloads.
    V2,
    /// The same with 64-bit addresses.
    V3,
}

impl Model {
    /// The best format that it knows.
    pub fn format(&self) -> Format {
        if self.features.contains(Features::HIGH_DMA) {
            Format::V3
        } else if self.features.contains(Features::LARGE_DESCRIPTORS) {
            Format::V2
        } else {
            Format::V1
        }
    }

    /// Largest IP packet in bytes. NVIDIA is said to give frames of 9202 bytes as the
    /// limit; the open drivers stop here.
    pub fn max_mtu(&self) -> usize {
        if self.features.contains(Features::LARGE_DESCRIPTORS) {
            9100
        } else {
            1500
        }
    }

    /// Most descriptors in a ring.
    pub fn max_ring(&self) -> usize {
        match self.format() {
            Format::V1 => 1024,
            Format::V2 | Format::V3 => 16384,
        }
    }

    /// The bus addresses that it reaches end before this one. Linux says 39 bits,
    /// FreeBSD 40.
    pub fn dma_end(&self) -> u64 {
        match self.format() {
            Format::V1 | Format::V2 => 1 << 32,
            Format::V3 => 1 << 39,
        }
    }

    /// How many frames may be under way at a time.
    pub fn tx_limit(&self, revision: u8) -> usize {
        const LIMIT: usize = 16;
        const FIXED_IN: u8 = 0xa2;
        let limited = self.features.contains(Features::TX_LIMIT)
            || self.features.contains(Features::TX_LIMIT_EARLY) && revision < FIXED_IN;
        if limited { LIMIT } else { usize::MAX }
    }
}

/// Finds the model of a PCI function, if this driver is for it.
pub fn find(vendor: u16, device: u16) -> Option<&'static Model> {
    let model = MODELS.iter().find(|model| model.device == device)?;
    (vendor == VENDOR).then_some(model)
}

const fn model(device: u16, name: &'static str, features: Features) -> Model {
    Model {
        device,
        name,
        features,
    }
}

const NFORCE3: Features = Features::LARGE_DESCRIPTORS.union(Features::CHECKSUM);
const CK804: Features = NFORCE3
    .union(Features::HIGH_DMA)
    .union(Features::STATISTICS_V1)
    .union(Features::TX_LIMIT);
const MCP51: Features = Features::HIGH_DMA
    .union(Features::POWER_CONTROL)
    .union(Features::STATISTICS_V1)
    .union(Features::LOW_POWER_FIX);
const MCP61: Features = Features::HIGH_DMA
    .union(Features::POWER_CONTROL)
    .union(Features::MSI)
    .union(Features::PAUSE_TX_V1)
    .union(Features::STATISTICS_V1)
    .union(Features::STATISTICS_V2)
    .union(Features::MANAGEMENT_UNIT)
    .union(Features::MAC_IN_ORDER);
const MCP55: Features = MCP61
    .difference(Features::MAC_IN_ORDER)
    .union(NFORCE3)
    .union(Features::TX_LIMIT);
const MCP67: Features = MCP61.union(Features::GEAR_MODE);
const MCP65: Features = MCP67
    .union(Features::LARGE_DESCRIPTORS)
    .union(Features::TX_LIMIT);
const MCP73: Features = MCP67.union(Features::COLLISION_FIX);
const MCP77: Features = MCP73
    .difference(Features::PAUSE_TX_V1)
    .union(Features::PAUSE_TX_V2)
    .union(Features::CHECKSUM)
    .union(Features::TX_LIMIT_EARLY)
    .union(Features::PHY_INIT_FIX);
const MCP79: Features = MCP77
    .difference(Features::PAUSE_TX_V2)
    .difference(Features::MANAGEMENT_UNIT)
    .union(Features::PAUSE_TX_V3)
    .union(Features::LARGE_DESCRIPTORS);
const MCP89: Features = MCP79.difference(Features::TX_LIMIT_EARLY);

/// Every member that the driver knows.
pub const MODELS: &[Model] = &[
    model(0x01c3, "nForce", Features::empty()),
    model(0x0066, "nForce2", Features::empty()),
    model(0x00d6, "nForce3", Features::empty()),
    model(0x0086, "nForce2 400", NFORCE3),
    model(0x008c, "nForce2 400", NFORCE3),
    model(0x00df, "nForce3 250", NFORCE3),
    model(0x00e6, "nForce3 250", NFORCE3),
    model(0x0056, "CK804", CK804),
    model(0x0057, "CK804", CK804),
    model(0x0037, "MCP04", CK804),
    model(0x0038, "MCP04", CK804),
    model(0x0268, "MCP51", MCP51),
    model(0x0269, "MCP51", MCP51),
    model(0x0372, "MCP55", MCP55),
    model(0x0373, "MCP55", MCP55),
    model(0x03e5, "MCP61", MCP61),
    model(0x03e6, "MCP61", MCP61),
    model(0x03ee, "MCP61", MCP61),
    model(0x03ef, "MCP61", MCP61),
    model(0x0450, "MCP65", MCP65),
    model(0x0451, "MCP65", MCP65),
    model(0x0452, "MCP65", MCP65),
    model(0x0453, "MCP65", MCP65),
    model(0x054c, "MCP67", MCP67),
    model(0x054d, "MCP67", MCP67),
    model(0x054e, "MCP67", MCP67),
    model(0x054f, "MCP67", MCP67),
    model(0x07dc, "MCP73", MCP73),
    model(0x07dd, "MCP73", MCP73),
    model(0x07de, "MCP73", MCP73),
    model(0x07df, "MCP73", MCP73),
    model(0x0760, "MCP77", MCP77),
    model(0x0761, "MCP77", MCP77),
    model(0x0762, "MCP77", MCP77),
    model(0x0763, "MCP77", MCP77),
    model(0x0ab0, "MCP79", MCP79),
    model(0x0ab1, "MCP79", MCP79),
    model(0x0ab2, "MCP79", MCP79),
    model(0x0ab3, "MCP79", MCP79),
    model(0x0d7d, "MCP89", MCP89),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_device_id_stands_twice() {
        for (index, model) in MODELS.iter().enumerate() {
            let before = &MODELS[..index];
            assert!(before.iter().all(|other| other.device != model.device));
        }
    }

    #[test]
    fn formats_limits_and_sizes_follow_from_the_features() {
        let find = |device| find(VENDOR, device).unwrap();
        assert_eq!(find(0x0066).format(), Format::V1);
        assert_eq!(
            (find(0x00e6).format(), find(0x00e6).max_mtu()),
            (Format::V2, 9100)
        );
        assert_eq!(
            (find(0x0269).format(), find(0x0269).max_mtu()),
            (Format::V3, 1500)
        );
        assert_eq!(find(0x0373).tx_limit(0xa3), 16);
        assert_eq!(
            (find(0x0ab0).tx_limit(0xa1), find(0x0ab0).tx_limit(0xa2)),
            (16, usize::MAX)
        );
        assert_eq!(super::find(0x8086, 0x0373), None);
    }
}
