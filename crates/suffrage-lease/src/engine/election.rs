//! The state of a node in one election: its candidate, and the contention policy that decides when it campaigns.

use suffrage_core::{Attribute, NodeId, Span, Time};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::command::ElectionName;
use super::config::{CandidateConfig, EngineConfig, LONGEST_POLL};
use super::timer_queue::ENTRY_MEMORY;
use crate::candidate::{Candidate, HandOver, Lease, Stage};
use crate::message::{Grant, Name, Reply};
use crate::value::{Value, ValueVersion};
use crate::voter::Voter;

/// How often in a row a defeated candidate retries by itself before it waits for a wake-up.
const RETRIES: u8 = 3;

/// The index of an election at a node: a small number, which is reused after the node has left the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ElectionIndex(pub(super) u32);

impl ElectionIndex {
    /// The number that [`Context::announce_in`](suffrage_core::Context::announce_in) takes.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// From the number that [`Context::announce_in`](suffrage_core::Context::announce_in) takes.
impl From<usize> for ElectionIndex {
    fn from(index: usize) -> ElectionIndex {
        ElectionIndex(index as u32)
    }
}

/// The state of a node in one election.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ElectionState {
    pub(super) name: Name,
    text: ElectionName,
    pub(super) candidate: Candidate,
    /// The value that the node has as the leader.
    value: Option<Value>,
    /// Whether the application asks to lead. If not, the node only observes.
    pub(super) standing: bool,
    /// Whether the node stops to stand after one leadership.
    pub(super) once: bool,
    /// Whether the application is healthy.
    pub(super) healthy: bool,
    pub(super) ttl: Span,
    /// Renewals are aligned to multiples of this.
    tick: Span,
    /// When to campaign without a wake-up from a voter.
    pub(super) campaign_at: Option<Time>,
    /// Whether a voter has woken the candidate and the campaign was deferred.
    pub(super) woken: bool,
    /// How often in a row the candidate was defeated and retried.
    pub(super) retries: u8,
    /// Whether a rival with priority campaigns, too.
    outranked: bool,
    /// Until when the node yields to others, after it has handed over.
    pub(super) yield_until: Time,
    /// How long the node yields to others when it has handed over. Zero if it was not told to hand over.
    yield_for: Span,
    /// Whether a voter has told the node that others wait, since the node last stepped down. Only a node that does not vote
    /// is told.
    pub(super) contended: bool,
    /// Whether the node leaves the election when it has handed over.
    pub(super) leaving: bool,
    /// The configuration with which the node joins again when it has left.
    pub(super) rejoin: Option<Box<CandidateConfig>>,
    /// When the node's voter last heard that a leader released the election.
    pub(super) released_at: Option<Time>,
    /// The moment of the entry in the timer queue.
    pub(super) armed: Option<Time>,
}

/// The memory of one joined election at a node, in bytes, without the text of its name: the state, a pointer to it, the
/// entry in the timer queue, and the entry in the B-tree of names, half of which may be empty.
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
            value: None,
            standing: config.standing,
            once: false,
            healthy: true,
            ttl: config.ttl,
            tick: tick(config.slack(engine)),
            campaign_at: None,
            woken: false,
            retries: 0,
            outranked: false,
            yield_until: now,
            yield_for: Span::ZERO,
            contended: false,
            leaving: false,
            rejoin: None,
            released_at: None,
            armed: None,
        }
    }

    // Getters.

    /// The election's name.
    pub fn name(&self) -> &ElectionName {
        &self.text
    }

    /// The value that the node has as the leader.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// The version of that value.
    pub fn value_version(&self) -> ValueVersion {
        self.candidate.value_version()
    }

    /// Sets the value. False if it is the same as before.
    pub(super) fn replace_value(&mut self, value: Option<Value>) -> bool {
        value != std::mem::replace(&mut self.value, value.clone())
    }

    /// The lease that the node holds, if it is valid at this moment.
    pub fn lease(&self, now: Time) -> Option<Lease> {
        self.candidate.lease().filter(|lease| now < lease.valid_until)
    }

    /// The leader that the node follows; none if it leads itself.
    pub fn leader(&self) -> Option<Grant> {
        self.candidate.leader()
    }

    /// The stage of the candidate.
    pub fn stage(&self) -> Stage {
        self.candidate.stage()
    }

    /// The rank of the node.
    pub fn attribute(&self) -> Attribute {
        self.candidate.attribute()
    }

    /// The hand-over that has begun: the node does not renew its lease any more.
    pub fn hand_over(&self) -> Option<HandOver> {
        self.candidate.pending_hand_over()
    }

    /// The longest lease that a voter grants, if the candidate has asked for a longer one.
    pub fn granted_at_most(&self) -> Option<Span> {
        self.candidate.granted_at_most()
    }

    /// The length of leases.
    pub fn ttl(&self) -> Span {
        self.ttl
    }

    /// Whether the application asks to lead.
    pub fn stands(&self) -> bool {
        self.standing
    }

    /// Whether the application asks to lead, and again after a leadership.
    pub fn stands_again(&self) -> bool {
        self.standing && !self.once && !self.leaving
    }

    /// Whether the application is healthy.
    pub fn is_healthy(&self) -> bool {
        self.healthy
    }

    /// Whether claims of better candidates are refused.
    pub fn is_pinned(&self) -> bool {
        self.candidate.is_pinned()
    }

    /// Whether the node leaves the election when it has handed over.
    pub fn is_leaving(&self) -> bool {
        self.leaving
    }

    /// Until when the node yields to others, after it has handed over.
    pub fn yield_until(&self) -> Time {
        self.candidate.yield_until().max(self.yield_until)
    }

    /// The time after which a silent voter counts as unresponsive: it has got at least two requests by then.
    pub fn unresponsive_after(&self) -> Span {
        self.ttl.min(LONGEST_POLL) * 2
    }

    // The contention policy.

    /// Whether the candidate may be elected.
    pub(super) fn is_eligible(&self) -> bool {
        self.standing && self.healthy && !self.leaving
    }

    /// A node that leads is told to hand over: it yields to others for at least this long when it has.
    pub(super) fn start_yield(&mut self, span: Span) {
        if self.candidate.lease().is_some() {
            self.yield_for = self.yield_for.max(span);
        }
    }

    /// The node has handed over, or has lost its lease: it yields from now on if it was told to hand over.
    pub(super) fn yield_now(&mut self, now: Time) {
        self.yield_until = self.yield_until.max(now + std::mem::take(&mut self.yield_for));
    }

    /// Until when the node yields to others: after the hand-over that has begun, if there is one.
    pub(super) fn end_of_yield(&self) -> Time {
        let after = self.hand_over().map(|begun| begun.until + self.yield_for);
        after.map_or(self.yield_until, |after| after.max(self.yield_until))
    }

    /// A tenth of a lease.
    pub(super) fn tenth_of_ttl(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / 10)
    }

    /// Whether the candidate contends for a lease that it does not hold.
    pub(super) fn is_contending(&self) -> bool {
        let asks = matches!(self.candidate.stage(), Stage::Preparing | Stage::Proposing);
        asks && self.candidate.lease().is_none()
    }

    /// Whether no candidate in the queue of the node's voter has priority over this one. All voters have the same
    /// candidates in their queues, and compute the same order: by rank, and among equal ranks by a hash that differs
    /// from election to election.
    pub(super) fn has_priority(&self, me: NodeId, voter: &Voter) -> bool {
        let mine = self.priority(me, self.candidate.attribute());
        voter.waiters(self.name).all(|(other, attribute)| self.priority(other, attribute) <= mine)
    }

    fn priority(&self, candidate: NodeId, attribute: Attribute) -> (Attribute, u64, NodeId) {
        (attribute, xxh3_64_with_seed(self.text.as_bytes(), candidate.0), candidate)
    }

    /// Records that a rival contends. A contending candidate is in no queue, and so may the rival be: without this
    /// record both could find that they have priority.
    pub(super) fn note_rival(&mut self, me: NodeId, rival: NodeId, attribute: Attribute) {
        let mine = self.priority(me, self.candidate.attribute());
        self.outranked |= self.is_contending() && self.priority(rival, attribute) > mine;
    }

    /// Updates the number of retries after a reply. A wake-up allows all retries again. `Held` allows none if the
    /// node's own voter does not vote; a voter that votes knows itself whether another node leads.
    pub(super) fn update_retries(&mut self, reply: &Reply, votes: bool) {
        match reply {
            Reply::Vacant { .. } => self.retries = 0,
            Reply::Held { .. } if !votes => self.retries = RETRIES,
            _ => {}
        }
    }

    /// Called when a campaign has ended. If the candidate does not lead, it retries: after this pause if it has
    /// priority, and otherwise after the candidate's own back-off. Voters wake waiting candidates too, but with gaps
    /// that suit the slowest network.
    pub(super) fn retry(&mut self, now: Time, first: bool, pause: Span) {
        let first = first && !std::mem::take(&mut self.outranked);
        if self.candidate.lease().is_some() {
            (self.campaign_at, self.woken) = (None, false);
            return;
        }
        if self.retries == RETRIES {
            // Probably another node leads by now. If not, the enquiry queues the candidate at the voters.
            self.candidate.enquire_by(now + pause);
        } else if self.is_eligible() {
            self.retries += 1;
            let when = if first { now + pause } else { self.candidate.next_due() };
            self.campaign_at = Some(self.campaign_at.map_or(when, |earlier| earlier.min(when)));
        }
    }

    /// When the candidate is due next.
    pub(super) fn due(&self) -> Time {
        let next = self.candidate.next_due();
        let next = match (self.candidate.stage(), self.candidate.lease(), self.candidate.leader()) {
            // The candidate names the earliest moment. The latest is a slack later, and a tick comes before that.
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

/// The longest power of two nanoseconds within the slack, so that ticks of long leases are ticks of short leases, too.
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
