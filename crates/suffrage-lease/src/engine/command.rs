//! Commands of an application to a node, as data: torture and model checker draw them, scenarios and traces contain
//! them.
//!
//! ```text
//!   join                            join with the engine's default configuration
//!   join ttl 20 rank 3 failback 50 margin 5 standing
//!   leave, stand, stand once, campaign, withdraw, resign
//!   transfer 3, release, release 3, move, move 3, health off, rank 7, value 5, pin, unpin
//!   voters adopt, voters adopt without 3, voters add 4, voters remove 3, voters stop
//! ```
//!
//! A command that ends with ` in NAME` is for one election. Without it the command is for every election that the node
//! has joined.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Deref;
use std::str::{FromStr, SplitWhitespace};

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use smol_str::SmolStr;
use suffrage_core::{Attribute, NodeId, Span};

use super::config::{CandidateConfig, InvalidConfig};
use crate::membership::Change;
use crate::message::Name;

/// The name of an election: 1 to 255 bytes. A name of up to 23 bytes needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionName(SmolStr);

impl ElectionName {
    /// The name, unless it is empty or too long.
    pub fn new(text: &str) -> Result<ElectionName, InvalidConfig> {
        if text.is_empty() || text.len() > 255 {
            return Err(InvalidConfig::NameLength(text.len()));
        }
        Ok(ElectionName(text.into()))
    }

    /// The hash that stands for the name in messages.
    pub fn hash(&self) -> Name {
        Name::of(&self.0)
    }
}

impl Serialize for ElectionName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

/// Refuses a name of another length, which a malformed message may contain.
impl<'de> Deserialize<'de> for ElectionName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ElectionName, D::Error> {
        ElectionName::new(&String::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

impl Deref for ElectionName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// A command of an application to a node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Command {
    /// The election; none for every election that the node has joined.
    pub election: Option<ElectionName>,
    /// The action.
    pub action: Action,
}

/// An action of a node in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    /// Join; without a configuration, with that of [`EngineConfig::candidate`](super::EngineConfig::candidate).
    Join(Option<CandidateConfig>),
    /// Leave. If the node leads, it hands over first, and leaves when it has.
    Leave,
    /// Ask to lead, and contend at once, unless the node stands already or yields to others.
    Stand {
        /// Whether the node stops to stand after one leadership. If not, it stands until it withdraws.
        once: bool,
    },
    /// Contend now, unless the node leads or yields to others. A node that does not stand starts to stand, once.
    Campaign,
    /// Stop to stand. If the node leads, it hands over.
    Withdraw,
    /// Hand over, and yield to others for the length of a lease.
    Resign,
    /// Hand over to this node. If it does not take over, the voters wake the next candidate.
    Transfer(NodeId),
    /// Release the lease at once, because the application's work has ended, and stop to stand: in favour of this node,
    /// or of the target of the hand-over that has begun. All other actions by which a node hands over give the
    /// application its [stop margin](CandidateConfig::stop_margin) first.
    Release(Option<NodeId>),
    /// Ask the leader, whichever node it is, to hand over: to this node, or to the next candidate. The node's voter knows
    /// the leader.
    Move(Option<NodeId>),
    /// Set the health of the application. A node with an unhealthy application hands over, and does not stand.
    Health(bool),
    /// Set the rank of the node.
    Rank(Attribute),
    /// Set the value that the node has as the leader to the [numbered](crate::Value::numbered) one, which is for scenarios;
    /// 0 takes it back. Applications set any text by [`Engine::set_value`](super::Engine::set_value).
    Value(u32),
    /// Pin the lease that the node holds, or unpin it: claims of better candidates are refused until the lease is
    /// released or unpinned. If the node is told to hand over and the work does not end within the stop margin, a pinned
    /// lease is not released, but expires. A node without a lease ignores the command.
    Pin(bool),
    /// Change the voters of the cluster. The node coordinates the change; the election is ignored.
    ChangeVoters(VoterChange),
    /// Stop to coordinate the change that the node coordinates; the election is ignored.
    StopChange,
}

/// A change of the voters, by ids. Nodes that reach each other by addresses use [`Change`], which has the address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum VoterChange {
    /// See [`Change::Adopt`].
    Adopt,
    /// See [`Change::Adopt`]. This voter need not answer.
    AdoptWithout(NodeId),
    /// See [`Change::Add`].
    Add(NodeId),
    /// See [`Change::Remove`].
    Remove(NodeId),
}

impl From<VoterChange> for Change {
    fn from(change: VoterChange) -> Change {
        match change {
            VoterChange::Adopt => Change::Adopt { without: BTreeSet::new() },
            VoterChange::AdoptWithout(id) => Change::Adopt { without: [id].into() },
            VoterChange::Add(id) => Change::Add(id, String::new()),
            VoterChange::Remove(id) => Change::Remove(id),
        }
    }
}

impl Action {
    /// The command to do this in one election.
    pub fn in_election(self, election: ElectionName) -> Command {
        Command { election: Some(election), action: self }
    }

    /// The command to do this in every election that the node has joined.
    pub fn in_all(self) -> Command {
        Command { election: None, action: self }
    }
}

impl From<suffrage_core::Command> for Command {
    fn from(command: suffrage_core::Command) -> Command {
        use suffrage_core::Command as Common;
        match command {
            Common::Campaign => Action::Campaign,
            Common::Resign => Action::Resign,
            Common::Transfer(to) => Action::Transfer(to),
        }
        .in_all()
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.action.fmt(f)?;
        let Some(election) = &self.election else { return Ok(()) };
        f.write_str(" in ")?;
        for &byte in election.as_bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'_' | b'-' => {
                    write!(f, "{}", char::from(byte))
                }
                _ => write!(f, "%{byte:02x}"),
            }?;
        }
        Ok(())
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Join(None) => f.write_str("join"),
            Action::Join(Some(config)) => {
                write!(f, "join ttl {} rank {}", config.ttl, config.attribute)?;
                if let Some(failback) = config.failback {
                    write!(f, " failback {failback}")?;
                }
                if !config.stop_margin.is_zero() {
                    write!(f, " margin {}", config.stop_margin)?;
                }
                f.write_str(if config.standing { " standing" } else { "" })
            }
            Action::Leave => f.write_str("leave"),
            Action::Stand { once: false } => f.write_str("stand"),
            Action::Stand { once: true } => f.write_str("stand once"),
            Action::Campaign => f.write_str("campaign"),
            Action::Withdraw => f.write_str("withdraw"),
            Action::Resign => f.write_str("resign"),
            Action::Transfer(to) => write!(f, "transfer {to}"),
            Action::Release(None) => f.write_str("release"),
            Action::Release(Some(to)) => write!(f, "release {to}"),
            Action::Move(None) => f.write_str("move"),
            Action::Move(Some(to)) => write!(f, "move {to}"),
            Action::Health(healthy) => write!(f, "health {}", if *healthy { "on" } else { "off" }),
            Action::Rank(attribute) => write!(f, "rank {attribute}"),
            Action::Value(number) => write!(f, "value {number}"),
            Action::Pin(true) => f.write_str("pin"),
            Action::Pin(false) => f.write_str("unpin"),
            Action::ChangeVoters(VoterChange::Adopt) => f.write_str("voters adopt"),
            Action::ChangeVoters(VoterChange::AdoptWithout(id)) => write!(f, "voters adopt without {id}"),
            Action::ChangeVoters(VoterChange::Add(id)) => write!(f, "voters add {id}"),
            Action::ChangeVoters(VoterChange::Remove(id)) => write!(f, "voters remove {id}"),
            Action::StopChange => f.write_str("voters stop"),
        }
    }
}

impl FromStr for Command {
    type Err = String;

    fn from_str(text: &str) -> Result<Command, String> {
        let (action, election) = match text.split_once(" in ") {
            Some((action, election)) => (action, Some(election)),
            None => (text, None),
        };
        let error = || {
            format!(
                "`{text}` is not a command: use join, leave, stand, stand once, campaign, withdraw, resign, transfer \
                 ID, release [ID], move [ID], health on|off, rank NUMBER, value NUMBER, pin, unpin, voters adopt, \
                 voters adopt without ID, voters add ID, voters remove ID or voters stop, and append ` in NAME` for \
                 one election"
            )
        };
        let action = parse_action(action).ok_or_else(error)?;
        let election = election.map(|encoded| decode(encoded).ok_or_else(error)).transpose()?;
        Ok(Command { election, action })
    }
}

fn parse_action(text: &str) -> Option<Action> {
    let mut words = text.split_whitespace();
    let action = match words.next()? {
        "join" => Action::Join(parse_config(&mut words)?),
        "leave" => Action::Leave,
        "stand" => match words.next() {
            None => Action::Stand { once: false },
            Some("once") => Action::Stand { once: true },
            Some(_) => return None,
        },
        "campaign" => Action::Campaign,
        "withdraw" => Action::Withdraw,
        "resign" => Action::Resign,
        "transfer" => Action::Transfer(NodeId(words.next()?.parse().ok()?)),
        "release" => Action::Release(parse_optional_id(&mut words)?),
        "move" => Action::Move(parse_optional_id(&mut words)?),
        "health" => match words.next()? {
            "on" => Action::Health(true),
            "off" => Action::Health(false),
            _ => return None,
        },
        "rank" => Action::Rank(words.next()?.parse().ok()?),
        "value" => Action::Value(words.next()?.parse().ok()?),
        "pin" => Action::Pin(true),
        "unpin" => Action::Pin(false),
        "voters" => {
            let verb = words.next()?;
            let id = |word: Option<&str>| Some(NodeId(word?.parse().ok()?));
            let change = match verb {
                "adopt" => match words.next() {
                    None => VoterChange::Adopt,
                    Some("without") => VoterChange::AdoptWithout(id(words.next())?),
                    Some(_) => return None,
                },
                "add" => VoterChange::Add(id(words.next())?),
                "remove" => VoterChange::Remove(id(words.next())?),
                "stop" => return words.next().is_none().then_some(Action::StopChange),
                _ => return None,
            };
            Action::ChangeVoters(change)
        }
        _ => return None,
    };
    words.next().is_none().then_some(action)
}

/// The id at the end of a command, if there is one.
fn parse_optional_id(words: &mut SplitWhitespace<'_>) -> Option<Option<NodeId>> {
    match words.next() {
        Some(word) => Some(Some(NodeId(word.parse().ok()?))),
        None => Some(None),
    }
}

/// The configuration of a `join`: none if the command has no options.
fn parse_config(words: &mut SplitWhitespace<'_>) -> Option<Option<CandidateConfig>> {
    let mut config = None;
    while let Some(word) = words.next() {
        let config = config.get_or_insert_with(CandidateConfig::default);
        let mut span = || words.next()?.parse::<Span>().ok();
        match word {
            "ttl" => config.ttl = span()?,
            "rank" => config.attribute = words.next()?.parse().ok()?,
            "failback" => config.failback = Some(span()?),
            "margin" => config.stop_margin = span()?,
            "standing" => config.standing = true,
            _ => return None,
        }
    }
    Some(config)
}

/// Decodes a percent-encoded name.
fn decode(encoded: &str) -> Option<ElectionName> {
    let mut bytes = Vec::new();
    let mut rest = encoded.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        rest = after;
        bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
    }
    ElectionName::new(std::str::from_utf8(&bytes).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::Rng;

    fn any_name(rng: &mut Rng) -> ElectionName {
        let letters: String = (0..1 + rng.below(40))
            .map(|_| match rng.below(3) {
                0 => char::from(rng.below(128) as u8),
                1 => char::from(b'a' + rng.below(26) as u8),
                _ => char::from_u32(rng.below(0xD800) as u32).expect("below the surrogates"),
            })
            .collect();
        ElectionName::new(&letters).unwrap()
    }

    fn any_action(rng: &mut Rng) -> Action {
        match rng.below(20) {
            0 => Action::Join(None),
            1 => Action::Join(Some(CandidateConfig {
                ttl: Span::from_nanos(rng.below(24 * 3_600_000_000_000)),
                attribute: rng.bits() as Attribute,
                failback: rng.chance(0.5).then(|| Span::from_nanos(rng.below(24 * 3_600_000_000_000))),
                standing: rng.chance(0.5),
                stop_margin: Span::from_nanos(rng.below(2) * rng.below(3_600_000_000_000)),
            })),
            2 => Action::Leave,
            3 => Action::Stand { once: rng.chance(0.5) },
            4 => Action::Campaign,
            5 => Action::Withdraw,
            6 => Action::Resign,
            7 => Action::Transfer(NodeId(rng.bits())),
            8 => Action::Health(rng.chance(0.5)),
            9 => Action::Rank(rng.bits() as Attribute),
            10 => Action::Pin(true),
            11 => Action::Pin(false),
            12 => Action::ChangeVoters(VoterChange::Adopt),
            13 => Action::ChangeVoters(VoterChange::Add(NodeId(rng.bits()))),
            14 => Action::ChangeVoters(VoterChange::Remove(NodeId(rng.bits()))),
            15 => Action::ChangeVoters(VoterChange::AdoptWithout(NodeId(rng.bits()))),
            16 => Action::Release(rng.chance(0.5).then(|| NodeId(rng.bits()))),
            18 => Action::Value(rng.bits() as u32),
            17 => Action::Move(rng.chance(0.5).then(|| NodeId(rng.bits()))),
            _ => Action::StopChange,
        }
    }

    /// The text form is complete, for any command and any name.
    #[test]
    fn commands_parse_as_they_print() {
        let rng = &mut Rng::new(1);
        for _ in 0..20_000 {
            let election = rng.chance(0.7).then(|| any_name(rng));
            let command = Command { election, action: any_action(rng) };
            let text = command.to_string();
            assert_eq!(text.parse(), Ok(command), "{text}");
            assert!(text.is_ascii() && !text.contains(['\n', ',', '@', ';']), "{text}");
        }
    }

    #[test]
    fn common_commands_have_the_same_text_form() {
        use suffrage_core::Command as Common;
        for command in [Common::Campaign, Common::Resign, Common::Transfer(NodeId(7))] {
            assert_eq!(command.to_string().parse(), Ok(Command::from(command)));
        }
    }

    #[test]
    fn invalid_commands_are_refused() {
        for text in [
            "",
            "Resign",
            "resign 3",
            "transfer",
            "transfer x",
            "release x",
            "move 1 2",
            "join margin",
            "health",
            "value",
            "value x",
            "health maybe",
            "join ttl",
            "join 7",
            "stand twice",
            "voters",
            "voters add",
            "voters adopt 3",
            "voters adopt without",
            "voters stop 3",
            "pin in ",
            "pin in %",
            "pin in %f",
            "pin in %ff",
        ] {
            assert!(text.parse::<Command>().unwrap_err().contains(text), "{text}");
        }
        assert!(ElectionName::new("").is_err() && ElectionName::new(&"x".repeat(256)).is_err());
    }
}
