//! Identity and rank of a process.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// The identity of a process: unique in its group, and never reused for another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct NodeId(pub u64);

impl From<u64> for NodeId {
    fn from(id: u64) -> NodeId {
        NodeId(id)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0.to_string())
    }
}

impl FromStr for NodeId {
    type Err = String;
    fn from_str(text: &str) -> Result<NodeId, String> {
        text.trim().parse().map(NodeId).map_err(|_| format!("`{text}` is not a process id (a whole number)"))
    }
}

/// Formats ids in increasing order, with ranges for consecutive ids: `1-4, 7 and 9`. A long list is cut off after
/// some pieces.
pub fn compact_ids(ids: impl IntoIterator<Item = NodeId>) -> String {
    /// The number of pieces after which the remaining ids are only counted.
    const PIECES: usize = 10;
    let mut ids: Vec<u64> = ids.into_iter().map(|id| id.0).collect();
    ids.sort_unstable();
    ids.dedup();
    let pieces = ids.chunk_by(|id, next| id + 1 == *next).flat_map(|run| match run {
        [first, _, .., last] => vec![(format!("{first}-{last}"), run.len())],
        _ => run.iter().map(|id| (id.to_string(), 1)).collect(),
    });
    let (mut pieces, shown_counts): (Vec<String>, Vec<usize>) = pieces.take(PIECES).unzip();
    let hidden = ids.len() - shown_counts.iter().sum::<usize>();
    if hidden > 0 {
        pieces.push(format!("{hidden} more"));
    }
    match pieces.split_last() {
        None => "nobody".to_string(),
        Some((last, [])) => last.clone(),
        Some((last, others)) => format!("{} and {last}", others.join(", ")),
    }
}

/// The number that candidates are compared by; greater is better.
///
/// A choice function computes the attribute: the id itself, its negation ("lowest id wins"), free disk, negated
/// load, or a combination such as [`Quality`].
pub type Attribute = i64;

/// The order of candidates: by attribute, ties by id (cs425: "the best (highest) election attribute").
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Rank {
    /// The suitability as a leader.
    pub attribute: Attribute,
    /// The tie-breaker.
    pub id: NodeId,
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.id, self.attribute)
    }
}

/// Host quality. Fewer recent failures rank higher; priority decides between hosts with equal failures.
///
/// With priority alone, an unstable host of high priority flaps: it is elected, fails, recovers and is elected again
/// (Database Internals, ch. 10, "Bully Algorithm").
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quality {
    /// The priority that the operator configured.
    pub priority: i32,
    /// The number of recent failures of the host.
    pub failures: u32,
}

impl Quality {
    /// The quality encoded as one comparable number.
    pub fn attribute(self) -> Attribute {
        let stability = -i64::from(self.failures.min(i32::MAX as u32));
        (stability << 32) + i64::from(self.priority)
    }

    /// The quality that this attribute encodes.
    pub fn from_attribute(attribute: Attribute) -> Quality {
        let priority = attribute as i32;
        let stability = attribute.wrapping_sub(priority.into()) >> 32;
        Quality { priority, failures: stability.saturating_neg().max(0) as u32 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_compare_by_attribute_then_by_id() {
        let rank = |attribute, id| Rank { attribute, id: NodeId(id) };
        assert!(rank(2, 1) > rank(1, 9));
        assert!(rank(1, 9) > rank(1, 8));
    }

    #[test]
    fn one_failure_outweighs_any_priority() {
        let quality = |priority, failures| Quality { priority, failures }.attribute();
        assert!(quality(i32::MIN, 0) > quality(i32::MAX, 1));
        assert!(quality(2, 3) > quality(1, 3));
        assert!(quality(0, u32::MAX) < quality(0, 1));
    }

    #[test]
    fn a_quality_survives_the_encoding_as_an_attribute() {
        for priority in [i32::MIN, -1, 0, 5, i32::MAX] {
            for failures in [0, 1, 77, i32::MAX as u32] {
                let quality = Quality { priority, failures };
                assert_eq!(Quality::from_attribute(quality.attribute()), quality);
            }
        }
    }
}
