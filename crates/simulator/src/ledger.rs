//! What is counted and remembered of a run.

use std::hash::Hasher as _;

use election::{Announcement, NodeId, Process, Term, Time};

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
pub struct Reign {
    /// Who.
    pub leader: NodeId,
    /// Since when.
    pub from: Time,
    /// Until when; none if it still did at the end.
    pub to: Option<Time>,
}

/// The counts of a run.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// Messages sent to one addressee, by kind.
    pub(crate) sent: Vec<u64>,
    /// Messages sent to everybody, by kind; each counts once.
    pub(crate) multicasts: Vec<u64>,
    /// Messages the network lost.
    pub lost: u64,
    /// Messages that met a cut.
    pub cut: u64,
    /// Messages to the dead.
    pub dead: u64,
    /// Messages the network doubled.
    pub doubled: u64,
    /// Messages to no member of the group.
    pub strange: u64,
    /// Inputs handled: messages, timers, suspicions, commands.
    pub events: u64,
    /// Suspicions of processes that could be heard.
    pub wrong_suspicions: u64,
    /// When the last message that counts was handled, or the last announcement made.
    pub active: Time,
    /// When the last announcement that changed a belief was made.
    pub decided: Time,
    /// Who believed itself the leader, and when.
    pub reigns: Vec<Reign>,
    /// Promises that were broken, the first of each.
    pub violations: Vec<Violation>,
    /// By slot; empty until the first announcement, so that what elects nobody pays nothing.
    beliefs: Vec<Option<Belief>>,
    pub(crate) fingerprint: Fingerprint,
}

impl Ledger {
    pub(crate) fn new<P: Process>() -> Ledger {
        let kinds = <P::Message as election::Message>::KINDS.len();
        Ledger { sent: vec![0; kinds], multicasts: vec![0; kinds], ..Ledger::default() }
    }

    /// How many messages of a kind were sent to one addressee.
    pub fn sent(&self, kind: usize) -> u64 {
        self.sent[kind]
    }

    /// What the process in this slot believes.
    pub fn belief(&self, slot: usize) -> Option<Belief> {
        self.beliefs.get(slot).copied().flatten()
    }

    pub(crate) fn believe(
        &mut self,
        slot: usize,
        count: usize,
        who: NodeId,
        announcement: Announcement,
        now: Time,
    ) {
        if self.beliefs.is_empty() {
            self.beliefs = vec![None; count];
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
        self.beliefs[slot] = belief;
        match (led, self.leads(slot, who)) {
            (false, true) => self.reigns.push(Reign { leader: who, from: now, to: None }),
            (true, false) => self.end_reign(who, now),
            _ => {}
        }
    }

    fn leads(&self, slot: usize, who: NodeId) -> bool {
        self.belief(slot).is_some_and(|belief| belief.leader == who)
    }

    /// A process that died believes nothing.
    pub(crate) fn forget(&mut self, slot: usize, who: NodeId, now: Time) {
        if self.leads(slot, who) {
            self.end_reign(who, now);
        }
        if let Some(belief) = self.beliefs.get_mut(slot) {
            *belief = None;
        }
    }

    fn end_reign(&mut self, who: NodeId, now: Time) {
        let reign = self.reigns.iter_mut().rev().find(|reign| reign.leader == who && reign.to.is_none());
        reign.expect("who leads began to").to = Some(now);
    }

    /// The fingerprint of everything that happened, in order.
    pub fn trace_hash(&self) -> u64 {
        self.fingerprint.finish()
    }
}
