//! One state of the model.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use suffrage_core::{Algorithm, Announcement, NodeId, Safety, Term, Time, Timer as _};

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Envelope<M> {
    /// The sender's slot.
    pub from: usize,
    /// The receiver's slot.
    pub to: usize,
    /// In a synchronous model, the last tick at which the message arrives.
    pub due: u8,
    /// The message.
    pub message: M,
}

/// A process with its disk, timers and clock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<A: Algorithm> {
    /// The process.
    pub process: A,
    /// The saved state.
    pub disk: Option<A::Saved>,
    /// The timers that are set, by index, each with the time at which it fires by the process's own clock.
    pub timers: Vec<Option<(A::Timer, Time)>>,
    /// The reading of the clock, where clocks are independent of each other.
    pub clock: Time,
    /// The rate of the clock, in millionths.
    pub rate: u32,
    /// The last announcement.
    pub belief: Announcement,
    /// The end of the lease by the process's own clock, if it announced one.
    pub lead_until: Option<Time>,
    /// The number of restarts.
    pub restarts: usize,
    /// The number of elections that the process may still call.
    pub campaigns: u8,
}

/// The number of events of each kind that are left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) timers: u8,
    pub(crate) duplicates: u8,
    pub(crate) losses: u8,
    pub(crate) restarts: u8,
    pub(crate) wipes: u8,
    pub(crate) resigns: u8,
    pub(crate) transfers: u8,
    /// A bit for each command of [`Bounds::commands`](crate::Bounds::commands) that has not been given.
    pub(crate) commands: u32,
}

/// The part of the past that claims refer to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// The leader of each term. Of fencing tokens only the greatest; empty if the contract promises nothing about
    /// terms.
    leaderships: BTreeMap<Term, NodeId>,
    /// True if a process began to lead after another one had led.
    pub leader_changed: bool,
    /// True if a process began to lead after all commands had been given. False if the bounds have no commands.
    pub led_after_commands: bool,
    /// True if a process began to lead with a token that was not greater than all before.
    pub token_not_increased: bool,
    /// True if two processes led in one term.
    pub two_leaders_in_a_term: bool,
    /// True if a leader got another token before its lease expired.
    pub token_replaced: bool,
}

/// One state of the model. Two schedules that lead to the same state give equal values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelState<A: Algorithm> {
    pub(crate) nodes: Vec<Arc<Node<A>>>,
    /// The hashes of the processes. A step changes one process, so only its hash is computed again.
    digests: Vec<u64>,
    /// The messages with their hashes, sorted by hash, so that the order of sending does not matter.
    in_flight: Vec<(u64, Arc<Envelope<A::Message>>)>,
    pub(crate) tick: u8,
    pub(crate) budget: Budget,
    pub(crate) history: History,
}

impl<A: Algorithm> Node<A> {
    pub(crate) fn new(process: A, rate: u32, campaigns: u8) -> Node<A> {
        Node {
            process,
            disk: None,
            timers: vec![None; A::Timer::COUNT],
            clock: Time::ZERO,
            rate,
            belief: Announcement::Undecided,
            lead_until: None,
            restarts: 0,
            campaigns,
        }
    }

    /// The timers that fire first, with their indices.
    pub(crate) fn next_timers(&self) -> impl Iterator<Item = (usize, Time)> {
        let first = self.timers.iter().flatten().map(|&(_, at)| at).min();
        let due = move |timer: &Option<(A::Timer, Time)>| timer.filter(|&(_, at)| Some(at) == first);
        self.timers.iter().enumerate().filter_map(move |(index, timer)| Some((index, due(timer)?.1)))
    }
}

impl<A: Algorithm> ModelState<A> {
    pub(crate) fn new(nodes: Vec<Node<A>>, budget: Budget) -> ModelState<A> {
        let digests = nodes.iter().map(digest).collect();
        let nodes = nodes.into_iter().map(Arc::new).collect();
        ModelState { nodes, digests, in_flight: Vec::new(), tick: 0, budget, history: History::default() }
    }

    /// Computes the hash of the process in this slot again, after a change.
    pub(crate) fn update_digest(&mut self, slot: usize) {
        self.digests[slot] = digest(&*self.nodes[slot]);
    }

    /// The processes, by slot.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node<A>> {
        self.nodes.iter().map(AsRef::as_ref)
    }

    /// The messages in flight.
    pub fn envelopes(&self) -> impl ExactSizeIterator<Item = &Envelope<A::Message>> {
        self.in_flight.iter().map(|(_, envelope)| envelope.as_ref())
    }

    /// The part of the past that claims refer to.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The indices of the messages in flight; of equal messages, the first index.
    pub(crate) fn distinct_envelopes(&self) -> impl Iterator<Item = usize> {
        let first = |&index: &usize| index == 0 || self.in_flight[index] != self.in_flight[index - 1];
        (0..self.in_flight.len()).filter(first)
    }

    pub(crate) fn envelope(&self, index: usize) -> &Arc<Envelope<A::Message>> {
        &self.in_flight[index].1
    }

    pub(crate) fn remove_envelope(&mut self, index: usize) -> Arc<Envelope<A::Message>> {
        self.in_flight.remove(index).1
    }

    pub(crate) fn insert_envelope(&mut self, envelope: Envelope<A::Message>) {
        let hash = digest(&envelope);
        let index = self.in_flight.partition_point(|&(other, _)| other < hash);
        self.in_flight.insert(index, (hash, Arc::new(envelope)));
    }
}

/// Hashes all fields: processes and messages by their digests.
impl<A: Algorithm> Hash for ModelState<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let ModelState { nodes: _, digests, in_flight, tick, budget, history } = self;
        (digests, tick, budget, history, in_flight.len()).hash(state);
        for (digest, _) in in_flight {
            digest.hash(state);
        }
    }
}

fn digest(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}

impl History {
    /// Records that `leader` has begun to lead in this term.
    pub(crate) fn record_leader(&mut self, safety: Safety, leader: NodeId, term: Term) {
        match safety {
            Safety::AtMostOne => {
                if let Some((&greatest, &before)) = self.leaderships.last_key_value() {
                    self.token_not_increased |= term <= greatest;
                    self.leader_changed |= leader != before;
                    if term <= greatest {
                        return;
                    }
                }
                self.leaderships = BTreeMap::from([(term, leader)]);
            }
            Safety::AtMostOnePerTerm => {
                self.leader_changed |= self.leaderships.values().any(|&other| other != leader);
                let first = *self.leaderships.entry(term).or_insert(leader);
                self.two_leaders_in_a_term |= first != leader;
            }
            Safety::AtMostOnePerComponent | Safety::WithHighProbability | Safety::Eventual => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(safety: Safety, leaderships: &[(u64, u64)]) -> History {
        let mut history = History::default();
        for &(leader, term) in leaderships {
            history.record_leader(safety, NodeId(leader), Term(term));
        }
        history
    }

    #[test]
    fn a_token_must_be_greater_than_all_tokens_before() {
        let tokens = |leaderships| after(Safety::AtMostOne, leaderships);
        assert!(!tokens(&[(1, 5), (2, 6), (1, 9)]).token_not_increased);
        for fallen in [&[(1, 5), (2, 5)][..], &[(1, 5), (1, 5)], &[(1, 5), (2, 4)], &[(1, 5), (2, 4), (2, 6)]]
        {
            assert!(tokens(fallen).token_not_increased, "{fallen:?}");
        }
        assert!(!tokens(&[(1, 5), (1, 6)]).leader_changed);
        assert!(tokens(&[(1, 5), (2, 6)]).leader_changed);
    }

    #[test]
    fn a_term_may_have_one_leader_only() {
        let terms = |leaderships| after(Safety::AtMostOnePerTerm, leaderships);
        assert!(!terms(&[(1, 2), (2, 1), (1, 2)]).two_leaders_in_a_term);
        assert!(terms(&[(1, 2), (2, 3), (2, 2)]).two_leaders_in_a_term);
        assert!(terms(&[(1, 2), (2, 3)]).leader_changed && !terms(&[(1, 2), (1, 3)]).leader_changed);
    }
}
