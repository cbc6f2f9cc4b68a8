//! Lines typed on a terminal: echo, rubbing out, and a bound on their length.

use alloc::string::String;

const LONGEST: usize = 120;
/// What is allocated for one. The heap aligns everything to 128 bytes, and looks
/// through all gaps that this leaves when it is asked for less: with thousands of
/// connections open that takes a millisecond.
const CAPACITY: usize = 256;
const BACKSPACE: u8 = 0x08;
const DELETE: u8 = 0x7f;
/// Ctrl-U.
const KILL: u8 = 0x15;

/// A line being typed.
#[derive(Debug)]
pub struct Line {
    text: String,
    last_was_cr: bool,
}

/// What a typed byte led to.
#[derive(Debug, PartialEq, Eq)]
pub enum Typed {
    /// Nothing to see.
    Nothing,
    /// Show this character.
    Echo(char),
    /// Take this many characters off the screen.
    RubOut(usize),
    /// The line is complete.
    Complete(String),
}

impl Default for Line {
    fn default() -> Self {
        Self {
            text: String::with_capacity(CAPACITY),
            last_was_cr: false,
        }
    }
}

impl Line {
    /// Takes one byte. Bytes that are no printable ASCII are ignored, and so are
    /// those past the longest line.
    pub fn typed(&mut self, byte: u8) -> Typed {
        let after_cr = core::mem::replace(&mut self.last_was_cr, byte == b'\r');
        match byte {
            b'\n' if after_cr => Typed::Nothing,
            b'\r' | b'\n' => {
                let text = String::with_capacity(CAPACITY);
                Typed::Complete(core::mem::replace(&mut self.text, text))
            }
            BACKSPACE | DELETE => match self.text.pop() {
                Some(_) => Typed::RubOut(1),
                None => Typed::Nothing,
            },
            KILL => {
                let shown = self.text.len();
                self.text.clear();
                Typed::RubOut(shown)
            }
            b' '..=b'~' if self.text.len() < LONGEST => {
                self.text.push(char::from(byte));
                Typed::Echo(char::from(byte))
            }
            _ => Typed::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(bytes: &[u8]) -> Vec<String> {
        let mut line = Line::default();
        bytes
            .iter()
            .filter_map(|byte| match line.typed(*byte) {
                Typed::Complete(text) => Some(text),
                _ => None,
            })
            .collect()
    }

    #[test]
    fn every_line_end_ends_a_line_once() {
        assert_eq!(lines(b"a\rb\nc\r\nd\n\re"), ["a", "b", "c", "d", ""]);
    }

    #[test]
    fn rubbing_out_stops_at_the_start() {
        assert_eq!(lines(b"\x08\x7fab\x08c\n"), ["ac"]);
        assert_eq!(lines(b"abc\x15d\n"), ["d"]);
    }

    #[test]
    fn a_line_is_bounded_and_clean() {
        let long = [b'x'; 1000];
        assert_eq!(lines(&[&long[..], b"\n"].concat())[0].len(), LONGEST);
        assert_eq!(lines(b"p\x00o\xffw\x1b\n"), ["pow"]);
    }

    proptest! {
        #[test]
        fn the_echo_shows_what_the_line_holds(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let mut line = Line::default();
            let mut screen = String::new();
            for byte in bytes {
                match line.typed(byte) {
                    Typed::Nothing => {}
                    Typed::Echo(c) => screen.push(c),
                    Typed::RubOut(count) => screen.truncate(screen.len() - count),
                    Typed::Complete(text) => {
                        prop_assert_eq!(&text, &screen);
                        screen.clear();
                    }
                }
            }
        }
    }
}
