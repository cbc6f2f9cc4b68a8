//! What a guest's screen shows, read as text.

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use uniperf_kernel::console::screen::font::{self, Font};
use uniperf_kernel::console::screen::pixels::Grid;

use crate::folder::Folder;
use crate::qmp::Qmp;

/// VGA's text memory, in the mode that a BIOS leaves behind.
const TEXT_MEMORY: u64 = 0xb_8000;
const TEXT_COLUMNS: usize = 80;
const TEXT_ROWS: usize = 25;
/// A character and its attribute.
const TEXT_CELL: usize = 2;

/// Stands for a shape that the font does not have.
const UNKNOWN: char = char::REPLACEMENT_CHARACTER;
/// A pixel that is brighter belongs to a character.
const DARK: u8 = 0x40;

/// How a screen's text is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScreenKind {
    /// In VGA's text memory.
    Text,
    /// In a frame buffer, by the shapes of the appliance's own font.
    Pixels,
}

/// The lines that the screen shows, each without the blanks at its end.
pub(crate) fn read(qmp: &mut Qmp, kind: ScreenKind) -> Result<Vec<String>> {
    let folder = Folder::new()?;
    let file = folder.path().join("screen");
    match kind {
        ScreenKind::Text => {
            let size = TEXT_COLUMNS * TEXT_ROWS * TEXT_CELL;
            let what = json!({ "val": TEXT_MEMORY, "size": size, "filename": file });
            qmp.command("pmemsave", what)?;
            Ok(text_lines(&std::fs::read(&file)?))
        }
        ScreenKind::Pixels => {
            qmp.command("screendump", json!({ "filename": file }))?;
            Picture::from_ppm(&std::fs::read(&file)?)?.lines()
        }
    }
}

fn text_lines(memory: &[u8]) -> Vec<String> {
    memory
        .chunks(TEXT_COLUMNS * TEXT_CELL)
        .map(|row| {
            row.iter().step_by(TEXT_CELL).map(|byte| match byte {
                b' '..=b'~' => char::from(*byte),
                0 => ' ',
                _ => UNKNOWN,
            })
        })
        .map(|row| row.collect::<String>().trim_end().to_owned())
        .collect()
}

/// A screen's pixels, each as its brightest colour.
struct Picture {
    width: usize,
    height: usize,
    levels: Vec<u8>,
}

impl Picture {
    /// From QEMU's picture: a PPM file with 8 bits a colour.
    fn from_ppm(file: &[u8]) -> Result<Self> {
        let mut rest = file;
        let mut word = || -> Result<&str> {
            let end = rest.iter().position(u8::is_ascii_whitespace);
            let end = end.context("the picture ends within its header")?;
            let word = std::str::from_utf8(&rest[..end])?;
            rest = &rest[end + 1..];
            Ok(word)
        };
        ensure!(word()? == "P6", "the picture is no PPM file");
        let (width, height): (usize, usize) = (word()?.parse()?, word()?.parse()?);
        if word()? != "255" {
            bail!("the picture has not 8 bits a colour");
        }
        let levels: Vec<u8> = rest
            .chunks_exact(3)
            .map(|pixel| pixel.iter().copied().max().unwrap_or(0))
            .collect();
        ensure!(
            Some(levels.len()) == width.checked_mul(height),
            "the picture has {} pixels, not {width} by {height}",
            levels.len()
        );
        Ok(Self {
            width,
            height,
            levels,
        })
    }

    fn lines(&self) -> Result<Vec<String>> {
        let grid = Grid::of(self.width, self.height).context("the screen is too small")?;
        let font = Font::loaded();
        let line = |row| -> String {
            (0..grid.columns)
                .map(|column| self.character(&font, &grid, column, row))
                .collect()
        };
        Ok((0..grid.rows)
            .map(|row| line(row).trim_end().to_owned())
            .collect())
    }

    fn character(&self, font: &Font, grid: &Grid, column: usize, row: usize) -> char {
        let is_on = |x: usize, y: usize| {
            let x = (column * font::WIDTH + x) * grid.scale;
            let y = (row * font::HEIGHT + y) * grid.scale;
            self.levels[y * self.width + x] > DARK
        };
        let glyph = std::array::from_fn(|y| {
            (0..font::WIDTH).fold(0, |bits, x| bits << 1 | u8::from(is_on(x, y)))
        });
        font.recognize(&glyph).map_or(UNKNOWN, char::from)
    }
}

#[cfg(test)]
mod tests {
    use uniperf_kernel::console::screen::pixels::Painter;
    use uniperf_kernel::console::screen::{Screen, Shadow, Surface};
    use uniperf_kernel::handover::{Channel, Pixels};

    use super::*;

    /// What QEMU would make of a frame buffer with `text` on it.
    fn ppm(width: u32, height: u32, text: &str) -> Vec<u8> {
        let channel = |shift| Channel { shift, bits: 8 };
        let pixels = Pixels {
            address: 0,
            width,
            height,
            pitch: width * 4,
            bits: 32,
            red: channel(16),
            green: channel(8),
            blue: channel(0),
        };
        let painter = Painter::new(&pixels).unwrap();
        let mut frame = vec![0; painter.frame_len()];
        let mut shadow = Shadow::empty();
        let surface = Surface::Pixels {
            painter,
            frame: &mut frame,
        };
        let mut screen = Screen::new(surface, &mut shadow);
        screen.write(text);
        screen.draw_all();
        let colours = frame.chunks(4).flat_map(|pixel| pixel[..3].to_vec());
        let header = format!("P6\n{width} {height}\n255\n");
        header.into_bytes().into_iter().chain(colours).collect()
    }

    #[test]
    fn text_is_read_from_pixels_at_any_scale() {
        let text = "uniperf: ready 10.77.0.2 146\n\n  all of |x|, {y} & ~z~\n";
        for (width, height) in [(640, 480), (1280, 800), (1920, 1080), (3840, 2160)] {
            let picture = Picture::from_ppm(&ppm(width, height, text)).unwrap();
            let lines = picture.lines().unwrap();
            assert_eq!(lines.join("\n").trim_end(), text.trim_end());
        }
    }

    #[test]
    fn a_shape_that_is_no_character_is_said_to_be_unknown() {
        let mut file = ppm(640, 480, "a");
        let first_pixel = file.len() - 640 * 480 * 3;
        file[first_pixel] = 0xff;
        let lines = Picture::from_ppm(&file).unwrap().lines().unwrap();
        assert_eq!(lines[0], UNKNOWN.to_string());
    }

    #[test]
    fn pictures_that_are_none_are_refused() {
        for file in [
            &b""[..],
            b"P5\n1 1\n255\nx",
            b"P6\n1 1\n65535\nxxxxxx",
            b"P6\n1 x\n255\nxxx",
            b"P6\n2 1\n255\nxxx",
            b"P6\n1 1",
        ] {
            assert!(Picture::from_ppm(file).is_err(), "{file:?}");
        }
        let tiny = Picture::from_ppm(b"P6\n1 1\n255\nxxx").unwrap();
        assert!(tiny.lines().is_err());
    }

    #[test]
    fn text_memory_is_read_without_its_attributes() {
        let mut memory = vec![0; TEXT_COLUMNS * TEXT_ROWS * TEXT_CELL];
        memory[..6].copy_from_slice(b"a\x07 \x07\xdb\x07");
        let lines = text_lines(&memory);
        assert_eq!((lines.len(), lines[0].as_str()), (25, "a \u{fffd}"));
        assert_eq!(lines[1], "");
    }
}
