//! What is counted and remembered of a run.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::ops::Sub;

use serde::Serialize;
use suffrage_core::{Announcement, NodeId, Span, Term, Time};

use crate::Violation;
use crate::fingerprint::Fingerprint;

/// Whom a process believes to lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// Who.
    pub leader: NodeId,
    /// In which term.
    pub term: Term,
}

/// A process that believed itself the leader, from when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipPeriod {
    /// Who.
    pub leader: NodeId,
    /// Since when.
    pub from: Time,
    /// Until when; none if it still did at the end.
    pub to: Option<Time>,
}

/// A time in which all live processes believed in the same live leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreementPeriod {
    /// In whom.
    pub leader: NodeId,
    /// Since when.
    pub from: Time,
    /// Until when; none if they still did at the end.
    pub to: Option<Time>,
    /// What had been sent by then, since the run began.
    pub sent: Traffic,
}

/// How much was sent. A message to everybody counts once for each addressee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Messages, whether they count for the sources or not.
    pub messages: u64,
    /// Their bytes in the wire format; none where they were not weighed.
    pub bytes: u64,
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        Traffic { messages: self.messages - before.messages, bytes: self.bytes - before.bytes }
    }
}

/// The live processes that believe in somebody.
#[derive(Clone, Copy, Debug, Default)]
struct Followers {
    count: usize,
    /// Whether that one is among them.
    leads: bool,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Messages sent to one addressee, by kind.
    pub(crate) sent: Vec<u64>,
    /// Messages sent to everybody, by kind; each counts once.
    pub(crate) multicasts: Vec<u64>,
    /// The addressees of those, by kind.
    pub(crate) copies: Vec<u64>,
    /// The bytes of all that was sent, to each addressee, if they are counted.
    pub bytes: u64,
    /// Messages the network lost.
    pub lost: u64,
    /// Messages that met a cut.
    pub cut: u64,
    /// Messages to the dead.
    pub dead: u64,
    /// Messages the network doubled.
    pub duplicated: u64,
    /// Messages to no member of the group.
    pub unknown_receiver: u64,
    /// Inputs handled: messages, timers, suspicions, commands.
    pub events: u64,
    /// Suspicions of processes that could be heard.
    pub wrong_suspicions: u64,
    /// When the last message that counts was handled, or the last announcement made.
    pub active: Time,
    /// When the last announcement that changed a belief was made.
    pub decided: Time,
    /// Who believed itself the leader, and when.
    pub leaderships: Vec<LeadershipPeriod>,
    /// When all believed in the same live leader, and in whom.
    pub agreements: Vec<AgreementPeriod>,
    /// Promises that were broken, the first of each.
    pub violations: Vec<Violation>,
    count: usize,
    /// How many processes live.
    pub(crate) live: usize,
    /// By slot; empty until the first announcement, so that what elects nobody pays nothing.
    beliefs: Vec<Option<Belief>>,
    /// By slot, until when a process leads by its own clock; empty until one says so.
    leases: Vec<Option<Time>>,
    followers: BTreeMap<NodeId, Followers>,
    pub(crate) fingerprint: Fingerprint,
}

impl Ledger {
    /// The ledger of so many processes that send so many kinds of messages.
    pub(crate) fn of(count: usize, kinds: usize) -> Ledger {
        let zeros = vec![0; kinds];
        Ledger {
            sent: zeros.clone(),
            multicasts: zeros.clone(),
            copies: zeros,
            count,
            live: count,
            ..Ledger::default()
        }
    }

    /// What has been sent so far.
    pub fn traffic(&self) -> Traffic {
        Traffic { messages: self.sent.iter().chain(&self.copies).sum(), bytes: self.bytes }
    }

    /// How many messages of a kind were sent to one addressee.
    pub fn sent(&self, kind: usize) -> u64 {
        self.sent[kind]
    }

    /// What the process in this slot believes.
    pub fn belief(&self, slot: usize) -> Option<Belief> {
        self.beliefs.get(slot).copied().flatten()
    }

    /// Until when the process in this slot leads by its own clock, if it said so.
    pub(crate) fn lease(&self, slot: usize) -> Option<Time> {
        self.leases.get(slot).copied().flatten()
    }

    pub(crate) fn lease_until(&mut self, slot: usize, end: Time) {
        if self.leases.is_empty() {
            self.leases = vec![None; self.count];
        }
        self.leases[slot] = Some(end);
    }

    fn end_lease(&mut self, slot: usize) {
        if let Some(lease) = self.leases.get_mut(slot) {
            *lease = None;
        }
    }

    /// A process says what it believes. If it no longer leads, that has been so for `overdue`.
    pub(crate) fn record_announcement(
        &mut self,
        slot: usize,
        who: NodeId,
        announcement: Announcement,
        now: Time,
        overdue: Span,
    ) {
        if self.beliefs.is_empty() {
            self.beliefs = vec![None; self.count];
        }
        let belief = match announcement {
            Announcement::Elected { leader, term } => Some(Belief { leader, term }),
            Announcement::SteppedDown | Announcement::Undecided => None,
        };
        let led = self.leads(slot, who);
        self.active = now;
        if self.beliefs[slot] != belief {
            self.decided = now;
        }
        self.set_belief(slot, who, belief);
        match (led, self.leads(slot, who)) {
            (false, true) => self.leaderships.push(LeadershipPeriod { leader: who, from: now, to: None }),
            (true, false) => {
                self.end_lease(slot);
                self.end_leadership(who, Time::from_nanos(now.as_nanos().saturating_sub(overdue.as_nanos())));
            }
            _ => {}
        }
        self.update_agreement(now);
    }

    /// Changes a belief, and who follows whom.
    fn set_belief(&mut self, slot: usize, who: NodeId, belief: Option<Belief>) {
        let before = std::mem::replace(&mut self.beliefs[slot], belief).map(|belief| belief.leader);
        let after = belief.map(|belief| belief.leader);
        if before == after {
            return;
        }
        if let Some(leader) = before {
            let group = self.followers.get_mut(&leader).expect("who is believed in has believers");
            group.count -= 1;
            group.leads &= leader != who;
            if group.count == 0 {
                self.followers.remove(&leader);
            }
        }
        if let Some(leader) = after {
            let group = self.followers.entry(leader).or_default();
            group.count += 1;
            group.leads |= leader == who;
        }
    }

    /// Takes note if all have come to agree, or cease to. One that leads believes in itself, so that
    /// all agree on a live leader if it is among those who do.
    fn update_agreement(&mut self, now: Time) {
        let all = |(_, group): &(&NodeId, &Followers)| group.count == self.live && group.leads;
        let leader = self.followers.first_key_value().filter(all).map(|(leader, _)| *leader);
        let open = self.agreements.last_mut().filter(|agreement| agreement.to.is_none());
        if open.as_ref().map(|agreement| agreement.leader) == leader {
            return;
        }
        if let Some(agreement) = open {
            agreement.to = Some(now);
        }
        if let Some(leader) = leader {
            let sent = self.traffic();
            self.agreements.push(AgreementPeriod { leader, from: now, to: None, sent });
        }
    }

    /// A dead process comes back, and believes nothing yet.
    pub(crate) fn record_recovery(&mut self, now: Time) {
        self.live += 1;
        self.update_agreement(now);
    }

    fn leads(&self, slot: usize, who: NodeId) -> bool {
        self.belief(slot).is_some_and(|belief| belief.leader == who)
    }

    /// A process that died believes nothing.
    pub(crate) fn record_crash(&mut self, slot: usize, who: NodeId, now: Time) {
        if self.leads(slot, who) {
            self.end_leadership(who, now);
        }
        self.end_lease(slot);
        if !self.beliefs.is_empty() {
            self.set_belief(slot, who, None);
            self.update_agreement(now);
        }
    }

    fn end_leadership(&mut self, who: NodeId, now: Time) {
        let period =
            self.leaderships.iter_mut().rev().find(|period| period.leader == who && period.to.is_none());
        period.expect("who leads began to").to = Some(now);
    }

    /// The fingerprint of everything that happened, in order.
    pub fn trace_hash(&self) -> u64 {
        self.fingerprint.finish()
    }
}
