//! The model's two serial buses: the Microwire EEPROM on the pins of EECD, and
//! the 82543's MDIO on those of CTRL.

use super::write_phy;
use crate::e1000::ids::{Generation, Model};
use crate::e1000::regs::{Ctrl, Eecd};

/// A 64-word Microwire EEPROM.
#[derive(Default)]
pub struct Microwire {
    command: u32,
    clocks: u32,
    word: Option<u16>,
    clock_high: bool,
    silent: bool,
}

impl Microwire {
    pub fn read(&self, pins: u32, model: &Model) -> u32 {
        let mut pins = Eecd::from_bits_retain(pins);
        pins.set(Eecd::GNT, pins.contains(Eecd::REQ) && !self.silent);
        pins.set(
            Eecd::SIZE_OR_AUTO_RD,
            model.generation == Generation::I82574,
        );
        let shifted = self.clocks.saturating_sub(10);
        let high = self
            .word
            .is_some_and(|word| word >> (15 - shifted.min(15)) & 1 != 0);
        pins.set(Eecd::DO, high);
        pins.bits()
    }

    pub fn write(&mut self, pins: u32, eeprom: &[u16; 64], silent: bool) {
        let pins = Eecd::from_bits_retain(pins);
        self.silent = silent;
        let rising = pins.contains(Eecd::SK) && !self.clock_high;
        self.clock_high = pins.contains(Eecd::SK);
        if !pins.contains(Eecd::CS) {
            *self = Self {
                clock_high: self.clock_high,
                silent,
                ..Self::default()
            };
        } else if rising {
            assert!(pins.contains(Eecd::REQ), "the pins were not asked for");
            self.clocks += 1;
            if self.clocks <= 9 {
                self.command = self.command << 1 | u32::from(pins.contains(Eecd::DI));
            }
            if self.clocks == 9 {
                assert_eq!(self.command >> 6, 0b110, "not a read");
                self.word = Some(eeprom[self.command as usize & 0x3f]);
            }
        }
    }
}

/// A PHY on the two pins of an 82543 (IEEE 802.3, 22.2.4.5).
#[derive(Default)]
pub struct Mdio {
    ones: u32,
    bits: Vec<bool>,
    clock_high: bool,
    /// The bits still to come out, the turnaround first.
    answer: Vec<bool>,
    out: bool,
}

impl Mdio {
    pub fn read(&self, ctrl: u32) -> u32 {
        let mut ctrl = Ctrl::from_bits_retain(ctrl);
        if !ctrl.contains(Ctrl::SWDPIO2) {
            ctrl.set(Ctrl::SWDPIN2, self.out);
        }
        ctrl.bits()
    }

    pub fn write(&mut self, ctrl: Ctrl, phy: &mut [u16; 32], silent: bool) {
        let clock = ctrl.contains(Ctrl::SWDPIN3 | Ctrl::SWDPIO3);
        let rising = clock && !self.clock_high;
        self.clock_high = clock;
        if !rising {
            return;
        }
        if !ctrl.contains(Ctrl::SWDPIO2) {
            // Nobody pulls the line low when the PHY is silent or done.
            self.out = silent || self.answer.pop().unwrap_or(true);
            return;
        }
        let bit = ctrl.contains(Ctrl::SWDPIN2);
        if self.ones < 32 {
            self.ones = if bit { self.ones + 1 } else { 0 };
            return;
        }
        if self.bits.is_empty() && bit {
            return;
        }
        self.bits.push(bit);
        self.decode(phy);
    }

    fn decode(&mut self, phy: &mut [u16; 32]) {
        let value = self
            .bits
            .iter()
            .fold(0u32, |value, bit| value << 1 | u32::from(*bit));
        match self.bits.len() {
            14 if value >> 10 == 0b0110 => {
                assert_eq!(value >> 5 & 0x1f, 1, "the PHY's address is 1");
                let word = phy[value as usize & 0x1f];
                self.answer = (0..16).map(|bit| word >> bit & 1 != 0).collect();
                self.answer.push(false);
                self.start_again();
            }
            32 => {
                assert_eq!(value >> 28, 0b0101, "not a write");
                assert_eq!(value >> 23 & 0x1f, 1, "the PHY's address is 1");
                assert_eq!(value >> 16 & 3, 0b10, "the turnaround");
                write_phy(phy, (value >> 18) as usize & 0x1f, value as u16);
                self.start_again();
            }
            _ => {}
        }
    }

    fn start_again(&mut self) {
        self.bits.clear();
        self.ones = 0;
    }
}
