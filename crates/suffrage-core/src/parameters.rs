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

/// Prints what [`ids`] parses.
pub fn show_ids<'a>(ids: impl IntoIterator<Item = &'a NodeId>) -> String {
    ids.into_iter().map(NodeId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

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
