//! Watchers of the leader: a few members, chosen by hash, that probe the leader more often than others do.
//!
//! A watcher that gets no answer several times tells the other watchers. A majority of the watchers declares the leader
//! dead. So an election begins long before ordinary detection, and the loss of a few datagrams does not begin one.

use std::collections::BTreeSet;

use suffrage_core::{Context, Hash, NodeId, Time};

use super::{Group, Timer};
use crate::message::Message;

const WATCHERS: Hash = Hash::new(0x7761_7463_6865_7273);

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Watch {
    /// The leader and the number of changes of the list when the watchers were chosen.
    chosen_at: Option<(NodeId, u64)>,
    /// The watchers, if this member is one of them.
    watchers: Vec<NodeId>,
    /// True if the last probe has not been answered.
    waits: bool,
    misses: u32,
    /// The other watchers that miss the leader too.
    accusers: BTreeSet<NodeId>,
    due: Time,
}

impl Watch {
    pub(super) fn forget_misses(&mut self) {
        self.waits = false;
        self.misses = 0;
        self.accusers.clear();
    }
}

impl Group {
    /// Chooses the watchers anew if the leader or the list has changed.
    pub(super) fn review_watch(&mut self, cx: &mut Context<'_, Self>) {
        let leader = self.election.leader.map(|(.., id)| id);
        let version = leader.map(|id| (id, self.counters.changes));
        if version == self.watch.chosen_at {
            return;
        }
        let same_leader = leader == self.watch.chosen_at.map(|(id, _)| id);
        self.watch.chosen_at = version;
        let watched = !self.watch.watchers.is_empty();
        self.watch.watchers = leader.filter(|&id| id != self.me).map_or(Vec::new(), |id| self.watchers(id));
        if !same_leader || self.watch.watchers.is_empty() {
            self.watch.forget_misses();
        }
        match (watched, self.watch.watchers.is_empty()) {
            (true, true) => cx.cancel_timer(Timer::Watch),
            (false, false) => self.set_watch_timer(cx),
            _ => {}
        }
    }

    /// The watchers of the leader, if this member is one of them.
    fn watchers(&self, leader: NodeId) -> Vec<NodeId> {
        let number = self.settings.watchers;
        let mine = WATCHERS.pair(leader.0, self.me.0);
        let others = || self.table.live().iter().map(|record| record.id).filter(|&id| id != leader);
        let before_me = others().filter(|id| WATCHERS.pair(leader.0, id.0) < mine).take(number).count();
        if before_me == number {
            return Vec::new();
        }
        let mut watchers: Vec<NodeId> = others().collect();
        watchers.sort_by_cached_key(|id| WATCHERS.pair(leader.0, id.0));
        watchers.truncate(number);
        watchers.shrink_to_fit();
        watchers
    }

    fn set_watch_timer(&mut self, cx: &mut Context<'_, Self>) {
        self.watch.due = cx.now() + self.settings.watch;
        cx.set_timer(Timer::Watch, self.settings.watch);
    }

    /// The answers that a watcher must miss. With few watchers their agreement says less, and each waits longer.
    fn needed_misses(&self) -> u32 {
        match self.watch.watchers.len() {
            0 | 1 => 8,
            2 => 5,
            _ => 3,
        }
    }

    pub(super) fn on_watch_timer(&mut self, cx: &mut Context<'_, Self>) {
        let Some((.., leader)) = self.election.leader.filter(|_| !self.watch.watchers.is_empty()) else {
            return;
        };
        if !self.check_stall(cx.now(), self.watch.due) && self.watch.waits {
            self.watch.misses += 1;
        }
        self.watch.waits = true;
        self.ping(cx, leader, false);
        self.set_watch_timer(cx);
        if self.watch.misses >= self.needed_misses()
            && let Some(incarnation) = self.incarnation(leader)
        {
            for &watcher in self.watch.watchers.iter().filter(|&&watcher| watcher != self.me) {
                cx.send(watcher, Message::Missing { leader, incarnation });
            }
            self.judge_leader(cx, leader);
        }
    }

    pub(super) fn on_missing(
        &mut self,
        cx: &mut Context<'_, Self>,
        from: NodeId,
        leader: NodeId,
        incarnation: u32,
    ) {
        let is_leader = self.election.leader.is_some_and(|(.., id)| id == leader);
        let is_current = self.incarnation(leader) == Some(incarnation);
        if is_leader && is_current && self.watch.watchers.contains(&from) {
            self.watch.accusers.insert(from);
            self.judge_leader(cx, leader);
        }
    }

    fn judge_leader(&mut self, cx: &mut Context<'_, Self>, leader: NodeId) {
        let accusers = 1 + self.watch.accusers.len();
        // A watcher that others have overtaken by one probe need not wait for its own last miss.
        let misses = self.watch.misses + u32::from(accusers > 1);
        if misses >= self.needed_misses() && accusers > self.watch.watchers.len() / 2 {
            self.declare_dead(cx, leader);
        }
    }

    /// Any message of the leader shows that it lives.
    pub(super) fn heard_from_leader(&mut self, from: NodeId) {
        if !self.watch.watchers.is_empty() && self.election.leader.is_some_and(|(.., id)| id == from) {
            self.watch.forget_misses();
        }
    }
}
