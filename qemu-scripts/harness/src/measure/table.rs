//! Tables for people: columns that line up, numbers that can be read.

use std::fmt;

use super::statistics::Summary;

/// Rows of cells below a heading.
#[derive(Clone, Debug, Default)]
pub struct Table {
    heading: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns: the first is set to the left, and so are those
    /// whose heading begins with `<`; the others to the right.
    pub fn new<'a>(heading: impl IntoIterator<Item = &'a str>) -> Self {
        Self {
            heading: heading.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// Whether it has no rows.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let left = |column: usize| column == 0 || self.heading[column].starts_with('<');
        let heading: Vec<_> = self
            .heading
            .iter()
            .map(|text| text.trim_start_matches('<').to_owned())
            .collect();
        // A column that nobody has anything in is left out.
        let cell = |row: &[String], column: usize| row.get(column).cloned().unwrap_or_default();
        let columns: Vec<(usize, usize)> = (0..heading.len())
            .filter_map(|column| {
                let widths = self.rows.iter().map(|row| width(&cell(row, column)));
                let widest = widths.max().filter(|widest| *widest > 0)?;
                Some((column, widest.max(width(&heading[column]))))
            })
            .collect();
        for row in std::iter::once(&heading).chain(&self.rows) {
            let mut line = String::new();
            for (column, wide) in &columns {
                let text = cell(row, *column);
                let padding = " ".repeat(wide - width(&text));
                let gap = if line.is_empty() { "" } else { "  " };
                line += &match left(*column) {
                    true => format!("{gap}{text}{padding}"),
                    false => format!("{gap}{padding}{text}"),
                };
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// A number with three significant digits or all before the point, and commas
/// between thousands.
pub fn number(value: f64) -> String {
    let decimals = match value.abs() {
        size if size >= 99.95 => 0,
        size if size >= 9.995 => 1,
        _ => 2,
    };
    let text = format!("{value:.decimals$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let digits = whole.trim_start_matches('-');
    let mut grouped: String = whole[..whole.len() - digits.len()].into();
    for (index, digit) in digits.char_indices() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped + rest
}

/// A median and its spread, `5,340 ±3%`; a dash where there is none.
pub fn with_spread(summary: Option<&Summary>) -> String {
    let Some(summary) = summary else {
        return "-".into();
    };
    match summary.spread() {
        Some(spread) => format!("{} ±{spread:.0}%", number(summary.median)),
        None => number(summary.median),
    }
}

/// A median, or a dash.
pub fn alone(summary: Option<&Summary>) -> String {
    summary.map_or("-".into(), |summary| number(summary.median))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_empty_ones_are_left_out() {
        let mut table = Table::new(["test", "rate", "nothing", "<goal"]);
        table.push(["TCP_RR", "5,340 ±3%", "", "met"].map(String::from).into());
        table.push(["UDP_STREAM", "743", ""].map(String::from).into());
        assert_eq!(
            table.to_string(),
            "test             rate  goal\n\
             TCP_RR      5,340 ±3%  met\n\
             UDP_STREAM        743\n"
        );
        assert!(!table.is_empty());
    }

    #[test]
    fn numbers_are_short_and_grouped() {
        let all = [
            0.0, 0.324, 9.994, 9.996, 42.04, 99.96, 743.4, 5340.2, 1234567.0,
        ];
        let texts = all.map(number).join(" ");
        assert_eq!(texts, "0.00 0.32 9.99 10.0 42.0 100 743 5,340 1,234,567");
        assert_eq!(number(-1234.0), "-1,234");
    }

    #[test]
    fn a_single_sample_has_no_spread() {
        let summary = |samples: &[f64]| Summary::of(samples.iter().copied());
        assert_eq!(with_spread(summary(&[95.0, 105.0]).as_ref()), "100 ±5%");
        assert_eq!(with_spread(summary(&[95.0]).as_ref()), "95.0");
        assert_eq!(with_spread(None), "-");
        assert_eq!(alone(summary(&[95.0, 105.0]).as_ref()), "100");
    }
}
