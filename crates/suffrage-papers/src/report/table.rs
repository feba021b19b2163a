//! Tables of a report, and the format of numbers in them.

use serde::Serialize;
use suffrage_sim::Estimate;

use crate::plot::csv_cell;

/// A table of text. The first column names the rows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Table {
    /// The file name, without its extension.
    pub name: String,
    /// The title.
    pub title: String,
    /// The column headings.
    pub head: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table without rows.
    pub fn new(name: &str, title: &str, head: &[&str]) -> Table {
        let head = head.iter().map(ToString::to_string).collect();
        Table { name: name.to_string(), title: title.to_string(), head, rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row<T: Into<String>>(mut self, cells: impl IntoIterator<Item = T>) -> Table {
        self.push(cells);
        self
    }

    /// Adds a row.
    pub fn push<T: Into<String>>(&mut self, cells: impl IntoIterator<Item = T>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// The table as comma-separated values.
    pub fn csv(&self) -> String {
        let line = |cells: &Vec<String>| {
            let cells: Vec<String> = cells.iter().map(|cell| csv_cell(cell)).collect();
            cells.join(",") + "\n"
        };
        std::iter::once(&self.head).chain(&self.rows).map(line).collect()
    }
}

/// Formats a number with about four significant digits.
pub fn number(value: f64) -> String {
    let size = value.abs();
    if size != 0.0 && !(1e-4..1e7).contains(&size) {
        return format!("{value:.2e}");
    }
    let decimals = match size {
        size if size >= 1000.0 => 0,
        size if size >= 100.0 => 1,
        size if size >= 10.0 => 2,
        size if size > 1.0 => 3,
        size if size >= 0.01 || size == 0.0 => 4,
        _ => 6,
    };
    let text = format!("{value:.decimals$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_string() } else { text }
}

/// Formats a measured value with its interval: `0.9412 (0.9331 to 0.9484)`, or `0.9412 (±?)` if the interval is
/// unknown.
pub fn interval(estimate: Estimate) -> String {
    format!("{} ({})", number(estimate.mean), estimate.interval(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_about_four_significant_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.94123, "0.9412"),
            (2.0908, "2.091"),
            (12.3456, "12.35"),
            (123.456, "123.5"),
            (1234.56, "1235"),
            (100.0, "100"),
            (0.000_012, "1.20e-5"),
            (0.001_234_5, "0.001234"),
            (1.5e9, "1.50e9"),
        ] {
            assert_eq!(number(value), text);
        }
    }

    #[test]
    fn intervals_are_formatted_with_both_ends() {
        let estimate = Estimate { mean: 0.5, lo: 0.25, hi: 0.75 };
        assert_eq!(interval(estimate), "0.5 (0.25 to 0.75)");
        assert_eq!(interval(suffrage_sim::mean(&[0.5])), "0.5 (±?)");
    }
}
