//! The settings of a node.

use std::collections::BTreeMap;

use suffrage_core::{NodeId, Span};
use suffrage_lease::membership::Configuration;
use suffrage_lease::{CandidateConfig, Drift, EngineConfig, InvalidConfig};
use suffrage_net::transport::MAX_PAYLOAD;

/// The settings of a node. Founding voters and drift must be the same at all nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Settings {
    /// The ids of the voters that found the cluster. A node that is none of them asks these for the voters of the
    /// cluster.
    pub voters: Vec<NodeId>,
    /// The addresses of voters, as other nodes reach them.
    pub addresses: BTreeMap<NodeId, String>,
    /// Whether the node has a disk, so that it can be added as a voter.
    pub can_vote: bool,
    /// The expected upper bound of the delay of a message. A first estimate: timeouts grow where replies take longer.
    pub delay: Span,
    /// The greatest drift of clocks. Two leaders are possible if a clock drifts more.
    pub drift: Drift,
    /// The longest lease that a voter grants, and for which a voter is silent after a restart.
    pub longest_ttl: Span,
    /// A voter that starts for the first time promises only tokens above this one.
    pub tokens_above: u64,
    /// The greatest size of a datagram in bytes.
    pub datagram: usize,
    /// The number of changes of leaders in the history, over all elections.
    pub history: usize,
}

impl Settings {
    /// The default settings for these voters: a delay of 25 ms, a drift of 1%, leases of up to 60 s.
    pub fn new(voters: impl IntoIterator<Item = NodeId>) -> Settings {
        let EngineConfig { voters, delay, drift, longest_ttl, .. } = EngineConfig::new(voters);
        Settings {
            voters,
            addresses: BTreeMap::new(),
            can_vote: false,
            delay,
            drift,
            longest_ttl,
            tokens_above: 0,
            datagram: MAX_PAYLOAD,
            history: 4_096,
        }
    }

    /// The configuration of the node's engine. A node observes with the default ttl, or with the longest ttl if that
    /// is shorter.
    pub fn engine(&self) -> EngineConfig {
        let Settings { voters, addresses, can_vote, delay, drift, longest_ttl, tokens_above, .. } = self;
        let usual = CandidateConfig::default();
        EngineConfig {
            delay: *delay,
            drift: *drift,
            longest_ttl: *longest_ttl,
            tokens_above: *tokens_above,
            candidate: CandidateConfig { ttl: usual.ttl.min(*longest_ttl), ..usual },
            addresses: addresses.clone(),
            can_vote: *can_vote,
            ..EngineConfig::new(voters.iter().copied())
        }
    }

    /// Version 0 of the cluster's configuration, which its founding voters have.
    pub fn founding(&self) -> Result<Configuration, InvalidConfig> {
        self.engine().founding()
    }

    /// Checks the settings.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        self.engine().check()
    }
}
