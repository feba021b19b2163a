//! What a process knows of the group: who is in it, in which order, and how each ranks.

use std::sync::Arc;

use crate::{Attribute, Hash, NodeId, Overlay, Rank, Rng};

/// A group: its members in ring order, and their attributes.
///
/// A member is also known by its *slot*, its place in that order. A group numbered 1..=N keeps no
/// list at all, so that a million processes cost nothing here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    members: Members,
    attributes: Attributes,
    acquaintance: Option<Acquaintance>,
    name: u64,
    overlay: Option<Arc<Overlay>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    /// Ids 1..=N in that order.
    Numbered(u32),
    Listed {
        order: Vec<NodeId>,
        /// Sorted by id, for look-up.
        slots: Vec<(NodeId, u32)>,
    },
}

/// How good a leader each would be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attributes {
    /// Everybody's attribute is its id.
    Ids,
    /// It is its id, negated. No id is beyond the range of attributes.
    NegatedIds,
    /// By slot.
    Listed(Vec<Attribute>),
}

impl Attributes {
    #[inline]
    fn of(&self, slot: usize, id: NodeId) -> Attribute {
        match self {
            Attributes::Ids => plain(id),
            Attributes::NegatedIds => -plain(id),
            Attributes::Listed(listed) => listed[slot],
        }
    }
}

/// Partial views without memory: whether one member knows another is a hash of the pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Acquaintance {
    hash: Hash,
    /// `view_prob` in units of 2^-53, which keeps the roster comparable.
    threshold: u64,
}

/// The attribute of one that was given none: its id. Beyond the range of attributes, ids decide by
/// breaking the tie.
#[inline]
fn plain(id: NodeId) -> Attribute {
    Attribute::try_from(id.0).unwrap_or(Attribute::MAX)
}

impl Roster {
    /// The group of processes 1..=`count`, each ranked by its id.
    ///
    /// # Panics
    /// If `count` exceeds `u32::MAX - 1`.
    pub fn numbered(count: usize) -> Roster {
        let count = u32::try_from(count).ok().filter(|&count| count < u32::MAX);
        Roster {
            members: Members::Numbered(count.expect("a group has fewer than 2^32 - 1 members")),
            attributes: Attributes::Ids,
            acquaintance: None,
            name: 0,
            overlay: None,
        }
    }

    /// A group in the given ring order, each ranked by its id. An id that stands twice is the error.
    pub fn listed(order: Vec<NodeId>) -> Result<Roster, NodeId> {
        let mut slots: Vec<_> = order.iter().copied().zip(0..).collect();
        slots.sort_unstable();
        if let Some(twice) = slots.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(twice[0].0);
        }
        let members = Members::Listed { order, slots };
        let (acquaintance, overlay) = (None, None);
        Ok(Roster { members, attributes: Attributes::Ids, acquaintance, name: 0, overlay })
    }

    /// Lets each member know only a random part of the group: each other member with the given
    /// probability, independently, decided by a hash of the pair (Gupta et al., section 2).
    pub fn acquainted(mut self, seed: u64, probability: f64) -> Roster {
        let threshold = (probability.clamp(0.0, 1.0) * (1u64 << 53) as f64) as u64;
        self.acquaintance = Some(Acquaintance { hash: Hash::new(seed), threshold });
        self
    }

    /// Gives the group a name that all its members know, and no other group has: what they hash with it,
    /// they hash alike, and other than other groups.
    pub fn named(mut self, name: u64) -> Roster {
        self.name = name;
        self
    }

    /// Has everybody's attribute be its id, negated: the lowest id is the best.
    pub fn lowest_first(mut self) -> Roster {
        let in_range = |id: NodeId| Attribute::try_from(id.0).is_ok();
        self.attributes = match &self.members {
            Members::Listed { order, .. } if !order.iter().all(|&id| in_range(id)) => {
                Attributes::Listed(order.iter().map(|&id| -plain(id)).collect())
            }
            _ => Attributes::NegatedIds,
        };
        self
    }

    /// Lets each member find the others only by way of its neighbours in an overlay, where an algorithm
    /// does so. Messages go straight to whoever was found.
    ///
    /// # Panics
    /// If the overlay is not one of as many processes.
    pub fn overlaid(mut self, overlay: Arc<Overlay>) -> Roster {
        assert_eq!(overlay.len(), self.len(), "an overlay of another group");
        self.overlay = Some(overlay);
        self
    }

    /// Changes how good a leader a member would be. A stranger's attribute is ignored.
    pub fn set_attribute(&mut self, id: NodeId, attribute: Attribute) {
        let Some(slot) = self.slot(id) else { return };
        if !matches!(self.attributes, Attributes::Listed(_)) {
            let listed = (0..self.len()).map(|slot| self.attributes.of(slot, self.id(slot)));
            self.attributes = Attributes::Listed(listed.collect());
        }
        if let Attributes::Listed(listed) = &mut self.attributes {
            listed[slot] = attribute;
        }
    }

    /// How many members there are.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.members {
            Members::Numbered(count) => *count as usize,
            Members::Listed { order, .. } => order.len(),
        }
    }

    /// Whether there is nobody.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The member in this slot.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn id(&self, slot: usize) -> NodeId {
        match &self.members {
            Members::Numbered(count) => {
                assert!(slot < *count as usize, "slot {slot} of {count}");
                NodeId(slot as u64 + 1)
            }
            Members::Listed { order, .. } => order[slot],
        }
    }

    /// The slot of a member; none for a stranger.
    #[inline]
    pub fn slot(&self, id: NodeId) -> Option<usize> {
        match &self.members {
            Members::Numbered(count) => {
                let slot = id.0.wrapping_sub(1);
                (slot < u64::from(*count)).then_some(slot as usize)
            }
            Members::Listed { slots, .. } => {
                let place = slots.binary_search_by_key(&id, |&(id, _)| id).ok()?;
                Some(slots[place].1 as usize)
            }
        }
    }

    /// All members, in ring order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + '_ {
        (0..self.len()).map(|slot| self.id(slot))
    }

    /// How a member ranks; none for a stranger.
    #[inline]
    pub fn rank(&self, id: NodeId) -> Option<Rank> {
        self.slot(id).map(|slot| self.rank_in(slot, id))
    }

    #[inline]
    fn rank_in(&self, slot: usize, id: NodeId) -> Rank {
        Rank { attribute: self.attributes.of(slot, id), id }
    }

    /// All members from the highest id down.
    fn descending(&self) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        (0..self.len()).rev().map(|place| match &self.members {
            Members::Numbered(_) => NodeId(place as u64 + 1),
            Members::Listed { slots, .. } => slots[place].0,
        })
    }

    /// What the member in this slot knows of the group.
    #[inline]
    pub fn view(&self, slot: usize) -> View<'_> {
        View { roster: self, me: self.id(slot), slot }
    }
}

/// What one process knows of the group. Always contains the process itself.
///
/// A view is a small handle that does not borrow the [`Context`](crate::Context) it came from, so
/// that one can send while iterating over it.
#[derive(Clone, Copy, Debug)]
pub struct View<'v> {
    roster: &'v Roster,
    me: NodeId,
    slot: usize,
}

impl<'v> View<'v> {
    /// Whose view it is.
    #[inline]
    pub fn me(self) -> NodeId {
        self.me
    }

    /// How many members this process knows, itself included. Takes time proportional to the group
    /// if the view is partial.
    pub fn len(self) -> usize {
        match self.roster.acquaintance {
            None => self.roster.len(),
            Some(_) => self.iter().count(),
        }
    }

    /// Never: a view contains its owner.
    pub fn is_empty(self) -> bool {
        false
    }

    /// How many members the whole group has, known or not.
    #[inline]
    pub fn group_len(self) -> usize {
        self.roster.len()
    }

    /// The name of the group, which all members know.
    #[inline]
    pub fn group_name(self) -> u64 {
        self.roster.name
    }

    /// How likely one member of the group knows another.
    pub fn share(self) -> f64 {
        let whole = (1u64 << 53) as f64;
        self.roster.acquaintance.map_or(1.0, |acquaintance| acquaintance.threshold as f64 / whole)
    }

    /// Whether that one is a member of the group, known or not.
    #[inline]
    pub fn is_member(self, id: NodeId) -> bool {
        self.roster.slot(id).is_some()
    }

    /// Whether this process knows that member.
    #[inline]
    pub fn contains(self, id: NodeId) -> bool {
        self.roster.slot(id).is_some() && self.knows(id)
    }

    #[inline]
    fn knows(self, id: NodeId) -> bool {
        match self.roster.acquaintance {
            None => true,
            Some(Acquaintance { hash, threshold }) => {
                id == self.me || hash.pair(self.me.0, id.0) >> 11 < threshold
            }
        }
    }

    /// Everybody known, this process included, in ring order from the roster's start.
    pub fn iter(self) -> impl Iterator<Item = NodeId> + 'v {
        self.roster.iter().filter(move |&id| self.knows(id))
    }

    /// Everybody known but this process, in ring order from the roster's start.
    pub fn peers(self) -> impl Iterator<Item = NodeId> + 'v {
        self.iter().filter(move |&id| id != self.me)
    }

    /// Everybody known but this process, in ring order from its successor on.
    #[inline]
    pub fn successors(self) -> impl Iterator<Item = NodeId> + 'v {
        let count = self.roster.len();
        (1..count)
            .map(move |hops| {
                let slot = self.slot + hops;
                self.roster.id(if slot < count { slot } else { slot - count })
            })
            .filter(move |&id| self.knows(id))
    }

    /// The member in this slot, a place in ring order below [`group_len`](View::group_len), known or not.
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn in_slot(self, slot: usize) -> NodeId {
        self.roster.id(slot)
    }

    /// The slot of a member, known or not; none for a stranger.
    #[inline]
    pub fn slot_of(self, id: NodeId) -> Option<usize> {
        self.roster.slot(id)
    }

    /// The overlay by which members find each other; none if they can find anybody.
    #[inline]
    pub fn overlay(self) -> Option<&'v Overlay> {
        self.roster.overlay.as_deref()
    }

    /// This process's own slot.
    pub fn slot(self) -> usize {
        self.slot
    }

    /// How far `id` is ahead of this process on the ring: 1 for its successor. None for a stranger.
    pub fn distance(self, id: NodeId) -> Option<usize> {
        let count = self.roster.len();
        Some((self.roster.slot(id)? + count - self.slot) % count)
    }

    /// How a member ranks; none for a stranger.
    #[inline]
    pub fn rank(self, id: NodeId) -> Option<Rank> {
        self.roster.rank(id).filter(|_| self.knows(id))
    }

    /// How a member of the group ranks, known or not: for one that this process was told of. None for a
    /// stranger.
    #[inline]
    pub fn member_rank(self, id: NodeId) -> Option<Rank> {
        self.roster.rank(id)
    }

    /// The best of those known, this process included, that may lead. Ranked by id, it is looked for from the
    /// best down, which takes as many steps as there are better ones that are not known or may not; ranked
    /// otherwise, everybody's rank is looked at.
    pub fn best(self, may_lead: impl Fn(NodeId) -> bool) -> Option<NodeId> {
        let eligible = |&id: &NodeId| self.knows(id) && may_lead(id);
        match &self.roster.attributes {
            Attributes::Ids => self.roster.descending().find(eligible),
            Attributes::NegatedIds => self.roster.descending().rfind(eligible),
            Attributes::Listed(attributes) => {
                let mut best = None;
                for (slot, &attribute) in attributes.iter().enumerate() {
                    let rank = Rank { attribute, id: self.roster.id(slot) };
                    if Some(rank) > best && eligible(&rank.id) {
                        best = Some(rank);
                    }
                }
                best.map(|rank| rank.id)
            }
        }
    }

    /// How this process ranks.
    #[inline]
    pub fn my_rank(self) -> Rank {
        self.roster.rank_in(self.slot, self.me)
    }

    /// Whether `id` would be the better leader of the two. A stranger never is.
    #[inline]
    pub fn outranks(self, id: NodeId, other: NodeId) -> bool {
        self.rank(id) > self.rank(other)
    }

    /// The peers that rank above this process, in ring order.
    pub fn above(self) -> impl Iterator<Item = NodeId> + 'v {
        let mine = Some(self.my_rank());
        self.peers().filter(move |&id| self.rank(id) > mine)
    }

    /// The peers that rank below this process, in ring order.
    pub fn below(self) -> impl Iterator<Item = NodeId> + 'v {
        let mine = Some(self.my_rank());
        self.peers().filter(move |&id| self.rank(id) < mine)
    }

    /// A peer chosen uniformly from those known; none if this process knows nobody.
    #[inline]
    pub fn random_peer(self, rng: &mut Rng) -> Option<NodeId> {
        let others = self.roster.len() as u64 - 1;
        if self.roster.acquaintance.is_some() {
            let peers: Vec<NodeId> = self.peers().collect();
            return rng.pick(&peers).copied();
        }
        if others == 0 {
            return None;
        }
        let slot = rng.below(others) as usize;
        Some(self.roster.id(slot + usize::from(slot >= self.slot)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[u64]) -> Vec<NodeId> {
        ids.iter().copied().map(NodeId).collect()
    }

    fn slides_ring() -> Roster {
        Roster::listed(ids(&[3, 32, 5, 80, 6, 12])).unwrap()
    }

    #[test]
    fn numbered_and_listed_groups_behave_alike() {
        let numbered = Roster::numbered(5);
        let listed = Roster::listed(ids(&[1, 2, 3, 4, 5])).unwrap();
        for slot in 0..5 {
            let (a, b) = (numbered.view(slot), listed.view(slot));
            assert!(a.iter().eq(b.iter()) && a.successors().eq(b.successors()));
            assert!(a.above().eq(b.above()) && a.below().eq(b.below()));
            assert_eq!((a.my_rank(), a.len()), (b.my_rank(), b.len()));
        }
        for stranger in [0, 6, u64::MAX] {
            assert!(numbered.slot(NodeId(stranger)).is_none() && listed.slot(NodeId(stranger)).is_none());
        }
    }

    #[test]
    fn ring_order_starts_at_the_successor() {
        let roster = slides_ring();
        let view = roster.view(roster.slot(NodeId(80)).unwrap());
        assert!(view.successors().eq(ids(&[6, 12, 3, 32, 5])));
        assert_eq!(view.distance(NodeId(6)), Some(1));
        assert_eq!(view.in_slot(3), NodeId(80));
        assert_eq!(view.distance(NodeId(5)), Some(5));
    }

    #[test]
    fn an_id_that_stands_twice_is_refused() {
        assert_eq!(Roster::listed(ids(&[3, 4, 3])), Err(NodeId(3)));
    }

    #[test]
    fn attributes_decide_the_rank_and_ids_break_ties() {
        let mut roster = slides_ring();
        roster.set_attribute(NodeId(3), 80);
        let view = roster.view(0);
        assert!(view.outranks(NodeId(80), NodeId(3)) && view.outranks(NodeId(3), NodeId(32)));
        assert!(view.above().eq(ids(&[80])));
        assert!(!view.outranks(NodeId(99), NodeId(3)), "a stranger outranks nobody");
        let roster = Roster::listed(ids(&[1, u64::MAX - 1, u64::MAX])).unwrap();
        assert!(roster.view(0).above().eq(ids(&[u64::MAX - 1, u64::MAX])));
        assert!(roster.view(1).above().eq(ids(&[u64::MAX])));
    }

    /// 1,000 members at probability 0.3: binomial with standard deviation 14.5, so a bound of 90
    /// (six of them) fails for fewer than one seed in a hundred million; the seed is fixed.
    #[test]
    fn partial_views_have_the_right_size_contain_their_owner_and_are_not_mutual() {
        let roster = Roster::numbered(1_000).acquainted(1, 0.3);
        let view = roster.view(17);
        assert!(view.len().abs_diff(300) < 90, "{}", view.len());
        assert!(view.contains(NodeId(18)));
        assert_eq!(view.len(), roster.view(17).iter().count());
        let one_sided = view.peers().filter(|id| !roster.view(id.0 as usize - 1).contains(NodeId(18)));
        assert!(one_sided.count() > 0);
        assert!(Roster::numbered(50).acquainted(1, 0.0).view(3).iter().eq(ids(&[4])));
        assert_eq!(Roster::numbered(50).acquainted(1, 1.0).view(3).len(), 50);
    }

    /// However the ranks are kept, the best is the greatest rank of those known that may lead.
    #[test]
    fn the_best_of_a_view_is_its_greatest_rank() {
        let far = ids(&[3, u64::MAX, 5, 1 << 63, 80, u64::MAX - 1]);
        let listed = Roster::listed(far).unwrap();
        let mut shuffled = Roster::numbered(300);
        let mut rng = Rng::new(9);
        for id in 1..=300 {
            shuffled.set_attribute(NodeId(id), rng.below(40) as Attribute);
        }
        let mut lowered = Roster::numbered(300).lowest_first();
        lowered.set_attribute(NodeId(1), -200);
        let numbered = Roster::numbered(300);
        for roster in [
            numbered.clone(),
            numbered.lowest_first(),
            listed.clone(),
            listed.lowest_first(),
            shuffled,
            lowered,
        ] {
            for roster in [roster.clone(), roster.acquainted(1, 0.3)] {
                for slot in 0..roster.len() {
                    let view = roster.view(slot);
                    for divisor in [u64::MAX, 2, 3] {
                        let may_lead = |id: NodeId| !id.0.is_multiple_of(divisor) || id.0 == u64::MAX;
                        let greatest = view.iter().filter(|&id| may_lead(id)).max_by_key(|&id| view.rank(id));
                        assert_eq!(view.best(may_lead), greatest);
                    }
                }
            }
        }
    }

    #[test]
    fn the_lowest_id_may_be_the_best() {
        let mut roster = slides_ring().lowest_first();
        assert_eq!(roster.rank(NodeId(80)).unwrap().attribute, -80);
        assert!(roster.view(0).below().eq(ids(&[32, 5, 80, 6, 12])));
        roster.set_attribute(NodeId(80), 0);
        assert!(roster.view(0).above().eq(ids(&[80])), "the others keep theirs");
    }

    #[test]
    fn a_member_is_told_of_those_it_does_not_know() {
        let roster = Roster::numbered(40).acquainted(2, 0.5).named(7);
        let view = roster.view(2);
        let stranger = roster.iter().find(|&id| !view.contains(id)).unwrap();
        assert!(view.is_member(stranger) && !view.is_member(NodeId(41)));
        assert_eq!((view.rank(stranger), view.member_rank(stranger)), (None, roster.rank(stranger)));
        assert_eq!((view.share(), Roster::numbered(2).view(0).share(), view.group_name()), (0.5, 1.0, 7));
    }

    #[test]
    fn random_peers_are_known_and_never_oneself() {
        let mut rng = Rng::new(5);
        let (whole, partial) = (Roster::numbered(4), Roster::numbered(40).acquainted(2, 0.5));
        let mut met = [0; 4];
        for _ in 0..400 {
            let peer = whole.view(2).random_peer(&mut rng).unwrap();
            met[peer.0 as usize - 1] += 1;
            let peer = partial.view(2).random_peer(&mut rng).unwrap();
            assert!(peer != NodeId(3) && partial.view(2).contains(peer));
        }
        assert_eq!(met[2], 0);
        assert!(met.iter().filter(|&&count| count > 60).count() == 3, "{met:?}");
        assert_eq!(Roster::numbered(1).view(0).random_peer(&mut rng), None);
    }
}
