//! What can be set about a node.

use suffrage_core::{NodeId, Span};
use suffrage_lease::{CandidateConfig, Drift, EngineConfig, InvalidConfig};
use suffrage_net::transport::MAX_PAYLOAD;

/// What can be set about a node. The first four should be alike at all nodes of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Who votes. The same for all, or there can be two leaders at once.
    pub voters: Vec<NodeId>,
    /// The longest that a message takes, as a rule. A first guess: rounds grow where answers take longer.
    pub delay: Span,
    /// The most that clocks run fast or slow. The same for all, and true, or there can be two leaders.
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
        let EngineConfig { voters, delay, drift, longest_ttl, .. } = EngineConfig::new(voters);
        Settings { voters, delay, drift, longest_ttl, datagram: MAX_PAYLOAD, history: 4_096 }
    }

    /// The configuration of the node's engine. A node observes with the default ttl, or the longest if that is less.
    pub fn engine(&self) -> EngineConfig {
        let Settings { voters, delay, drift, longest_ttl, .. } = self;
        let usual = CandidateConfig::default();
        EngineConfig {
            delay: *delay,
            drift: *drift,
            longest_ttl: *longest_ttl,
            candidate: CandidateConfig { ttl: usual.ttl.min(*longest_ttl), ..usual },
            ..EngineConfig::new(voters.iter().copied())
        }
    }

    /// Refuses what no node can run with.
    pub fn check(&self) -> Result<(), InvalidConfig> {
        self.engine().check()
    }
}
