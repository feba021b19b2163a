//! The subscribers that a voter notifies when the holder of an election changes.

use std::collections::BTreeMap;

use super::message::Name;
use suffrage_core::{NodeId, Time};

/// The nodes that watch elections at one voter, by election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Watchers {
    by_name: BTreeMap<Name, Vec<Watcher>>,
    /// The number of changes so far in watched elections. Of two notices the later has the greater number.
    changes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Watcher {
    node: NodeId,
    until: Time,
}

impl Watchers {
    /// Adds a watcher, or extends its subscription. Returns the number of the last change.
    pub fn subscribe(&mut self, name: Name, node: NodeId, until: Time) -> u64 {
        let watchers = self.by_name.entry(name).or_default();
        watchers.retain(|watcher| watcher.node != node);
        watchers.push(Watcher { node, until });
        self.changes
    }

    /// Records that the holder of an election has changed. Returns the number of the change and the nodes to notify.
    pub fn on_change(&mut self, name: Name, now: Time) -> (u64, impl Iterator<Item = NodeId> + use<'_>) {
        let watched = self.watched_until(name, now).is_some();
        self.changes += u64::from(watched);
        (self.changes, self.by_name.get(&name).into_iter().flatten().map(|watcher| watcher.node))
    }

    /// The end of the last subscription to this election; none if no node watches it any more.
    pub fn watched_until(&mut self, name: Name, now: Time) -> Option<Time> {
        let watchers = self.by_name.get_mut(&name)?;
        watchers.retain(|watcher| now < watcher.until);
        let last = watchers.iter().map(|watcher| watcher.until).max();
        if last.is_none() {
            self.by_name.remove(&name);
        }
        last
    }
}
