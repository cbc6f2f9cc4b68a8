//! The console of this machine.
//!
//! Text is kept until the serial lines are known, which is when the command line
//! is, and again for the screen until its memory is mapped. Before the receive loop
//! runs, the screen is drawn at once; from then on in small parts between frames.

use core::fmt::{self, Write};
use core::sync::atomic::{AtomicBool, Ordering};

use x86_64::instructions::port::Port;

use super::choice::{COM_PORTS, Choice, MOST_UARTS, SerialLine};
use super::ring::Ring;
use super::screen::{Screen, Shadow, Surface};
use super::surface;
use super::uart::{Output, Registers, Uart};
use crate::handover;
use crate::memory::Region;
use crate::single::SingleCore;

/// Bytes of text that are kept for a console that is not there yet.
const EARLY_LEN: usize = 4096;
const INPUT_LEN: usize = 256;

/// How often a UART that cannot interrupt is looked at for something typed.
const LOOK_FOR_INPUT_NS: u64 = 10_000_000;
/// How often UARTs are looked at while output waits, should their interrupt not
/// come. A full FIFO takes 1.4 ms at 115200 baud.
const LOOK_FOR_ROOM_NS: u64 = 1_000_000;

/// A UART's ports.
struct Ports(u16);

impl Registers for Ports {
    fn read(&mut self, register: u16) -> u8 {
        // SAFETY: a UART's register, or a port where `console=` or a PC has one.
        unsafe { Port::new(self.0 + register).read() }
    }

    fn write(&mut self, register: u16, value: u8) {
        // SAFETY: as for `read`.
        unsafe { Port::new(self.0 + register).write(value) }
    }
}

/// Text that is kept until it can be shown.
struct Early {
    text: [u8; EARLY_LEN],
    used: usize,
}

impl Early {
    fn push(&mut self, text: &str) {
        // A part of a line is of use, a part of a character is not.
        let room = text.floor_char_boundary(EARLY_LEN - self.used);
        self.text[self.used..][..room].copy_from_slice(&text.as_bytes()[..room]);
        self.used += room;
    }

    fn text(&self) -> &str {
        str::from_utf8(&self.text[..self.used]).unwrap_or_default()
    }
}

/// How far the consoles are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// The command line is not known.
    Closed,
    /// The serial lines are known.
    Lines,
    /// The screen is there, too, where there is one.
    All,
    /// The receive loop runs.
    Running,
}

struct State {
    stage: Stage,
    early: Early,
    uarts: [Option<Uart<'static, Ports>>; MOST_UARTS],
    screen: Option<Screen<'static>>,
    wants_screen: bool,
    names_screen: bool,
    is_off: bool,
    input: Ring<INPUT_LEN>,
}

/// A queue for each place in [`State::uarts`], and the screen's shadow. They are apart
/// from the state because they are all zero, which takes no room in the image's file.
static OUTPUTS: [SingleCore<Output>; MOST_UARTS] =
    [const { SingleCore::new(Output::empty()) }; MOST_UARTS];
static SHADOW: SingleCore<Shadow> = SingleCore::new(Shadow::empty());

static STATE: SingleCore<State> = SingleCore::new(State {
    stage: Stage::Closed,
    early: Early {
        text: [0; EARLY_LEN],
        used: 0,
    },
    uarts: [const { None }; MOST_UARTS],
    screen: None,
    wants_screen: false,
    names_screen: false,
    is_off: false,
    input: Ring::empty(),
});

/// Whether [`attend`] has anything to do.
static ATTENTION: AtomicBool = AtomicBool::new(true);
static HAS_INPUT: AtomicBool = AtomicBool::new(false);

impl State {
    fn uarts(&mut self) -> impl Iterator<Item = &mut Uart<'static, Ports>> {
        self.uarts.iter_mut().flatten()
    }

    fn open(&mut self, choice: Option<Choice>) {
        self.stage = Stage::Lines;
        self.is_off = choice == Some(Choice::default());
        self.wants_screen = choice.is_none_or(|choice| choice.screen);
        self.names_screen = choice.is_some_and(|choice| choice.screen);
        match choice {
            Some(choice) => {
                let missing = choice.lines().filter(|line| !self.add(*line));
                let missing: [Option<SerialLine>; MOST_UARTS] = first(missing);
                if !self.wants_screen {
                    self.speak_somewhere();
                }
                self.replay_on_lines();
                for line in missing.into_iter().flatten() {
                    self.say(format_args!(
                        "no UART answers at {:#x}, which console= names",
                        line.port
                    ));
                }
            }
            None => {
                self.speak_somewhere();
                self.replay_on_lines();
            }
        }
    }

    /// Sets the UART of a line up. Returns false where none answers.
    fn add(&mut self, line: SerialLine) -> bool {
        let mut places = self.uarts.iter_mut().zip(&OUTPUTS);
        let Some((place, output)) = places.find(|(place, _)| place.is_none()) else {
            return false;
        };
        // SAFETY: the queue is lent to the UART in its place alone, and to none before
        // that place is taken for good.
        let output = unsafe { &mut *output.address() };
        *place = Uart::find(Ports(line.port), line, output);
        place.is_some()
    }

    /// Takes the first UART that answers, where there is no line yet but should be.
    fn speak_somewhere(&mut self) {
        if !self.is_off && self.uarts().next().is_none() {
            COM_PORTS
                .into_iter()
                .find(|port| self.add(SerialLine::at(*port)));
        }
    }

    fn replay_on_lines(&mut self) {
        for uart in self.uarts.iter_mut().flatten() {
            let _ = uart.write(self.early.text());
        }
    }

    fn attach(&mut self, surface: Option<Surface<'static>>) {
        if let Some(surface) = surface {
            // SAFETY: this is the shadow's only user, and runs once.
            let shadow = unsafe { &mut *SHADOW.address() };
            let screen = self.screen.insert(Screen::new(surface, shadow));
            screen.write(self.early.text());
            screen.draw_all();
        } else {
            if self.uarts().next().is_none() {
                self.speak_somewhere();
                self.replay_on_lines();
            }
            if self.names_screen {
                self.say(format_args!("there is no screen, which console= names"));
            }
        }
        self.stage = Stage::All;
    }

    fn write(&mut self, text: &str) {
        if matches!(self.stage, Stage::Closed | Stage::Lines) {
            self.early.push(text);
        }
        for uart in self.uarts() {
            // A reader that has stopped misses what there is no room for.
            let _ = uart.write(text);
        }
        if let Some(screen) = &mut self.screen {
            screen.write(text);
            if self.stage != Stage::Running {
                screen.draw_all();
            }
        }
        ATTENTION.store(true, Ordering::Relaxed);
    }

    fn say(&mut self, what: fmt::Arguments<'_>) {
        let _ = writeln!(Direct(self), "uniperf: {what}");
    }

    fn receive(&mut self) {
        for uart in self.uarts.iter_mut().flatten() {
            uart.receive(|byte| {
                self.input.push(byte);
            });
            uart.send();
        }
        HAS_INPUT.store(!self.input.is_empty(), Ordering::Relaxed);
    }

    /// Draws a part of what is to be drawn. Returns whether there is more.
    fn draw_some(&mut self) -> bool {
        self.screen.as_mut().is_some_and(|screen| {
            screen.draw_some();
            !screen.is_drawn()
        })
    }

    fn attend(&mut self) -> Next {
        self.stage = Stage::Running;
        self.receive();
        if self.draw_some() {
            Next::Now
        } else if self.uarts().any(|uart| uart.has_output()) {
            Next::Within(LOOK_FOR_ROOM_NS)
        } else if self.uarts().any(|uart| !uart.interrupts()) {
            Next::Within(LOOK_FOR_INPUT_NS)
        } else {
            ATTENTION.store(false, Ordering::Relaxed);
            Next::AnyTime
        }
    }
}

fn first<const N: usize, T: Copy>(items: impl Iterator<Item = T>) -> [Option<T>; N] {
    let mut array = [None; N];
    for (place, item) in array.iter_mut().zip(items) {
        *place = Some(item);
    }
    array
}

/// The state as something to write to, for whoever has it already.
struct Direct<'a>(&'a mut State);

impl Write for Direct<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text);
        Ok(())
    }
}

/// Opens the serial lines that a command line names, or the first that is found,
/// without interrupts.
pub(crate) fn open(command_line: &[u8]) {
    STATE.with(|state| state.open(Choice::of(command_line)));
}

/// Puts the screen to use, where there is one and `console=` does not exclude it.
/// What is `usable` is RAM.
///
/// To be called once, after [`open`], with the first 4 GiB mapped one to one.
pub(crate) fn attach(
    screen: Option<&handover::Screen>,
    usable: impl Iterator<Item = Region> + Clone,
) {
    STATE.with(|state| {
        let screen = screen.filter(|_| state.wants_screen);
        state.attach(screen.and_then(|screen| surface::open(screen, usable)));
    });
}

/// The ISA interrupt lines of the UARTs in use.
pub(crate) fn isa_lines() -> impl Iterator<Item = u8> {
    let lines: [Option<u8>; MOST_UARTS] =
        STATE.with(|state| first(state.uarts().filter_map(|uart| uart.line().isa_line())));
    lines.into_iter().flatten()
}

/// Lets the first UART on an ISA interrupt line interrupt; a second one cannot share
/// it, as the line is edge-triggered, and is polled. The vector must be installed.
pub(crate) fn enable_interrupt(isa_line: u8) {
    STATE.with(|state| {
        let on_line = |uart: &&mut Uart<'static, Ports>| uart.line().isa_line() == Some(isa_line);
        if let Some(uart) = state.uarts().find(on_line) {
            uart.enable_interrupt();
        }
    });
}

/// To be called by the UARTs' interrupt handler.
pub(crate) fn interrupted() {
    STATE.with(State::receive);
}

/// When the console wants to be attended to again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Next {
    /// As soon as the NIC was looked at.
    Now,
    /// After so many nanoseconds.
    Within(u64),
    /// When it interrupts, or somebody writes.
    AnyTime,
}

/// Does a small part of the work that waits: drawing, polling of UARTs.
#[inline]
pub(crate) fn attend() -> Next {
    if ATTENTION.load(Ordering::Relaxed) {
        STATE.with(State::attend)
    } else {
        Next::AnyTime
    }
}

/// The next byte typed, if any.
pub fn read_byte() -> Option<u8> {
    attend();
    STATE.with(|state| {
        let byte = state.input.pop();
        HAS_INPUT.store(!state.input.is_empty(), Ordering::Relaxed);
        byte
    })
}

/// Whether something was typed that nobody has read yet.
#[inline]
pub(crate) fn has_input() -> bool {
    HAS_INPUT.load(Ordering::Relaxed)
}

/// The console as something to write to.
#[derive(Clone, Copy, Debug)]
pub struct Console;

impl Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        STATE.with(|state| state.write(text));
        Ok(())
    }
}

/// Writes text. What a reader that has stopped reading leaves no room for is
/// dropped.
pub fn print(text: fmt::Arguments<'_>) {
    let _ = Console.write_fmt(text);
}

/// Hermit's console, as patched, comes here.
#[unsafe(no_mangle)]
fn uniperf_console(text: &[u8]) {
    for part in text.utf8_chunks() {
        let _ = Console.write_str(part.valid());
    }
}

/// Waits until all output is on the wire and the screen, within bounds. For use
/// before the machine stops.
pub(crate) fn drain() {
    STATE.with(|state| {
        if state.stage == Stage::Closed {
            state.open(None);
        }
        state.uarts().for_each(Uart::drain);
        if let Some(screen) = &mut state.screen {
            screen.draw_all();
        }
    });
}
