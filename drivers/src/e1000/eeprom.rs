//! Reading the EEPROM (SDM 5.3), for the station address.

use super::ids::Generation;
use super::regs::{EECD, EERD, EERD_DATA_SHIFT, EERD_START, Eecd};
use crate::hw::Registers;

/// Words that the checksum covers.
const CHECKED_WORDS: u16 = 0x40;
/// What they add up to.
const CHECKSUM: u16 = 0xbaba;
/// The word of the pins' settings.
const CONTROL2: u16 = 0x0f;
/// How long one word may take.
const WORD_TIMEOUT_US: u32 = 10_000;

/// What the driver wants of the EEPROM.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// The station address.
    pub address: [u8; 6],
    /// Word 0x0f, initialization control 2: how the pins are to be set.
    pub control2: u16,
}

/// Why the EEPROM's contents cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EepromError {
    /// It did not answer.
    NoAnswer,
    /// It answered, but its words do not add up.
    Checksum {
        /// What they add up to; 0xbaba is right.
        sum: u16,
    },
}

/// How a generation's EEPROM is reached.
#[derive(Clone, Copy)]
enum Access {
    /// Through EERD, whose fields moved with the 82541 (SDM 13.4.4).
    Eerd { address_shift: u32, done: u32 },
    /// By driving the pins of the Microwire EEPROM: EERD is not there.
    Microwire,
}

impl Access {
    fn of(generation: Generation) -> Self {
        match generation {
            Generation::I82543 | Generation::I82544 => Self::Microwire,
            Generation::I82540 | Generation::I82545Rev3 => Self::Eerd {
                address_shift: 8,
                done: 1 << 4,
            },
            Generation::I82541 | Generation::I82574 => Self::Eerd {
                address_shift: 2,
                done: 1 << 1,
            },
        }
    }
}

/// Reads the EEPROM and checks it.
///
/// # Errors
///
/// The EEPROM does not answer, or its checksum is wrong.
pub fn read<R: Registers>(
    regs: &R,
    generation: Generation,
    delay: &mut dyn FnMut(u32),
) -> Result<Contents, EepromError> {
    let access = Access::of(generation);
    let mut sum = 0u16;
    let mut contents = Contents::default();
    for index in 0..CHECKED_WORDS {
        let word = match access {
            Access::Eerd {
                address_shift,
                done,
            } => read_eerd(regs, index, address_shift, done, delay)?,
            Access::Microwire => Microwire::select(regs, delay)?.read(index),
        };
        sum = sum.wrapping_add(word);
        match index {
            0..=2 => {
                let at = 2 * usize::from(index);
                contents.address[at..at + 2].copy_from_slice(&word.to_le_bytes());
            }
            CONTROL2 => contents.control2 = word,
            _ => {}
        }
    }
    if sum != CHECKSUM {
        return Err(EepromError::Checksum { sum });
    }
    Ok(contents)
}

fn read_eerd<R: Registers>(
    regs: &R,
    index: u16,
    address_shift: u32,
    done: u32,
    delay: &mut dyn FnMut(u32),
) -> Result<u16, EepromError> {
    regs.write32(EERD, u32::from(index) << address_shift | EERD_START);
    for waited in 0..=WORD_TIMEOUT_US {
        if waited > 0 {
            delay(1);
        }
        let value = regs.read32(EERD);
        if value & done != 0 {
            return Ok((value >> EERD_DATA_SHIFT) as u16);
        }
    }
    Err(EepromError::NoAnswer)
}

/// The Microwire EEPROM with its chip selected; dropping it deselects it.
struct Microwire<'a, R: Registers> {
    regs: &'a R,
    delay: &'a mut dyn FnMut(u32),
    pins: Eecd,
    address_bits: u32,
}

/// Start bit and operation code of a read.
const MICROWIRE_READ: u32 = 0b110;

impl<'a, R: Registers> Microwire<'a, R> {
    fn select(regs: &'a R, delay: &'a mut dyn FnMut(u32)) -> Result<Self, EepromError> {
        let before = Eecd::from_bits_retain(regs.read32(EECD));
        let pins = before.difference(Eecd::SK | Eecd::CS | Eecd::DI) | Eecd::REQ;
        let address_bits = if before.contains(Eecd::SIZE_OR_AUTO_RD) {
            8
        } else {
            6
        };
        regs.write32(EECD, pins.bits());
        for _ in 0..WORD_TIMEOUT_US {
            if regs.read32(EECD) & Eecd::GNT.bits() != 0 {
                let mut this = Self {
                    regs,
                    delay,
                    pins,
                    address_bits,
                };
                this.set(Eecd::CS, true);
                return Ok(this);
            }
            delay(1);
        }
        regs.write32(EECD, pins.difference(Eecd::REQ).bits());
        Err(EepromError::NoAnswer)
    }

    fn read(mut self, index: u16) -> u16 {
        self.shift_out(MICROWIRE_READ, 3);
        self.shift_out(index.into(), self.address_bits);
        self.set(Eecd::DI, false);
        (0..16).fold(0, |word, _| word << 1 | u16::from(self.shift_in()))
    }

    fn shift_out(&mut self, value: u32, bits: u32) {
        for bit in (0..bits).rev() {
            self.set(Eecd::DI, value >> bit & 1 != 0);
            self.set(Eecd::SK, true);
            self.set(Eecd::SK, false);
        }
    }

    fn shift_in(&mut self) -> bool {
        self.set(Eecd::SK, true);
        let bit = self.regs.read32(EECD) & Eecd::DO.bits() != 0;
        self.set(Eecd::SK, false);
        bit
    }

    /// Sets a pin and waits: 1 µs a half-period is twice the slowest part's.
    fn set(&mut self, pin: Eecd, high: bool) {
        self.pins.set(pin, high);
        self.regs.write32(EECD, self.pins.bits());
        self.regs.read32(EECD);
        (self.delay)(1);
    }
}

impl<R: Registers> Drop for Microwire<'_, R> {
    fn drop(&mut self) {
        self.set(Eecd::CS, false);
        self.set(Eecd::REQ, false);
    }
}
