//! A function's configuration, to be given back to it after a reset of its own: a NIC
//! that finds a parity error starts anew, and has then forgotten its addresses.

use alloc::vec::Vec;

use pci_types::{ConfigRegionAccess, PciAddress};

use super::{ABSENT_VENDOR, BAR0, Function, express, vendor};

const COMMAND: u16 = 0x04;
/// Memory access and bus mastering.
const ENABLED: u32 = 0b110;
/// Cache line size and latency timer.
const TIMERS: u16 = 0x0c;
const INTERRUPT_LINE: u16 = 0x3c;
const MSI: u8 = 0x05;
/// In an MSI capability's first word: a message address of 64 bits.
const MSI_64_BIT: u32 = 1 << 23;

/// What a function's configuration was.
#[derive(Clone, Debug)]
pub struct Saved {
    address: PciAddress,
    /// In the order in which they are to be written.
    words: Vec<(u16, u32)>,
}

impl Saved {
    /// Keeps what a driver and firmware have set in the configuration of `function`.
    pub fn of(function: &Function, access: impl ConfigRegionAccess) -> Self {
        let mut offsets = alloc::vec![TIMERS, INTERRUPT_LINE];
        offsets.extend((0..6).map(|slot| BAR0 + slot * 4));
        if let Some(express) = function.capability(express::ID, &access) {
            offsets.push(express + express::DEVICE_CONTROL);
        }
        if let Some(msi) = function.capability(MSI, &access) {
            // SAFETY: the function exists, and reading its configuration changes nothing.
            let control = unsafe { access.read(function.address, msi) };
            let data = if control & MSI_64_BIT == 0 { 8 } else { 12 };
            offsets.extend((4..=data).step_by(4).map(|offset| msi + offset));
            // What switches messages on comes behind what they say.
            offsets.push(msi);
        }
        offsets.push(COMMAND);
        let words = offsets
            .into_iter()
            // SAFETY: as above.
            .map(|offset| (offset, unsafe { access.read(function.address, offset) }))
            .map(|(offset, word)| (offset, without_status(offset, word, function, &access)))
            .collect();
        Self {
            address: function.address,
            words,
        }
    }

    /// Gives the function its configuration back if it has lost its access to memory,
    /// and returns whether it had. One that is not there now is left alone.
    pub fn restore_if_lost(&self, access: impl ConfigRegionAccess) -> bool {
        if vendor(self.address, &access) == ABSENT_VENDOR {
            return false;
        }
        // SAFETY: the function exists, and reading its configuration changes nothing.
        let command = unsafe { access.read(self.address, COMMAND) };
        if command & ENABLED == ENABLED {
            return false;
        }
        for (offset, word) in &self.words {
            // SAFETY: the function held just this, and its driver awaits it.
            unsafe { access.write(self.address, *offset, *word) };
        }
        true
    }
}

/// `word` without the half whose bits go out when they are written.
fn without_status(
    offset: u16,
    word: u32,
    function: &Function,
    access: impl ConfigRegionAccess,
) -> u32 {
    let express = function.capability(express::ID, access);
    let control = express.map(|express| express + express::DEVICE_CONTROL);
    if offset == COMMAND || Some(offset) == control {
        word & 0xffff
    } else {
        word
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::Space;
    use super::super::{ConfigRegionAccess, enumerate};
    use super::*;

    const NIC: (u8, u8, u8) = (0, 3, 0);

    fn nic_with_capabilities() -> Space {
        let mut space = Space::default();
        space.endpoint(NIC, false);
        for (offset, word) in [
            (0x04, 0x0010_0406),
            (0x10, 0xe000_000c),
            (0x14, 0x0000_0001),
            (0x34, 0x0000_0050),
            (0x3c, 0x0000_010b),
            (0x50, 0x0081_6005),
            (0x54, 0xfee0_0000),
            (0x58, 0),
            (0x5c, 0x0000_0041),
            (0x60, 0x0002_0010),
            (0x68, 0x000f_5020),
        ] {
            space.set(NIC, offset, word);
        }
        space
    }

    #[test]
    fn what_a_reset_has_taken_comes_back_and_status_bits_stay() {
        let mut space = nic_with_capabilities();
        let nic = enumerate(&space)[0];
        let saved = Saved::of(&nic, &space);
        assert!(!saved.restore_if_lost(&space), "nothing was lost");

        let before = space.all(NIC);
        for offset in [0x04, 0x10, 0x14, 0x3c, 0x54, 0x5c, 0x68] {
            space.set(NIC, offset, 0);
        }
        space.set(NIC, 0x50, 0x0080_6005);
        assert!(saved.restore_if_lost(&space));
        let after = space.all(NIC);
        for (offset, word) in before {
            let kept = match offset {
                0x04 | 0x68 => word & 0xffff,
                _ => word,
            };
            assert_eq!(after[&offset], kept, "{offset:#x}");
        }
        assert!(!saved.restore_if_lost(&space), "it is back");
    }

    #[test]
    fn a_card_that_is_away_is_left_alone() {
        let mut space = nic_with_capabilities();
        let nic = enumerate(&space)[0];
        let saved = Saved::of(&nic, &space);
        space.set(NIC, 0, u32::MAX);
        space.set(NIC, 4, 0);
        assert!(!saved.restore_if_lost(&space));
        // SAFETY: a space in memory.
        assert_eq!(unsafe { space.read(nic.address, 4) }, 0);
    }

    #[test]
    fn a_list_of_capabilities_without_an_end_is_left() {
        let mut space = nic_with_capabilities();
        space.set(NIC, 0x60, 0x0002_5010);
        let nic = enumerate(&space)[0];
        assert_eq!(nic.capability(0x11, &space), None);
        assert_eq!(nic.capability(express::ID, &space), Some(0x60));
    }
}
