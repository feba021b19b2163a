//! The invitation algorithm (Garcia-Molina 1982; Database Internals, ch. 10, "Invitation Algorithm").
//!
//! Model: synchronous, crash and recovery, lost, doubled and late messages; everybody knows everybody.
//! Every process starts as the leader of a group of one. Leaders look for others and merge the groups;
//! a member asks its leader now and then whether it is there.
//!
//! ```text
//!   1 ──Invitation {group of 1, 2 members}──▶ 3    1 leads 1 and 2; 3 leads 3 and 4
//!   1 ◀──Accept {group of 1, [4]}──────────── 3    the larger group's leader stays; ties by rank
//!   1 ──Ready {group of 1}──────────────────▶ 3    until now 3 has led on
//!   3 ──Merged {group of 3 into that of 1}──▶ 4    only the smaller group is told
//!
//!   1 ──Invitation──▶ 4, which follows 3: 4 ──Leader {group of 3}──▶ 1, and 1 invites 3
//!   2 ──AreYouThere──▶ 1 ──Here──▶ 2               from time to time, counted apart
//! ```
//!
//! A group's identity is its leader and a number that is saved before it is used, so that a leader never
//! leads two groups of one name. Groups grow until they are merged into another: the larger group keeps
//! its identity, and need not be told. What speaks of another group than the receiver's is late, and
//! changes nothing; a leader that is spoken to as that of a group it has left says where it is now.
//!
//! Cost: a merger takes three messages and one to each follower in the smaller group, so that N processes
//! take `3 (N - 1)` if one of them gathers the others, and `2 (N - 1) + (N / 2) log2 N` if equals merge in
//! pairs as in figure 10-4 (10 for four). Nobody is told more than `log2 N` times, since its group at least
//! doubles. An invitation that meets a follower costs two more, one that meets a larger group one more,
//! and in a crowd leaders run after each other: a thousand that start alone send seven messages each, and
//! `4 N log2 N` in all is the most that was seen, not a proven bound. It happens where ranks rise along
//! the ring and all look at their successors.
//!
//! A leader does not look at everybody, which would cost `N^2` at the start, but at `fanout` peers
//! outside its group, and at the next ones in ring order the next time; twice as many each time nobody
//! answers, so that everybody is looked at within `log2 N` looks. After a healed partition any one of the
//! other part leads to its leader, so that the next look or the one after it finds it, unless many are
//! dead. The dead are invited as long as they are dead. Once nobody is outside, only questions and answers
//! go on: two messages for each follower every `ask` message delays, counted apart.
//!
//! Promises that some time after faults stop, each component whose members can all talk to each other is
//! one group. Within `silence + 2 ask` message delays everybody has left what is gone, or is looked for
//! again; from then on it is a start with fewer groups, for which `2 look (1 + log2 N)` is the most that was
//! seen. For up to nine processes that is less than 200 message delays with the defaults; in 100,000
//! storms it took 90 at most. Does not promise who leads, and allows several leaders *by definition*:
//! everybody at the start, one in each part under partition, and a few while late messages or wrong
//! suspicions last. A leader that fails leaves its followers alone, each in a group of its own, to merge
//! again. Where two groups' leaders cannot talk although others of them can, they stay apart.
//!
//! Interpretations:
//! - The book lets a group be merged at a word; Garcia-Molina's `Accept` and `Ready` stand between, so
//!   that a group is never handed to a leader that is gone or does not hear it. While a leader waits for
//!   `Ready` it answers outsiders as a follower of the one it is about to join, and confirms nobody:
//!   otherwise leaders that join each other in a circle would leave nobody to lead.
//! - `Accept` hands the list of followers over, so that sizes are right at once and those told need not
//!   answer. Garcia-Molina gives every merger a new number and tells everybody; the book tells only the
//!   smaller group, so here the larger one keeps its number.
//! - Garcia-Molina's followers ask (`AreYouThere`), rather than leaders sending heartbeats: one round trip
//!   tests both directions, tells a leader whom it has lost or never knew of, and reaches a follower that
//!   was not told of a merger. A failure detector's suspicions count as silence.
//! - Looks are `look` message delays apart for the best-ranked process and up to twice as much for the
//!   worst, so that the better one invites first.
//! - A process whose disk is lost may have used any number: it adds a random one to its groups' identity.
//! - `Transfer` is no more than an exception to the rule of sizes: the heir, told by `Handover`, leaves and
//!   invites its leader, which accepts. `Resign` transfers to the best-ranked follower; one that is alone
//!   leads itself by definition.

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
    /// As a leader: the next time to look for others.
    Look,
    /// As a leader: the next time to count whom it has not heard.
    Roll,
    /// As a leader that joins another: its `Ready`; as one that hands over: the heir's invitation.
    Ready,
    /// As a follower: the next time to ask the leader.
    Ask,
    /// As a follower: the leader's answer.
    Silence,
}

suffrage_core::timer_indices!(Timer { Look, Roll, Ready, Ask, Silence });

/// What outlives a crash: of the last group a process founded, what tells it from all others of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Founded {
    /// The group's number.
    pub number: Term,
    /// See [`Group::life`].
    pub life: u64,
}

/// A process of the invitation algorithm.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Invitation {
    options: Options,
    /// The group it is in, and whether it leads it.
    group: Group,
    /// The highest number of a group it has been in.
    number: Term,
    life: u64,
    /// As a leader: its followers, and how many of their questions are overdue.
    followers: BTreeMap<NodeId, u64>,
    /// As a leader: the group it is about to join.
    joining: Option<Group>,
    /// As a leader: the follower it hands over to.
    heir: Option<NodeId>,
    /// How many it looks at next.
    reach: usize,
    /// Whom it looks at next, or after that one if it is a follower or this process itself.
    next: NodeId,
}

impl Algorithm for Invitation {
    const CONTRACT: Contract = Contract {
        name: "invitation",
        summary: "Groups invite each other to merge, and the larger group's leader stays.",
        source: "Garcia-Molina 1982; Database Internals, ch. 10",
        topology: Topology::Complete,
        synchrony: Synchrony::Synchronous,
        knowledge: "all members; ranks only to decide who looks first",
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
            heir: None,
            reach: options.fanout,
            next: me,
        }
    }

    fn check(options: &Options, _: &Roster) -> Result<(), BadParameter> {
        options.check()
    }
}

/// How often a group of one must double to have `n` members: the binary logarithm, rounded up.
fn doublings(n: u64) -> u64 {
    n.max(1).next_power_of_two().trailing_zeros().into()
}

impl Invitation {
    fn leads(&self, cx: &Context<'_, Self>) -> bool {
        self.group.leader == cx.me()
    }

    /// How many are in the group, as far as its leader knows.
    fn size(&self) -> u64 {
        self.followers.len() as u64 + 1
    }

    /// Becomes the leader of a new group of one.
    fn found_group(&mut self, cx: &mut Context<'_, Self>) {
        self.number = self.number.next();
        cx.save(Founded { number: self.number, life: self.life });
        self.group = Group { leader: cx.me(), number: self.number, life: self.life };
        self.followers.clear();
        (self.joining, self.heir) = (None, None);
        self.reach = self.options.fanout;
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

    /// Becomes a follower in this group, together with its own followers if it led some.
    fn join_group(&mut self, cx: &mut Context<'_, Self>, group: Group) {
        if group.leader == cx.me() {
            // A circle: they were told to follow one that follows them.
            return self.found_group(cx);
        }
        for (follower, _) in std::mem::take(&mut self.followers) {
            cx.send(follower, Message::Merged { from: self.group, into: group });
        }
        self.group = group;
        self.number = self.number.max(group.number);
        (self.joining, self.heir) = (None, None);
        cx.cancel_timer(Timer::Look);
        cx.cancel_timer(Timer::Roll);
        cx.cancel_timer(Timer::Ready);
        cx.announce(Announcement::Elected { leader: group.leader, term: group.number });
        cx.set_timer(Timer::Ask, cx.delay_bound() * self.options.ask);
        cx.set_timer(Timer::Silence, cx.delay_bound() * self.options.silence);
    }

    /// The delay before the next look, longer for those that rank lower.
    fn until_look(&self, cx: &Context<'_, Self>) -> Span {
        let shortest = cx.delay_bound() * self.options.look;
        let better = cx.view().above().count() as f64 / cx.view().group_len() as f64;
        shortest + shortest.scale(better)
    }

    /// Invites the next peers outside the group, in ring order.
    fn look(&mut self, cx: &mut Context<'_, Self>) {
        cx.set_timer(Timer::Look, self.until_look(cx));
        if self.joining.is_some() || self.heir.is_some() {
            return;
        }
        let view = cx.view();
        let start = view.distance(self.next);
        let outside = || view.successors().filter(|peer| !self.followers.contains_key(peer));
        let ahead = outside().filter(|&peer| view.distance(peer) >= start);
        let around = outside().filter(|&peer| view.distance(peer) < start);
        let mut turn = ahead.chain(around);
        let peers: Vec<NodeId> = turn.by_ref().take(self.reach).collect();
        self.next = turn.next().or(peers.first().copied()).unwrap_or(cx.me());
        self.reach = self.reach.saturating_mul(2).min(view.group_len());
        for peer in peers {
            self.invite(cx, peer);
        }
    }

    fn invite(&self, cx: &mut Context<'_, Self>, peer: NodeId) {
        let rank = cx.view().my_rank();
        cx.send(peer, Message::Invitation { group: self.group, size: self.size(), rank });
    }

    fn on_invitation(&mut self, cx: &mut Context<'_, Self>, group: Group, size: u64, rank: Rank) {
        if !self.leads(cx) {
            return cx.send(group.leader, Message::Leader { group: self.group });
        }
        // Whoever invites leads a group of its own.
        self.followers.remove(&group.leader);
        self.reach = self.options.fanout;
        match self.joining {
            Some(joining) if joining == group => {}
            Some(joining) => cx.send(group.leader, Message::Leader { group: joining }),
            None if self.heir == Some(group.leader) || (size, rank) > (self.size(), cx.view().my_rank()) => {
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
        self.reach = self.options.fanout;
        self.followers.insert(from, 0);
        let members = followers.into_iter().filter(|&peer| peer != cx.me() && cx.view().contains(peer));
        self.followers.extend(members.map(|peer| (peer, 0)));
        cx.send(from, Message::Ready { group });
    }

    fn on_leader(&mut self, cx: &mut Context<'_, Self>, from: NodeId, group: Group) {
        if !self.leads(cx) {
            return;
        }
        self.reach = self.options.fanout;
        if self.joining.is_some_and(|joining| joining.leader == from) {
            self.joining = None;
            cx.cancel_timer(Timer::Ready);
        }
        if group == self.group {
            self.followers.insert(from, 0);
        } else if group.leader == cx.me() {
            self.redirect(cx, from, group);
        } else if self.joining.is_none() && self.heir.is_none() && !self.followers.contains_key(&group.leader)
        {
            self.invite(cx, group.leader);
        }
    }

    /// Tells one that takes this process for the leader of a group it has left where it is now.
    fn redirect(&mut self, cx: &mut Context<'_, Self>, follower: NodeId, group: Group) {
        if self.leads(cx) {
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

    /// Counts the questions that are overdue, and gives up those that have not asked for too long.
    fn call_roll(&mut self, cx: &mut Context<'_, Self>) {
        let most = self.options.silence.div_ceil(self.options.ask);
        self.followers.retain(|_, overdue| {
            *overdue += 1;
            *overdue <= most
        });
        cx.set_timer(Timer::Roll, cx.delay_bound() * self.options.ask);
    }

    fn ask(&self, cx: &mut Context<'_, Self>) {
        cx.send(self.group.leader, Message::AreYouThere { group: self.group });
        cx.set_timer(Timer::Ask, cx.delay_bound() * self.options.ask);
    }

    fn hand_over(&mut self, cx: &mut Context<'_, Self>, heir: NodeId) {
        if self.leads(cx) && self.joining.is_none() && self.followers.contains_key(&heir) {
            self.heir = Some(heir);
            cx.send(heir, Message::Handover { group: self.group });
            cx.set_timer(Timer::Ready, cx.delay_bound() * self.options.ready_timeout);
        }
    }
}

impl Process for Invitation {
    type Message = Message;
    type Timer = Timer;
    type Saved = Founded;
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, start: Start<Founded>) {
        match start {
            Start::Fresh => {}
            Start::Recovered(Some(founded)) => (self.number, self.life) = (founded.number, founded.life),
            Start::Recovered(None) => self.life = cx.rng().bits(),
        }
        self.found_group(cx);
    }

    fn on_message(&mut self, cx: &mut Context<'_, Self>, from: NodeId, message: Message) {
        // What leaders say of their own groups, and followers to their leaders, only they can say.
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
            Timer::Roll => self.call_roll(cx),
            Timer::Ready => (self.joining, self.heir) = (None, None),
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
            Command::Campaign if self.leads(cx) => self.look(cx),
            Command::Campaign => self.ask(cx),
            Command::Resign => {
                let best = self.followers.keys().copied().max_by_key(|&peer| cx.view().rank(peer));
                if let Some(heir) = best {
                    self.hand_over(cx, heir);
                }
            }
            Command::Transfer(heir) => self.hand_over(cx, heir),
        }
    }
}

#[cfg(test)]
mod tests;
