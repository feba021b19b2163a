//! Points in time and durations, in whole nanoseconds of one process's own clock.

use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// Nanoseconds in a simulated time unit, the "message transmission time" of the sources.
/// A unit is a millisecond, so that simulated and real figures read alike.
const UNIT: u64 = 1_000_000;

/// The units of wall-clock durations, from the shortest, in nanoseconds.
const DURATION_UNITS: [(&str, u64); 6] = [
    ("ns", 1),
    ("us", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A point in time on one process's own clock. The times of two processes are not comparable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Time(u64);

/// A duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The start of the clock.
    pub const ZERO: Time = Time(0);
    /// The latest time: an event at this time never happens.
    pub const MAX: Time = Time(u64::MAX);

    /// The time `nanos` nanoseconds after the clock's start.
    pub const fn from_nanos(nanos: u64) -> Time {
        Time(nanos)
    }

    /// Nanoseconds since the clock's start.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Simulated time units since the clock's start.
    pub fn as_units(self) -> f64 {
        self.0 as f64 / UNIT as f64
    }

    /// The duration since `earlier`; zero if `earlier` is in the future.
    pub const fn since(self, earlier: Time) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// The empty duration.
    pub const ZERO: Span = Span(0);
    /// One simulated time unit: 1 ms.
    pub const UNIT: Span = Span(UNIT);

    /// A duration of `nanos` nanoseconds.
    pub const fn from_nanos(nanos: u64) -> Span {
        Span(nanos)
    }

    /// A duration of whole milliseconds, which are simulated time units.
    pub const fn from_millis(millis: u64) -> Span {
        Span(millis * UNIT)
    }

    /// A duration of simulated time units, rounded to 1 ns. Negative numbers and NaN become zero.
    pub fn from_units(units: f64) -> Span {
        Span((units * UNIT as f64 + 0.5) as u64)
    }

    /// The duration in nanoseconds.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// The duration in simulated time units.
    pub fn as_units(self) -> f64 {
        self.0 as f64 / UNIT as f64
    }

    /// The duration times a real factor, rounded to 1 ns.
    pub fn scale(self, factor: f64) -> Span {
        Span((self.0 as f64 * factor + 0.5) as u64)
    }

    /// Parses a duration with a unit: `3s`, `500ms`, `1m`, `1.5h`, `20us` or `7ns`.
    pub fn parse_duration(text: &str) -> Result<Span, String> {
        let digits = text.find(|letter: char| letter.is_ascii_alphabetic()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let nanos = DURATION_UNITS.iter().find(|(name, _)| *name == unit).map(|&(_, nanos)| nanos as f64);
        match (number.parse::<f64>(), nanos) {
            // 10^18 ns are 30 years: a longer duration is a typing error.
            (Ok(count), Some(nanos)) if (0.0..=1e18).contains(&(count * nanos)) => {
                Ok(Span((count * nanos + 0.5) as u64))
            }
            _ => Err(format!("`{text}` is not a time like 3s, 500ms or 1m")),
        }
    }

    /// Formats the duration with a unit and at most three decimals: `3s`, `7.5ms`.
    pub fn format_duration(self) -> String {
        let fits = |&&(name, nanos): &&(&str, u64)| match name {
            "h" | "m" => self.0 > 0 && self.0.is_multiple_of(nanos),
            _ => self.0 >= nanos,
        };
        let &(name, nanos) = DURATION_UNITS.iter().rev().find(fits).unwrap_or(&("s", 1_000_000_000));
        let text = format!("{:.3}", self.0 as f64 / nanos as f64);
        format!("{}{name}", text.trim_end_matches('0').trim_end_matches('.'))
    }

    /// Returns whether the duration is zero.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, span: Span) -> Time {
        Time(self.0.saturating_add(span.0))
    }
}

impl Add for Span {
    type Output = Span;
    fn add(self, other: Span) -> Span {
        Span(self.0.saturating_add(other.0))
    }
}

impl AddAssign for Span {
    fn add_assign(&mut self, other: Span) {
        *self = *self + other;
    }
}

impl Sub for Span {
    type Output = Span;
    fn sub(self, other: Span) -> Span {
        Span(self.0.saturating_sub(other.0))
    }
}

impl Mul<u64> for Span {
    type Output = Span;
    fn mul(self, factor: u64) -> Span {
        Span(self.0.saturating_mul(factor))
    }
}

impl Sum for Span {
    fn sum<I: Iterator<Item = Span>>(spans: I) -> Span {
        spans.fold(Span::ZERO, Add::add)
    }
}

/// Writes units with no more decimals than needed: `3`, `0.5`, `12.000001`.
fn write_units(nanos: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let text = match nanos % UNIT {
        0 => (nanos / UNIT).to_string(),
        rest => format!("{}.{rest:06}", nanos / UNIT).trim_end_matches('0').to_string(),
    };
    f.pad(&text)
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_units(self.0, f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_units(self.0, f)
    }
}

fn parse_units(text: &str) -> Result<u64, String> {
    // 10^9 units are eleven days of simulated milliseconds: a longer time is a typing error.
    match text.parse::<f64>() {
        Ok(units) if (0.0..=1e9).contains(&units) => Ok(Span::from_units(units).0),
        _ => Err(format!("`{text}` is not a time (a number of time units from 0 to 10^9, like 12 or 0.5)")),
    }
}

impl FromStr for Time {
    type Err = String;
    fn from_str(text: &str) -> Result<Time, String> {
        parse_units(text).map(Time)
    }
}

impl FromStr for Span {
    type Err = String;
    fn from_str(text: &str) -> Result<Span, String> {
        parse_units(text).map(Span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn simulated_times_parse_as_they_print() {
        for text in ["0", "3", "0.5", "12.000001"] {
            assert_eq!(text.parse::<Time>().unwrap().to_string(), text);
        }
        assert_eq!(Span::from_millis(2), "2".parse().unwrap());
    }

    #[test]
    fn durations_parse_as_they_print() {
        for text in ["0s", "3s", "500ms", "1m", "90s", "2h", "2.941s", "7.5ms", "20us", "7ns"] {
            assert_eq!(Span::parse_duration(text).unwrap().format_duration(), text);
        }
        assert_eq!(Span::parse_duration("1.5h"), Ok(Span::from_millis(5_400_000)));
        for text in ["", "3", "s", "-1s", "3 s", "3sec", "nans", "infs", "1e300s", "1s500ms"] {
            assert!(Span::parse_duration(text).unwrap_err().contains(text), "{text}");
        }
    }

    #[test]
    fn malformed_times_are_rejected() {
        for text in ["", "-1", "nan", "inf", "1e300", "12s"] {
            assert!(text.parse::<Span>().unwrap_err().contains(text), "{text}");
        }
    }
}
