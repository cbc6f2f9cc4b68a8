//! The characters of a screen as they should be, and as they were last drawn. Video
//! memory is slow to read, so scrolling happens here, and only what differs is drawn.

/// Columns at the most; a wider screen gets larger characters.
pub const MOST_COLUMNS: usize = 200;
/// Rows at the most.
pub const MOST_ROWS: usize = 100;

/// A cell that nothing was written to. It is zero, so that a screen's worth of them
/// takes no room in the image's file.
const UNTOUCHED: u8 = 0;
const BLANK: u8 = b' ';
/// Stands for what the font does not have.
const UNKNOWN: u8 = b'?';
const TAB: usize = 8;

/// A screen full of characters; it has a size from [`reset`](Self::reset) on.
#[derive(Debug)]
pub struct Cells {
    columns: usize,
    rows: usize,
    /// Which of the rows of `wanted` is the topmost, as scrolling moves none.
    top: usize,
    /// Where the next character goes; `column` is `columns` after a full line.
    column: usize,
    row: usize,
    wanted: [[u8; MOST_COLUMNS]; MOST_ROWS],
    drawn: [[u8; MOST_COLUMNS]; MOST_ROWS],
    /// What comes before this row and column is drawn.
    next: (usize, usize),
}

/// A character to be drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    /// From the left, from 0.
    pub column: usize,
    /// From the top, from 0.
    pub row: usize,
    /// Printable ASCII.
    pub character: u8,
}

impl Cells {
    /// No cells.
    pub const fn empty() -> Self {
        Self {
            columns: 0,
            rows: 0,
            top: 0,
            column: 0,
            row: 0,
            wanted: [[UNTOUCHED; MOST_COLUMNS]; MOST_ROWS],
            drawn: [[UNTOUCHED; MOST_COLUMNS]; MOST_ROWS],
            next: (0, 0),
        }
    }

    /// A blank screen. What is more than [`MOST_COLUMNS`] and [`MOST_ROWS`] is left
    /// unused; there is at least one cell.
    pub fn reset(&mut self, columns: usize, rows: usize) {
        *self = Self::empty();
        self.columns = columns.clamp(1, MOST_COLUMNS);
        self.rows = rows.clamp(1, MOST_ROWS);
        self.next = (self.rows, 0);
    }

    /// Columns and rows.
    pub fn size(&self) -> (usize, usize) {
        (self.columns, self.rows)
    }

    /// Writes text where the last ended. Line feed, carriage return, tab and
    /// backspace mean what they do to a terminal.
    pub fn write(&mut self, text: &str) {
        for character in text.chars() {
            match character {
                '\n' => self.feed_line(),
                '\r' => self.column = 0,
                '\t' => {
                    self.column = (self.column / TAB + 1)
                        .saturating_mul(TAB)
                        .min(self.columns)
                }
                '\x08' => self.column = self.column.saturating_sub(1),
                ' '..='~' => self.put(character as u8),
                '\0'..='\x1f' | '\x7f' => {}
                _ => self.put(UNKNOWN),
            }
        }
    }

    fn put(&mut self, character: u8) {
        if self.column == self.columns {
            self.feed_line();
        }
        let row = self.place(self.row);
        self.wanted[row][self.column] = character;
        self.next = self.next.min((self.row, self.column));
        self.column += 1;
    }

    fn feed_line(&mut self) {
        self.column = 0;
        if self.row + 1 < self.rows {
            self.row += 1;
            return;
        }
        self.wanted[self.top] = [UNTOUCHED; MOST_COLUMNS];
        self.top = (self.top + 1) % self.rows;
        self.next = (0, 0);
    }

    /// Which row of `wanted` is number `row` from the top.
    fn place(&self, row: usize) -> usize {
        let place = self.top + row;
        if place < self.rows {
            place
        } else {
            place - self.rows
        }
    }

    /// Whether all is drawn.
    pub fn is_drawn(&self) -> bool {
        self.next.0 >= self.rows
    }

    /// The next character to be drawn, which counts as drawn from now on.
    pub fn next_change(&mut self) -> Option<Change> {
        while !self.is_drawn() {
            let (row, first) = self.next;
            let place = self.place(row);
            let wanted = &self.wanted[place][first..self.columns];
            let drawn = &mut self.drawn[row][first..self.columns];
            let differs = wanted.iter().zip(drawn.iter()).position(|(a, b)| a != b);
            let Some(index) = differs else {
                self.next = (row + 1, 0);
                continue;
            };
            drawn[index] = wanted[index];
            self.next = (row, first + index + 1);
            return Some(Change {
                column: first + index,
                row,
                character: wanted[index].max(BLANK),
            });
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::string::String;
    use std::vec::Vec;

    use proptest::prelude::*;

    use super::*;

    /// What is seen on a screen on which all changes are drawn.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Seen(Vec<Vec<u8>>);

    impl Seen {
        fn blank(cells: &Cells) -> Self {
            let (columns, rows) = cells.size();
            Self(std::vec![std::vec![BLANK; columns]; rows])
        }

        fn draw(&mut self, cells: &mut Cells) -> usize {
            std::iter::from_fn(|| cells.next_change())
                .map(|change| self.0[change.row][change.column] = change.character)
                .count()
        }

        fn lines(&self) -> Vec<String> {
            let text = |row: &Vec<u8>| String::from_utf8(row.clone()).unwrap();
            self.0
                .iter()
                .map(|row| text(row).trim_end().into())
                .collect()
        }
    }

    fn cells(columns: usize, rows: usize) -> Cells {
        let mut cells = Cells::empty();
        cells.reset(columns, rows);
        cells
    }

    fn shown(columns: usize, rows: usize, text: &str) -> Vec<String> {
        let mut cells = cells(columns, rows);
        cells.write(text);
        let mut seen = Seen::blank(&cells);
        seen.draw(&mut cells);
        seen.lines()
    }

    #[test]
    fn lines_wrap_and_scroll() {
        assert_eq!(shown(5, 3, "one\ntwo"), ["one", "two", ""]);
        assert_eq!(shown(5, 3, "1\n2\n3\n4\n5"), ["3", "4", "5"]);
        assert_eq!(shown(5, 3, "1\n2\n3\n"), ["2", "3", ""]);
        assert_eq!(shown(5, 3, "abcdefg"), ["abcde", "fg", ""]);
        // A line that is just full takes one row.
        assert_eq!(shown(5, 3, "abcde\nf"), ["abcde", "f", ""]);
    }

    #[test]
    fn control_characters_do_what_a_terminal_does() {
        assert_eq!(shown(20, 1, "ab\x08 \x08c"), ["ac"]);
        assert_eq!(shown(20, 1, "\x08\x08a"), ["a"]);
        assert_eq!(shown(20, 1, "abc\rx"), ["xbc"]);
        assert_eq!(shown(20, 1, "a\tb"), ["a       b"]);
        assert_eq!(shown(20, 1, "\x1b\x7f\0µs"), ["?s"]);
        assert_eq!(shown(5, 2, "\t\ta"), ["", "a"]);
    }

    #[test]
    fn only_what_differs_is_drawn() {
        let mut cells = cells(80, 25);
        let mut seen = Seen::blank(&cells);
        cells.write("hello\n");
        assert_eq!(seen.draw(&mut cells), 5);
        assert!(cells.is_drawn());
        cells.write("hello");
        assert_eq!(seen.draw(&mut cells), 5);
        cells.write(&"\n".repeat(23));
        assert_eq!(seen.draw(&mut cells), 0);
        // The two equal lines go up: one of them is still where the other was.
        cells.write("\n");
        assert_eq!(seen.draw(&mut cells), 5);
    }

    proptest! {
        /// However drawing is interrupted by writing, what is seen in the end is
        /// what is seen when all is drawn at once.
        #[test]
        fn any_text_is_drawn_alike_however_it_is_cut(
            (columns, rows) in (0..MOST_COLUMNS + 10, 0..MOST_ROWS + 10),
            parts in proptest::collection::vec(("([a-c \t\r\n\u{8}]|.){0,60}", 0_usize..40), 0..20),
        ) {
            let mut cells = cells(columns, rows);
            let mut seen = Seen::blank(&cells);
            let mut text = String::new();
            for (part, draws) in &parts {
                cells.write(part);
                text += part;
                for change in (0..*draws).map_while(|_| cells.next_change()) {
                    seen.0[change.row][change.column] = change.character;
                }
            }
            seen.draw(&mut cells);
            prop_assert_eq!(seen.lines(), shown(columns, rows, &text));
        }
    }
}
