//! Parsers and printers for the values of [`Parameter`](crate::Parameter)s.

use crate::{BadParameter, NodeId, Roster};

/// Parses a number of message delays, at least one.
pub fn delays(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(delays @ 1..=1_000_000) => Ok(delays),
        _ => Err(format!("`{text}` is not a number of message delays (1 to 1000000)")),
    }
}

/// Parses a number of message delays, or `off`.
pub fn optional_delays(text: &str) -> Result<Option<u64>, String> {
    if text == "off" { Ok(None) } else { delays(text).map(Some).map_err(|error| error + " nor `off`") }
}

/// Prints what [`optional_delays`] parses.
pub fn show_optional(delays: Option<u64>) -> String {
    delays.map_or("off".to_string(), |delays| delays.to_string())
}

/// A [`Parameter`](crate::Parameter) that is a number of message delays in a field of the options.
#[macro_export]
macro_rules! delays_parameter {
    ($name:literal, $field:ident, $help:literal) => {
        $crate::Parameter {
            name: $name,
            value: "DELAYS",
            help: concat!($help, ", in message delays"),
            set: |options, text| $crate::parameters::delays(text).map(|it| options.$field = it),
            show: |options| options.$field.to_string(),
        }
    };
}
pub use delays_parameter;

/// The [`Parameter`](crate::Parameter) `reaffirm`, in a field of the options.
#[macro_export]
macro_rules! reaffirm_parameter {
    () => {
        $crate::Parameter {
            name: "reaffirm",
            value: "DELAYS|off",
            help: "How often the leader repeats its announcement, in message delays: \
                   for networks that lose messages",
            set: |options, text| $crate::parameters::optional_delays(text).map(|it| options.reaffirm = it),
            show: |options| $crate::parameters::show_optional(options.reaffirm),
        }
    };
}
pub use reaffirm_parameter;

/// Parses `on` or `off`.
pub fn switch(text: &str) -> Result<bool, String> {
    match text {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(format!("`{text}` is neither `on` nor `off`")),
    }
}

/// A [`Parameter`](crate::Parameter) that is a switch, `on` or `off`, in a field of the options.
#[macro_export]
macro_rules! switch_parameter {
    ($name:literal, $field:ident, $help:literal) => {
        $crate::Parameter {
            name: $name,
            value: $crate::SWITCH,
            help: $help,
            set: |options, text| $crate::parameters::switch(text).map(|it| options.$field = it),
            show: |options| if options.$field { "on".to_string() } else { "off".to_string() },
        }
    };
}
pub use switch_parameter;

/// Parses ids separated by commas, each at most once.
pub fn ids(text: &str) -> Result<Vec<NodeId>, String> {
    let ids: Vec<NodeId> = text.split(',').map(str::parse).collect::<Result<_, _>>()?;
    match ids.iter().enumerate().find(|(place, id)| ids[..*place].contains(id)) {
        Some((_, id)) => Err(format!("{id} is listed twice")),
        None => Ok(ids),
    }
}

/// Rejects a list of ids that contains a non-member.
pub fn check_members<'a>(
    name: &'static str,
    mut ids: impl Iterator<Item = &'a NodeId>,
    roster: &Roster,
) -> Result<(), BadParameter> {
    match ids.find(|&&id| roster.slot(id).is_none()) {
        Some(id) => Err(BadParameter { name, reason: format!("{id} is not a member of the group") }),
        None => Ok(()),
    }
}

/// Parses a whole number, possibly zero.
pub fn count(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number"))
}

/// Parses a clock drift with its unit, like `1%` or `100ppm`: a fraction, which is not negative. The unit is required,
/// because `0.01` without one may be 1% or 0.01%.
pub fn drift(text: &str) -> Result<f64, String> {
    scaled_drift(text, 0)
}

/// Parses what [`drift`] parses, as a number of millionths.
pub fn drift_millionths(text: &str) -> Result<f64, String> {
    scaled_drift(text, 6)
}

/// The drift times ten to the power of `exponent`. The decimal exponent is part of the text that is parsed, so that the
/// result is the floating-point number that is nearest to the decimal one.
fn scaled_drift(text: &str, exponent: i32) -> Result<f64, String> {
    let units = [("%", -2), ("ppm", -6)];
    let with_unit = units.iter().find_map(|(unit, power)| Some((text.strip_suffix(unit)?.trim_end(), power)));
    let (number, power) = with_unit.unwrap_or((text, &0));
    let digits = !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let parsed = format!("{number}e{}", power + exponent).parse::<f64>().ok().filter(|_| digits);
    let parsed = parsed.ok_or_else(|| format!("`{text}` is not a drift like 1% or 100ppm"))?;
    match with_unit {
        Some(_) => Ok(parsed),
        None if parsed == 0.0 => Err(format!("`{text}` has no unit: write 0%")),
        None => {
            let fraction = show_drift(number.parse().map_err(|_| format!("`{text}` is not a drift"))?);
            Err(format!("`{text}` has no unit: write {fraction} for the fraction {text}, or {text}%"))
        }
    }
}

/// Prints what [`drift`] parses, in per cent: parsed again, it is the same number.
pub fn show_drift(fraction: f64) -> String {
    let text = format!("{fraction:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = mantissa.replace('.', "");
    // The number of digits before the decimal point: one in the mantissa, and two for the per cent.
    let whole = exponent.parse::<i32>().unwrap_or_default() + 3;
    match usize::try_from(whole) {
        _ if fraction == 0.0 => "0%".to_string(),
        Ok(whole) if whole >= digits.len() => format!("{digits:0<whole$}%"),
        Ok(whole) if whole > 0 => format!("{}.{}%", &digits[..whole], &digits[whole..]),
        _ => format!("0.{}{digits}%", "0".repeat(whole.unsigned_abs() as usize)),
    }
}

/// Prints what [`ids`] parses.
pub fn show_ids<'a>(ids: impl IntoIterator<Item = &'a NodeId>) -> String {
    ids.into_iter().map(NodeId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_has_a_unit() {
        for (text, fraction, millionths) in [
            ("1%", 0.01, 10_000.0),
            ("100ppm", 0.0001, 100.0),
            ("100 ppm", 0.0001, 100.0),
            ("0%", 0.0, 0.0),
            ("7%", 0.07, 70_000.0),
            ("0.00001%", 0.000_000_1, 0.1),
            ("250%", 2.5, 2_500_000.0),
        ] {
            assert_eq!((drift(text), drift_millionths(text)), (Ok(fraction), Ok(millionths)), "{text}");
        }
        let error = |text| drift(text).unwrap_err();
        assert_eq!(error("0.01"), "`0.01` has no unit: write 1% for the fraction 0.01, or 0.01%");
        assert_eq!(error("1"), "`1` has no unit: write 100% for the fraction 1, or 1%");
        assert_eq!(error("0"), "`0` has no unit: write 0%");
        for text in
            ["", "%", "ppm", "-1%", "+1%", "x%", "nan%", "inf%", "1e1%", "1.2.3%", "1%%", "1 % ppm", ".%"]
        {
            assert_eq!(error(text), format!("`{text}` is not a drift like 1% or 100ppm"));
        }
    }

    #[test]
    fn a_printed_drift_is_the_same_drift() {
        for (fraction, text) in [
            (0.01, "1%"),
            (0.07, "7%"),
            (0.2, "20%"),
            (0.0001, "0.01%"),
            (0.005, "0.5%"),
            (0.123_456_789, "12.3456789%"),
            (1.0, "100%"),
            (25.0, "2500%"),
            (0.0, "0%"),
            (1e-7, "0.00001%"),
        ] {
            assert_eq!(show_drift(fraction), text);
        }
        for thousandth in 0..2_000 {
            for fraction in
                [f64::from(thousandth) / 1_000.0, f64::from(thousandth) / 7.0, f64::from(thousandth) * 1e-9]
            {
                assert_eq!(drift(&show_drift(fraction)), Ok(fraction), "{fraction}");
            }
        }
    }

    #[test]
    fn values_parse_and_errors_name_the_bad_value() {
        assert_eq!(delays("3"), Ok(3));
        assert_eq!(optional_delays("off"), Ok(None));
        assert_eq!(count("0"), Ok(0));
        assert_eq!((switch("on"), switch("off")), (Ok(true), Ok(false)));
        assert_eq!(ids("5,4"), Ok(vec![NodeId(5), NodeId(4)]));
        for (error, word) in [
            (delays("0").unwrap_err(), "`0`"),
            (optional_delays("on").unwrap_err(), "`off`"),
            (count("-1").unwrap_err(), "`-1`"),
            (switch("yes").unwrap_err(), "`yes`"),
            (ids("5,x").unwrap_err(), "`x`"),
            (ids("5,5").unwrap_err(), "5 is listed twice"),
        ] {
            assert!(error.contains(word), "{error}");
        }
    }
}
