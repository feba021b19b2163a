//! One state of a small world.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use suffrage_core::{Algorithm, Announcement, NodeId, Safety, Term, Time, Timer as _};

/// A message in flight.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Letter<M> {
    /// Who sent it, by slot.
    pub from: usize,
    /// To whom, by slot.
    pub to: usize,
    /// In a synchronous world, the tick after which it is too late.
    pub due: u8,
    /// What it says.
    pub message: M,
}

/// A process, with all that is its own.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node<A: Algorithm> {
    /// The process itself.
    pub process: A,
    /// What it has saved.
    pub disk: Option<A::Saved>,
    /// What it waits for, by the timer's index, and until when by its own clock.
    pub timers: Vec<Option<(A::Timer, Time)>>,
    /// Its own clock, where that has nothing to do with others.
    pub clock: Time,
    /// How fast its clock runs, in millionths.
    pub rate: u32,
    /// What it last said that it believes.
    pub belief: Announcement,
    /// Until when it leads by its own clock, if it has said so.
    pub lead_until: Option<Time>,
    /// How often it came back from a crash.
    pub restarts: usize,
    /// How often it may yet call an election.
    pub campaigns: u8,
}

/// What may yet happen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Budget {
    pub(crate) timers: u8,
    pub(crate) duplicates: u8,
    pub(crate) losses: u8,
    pub(crate) restarts: u8,
    pub(crate) wipes: u8,
    pub(crate) resigns: u8,
    pub(crate) transfers: u8,
}

/// What has happened, as far as anything is claimed about it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct History {
    /// Who has led in which term: of tokens the greatest only, and nothing where terms are no promise.
    leaderships: BTreeMap<Term, NodeId>,
    /// Whether one began to lead who was not the one before.
    pub changed_hands: bool,
    /// Whether one began to lead with a token that was not greater than all before.
    pub token_fell: bool,
    /// Whether two led in one term.
    pub term_shared: bool,
    /// Whether one that led was given another token before its lease was over.
    pub token_swapped: bool,
}

/// One state of a small world: a value, the same whichever way it was reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct World<A: Algorithm> {
    pub(crate) nodes: Vec<Arc<Node<A>>>,
    /// The hashes of the processes: a step changes one process, and the others need not be hashed again.
    digests: Vec<u64>,
    /// With their hashes, and in the order of those, so that it is the same whichever was sent first.
    flight: Vec<(u64, Arc<Letter<A::Message>>)>,
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

    /// The timers that run out first, with their indices.
    pub(crate) fn next_timers(&self) -> impl Iterator<Item = (usize, Time)> {
        let first = self.timers.iter().flatten().map(|&(_, at)| at).min();
        let due = move |timer: &Option<(A::Timer, Time)>| timer.filter(|&(_, at)| Some(at) == first);
        self.timers.iter().enumerate().filter_map(move |(index, timer)| Some((index, due(timer)?.1)))
    }
}

impl<A: Algorithm> World<A> {
    pub(crate) fn new(nodes: Vec<Node<A>>, budget: Budget) -> World<A> {
        let digests = nodes.iter().map(digest).collect();
        let nodes = nodes.into_iter().map(Arc::new).collect();
        World { nodes, digests, flight: Vec::new(), tick: 0, budget, history: History::default() }
    }

    /// To be called when the process in this slot has changed.
    pub(crate) fn seal(&mut self, slot: usize) {
        self.digests[slot] = digest(&*self.nodes[slot]);
    }

    /// The processes, by slot.
    pub fn nodes(&self) -> impl ExactSizeIterator<Item = &Node<A>> {
        self.nodes.iter().map(AsRef::as_ref)
    }

    /// The messages in flight.
    pub fn letters(&self) -> impl ExactSizeIterator<Item = &Letter<A::Message>> {
        self.flight.iter().map(|(_, letter)| letter.as_ref())
    }

    /// What has happened.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// The places of the letters in flight; of equal ones, that of the first.
    pub(crate) fn places(&self) -> impl Iterator<Item = usize> {
        let first = |&place: &usize| place == 0 || self.flight[place] != self.flight[place - 1];
        (0..self.flight.len()).filter(first)
    }

    pub(crate) fn letter(&self, place: usize) -> &Arc<Letter<A::Message>> {
        &self.flight[place].1
    }

    pub(crate) fn take_out(&mut self, place: usize) -> Arc<Letter<A::Message>> {
        self.flight.remove(place).1
    }

    pub(crate) fn put_in(&mut self, letter: Letter<A::Message>) {
        let hash = digest(&letter);
        let place = self.flight.partition_point(|&(other, _)| other < hash);
        self.flight.insert(place, (hash, Arc::new(letter)));
    }
}

/// Nothing is left out: processes and letters are hashed by their digests.
impl<A: Algorithm> Hash for World<A> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let World { nodes: _, digests, flight, tick, budget, history } = self;
        (digests, tick, budget, history, flight.len()).hash(state);
        for (digest, _) in flight {
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
    /// Takes note that `leader` has begun to lead in this term.
    pub(crate) fn note(&mut self, safety: Safety, leader: NodeId, term: Term) {
        match safety {
            Safety::AtMostOne => {
                if let Some((&greatest, &before)) = self.leaderships.last_key_value() {
                    self.token_fell |= term <= greatest;
                    self.changed_hands |= leader != before;
                    if term <= greatest {
                        return;
                    }
                }
                self.leaderships = BTreeMap::from([(term, leader)]);
            }
            Safety::AtMostOnePerTerm => {
                self.changed_hands |= self.leaderships.values().any(|&other| other != leader);
                let first = *self.leaderships.entry(term).or_insert(leader);
                self.term_shared |= first != leader;
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
            history.note(safety, NodeId(leader), Term(term));
        }
        history
    }

    #[test]
    fn a_token_must_be_greater_than_all_before_whoever_had_it() {
        let tokens = |leaderships| after(Safety::AtMostOne, leaderships);
        assert!(!tokens(&[(1, 5), (2, 6), (1, 9)]).token_fell);
        for fallen in [&[(1, 5), (2, 5)][..], &[(1, 5), (1, 5)], &[(1, 5), (2, 4)], &[(1, 5), (2, 4), (2, 6)]]
        {
            assert!(tokens(fallen).token_fell, "{fallen:?}");
        }
        assert!(!tokens(&[(1, 5), (1, 6)]).changed_hands);
        assert!(tokens(&[(1, 5), (2, 6)]).changed_hands);
    }

    #[test]
    fn a_term_may_have_one_leader_only() {
        let terms = |leaderships| after(Safety::AtMostOnePerTerm, leaderships);
        assert!(!terms(&[(1, 2), (2, 1), (1, 2)]).term_shared);
        assert!(terms(&[(1, 2), (2, 3), (2, 2)]).term_shared);
        assert!(terms(&[(1, 2), (2, 3)]).changed_hands && !terms(&[(1, 2), (1, 3)]).changed_hands);
    }
}
