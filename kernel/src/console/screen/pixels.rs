//! Characters on a linear frame buffer.

use super::cells::{Change, MOST_COLUMNS, MOST_ROWS};
use super::font::{self, Font};
use crate::handover::{Channel, Pixels};

/// A screen this wide has characters of one pixel a pixel of the font; one that is n
/// times as wide, of n.
const WIDTH_A_SCALE: usize = 800;
/// The same of its height, so that a wide and low screen has rows enough.
const HEIGHT_A_SCALE: usize = 400;
const MOST_SCALE: usize = 16;

/// Bytes of the largest frame buffer that is believed: 8K has 133 MB.
const MOST_BYTES: u64 = 256 << 20;

/// Light grey, as on a text screen.
const FOREGROUND: u8 = 0xaa;

/// Where characters are on a screen of pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Pixels each way for a pixel of the font.
    pub scale: usize,
    /// Characters a row.
    pub columns: usize,
    /// Rows of characters.
    pub rows: usize,
}

impl Grid {
    /// The grid for a screen of `width` by `height` pixels: characters large enough
    /// to be read. `None` where not one fits.
    pub fn of(width: usize, height: usize) -> Option<Self> {
        let scale = (width / WIDTH_A_SCALE)
            .min(height / HEIGHT_A_SCALE)
            .clamp(1, MOST_SCALE);
        let columns = (width / (font::WIDTH * scale)).min(MOST_COLUMNS);
        let rows = (height / (font::HEIGHT * scale)).min(MOST_ROWS);
        (columns > 0 && rows > 0).then_some(Self {
            scale,
            columns,
            rows,
        })
    }

    /// Pixels of a character.
    pub fn pixels_a_cell(&self) -> usize {
        font::WIDTH * font::HEIGHT * self.scale * self.scale
    }
}

/// Draws characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Painter {
    grid: Grid,
    pitch: usize,
    foreground: Pixel,
    len: usize,
}

impl Painter {
    /// A painter for a frame buffer; `None` where its description cannot be true.
    pub fn new(pixels: &Pixels) -> Option<Self> {
        let channels = [pixels.red, pixels.green, pixels.blue];
        let fits = |c: &Channel| u16::from(c.shift) + u16::from(c.bits) <= u16::from(pixels.bits);
        if !(15..=32).contains(&pixels.bits) || !channels.iter().all(fits) {
            return None;
        }
        let pixel_bytes = usize::from(pixels.bits.div_ceil(8));
        let line = u64::from(pixels.width) * pixel_bytes as u64;
        let above = u64::from(pixels.height.checked_sub(1)?) * u64::from(pixels.pitch);
        let len = above.checked_add(line)?;
        pixels.address.checked_add(len)?;
        if line > u64::from(pixels.pitch) || len > MOST_BYTES {
            return None;
        }
        let foreground = channels.into_iter().fold(0, |pixel, c| pixel | level(c));
        Some(Self {
            grid: Grid::of(pixels.width as usize, pixels.height as usize)?,
            pitch: pixels.pitch as usize,
            foreground: Pixel::new(foreground, pixel_bytes)?,
            len: len as usize,
        })
    }

    /// Where characters go.
    pub fn grid(&self) -> Grid {
        self.grid
    }

    /// Bytes of the frame buffer.
    pub fn frame_len(&self) -> usize {
        self.len
    }

    /// Draws a character into `frame`, whose first byte is the frame buffer's. What
    /// would be outside is not drawn.
    pub fn draw(&self, frame: &mut [u8], font: &Font, change: Change) {
        match self.foreground {
            Pixel::Two(pixel) => self.draw_with(pixel, frame, font, change),
            Pixel::Three(pixel) => self.draw_with(pixel, frame, font, change),
            Pixel::Four(pixel) => self.draw_with(pixel, frame, font, change),
        }
    }

    fn draw_with<const BYTES: usize>(
        &self,
        foreground: [u8; BYTES],
        frame: &mut [u8],
        font: &Font,
        change: Change,
    ) {
        let Grid {
            scale,
            columns,
            rows,
        } = self.grid;
        if change.column >= columns || change.row >= rows {
            return;
        }
        let mut line = [[0; BYTES]; font::WIDTH * MOST_SCALE];
        let line = &mut line[..font::WIDTH * scale];
        let left = change.column * line.as_flattened().len();
        let top = change.row * font::HEIGHT * scale;
        for (y, bits) in font.glyph(change.character).iter().enumerate() {
            for (x, dot) in line.chunks_exact_mut(scale).enumerate() {
                let is_on = bits & (0x80 >> x) != 0;
                dot.fill(if is_on { foreground } else { [0; BYTES] });
            }
            let line = line.as_flattened();
            for line_number in (top + y * scale..).take(scale) {
                let start = line_number * self.pitch + left;
                if let Some(place) = frame.get_mut(start..start + line.len()) {
                    place.copy_from_slice(line);
                }
            }
        }
    }
}

/// A pixel's bytes in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pixel {
    Two([u8; 2]),
    Three([u8; 3]),
    Four([u8; 4]),
}

impl Pixel {
    fn new(value: u32, bytes: usize) -> Option<Self> {
        let [a, b, c, d] = value.to_le_bytes();
        match bytes {
            2 => Some(Self::Two([a, b])),
            3 => Some(Self::Three([a, b, c])),
            4 => Some(Self::Four([a, b, c, d])),
            _ => None,
        }
    }
}

/// The foreground's part in one colour.
fn level(channel: Channel) -> u32 {
    let level = match channel.bits {
        bits @ 0..=8 => u64::from(FOREGROUND) >> (8 - bits),
        bits => u64::from(FOREGROUND) << (bits - 8),
    };
    (level << channel.shift) as u32
}

#[cfg(test)]
mod tests {
    use std::vec;

    use proptest::prelude::*;

    use super::*;

    const fn channel(shift: u8, bits: u8) -> Channel {
        Channel { shift, bits }
    }

    fn pixels(width: u32, height: u32) -> Pixels {
        Pixels {
            address: 0xc000_0000,
            width,
            height,
            pitch: width * 4,
            bits: 32,
            red: channel(16, 8),
            green: channel(8, 8),
            blue: channel(0, 8),
        }
    }

    #[test]
    fn characters_are_large_enough_on_every_screen() {
        for (width, height, scale, columns, rows) in [
            (640, 480, 1, 80, 36),
            (800, 600, 1, 100, 46),
            (1280, 800, 1, 160, 61),
            (1920, 1080, 2, 120, 41),
            (3840, 2160, 4, 120, 41),
            (7680, 4320, 9, 106, 36),
            // Sideways, and one that has more than can be used.
            (1080, 1920, 1, 135, 100),
            (3440, 300, 1, 200, 23),
        ] {
            let grid = Grid::of(width, height).unwrap();
            let expected = Grid {
                scale,
                columns,
                rows,
            };
            assert_eq!(grid, expected, "{width}x{height}");
        }
        assert_eq!(Grid::of(7, 100), None);
        assert_eq!(Grid::of(100, 12), None);
    }

    #[test]
    fn colours_are_where_the_channels_are() {
        let mut description = pixels(8, 13);
        let foreground = |description: &Pixels| Painter::new(description).unwrap().foreground;
        assert_eq!(foreground(&description), Pixel::Four([0xaa, 0xaa, 0xaa, 0]));
        // 5:6:5, and 10 bits a colour.
        description.bits = 16;
        description.red = channel(11, 5);
        description.green = channel(5, 6);
        description.blue = channel(0, 5);
        assert_eq!(foreground(&description), Pixel::Two([0x55, 0xad]));
        description.bits = 32;
        description.red = channel(20, 10);
        description.green = channel(10, 10);
        description.blue = channel(0, 10);
        let level: u32 = 0x2a8;
        let pixel = Pixel::new(level << 20 | level << 10 | level, 4);
        assert_eq!(Some(foreground(&description)), pixel);
        description = Pixels {
            bits: 24,
            ..pixels(8, 13)
        };
        assert_eq!(foreground(&description), Pixel::Three([0xaa; 3]));
    }

    #[test]
    fn descriptions_that_cannot_be_true_are_refused() {
        let good = pixels(640, 480);
        assert!(Painter::new(&good).is_some());
        for bad in [
            Pixels { bits: 8, ..good },
            Pixels { bits: 33, ..good },
            Pixels {
                pitch: 2559,
                ..good
            },
            Pixels { width: 0, ..good },
            Pixels { height: 0, ..good },
            Pixels {
                height: u32::MAX,
                ..good
            },
            Pixels {
                address: u64::MAX - 100,
                ..good
            },
            Pixels {
                red: channel(255, 255),
                ..good
            },
            Pixels {
                red: channel(28, 8),
                ..good
            },
        ] {
            assert_eq!(Painter::new(&bad), None, "{bad:?}");
        }
    }

    #[test]
    fn a_character_is_drawn_in_its_cell_in_whole_dots() {
        let description = pixels(1600, 800);
        let painter = Painter::new(&description).unwrap();
        assert_eq!(painter.grid().scale, 2);
        let font = Font::loaded();
        let mut frame = vec![0; painter.frame_len()];
        let change = Change {
            column: 3,
            row: 2,
            character: b'R',
        };
        painter.draw(&mut frame, &font, change);
        for y in 0..800 {
            for x in 0..1600 {
                let at = (y * 1600 + x) * 4;
                let (dot_x, dot_y) = (x / 2, y / 2);
                let in_cell = dot_x / font::WIDTH == 3 && dot_y / font::HEIGHT == 2;
                let row = font.glyph(b'R')[dot_y % font::HEIGHT];
                let on = in_cell && row & (0x80 >> (dot_x % font::WIDTH)) != 0;
                assert_eq!(frame[at] == FOREGROUND, on, "{x},{y}");
            }
        }
    }

    proptest! {
        /// Nothing is written outside of the frame buffer, nor between its lines.
        #[test]
        fn any_geometry_keeps_to_its_lines(
            (width, height, spare) in (0_u32..2000, 0_u32..900, 0_u32..70),
            bits in 0_u8..40,
            shifts in any::<[u8; 3]>(),
            sizes in proptest::array::uniform3(0_u8..12),
            changes in proptest::collection::vec(
                (0..MOST_COLUMNS + 2, 0..MOST_ROWS + 2, any::<u8>()), 0..40),
        ) {
            let line = width * u32::from(bits.div_ceil(8));
            let [red, green, blue] =
                [0, 1, 2].map(|i| channel(shifts[i] % bits.max(1), sizes[i]));
            let description = Pixels {
                address: 0, width, height, pitch: line + spare, bits, red, green, blue,
            };
            let Some(painter) = Painter::new(&description) else {
                return Ok(());
            };
            const GUARD: u8 = 0x77;
            let mut frame = vec![GUARD; painter.frame_len()];
            let font = Font::loaded();
            for (column, row, character) in changes {
                painter.draw(&mut frame, &font, Change { column, row, character });
            }
            for between in frame.chunks(description.pitch as usize) {
                let between = between.get(line as usize..).unwrap_or(&[]);
                prop_assert!(between.iter().all(|byte| *byte == GUARD));
            }
        }

        #[test]
        fn any_description_is_survived(
            address in any::<u64>(),
            (width, height, pitch) in any::<(u32, u32, u32)>(),
            bits in any::<u8>(),
            channels in any::<[(u8, u8); 3]>(),
        ) {
            let [red, green, blue] = channels.map(|(shift, bits)| channel(shift, bits));
            let description = Pixels { address, width, height, pitch, bits, red, green, blue };
            if let Some(painter) = Painter::new(&description) {
                prop_assert!(painter.frame_len() as u64 <= MOST_BYTES);
            }
        }
    }
}
