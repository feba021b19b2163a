//! What can be set about an engine and about its part in one election, and the timings that follow.

use std::fmt;

use suffrage_core::{Attribute, DRIFT_BOUND, NodeId, Span};

use crate::candidate::MAX_VOTERS;
use crate::timings::{Bug, Drift, Timings};

/// What all nodes of a cluster should have alike.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineConfig {
    /// Who votes. The same for all, or there can be two leaders at once.
    pub voters: Vec<NodeId>,
    /// The longest that a message takes, as a rule. A first guess: rounds grow where answers take longer.
    pub delay: Span,
    /// The most that clocks run fast or slow. The same for all, and true, or there can be two leaders.
    pub drift: Drift,
    /// The longest lease that a voter grants, and after a restart waits for.
    pub longest_ttl: Span,
    /// The configuration of a candidate whose `join` names none.
    pub candidate: CandidateConfig,
    /// Timings of candidates with this ttl, and of the voter, in place of those that follow from the above.
    pub exact: Option<Timings>,
    /// A deliberate mistake.
    pub bug: Option<Bug>,
}

impl EngineConfig {
    /// The configuration for these voters: messages that take up to 25 ms, clocks within 1%, leases up to a
    /// minute.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> EngineConfig {
        EngineConfig {
            voters: voters.into_iter().collect(),
            delay: Span::from_millis(25),
            drift: Drift::millionths((DRIFT_BOUND * 1e6) as u32).expect("it is small"),
            longest_ttl: Span::from_millis(60_000),
            candidate: CandidateConfig::default(),
            exact: None,
            bug: None,
        }
    }

    /// Refuses what no engine can run with.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let mut ids = self.voters.clone();
        ids.sort_unstable();
        ids.dedup();
        if ids.is_empty() || ids.len() > MAX_VOTERS || ids.len() != self.voters.len() {
            return Err(InvalidConfig::Voters);
        }
        if self.delay.is_zero() || self.delay > Span::from_millis(60_000) {
            return Err(InvalidConfig::Delay);
        }
        if self.exact.is_none() && (self.longest_ttl < SHORTEST_TTL || self.longest_ttl > LONGEST_TTL) {
            return Err(InvalidConfig::LongestTtl);
        }
        if self.exact.is_none() && self.drift.fraction() > 0.2 {
            return Err(InvalidConfig::Drift);
        }
        Ok(())
    }

    /// The timings of a voter.
    pub(crate) fn voter_timings(&self) -> Timings {
        let timings = match self.exact {
            Some(exact) => Timings { longest_ttl: self.longest_ttl, ..exact },
            None => {
                let longest = CandidateConfig { ttl: self.longest_ttl, ..CandidateConfig::default() };
                Timings { gap: self.delay * GAP, stale_after: LONGEST_POLL * 3, ..longest.timings(self) }
            }
        };
        Timings { bug: self.bug, ..timings }
    }
}

/// Below this, a timer of the system is too coarse for what has to be done in between.
const SHORTEST_TTL: Span = Span::from_millis(10);
/// Beyond this, a lease is no lease: its holder's death would go unnoticed for a day.
const LONGEST_TTL: Span = Span::from_millis(24 * 3_600_000);
/// A candidate that waits asks at least this often: voters drop it from their queues after three times this.
pub(crate) const LONGEST_POLL: Span = Span::from_millis(10_000);
/// How many delays a candidate waits for answers at first: two messages, and some time for the voter.
const ROUND: u64 = 3;
/// How many delays a voter waits for a candidate that it has woken: to be woken takes one, to be elected four.
const GAP: u64 = 6;
/// A leader renews so many times in the life of a lease.
const RENEWALS: u64 = 3;
/// Of the time between two renewals, the part by which one may come early.
const SLACK: u64 = 20;

/// A node's part in one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CandidateConfig {
    /// How long a lease is: no longer than this after a leader's death, and some messages, another leads.
    pub ttl: Span,
    /// How good a leader the node would be; greater is better. A better candidate is woken first.
    pub attribute: Attribute,
    /// How long the node must have stood before it asks a worse leader to hand over; none if it never does.
    pub failback: Option<Span>,
    /// Whether the node stands at once: it queues at the voters, and leads when they wake it. If not, it observes
    /// until a command makes it stand.
    pub standing: bool,
    /// Whether an external client, not this process, holds the lease. A client may outlive the process, and may
    /// have outlived the one before of the same id: the node does not stand before that one's lease is over.
    pub wait_out_previous_holder: bool,
}

impl Default for CandidateConfig {
    fn default() -> CandidateConfig {
        CandidateConfig {
            ttl: Span::from_millis(3_000),
            attribute: 0,
            failback: None,
            standing: false,
            wait_out_previous_holder: false,
        }
    }
}

impl CandidateConfig {
    /// Refuses a lease that cannot be kept at all.
    pub fn check(&self, config: &EngineConfig) -> Result<(), InvalidConfig> {
        if config.exact.is_none() && self.ttl < SHORTEST_TTL {
            return Err(InvalidConfig::TtlTooShort);
        }
        if self.ttl > config.longest_ttl {
            return Err(InvalidConfig::TtlTooLong(config.longest_ttl));
        }
        Ok(())
    }

    /// The timings that replace all others, if these are for leases of this length.
    fn exact(&self, config: &EngineConfig) -> Option<Timings> {
        config.exact.filter(|exact| exact.ttl == self.ttl)
    }

    /// By how much renewals may come early. Exact ones are on time.
    pub(crate) fn slack(&self, config: &EngineConfig) -> Span {
        match self.exact(config) {
            Some(_) => Span::ZERO,
            None => Span::from_nanos(self.ttl.as_nanos() / RENEWALS / SLACK),
        }
    }

    /// When a lease is renewed at the latest, after the last time.
    fn renew(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / RENEWALS)
    }

    /// The longest that a leader can need to stop its work such that a renewal can be lost and tried again
    /// before it has to begin to.
    pub fn longest_margin(&self, config: &EngineConfig) -> Span {
        let timings = self.timings(config);
        config.drift.validity(self.ttl) - self.renew() - timings.round * 2
    }

    /// The timings of a candidate.
    ///
    /// A renewal that gets no answer is asked again after a round, and several rounds must fit between the
    /// first and the end of the lease: so for short leases rounds begin shorter than the network's delay says.
    pub(crate) fn timings(&self, config: &EngineConfig) -> Timings {
        let tenth = Span::from_nanos(self.ttl.as_nanos() / 10);
        let timings = self.exact(config).unwrap_or(Timings {
            ttl: self.ttl,
            longest_ttl: config.longest_ttl,
            renew: self.renew() - self.slack(config),
            drift: config.drift,
            round: (config.delay * ROUND).min(tenth),
            gap: (config.delay * GAP).min(tenth * 2),
            poll: self.ttl.min(LONGEST_POLL),
            stale_after: LONGEST_POLL * 3,
            failback: None,
            bug: None,
        });
        Timings { failback: self.failback, bug: config.bug, ..timings }
    }
}

/// Why an engine or a candidate cannot be as it is configured.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// No voters, too many, or one twice.
    Voters,
    /// No delay, or far too long a one.
    Delay,
    /// The longest lease is not within reason.
    LongestTtl,
    /// Clocks drift so much that no lease would be left.
    Drift,
    /// Timers cannot keep up with so short a lease.
    TtlTooShort,
    /// No voter grants a lease above this.
    TtlTooLong(Span),
    /// The work could not be stopped in time: this is the longest stop margin.
    MarginTooLong(Span),
    /// Names are shown, stored and put into addresses: they have 1 to 255 bytes.
    Name,
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidConfig::Voters => {
                write!(f, "there must be 1 to {MAX_VOTERS} voters, each listed once: 3 or 5 are usual")
            }
            InvalidConfig::Delay => {
                f.write_str("the delay of a message must be above zero and at most a minute")
            }
            InvalidConfig::LongestTtl => f.write_str("the longest lease must be from 10 ms to a day"),
            InvalidConfig::Drift => {
                f.write_str("a drift above 20% leaves too little of a lease: say how far clocks really drift")
            }
            InvalidConfig::TtlTooShort => f.write_str("a lease must be 10 ms long at least"),
            InvalidConfig::TtlTooLong(longest) => write!(
                f,
                "voters grant no lease above {longest} ms: raise the longest lease on all nodes, or ask for less"
            ),
            InvalidConfig::MarginTooLong(longest) => write!(
                f,
                "a stop margin above {longest} ms leaves no time to renew the lease: lower it, or raise the ttl"
            ),
            InvalidConfig::Name => f.write_str("a name has 1 to 255 bytes"),
        }
    }
}

impl std::error::Error for InvalidConfig {}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every ttl: a renewal that is lost can be tried again twice before the lease is over.
    #[test]
    fn three_attempts_to_renew_fit_into_every_lease() {
        for delay in [1, 25, 1_000] {
            let config = EngineConfig { delay: Span::from_millis(delay), ..EngineConfig::new([NodeId(1)]) };
            for ttl in [10, 200, 3_000, 60_000] {
                let candidate = CandidateConfig { ttl: Span::from_millis(ttl), ..CandidateConfig::default() };
                assert_eq!(candidate.check(&config), Ok(()));
                let timings = candidate.timings(&config);
                let tried = timings.renew + candidate.slack(&config) + timings.round * 3;
                assert!(tried < config.drift.validity(candidate.ttl), "{delay} {ttl}");
                let margin = candidate.longest_margin(&config);
                assert!(margin > Span::from_nanos(candidate.ttl.as_nanos() / 3));
            }
        }
    }

    #[test]
    fn what_cannot_work_is_refused_with_a_reason() {
        let valid = EngineConfig::new([NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!(valid.check(), Ok(()));
        let doubled = EngineConfig::new([NodeId(1), NodeId(1), NodeId(3)]);
        assert_eq!(doubled.check(), Err(InvalidConfig::Voters));
        assert_eq!(EngineConfig::new([]).check(), Err(InvalidConfig::Voters));
        let wild = EngineConfig { drift: "21%".parse().unwrap(), ..valid.clone() };
        assert_eq!(wild.check(), Err(InvalidConfig::Drift));
        let ttl = |millis| {
            CandidateConfig { ttl: Span::from_millis(millis), ..CandidateConfig::default() }.check(&valid)
        };
        assert_eq!(ttl(9), Err(InvalidConfig::TtlTooShort));
        assert_eq!(ttl(60_000), Ok(()));
        assert!(ttl(60_001).unwrap_err().to_string().contains("60000 ms"));
    }

    #[test]
    fn exact_timings_are_for_leases_of_their_length_only() {
        let exact = Timings::for_round_trip(
            Span::from_millis(30),
            Span::from_millis(10),
            "1%".parse().unwrap(),
            Span::from_millis(2),
        );
        let config = EngineConfig { exact: Some(exact), ..EngineConfig::new([NodeId(1)]) };
        let candidate = |ttl| CandidateConfig { ttl: Span::from_millis(ttl), ..CandidateConfig::default() };
        assert_eq!(candidate(30).timings(&config), exact);
        assert!(candidate(30).slack(&config).is_zero());
        assert_eq!(candidate(60).timings(&config).renew, Span::from_millis(19));
    }
}
