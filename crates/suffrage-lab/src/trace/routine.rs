//! Routine messages: heartbeats, which diagrams fold.

use std::collections::{BTreeMap, BTreeSet};

use suffrage_core::{NodeId, Term};

use super::{EventName, Line};

/// The kinds of messages that only keep a leader or a lease alive.
const HEARTBEATS: &[&str] = &[
    "Heartbeat",
    "HeartbeatReply",
    "Renew",
    "Renewed",
    "Enquire",
    "Status",
    "Watch",
    "Watched",
    "AreYouThere",
    "Here",
    "Gossip",
    "Ping",
    "Pong",
];

/// Finds routine messages. A message is routine if its kind is a heartbeat, or if it repeats an earlier message between the
/// same processes and nothing happened in between: no change of a belief, no command, no suspicion, no fault.
#[derive(Debug, Default)]
pub(crate) struct Routine {
    seen: BTreeSet<(NodeId, Option<NodeId>, String, String)>,
    beliefs: BTreeMap<NodeId, (NodeId, Term)>,
    /// The routine messages in flight.
    messages: BTreeSet<u64>,
}

impl Routine {
    /// True if the line sends, delivers or drops a routine message.
    pub(crate) fn is_routine(&mut self, line: &Line) -> bool {
        match line.event {
            EventName::Sent | EventName::Multicast | EventName::Delivered | EventName::Dropped => {
                self.is_routine_message(line)
            }
            // These are effects and causes of messages, and no disturbance.
            EventName::Expired | EventName::Leased => false,
            EventName::Elected => {
                if let (Some(node), Some(leader), Some(term)) = (line.node, line.leader, line.term)
                    && self.beliefs.insert(node, (leader, term)) != Some((leader, term))
                {
                    self.seen.clear();
                }
                false
            }
            _ => {
                if let Some(node) = line.node {
                    self.beliefs.remove(&node);
                }
                self.seen.clear();
                false
            }
        }
    }

    fn is_routine_message(&mut self, line: &Line) -> bool {
        let Some(number) = line.message else { return false };
        let Some(content) = &line.content else {
            // A multicast is delivered several times.
            return match line.multicast {
                Some(multicast) if multicast == number => self.messages.contains(&number),
                _ => self.messages.remove(&number),
            };
        };
        let (Some(from), Some(kind)) = (line.from, line.kind.as_deref()) else { return false };
        let is_new = self.seen.insert((from, line.to, kind.to_string(), content.get().to_string()));
        let is_routine = HEARTBEATS.contains(&kind) || !is_new;
        if is_routine {
            self.messages.insert(number);
        }
        is_routine
    }
}
