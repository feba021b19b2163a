//! The counts and beliefs of a run.

use std::collections::BTreeMap;
use std::hash::Hasher as _;
use std::ops::Sub;

use serde::Serialize;
use suffrage_core::{Announcement, NodeId, Span, Term, Time};

use crate::Violation;
use crate::fingerprint::Fingerprint;

/// The leader that a process believes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The leader.
    pub leader: NodeId,
    /// The term.
    pub term: Term,
}

/// A period in which a process believed itself the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeadershipPeriod {
    /// The process.
    pub leader: NodeId,
    /// The beginning.
    pub from: Time,
    /// The end; none if the period lasted to the end of the run.
    pub to: Option<Time>,
}

/// A period in which all live processes believed in the same live leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AgreementPeriod {
    /// The leader.
    pub leader: NodeId,
    /// The beginning.
    pub from: Time,
    /// The end; none if the period lasted to the end of the run.
    pub to: Option<Time>,
    /// The traffic from the start of the run to the beginning of the period.
    pub sent: Traffic,
}

/// The number of messages sent, and their bytes. A multicast counts once for each addressee.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// All messages, including those that the source does not count.
    pub messages: u64,
    /// Their bytes in the wire format; 0 if bytes are not counted.
    pub bytes: u64,
}

impl Sub for Traffic {
    type Output = Traffic;

    fn sub(self, before: Traffic) -> Traffic {
        Traffic { messages: self.messages - before.messages, bytes: self.bytes - before.bytes }
    }
}

/// The live processes that believe in one leader.
#[derive(Clone, Copy, Debug, Default)]
struct Followers {
    count: usize,
    /// True if the leader is among them.
    leads: bool,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Messages sent to one addressee, by kind.
    pub(crate) sent: Vec<u64>,
    /// Multicasts, by kind; each counts once.
    pub(crate) multicasts: Vec<u64>,
    /// The addressees of the multicasts, by kind.
    pub(crate) copies: Vec<u64>,
    /// The bytes of all messages to each addressee, if bytes are counted.
    pub bytes: u64,
    /// Messages that the network lost.
    pub lost: u64,
    /// Messages that a cut stopped.
    pub cut: u64,
    /// Messages to dead processes.
    pub dead: u64,
    /// Messages that the network duplicated.
    pub duplicated: u64,
    /// Messages to ids that are not in the group.
    pub unknown_receiver: u64,
    /// Inputs handled: messages, timers, suspicions, commands.
    pub events: u64,
    /// Suspicions of processes whose messages could arrive.
    pub wrong_suspicions: u64,
    /// The time of the last counted message that was handled, or of the last announcement.
    pub active: Time,
    /// The time of the last announcement that changed a belief.
    pub decided: Time,
    /// The periods in which processes believed themselves the leader.
    pub leaderships: Vec<LeadershipPeriod>,
    /// The periods in which all live processes believed in the same live leader.
    pub agreements: Vec<AgreementPeriod>,
    /// The first violation of each invariant.
    pub violations: Vec<Violation>,
    count: usize,
    /// The number of live processes.
    pub(crate) live: usize,
    /// The beliefs by slot. Empty until the first announcement, to save memory.
    beliefs: Vec<Option<Belief>>,
    /// The ends of leases by slot, by the process's own clock. Empty until the first lease.
    leases: Vec<Option<Time>>,
    followers: BTreeMap<NodeId, Followers>,
    pub(crate) fingerprint: Fingerprint,
}

impl Ledger {
    /// The ledger of `count` processes that send `kinds` kinds of messages.
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

    /// The traffic so far.
    pub fn traffic(&self) -> Traffic {
        Traffic { messages: self.sent.iter().chain(&self.copies).sum(), bytes: self.bytes }
    }

    /// The number of messages of a kind, without multicasts.
    pub fn sent(&self, kind: usize) -> u64 {
        self.sent[kind]
    }

    /// The belief of the process in this slot.
    pub fn belief(&self, slot: usize) -> Option<Belief> {
        self.beliefs.get(slot).copied().flatten()
    }

    /// The end of the lease of the process in this slot by its own clock, if it announced one.
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

    /// Records an announcement. A leadership that ends with it ended `overdue` before.
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

    /// Changes a belief, and the followers of the leaders concerned.
    fn set_belief(&mut self, slot: usize, who: NodeId, belief: Option<Belief>) {
        let before = std::mem::replace(&mut self.beliefs[slot], belief).map(|belief| belief.leader);
        let after = belief.map(|belief| belief.leader);
        if before == after {
            return;
        }
        if let Some(leader) = before {
            let group = self.followers.get_mut(&leader).expect("a leader that is believed in has followers");
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

    /// Begins or ends a period of agreement. A leader believes in itself, so all processes agree on a live leader if the
    /// leader is among its followers and their number is that of the live processes.
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

    /// Records the recovery of a process, which has no belief yet.
    pub(crate) fn record_recovery(&mut self, now: Time) {
        self.live += 1;
        self.update_agreement(now);
    }

    fn leads(&self, slot: usize, who: NodeId) -> bool {
        self.belief(slot).is_some_and(|belief| belief.leader == who)
    }

    /// Records the crash of a process: its belief and its lease end.
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
        period.expect("a leader has an open period").to = Some(now);
    }

    /// The fingerprint of everything that happened, in order.
    pub fn trace_hash(&self) -> u64 {
        self.fingerprint.finish()
    }
}
