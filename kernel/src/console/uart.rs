//! A 16550 with a queue in front: 8 data bits, no parity.
//!
//! Text goes to a ring that the UART's interrupt empties, so that a line of
//! output costs the receive loop a copy and not the 87 µs a character that the
//! wire takes.

use super::choice::{SerialLine, divisor};
use super::ring::Ring;

/// Registers of the 16550 (data sheet, table 2), as offsets from its base port.
mod reg {
    pub const DATA: u16 = 0;
    pub const DIVISOR_LOW: u16 = 0;
    pub const INTERRUPT_ENABLE: u16 = 1;
    pub const DIVISOR_HIGH: u16 = 1;
    pub const INTERRUPT_IDENTITY: u16 = 2;
    pub const FIFO_CONTROL: u16 = 2;
    pub const LINE_CONTROL: u16 = 3;
    pub const MODEM_CONTROL: u16 = 4;
    pub const LINE_STATUS: u16 = 5;
    pub const MODEM_STATUS: u16 = 6;
    pub const SCRATCH: u16 = 7;
}

const EIGHT_BITS: u8 = 0x03;
const DIVISOR_LATCH: u8 = 0x80;
/// FIFO on, both sides cleared, interrupt at one byte.
const FIFO_ON: u8 = 0x07;
const DTR: u8 = 1 << 0;
const RTS: u8 = 1 << 1;
/// Lets the interrupt out of the chip on a PC.
const OUT2: u8 = 1 << 3;
const LOOPBACK: u8 = 1 << 4;
const INTERRUPT_ON_RECEIVE: u8 = 1 << 0;
const INTERRUPT_ON_TRANSMIT: u8 = 1 << 1;
const RECEIVED: u8 = 1 << 0;
const TRANSMIT_EMPTY: u8 = 1 << 5;
/// The last bit is on the wire, too.
const IDLE: u8 = 1 << 6;
const FIFO_LEN: usize = 16;
/// What reads from ports where nothing is.
const NOTHING: u8 = 0xff;

/// Output that waits for the wire.
pub type Output = Ring<OUTPUT_LEN>;

const OUTPUT_LEN: usize = 8192;
/// Bytes that are taken from the UART at once; more is a UART that is stuck.
const MOST_RECEIVED: usize = 256;

/// Looks at the line status in a row without room for a byte, after which the other
/// end counts as stopped. Each takes a microsecond or so on the bus, and a full FIFO
/// at 9600 baud 17 ms. A clock is not there when the first lines are written.
const PATIENCE: usize = 100_000;

/// How a UART's registers are reached.
pub trait Registers {
    /// Reads register number `register`, from 0 to 7.
    fn read(&mut self, register: u16) -> u8;
    /// Writes it.
    fn write(&mut self, register: u16, value: u8);
}

/// The UART's ring was full for too long: text was dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stopped;

/// A UART that is set up.
#[derive(Debug)]
pub struct Uart<'a, R> {
    registers: R,
    line: SerialLine,
    output: &'a mut Output,
    interrupts: bool,
    /// Nobody took output for a long time; until somebody does, none is waited for.
    stopped: bool,
}

impl<'a, R: Registers> Uart<'a, R> {
    /// Sets the UART of `line` up, without interrupts; `None` where none answers.
    pub fn find(mut registers: R, line: SerialLine, output: &'a mut Output) -> Option<Self> {
        if !answers(&mut registers) {
            return None;
        }
        // What firmware or a loader has written last.
        wait_until_idle(&mut registers);
        let [low, high] = divisor(line.baud).to_le_bytes();
        registers.write(reg::INTERRUPT_ENABLE, 0);
        registers.write(reg::LINE_CONTROL, DIVISOR_LATCH);
        registers.write(reg::DIVISOR_LOW, low);
        registers.write(reg::DIVISOR_HIGH, high);
        registers.write(reg::LINE_CONTROL, EIGHT_BITS);
        registers.write(reg::FIFO_CONTROL, FIFO_ON);
        registers.write(reg::MODEM_CONTROL, DTR | RTS | OUT2);
        Some(Self {
            registers,
            line,
            output,
            interrupts: false,
            stopped: false,
        })
    }

    /// Where it is, and its rate.
    pub fn line(&self) -> SerialLine {
        self.line
    }

    /// Whether it interrupts.
    pub fn interrupts(&self) -> bool {
        self.interrupts
    }

    /// Whether output waits for the wire.
    pub fn has_output(&self) -> bool {
        !self.output.is_empty()
    }

    /// Lets the UART interrupt. Its vector must be installed.
    pub fn enable_interrupt(&mut self) {
        self.interrupts = true;
        self.send();
    }

    /// Queues text, with carriage returns before its line feeds.
    ///
    /// # Errors
    ///
    /// [`Stopped`]: the rest of the text was dropped.
    pub fn write(&mut self, text: &str) -> Result<(), Stopped> {
        for byte in text.bytes() {
            if byte == b'\n' {
                self.put(b'\r')?;
            }
            self.put(byte)?;
        }
        self.send();
        Ok(())
    }

    fn put(&mut self, byte: u8) -> Result<(), Stopped> {
        if self.output.push(byte) || self.wait_for_room() && self.output.push(byte) {
            return Ok(());
        }
        Err(Stopped)
    }

    /// Waits until the UART has taken bytes from the ring. Returns false when it
    /// takes none.
    fn wait_for_room(&mut self) -> bool {
        let patience = if self.stopped { 1 } else { PATIENCE };
        self.stopped = !(0..patience).any(|_| self.send());
        !self.stopped
    }

    /// Waits until all output is on the wire, or the other end has stopped.
    pub fn drain(&mut self) {
        while self.has_output() && self.wait_for_room() {}
        if !self.stopped {
            wait_until_idle(&mut self.registers);
        }
    }

    /// Moves bytes from the ring to the UART as far as it takes them now. Returns
    /// whether it took some.
    pub fn send(&mut self) -> bool {
        let mut sent = false;
        while self.has_output() && self.status(TRANSMIT_EMPTY) {
            for byte in core::iter::from_fn(|| self.output.pop()).take(FIFO_LEN) {
                self.registers.write(reg::DATA, byte);
            }
            sent = true;
        }
        if self.interrupts {
            let more = if self.has_output() {
                INTERRUPT_ON_TRANSMIT
            } else {
                0
            };
            self.registers
                .write(reg::INTERRUPT_ENABLE, INTERRUPT_ON_RECEIVE | more);
        }
        sent
    }

    /// Gives what was received to `take`.
    pub fn receive(&mut self, mut take: impl FnMut(u8)) {
        for _ in 0..MOST_RECEIVED {
            if !self.status(RECEIVED) {
                break;
            }
            take(self.registers.read(reg::DATA));
        }
    }

    fn status(&mut self, bit: u8) -> bool {
        let status = self.registers.read(reg::LINE_STATUS);
        status != NOTHING && status & bit != 0
    }
}

/// Waits until the FIFO's bytes are on the wire, if that happens.
fn wait_until_idle(registers: &mut impl Registers) {
    let mut statuses = (0..PATIENCE).map(|_| registers.read(reg::LINE_STATUS));
    statuses.any(|status| status & IDLE != 0);
}

/// Whether a UART is there: it keeps what is written to its scratch register, or
/// what goes to its modem outputs comes back from its inputs in loopback mode (data
/// sheet, 8.6). The first 8250s have no scratch register; some of those that are
/// made of software have no loopback.
fn answers(registers: &mut impl Registers) -> bool {
    registers.read(reg::LINE_STATUS) != NOTHING && (keeps(registers) || loops_back(registers))
}

fn keeps(registers: &mut impl Registers) -> bool {
    [0x5a, 0xa5].into_iter().all(|value| {
        registers.write(reg::SCRATCH, value);
        // Lets the bus forget the value where only its wires have kept it.
        registers.read(reg::INTERRUPT_IDENTITY);
        registers.read(reg::SCRATCH) == value
    })
}

fn loops_back(registers: &mut impl Registers) -> bool {
    const INPUTS: u8 = 0xf0;
    /// In loopback mode, RTS comes back as CTS and OUT2 as carrier detect, DTR as
    /// DSR, and OUT1 as the ring indicator.
    const RTS_OUT2: u8 = 0x90;
    const DTR_ONLY: u8 = 0x20;
    let before = registers.read(reg::MODEM_CONTROL);
    let answers = [(RTS | OUT2, RTS_OUT2), (DTR, DTR_ONLY)]
        .into_iter()
        .all(|(outputs, inputs)| {
            registers.write(reg::MODEM_CONTROL, LOOPBACK | outputs);
            registers.read(reg::MODEM_STATUS) & INPUTS == inputs
        });
    registers.write(reg::MODEM_CONTROL, before);
    answers
}

#[cfg(test)]
mod tests;
