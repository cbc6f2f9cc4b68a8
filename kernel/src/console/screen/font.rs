//! The characters' shapes: the 8 by 13 of X11's "misc fixed" fonts, which are in the
//! public domain, as the crate embedded-graphics has them.

use embedded_graphics::geometry::Point;
use embedded_graphics::image::GetPixel;
use embedded_graphics::mono_font::ascii::FONT_8X13;
use embedded_graphics::pixelcolor::BinaryColor;

/// Pixels a character is wide.
pub const WIDTH: usize = 8;
/// Pixels a character is high.
pub const HEIGHT: usize = 13;

/// A character's rows from the top, its leftmost pixel in the highest bit.
pub type Glyph = [u8; HEIGHT];

const FIRST: u8 = b' ';
const LAST: u8 = b'~';
const GLYPHS: usize = (LAST - FIRST) as usize + 1;
/// Characters in a row of the font's picture.
const A_ROW: usize = 16;

/// The glyphs of printable ASCII.
#[derive(Debug)]
pub struct Font([Glyph; GLYPHS]);

impl Font {
    /// A font whose characters are all blank.
    pub const fn blank() -> Self {
        Self([[0; HEIGHT]; GLYPHS])
    }

    /// The font.
    pub fn loaded() -> Self {
        let mut font = Self::blank();
        font.load();
        font
    }

    /// Fills in the shapes.
    pub fn load(&mut self) {
        for (index, glyph) in self.0.iter_mut().enumerate() {
            let (left, top) = (index % A_ROW * WIDTH, index / A_ROW * HEIGHT);
            for (y, row) in glyph.iter_mut().enumerate() {
                *row = (0..WIDTH).fold(0, |bits, x| {
                    let at = Point::new((left + x) as i32, (top + y) as i32);
                    bits << 1 | u8::from(FONT_8X13.image.pixel(at) == Some(BinaryColor::On))
                });
            }
        }
    }

    /// The shape of a character; one that is not printable ASCII is blank.
    pub fn glyph(&self, character: u8) -> &Glyph {
        let index = usize::from(character.wrapping_sub(FIRST));
        self.0.get(index).unwrap_or(&self.0[0])
    }

    /// The character of a shape.
    pub fn recognize(&self, glyph: &Glyph) -> Option<u8> {
        let index = self.0.iter().position(|known| known == glyph)?;
        Some(FIRST + index as u8)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_look_like_themselves_and_like_no_other() {
        let font = Font::loaded();
        assert_eq!(font.glyph(b' '), &[0; HEIGHT]);
        for character in FIRST..=LAST {
            assert_eq!(font.recognize(font.glyph(character)), Some(character));
        }
        // A few bars that are known by their shape.
        let underscore = font.glyph(b'_');
        assert_eq!(underscore.iter().filter(|row| **row != 0).count(), 1);
        let bar = font.glyph(b'|');
        assert!(bar.iter().filter(|row| row.count_ones() == 1).count() > 5);
    }

    #[test]
    fn what_is_not_printable_is_blank() {
        let font = Font::loaded();
        for character in [0, b'\n', 0x7f, 0xff] {
            assert_eq!(font.glyph(character), &[0; HEIGHT]);
        }
        assert_eq!(font.recognize(&[0x5a; HEIGHT]), None);
    }
}
