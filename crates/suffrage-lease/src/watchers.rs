//! Who is to be told by a voter when an election changes hands.

use std::collections::BTreeMap;

use super::message::Name;
use suffrage_core::{NodeId, Time};

/// Those who asked one voter to be told of changes, for each election that anybody watches.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Watchers {
    of: BTreeMap<Name, Vec<Watcher>>,
    /// How many changes there have been to tell of: of two notices the later has the greater number.
    changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Watcher {
    who: NodeId,
    until: Time,
}

impl Watchers {
    /// Adds one, or keeps it for longer. The number of the last change.
    pub fn join(&mut self, name: Name, who: NodeId, until: Time) -> u64 {
        let watchers = self.of.entry(name).or_default();
        watchers.retain(|watcher| watcher.who != who);
        watchers.push(Watcher { who, until });
        self.changes
    }

    /// An election has changed hands: the number of that change, and whom to tell of it.
    pub fn on_change(&mut self, name: Name, now: Time) -> (u64, impl Iterator<Item = NodeId> + use<'_>) {
        let watched = self.watched_until(name, now).is_some();
        self.changes += u64::from(watched);
        (self.changes, self.of.get(&name).into_iter().flatten().map(|watcher| watcher.who))
    }

    /// Until when anybody watches this election; none if nobody does any more.
    pub fn watched_until(&mut self, name: Name, now: Time) -> Option<Time> {
        let watchers = self.of.get_mut(&name)?;
        watchers.retain(|watcher| now < watcher.until);
        let last = watchers.iter().map(|watcher| watcher.until).max();
        if last.is_none() {
            self.of.remove(&name);
        }
        last
    }
}
