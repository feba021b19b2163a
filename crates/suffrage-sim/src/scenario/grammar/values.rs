//! Values that flags of several sections take.

use std::cmp::Ordering;
use std::fmt::{self, Display};
use std::str::FromStr;

use suffrage_core::{Attribute, NodeId, Roster, Span, Time, compact_ids, parameters};

use super::FlagError;

/// A value at a moment: `80@12`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At<T> {
    /// The value: a process, or a process with details.
    pub value: T,
    /// The moment.
    pub at: Time,
}

/// A value that can stand before `@TIME`.
pub(super) trait Timed: FromStr<Err = String> + Display {
    /// An example of the syntax.
    const EXAMPLE: &'static str;
}

impl<T: Timed> FromStr for At<T> {
    type Err = String;

    fn from_str(text: &str) -> Result<At<T>, String> {
        let (what, at) = text
            .split_once('@')
            .ok_or_else(|| format!("`{text}` has no time; use the form {}@12", T::EXAMPLE))?;
        Ok(At { value: what.parse()?, at: at.parse()? })
    }
}

impl<T: Display> Display for At<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.value, self.at)
    }
}

impl Timed for NodeId {
    const EXAMPLE: &'static str = "80";
}

impl Timed for Span {
    const EXAMPLE: &'static str = "20";
}

/// The process that crashes or recovers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// The process of this id.
    Member(NodeId),
    /// Of a crash, the leader at that moment; of a recovery, the leader that the last such crash crashed.
    Leader,
}

impl Timed for Target {
    const EXAMPLE: &'static str = "80";
}

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Target, String> {
        match text {
            "leader" => Ok(Target::Leader),
            _ => text.parse().map(Target::Member),
        }
    }
}

impl Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Leader => f.write_str("leader"),
            Target::Member(id) => id.fmt(f),
        }
    }
}

/// A probability, as a value of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probability(pub f64);

impl Timed for Probability {
    const EXAMPLE: &'static str = "0.3";
}

impl FromStr for Probability {
    type Err = String;

    fn from_str(text: &str) -> Result<Probability, String> {
        probability(text).map(Probability)
    }
}

impl Display for Probability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Parses a number within these bounds; `what` is the plural of the counted noun.
pub fn number<T: FromStr + PartialOrd + Display>(
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

/// Parses a probability.
pub fn probability(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(probability) if (0.0..=1.0).contains(&probability) => Ok(probability),
        _ => Err(format!("`{text}` is not a probability from 0 to 1")),
    }
}

/// Parses the fraction by which clocks run fast or slow, with its unit.
pub fn drift(text: &str) -> Result<f64, String> {
    match parameters::drift(text)? {
        drift if drift <= 0.9 => Ok(drift),
        _ => Err(format!("`{text}` is too great a drift; the greatest is 90%")),
    }
}

/// Parses a seed.
pub fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number from 0 to {}", u64::MAX))
}

/// Parses the id of a member. An id can also be an attribute.
pub fn member(text: &str) -> Result<NodeId, String> {
    match text.parse::<NodeId>()? {
        id if Attribute::try_from(id.0).is_ok() => Ok(id),
        id => Err(format!("{id} is too large an id; the largest is {}", Attribute::MAX)),
    }
}

/// Parses the beginning and the end of what `text` describes.
pub(super) fn times(text: &str, from: &str, to: &str) -> Result<(Time, Time), String> {
    let (from, to): (Time, Time) = (from.parse()?, to.parse()?);
    match from.cmp(&to) {
        Ordering::Less => Ok((from, to)),
        Ordering::Equal => Err(format!("`{text}` ends when it begins; the end must be later")),
        Ordering::Greater => Err(format!("`{text}` ends before it begins; swap the two times")),
    }
}

/// Parses one more value of a list.
pub(super) fn add<T: FromStr<Err = String>>(values: &mut Vec<T>, text: &str) -> Result<(), String> {
    values.push(text.parse()?);
    Ok(())
}

/// Sets a target to a value if it could be parsed.
pub(super) fn set<T, U: Into<T>>(target: &mut T, value: Result<U, String>) -> Result<(), String> {
    *target = value?.into();
    Ok(())
}

/// Prints values.
pub(super) fn show<'a, T: Display + 'a>(values: impl IntoIterator<Item = &'a T>) -> Vec<String> {
    values.into_iter().map(T::to_string).collect()
}

/// The slot of a member.
pub(super) fn slot(flag: &str, roster: &Roster, id: NodeId) -> Result<usize, FlagError> {
    let unknown = || format!("there is no process {id}; the group is {}", compact_ids(roster.iter()));
    roster.slot(id).ok_or_else(|| FlagError::new(flag, unknown()))
}

/// The slots of members; refuses a member that is named twice.
pub(super) fn slots(flag: &str, roster: &Roster, ids: &[NodeId]) -> Result<Vec<usize>, FlagError> {
    let slots: Vec<usize> = ids.iter().map(|&id| slot(flag, roster, id)).collect::<Result<_, _>>()?;
    let mut sorted = slots.clone();
    sorted.sort_unstable();
    match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(named_twice(flag, roster.id(pair[0]))),
        None => Ok(slots),
    }
}

pub(super) fn named_twice(flag: &str, id: NodeId) -> FlagError {
    FlagError::new(flag, format!("process {id} is named twice; name it once"))
}
