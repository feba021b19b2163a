//! Axes: the mapping from values to positions, and the ticks.

use serde::Serialize;

/// An axis of a plot.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Axis {
    /// The label: the quantity along the axis.
    pub label: String,
    /// The mapping from values to positions.
    pub scale: Scale,
    /// The first and last value; `None` to fit the points.
    pub range: Option<(f64, f64)>,
}

/// A mapping from values to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scale {
    /// Equal distances are equal differences.
    Linear,
    /// Equal distances are equal ratios; values must be positive.
    Log,
}

impl Axis {
    /// A linear axis.
    pub fn linear(label: &str) -> Axis {
        Axis { label: label.to_string(), scale: Scale::Linear, range: None }
    }

    /// A logarithmic axis.
    pub fn log(label: &str) -> Axis {
        Axis { label: label.to_string(), scale: Scale::Log, range: None }
    }

    /// Sets the first and last value of the axis.
    pub fn from(mut self, first: f64, last: f64) -> Axis {
        self.range = Some((first, last));
        self
    }

    /// The axis fitted to these values.
    pub(super) fn fit(&self, values: impl Iterator<Item = f64>) -> Fitted {
        let drawable = |value: &f64| value.is_finite() && (self.scale == Scale::Linear || *value > 0.0);
        let (mut lo, mut hi) = self.range.unwrap_or_else(|| {
            let start = (f64::INFINITY, f64::NEG_INFINITY);
            values.filter(drawable).fold(start, |(lo, hi), value| (lo.min(value), hi.max(value)))
        });
        if !(lo.is_finite() && hi.is_finite()) {
            (lo, hi) = (1.0, 2.0);
        }
        match self.scale {
            Scale::Linear => linear(lo, hi, self.range.is_some()),
            Scale::Log => logarithmic(lo, hi, self.range.is_some()),
        }
    }
}

/// An axis with its ends and ticks.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Fitted {
    scale: Scale,
    lo: f64,
    hi: f64,
    /// The values with a number, and the number as text.
    pub(super) ticks: Vec<(f64, String)>,
    /// The values with only a mark.
    pub(super) minor: Vec<f64>,
}

impl Fitted {
    /// The position of a value on the axis: 0 at the start, 1 at the end.
    pub(super) fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => (value - self.lo) / (self.hi - self.lo),
            Scale::Log => libm::log(value / self.lo) / libm::log(self.hi / self.lo),
        }
    }
}

/// A linear axis with about five steps of 1, 2 or 5 times a power of ten. The ends are on ticks unless they are
/// given.
fn linear(mut lo: f64, mut hi: f64, given: bool) -> Fitted {
    if hi <= lo {
        let room = if lo == 0.0 { 1.0 } else { lo.abs() * 0.5 };
        (lo, hi) = (lo - room, hi + room);
    }
    let raw = (hi - lo) / 5.0;
    let power = libm::pow(10.0, libm::floor(libm::log10(raw)));
    let step = [1.0, 2.0, 5.0, 10.0].map(|step| step * power).into_iter().find(|&step| raw <= step * 1.2);
    let step = step.unwrap_or(10.0 * power);
    if !given {
        (lo, hi) = ((lo / step + 1e-9).floor() * step, (hi / step - 1e-9).ceil() * step);
    }
    let decimals = (-libm::floor(libm::log10(step) + 1e-9)).max(0.0) as usize;
    let (first, last) = ((lo / step - 1e-9).ceil() as i64, (hi / step + 1e-9).floor() as i64);
    let tick = |count: i64| (count as f64 * step, label(count as f64 * step, decimals));
    Fitted { scale: Scale::Linear, lo, hi, ticks: (first..=last).map(tick).collect(), minor: Vec::new() }
}

/// A logarithmic axis with ticks at powers of ten. If these are fewer than three, there are also ticks at 2 and 5
/// times the powers.
fn logarithmic(lo: f64, hi: f64, given: bool) -> Fitted {
    let (mut lo, mut hi) = (lo.max(f64::MIN_POSITIVE), hi.max(f64::MIN_POSITIVE));
    if hi <= lo {
        (lo, hi) = (lo / 2.0, hi * 2.0);
    }
    if !given {
        // A margin keeps marks away from the frame.
        let room = libm::pow(hi / lo, 0.04);
        (lo, hi) = (lo / room, hi * room);
    }
    let powers = libm::floor(libm::log10(lo) + 1e-9) as i32..=libm::ceil(libm::log10(hi)) as i32;
    let inside = |value: &f64| lo * (1.0 - 1e-9) <= *value && *value <= hi * (1.0 + 1e-9);
    let multiples = |of: &'static [f64]| -> Vec<f64> {
        let powers = powers.clone();
        let all = powers.flat_map(|power| of.iter().map(move |of| of * libm::pow(10.0, power.into())));
        all.filter(inside).collect()
    };
    let mut ticks = multiples(&[1.0]);
    if ticks.len() < 3 {
        ticks = multiples(&[1.0, 2.0, 5.0]);
    }
    // With many powers of ten, only some of the ticks have numbers.
    let every = ticks.len().div_ceil(9);
    let ticks = ticks.into_iter().step_by(every).map(|value| (value, power_label(value))).collect();
    let minor = if every == 1 { multiples(&[2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]) } else { Vec::new() };
    Fitted { scale: Scale::Log, lo, hi, ticks, minor }
}

/// Formats a number with a comma between thousands: 10,000.
fn label(value: f64, decimals: usize) -> String {
    let text = format!("{:.decimals$}", value.abs());
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut apart = String::new();
    for (place, digit) in whole.chars().enumerate() {
        // Four digits need no comma.
        if place > 0 && (whole.len() - place) % 3 == 0 && whole.len() > 4 {
            apart.push(',');
        }
        apart.push(digit);
    }
    let minus =
        if value < 0.0 && text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) { "\u{2212}" } else { "" };
    format!("{minus}{apart}{rest}")
}

/// Formats a number of a logarithmic axis: in full if it is short, else as a power of ten.
fn power_label(value: f64) -> String {
    let power = libm::floor(libm::log10(value) + 1e-9) as i32;
    match power {
        -3..=3 => label(value, (-power).max(0) as usize),
        _ => {
            let digit = |digit: char| match digit {
                '-' => '\u{207b}',
                '0' => '\u{2070}',
                '1' => '\u{b9}',
                '2' => '\u{b2}',
                '3' => '\u{b3}',
                digit => char::from_u32(0x2070 + digit as u32 - '0' as u32).unwrap_or(digit),
            };
            let exponent: String = power.to_string().chars().map(digit).collect();
            let front = (value / libm::pow(10.0, power.into()) + 0.5).floor();
            if front == 1.0 { format!("10{exponent}") } else { format!("{front}\u{b7}10{exponent}") }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(axis: &Axis, values: &[f64]) -> Vec<String> {
        axis.fit(values.iter().copied()).ticks.into_iter().map(|(_, label)| label).collect()
    }

    #[test]
    fn ticks_are_round_and_hold_all_values() {
        let axis = Axis::linear("");
        assert_eq!(labels(&axis, &[0.02, 0.97]), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(labels(&axis, &[1000.0, 6000.0]), ["1000", "2000", "3000", "4000", "5000", "6000"]);
        assert_eq!(labels(&axis, &[-1.0, 1.0]), ["\u{2212}1.0", "\u{2212}0.5", "0.0", "0.5", "1.0"]);
        assert_eq!(labels(&Axis::linear("").from(0.2, 0.5), &[]).first().unwrap(), "0.20");
        for (lo, hi) in [(0.0, 1.0), (13.2, 27.9), (0.998, 1.0), (-5.0, 1e7), (1e-9, 3e-9)] {
            let fitted = axis.fit([lo, hi].into_iter());
            assert!((3..=9).contains(&fitted.ticks.len()), "{lo} {hi}: {:?}", fitted.ticks);
            for value in [lo, hi] {
                assert!((-1e-9..=1.0 + 1e-9).contains(&fitted.place(value)), "{lo} {hi}");
            }
        }
    }

    #[test]
    fn logarithmic_ticks_are_powers_of_ten() {
        let axis = Axis::log("");
        assert_eq!(labels(&axis, &[1e3, 1e6]), ["1000", "10\u{2074}", "10\u{2075}", "10\u{2076}"]);
        assert_eq!(labels(&axis, &[1e-5, 1e-3]), ["10\u{207b}\u{2075}", "10\u{207b}\u{2074}", "0.001"]);
        assert_eq!(labels(&axis, &[6.0, 70.0]), ["10", "20", "50"]);
        let fitted = Axis::log("").from(1.0, 100.0).fit([].into_iter());
        assert!((fitted.place(10.0) - 0.5).abs() < 1e-12);
        assert!(axis.fit([1.0, 1e40].into_iter()).ticks.len() <= 9);
    }
}
