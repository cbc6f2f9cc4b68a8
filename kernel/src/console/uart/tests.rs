use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;

use super::*;

const COM1: SerialLine = SerialLine::at(0x3f8);

/// A chip, or what else is at its ports.
#[derive(Default)]
struct Chip {
    registers: [u8; 8],
    divisor: [u8; 2],
    sent: Vec<u8>,
    received: VecDeque<u8>,
    /// Reads of the line status that a full FIFO takes to become empty.
    wire: usize,
    busy: usize,
    no_scratch: bool,
    no_loopback: bool,
    reads: usize,
}

impl Registers for &mut Chip {
    fn read(&mut self, register: u16) -> u8 {
        self.reads += 1;
        match register {
            reg::DATA => self.received.pop_front().unwrap_or(0),
            reg::LINE_STATUS => {
                self.busy = self.busy.saturating_sub(1);
                let empty = if self.busy == 0 {
                    TRANSMIT_EMPTY | IDLE
                } else {
                    0
                };
                empty | u8::from(!self.received.is_empty())
            }
            reg::MODEM_STATUS if self.registers[4] & LOOPBACK != 0 && !self.no_loopback => {
                let control = self.registers[4];
                (control & 0x0c) << 4 | (control & DTR) << 5 | (control & RTS) << 3
            }
            reg::MODEM_STATUS => 0xb0,
            _ => self.registers[usize::from(register)],
        }
    }

    fn write(&mut self, register: u16, value: u8) {
        let latched = self.registers[3] & DIVISOR_LATCH != 0;
        match register {
            0 | 1 if latched => self.divisor[usize::from(register)] = value,
            reg::DATA => {
                let is_full = self.sent.len().is_multiple_of(FIFO_LEN);
                assert!(!is_full || self.busy == 0, "overrun");
                self.sent.push(value);
                self.busy = self.wire;
            }
            reg::SCRATCH if self.no_scratch => {}
            _ => self.registers[usize::from(register)] = value,
        }
    }
}

/// Ports where nothing is: they read as one value whatever was written.
struct Empty(u8);

impl Registers for Empty {
    fn read(&mut self, _register: u16) -> u8 {
        self.0
    }

    fn write(&mut self, _register: u16, _value: u8) {}
}

/// Wires that keep what was last on them.
struct Floating(u8);

impl Registers for Floating {
    fn read(&mut self, register: u16) -> u8 {
        let value = self.0;
        if register == reg::INTERRUPT_IDENTITY {
            self.0 = 0;
        }
        value
    }

    fn write(&mut self, _register: u16, value: u8) {
        self.0 = value;
    }
}

#[test]
fn nothing_is_found_where_nothing_is() {
    for value in 0..=255 {
        assert!(
            Uart::find(Empty(value), COM1, &mut Output::empty()).is_none(),
            "{value:#x}"
        );
    }
    assert!(Uart::find(Floating(0), COM1, &mut Output::empty()).is_none());
}

#[test]
fn a_chip_needs_a_scratch_register_or_loopback() {
    for (no_scratch, no_loopback, found) in [
        (false, false, true),
        (true, false, true),
        (false, true, true),
        (true, true, false),
    ] {
        let mut chip = Chip {
            no_scratch,
            no_loopback,
            ..Chip::default()
        };
        assert_eq!(
            Uart::find(&mut chip, COM1, &mut Output::empty()).is_some(),
            found
        );
        assert_eq!(chip.registers[4] & LOOPBACK, 0);
        assert_eq!(chip.sent, b"");
    }
}

#[test]
fn the_line_is_set_up_as_asked_for() {
    let mut chip = Chip::default();
    let line = SerialLine {
        port: 0x2f8,
        baud: 300,
    };
    assert_eq!(
        Uart::find(&mut chip, line, &mut Output::empty())
            .unwrap()
            .line(),
        line
    );
    assert_eq!(chip.divisor, [0x80, 0x01]);
    assert_eq!(chip.registers[3], EIGHT_BITS);
}

#[test]
fn what_firmware_has_written_leaves_first() {
    let mut chip = Chip {
        busy: 1000,
        ..Chip::default()
    };
    Uart::find(&mut chip, COM1, &mut Output::empty()).unwrap();
    assert_eq!(chip.busy, 0);
    chip.busy = usize::MAX;
    assert!(Uart::find(&mut chip, COM1, &mut Output::empty()).is_some());
}

#[test]
fn text_waits_for_the_wire_and_none_is_lost() {
    let mut chip = Chip {
        wire: 50,
        ..Chip::default()
    };
    let text: String = (0..2000).map(|n| std::format!("line {n}\n")).collect();
    let mut output = Output::empty();
    let mut uart = Uart::find(&mut chip, COM1, &mut output).unwrap();
    uart.write(&text).unwrap();
    uart.drain();
    assert!(!uart.has_output());
    assert_eq!(chip.sent, text.replace('\n', "\r\n").into_bytes());
}

#[test]
fn an_end_that_has_stopped_is_waited_for_once() {
    let mut chip = Chip {
        wire: usize::MAX,
        ..Chip::default()
    };
    let mut output = Output::empty();
    let mut uart = Uart::find(&mut chip, COM1, &mut output).unwrap();
    let much = "x".repeat(OUTPUT_LEN + 100);
    assert_eq!(uart.write(&much), Err(Stopped));
    for _ in 0..1000 {
        assert_eq!(uart.write("more"), Err(Stopped));
        uart.drain();
    }
    assert!(uart.registers.reads < PATIENCE + 5000);
    // Once it goes on, so does the text.
    uart.registers.wire = 0;
    uart.registers.busy = 0;
    uart.write("again").unwrap();
    uart.drain();
    assert!(chip.sent.ends_with(b"again"));
}

#[test]
fn a_chip_that_goes_away_is_not_written_to() {
    let mut uart = Uart {
        registers: Empty(NOTHING),
        line: COM1,
        output: &mut Output::empty(),
        interrupts: true,
        stopped: false,
    };
    uart.write("text").unwrap();
    assert!(!uart.send());
    uart.receive(|byte| panic!("{byte} from nowhere"));
    uart.drain();
    assert!(uart.has_output());
}

#[test]
fn what_is_typed_is_received() {
    let mut chip = Chip {
        received: b"help\n".iter().copied().collect(),
        ..Chip::default()
    };
    let mut line = Vec::new();
    Uart::find(&mut chip, COM1, &mut Output::empty())
        .unwrap()
        .receive(|byte| line.push(byte));
    assert_eq!(line, b"help\n");
}

#[test]
fn the_transmit_interrupt_is_on_while_output_waits() {
    let mut chip = Chip {
        wire: 3,
        ..Chip::default()
    };
    let mut output = Output::empty();
    let mut uart = Uart::find(&mut chip, COM1, &mut output).unwrap();
    uart.enable_interrupt();
    assert_eq!(uart.registers.registers[1], INTERRUPT_ON_RECEIVE);
    uart.write("more than the FIFO takes at once").unwrap();
    let both = INTERRUPT_ON_RECEIVE | INTERRUPT_ON_TRANSMIT;
    assert_eq!(uart.registers.registers[1], both);
    uart.drain();
    assert_eq!(uart.registers.registers[1], INTERRUPT_ON_RECEIVE);
}
