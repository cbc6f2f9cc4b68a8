//! Names of common NICs, for those that have no driver here: a PCI id alone tells few
//! people which card it is. The numbers are those of the PCI ID repository.

/// The name of the NIC with these ids, where it is a common one.
pub fn find(vendor: u16, device: u16) -> Option<&'static str> {
    NAMES
        .iter()
        .find(|(known, _)| *known == (vendor, device))
        .map(|(_, name)| *name)
}

const NAMES: [((u16, u16), &str); 50] = [
    ((0x1022, 0x2000), "AMD PCnet"),
    ((0x10ec, 0x8125), "Realtek RTL8125"),
    ((0x10ec, 0x8136), "Realtek RTL8101"),
    ((0x10ec, 0x8139), "Realtek RTL8139"),
    ((0x10ec, 0x8168), "Realtek RTL8111/8168"),
    ((0x14e4, 0x1639), "Broadcom BCM5709"),
    ((0x14e4, 0x1657), "Broadcom BCM5719"),
    ((0x14e4, 0x165f), "Broadcom BCM5720"),
    ((0x14e4, 0x168e), "Broadcom BCM57810"),
    ((0x14e4, 0x16d7), "Broadcom BCM57414"),
    ((0x14e4, 0x1750), "Broadcom BCM57508"),
    ((0x15ad, 0x07b0), "VMware vmxnet3"),
    ((0x15b3, 0x1003), "Mellanox ConnectX-3"),
    ((0x15b3, 0x1013), "Mellanox ConnectX-4"),
    ((0x15b3, 0x1015), "Mellanox ConnectX-4 Lx"),
    ((0x15b3, 0x1017), "Mellanox ConnectX-5"),
    ((0x15b3, 0x101b), "Mellanox ConnectX-6"),
    ((0x15b3, 0x101d), "Mellanox ConnectX-6 Dx"),
    ((0x15b3, 0x1021), "Mellanox ConnectX-7"),
    ((0x1af4, 0x1000), "virtio"),
    ((0x1af4, 0x1041), "virtio"),
    ((0x1d0f, 0xec20), "Amazon ENA"),
    ((0x1d6a, 0x07b1), "Aquantia AQC107"),
    ((0x1d6a, 0xd107), "Aquantia AQC107"),
    ((0x8086, 0x1229), "Intel 82557 to 82559"),
    ((0x8086, 0x10c9), "Intel 82576"),
    ((0x8086, 0x10ea), "Intel 82577LM"),
    ((0x8086, 0x10ef), "Intel 82578DM"),
    ((0x8086, 0x10fb), "Intel 82599ES"),
    ((0x8086, 0x125b), "Intel I226-LM"),
    ((0x8086, 0x125c), "Intel I226-V"),
    ((0x8086, 0x1502), "Intel 82579LM"),
    ((0x8086, 0x1503), "Intel 82579V"),
    ((0x8086, 0x1521), "Intel I350"),
    ((0x8086, 0x1528), "Intel X540"),
    ((0x8086, 0x1533), "Intel I210"),
    ((0x8086, 0x1539), "Intel I211"),
    ((0x8086, 0x153a), "Intel I217-LM"),
    ((0x8086, 0x1563), "Intel X550"),
    ((0x8086, 0x1572), "Intel X710"),
    ((0x8086, 0x1583), "Intel XL710"),
    ((0x8086, 0x158b), "Intel XXV710"),
    ((0x8086, 0x1592), "Intel E810-C"),
    ((0x8086, 0x159b), "Intel E810-XXV"),
    ((0x8086, 0x15a2), "Intel I218-LM"),
    ((0x8086, 0x15b7), "Intel I219-LM"),
    ((0x8086, 0x15b8), "Intel I219-V"),
    ((0x8086, 0x15d7), "Intel I219-LM"),
    ((0x8086, 0x15f2), "Intel I225-LM"),
    ((0x8086, 0x15f3), "Intel I225-V"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_common_nic_has_a_name_and_none_is_listed_twice() {
        assert_eq!(find(0x8086, 0x1533), Some("Intel I210"));
        assert_eq!(find(0x1234, 0x1111), None);
        let mut ids = NAMES.map(|(id, _)| id).to_vec();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), NAMES.len());
    }
}
