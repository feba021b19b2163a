//! The configuration of a cluster: its identity, its voters, and what all its nodes must have alike.
//!
//! Configurations form a chain. Version 0 is the list of voters that the nodes were started with. The voters of each
//! version choose the next one, which differs by at most one voter: so every majority of one version meets every
//! majority of the next.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use suffrage_core::NodeId;
use xxhash_rust::xxh3::Xxh3Default;

use crate::candidate::MAX_VOTERS;
use crate::timings::Drift;

/// The longest address of a voter, in bytes: a host name of 253 bytes and a port.
pub const LONGEST_ADDRESS: usize = 259;
/// The longest list of voters after version 0, in bytes on the wire. Every message with it fits into a datagram that all
/// networks forward.
const LONGEST_VOTERS: usize = 950;
/// The most bytes of a voter on the wire, without those of its address: id, disk and length.
const ENTRY_LENGTH: usize = 10 + (1 + 10) + 2;

/// The identity of a cluster: a hash of its founding list of voters and of its bound on drift.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct ClusterId(u64);

impl fmt::Display for ClusterId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// The identity of a voter's disk: random, drawn when the disk is first used. A voter that lost its disk has lost its
/// promises, and is another voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct DiskId(pub u64);

impl fmt::Display for DiskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

/// A voter of a configuration.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct VoterEntry {
    /// The id of the node.
    pub id: NodeId,
    /// The identity of its disk. None at version 0, and for a voter that did not answer when version 1 was made: that
    /// one does not vote from then on.
    pub disk: Option<DiskId>,
    /// The address of the node, as other nodes reach it. Empty if the nodes find each other otherwise.
    pub address: String,
}

/// Names a configuration in every message: its cluster, its version, and a hash of all of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The cluster.
    pub cluster: ClusterId,
    /// The version.
    pub version: u64,
    /// The hash of the configuration.
    pub digest: u64,
}

/// The configuration of a cluster.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Configuration {
    cluster: ClusterId,
    version: u64,
    voters: Vec<VoterEntry>,
    drift: Drift,
    floor: u64,
}

/// Why a configuration is malformed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidConfiguration {
    /// No voters, too many, or one twice.
    Voters,
    /// The address of a voter is too long.
    Address(NodeId),
}

impl fmt::Display for InvalidConfiguration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InvalidConfiguration::Voters => {
                write!(f, "a cluster has 1 to {MAX_VOTERS} voters, each listed once: 3 or 5 are usual")
            }
            InvalidConfiguration::Address(id) => {
                write!(f, "the address of voter {id} is longer than {LONGEST_ADDRESS} bytes")
            }
        }
    }
}

impl std::error::Error for InvalidConfiguration {}

impl Configuration {
    /// Version 0: the voters that the nodes are started with. Addresses are no part of its identity, because nodes may
    /// reach the same voter at different addresses.
    pub fn founding(
        voters: impl IntoIterator<Item = (NodeId, String)>,
        drift: Drift,
    ) -> Result<Configuration, InvalidConfiguration> {
        let entry = |(id, address)| VoterEntry { id, disk: None, address };
        let mut voters: Vec<VoterEntry> = voters.into_iter().map(entry).collect();
        voters.sort_unstable_by_key(|voter| voter.id);
        let mut hash = Xxh3Default::new();
        hash.update(&drift.as_millionths().to_le_bytes());
        voters.iter().for_each(|voter| hash.update(&voter.id.0.to_le_bytes()));
        let configuration =
            Configuration { cluster: ClusterId(hash.digest()), version: 0, voters, drift, floor: 0 };
        configuration.check()?;
        Ok(configuration)
    }

    /// Refuses what no cluster can be run with.
    pub fn check(&self) -> Result<(), InvalidConfiguration> {
        let ordered = self.voters.is_sorted_by(|one, other| one.id < other.id);
        if !ordered || !(1..=MAX_VOTERS).contains(&self.voters.len()) {
            return Err(InvalidConfiguration::Voters);
        }
        match self.voters.iter().find(|voter| voter.address.len() > LONGEST_ADDRESS) {
            Some(voter) => Err(InvalidConfiguration::Address(voter.id)),
            None => Ok(()),
        }
    }

    /// The cluster.
    pub fn cluster(&self) -> ClusterId {
        self.cluster
    }

    /// The version.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The voters, by ascending id.
    pub fn voters(&self) -> &[VoterEntry] {
        &self.voters
    }

    /// The ids of the voters, ascending.
    pub fn ids(&self) -> Arc<[NodeId]> {
        self.voters.iter().map(|voter| voter.id).collect()
    }

    /// The bound on clock drift.
    pub fn drift(&self) -> Drift {
        self.drift
    }

    /// All tokens up to this count as promised.
    pub fn floor(&self) -> u64 {
        self.floor
    }

    /// The number of voters that make a majority.
    pub fn majority(&self) -> usize {
        self.voters.len() / 2 + 1
    }

    /// The entry of a voter.
    pub fn voter(&self, id: NodeId) -> Option<&VoterEntry> {
        let index = self.voters.binary_search_by_key(&id, |voter| voter.id).ok()?;
        Some(&self.voters[index])
    }

    /// Whether a node with this disk is a voter. At version 0, any disk is.
    pub fn lists(&self, id: NodeId, disk: DiskId) -> bool {
        self.voter(id).is_some_and(|voter| self.version == 0 || voter.disk == Some(disk))
    }

    /// Whether a message with this configuration fits into a datagram of every network.
    pub fn fits_datagram(&self) -> bool {
        let voter = |voter: &VoterEntry| ENTRY_LENGTH + voter.address.len();
        self.voters.iter().map(voter).sum::<usize>() <= LONGEST_VOTERS
    }

    /// The stamp of messages under this configuration.
    pub fn stamp(&self) -> Stamp {
        let mut hash = Xxh3Default::new();
        hash.update(&self.cluster.0.to_le_bytes());
        hash.update(&self.version.to_le_bytes());
        // The identity of version 0 is that of its cluster: ids and drift.
        if self.version > 0 {
            hash.update(&self.floor.to_le_bytes());
            for VoterEntry { id, disk, address } in &self.voters {
                hash.update(&id.0.to_le_bytes());
                hash.update(&[u8::from(disk.is_some())]);
                hash.update(&disk.map_or(0, |disk| disk.0).to_le_bytes());
                hash.update(&(address.len() as u64).to_le_bytes());
                hash.update(address.as_bytes());
            }
        }
        Stamp { cluster: self.cluster, version: self.version, digest: hash.digest() }
    }

    /// The next version with these voters.
    pub fn successor(&self, mut voters: Vec<VoterEntry>, floor: u64) -> Configuration {
        voters.sort_unstable_by_key(|voter| voter.id);
        let floor = floor.max(self.floor);
        Configuration { cluster: self.cluster, version: self.version + 1, voters, drift: self.drift, floor }
    }

    /// Whether this can follow a configuration: the next version, well formed, with at most one voter added or removed.
    /// A voter with another disk is another voter. Version 0 knows no disks.
    pub fn can_follow(&self, base: &Configuration) -> bool {
        let lists = |list: &Configuration, voter: &VoterEntry| {
            list.voter(voter.id).is_some_and(|other| base.version == 0 || other.disk == voter.disk)
        };
        let added = self.voters.iter().filter(|voter| !lists(base, voter)).count();
        let removed = base.voters.iter().filter(|voter| !lists(self, voter)).count();
        self.cluster == base.cluster
            && self.drift == base.drift
            && self.version == base.version + 1
            && self.floor >= base.floor
            && self.check().is_ok()
            && self.fits_datagram()
            && added + removed <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn founding(ids: &[u64]) -> Configuration {
        let voters = ids.iter().map(|&id| (NodeId(id), format!("host-{id}:7400")));
        Configuration::founding(voters, "1%".parse().unwrap()).unwrap()
    }

    fn entry(id: u64, disk: u64) -> VoterEntry {
        VoterEntry { id: NodeId(id), disk: Some(DiskId(disk)), address: String::new() }
    }

    #[test]
    fn the_founding_list_is_the_identity_whatever_its_order_and_addresses() {
        let base = founding(&[1, 2, 3]);
        assert_eq!(base.stamp(), founding(&[3, 1, 2]).stamp());
        let elsewhere = [1, 2, 3].map(|id| (NodeId(id), String::new()));
        assert_eq!(base.stamp(), Configuration::founding(elsewhere, base.drift).unwrap().stamp());
        for other in [
            founding(&[1, 2]),
            founding(&[1, 2, 4]),
            Configuration::founding(elsewhere_of(&base), "2%".parse().unwrap()).unwrap(),
        ] {
            assert_ne!(base.cluster(), other.cluster());
            assert_ne!(base.stamp().digest, other.stamp().digest);
        }
    }

    fn elsewhere_of(base: &Configuration) -> Vec<(NodeId, String)> {
        base.voters.iter().map(|voter| (voter.id, voter.address.clone())).collect()
    }

    #[test]
    fn malformed_lists_are_refused() {
        let founding = |ids: &[u64], address: &str| {
            let voters = ids.iter().map(|&id| (NodeId(id), address.to_string()));
            Configuration::founding(voters, "1%".parse().unwrap())
        };
        assert_eq!(founding(&[], ""), Err(InvalidConfiguration::Voters));
        assert_eq!(founding(&[1, 1], ""), Err(InvalidConfiguration::Voters));
        let many: Vec<u64> = (0..=MAX_VOTERS as u64).collect();
        assert_eq!(founding(&many, ""), Err(InvalidConfiguration::Voters));
        assert_eq!(founding(&[7], &"x".repeat(260)), Err(InvalidConfiguration::Address(NodeId(7))));
    }

    #[test]
    fn every_part_of_a_later_version_is_in_its_digest() {
        let base = founding(&[1, 2]);
        let voters = || vec![entry(1, 10), entry(2, 20)];
        let next = base.successor(voters(), 5);
        let mut others = vec![base.successor(voters(), 6), base.successor(vec![entry(1, 10)], 5)];
        others.push(base.successor(vec![entry(1, 10), entry(2, 21)], 5));
        others.push(base.successor(vec![entry(1, 10), VoterEntry { disk: None, ..entry(2, 0) }], 5));
        others
            .push(base.successor(vec![entry(1, 10), VoterEntry { address: "x".into(), ..entry(2, 20) }], 5));
        others.push(next.successor(voters(), 5));
        for other in others {
            assert_ne!(next.stamp().digest, other.stamp().digest, "{other:?}");
        }
        assert_eq!(next.cluster(), base.cluster());
    }

    #[test]
    fn a_successor_differs_by_one_voter_at_most() {
        let base = founding(&[1, 2, 3]).successor(vec![entry(1, 10), entry(2, 20), entry(3, 30)], 5);
        let follows = |ids: &[(u64, u64)], floor| {
            let voters = ids.iter().map(|&(id, disk)| entry(id, disk)).collect();
            base.successor(voters, floor).can_follow(&base)
        };
        assert!(follows(&[(1, 10), (2, 20), (3, 30)], 5));
        assert!(follows(&[(1, 10), (2, 20)], 5));
        assert!(follows(&[(1, 10), (2, 20), (3, 30), (4, 40)], 9));
        assert!(!follows(&[(1, 10), (2, 20), (4, 40)], 9), "replaced in one step");
        assert!(!follows(&[(1, 10), (2, 20), (3, 31)], 9), "another disk is another voter");
        assert!(!follows(&[(1, 10)], 9));
        let same = |ids: &[(u64, u64)]| ids.iter().map(|&(id, disk)| entry(id, disk)).collect::<Vec<_>>();
        let lower = Configuration { floor: 4, ..base.successor(same(&[(1, 10), (2, 20)]), 5) };
        assert!(!lower.can_follow(&base));
        let skipped = Configuration { version: 9, ..base.successor(same(&[(1, 10), (2, 20)]), 5) };
        assert!(!skipped.can_follow(&base));
        let founding = founding(&[1, 2, 3]);
        assert!(base.can_follow(&founding), "version 1 has the disks");
    }

    #[test]
    fn a_configuration_that_does_not_fit_into_a_datagram_is_no_successor() {
        let base = founding(&[1]).successor(vec![entry(1, 1)], 0);
        let mut voters = vec![entry(1, 1)];
        while base.successor(voters.clone(), 0).fits_datagram() {
            let id = voters.len() as u64 + 1;
            voters
                .push(VoterEntry { address: "voter.of-a-service.example:7400".to_string(), ..entry(id, id) });
        }
        let (long, last) = (base.successor(voters.clone(), u64::MAX), voters.pop());
        let next = base.successor(voters, u64::MAX);
        assert!(last.is_some() && next.fits_datagram() && next.voters.len() >= 15, "{}", next.voters.len());
        let base = Configuration { version: long.version - 1, ..next.clone() };
        assert!(!long.can_follow(&base), "one voter more, but too long");
        let mut buffer = [0; 2 * LONGEST_VOTERS];
        let length = postcard::to_slice(&next, &mut buffer).unwrap().len();
        assert!(length <= LONGEST_VOTERS + 36, "{length} bytes");
    }

    #[test]
    fn majorities_of_neighbours_meet() {
        let mut base = founding(&[1]).successor(vec![entry(1, 1)], 0);
        for id in 2..=40 {
            let voters = base.voters.iter().cloned().chain([entry(id, id)]).collect();
            let next = base.successor(voters, 0);
            assert!(next.can_follow(&base));
            assert!(base.majority() + next.majority() > next.voters.len());
            base = next;
        }
    }
}
