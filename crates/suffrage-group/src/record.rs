//! What a member says about itself, and what others say about it.

use std::fmt;

use serde::{Deserialize, Serialize};
use suffrage_core::{Attribute, NodeId};

/// The address of a member. A type of its own: this crate has no sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Address {
    /// An IPv4 address and a port.
    V4([u8; 4], u16),
    /// An IPv6 address and a port.
    V6([u8; 16], u16),
}

impl Address {
    /// An address for a simulated member, different for every id below 2^24.
    pub fn simulated(id: NodeId) -> Address {
        let [.., a, b, c] = id.0.to_be_bytes();
        Address::V4([10, a, b, c], 7500)
    }
}

/// What a member says about itself. Only the member itself changes its record, and increases the incarnation each time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Record {
    /// The member.
    #[serde(with = "fixed_id")]
    pub id: NodeId,
    /// The version of this record.
    pub incarnation: u32,
    /// Where the member receives datagrams.
    pub address: Address,
    /// The greater, the better a candidate. A member with a greater rank is elected first.
    pub rank: Attribute,
    /// False if the member must not be elected.
    pub stands: bool,
    /// The term for which this member claims to lead; 0 if it does not.
    pub term: u32,
    /// The size of the group that the claim was made in, as a power of two. After a partition, the leader of the larger
    /// part stays.
    pub size: u8,
}

impl Record {
    /// The order of claims. All members that know the same records agree on the greatest claim.
    pub(crate) fn claim(&self) -> Option<(u8, u32, Attribute, NodeId)> {
        (self.term > 0).then_some((self.size, self.term, self.rank, self.id))
    }

    /// The order of candidates.
    pub(crate) fn rank(&self) -> (Attribute, NodeId) {
        (self.rank, self.id)
    }
}

/// A statement about a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Rumour {
    /// The member lives, and this is its record.
    Alive(Record),
    /// The member did not answer this accuser.
    Suspect {
        /// The member.
        #[serde(with = "fixed_id")]
        id: NodeId,
        /// The incarnation that did not answer.
        incarnation: u32,
        /// The member that got no answer.
        #[serde(with = "fixed_id")]
        by: NodeId,
    },
    /// The member was declared dead.
    Dead {
        /// The member.
        #[serde(with = "fixed_id")]
        id: NodeId,
        /// The incarnation that is dead.
        incarnation: u32,
        /// True if the death is news. An old death is a reason to suspect, no more: it may come from the other side of a
        /// partition.
        fresh: bool,
    },
    /// The member left by itself.
    Left {
        /// The member.
        #[serde(with = "fixed_id")]
        id: NodeId,
        /// The incarnation that left.
        incarnation: u32,
    },
}

impl Rumour {
    /// The greatest encoded length of the rumour, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Rumour::Alive(record) => {
                let address = if matches!(record.address, Address::V4(..)) { 8 } else { 20 };
                let rank = varint((record.rank << 1 ^ record.rank >> 63) as u64);
                1 + 8
                    + varint(record.incarnation.into())
                    + address
                    + rank
                    + 1
                    + varint(record.term.into())
                    + 1
            }
            Rumour::Suspect { .. } => 1 + 8 + 5 + 8,
            Rumour::Dead { .. } | Rumour::Left { .. } => 1 + 8 + 5 + 1,
        }
    }
}

/// The length of a number in postcard's encoding.
fn varint(value: u64) -> usize {
    (64 - value.leading_zeros() as usize).div_ceil(7).max(1)
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::V4([a, b, c, d], port) => write!(f, "{a}.{b}.{c}.{d}:{port}"),
            Address::V6(bytes, port) => {
                let groups: Vec<String> = bytes
                    .chunks(2)
                    .map(|pair| format!("{:x}", u16::from(pair[0]) << 8 | u16::from(pair[1])))
                    .collect();
                write!(f, "[{}]:{port}", groups.join(":"))
            }
        }
    }
}

/// Ids as eight bytes. On the wire an id is a hash, which takes ten bytes as a variable-length number.
pub(crate) mod fixed_id {
    use serde::{Deserialize as _, Deserializer, Serialize as _, Serializer};
    use suffrage_core::NodeId;

    pub(crate) fn serialize<S: Serializer>(id: &NodeId, serializer: S) -> Result<S::Ok, S::Error> {
        id.0.to_le_bytes().serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<NodeId, D::Error> {
        <[u8; 8]>::deserialize(deserializer).map(|bytes| NodeId(u64::from_le_bytes(bytes)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message that is larger than computed would not fit into its datagram.
    #[test]
    fn no_rumour_is_larger_than_computed() {
        let v6 = Address::V6([255; 16], u16::MAX);
        for (rank, term, address) in [
            (0, 0, Address::simulated(NodeId(7))),
            (-1, 5, v6),
            (i64::MIN, u32::MAX, v6),
            (i64::MAX, 200, v6),
        ] {
            let record = Record {
                id: NodeId(u64::MAX),
                incarnation: u32::MAX,
                address,
                rank,
                stands: true,
                term,
                size: 32,
            };
            let (id, incarnation) = (record.id, record.incarnation);
            for rumour in [
                Rumour::Alive(record),
                Rumour::Suspect { id, incarnation, by: id },
                Rumour::Dead { id, incarnation, fresh: true },
                Rumour::Left { id, incarnation },
            ] {
                let bytes = postcard::to_extend(&rumour, Vec::new()).unwrap();
                assert!(bytes.len() <= rumour.size(), "{rumour:?}: {} bytes", bytes.len());
                assert_eq!(postcard::from_bytes(&bytes), Ok(rumour));
            }
        }
    }
}
