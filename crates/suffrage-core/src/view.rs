//! A process's knowledge of the group: its members, their order and their ranks.

use std::sync::Arc;

use crate::{Attribute, Hash, NodeId, Overlay, Rank, Rng};

/// A group: its members in ring order, and their attributes.
///
/// A *slot* is a member's position in that order. A group numbered 1..=N stores no list, so that a group of a
/// million processes needs no memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roster {
    members: Members,
    attributes: Attributes,
    partial_views: Option<PartialViews>,
    name: u64,
    overlay: Option<Arc<Overlay>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Members {
    /// Ids 1..=N in that order.
    Numbered(u32),
    Listed {
        order: Vec<NodeId>,
        /// The slots, sorted by id, for look-up.
        slots: Vec<(NodeId, u32)>,
    },
}

/// The attributes of the members.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Attributes {
    /// The attribute of a member is its id.
    Ids,
    /// The attribute of a member is its negated id. No id exceeds the range of attributes.
    NegatedIds,
    /// Attributes by slot.
    Listed(Vec<Attribute>),
}

impl Attributes {
    #[inline]
    fn of(&self, slot: usize, id: NodeId) -> Attribute {
        match self {
            Attributes::Ids => default_attribute(id),
            Attributes::NegatedIds => -default_attribute(id),
            Attributes::Listed(listed) => listed[slot],
        }
    }
}

/// Partial views without stored lists: a hash of the pair decides whether one member knows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartialViews {
    hash: Hash,
    /// `view_prob` in units of 2^-53: an integer keeps the roster comparable.
    threshold: u64,
}

/// The default attribute of a member: its id. Ids beyond the range of attributes get the greatest attribute, and the
/// ids break the ties.
#[inline]
fn default_attribute(id: NodeId) -> Attribute {
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
            partial_views: None,
            name: 0,
            overlay: None,
        }
    }

    /// A group in the given ring order, each ranked by its id. The error is an id that occurs twice.
    pub fn listed(order: Vec<NodeId>) -> Result<Roster, NodeId> {
        let mut slots: Vec<_> = order.iter().copied().zip(0..).collect();
        slots.sort_unstable();
        if let Some(duplicate) = slots.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(duplicate[0].0);
        }
        let members = Members::Listed { order, slots };
        let (partial_views, overlay) = (None, None);
        Ok(Roster { members, attributes: Attributes::Ids, partial_views, name: 0, overlay })
    }

    /// Gives each member a partial view: it knows each other member with the given probability, independently,
    /// decided by a hash of the pair (Gupta et al., section 2).
    pub fn with_partial_views(mut self, seed: u64, probability: f64) -> Roster {
        let threshold = (probability.clamp(0.0, 1.0) * (1u64 << 53) as f64) as u64;
        self.partial_views = Some(PartialViews { hash: Hash::new(seed), threshold });
        self
    }

    /// Gives the group a name that all members know and no other group has. Members that seed their hashes with the
    /// name agree with each other, and differ from other groups.
    pub fn with_name(mut self, name: u64) -> Roster {
        self.name = name;
        self
    }

    /// Sets the attribute of each member to its negated id: the lowest id ranks highest.
    pub fn lowest_first(mut self) -> Roster {
        let in_range = |id: NodeId| Attribute::try_from(id.0).is_ok();
        self.attributes = match &self.members {
            Members::Listed { order, .. } if !order.iter().all(|&id| in_range(id)) => {
                Attributes::Listed(order.iter().map(|&id| -default_attribute(id)).collect())
            }
            _ => Attributes::NegatedIds,
        };
        self
    }

    /// Restricts sampling of members to random walks over an overlay, for algorithms that sample. Messages go
    /// directly to the members that were found.
    ///
    /// # Panics
    /// If the overlay and the group differ in size.
    pub fn with_overlay(mut self, overlay: Arc<Overlay>) -> Roster {
        assert_eq!(overlay.len(), self.len(), "the overlay and the group must have the same size");
        self.overlay = Some(overlay);
        self
    }

    /// Changes the attribute of a member. Non-members are ignored.
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

    /// The number of members.
    #[inline]
    pub fn len(&self) -> usize {
        match &self.members {
            Members::Numbered(count) => *count as usize,
            Members::Listed { order, .. } => order.len(),
        }
    }

    /// Returns whether the group has no members.
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

    /// The slot of a member; `None` for a non-member.
    #[inline]
    pub fn slot(&self, id: NodeId) -> Option<usize> {
        match &self.members {
            Members::Numbered(count) => {
                let slot = id.0.wrapping_sub(1);
                (slot < u64::from(*count)).then_some(slot as usize)
            }
            Members::Listed { slots, .. } => {
                let index = slots.binary_search_by_key(&id, |&(id, _)| id).ok()?;
                Some(slots[index].1 as usize)
            }
        }
    }

    /// All members, in ring order.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = NodeId> + ExactSizeIterator + '_ {
        (0..self.len()).map(|slot| self.id(slot))
    }

    /// The rank of a member; `None` for a non-member.
    #[inline]
    pub fn rank(&self, id: NodeId) -> Option<Rank> {
        self.slot(id).map(|slot| self.rank_in(slot, id))
    }

    #[inline]
    fn rank_in(&self, slot: usize, id: NodeId) -> Rank {
        Rank { attribute: self.attributes.of(slot, id), id }
    }

    /// All members, in descending order of id.
    fn descending(&self) -> impl DoubleEndedIterator<Item = NodeId> + '_ {
        (0..self.len()).rev().map(|index| match &self.members {
            Members::Numbered(_) => NodeId(index as u64 + 1),
            Members::Listed { slots, .. } => slots[index].0,
        })
    }

    /// The view of the member in this slot.
    #[inline]
    pub fn view(&self, slot: usize) -> View<'_> {
        View { roster: self, me: self.id(slot), slot }
    }
}

/// One process's knowledge of the group. A view always contains its owner.
///
/// A view is a small handle that does not borrow the [`Context`](crate::Context) it comes from, so that a process
/// can send while it iterates over the view.
#[derive(Clone, Copy, Debug)]
pub struct View<'v> {
    roster: &'v Roster,
    me: NodeId,
    slot: usize,
}

impl<'v> View<'v> {
    /// The owner of the view.
    #[inline]
    pub fn me(self) -> NodeId {
        self.me
    }

    /// The number of members that this process knows, itself included. If the view is partial, the count takes time
    /// proportional to the size of the group.
    pub fn len(self) -> usize {
        match self.roster.partial_views {
            None => self.roster.len(),
            Some(_) => self.iter().count(),
        }
    }

    /// Always false: a view contains its owner.
    pub fn is_empty(self) -> bool {
        false
    }

    /// The number of members of the whole group, known or unknown.
    #[inline]
    pub fn group_len(self) -> usize {
        self.roster.len()
    }

    /// The name of the group, which all members know.
    #[inline]
    pub fn group_name(self) -> u64 {
        self.roster.name
    }

    /// The probability that one member of the group knows another.
    pub fn view_probability(self) -> f64 {
        let one = (1u64 << 53) as f64;
        self.roster.partial_views.map_or(1.0, |partial_views| partial_views.threshold as f64 / one)
    }

    /// Returns whether `id` is a member of the group, known or unknown.
    #[inline]
    pub fn is_member(self, id: NodeId) -> bool {
        self.roster.slot(id).is_some()
    }

    /// Returns whether this process knows the member `id`.
    #[inline]
    pub fn contains(self, id: NodeId) -> bool {
        self.roster.slot(id).is_some() && self.knows(id)
    }

    #[inline]
    fn knows(self, id: NodeId) -> bool {
        match self.roster.partial_views {
            None => true,
            Some(PartialViews { hash, threshold }) => {
                id == self.me || hash.pair(self.me.0, id.0) >> 11 < threshold
            }
        }
    }

    /// All known members, this process included, in ring order from the roster's start.
    pub fn iter(self) -> impl Iterator<Item = NodeId> + 'v {
        self.roster.iter().filter(move |&id| self.knows(id))
    }

    /// All known members but this process, in ring order from the roster's start.
    pub fn peers(self) -> impl Iterator<Item = NodeId> + 'v {
        self.iter().filter(move |&id| id != self.me)
    }

    /// All known members but this process, in ring order from its successor on.
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

    /// The member in this slot, known or unknown. Slots are positions in ring order, below
    /// [`group_len`](View::group_len).
    ///
    /// # Panics
    /// If there is no such slot.
    #[inline]
    pub fn in_slot(self, slot: usize) -> NodeId {
        self.roster.id(slot)
    }

    /// The slot of a member, known or unknown; `None` for a non-member.
    #[inline]
    pub fn slot_of(self, id: NodeId) -> Option<usize> {
        self.roster.slot(id)
    }

    /// The overlay that members sample each other by. `None` if a member can reach every other member directly.
    #[inline]
    pub fn overlay(self) -> Option<&'v Overlay> {
        self.roster.overlay.as_deref()
    }

    /// This process's own slot.
    pub fn slot(self) -> usize {
        self.slot
    }

    /// The number of hops from this process to `id` on the ring: 1 for its successor. `None` for a non-member.
    pub fn distance(self, id: NodeId) -> Option<usize> {
        let count = self.roster.len();
        Some((self.roster.slot(id)? + count - self.slot) % count)
    }

    /// The rank of a known member; `None` for other ids.
    #[inline]
    pub fn rank(self, id: NodeId) -> Option<Rank> {
        self.roster.rank(id).filter(|_| self.knows(id))
    }

    /// The rank of a member of the group, known or unknown, for members that this process has learnt of from
    /// messages. `None` for a non-member.
    #[inline]
    pub fn member_rank(self, id: NodeId) -> Option<Rank> {
        self.roster.rank(id)
    }

    /// The best-ranked known member, this process included, among those that may lead. If ranks follow ids, the
    /// search goes from the best id down and takes as many steps as there are better ids that are unknown or may not
    /// lead. Otherwise the search reads all ranks.
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

    /// The rank of this process.
    #[inline]
    pub fn my_rank(self) -> Rank {
        self.roster.rank_in(self.slot, self.me)
    }

    /// Returns whether `id` outranks `other`. An unknown id never outranks.
    #[inline]
    pub fn outranks(self, id: NodeId, other: NodeId) -> bool {
        self.rank(id) > self.rank(other)
    }

    /// The known peers that rank above this process, in ring order.
    pub fn above(self) -> impl Iterator<Item = NodeId> + 'v {
        let mine = Some(self.my_rank());
        self.peers().filter(move |&id| self.rank(id) > mine)
    }

    /// The known peers that rank below this process, in ring order.
    pub fn below(self) -> impl Iterator<Item = NodeId> + 'v {
        let mine = Some(self.my_rank());
        self.peers().filter(move |&id| self.rank(id) < mine)
    }

    /// A uniformly chosen known peer; `None` if this process knows no peer.
    #[inline]
    pub fn random_peer(self, rng: &mut Rng) -> Option<NodeId> {
        let others = self.roster.len() as u64 - 1;
        if self.roster.partial_views.is_some() {
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
    fn numbered_and_listed_groups_give_equal_views() {
        let numbered = Roster::numbered(5);
        let listed = Roster::listed(ids(&[1, 2, 3, 4, 5])).unwrap();
        for slot in 0..5 {
            let (a, b) = (numbered.view(slot), listed.view(slot));
            assert!(a.iter().eq(b.iter()) && a.successors().eq(b.successors()));
            assert!(a.above().eq(b.above()) && a.below().eq(b.below()));
            assert_eq!((a.my_rank(), a.len()), (b.my_rank(), b.len()));
        }
        for non_member in [0, 6, u64::MAX] {
            assert!(numbered.slot(NodeId(non_member)).is_none() && listed.slot(NodeId(non_member)).is_none());
        }
    }

    #[test]
    fn successors_start_after_the_view_owner() {
        let roster = slides_ring();
        let view = roster.view(roster.slot(NodeId(80)).unwrap());
        assert!(view.successors().eq(ids(&[6, 12, 3, 32, 5])));
        assert_eq!(view.distance(NodeId(6)), Some(1));
        assert_eq!(view.in_slot(3), NodeId(80));
        assert_eq!(view.distance(NodeId(5)), Some(5));
    }

    #[test]
    fn a_duplicate_id_is_rejected() {
        assert_eq!(Roster::listed(ids(&[3, 4, 3])), Err(NodeId(3)));
    }

    #[test]
    fn attributes_decide_the_rank_and_ids_break_ties() {
        let mut roster = slides_ring();
        roster.set_attribute(NodeId(3), 80);
        let view = roster.view(0);
        assert!(view.outranks(NodeId(80), NodeId(3)) && view.outranks(NodeId(3), NodeId(32)));
        assert!(view.above().eq(ids(&[80])));
        assert!(!view.outranks(NodeId(99), NodeId(3)), "a non-member never outranks a member");
        let roster = Roster::listed(ids(&[1, u64::MAX - 1, u64::MAX])).unwrap();
        assert!(roster.view(0).above().eq(ids(&[u64::MAX - 1, u64::MAX])));
        assert!(roster.view(1).above().eq(ids(&[u64::MAX])));
    }

    /// 1,000 members at probability 0.3: the view size is binomial with standard deviation 14.5. A tolerance of 90
    /// (six standard deviations) fails for fewer than one seed in 10^8. The seed is fixed.
    #[test]
    fn partial_views_have_the_expected_size_contain_their_owner_and_are_not_symmetric() {
        let roster = Roster::numbered(1_000).with_partial_views(1, 0.3);
        let view = roster.view(17);
        assert!(view.len().abs_diff(300) < 90, "{}", view.len());
        assert!(view.contains(NodeId(18)));
        assert_eq!(view.len(), roster.view(17).iter().count());
        let one_sided = view.peers().filter(|id| !roster.view(id.0 as usize - 1).contains(NodeId(18)));
        assert!(one_sided.count() > 0);
        assert!(Roster::numbered(50).with_partial_views(1, 0.0).view(3).iter().eq(ids(&[4])));
        assert_eq!(Roster::numbered(50).with_partial_views(1, 1.0).view(3).len(), 50);
    }

    /// For every representation of ranks, `best` is the greatest rank among the known members that may lead.
    #[test]
    fn best_is_the_greatest_rank_of_the_view() {
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
            for roster in [roster.clone(), roster.with_partial_views(1, 0.3)] {
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
    fn lowest_first_ranks_the_lowest_id_highest() {
        let mut roster = slides_ring().lowest_first();
        assert_eq!(roster.rank(NodeId(80)).unwrap().attribute, -80);
        assert!(roster.view(0).below().eq(ids(&[32, 5, 80, 6, 12])));
        roster.set_attribute(NodeId(80), 0);
        assert!(roster.view(0).above().eq(ids(&[80])), "the other members keep their ranks");
    }

    #[test]
    fn ranks_of_unknown_members_are_available_by_member_rank() {
        let roster = Roster::numbered(40).with_partial_views(2, 0.5).with_name(7);
        let view = roster.view(2);
        let non_member = roster.iter().find(|&id| !view.contains(id)).unwrap();
        assert!(view.is_member(non_member) && !view.is_member(NodeId(41)));
        assert_eq!((view.rank(non_member), view.member_rank(non_member)), (None, roster.rank(non_member)));
        assert_eq!(
            (view.view_probability(), Roster::numbered(2).view(0).view_probability(), view.group_name()),
            (0.5, 1.0, 7)
        );
    }

    #[test]
    fn random_peers_are_known_and_exclude_the_view_owner() {
        let mut rng = Rng::new(5);
        let (whole, partial) = (Roster::numbered(4), Roster::numbered(40).with_partial_views(2, 0.5));
        let mut counts = [0; 4];
        for _ in 0..400 {
            let peer = whole.view(2).random_peer(&mut rng).unwrap();
            counts[peer.0 as usize - 1] += 1;
            let peer = partial.view(2).random_peer(&mut rng).unwrap();
            assert!(peer != NodeId(3) && partial.view(2).contains(peer));
        }
        assert_eq!(counts[2], 0);
        assert!(counts.iter().filter(|&&count| count > 60).count() == 3, "{counts:?}");
        assert_eq!(Roster::numbered(1).view(0).random_peer(&mut rng), None);
    }
}
