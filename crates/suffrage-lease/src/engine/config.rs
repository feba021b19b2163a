//! The configuration of an engine and of a candidate, and the timings that follow from it.

use std::collections::BTreeMap;
use std::fmt;

use suffrage_core::{Attribute, DRIFT_BOUND, NodeId, Span};

use crate::candidate::MAX_VOTERS;
use crate::membership::{Configuration, InvalidConfiguration};
use crate::timings::{Bug, Drift, Timings};

/// The configuration of an engine. All nodes of a cluster should have the same.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EngineConfig {
    /// The voters that found the cluster, or that a node asks which voters the cluster has. All founders must have the
    /// same list.
    pub voters: Vec<NodeId>,
    /// The addresses of voters, as other nodes reach them. A simulator needs none.
    pub addresses: BTreeMap<NodeId, String>,
    /// Whether the node has a disk, so that it can become a voter.
    pub can_vote: bool,
    /// The usual upper bound on message delay. It is a first guess: rounds grow if replies take longer.
    pub delay: Span,
    /// The bound on clock drift. It must be true and the same for all nodes, or there can be two leaders at once.
    pub drift: Drift,
    /// The longest lease that a voter grants. A restarted voter is silent for up to as long.
    pub longest_ttl: Span,
    /// A voter that starts for the first time promises only tokens above this one: for a cluster that is founded anew after
    /// all voters were lost.
    pub tokens_above: u64,
    /// The configuration of a candidate whose `join` has none.
    pub candidate: CandidateConfig,
    /// Exact timings of the voter, and of candidates with the same ttl. They replace those that follow from the fields
    /// above.
    pub exact: Option<Timings>,
    /// A deliberate bug.
    pub bug: Option<Bug>,
}

/// Leaves enough tokens for a million elections a second over centuries.
const MAX_TOKENS_ABOVE: u64 = u64::MAX / 2;

impl EngineConfig {
    /// The default configuration for these voters: a delay of 25 ms, a drift bound of 1%, and leases up to a minute.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> EngineConfig {
        EngineConfig {
            voters: voters.into_iter().collect(),
            addresses: BTreeMap::new(),
            can_vote: false,
            delay: Span::from_millis(25),
            drift: Drift::millionths((DRIFT_BOUND * 1e6) as u32).expect("the default bound is below 50%"),
            longest_ttl: Span::from_millis(60_000),
            tokens_above: 0,
            candidate: CandidateConfig::default(),
            exact: None,
            bug: None,
        }
    }

    /// Refuses a configuration that no engine can run with.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        let mut ids = self.voters.clone();
        ids.sort_unstable();
        if self.voters.is_empty() || self.voters.len() > MAX_VOTERS {
            return Err(InvalidConfig::VoterCount(self.voters.len()));
        }
        if let Some(pair) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(InvalidConfig::DuplicateVoter(pair[0]));
        }
        if self.delay.is_zero() || self.delay > Span::from_millis(60_000) {
            return Err(InvalidConfig::Delay(self.delay));
        }
        if self.exact.is_none() && (self.longest_ttl < SHORTEST_TTL || self.longest_ttl > LONGEST_TTL) {
            return Err(InvalidConfig::LongestTtl(self.longest_ttl));
        }
        if self.exact.is_none() && self.drift.fraction() > 0.2 {
            return Err(InvalidConfig::Drift);
        }
        if self.tokens_above > MAX_TOKENS_ABOVE {
            return Err(InvalidConfig::TokensAbove(self.tokens_above));
        }
        // Without addresses nothing is sent in datagrams.
        if !self.addresses.is_empty() && !self.founding()?.fits_datagram() {
            return Err(InvalidConfig::LongList(self.voters.len()));
        }
        Ok(())
    }

    /// Version 0 of the cluster's configuration.
    pub fn founding(&self) -> Result<Configuration, InvalidConfig> {
        let address = |id: &NodeId| self.addresses.get(id).cloned().unwrap_or_default();
        let voters = self.voters.iter().map(|id| (*id, address(id)));
        Configuration::founding(voters, self.drift).map_err(InvalidConfig::Founding)
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

/// The shortest ttl: for shorter leases the timers of the operating system are too coarse.
pub const SHORTEST_TTL: Span = Span::from_millis(10);
/// The longest ttl: after the death of a leader there is no leader for as long.
pub const LONGEST_TTL: Span = Span::from_millis(24 * 3_600_000);
/// The longest interval between enquiries of a waiting candidate. Voters drop it from their queues after three times
/// this.
pub(crate) const LONGEST_POLL: Span = Span::from_millis(10_000);
/// How many delays a candidate waits for replies at first: two messages, and some time for the voter.
const ROUND: u64 = 3;
/// How many delays a voter waits for a candidate that it has woken: the wake-up takes one, the election four.
const GAP: u64 = 6;
/// How many times a leader renews in the length of a lease.
const RENEWALS: u64 = 3;
/// A renewal may come early by one part in this many of the renewal interval.
const SLACK: u64 = 20;

/// The configuration of a node's candidate in one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CandidateConfig {
    /// The length of a lease. After a leader's death another candidate leads after this time and some message delays.
    pub ttl: Span,
    /// The rank of the node; greater is better. Voters wake candidates of higher rank first.
    pub attribute: Attribute,
    /// The fail-back delay: how long the node must have stood before it asks a leader of lower rank to hand over; none
    /// if it never asks.
    pub failback: Option<Span>,
    /// Whether the node stands at once: it queues at the voters, and campaigns when they wake it. If not, it observes
    /// until a command makes it stand.
    pub standing: bool,
    /// The stop margin: the time that the application's work needs to stop. A leader that hands over, for whatever
    /// reason, keeps its lease for as long, unless the work has ended before ([`Action::Release`](super::Action)). Zero
    /// if nothing works while the node leads: it hands over at once.
    pub stop_margin: Span,
}

impl Default for CandidateConfig {
    fn default() -> CandidateConfig {
        CandidateConfig {
            ttl: Span::from_millis(3_000),
            attribute: 0,
            failback: None,
            standing: false,
            stop_margin: Span::ZERO,
        }
    }
}

impl CandidateConfig {
    /// Refuses a ttl outside of the limits, and a stop margin that is too long for the ttl.
    pub fn check(&self, config: &EngineConfig) -> Result<(), InvalidConfig> {
        if config.exact.is_none() && self.ttl < SHORTEST_TTL {
            return Err(InvalidConfig::TtlTooShort(self.ttl));
        }
        if self.ttl > config.longest_ttl {
            return Err(InvalidConfig::TtlTooLong { ttl: self.ttl, longest: config.longest_ttl });
        }
        let (margin, longest) = (self.stop_margin, self.longest_margin(config));
        if margin > longest {
            return Err(InvalidConfig::MarginTooLong { margin, longest });
        }
        Ok(())
    }

    /// The exact timings, if they are for leases of this length.
    fn exact(&self, config: &EngineConfig) -> Option<Timings> {
        config.exact.filter(|exact| exact.ttl == self.ttl)
    }

    /// By how much renewals may come early. With exact timings they do not.
    pub(crate) fn slack(&self, config: &EngineConfig) -> Span {
        match self.exact(config) {
            Some(_) => Span::ZERO,
            None => Span::from_nanos(self.ttl.as_nanos() / RENEWALS / SLACK),
        }
    }

    /// The longest time between two renewals.
    fn renew(&self) -> Span {
        Span::from_nanos(self.ttl.as_nanos() / RENEWALS)
    }

    /// The longest stop margin: the time that a leader's work needs to stop. With this margin one renewal can be lost
    /// and repeated before the work has to stop.
    pub fn longest_margin(&self, config: &EngineConfig) -> Span {
        let timings = self.timings(config);
        config.drift.validity(self.ttl) - self.renew() - timings.round * 2
    }

    /// The timings of a candidate.
    ///
    /// A renewal without replies is repeated after a round, and several rounds must fit between the first renewal and
    /// the end of the lease. So the first rounds of short leases are shorter than the configured delay suggests.
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
            stop_margin: Span::ZERO,
            bug: None,
        });
        Timings { failback: self.failback, stop_margin: self.stop_margin, bug: config.bug, ..timings }
    }
}

/// The reason why a configuration is invalid.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidConfig {
    /// There are no voters or too many.
    VoterCount(usize),
    /// A voter is listed twice.
    DuplicateVoter(NodeId),
    /// The list of voters with their addresses does not fit into a datagram: the cluster could never change it, nor tell it
    /// to a node.
    LongList(usize),
    /// The founding list is malformed in another way.
    Founding(InvalidConfiguration),
    /// The delay is zero or above a minute.
    Delay(Span),
    /// The longest lease is below 10 ms or above a day.
    LongestTtl(Span),
    /// The drift bound is above 20%, which leaves too little of a lease.
    Drift,
    /// The tokens of a new cluster begin so high that few are left.
    TokensAbove(u64),
    /// The ttl is below 10 ms, which timers cannot keep up with.
    TtlTooShort(Span),
    /// The ttl is above the longest lease that voters grant.
    TtlTooLong {
        /// The configured ttl.
        ttl: Span,
        /// The longest lease that voters grant.
        longest: Span,
    },
    /// The stop margin leaves no time to renew the lease before the work must stop.
    MarginTooLong {
        /// The configured stop margin.
        margin: Span,
        /// The longest stop margin for the ttl.
        longest: Span,
    },
    /// The name of an election does not have 1 to 255 bytes.
    NameLength(usize),
}

impl fmt::Display for InvalidConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidConfig::TokensAbove(token) => {
                write!(f, "tokens above {token}: {MAX_TOKENS_ABOVE} is the greatest beginning")
            }
            InvalidConfig::VoterCount(count) => {
                write!(
                    f,
                    "{count} voters are configured: there must be 1 to {MAX_VOTERS}, and 3 or 5 are usual"
                )
            }
            InvalidConfig::Founding(reason) => reason.fmt(f),
            InvalidConfig::DuplicateVoter(id) => {
                write!(f, "voter {id} is listed twice: list each voter once")
            }
            InvalidConfig::LongList(count) => write!(
                f,
                "the list of {count} voters with their addresses does not fit into a datagram: list fewer voters (3 or \
                 5 are usual), or use shorter addresses"
            ),
            InvalidConfig::Delay(delay) => {
                write!(
                    f,
                    "a message delay of {} is invalid: it must be above zero and at most a minute",
                    delay.format_duration()
                )
            }
            InvalidConfig::LongestTtl(longest) => {
                let longest = longest.format_duration();
                write!(f, "a longest lease of {longest} is invalid: it must be from 10ms to a day")
            }
            InvalidConfig::Drift => {
                f.write_str("a drift above 20% leaves too little of a lease: say how far clocks really drift")
            }
            InvalidConfig::TtlTooShort(ttl) => {
                let ttl = ttl.format_duration();
                write!(f, "a lease of {ttl} is too short: it must be at least 10ms long")
            }
            InvalidConfig::TtlTooLong { ttl, longest } => write!(
                f,
                "voters grant no lease of {}: ask for at most {}, or raise the longest lease on all nodes",
                ttl.format_duration(),
                longest.format_duration()
            ),
            InvalidConfig::MarginTooLong { margin, longest } => write!(
                f,
                "a stop margin of {} leaves no time to renew the lease: use at most {}, or a longer ttl",
                margin.format_duration(),
                longest.format_duration()
            ),
            InvalidConfig::NameLength(bytes) => {
                write!(f, "a name of {bytes} bytes is invalid: the name of an election has 1 to 255 bytes")
            }
        }
    }
}

impl std::error::Error for InvalidConfig {}

#[cfg(test)]
mod tests {
    use super::*;

    /// At every ttl a lost renewal can be repeated twice before the lease is over.
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
    fn invalid_configurations_are_refused_with_a_reason() {
        let valid = EngineConfig::new([NodeId(1), NodeId(2), NodeId(3)]);
        assert_eq!(valid.check(), Ok(()));
        let doubled = EngineConfig::new([NodeId(1), NodeId(1), NodeId(3)]);
        assert_eq!(doubled.check(), Err(InvalidConfig::DuplicateVoter(NodeId(1))));
        assert_eq!(EngineConfig::new([]).check(), Err(InvalidConfig::VoterCount(0)));
        let wild = EngineConfig { drift: "21%".parse().unwrap(), ..valid.clone() };
        assert_eq!(wild.check(), Err(InvalidConfig::Drift));
        let ttl = |millis| {
            CandidateConfig { ttl: Span::from_millis(millis), ..CandidateConfig::default() }.check(&valid)
        };
        assert_eq!(ttl(9), Err(InvalidConfig::TtlTooShort(Span::from_millis(9))));
        assert_eq!(ttl(60_000), Ok(()));
        assert!(ttl(60_001).unwrap_err().to_string().contains("lease of 60.001s: ask for at most 1m,"));
    }

    /// Version 1 of a longer list could not be sent, so that the cluster would stay at version 0 for ever.
    #[test]
    fn a_founding_list_that_does_not_fit_into_a_datagram_is_refused() {
        let with = |count: u64| {
            let ids = 1..=count;
            let addresses = ids.clone().map(|id| (NodeId(id), format!("10.0.0.{id}:7400"))).collect();
            EngineConfig { addresses, ..EngineConfig::new(ids.map(NodeId)) }
        };
        assert_eq!(with(25).check(), Ok(()));
        assert!(with(25).founding().unwrap().fits_datagram());
        let long = with(30).check().unwrap_err();
        assert_eq!(long, InvalidConfig::LongList(30));
        assert!(long.to_string().contains("30 voters") && long.to_string().contains("fewer"), "{long}");
        let unaddressed = EngineConfig { addresses: BTreeMap::new(), ..with(64) };
        assert_eq!(unaddressed.check(), Ok(()), "a simulator has no datagrams");
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
