//! The leader: the member with the greatest claim among the living.
//!
//! A claim is part of the record of the member that makes it: a term, and the size of the group at the time. Members with
//! equal lists therefore believe in the same leader. A member claims when nobody alive has a claim and no better candidate
//! is alive. A leader that hears of a greater claim withdraws its own.

use suffrage_core::{Announcement, Attribute, Command, Context, NodeId, Span, Term, Time};

use super::{Group, Timer};
use crate::message::Message;
use crate::record::Record;
use crate::settings::Bug;

/// How long the best candidate waits after the loss of the leader: the news of its death reaches others first.
const FIRST_CLAIM: Span = Span::from_millis(100);
/// How much longer each following candidate waits, in case that those before it do not claim.
const NEXT_CLAIM: Span = Span::from_millis(1_000);
/// The candidates after which the order no longer matters: the others wait for a random time.
const ORDERED: usize = 5;
/// How long a leader that resigned does not stand.
const RESIGNED: Span = Span::from_millis(10_000);

/// A claim: size, term, rank and id of its leader, in the order of comparison.
type Claim = (u8, u32, Attribute, NodeId);

/// What a member believes about the leader.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Election {
    pub(super) leader: Option<Claim>,
    /// The greatest term of any claim.
    term: u32,
    leaderless_since: Time,
    /// The earliest time at which this member claims.
    earliest: Time,
    /// The end of the time in which this member does not stand because it resigned.
    resigned_until: Option<Time>,
    announced: Option<(NodeId, u32)>,
}

/// The size of a group as a power of two.
fn magnitude(count: usize) -> u8 {
    count.max(1).ilog2() as u8
}

impl Group {
    pub(super) fn start_election(&mut self, cx: &mut Context<'_, Self>) {
        self.election.leaderless_since = cx.now();
        self.election.earliest = cx.now() + self.settings.settle;
        cx.set_timer(Timer::Election, self.settings.settle);
    }

    /// A record is new, or has replaced another.
    pub(super) fn on_record(&mut self, cx: &mut Context<'_, Self>, replaced: Option<Record>, record: Record) {
        self.election.term = self.election.term.max(record.term);
        let claim = record.claim();
        let was_leader = self.election.leader.is_some_and(|(.., id)| id == record.id);
        if claim.is_some() && replaced.is_none_or(|before| before.claim() != claim) && record.id != self.me {
            self.flood(cx, record.id);
        }
        if was_leader || claim > self.election.leader {
            self.find_leader(cx);
        }
    }

    pub(super) fn on_burial(&mut self, cx: &mut Context<'_, Self>, id: NodeId) {
        if self.election.leader.is_some_and(|(.., leader)| leader == id) {
            self.flood(cx, id);
            self.find_leader(cx);
        }
    }

    fn find_leader(&mut self, cx: &mut Context<'_, Self>) {
        let leader = self.table.live().iter().filter_map(Record::claim).max();
        if leader.is_none() && self.election.leader.is_some() {
            self.election.leaderless_since = cx.now();
        }
        self.election.leader = leader;
        if leader.is_none() {
            self.set_election_timer(cx);
        }
        self.announce(cx);
        if leader.is_some_and(|(.., id)| id != self.me)
            && self.record().term > 0
            && !self.has_bug(Bug::KeepClaim)
        {
            self.withdraw(cx);
        }
        self.review_watch(cx);
    }

    fn announce(&mut self, cx: &mut Context<'_, Self>) {
        let leader = self.election.leader.map(|(_, term, _, id)| (id, term));
        if leader == self.election.announced {
            return;
        }
        let led = self.election.announced.is_some_and(|(id, _)| id == self.me);
        self.election.announced = leader;
        self.counters.leader_changes += 1;
        cx.announce(match leader {
            Some((leader, term)) => Announcement::Elected { leader, term: Term(term.into()) },
            None if led => Announcement::SteppedDown,
            None => Announcement::Undecided,
        });
    }

    /// The time from the loss of the leader to the claim of this member; `None` if it does not stand. The candidates
    /// before it are those that are better, alive and not suspected.
    fn claim_delay(&self, cx: &mut Context<'_, Self>) -> Option<Span> {
        let mine = self.record();
        if !mine.stands {
            return None;
        }
        let is_better = |record: &&Record| {
            record.stands && record.rank() > mine.rank() && !self.suspicions.contains_key(&record.id)
        };
        let better = self.table.live().iter().filter(is_better).take(ORDERED).count();
        let random = if better < ORDERED { 0 } else { cx.rng().below((NEXT_CLAIM * 10).as_nanos()) };
        Some(FIRST_CLAIM + NEXT_CLAIM * better as u64 + Span::from_nanos(random))
    }

    fn set_election_timer(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(delay) = self.claim_delay(cx) {
            let at = (self.election.leaderless_since + delay).max(self.election.earliest);
            cx.set_timer(Timer::Election, at.since(cx.now()).max(FIRST_CLAIM));
        }
    }

    pub(super) fn on_election_timer(&mut self, cx: &mut Context<'_, Self>) {
        if let Some(until) = self.election.resigned_until
            && cx.now() >= until
        {
            self.election.resigned_until = None;
            let stands = self.settings.stands;
            self.update_record(cx, |record| record.stands = stands);
        }
        if let Some(until) = self.election.resigned_until {
            return cx.set_timer(Timer::Election, until.since(cx.now()));
        }
        if self.election.leader.is_some() {
            return;
        }
        // A member that knows nobody gives its seeds more time.
        let alone = self.table.live().len() == 1 && !self.settings.seeds.is_empty();
        let earliest = self.election.earliest + if alone { self.settings.settle } else { Span::ZERO };
        let delay = self.claim_delay(cx);
        let is_due = |delay: Span| cx.now() >= self.election.leaderless_since + delay && cx.now() >= earliest;
        if delay.is_some_and(is_due) {
            self.claim(cx);
        } else {
            cx.set_timer(Timer::Election, delay.unwrap_or(NEXT_CLAIM).min(NEXT_CLAIM));
        }
    }

    fn claim(&mut self, cx: &mut Context<'_, Self>) {
        if self.has_bug(Bug::NeverClaimAgain) && self.election.term > 0 {
            return;
        }
        self.election.term = self.election.term.saturating_add(1);
        let (term, size) = (self.election.term, magnitude(self.table.live().len()));
        self.update_record(cx, |record| (record.term, record.size) = (term, size));
        self.flood(cx, self.me);
        self.find_leader(cx);
    }

    fn withdraw(&mut self, cx: &mut Context<'_, Self>) {
        self.update_record(cx, |record| (record.term, record.size) = (0, 0));
        self.flood(cx, self.me);
    }

    /// A leader tells how large the group is, when that has changed much.
    pub(super) fn review_claim(&mut self, cx: &mut Context<'_, Self>) {
        let (record, count) = (self.record(), self.table.live().len());
        let grew = magnitude(count) > record.size;
        let shrank = count < (3usize << record.size) / 4;
        if record.term > 0 && (grew || shrank) {
            self.update_record(cx, |record| record.size = magnitude(count));
            self.find_leader(cx);
        }
    }

    pub(super) fn on_common_command(&mut self, cx: &mut Context<'_, Self>, command: Command) {
        let leads = self.election.leader.is_some_and(|(.., id)| id == self.me);
        match command {
            Command::Campaign if !leads && self.record().stands => self.claim(cx),
            Command::Campaign => {}
            Command::Resign if leads => {
                self.election.resigned_until = Some(cx.now() + RESIGNED);
                self.update_record(cx, |record| {
                    (record.term, record.size, record.stands) = (0, 0, false);
                });
                self.flood(cx, self.me);
                self.find_leader(cx);
                cx.set_timer(Timer::Election, RESIGNED);
            }
            Command::Transfer(to) if leads && to != self.me && self.table.get(to).is_some() => {
                cx.send(to, Message::TakeOver { term: self.record().term });
            }
            Command::Resign | Command::Transfer(_) => {}
        }
    }

    /// The leader asks this member to lead. The leader withdraws when it hears of the claim.
    pub(super) fn on_take_over(&mut self, cx: &mut Context<'_, Self>, from: NodeId, term: u32) {
        let asked_by_leader = self.election.leader.is_some_and(|(_, own, _, id)| id == from && own == term);
        if asked_by_leader && self.record().stands {
            self.claim(cx);
        }
    }

    pub(super) fn on_leave(&mut self, cx: &mut Context<'_, Self>) {
        self.election.leader = None;
        self.announce(cx);
    }
}
