//! Detection of voters whose disk was restored from an older copy.
//!
//! Such a voter has forgotten promises and grants, and does not know. Other nodes know better. A voter counts the saves of
//! its state, over all runs, and tells the count with its messages. A process of a voter starts with a save. So the counts
//! of one process are greater than all counts of the processes before, unless the disk went back.
//!
//! A node that notices this ignores the datagrams of that process, and tells the process, which stops voting. This is no
//! protection: nobody may have seen the lost saves, or those who have may be unreachable.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use suffrage_core::NodeId;
use suffrage_lease::Boot;
use suffrage_lease::membership::DiskId;

/// The greatest number of voters that a node remembers.
const MAX_VOTERS: usize = 4_096;

/// The saves of a voter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct DiskStamp {
    /// The disk.
    pub(super) disk: DiskId,
    /// The number of the first save of this process.
    pub(super) first: u64,
    /// The number of the last save.
    pub(super) last: u64,
}

/// The saves of one process of a voter, as another node has seen them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) struct Evidence {
    /// The saves.
    pub(super) stamp: DiskStamp,
    /// The boot of the process.
    pub(super) boot: Boot,
}

impl Evidence {
    /// Whether a process with these saves has lost some of them.
    pub(super) fn convicts(&self, stamp: DiskStamp, boot: Boot) -> bool {
        self.stamp.disk == stamp.disk && self.boot != boot && stamp.first <= self.stamp.last
    }
}

/// The saves of voters, as this node has seen them.
#[derive(Debug, Default)]
pub(super) struct Witness {
    seen: BTreeMap<NodeId, Evidence>,
    /// The processes whose disk went back.
    outdated: BTreeMap<NodeId, Boot>,
}

impl Witness {
    /// Notes the saves of a voter. Returns the evidence if its disk went back.
    pub(super) fn note(&mut self, from: NodeId, boot: Boot, stamp: DiskStamp) -> Option<Evidence> {
        if self.seen.len() >= MAX_VOTERS && !self.seen.contains_key(&from) {
            return None;
        }
        let seen = self.seen.entry(from).or_insert(Evidence { stamp, boot });
        if seen.convicts(stamp, boot) {
            self.outdated.insert(from, boot);
            return Some(*seen);
        }
        // Datagrams of one process may overtake each other.
        if seen.boot != boot || seen.stamp.disk != stamp.disk || seen.stamp.last < stamp.last {
            *seen = Evidence { stamp, boot };
        }
        if self.outdated.get(&from).is_some_and(|outdated| *outdated != boot) {
            self.outdated.remove(&from);
        }
        None
    }

    /// Whether this process of a voter has lost saves.
    pub(super) fn is_outdated(&self, from: NodeId, boot: Boot) -> bool {
        self.outdated.get(&from) == Some(&boot)
    }

    /// The voters that have lost saves.
    pub(super) fn outdated(&self) -> impl Iterator<Item = NodeId> {
        self.outdated.keys().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VOTER: NodeId = NodeId(3);

    fn stamp(first: u64, last: u64) -> DiskStamp {
        DiskStamp { disk: DiskId(7), first, last }
    }

    #[test]
    fn a_process_that_repeats_the_number_of_a_save_has_lost_it() {
        let mut witness = Witness::default();
        assert_eq!(witness.note(VOTER, Boot(1), stamp(1, 1)), None);
        assert_eq!(witness.note(VOTER, Boot(1), stamp(1, 4)), None);
        assert_eq!(witness.note(VOTER, Boot(1), stamp(1, 2)), None, "it was overtaken");
        assert_eq!(witness.note(VOTER, Boot(2), stamp(5, 5)), None, "a restart");
        let evidence = Evidence { stamp: stamp(5, 5), boot: Boot(2) };
        assert_eq!(witness.note(VOTER, Boot(3), stamp(5, 9)), Some(evidence), "whatever it saved since");
        assert!(witness.is_outdated(VOTER, Boot(3)) && !witness.is_outdated(VOTER, Boot(2)));
        assert_eq!(witness.outdated().collect::<Vec<_>>(), [VOTER]);
        assert_eq!(witness.note(NodeId(4), Boot(9), stamp(1, 1)), None, "another voter");
        let wiped = DiskStamp { disk: DiskId(8), ..stamp(1, 1) };
        assert_eq!(witness.note(VOTER, Boot(4), wiped), None, "another disk");
        assert_eq!(witness.outdated().count(), 0);
    }

    #[test]
    fn a_process_believes_evidence_about_itself_only() {
        let evidence = Evidence { stamp: stamp(3, 6), boot: Boot(1) };
        assert!(evidence.convicts(stamp(6, 8), Boot(2)));
        assert!(!evidence.convicts(stamp(7, 8), Boot(2)), "it began after these saves");
        assert!(!evidence.convicts(stamp(3, 6), Boot(1)), "these saves are its own");
        assert!(!evidence.convicts(DiskStamp { disk: DiskId(8), ..stamp(6, 8) }, Boot(2)));
    }
}
