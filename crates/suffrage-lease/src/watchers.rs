//! The subscribers that a voter notifies when the holder of an election changes.

use std::collections::{BTreeMap, BTreeSet};

use super::message::Name;
use suffrage_core::{NodeId, Time};

/// The nodes that watch elections at one voter, by election.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Watchers {
    by_name: BTreeMap<Name, Vec<Watcher>>,
    /// The end of each subscription, the earliest first.
    ends: BTreeSet<(Time, Name, NodeId)>,
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
        if let Some(known) = watchers.iter().position(|watcher| watcher.node == node) {
            let before = watchers.remove(known);
            self.ends.remove(&(before.until, name, node));
        }
        watchers.push(Watcher { node, until });
        self.ends.insert((until, name, node));
        self.changes
    }

    /// Removes the expired subscriptions of all elections. Takes no time if there are none.
    pub fn prune(&mut self, now: Time) {
        while let Some(&(until, name, _)) = self.ends.first()
            && until <= now
        {
            self.prune_election(name, now);
        }
    }

    /// The number of subscriptions.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether no node watches an election.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Records that the holder of an election has changed. Returns the number of the change and the nodes to notify.
    pub fn on_change(&mut self, name: Name, now: Time) -> (u64, impl Iterator<Item = NodeId> + use<'_>) {
        let watched = self.watched_until(name, now).is_some();
        self.changes += u64::from(watched);
        (self.changes, self.by_name.get(&name).into_iter().flatten().map(|watcher| watcher.node))
    }

    /// The end of the last subscription to this election; none if no node watches it any more.
    pub fn watched_until(&mut self, name: Name, now: Time) -> Option<Time> {
        self.prune_election(name, now);
        self.by_name.get(&name)?.iter().map(|watcher| watcher.until).max()
    }

    /// Removes the expired subscriptions of one election.
    fn prune_election(&mut self, name: Name, now: Time) {
        let Some(watchers) = self.by_name.get_mut(&name) else { return };
        watchers.retain(|watcher| {
            let live = now < watcher.until;
            if !live {
                self.ends.remove(&(watcher.until, name, watcher.node));
            }
            live
        });
        if watchers.is_empty() {
            self.by_name.remove(&name);
        }
    }
}
