//! A text console on a screen: VGA's text memory, or a linear frame buffer.
//!
//! What is written changes [`Cells`] only. Drawing them is work of its own, which
//! can be done in small parts: scrolling redraws all that differs, which on a large
//! frame buffer takes milliseconds.

pub mod cells;
pub mod font;
pub mod pixels;

use self::cells::{Cells, Change};
use self::font::Font;
use self::pixels::Painter;

/// Light grey on black, in VGA's attribute byte.
const TEXT_ATTRIBUTE: u16 = 0x07 << 8;

/// Pixels that are drawn at once, but at least a character: some tens of
/// microseconds.
const PIXELS_AT_ONCE: usize = 2048;
/// The same for text memory, whose writes are not combined, in characters.
const CHARACTERS_AT_ONCE: usize = 64;

/// What is drawn on.
#[derive(Debug)]
pub enum Surface<'a> {
    /// Text memory of a VGA, and how many columns it has.
    Text {
        /// A row of it.
        columns: usize,
        /// Its whole rows.
        memory: &'a mut [u16],
    },
    /// A frame buffer.
    Pixels {
        /// Knows its layout.
        painter: Painter,
        /// Its [`Painter::frame_len`] bytes.
        frame: &'a mut [u8],
    },
}

impl Surface<'_> {
    fn size(&self) -> (usize, usize) {
        match self {
            Self::Text { columns, memory } => {
                (*columns, memory.len().checked_div(*columns).unwrap_or(0))
            }
            Self::Pixels { painter, .. } => (painter.grid().columns, painter.grid().rows),
        }
    }

    fn clear(&mut self) {
        match self {
            Self::Text { memory, .. } => memory.fill(TEXT_ATTRIBUTE | u16::from(b' ')),
            Self::Pixels { frame, .. } => frame.fill(0),
        }
    }

    fn draw(&mut self, font: &Font, change: Change) {
        match self {
            Self::Text { columns, memory } => {
                if let Some(cell) = memory.get_mut(change.row * *columns + change.column) {
                    *cell = TEXT_ATTRIBUTE | u16::from(change.character);
                }
            }
            Self::Pixels { painter, frame } => painter.draw(frame, font, change),
        }
    }

    /// Characters that are drawn at once.
    fn portion(&self) -> usize {
        match self {
            Self::Text { .. } => CHARACTERS_AT_ONCE,
            Self::Pixels { painter, .. } => {
                (PIXELS_AT_ONCE / painter.grid().pixels_a_cell()).max(1)
            }
        }
    }
}

/// What a screen keeps in RAM. All of it is zero at first, so that it takes no room
/// in the image's file.
#[derive(Debug)]
pub struct Shadow {
    cells: Cells,
    font: Font,
}

impl Shadow {
    /// That of no screen yet.
    pub const fn empty() -> Self {
        Self {
            cells: Cells::empty(),
            font: Font::blank(),
        }
    }
}

/// A screen with text on it.
#[derive(Debug)]
pub struct Screen<'a> {
    surface: Surface<'a>,
    cells: &'a mut Cells,
    font: &'a Font,
}

impl<'a> Screen<'a> {
    /// Clears `surface`, to draw on it from now on.
    pub fn new(mut surface: Surface<'a>, shadow: &'a mut Shadow) -> Self {
        let Shadow { cells, font } = shadow;
        let (columns, rows) = surface.size();
        cells.reset(columns, rows);
        font.load();
        surface.clear();
        Self {
            surface,
            cells,
            font,
        }
    }

    /// Writes text, to be drawn later.
    pub fn write(&mut self, text: &str) {
        self.cells.write(text);
    }

    /// Whether all that was written is drawn.
    pub fn is_drawn(&self) -> bool {
        self.cells.is_drawn()
    }

    /// Draws a part of what is not drawn yet.
    pub fn draw_some(&mut self) {
        for _ in 0..self.surface.portion() {
            match self.cells.next_change() {
                Some(change) => self.surface.draw(self.font, change),
                None => break,
            }
        }
    }

    /// Draws all that is not drawn yet.
    pub fn draw_all(&mut self) {
        while !self.is_drawn() {
            self.draw_some();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec;

    use super::*;
    use crate::handover::{Channel, Pixels};

    #[test]
    fn text_memory_gets_characters_with_their_attribute() {
        let mut memory = vec![0; 80 * 25];
        let mut shadow = Shadow::empty();
        let text = Surface::Text {
            columns: 80,
            memory: &mut memory,
        };
        let mut screen = Screen::new(text, &mut shadow);
        screen.write("first\n");
        screen.write(&"x\n".repeat(25));
        screen.draw_all();
        let row = |row: usize| -> String {
            let cells = memory[row * 80..][..80].iter();
            cells.map(|cell| char::from(*cell as u8)).collect()
        };
        assert_eq!(row(0).trim_end(), "x");
        assert_eq!(row(23).trim_end(), "x");
        assert_eq!(row(24).trim_end(), "");
        assert!(memory.iter().all(|cell| cell & 0xff00 == TEXT_ATTRIBUTE));
    }

    #[test]
    fn text_memory_without_cells_takes_any_text() {
        let mut shadow = Shadow::empty();
        let nothing = Surface::Text {
            columns: 0,
            memory: &mut [],
        };
        let mut screen = Screen::new(nothing, &mut shadow);
        screen.write("text\n");
        screen.draw_all();
        assert!(screen.is_drawn());
    }

    #[test]
    fn a_large_screen_is_drawn_in_many_small_parts() {
        let colour = |shift| Channel { shift, bits: 8 };
        let pixels = Pixels {
            address: 0,
            width: 3840,
            height: 2160,
            pitch: 3840 * 4,
            bits: 32,
            red: colour(16),
            green: colour(8),
            blue: colour(0),
        };
        let painter = Painter::new(&pixels).unwrap();
        let mut frame = vec![0xff; painter.frame_len()];
        let mut shadow = Shadow::empty();
        let surface = Surface::Pixels {
            painter,
            frame: &mut frame,
        };
        let mut screen = Screen::new(surface, &mut shadow);
        let line = "x".repeat(100);
        screen.write(&line);
        let parts = (0..).take_while(|_| {
            let more = !screen.is_drawn();
            screen.draw_some();
            more
        });
        let each = PIXELS_AT_ONCE / painter.grid().pixels_a_cell();
        assert_eq!(parts.count(), 100_usize.div_ceil(each) + 1);
        assert!(frame.contains(&0xaa) && !frame.contains(&0xff));
    }
}
