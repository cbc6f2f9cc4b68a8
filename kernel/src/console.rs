//! The serial console: a 16550 at 115200 baud, 8 data bits, no parity.
//!
//! Text goes to a ring that the UART's interrupt empties, so that a line of
//! output costs the receive loop a copy and not the 87 µs a character that the
//! wire takes.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, AtomicU16, Ordering};

use x86_64::instructions::port::Port;

use crate::clock;
use crate::single::SingleCore;

/// Registers of the 16550 (data sheet, table 2), as offsets from its base port.
mod reg {
    pub const DATA: u16 = 0;
    pub const DIVISOR_LOW: u16 = 0;
    pub const INTERRUPT_ENABLE: u16 = 1;
    pub const DIVISOR_HIGH: u16 = 1;
    pub const FIFO_CONTROL: u16 = 2;
    pub const LINE_CONTROL: u16 = 3;
    pub const MODEM_CONTROL: u16 = 4;
    pub const LINE_STATUS: u16 = 5;
}

const EIGHT_BITS: u8 = 0x03;
const DIVISOR_LATCH: u8 = 0x80;
const DIVISOR_115200: u8 = 1;
/// FIFO on, both sides cleared, interrupt at one byte.
const FIFO_ON: u8 = 0x07;
/// DTR, RTS, and OUT2, which lets the interrupt out of the chip on a PC.
const MODEM: u8 = 0x0b;
const INTERRUPT_ON_RECEIVE: u8 = 1 << 0;
const INTERRUPT_ON_TRANSMIT: u8 = 1 << 1;
const RECEIVED: u8 = 1 << 0;
const TRANSMIT_EMPTY: u8 = 1 << 5;
const FIFO_LEN: usize = 16;

/// How long output may wait for a reader that has stopped before it is dropped.
const PATIENCE_NS: u64 = 50_000_000;

static BASE: AtomicU16 = AtomicU16::new(0);
static USES_INTERRUPTS: AtomicBool = AtomicBool::new(false);

struct Ring<const N: usize> {
    bytes: [u8; N],
    read: usize,
    used: usize,
}

impl<const N: usize> Ring<N> {
    const fn new() -> Self {
        Self {
            bytes: [0; N],
            read: 0,
            used: 0,
        }
    }

    fn push(&mut self, byte: u8) -> bool {
        let room = self.used < N;
        if room {
            self.bytes[(self.read + self.used) % N] = byte;
            self.used += 1;
        }
        room
    }

    fn pop(&mut self) -> Option<u8> {
        (self.used > 0).then(|| {
            let byte = self.bytes[self.read];
            self.read = (self.read + 1) % N;
            self.used -= 1;
            byte
        })
    }
}

struct Rings {
    output: Ring<8192>,
    input: Ring<256>,
}

static RINGS: SingleCore<Rings> = SingleCore::new(Rings {
    output: Ring::new(),
    input: Ring::new(),
});

fn read(register: u16) -> u8 {
    // SAFETY: a UART register; reading it is what this module does.
    unsafe { Port::new(BASE.load(Ordering::Relaxed) + register).read() }
}

fn write(register: u16, value: u8) {
    // SAFETY: a UART register; writing it is what this module does.
    unsafe { Port::new(BASE.load(Ordering::Relaxed) + register).write(value) }
}

/// Sets the UART at port `base` up, without interrupts.
pub(crate) fn setup(base: u16) {
    BASE.store(base, Ordering::Relaxed);
    write(reg::INTERRUPT_ENABLE, 0);
    write(reg::LINE_CONTROL, DIVISOR_LATCH);
    write(reg::DIVISOR_LOW, DIVISOR_115200);
    write(reg::DIVISOR_HIGH, 0);
    write(reg::LINE_CONTROL, EIGHT_BITS);
    write(reg::FIFO_CONTROL, FIFO_ON);
    write(reg::MODEM_CONTROL, MODEM);
}

/// Lets the UART interrupt. Its vector must be installed.
pub(crate) fn enable_interrupt() {
    setup(BASE.load(Ordering::Relaxed));
    USES_INTERRUPTS.store(true, Ordering::Relaxed);
    write(reg::INTERRUPT_ENABLE, INTERRUPT_ON_RECEIVE);
}

/// To be called by the UART's interrupt handler.
pub(crate) fn interrupted() {
    RINGS.with(|rings| {
        let mut most = rings.input.bytes.len();
        while read(reg::LINE_STATUS) & RECEIVED != 0 && most > 0 {
            rings.input.push(read(reg::DATA));
            most -= 1;
        }
        send(&mut rings.output);
    });
}

/// Moves bytes from the ring to the UART as far as it takes them now.
fn send(output: &mut Ring<8192>) {
    while output.used > 0 && read(reg::LINE_STATUS) & TRANSMIT_EMPTY != 0 {
        for _ in 0..FIFO_LEN {
            match output.pop() {
                Some(byte) => write(reg::DATA, byte),
                None => break,
            }
        }
    }
    if USES_INTERRUPTS.load(Ordering::Relaxed) {
        let more = if output.used > 0 {
            INTERRUPT_ON_TRANSMIT
        } else {
            0
        };
        write(reg::INTERRUPT_ENABLE, INTERRUPT_ON_RECEIVE | more);
    }
}

/// The next byte typed, if any.
pub fn read_byte() -> Option<u8> {
    RINGS.with(|rings| rings.input.pop())
}

/// Whether something was typed that nobody has read yet.
pub(crate) fn has_input() -> bool {
    RINGS.with(|rings| rings.input.used > 0)
}

/// The console as something to write to.
#[derive(Clone, Copy, Debug)]
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            if byte == b'\n' {
                put(b'\r')?;
            }
            put(byte)?;
        }
        RINGS.with(|rings| send(&mut rings.output));
        Ok(())
    }
}

fn put(byte: u8) -> fmt::Result {
    if RINGS.with(|rings| rings.output.push(byte)) {
        return Ok(());
    }
    let end = clock::now() + PATIENCE_NS;
    while clock::now() < end {
        let done = RINGS.with(|rings| {
            send(&mut rings.output);
            rings.output.push(byte)
        });
        if done {
            return Ok(());
        }
    }
    Err(fmt::Error)
}

/// Writes text. What a reader that has stopped reading leaves no room for is
/// dropped.
pub fn print(text: fmt::Arguments<'_>) {
    let _ = Console.write_fmt(text);
}

/// Waits until all output is on the wire, within bounds. For use before the
/// machine stops.
pub(crate) fn drain() {
    let end = clock::now() + 20 * PATIENCE_NS;
    while RINGS.with(|rings| {
        send(&mut rings.output);
        rings.output.used > 0
    }) && clock::now() < end
    {}
}
