//! What can be set, about a node and about its part in one election; and the timings that follow.

use suffrage_core::{Attribute, DRIFT_BOUND, NodeId, Span};
use suffrage_lease::{Drift, MOST_VOTERS, Timings};

use suffrage_net::transport::MAX_PAYLOAD;

/// What all nodes of a cluster should have alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who votes. The same for all, or there can be two leaders at once.
    pub voters: Vec<NodeId>,
    /// How long a message takes at most, as a rule. Later ones cost time, never safety: somebody who waits
    /// for an answer asks again after three of these.
    pub delay: Span,
    /// How much clocks run fast or slow at most. The same for all, and true, or there can be two leaders.
    pub drift: Drift,
    /// The longest lease that a voter grants, and after a restart waits for.
    pub longest_ttl: Span,
    /// The longest datagram.
    pub datagram: usize,
    /// How many changes of leaders a node remembers, over all names.
    pub history: usize,
}

impl Settings {
    /// The settings for these voters: messages that take up to 25 ms, clocks within 1%, leases up to a
    /// minute.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> Settings {
        Settings {
            voters: voters.into_iter().collect(),
            delay: Span::from_millis(25),
            drift: Drift::millionths((DRIFT_BOUND * 1e6) as u32).expect("it is small"),
            longest_ttl: Span::from_millis(60_000),
            datagram: MAX_PAYLOAD,
            history: 4_096,
        }
    }

    /// Whether a node can be run with these.
    pub fn check(&self) -> Result<(), Unfit> {
        let mut ids = self.voters.clone();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() || ids.len() > MOST_VOTERS || ids.len() != self.voters.len() {
            return Err(Unfit::Voters);
        }
        if self.delay.is_zero() || self.delay > Span::from_millis(60_000) {
            return Err(Unfit::Delay);
        }
        if self.longest_ttl < SHORTEST_TTL || self.longest_ttl > LONGEST_TTL {
            return Err(Unfit::LongestTtl);
        }
        if self.drift.fraction() > 0.2 {
            return Err(Unfit::Drift);
        }
        Ok(())
    }

    /// What a voter goes by.
    pub(super) fn voter_timings(&self) -> Timings {
        let terms = Terms { ttl: self.longest_ttl, ..Terms::default() };
        Timings { gap: self.delay * GAP, patience: LONGEST_POLL * 3, ..terms.timings(self) }
    }
}

/// Below this, a timer of the system is too coarse for what has to be done in between.
const SHORTEST_TTL: Span = Span::from_millis(10);
/// Beyond this, a lease is no lease: its holder's death would go unnoticed for a day.
const LONGEST_TTL: Span = Span::from_millis(24 * 3_600_000);
/// A candidate that waits asks at least this often: voters drop it from their queues after three times this.
pub(super) const LONGEST_POLL: Span = Span::from_millis(10_000);
/// How many delays a candidate waits for answers: two messages, and some time for whoever answers.
const ROUND: u64 = 3;
/// How many delays a voter waits for one that it has woken: to be woken takes one, to be elected four.
const GAP: u64 = 6;
/// A leader renews so many times in the life of a lease.
const RENEWALS: u64 = 3;
/// Of the time between two renewals, the part by which one may come early.
const SLACK: u64 = 20;

/// A node's part in one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// How long a lease is: no longer than this after a leader's death, and some messages, another leads.
    pub ttl: Span,
    /// How good a leader it would be; greater is better. Who is better is woken first.
    pub attribute: Attribute,
    /// How long it must have stood before it asks a worse leader to hand over; none if it never does.
    pub failback: Option<Span>,
    /// Whether it leads for others, who may outlive this program, and may have outlived the one before that had its
    /// id: if so, it does not stand before what that one held is over.
    pub outlived: bool,
}

impl Default for Terms {
    fn default() -> Terms {
        Terms { ttl: Span::from_millis(3_000), attribute: 0, failback: None, outlived: false }
    }
}

impl Terms {
    /// Whether a lease on these can be kept at all.
    pub fn check(&self, settings: &Settings) -> Result<(), Unfit> {
        if self.ttl < SHORTEST_TTL {
            return Err(Unfit::TtlTooShort);
        }
        if self.ttl > settings.longest_ttl {
            return Err(Unfit::TtlTooLong(settings.longest_ttl));
        }
        Ok(())
    }

    /// By how much renewals may come early.
    pub(super) fn slack(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / RENEWALS / SLACK)
    }

    /// When a lease on these is renewed at the latest, after the last time.
    fn renew(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / RENEWALS)
    }

    /// The longest that a leader can need to stop its work such that a renewal can be lost and tried again
    /// before it has to begin to.
    pub fn longest_margin(&self, settings: &Settings) -> Span {
        let timings = self.timings(settings);
        settings.drift.validity(self.ttl) - self.renew() - timings.round * 2
    }

    /// What a candidate goes by.
    ///
    /// A renewal that gets no answer is asked again after a round, and several rounds must fit between the
    /// first and the end of the lease: so for short leases rounds are shorter than the network's delay says.
    pub(super) fn timings(&self, settings: &Settings) -> Timings {
        let tenth = Span::from_nanos(self.ttl.as_nanos() / 10);
        Timings {
            ttl: self.ttl,
            longest_ttl: settings.longest_ttl,
            renew: self.renew() - self.slack(),
            drift: settings.drift,
            round: (settings.delay * ROUND).min(tenth),
            gap: (settings.delay * GAP).min(tenth * 2),
            poll: self.ttl.min(LONGEST_POLL),
            patience: LONGEST_POLL * 3,
            failback: self.failback,
            bug: None,
        }
    }
}

/// Why a node or a candidacy cannot be as it is set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// No voters, too many, or one twice.
    #[error("there must be 1 to {MOST_VOTERS} voters, each listed once: 3 or 5 are usual")]
    Voters,
    /// Nothing, or far too long.
    #[error("the delay of a message must be above zero and at most a minute")]
    Delay,
    /// Not within reason.
    #[error("the longest lease must be from 10 ms to a day")]
    LongestTtl,
    /// No lease would be left.
    #[error("a drift above 20% leaves too little of a lease: say how far clocks really drift")]
    Drift,
    /// Timers cannot keep up.
    #[error("a lease must be 10 ms long at least")]
    TtlTooShort,
    /// No voter would grant it.
    #[error("voters grant no lease above {0} ms: raise the longest lease on all nodes, or ask for less")]
    TtlTooLong(Span),
    /// The work could not be stopped in time.
    #[error("a stop margin above {0} ms leaves no time to renew the lease: lower it, or raise the ttl")]
    MarginTooLong(Span),
    /// Names are shown, stored and put into addresses.
    #[error("a name has 1 to 255 bytes")]
    Name,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every ttl: a renewal that is lost can be tried again twice before the lease is over.
    #[test]
    fn three_attempts_to_renew_fit_into_every_lease() {
        for delay in [1, 25, 1_000] {
            let settings = Settings { delay: Span::from_millis(delay), ..Settings::new([NodeId(1)]) };
            for ttl in [10, 200, 3_000, 60_000] {
                let terms = Terms { ttl: Span::from_millis(ttl), ..Terms::default() };
                assert_eq!(terms.check(&settings), Ok(()));
                let timings = terms.timings(&settings);
                let tried = timings.renew + terms.slack() + timings.round * 3;
                assert!(tried < settings.drift.validity(terms.ttl), "{delay} {ttl}");
                assert!(terms.longest_margin(&settings) > Span::from_nanos(terms.ttl.as_nanos() / 3));
            }
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        let fit = Settings::new([NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!(fit.check(), Ok(()));
        let doubled = Settings::new([NodeId(1), NodeId(1), NodeId(3)]);
        assert_eq!((doubled.check(), Settings::new([]).check()), (Err(Unfit::Voters), Err(Unfit::Voters)));
        let wild = Settings { drift: "21%".parse().unwrap(), ..fit.clone() };
        assert_eq!(wild.check(), Err(Unfit::Drift));
        let ttl = |millis| Terms { ttl: Span::from_millis(millis), ..Terms::default() }.check(&fit);
        assert_eq!(ttl(9), Err(Unfit::TtlTooShort));
        assert_eq!(ttl(60_000), Ok(()));
        assert!(ttl(60_001).unwrap_err().to_string().contains("60000 ms"));
    }
}
