//! Configuration space for tests.

use std::cell::RefCell;
use std::collections::BTreeMap;

use pci_types::{ConfigRegionAccess, PciAddress};

/// Configuration space in memory. BARs answer sizing by a mask.
#[derive(Default)]
pub(super) struct Space {
    pub(super) words: RefCell<BTreeMap<(u8, u8, u8, u16), u32>>,
    pub(super) bar_masks: BTreeMap<(u8, u8, u8, u16), u32>,
}

impl Space {
    pub(super) fn set(&mut self, at: (u8, u8, u8), offset: u16, value: u32) {
        self.words
            .get_mut()
            .insert((at.0, at.1, at.2, offset), value);
    }

    pub(super) fn endpoint(&mut self, at: (u8, u8, u8), multi: bool) {
        self.set(at, 0x00, 0x100e_8086);
        self.set(at, 0x08, 0x0200_0000);
        self.set(at, 0x0c, u32::from(multi) << 23);
    }

    pub(super) fn bridge(&mut self, at: (u8, u8, u8), secondary: u8) {
        self.set(at, 0x00, 0x0001_1b36);
        self.set(at, 0x08, 0x0604_0000);
        self.set(at, 0x0c, 0x0001_0000);
        self.set(at, 0x18, u32::from(secondary) << 8);
    }
}

impl Space {
    /// What was set of function `at`, by offset.
    pub(super) fn all(&self, at: (u8, u8, u8)) -> BTreeMap<u16, u32> {
        let words = self.words.borrow();
        let of_it = words.iter().filter(|(key, _)| (key.0, key.1, key.2) == at);
        of_it.map(|(key, word)| (key.3, *word)).collect()
    }
}

impl ConfigRegionAccess for Space {
    unsafe fn read(&self, a: PciAddress, offset: u16) -> u32 {
        let key = (a.bus(), a.device(), a.function(), offset);
        let words = self.words.borrow();
        let present = words.contains_key(&(key.0, key.1, key.2, 0));
        words
            .get(&key)
            .copied()
            .unwrap_or(if present { 0 } else { u32::MAX })
    }

    unsafe fn write(&self, a: PciAddress, offset: u16, value: u32) {
        let key = (a.bus(), a.device(), a.function(), offset);
        let value = match self.bar_masks.get(&key) {
            Some(mask) => (value & mask) | (self.words.borrow()[&key] & 0xf),
            None => value,
        };
        self.words.borrow_mut().insert(key, value);
    }
}
