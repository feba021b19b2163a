//! The list of members: the living in order of id, and the dead.

use std::collections::BTreeMap;

use suffrage_core::{Hash, NodeId, Time};

use crate::message::Digest;
use crate::record::Record;

/// The hash of ids and incarnations in digests.
const DIGEST: Hash = Hash::new(0x6469_6765_7374);
/// The hash that distributes members over parts.
const PARTS: Hash = Hash::new(0x0070_6172_7473);
/// The most parts of a list: their digests fit into one message.
pub(crate) const MAX_PARTS: usize = 512;

/// A member that is dead or has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tombstone {
    pub(crate) record: Record,
    pub(crate) since: Time,
    /// True if the member left by itself.
    pub(crate) left: bool,
}

/// The list of members. A sorted vector: 48 bytes a member, found by binary search.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Table {
    live: Vec<Record>,
    dead: BTreeMap<NodeId, Tombstone>,
    digest: u32,
}

/// The digest of a record. Two lives of a restarted member can use the same incarnation for a moment: the content is part
/// of the digest too.
fn digest(record: &Record) -> u32 {
    let version = DIGEST.pair(record.id.0, record.incarnation.into());
    let claim = u64::from(record.term) << 16 | u64::from(record.size) << 8 | u64::from(record.stands);
    DIGEST.pair(version, DIGEST.pair(record.rank as u64, claim)) as u32
}

impl Table {
    fn position(&self, id: NodeId) -> Result<usize, usize> {
        self.live.binary_search_by_key(&id, |record| record.id)
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Record> {
        self.position(id).ok().map(|position| &self.live[position])
    }

    /// The live members, in order of id.
    pub(crate) fn live(&self) -> &[Record] {
        &self.live
    }

    pub(crate) fn dead(&self) -> &BTreeMap<NodeId, Tombstone> {
        &self.dead
    }

    /// Inserts or replaces a live member. A tombstone of the member is removed.
    pub(crate) fn insert(&mut self, record: Record) {
        self.dead.remove(&record.id);
        self.digest ^= digest(&record);
        match self.position(record.id) {
            Ok(position) => {
                self.digest ^= digest(&self.live[position]);
                self.live[position] = record;
            }
            Err(position) => {
                // Doubling would leave half of the memory unused.
                if self.live.len() == self.live.capacity() {
                    self.live.reserve_exact(self.live.len() / 8 + 8);
                }
                self.live.insert(position, record);
            }
        }
    }

    /// Buries a live member.
    pub(crate) fn bury(&mut self, id: NodeId, incarnation: u32, since: Time, left: bool) {
        let Ok(position) = self.position(id) else { return };
        let mut record = self.live.remove(position);
        self.digest ^= digest(&record);
        record.incarnation = record.incarnation.max(incarnation);
        self.dead.insert(id, Tombstone { record, since, left });
    }

    pub(crate) fn forget(&mut self, id: NodeId) {
        self.dead.remove(&id);
    }

    pub(crate) fn digest(&self) -> Digest {
        Digest { count: self.live.len() as u32, hash: self.digest.to_le_bytes() }
    }

    /// The number of parts in which this list is compared: about four members a part.
    pub(crate) fn part_count(&self) -> usize {
        (self.live.len() / 4).next_power_of_two().clamp(8, MAX_PARTS)
    }

    /// The part of a member.
    pub(crate) fn part(id: NodeId, parts: usize) -> usize {
        (PARTS.word(id.0) % parts.max(1) as u64) as usize
    }

    /// The digests of the parts. They are short, so that two different parts have the same digest once in 65,536 times:
    /// with another salt the difference shows.
    pub(crate) fn parts(&self, parts: usize, salt: u16) -> Vec<[u8; 2]> {
        let mut digests = vec![0u32; parts];
        for record in &self.live {
            digests[Table::part(record.id, parts)] ^= digest(record);
        }
        let short = |digest: u32| (DIGEST.pair(digest.into(), salt.into()) as u16).to_le_bytes();
        digests.into_iter().map(short).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Address;

    fn record(id: u64, incarnation: u32) -> Record {
        let address = Address::simulated(NodeId(id));
        Record { id: NodeId(id), incarnation, address, rank: 0, stands: true, term: 0, size: 0 }
    }

    #[test]
    fn equal_lists_have_equal_digests_whatever_happened_before() {
        let (mut one, mut other) = (Table::default(), Table::default());
        for id in [5, 3, 9, 1] {
            one.insert(record(id, 2));
        }
        for id in 1..10 {
            other.insert(record(id, 1));
        }
        assert_ne!(one.digest(), other.digest());
        for id in [2, 4, 6, 7, 8] {
            other.bury(NodeId(id), 1, Time::ZERO, false);
        }
        assert_ne!(one.digest().hash, other.digest().hash);
        assert_eq!(one.digest().count, other.digest().count);
        for id in [1, 3, 5, 9] {
            other.insert(record(id, 2));
        }
        assert_eq!(one.digest(), other.digest());
        assert_eq!(one.parts(8, 3), other.parts(8, 3));
    }

    #[test]
    fn the_parts_that_differ_contain_the_difference() {
        let (mut one, mut other) = (Table::default(), Table::default());
        for id in 0..1_000 {
            one.insert(record(id, 1));
            other.insert(record(id, if id == 500 { 2 } else { 1 }));
        }
        let parts = one.part_count();
        assert_eq!(parts, 256);
        let (mine, theirs) = (one.parts(parts, 0), other.parts(parts, 0));
        let differ: Vec<usize> = (0..parts).filter(|&part| mine[part] != theirs[part]).collect();
        assert_eq!(differ, [Table::part(NodeId(500), parts)]);
    }
}
