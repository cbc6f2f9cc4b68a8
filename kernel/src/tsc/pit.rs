//! The 8254's channel 2: the timer of every PC, though some boards stop its clock.

use x86_64::instructions::port::Port;

use super::measure::{Counter, Reading};
use crate::clock;

const CHANNEL_2: u16 = 0x42;
const COMMAND: u16 = 0x43;
/// System control port B: gate of channel 2 in bit 0, speaker in bit 1.
const CONTROL_B: u16 = 0x61;
const GATE: u8 = 1 << 0;
const SPEAKER: u8 = 1 << 1;

const HZ: u64 = 1_193_182;
/// Counts down from 65,536 over and over (8254 data sheet, mode 2).
const CHANNEL_2_MODE_2: u8 = 0b1011_0100;
/// Holds the count for the next two reads.
const LATCH_CHANNEL_2: u8 = 0b1000_0000;

/// The timer, which counts until this is dropped.
pub(super) struct Pit {
    control: Port<u8>,
    command: Port<u8>,
    channel: Port<u8>,
    control_was: u8,
}

impl Pit {
    /// Lets the channel count.
    pub(super) fn start() -> Self {
        let mut pit = Self {
            control: Port::new(CONTROL_B),
            command: Port::new(COMMAND),
            channel: Port::new(CHANNEL_2),
            control_was: 0,
        };
        // SAFETY: channel 2 drives nothing but the speaker, which is off.
        unsafe {
            pit.control_was = pit.control.read() & !(GATE | SPEAKER);
            pit.control.write(pit.control_was | GATE);
            pit.command.write(CHANNEL_2_MODE_2);
            pit.channel.write(0);
            pit.channel.write(0);
        }
        pit
    }
}

impl Drop for Pit {
    fn drop(&mut self) {
        // SAFETY: as in `start`.
        unsafe { self.control.write(self.control_was) };
    }
}

impl Counter for Pit {
    fn hz(&self) -> u64 {
        HZ
    }

    fn mask(&self) -> u64 {
        u64::from(u16::MAX)
    }

    fn read(&mut self) -> Reading {
        let before = clock::tsc();
        // SAFETY: as in `start`; the count is what it was at this command.
        unsafe { self.command.write(LATCH_CHANNEL_2) };
        let after = clock::tsc();
        // SAFETY: as in `start`.
        let bytes = unsafe { [self.channel.read(), self.channel.read()] };
        let down = u16::from_le_bytes(bytes);
        Reading {
            before,
            count: u64::from(down.wrapping_neg()),
            after,
        }
    }
}
