//! A node's part in one election: a candidate, and what the node makes of it.

use suffrage_core::{Attribute, NodeId, Span, Time};
use suffrage_lease::{Candidate, Name, Reply, Stage, Voter};
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::agenda::ENTRY_MEMORY;
use super::settings::{LONGEST_POLL, Terms};

/// How often in a row one that contended in vain tries again by itself, before it waits to be woken.
const RETRIES: u8 = 3;

/// Which of a node's elections: a small number, used again once the node has left the election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seat(pub(super) u32);

impl Seat {
    /// As an index of a table.
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A node's part in one election.
#[derive(Debug)]
pub(super) struct Candidacy {
    pub(super) name: Name,
    pub(super) text: Box<str>,
    pub(super) candidate: Candidate,
    /// Whether somebody here asks to lead. If not, it only observes.
    pub(super) standing: bool,
    /// Whether it stands no longer once it has led and lost.
    pub(super) once: bool,
    /// Whether whoever would lead is well.
    pub(super) healthy: bool,
    ttl: Span,
    /// Renewals wait for a multiple of this.
    tick: Span,
    /// When it contends without being woken: for others it has stood back long enough.
    pub(super) contend_at: Option<Time>,
    /// How often in a row it has contended in vain.
    pub(super) retries: u8,
    /// Whether one that goes before it contends, too.
    outranked: bool,
    /// Until when it does so if it stands again, having handed over.
    pub(super) courteous_until: Time,
    /// When the node's voter last heard that somebody gave it back.
    pub(super) released: Option<Time>,
    /// When it last asked voters for anything.
    pub(super) asked: Time,
    /// Since when what it knows of the leader has been so.
    pub(super) since: Time,
    /// Since when it has known of no leader, having known one.
    pub(super) bereft: Option<Time>,
    /// The moment of an entry in the agenda: it is looked at then, or earlier.
    pub(super) armed: Option<Time>,
}

/// The memory that a node's part in one election takes, in bytes, without its name in writing: the part itself,
/// a pointer to it, its place in the agenda, and its entry in the tree of names, half of which may be empty.
pub const SEAT_MEMORY: usize =
    size_of::<Candidacy>() + size_of::<usize>() + ENTRY_MEMORY + 2 * size_of::<(Name, u32)>();

impl Candidacy {
    pub(super) fn new(text: &str, candidate: Candidate, terms: &Terms, now: Time) -> Candidacy {
        Candidacy {
            name: Name::of(text),
            text: text.into(),
            candidate,
            standing: false,
            once: false,
            healthy: true,
            tick: tick(terms.slack()),
            ttl: terms.ttl,
            contend_at: None,
            retries: 0,
            outranked: false,
            courteous_until: now,
            released: None,
            asked: now,
            since: now,
            bereft: None,
            armed: None,
        }
    }

    /// It was told to hand over: if it leads, it lets others go first for the length of a lease.
    pub(super) fn stand_back(&mut self, now: Time) {
        if self.candidate.lease().is_some() {
            self.courteous_until = now + self.ttl;
        }
    }

    /// A short while, in the life of a lease.
    pub(super) fn moment(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / 10)
    }

    /// Whether it asks for what it does not have.
    pub(super) fn contends(&self) -> bool {
        let asks = matches!(self.candidate.stage(), Stage::Preparing | Stage::Proposing);
        asks && self.candidate.lease().is_none()
    }

    /// Whether nobody else waits, as far as the node's voter knows, that goes first. All who vote know who waits, and
    /// come to the same order: by rank, and among equals by a hash that is another for every name.
    pub(super) fn comes_first(&self, me: NodeId, voter: &Voter) -> bool {
        let mine = self.order(me, self.candidate.attribute());
        voter.waiters(self.name).all(|(who, attribute)| self.order(who, attribute) <= mine)
    }

    fn order(&self, who: NodeId, attribute: Attribute) -> (Attribute, u64, NodeId) {
        (attribute, xxh3_64_with_seed(self.text.as_bytes(), who.0), who)
    }

    /// Another contends. One that does so itself has left the queues, and so may the other: they must not both take
    /// themselves for the first.
    pub(super) fn meet(&mut self, me: NodeId, rival: NodeId, attribute: Attribute) {
        let mine = self.order(me, self.candidate.attribute());
        self.outranked |= self.contends() && self.order(rival, attribute) > mine;
    }

    /// Whether it is worth trying again: not while another leads, which a node's own voter knows if it votes, and
    /// otherwise others tell.
    pub(super) fn heed(&mut self, reply: &Reply, votes: bool) {
        match reply {
            Reply::Vacant { .. } => self.retries = 0,
            Reply::Held { .. } if !votes => self.retries = RETRIES,
            _ => {}
        }
    }

    /// It has contended, and does not any more: it leads, or else tries again, at once if it comes first and otherwise
    /// after as long as the candidate itself would wait. Voters wake those who wait, too, but leave each of them the
    /// time that the slowest network takes.
    pub(super) fn try_again(&mut self, now: Time, first: bool, pause: Span) {
        let first = first && !std::mem::take(&mut self.outranked);
        if self.candidate.lease().is_some() {
            self.contend_at = None;
            return;
        }
        if self.retries == RETRIES {
            // Somebody leads by now, it seems; or else voters should know that it waits.
            self.candidate.look_by(now + pause);
        } else if self.standing && self.healthy {
            self.retries += 1;
            let when = if first { now + pause } else { self.candidate.next_due() };
            self.contend_at = Some(self.contend_at.map_or(when, |earlier| earlier.min(when)));
        }
    }

    /// Voters that have not answered for so long have been asked at least twice.
    pub(super) fn patience(&self) -> Span {
        self.ttl.min(LONGEST_POLL) * 2
    }

    /// When it is to be looked at next.
    pub(super) fn due(&self) -> Time {
        let next = self.candidate.next_due();
        let next = match (self.candidate.stage(), self.candidate.lease(), self.candidate.leader()) {
            // The candidate names the earliest moment; the latest is a slack away, and a tick comes before.
            (Stage::Leading, Some(lease), _) => self.aligned(next).min(lease.valid_until),
            (Stage::Waiting, None, Some(_)) => self.aligned(next),
            _ => next,
        };
        next.min(self.contend_at.unwrap_or(Time::MAX))
    }

    fn aligned(&self, when: Time) -> Time {
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
