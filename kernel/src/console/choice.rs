//! The boot argument `console=`: where text goes to, and whence lines are read.
//!
//! It is read twice, from the raw command line before there is a heap, and again
//! with all other arguments, when malformed words are reported.

use crate::args;

/// Serial ports that can be used at once.
pub const MOST_UARTS: usize = 4;
/// The baud rate where none is given.
pub const DEFAULT_BAUD: u32 = 115_200;
/// The ports of COM1 to COM4.
pub const COM_PORTS: [u16; 4] = [0x3f8, 0x2f8, 0x3e8, 0x2e8];

/// Below are the devices of the mainboard itself.
const FIRST_PORT: u16 = 0x100;
/// A UART has 8 ports.
const PORTS: u16 = 8;
/// The ports by which PCI is configured.
const PCI_CONFIGURATION: u16 = 0xcf8;
/// The rate of a divisor of 1; it must divide a rate that is asked for.
const FASTEST_BAUD: u32 = 115_200;
const SLOWEST_BAUD: u32 = 300;

const WANT: &str = "want com1 to com4, a port like 0x2f8, screen or off; several with commas \
                    between; a baud rate after a colon";
const WANT_PORT: &str = "want a port that is a multiple of 8 from 0x100 to 0xfff8";
const WANT_BAUD: &str = "want a baud rate that divides 115200, from 300 on";
const WANT_FRAMING: &str = "serial lines have 8 data bits and no parity";
const TOO_MANY: &str = "that are more than 4 serial lines";

/// A serial line that is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SerialLine {
    /// The UART's first I/O port.
    pub port: u16,
    /// Bits a second.
    pub baud: u32,
}

impl SerialLine {
    /// The UART at `port`, at [`DEFAULT_BAUD`].
    pub const fn at(port: u16) -> Self {
        Self {
            port,
            baud: DEFAULT_BAUD,
        }
    }

    /// The ISA interrupt line of the four that every PC knows; of others, it is not
    /// known.
    pub fn isa_line(&self) -> Option<u8> {
        let index = COM_PORTS.iter().position(|port| *port == self.port)?;
        Some(if index % 2 == 0 { 4 } else { 3 })
    }
}

/// All that `console=` names. Nothing at all is `console=off`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Choice {
    lines: [Option<SerialLine>; MOST_UARTS],
    /// Whether the screen is named.
    pub screen: bool,
}

impl Choice {
    /// The serial lines, in their order.
    pub fn lines(&self) -> impl Iterator<Item = SerialLine> + '_ {
        self.lines.iter().flatten().copied()
    }

    /// What the words `console=` of a command line name together, as Linux has it;
    /// `off` forgets those before it. `None` where there is no well-formed one.
    pub fn of(command_line: &[u8]) -> Option<Self> {
        args::words(command_line)
            .filter_map(|word| core::str::from_utf8(word.strip_prefix(b"console=")?).ok())
            .fold(None, |choice, value| {
                choice.unwrap_or_default().with(value).ok().or(choice)
            })
    }

    /// This and what `value`, the argument's value, names besides.
    ///
    /// # Errors
    ///
    /// What is wrong with the value.
    pub fn with(mut self, value: &str) -> Result<Self, &'static str> {
        if value == "off" {
            return Ok(Self::default());
        }
        let mut items = value.split(',').peekable();
        while let Some(item) = items.next() {
            match item {
                "screen" => self.screen = true,
                _ if is_virtual_terminal(item) => self.screen = true,
                _ => {
                    let mut line = serial_line(item)?;
                    // Linux's `ttyS0,115200n8` has a comma before the line's settings.
                    let settings = |next: &&str| is_linux_serial(item) && is_settings(next);
                    if let Some(settings) = items.next_if(settings) {
                        line.baud = linux_settings(settings)?;
                    }
                    self.add(line)?;
                }
            }
        }
        Ok(self)
    }

    fn add(&mut self, line: SerialLine) -> Result<(), &'static str> {
        let place = self
            .lines
            .iter_mut()
            .find(|place| place.is_none_or(|known| known.port == line.port))
            .ok_or(TOO_MANY)?;
        *place = Some(line);
        Ok(())
    }
}

/// `tty0` and its like are the screen to Linux.
fn is_virtual_terminal(item: &str) -> bool {
    item.strip_prefix("tty")
        .is_some_and(|number| matches!(number.as_bytes(), [b'0'..=b'9']))
}

fn is_linux_serial(item: &str) -> bool {
    item.starts_with("ttyS")
}

fn is_settings(item: &str) -> bool {
    item.starts_with(|first: char| first.is_ascii_digit()) && !item.starts_with("0x")
}

fn serial_line(item: &str) -> Result<SerialLine, &'static str> {
    let (name, baud) = match item.split_once(':') {
        Some((name, text)) => (name, baud(text)?),
        None => (item, DEFAULT_BAUD),
    };
    let port = match name.strip_prefix("0x") {
        Some(digits) => port(digits).ok_or(WANT_PORT)?,
        None => named_port(name).ok_or(WANT)?,
    };
    Ok(SerialLine { port, baud })
}

fn named_port(name: &str) -> Option<u16> {
    let (digit, first) = match name.strip_prefix("com") {
        Some(digit) => (digit, 1),
        None => (name.strip_prefix("ttyS")?, 0),
    };
    let [digit @ b'0'..=b'9'] = digit.as_bytes() else {
        return None;
    };
    let index = usize::from(digit - b'0').checked_sub(first)?;
    COM_PORTS.get(index).copied()
}

fn port(digits: &str) -> Option<u16> {
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let port = u16::from_str_radix(digits, 16).ok().filter(|_| is_number)?;
    (port >= FIRST_PORT && port.is_multiple_of(PORTS) && port != PCI_CONFIGURATION).then_some(port)
}

fn baud(text: &str) -> Result<u32, &'static str> {
    let is_number = text.bytes().all(|digit| digit.is_ascii_digit());
    text.parse()
        .ok()
        .filter(|baud| is_number && is_possible(*baud))
        .ok_or(WANT_BAUD)
}

fn is_possible(baud: u32) -> bool {
    (SLOWEST_BAUD..=FASTEST_BAUD).contains(&baud) && FASTEST_BAUD.is_multiple_of(baud)
}

/// The UART's divisor for a rate that [`Choice`] has let pass.
pub(crate) fn divisor(baud: u32) -> u16 {
    (FASTEST_BAUD / baud.clamp(SLOWEST_BAUD, FASTEST_BAUD)) as u16
}

/// The baud rate of Linux's `BBBBPNF` (its Documentation/admin-guide/serial-console):
/// rate, parity, data bits, and `r` for flow control by RTS, which is not needed.
fn linux_settings(text: &str) -> Result<u32, &'static str> {
    let end = text.find(|c: char| !c.is_ascii_digit());
    let (rate, framing) = text.split_at(end.unwrap_or(text.len()));
    match framing {
        "" | "n" | "n8" | "n8r" => baud(rate),
        _ => Err(WANT_FRAMING),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn choice(lines: &[(u16, u32)], screen: bool) -> Choice {
        let mut choice = Choice {
            screen,
            ..Choice::default()
        };
        for (place, (port, baud)) in choice.lines.iter_mut().zip(lines) {
            *place = Some(SerialLine {
                port: *port,
                baud: *baud,
            });
        }
        choice
    }

    fn read(value: &str) -> Choice {
        Choice::default().with(value).expect(value)
    }

    #[test]
    fn lines_have_four_names_and_any_port() {
        for (value, port) in [
            ("com1", 0x3f8),
            ("com2", 0x2f8),
            ("com3", 0x3e8),
            ("com4", 0x2e8),
            ("0x2f8", 0x2f8),
            ("0xC000", 0xc000),
            ("ttyS0", 0x3f8),
            ("ttyS3", 0x2e8),
        ] {
            assert_eq!(read(value), choice(&[(port, 115_200)], false), "{value}");
        }
    }

    #[test]
    fn several_are_set_apart_by_commas() {
        let both = choice(&[(0x2f8, 9600), (0x3f8, 115_200)], true);
        assert_eq!(read("com2:9600,screen,com1"), both);
        assert_eq!(read("screen"), choice(&[], true));
        assert_eq!(read("off"), Choice::default());
    }

    #[test]
    fn linux_spelling_is_understood() {
        assert_eq!(read("tty0"), choice(&[], true));
        for settings in ["57600", "57600n", "57600n8", "57600n8r"] {
            let value = std::format!("ttyS1,{settings}");
            assert_eq!(read(&value), choice(&[(0x2f8, 57_600)], false), "{value}");
        }
        // The comma may as well lead to the next console.
        let two = choice(&[(0x3f8, 115_200), (0x2f8, 115_200)], true);
        assert_eq!(read("ttyS0,0x2f8,tty0"), two);
    }

    #[test]
    fn several_words_add_up_and_off_forgets() {
        let line = b"console=tty0 ip=dhcp console=ttyS1,9600n8";
        assert_eq!(Choice::of(line), Some(choice(&[(0x2f8, 9600)], true)));
        let line = b"console=screen console=off console=com2";
        assert_eq!(Choice::of(line), Some(choice(&[(0x2f8, 115_200)], false)));
        let line = b"console=com1:300 console=com1";
        assert_eq!(Choice::of(line), Some(choice(&[(0x3f8, 115_200)], false)));
    }

    #[test]
    fn a_malformed_word_is_as_if_it_were_not_there() {
        assert_eq!(Choice::of(b"ip=dhcp console=lpt1 xconsole=com1"), None);
        let line = b"console=com2 console=com9";
        assert_eq!(Choice::of(line), Some(choice(&[(0x2f8, 115_200)], false)));
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (value, reason) in [
            ("", WANT),
            ("com0", WANT),
            ("com5", WANT),
            ("com11", WANT),
            ("com", WANT),
            ("ttyS4", WANT),
            ("ttyS", WANT),
            ("tty", WANT),
            ("com1,", WANT),
            ("com1,115200n8", WANT),
            ("off,com1", WANT),
            ("3f8", WANT),
            ("0x", WANT_PORT),
            ("0x60", WANT_PORT),
            ("0x3fc", WANT_PORT),
            ("0xcf8", WANT_PORT),
            ("0x10000", WANT_PORT),
            ("0x+3f8", WANT_PORT),
            ("com1:", WANT_BAUD),
            ("com1:0", WANT_BAUD),
            ("com1:+9600", WANT_BAUD),
            ("com1:100000", WANT_BAUD),
            ("com1:921600", WANT_BAUD),
            ("ttyS0,9600e7", WANT_FRAMING),
            ("com1,com2,com3,com4,0x400", TOO_MANY),
        ] {
            assert_eq!(Choice::default().with(value), Err(reason), "{value}");
        }
    }

    #[test]
    fn interrupt_lines_are_those_of_a_pc() {
        let lines = COM_PORTS.map(|port| SerialLine::at(port).isa_line());
        assert_eq!(lines, [Some(4), Some(3), Some(4), Some(3)]);
        assert_eq!(SerialLine::at(0x400).isa_line(), None);
    }

    #[test]
    fn divisors_are_those_of_the_data_sheet() {
        assert_eq!(divisor(115_200), 1);
        assert_eq!(divisor(9600), 12);
        assert_eq!(divisor(300), 384);
    }

    proptest! {
        #[test]
        fn any_value_is_survived(value in ".{0,40}") {
            if let Ok(choice) = Choice::default().with(&value) {
                for line in choice.lines() {
                    prop_assert!(line.port >= FIRST_PORT);
                    prop_assert!(is_possible(line.baud));
                }
            }
        }
    }
}
