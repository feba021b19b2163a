//! The lines of a trace. The fields are documented in `docs/trace-format.md` and `docs/trace-format.schema.json`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use suffrage_core::{Attribute, NodeId, Term};

/// The name of the format, in the header.
pub(crate) const FORMAT: &str = "suffrage-trace";
/// The version of the format. A reader refuses a greater one.
pub(crate) const VERSION: u32 = 1;

/// The first line.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Header {
    pub(crate) at: f64,
    pub(crate) event: EventName,
    pub(crate) format: String,
    pub(crate) version: u32,
    pub(crate) algorithm: String,
    pub(crate) seed: u64,
    pub(crate) members: Vec<NodeId>,
    /// The members that are crashed from the start.
    pub(crate) crashed: Vec<NodeId>,
    /// The command that repeats the run.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) command: String,
    /// True if times are numbers of steps: schedules of the model checker, which are shown and not written.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) steps: bool,
}

/// The name of an event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum EventName {
    #[default]
    Opened,
    Sent,
    Multicast,
    Delivered,
    Dropped,
    Expired,
    Elected,
    SteppedDown,
    Undecided,
    Leased,
    Commanded,
    Suspected,
    Restored,
    Crashed,
    Recovered,
    Paused,
    Resumed,
    Jumped,
    Ranked,
    Cut,
    Healed,
    HealedAll,
    Conditions,
    Violated,
}

/// Any line but the first. A field is present if it applies to the event.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: f64,
    pub(crate) event: EventName,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<NodeId>,
    /// The number of the message, from the line that sends it to the lines that deliver or drop it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<u64>,
    /// The number of the multicast of which the message is a copy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) multicast: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) from: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) to: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) kind: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) counted: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) content: Option<Box<RawValue>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) arrives: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) timer: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) leader: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) term: Option<Term>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) until: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) command: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) peer: Option<NodeId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) by: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attribute: Option<Attribute>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<Vec<Vec<NodeId>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) one_way: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) condition: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) value: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) invariant: Option<Cow<'static, str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) detail: Option<String>,
    /// The vector clock of the process after the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) clock: Option<BTreeMap<NodeId, u64>>,
}

impl Line {
    /// An event of one process.
    pub(crate) fn of(event: EventName, node: NodeId) -> Line {
        Line { event, node: Some(node), ..Line::default() }
    }

    /// The process at which the event happens. `None` for events of the network.
    pub(crate) fn process(&self) -> Option<NodeId> {
        match self.event {
            EventName::Sent | EventName::Multicast => self.from,
            // Dropped as it was sent: the line has the content, as a line that sends has.
            EventName::Dropped if self.content.is_some() => self.from,
            EventName::Delivered => self.to,
            _ => self.node,
        }
    }

    /// The event in a few words, as the end of a sentence about its process.
    pub(crate) fn describe(&self) -> String {
        let id = |id: Option<NodeId>| id.map_or_else(|| "?".to_string(), |id| id.to_string());
        let kind = self.kind.as_deref().unwrap_or("message");
        match self.event {
            EventName::Opened => "starts".to_string(),
            EventName::Sent => format!("sends {kind} to {}", id(self.to)),
            EventName::Multicast => format!("sends {kind} to all"),
            EventName::Delivered => format!("gets {kind} from {}", id(self.from)),
            EventName::Dropped => {
                let reason = match self.reason.as_deref() {
                    Some("cut") => "is cut off",
                    Some("dead") => "finds its receiver dead",
                    Some("unknown") => "has no receiver",
                    _ => "is lost",
                };
                format!("{kind} from {} to {} {reason}", id(self.from), id(self.to))
            }
            EventName::Expired => format!("timer {} expires", self.timer.as_deref().unwrap_or_default()),
            EventName::Elected if self.leader == self.node => {
                format!("leads in term {}", self.term.unwrap_or_default())
            }
            EventName::Elected => {
                format!("follows {} in term {}", id(self.leader), self.term.unwrap_or_default())
            }
            EventName::SteppedDown => "steps down".to_string(),
            EventName::Undecided => "knows no leader".to_string(),
            EventName::Leased => format!("holds a lease until {}", self.until.unwrap_or_default()),
            EventName::Commanded => {
                format!("gets the command {}", self.command.as_deref().unwrap_or_default())
            }
            EventName::Suspected => format!("suspects {}", id(self.peer)),
            EventName::Restored => format!("no longer suspects {}", id(self.peer)),
            EventName::Crashed => "crashes".to_string(),
            EventName::Recovered => "recovers".to_string(),
            EventName::Paused => "pauses".to_string(),
            EventName::Resumed => "resumes".to_string(),
            EventName::Jumped => format!("clock jumps by {}", self.by.unwrap_or_default()),
            EventName::Ranked => format!("has attribute {}", self.attribute.unwrap_or_default()),
            EventName::Cut => format!("cut: {}", self.describe_groups()),
            EventName::Healed => format!("healed: {}", self.describe_groups()),
            EventName::HealedAll => "all faults end".to_string(),
            EventName::Conditions => {
                let condition = self.condition.as_deref().unwrap_or_default();
                format!("{condition} is {}", self.value.unwrap_or_default())
            }
            EventName::Violated => format!(
                "broken promise: {}: {}",
                self.invariant.as_deref().unwrap_or_default(),
                self.detail.as_deref().unwrap_or_default()
            ),
        }
    }

    fn describe_groups(&self) -> String {
        crate::observers::CutGroups {
            groups: self.groups.clone().unwrap_or_default(),
            one_way: self.one_way.unwrap_or_default(),
        }
        .to_string()
    }
}
