//! The time-stamp counter measured against the 8254's channel 2, the one timer
//! that every PC has and that needs no interrupt.

use x86_64::instructions::port::Port;

use crate::clock::tsc;

const CHANNEL_2: u16 = 0x42;
const COMMAND: u16 = 0x43;
/// System control port B: gate of channel 2 in bit 0, speaker in bit 1, and the
/// channel's output in bit 5.
const CONTROL_B: u16 = 0x61;

const PIT_HZ: u64 = 1_193_182;
/// 10 ms.
const COUNT: u16 = 11_932;
/// Counts down once; the output rises at the end (8254 data sheet, mode 0).
const CHANNEL_2_MODE_0: u8 = 0b1011_0000;

const GATE: u8 = 1 << 0;
const SPEAKER: u8 = 1 << 1;
const OUTPUT: u8 = 1 << 5;

const MOST_ROUNDS: usize = 5;

/// Measures the time-stamp counter's frequency in Hz. Takes 10 ms, more where
/// the machine was held up in the middle, as a virtual one may be.
pub fn tsc_frequency() -> u64 {
    let mut best = Round {
        cycles: 0,
        doubt: u64::MAX,
    };
    for _ in 0..MOST_ROUNDS {
        let round = measure();
        if round.doubt < best.doubt {
            best = round;
        }
        if best.doubt < best.cycles / 10_000 {
            break;
        }
    }
    (u128::from(best.cycles) * u128::from(PIT_HZ) / u128::from(COUNT)) as u64
}

struct Round {
    /// Cycles from the middle of the start to the middle of the end.
    cycles: u64,
    /// Cycles within which start and end happened: what `cycles` may be off.
    doubt: u64,
}

fn measure() -> Round {
    let mut control = Port::<u8>::new(CONTROL_B);
    let mut command = Port::<u8>::new(COMMAND);
    let mut channel = Port::<u8>::new(CHANNEL_2);
    let [low, high] = COUNT.to_le_bytes();
    // SAFETY: channel 2 drives nothing but the speaker, which is off.
    unsafe {
        let others = control.read() & !(GATE | SPEAKER);
        control.write(others | GATE);
        command.write(CHANNEL_2_MODE_0);
        channel.write(low);
        let before_start = tsc();
        channel.write(high);
        let after_start = tsc();
        let (mut before_end, mut after_end);
        let mut last = after_start;
        loop {
            let up = control.read() & OUTPUT != 0;
            before_end = last;
            after_end = tsc();
            last = after_end;
            if up {
                break;
            }
        }
        control.write(others);
        let start = before_start + (after_start - before_start) / 2;
        before_end = before_end.max(after_start);
        after_end = after_end.max(before_end);
        Round {
            cycles: before_end + (after_end - before_end) / 2 - start,
            doubt: (after_start - before_start) + (after_end - before_end),
        }
    }
}
