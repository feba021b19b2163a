//! Formatting of values as text.

use std::fmt::Display;
use std::str::FromStr;

use serde::Serialize;
use suffrage_core::{Command, Time};

/// Formats ids in increasing order, with ranges: `1-4, 7 and 9`.
pub use suffrage_core::compact_ids as ids;

/// A value as indented JSON.
pub fn json(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).expect("results are plain data") + "\n"
}

/// Parses a number of something, between two bounds.
pub fn number_within<T: FromStr + PartialOrd + Display>(
    text: &str,
    what: &str,
    least: T,
    most: T,
) -> Result<T, String> {
    match text.parse() {
        Ok(number) if least <= number && number <= most => Ok(number),
        _ => Err(format!("`{text}` is not a number of {what} from {least} to {most}")),
    }
}

/// A number with at most three decimals, without trailing zeros.
pub fn number(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_string()
}

/// A number with at most three decimals, or with a power of ten below 0.01.
pub fn small_number(value: f64) -> String {
    if value == 0.0 || value.abs() >= 0.01 { number(value) } else { format!("{value:.1e}") }
}

/// Rows of cells as columns, the first one left-aligned and the others right-aligned.
pub fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let mut line = String::new();
        for (place, (cell, width)) in row.iter().zip(&widths).enumerate() {
            line += &if place == 0 { format!("  {cell:<width$}") } else { format!("   {cell:>width$}") };
        }
        text += line.trim_end();
        text += "\n";
    }
    text
}

/// A command of an application, as the end of a sentence.
pub fn request(command: &str) -> String {
    match command.parse() {
        Ok(Command::Campaign) => "to call an election".to_string(),
        Ok(Command::Resign) => "to resign".to_string(),
        Ok(Command::Transfer(to)) => format!("to hand over to {to}"),
        Err(_) => format!("to do `{command}`"),
    }
}

/// A time in time units.
pub fn time(time: Time) -> String {
    number(time.as_units())
}

/// `1 process`, `2 processes`.
pub fn count(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// A text wrapped at spaces to this width, with all lines after the first indented.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is always a line");
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(word.to_string());
        } else {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines.join(&format!("\n{:indent$}", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_no_trailing_zeros() {
        assert_eq!(number(3.0), "3");
        assert_eq!(number(0.5), "0.5");
        assert_eq!(number(1.23456), "1.235");
        assert_eq!(number(100.0), "100");
    }

    #[test]
    fn small_numbers_keep_their_first_digits() {
        assert_eq!(small_number(0.0), "0");
        assert_eq!(small_number(0.25), "0.25");
        assert_eq!(small_number(0.000123), "1.2e-4");
    }

    #[test]
    fn cells_stand_in_columns() {
        let rows = [vec!["a".to_string(), "10".to_string()], vec!["long".to_string(), "9".to_string()]];
        assert_eq!(columns(&rows), "  a      10\n  long    9\n");
    }

    #[test]
    fn long_lines_are_cut_at_spaces() {
        assert_eq!(wrap("one two three", 7, 2), "one two\n  three");
    }
}
