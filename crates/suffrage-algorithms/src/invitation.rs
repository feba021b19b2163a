//! The invitation algorithm (Garcia-Molina 1982; Database Internals, ch. 10, "Invitation Algorithm").
//!
//! Model: synchronous, crash and recovery, lost, duplicated and late messages; every process knows all members.
//! Every process starts as the leader of a group of one. Leaders look for other groups and merge with them. A
//! follower periodically asks its leader whether it is alive.
//!
//! ```text
//!   1 ──Invitation {group of 1, 2 members}──▶ 3    1 leads 1 and 2; 3 leads 3 and 4
//!   1 ◀──Accept {group of 1, [4]}──────────── 3    the larger group's leader stays; ties by rank
//!   1 ──Ready {group of 1}──────────────────▶ 3    until now 3 still leads
//!   3 ──Merged {group of 3 into that of 1}──▶ 4    only the smaller group is notified
//!
//!   1 ──Invitation──▶ 4, which follows 3: 4 ──Leader {group of 3}──▶ 1, and 1 invites 3
//!   2 ──AreYouThere──▶ 1 ──Here──▶ 2               periodically, not counted
//! ```
//!
//! A group's identity is its leader and a number that is saved before it is used, so that a leader never leads two
//! groups of the same identity. Groups grow until they are merged into another: the larger group keeps its identity,
//! and its members need no notification. A message about another group than the receiver's is late, and changes
//! nothing. A leader that is addressed as the leader of a group it has left replies with its current group.
//!
//! Cost: a merger takes three messages and one to each follower in the smaller group. N processes therefore take `3
//! (N - 1)` if one of them gathers the others, and `2 (N - 1) + (N / 2) log2 N` if equals merge in pairs as in
//! figure 10-4 (10 for four). A process is notified at most `log2 N` times, since its group at least doubles each
//! time. An invitation to a follower costs two more messages, and an invitation to the leader of a larger group one
//! more. In large groups, invitations meet processes that have already merged: a thousand processes that start alone
//! send seven messages each. The observed maximum is `4 N log2 N` in all, which is not a proven bound. It occurs
//! where ranks rise along the ring and all leaders invite their successors.
//!
//! A leader does not invite all members at once, which would cost `N^2` at the start. It invites `fanout` peers
//! outside its group, and the next ones in ring order the next time; twice as many each time no peer answers, so
//! that all are invited within `log2 N` looks. After a healed partition any member of the other component names its
//! leader, so that the next look or the one after it finds the leader, unless many members are dead. Dead members
//! are invited as long as they are dead. Once no member is outside, only questions and answers continue: two
//! messages for each follower every `ask` message delays, which are not counted.
//!
//! Promise: some time after faults stop, each component whose members can all reach each other is one group. Within
//! `silence + 2 ask` message delays every process has left a group whose leader is gone, or is invited again. From
//! then on the situation is a start with fewer groups, for which the observed maximum is `2 look (1 + log2 N)`. For
//! up to nine processes that is less than 200 message delays with the defaults; the maximum in 100,000 storms was 90
//! message delays.
//!
//! Not promised: which process leads. Several leaders are allowed *by definition*: every process at the start, one
//! in each component under partition, and a few while late messages or false suspicions last. If a leader fails, its
//! followers form groups of one each, and merge again. Two groups whose leaders cannot reach each other stay apart,
//! even if other members of them can.
//!
//! Interpretations:
//! - The book merges a group with a single message; here Garcia-Molina's `Accept` and `Ready` come between, so that
//!   a group is never handed to a leader that is gone or unreachable. While a leader awaits `Ready`, it answers
//!   outsiders as a follower of the leader that it is about to join, and accepts no other group. Otherwise leaders
//!   that join each other in a cycle would leave no leader.
//! - `Accept` carries the list of followers, so that sizes are correct at once and notified followers need not
//!   answer. Garcia-Molina gives every merger a new number and notifies all members; the book notifies only the
//!   smaller group, so here the larger one keeps its number.
//! - Followers ask (`AreYouThere`), as in Garcia-Molina, instead of leaders that send heartbeats. One round trip
//!   tests both directions, tells a leader which followers it has lost or never knew, and reaches a follower that
//!   missed the notification of a merger. Suspicions of a failure detector count as missing answers.
//! - Looks are `look` message delays apart for the best-ranked process and up to twice as much for the worst, so
//!   that the better process invites first.
//! - A process that lost its disk may have used any number: it adds a random number to its groups' identity.
//! - `Transfer` is only an exception to the rule of sizes: the successor, notified by `Handover`, leaves and invites
//!   its leader, which accepts. `Resign` transfers to the best-ranked follower; a process without followers leads
//!   itself by definition.

mod message;
mod options;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

pub use self::message::{Group, Message};
pub use self::options::{First, Options};
use suffrage_core::{
    Algorithm, Announcement, BadParameter, Choice, Command, Context, Contract, Cost, Detection, Electorate,
    Formula, NodeId, Parameter, Process, Rank, Roster, Safety, Span, Start, Synchrony, Term, Topology,
};

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The leader is due to look for other groups.
    Look,
    /// The leader is due to count overdue questions of its followers.
    Roll,
    /// The wait of a joining leader for `Ready`, or of a leader that hands over for its successor's invitation, is
    /// over.
    Ready,
    /// The follower is due to ask its leader.
    Ask,
    /// The follower has missed its leader's answers.
    Silence,
}

suffrage_core::timer_indices!(Timer { Look, Roll, Ready, Ask, Silence });

/// The persistent state: the number and the random number of the last group that the process founded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SavedGroup {
    /// The group's number.
    pub number: Term,
    /// The random number after the loss of a disk, see [`Group::life`].
    pub life: u64,
}

/// A process of the invitation algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Invitation {
    options: Options,
    /// The current group, which this process may lead.
    group: Group,
    /// The highest number of a group that this process has been in.
    number: Term,
    life: u64,
    /// The followers of a leader, and the number of their overdue questions.
    followers: BTreeMap<NodeId, u64>,
    /// The group that a leader is about to join.
    joining: Option<Group>,
    /// The follower that a leader hands over to.
    successor: Option<NodeId>,
    /// The number of peers to invite next.
    invite_count: usize,
    /// The peer to invite next; if that is a follower or this process itself, the one after it.
    next: NodeId,
}

impl Algorithm for Invitation {
    const CONTRACT: Contract = Contract {
        name: "invitation",
        summary: "Groups invite each other to merge, and the larger group's leader stays.",
        source: "Garcia-Molina 1982; Database Internals, ch. 10",
        topology: Topology::Complete,
        synchrony: Synchrony::Synchronous,
        knowledge: "all members; ranks only decide which leader looks for groups first",
        tolerates: "crash and recovery, also without the disk; lost messages",
        detection: Detection::Timeout,
        electorate: Electorate::Anybody,
        needs_disk: false,
        retries: true,
        under_loss: &[],
        safety: Safety::Eventual,
        choice: Choice::Any,
        handover: true,
        messages: Cost {
            best: Formula { text: "3(N - 1)", of: |n| 3 * n.saturating_sub(1) },
            worst: Formula { text: "4N log2 N", of: |n| 4 * n * doublings(n) },
        },
        time: Cost {
            best: Formula { text: "3", of: |_| 3 },
            worst: Formula { text: "20(1 + log2 N)", of: |n| 20 * (1 + doublings(n)) },
        },
        upkeep: &[],
    };

    type Options = Options;

    const PARAMETERS: &'static [Parameter<Options>] = options::PARAMETERS;

    fn new(me: NodeId, options: &Options) -> Invitation {
        Invitation {
            options: *options,
            group: Group { leader: me, number: Term(0), life: 0 },
            number: Term(0),
            life: 0,
            followers: BTreeMap::new(),
            joining: None,
            successor: None,
            invite_count: options.fanout,
            next: me,
        }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        options.check()
    }
}

/// The number of doublings from one to `n` members: the binary logarithm, rounded up.
fn doublings(n: u64) -> u64 {
    n.max(1).next_power_of_two().trailing_zeros().into()
}

impl Invitation {
    fn is_leader(&self, cx: &Context<'_, Self>) -> bool {
        self.group.leader == cx.me()
    }

    /// The number of members of the group, as far as its leader knows.
    fn size(&self) -> u64 {
        self.followers.len() as u64 + 1
    }

    /// Becomes the leader of a new group of one.
    fn found_group(&mut self, cx: &mut Context<'_, Self>) {
        self.number = self.number.next();
        cx.save(SavedGroup { number: self.number, life: self.life });
        self.group = Group { leader: cx.me(), number: self.number, life: self.life };
        self.followers.clear();
        (self.joining, self.successor) = (None, None);
        self.invite_count = self.options.fanout;
        self.next = match self.options.first {
            First::Anybody => cx.view().random_peer(cx.rng()).unwrap_or(cx.me()),
            First::Successor => cx.me(),
        };
        cx.cancel_timer(Timer::Ready);
        cx.cancel_timer(Timer::Ask);
        cx.cancel_timer(Timer::Silence);
        cx.announce(Announcement::Elected { leader: cx.me(), term: self.number });
        cx.set_timer(Timer::Look, self.until_look(cx));
        cx.set_timer(Timer::Roll, cx.delay_bound() * self.options.ask);
    }

    /// Becomes a follower in this group, together with its own followers if it led any.
    fn join_group(&mut self, cx: &mut Context<'_, Self>, group: Group) {
        if group.leader == cx.me() {
            // A cycle: the group was merged into one that follows this process.
            return self.found_group(cx);
        }
        for (follower, _) in std::mem::take(&mut self.followers) {
            cx.send(follower, Message::Merged { from: self.group, into: group });
        }
        self.group = group;
        self.number = self.number.max(group.number);
        (self.joining, self.successor) = (None, None);
        cx.cancel_timer(Timer::Look);
        cx.cancel_timer(Timer::Roll);
        cx.cancel_timer(Timer::Ready);
        cx.announce(Announcement::Elected { leader: group.leader, term: group.number });
        cx.set_timer(Timer::Ask, cx.delay_bound() * self.options.ask);
        cx.set_timer(Timer::Silence, cx.delay_bound() * self.options.silence);
    }

    /// The delay before the next look, longer for lower ranks.
    fn until_look(&self, cx: &Context<'_, Self>) -> Span {
        let shortest = cx.delay_bound() * self.options.look;
        let better = cx.view().above().count() as f64 / cx.view().group_len() as f64;
        shortest + shortest.scale(better)
    }

    /// Invites the next peers outside the group, in ring order.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Look, self.until_look(cx));
        if self.joining.is_some() || self.successor.is_some() {
            return;
        }
        let view = cx.view();
        let start = view.distance(self.next);
        let outside = || view.successors().filter(|peer| !self.followers.contains_key(peer));
        let ahead = outside().filter(|&peer| view.distance(peer) >= start);
        let wrapped = outside().filter(|&peer| view.distance(peer) < start);
        let mut candidates = ahead.chain(wrapped);
        let peers: Vec<NodeId> = candidates.by_ref().take(self.invite_count).collect();
        self.next = candidates.next().or(peers.first().copied()).unwrap_or(cx.me());
        self.invite_count = self.invite_count.saturating_mul(2).min(view.group_len());
        for peer in peers {
            self.invite(cx, peer);
        }
    }

    fn invite(&self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let rank = cx.view().my_rank();
        cx.send(peer, Message::Invitation { group: self.group, size: self.size(), rank });
    }

    fn on_invitation(&mut self, cx: &mut Context<'_, Self>, group: Group, size: u64, rank: Rank) {
        if !self.is_leader(cx) {
            return cx.send(group.leader, Message::Leader { group: self.group });
        }
        // A process that invites leads a group of its own, so it is no follower any more.
        self.followers.remove(&group.leader);
        self.invite_count = self.options.fanout;
        match self.joining {
            Some(joining) if joining == group => {}
            Some(joining) => cx.send(group.leader, Message::Leader { group: joining }),
            None if self.successor == Some(group.leader)
                || (size, rank) > (self.size(), cx.view().my_rank()) =>
            {
                self.joining = Some(group);
                let followers = self.followers.keys().copied().collect();
                cx.send(group.leader, Message::Accept { group, followers });
                cx.set_timer(Timer::Ready, cx.delay_bound() * self.options.ready_timeout);
            }
            None => self.invite(cx, group.leader),
        }
    }

    fn on_accept(&mut self, cx: &mut Context<'_, Self>, from: NodeId, group: Group, followers: Vec<NodeId>) {
        if let Some(elsewhere) = self.joining.or_else(|| (group != self.group).then_some(self.group)) {
            return cx.send(from, Message::Leader { group: elsewhere });
        }
        self.invite_count = self.options.fanout;
        self.followers.insert(from, 0);
        let members = followers.into_iter().filter(|&peer| peer != cx.me() && cx.view().contains(peer));
        self.followers.extend(members.map(|peer| (peer, 0)));
        cx.send(from, Message::Ready { group });
    }

    fn on_leader(&mut self, cx: &mut Context<'_, Self>, from: NodeId, group: Group) {
        if !self.is_leader(cx) {
            return;
        }
        self.invite_count = self.options.fanout;
        if self.joining.is_some_and(|joining| joining.leader == from) {
            self.joining = None;
            cx.cancel_timer(Timer::Ready);
        }
        if group == self.group {
            self.followers.insert(from, 0);
        } else if group.leader == cx.me() {
            self.redirect(cx, from, group);
        } else if self.joining.is_none()
            && self.successor.is_none()
            && !self.followers.contains_key(&group.leader)
        {
            self.invite(cx, group.leader);
        }
    }

    /// Replies with the current group to a process that addresses this one as the leader of a group it has left.
    fn redirect(&mut self, cx: &mut Context<'_, Self>, follower: NodeId, group: Group) {
        if self.is_leader(cx) {
            self.followers.insert(follower, 0);
        }
        cx.send(follower, Message::NotHere { from: group, into: self.group });
    }

    fn on_question(&mut self, cx: &mut Context<'_, Self>, from: NodeId, group: Group) {
        if group == self.group {
            self.followers.insert(from, 0);
            cx.send(from, Message::Here { group });
        } else {
            self.redirect(cx, from, group);
        }
    }

    /// Counts the overdue questions, and removes followers that have not asked for too long.
    fn drop_silent_followers(&mut self, cx: &mut Context<'_, Self>) {
        let limit = self.options.silence.div_ceil(self.options.ask);
        self.followers.retain(|_, overdue| {
            *overdue += 1;
            *overdue <= limit
        });
        cx.set_timer(Timer::Roll, cx.delay_bound() * self.options.ask);
    }

    fn ask(&self, cx: &mut Context<'_, Self>) {
        cx.send(self.group.leader, Message::AreYouThere { group: self.group });
        cx.set_timer(Timer::Ask, cx.delay_bound() * self.options.ask);
    }

    fn hand_over(&mut self, cx: &mut Context<'_, Self>, successor: NodeId) {
        if self.is_leader(cx) && self.joining.is_none() && self.followers.contains_key(&successor) {
            self.successor = Some(successor);
            cx.send(successor, Message::Handover { group: self.group });
            cx.set_timer(Timer::Ready, cx.delay_bound() * self.options.ready_timeout);
        }
    }
}

impl Process for Invitation {
    type Message = Message;
    type Timer = Timer;
    type Saved = SavedGroup;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<SavedGroup>) {
        match start {
            Start::Fresh => {}
            Start::Recovered(Some(founded)) => (self.number, self.life) = (founded.number, founded.life),
            Start::Recovered(None) => self.life = cx.rng().bits(),
        }
        self.found_group(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        // Only the leader of a group may speak for it, and only its leader may be addressed as such.
        match message {
            Message::Invitation { group, size, rank } if group.leader == from => {
                self.on_invitation(cx, group, size, rank);
            }
            Message::Accept { group, followers } if group.leader == cx.me() => {
                self.on_accept(cx, from, group, followers);
            }
            Message::Ready { group } if group.leader == from && self.joining == Some(group) => {
                self.join_group(cx, group);
            }
            Message::Merged { from: group, into } | Message::NotHere { from: group, into }
                if group.leader == from && self.group == group =>
            {
                self.join_group(cx, into);
            }
            Message::Leader { group } => self.on_leader(cx, from, group),
            Message::Handover { group } if group.leader == from && self.group == group => {
                self.found_group(cx);
                self.invite(cx, from);
            }
            Message::AreYouThere { group } if group.leader == cx.me() => self.on_question(cx, from, group),
            Message::Here { group } if group.leader == from && self.group == group => {
                cx.set_timer(Timer::Silence, cx.delay_bound() * self.options.silence);
            }
            _ => {}
        }
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, timer: Timer) {
        match timer {
            Timer::Look => self.look(cx),
            Timer::Roll => self.drop_silent_followers(cx),
            Timer::Ready => (self.joining, self.successor) = (None, None),
            Timer::Ask => self.ask(cx),
            Timer::Silence => self.found_group(cx),
        }
    }

    fn on_suspect(&mut self, cx: &mut Context<'_, Self>, peer: NodeId) {
        if self.group.leader == peer {
            self.found_group(cx);
        }
        self.followers.remove(&peer);
    }

    fn on_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        match command {
            Command::Campaign if self.is_leader(cx) => self.look(cx),
            Command::Campaign => self.ask(cx),
            Command::Resign => {
                let best = self.followers.keys().copied().max_by_key(|&peer| cx.view().rank(peer));
                if let Some(successor) = best {
                    self.hand_over(cx, successor);
                }
            }
            Command::Transfer(successor) => self.hand_over(cx, successor),
        }
    }
}

#[cfg(test)]
mod tests;
