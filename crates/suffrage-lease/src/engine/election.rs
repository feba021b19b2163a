//! A node's part in one election: a candidate, and when the node lets it campaign.

use suffrage_core::{Attribute, NodeId, Span, Time};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::command::ElectionName;
use super::config::{CandidateConfig, EngineConfig, LONGEST_POLL};
use super::timer_queue::ENTRY_MEMORY;
use crate::candidate::{Candidate, Lease, Stage};
use crate::message::{Grant, Name, Reply};
use crate::voter::Voter;

/// How often in a row a candidate that was defeated retries by itself, before it waits to be woken.
const RETRIES: u8 = 3;

/// Which of a node's elections: a small number, used again once the node has left the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionIndex(pub(super) u32);

impl ElectionIndex {
    /// As an index of a table: the number that [`Context::announce_in`](suffrage_core::Context::announce_in) has.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// From the number that [`Context::announce_in`](suffrage_core::Context::announce_in) has.
impl From<usize> for ElectionIndex {
    fn from(index: usize) -> ElectionIndex {
        ElectionIndex(index as u32)
    }
}

/// A node's part in one election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElectionState {
    pub(super) name: Name,
    text: ElectionName,
    pub(super) candidate: Candidate,
    /// Whether the application asks to lead. If not, the node only observes.
    pub(super) standing: bool,
    /// Whether it stands no longer once it has led and lost.
    pub(super) once: bool,
    /// Whether the application that would lead is healthy.
    pub(super) healthy: bool,
    /// Whether claims of better candidates are refused, as long as the node leads.
    pub(super) pinned: bool,
    pub(super) ttl: Span,
    /// Renewals wait for a multiple of this.
    tick: Span,
    /// When to campaign without a wake-up from a voter.
    pub(super) campaign_at: Option<Time>,
    /// Whether a voter has woken the candidate, which has deferred its campaign.
    pub(super) woken: bool,
    /// How often in a row it has campaigned in vain.
    pub(super) retries: u8,
    /// Whether a rival that goes first campaigns, too.
    outranked: bool,
    /// Until when it yields to others, having handed over.
    pub(super) yield_until: Time,
    /// When the node's voter last heard that a leader released the election.
    pub(super) released_at: Option<Time>,
    /// The moment of its entry in the timer queue.
    pub(super) armed: Option<Time>,
}

/// The memory that a node's part in one election takes, in bytes, without its name in writing: the part itself,
/// a pointer to it, its place in the timer queue, and its entry in the tree of names, half of which may be empty.
pub const ELECTION_MEMORY: usize =
    size_of::<ElectionState>() + size_of::<usize>() + ENTRY_MEMORY + 2 * size_of::<(Name, u32)>();

impl ElectionState {
    pub(super) fn new(
        text: ElectionName,
        candidate: Candidate,
        config: &CandidateConfig,
        engine: &EngineConfig,
        now: Time,
    ) -> ElectionState {
        ElectionState {
            name: text.hash(),
            text,
            candidate,
            standing: config.standing,
            once: false,
            healthy: true,
            pinned: false,
            ttl: config.ttl,
            tick: tick(config.slack(engine)),
            campaign_at: None,
            woken: false,
            retries: 0,
            outranked: false,
            yield_until: now,
            released_at: None,
            armed: None,
        }
    }

    // What others may know of it.

    /// The election's name.
    pub fn name(&self) -> &ElectionName {
        &self.text
    }

    /// The lease that the node holds, if its clock does not show that it is over.
    pub fn lease(&self, now: Time) -> Option<Lease> {
        self.candidate.lease().filter(|lease| now < lease.valid_until)
    }

    /// Whom the node believes to lead, if it does not itself.
    pub fn leader(&self) -> Option<Grant> {
        self.candidate.leader()
    }

    /// How far the candidate is.
    pub fn stage(&self) -> Stage {
        self.candidate.stage()
    }

    /// How good a leader the node would be.
    pub fn attribute(&self) -> Attribute {
        self.candidate.attribute()
    }

    /// How long leases are.
    pub fn ttl(&self) -> Span {
        self.ttl
    }

    /// Whether the application asks to lead.
    pub fn stands(&self) -> bool {
        self.standing
    }

    /// Whether the application is healthy.
    pub fn is_healthy(&self) -> bool {
        self.healthy
    }

    /// Whether claims of better candidates are refused.
    pub fn is_pinned(&self) -> bool {
        self.pinned
    }

    /// Until when the node yields to others, having handed over.
    pub fn yield_until(&self) -> Time {
        self.candidate.yield_until().max(self.yield_until)
    }

    /// Voters that have not answered for so long have been asked at least twice.
    pub fn unresponsive_after(&self) -> Span {
        self.ttl.min(LONGEST_POLL) * 2
    }

    // The contention policy.

    /// Whether the candidate is there to be elected.
    pub(super) fn is_eligible(&self) -> bool {
        self.standing && self.healthy
    }

    /// The node was told to hand over: if it leads, it yields to others for the length of a lease.
    pub(super) fn start_yield(&mut self, now: Time) {
        if self.candidate.lease().is_some() {
            self.yield_until = now + self.ttl;
        }
    }

    /// A short while, in the life of a lease.
    pub(super) fn tenth_of_ttl(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / 10)
    }

    /// Whether the candidate asks for what it does not have.
    pub(super) fn is_contending(&self) -> bool {
        let asks = matches!(self.candidate.stage(), Stage::Preparing | Stage::Proposing);
        asks && self.candidate.lease().is_none()
    }

    /// Whether no other candidate waits, as far as the node's voter knows, that goes first. All voters know who
    /// waits, and come to the same order: by rank, and among equals by a hash that is another for every name.
    pub(super) fn has_priority(&self, me: NodeId, voter: &Voter) -> bool {
        let mine = self.priority(me, self.candidate.attribute());
        voter.waiters(self.name).all(|(other, attribute)| self.priority(other, attribute) <= mine)
    }

    fn priority(&self, candidate: NodeId, attribute: Attribute) -> (Attribute, u64, NodeId) {
        (attribute, xxh3_64_with_seed(self.text.as_bytes(), candidate.0), candidate)
    }

    /// A rival contends. A candidate that contends has left the queues, and so may the rival have: they must not
    /// both take themselves for the first.
    pub(super) fn note_rival(&mut self, me: NodeId, rival: NodeId, attribute: Attribute) {
        let mine = self.priority(me, self.candidate.attribute());
        self.outranked |= self.is_contending() && self.priority(rival, attribute) > mine;
    }

    /// Decides whether it is worth retrying: not while another node leads, which the node's own voter knows if it
    /// votes, and otherwise others tell.
    pub(super) fn update_retries(&mut self, reply: &Reply, votes: bool) {
        match reply {
            Reply::Vacant { .. } => self.retries = 0,
            Reply::Held { .. } if !votes => self.retries = RETRIES,
            _ => {}
        }
    }

    /// The candidate has contended, and does not any more. If it does not lead, it retries: after this pause if it
    /// comes first, and otherwise after as long as the candidate itself would wait. Voters wake those who wait, too,
    /// but leave each of them the time that the slowest network takes.
    pub(super) fn retry(&mut self, now: Time, first: bool, pause: Span) {
        let first = first && !std::mem::take(&mut self.outranked);
        if self.candidate.lease().is_some() {
            (self.campaign_at, self.woken) = (None, false);
            return;
        }
        if self.retries == RETRIES {
            // Another node leads by now, it seems; or else voters should know that this one waits.
            self.candidate.enquire_by(now + pause);
        } else if self.is_eligible() {
            self.retries += 1;
            let when = if first { now + pause } else { self.candidate.next_due() };
            self.campaign_at = Some(self.campaign_at.map_or(when, |earlier| earlier.min(when)));
        }
    }

    /// When it is to be looked at next.
    pub(super) fn due(&self) -> Time {
        let next = self.candidate.next_due();
        let next = match (self.candidate.stage(), self.candidate.lease(), self.candidate.leader()) {
            // The candidate names the earliest moment; the latest is a slack away, and a tick comes before.
            (Stage::Leading, Some(lease), _) => self.align_to_tick(next).min(lease.valid_until),
            (Stage::Waiting, None, Some(_)) => self.align_to_tick(next),
            _ => next,
        };
        next.min(self.campaign_at.unwrap_or(Time::MAX))
    }

    fn align_to_tick(&self, when: Time) -> Time {
        let tick = self.tick.as_nanos();
        Time::from_nanos(when.as_nanos().div_ceil(tick).saturating_mul(tick))
    }
}

/// The longest power of two within the slack, so that the ticks of long leases are ticks of short ones, too.
fn tick(slack: Span) -> Span {
    Span::from_nanos(1 << slack.as_nanos().max(1).ilog2())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_fit_into_the_slack_and_into_each_other() {
        let ticks: Vec<u64> =
            [1, 3, 50, 1_000].map(|millis| tick(Span::from_millis(millis)).as_nanos()).into();
        for (millis, tick) in [1, 3, 50, 1_000].into_iter().zip(&ticks) {
            let slack = millis * 1_000_000;
            assert!(*tick <= slack && *tick > slack / 2);
        }
        assert!(ticks.windows(2).all(|pair| pair[1] % pair[0] == 0));
        assert_eq!(tick(Span::ZERO).as_nanos(), 1);
    }
}
