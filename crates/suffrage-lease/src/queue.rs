//! Who waits for an election to become vacant, and in which order.

use suffrage_core::{Attribute, NodeId, Span, Time};

/// The candidates that wait at one voter for one election: better ones first, and of equal ones whoever has
/// waited longer, so that none of them waits for ever.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue(Vec<Waiter>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    who: NodeId,
    attribute: Attribute,
    /// When it was last heard.
    heard: Time,
}

impl Queue {
    /// Queues a candidate. One that is there already keeps its place, unless its rank has changed. Those that have
    /// not been heard for longer than this are gone, and make room.
    pub fn join(&mut self, who: NodeId, attribute: Attribute, now: Time, patience: Span) {
        let here = self.0.iter_mut().find(|waiter| waiter.who == who && waiter.attribute == attribute);
        if let Some(waiter) = here {
            waiter.heard = now;
            return;
        }
        self.leave(who);
        self.drop_silent(now, patience);
        let place = self.0.partition_point(|waiter| waiter.attribute >= attribute);
        self.0.insert(place, Waiter { who, attribute, heard: now });
    }

    /// Takes a candidate out. True if it was there.
    pub fn leave(&mut self, who: NodeId) -> bool {
        let before = self.0.len();
        self.0.retain(|waiter| waiter.who != who);
        self.0.len() < before
    }

    /// Takes out whose turn it is: the preferred one, if it is there, or else the first. Those that have
    /// not been heard for longer than this are gone, and are dropped.
    pub fn next(&mut self, preferred: Option<NodeId>, now: Time, patience: Span) -> Option<NodeId> {
        self.drop_silent(now, patience);
        let preferred = preferred.filter(|&who| self.leave(who));
        preferred.or_else(|| (!self.0.is_empty()).then(|| self.0.remove(0).who))
    }

    fn drop_silent(&mut self, now: Time, patience: Span) {
        self.0.retain(|waiter| now.since(waiter.heard) <= patience);
    }

    /// Who waits, in order, and how good a leader each would be.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, Attribute)> {
        self.0.iter().map(|waiter| (waiter.who, waiter.attribute))
    }

    /// Whether nobody waits.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Span = Span::from_millis(10);

    fn time(units: u64) -> Time {
        Time::ZERO + Span::from_millis(units)
    }

    #[test]
    fn better_ones_come_first_and_equal_ones_in_turn() {
        let mut queue = Queue::default();
        for (who, attribute) in [(1, 5), (2, 9), (3, 5), (4, 7)] {
            queue.join(NodeId(who), attribute, time(0), PATIENCE);
        }
        queue.join(NodeId(1), 5, time(1), PATIENCE);
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = queue.next(None, time(2), PATIENCE).unwrap();
            order.push(next.0);
            if next.0 == 1 || next.0 == 3 {
                queue.join(next, 5, time(2), PATIENCE);
            }
        }
        assert_eq!(order, [2, 4, 1, 3, 1, 3], "within a rank, nobody is passed over twice");
    }

    #[test]
    fn the_preferred_one_comes_first_if_it_waits_and_the_silent_are_dropped() {
        let mut queue = Queue::default();
        for who in 1..=4 {
            queue.join(NodeId(who), who as Attribute, time(if who == 3 { 0 } else { 5 }), PATIENCE);
        }
        assert_eq!(queue.next(Some(NodeId(2)), time(6), PATIENCE), Some(NodeId(2)));
        assert_eq!(queue.next(Some(NodeId(9)), time(11), PATIENCE), Some(NodeId(4)));
        assert_eq!(queue.next(None, time(11), PATIENCE), Some(NodeId(1)), "3 was last heard at 0");
        assert!(queue.is_empty());
    }

    #[test]
    fn a_change_of_rank_changes_the_place() {
        let mut queue = Queue::default();
        queue.join(NodeId(1), 1, time(0), PATIENCE);
        queue.join(NodeId(2), 2, time(0), PATIENCE);
        queue.join(NodeId(1), 3, time(0), PATIENCE);
        assert_eq!(queue.next(None, time(0), PATIENCE), Some(NodeId(1)));
        assert_eq!(queue.next(None, time(0), PATIENCE), Some(NodeId(2)));
        assert_eq!(queue.next(None, time(0), PATIENCE), None);
    }

    /// Nobody is woken while the election is held, be it for months.
    #[test]
    fn those_that_come_and_go_do_not_pile_up() {
        let mut queue = Queue::default();
        for who in 0..1_000 {
            queue.join(NodeId(who), 5, time(who), PATIENCE);
            assert!(queue.iter().count() <= 11, "heard within the last 10");
        }
        assert_eq!(queue.next(None, time(1_000), PATIENCE), Some(NodeId(990)));
    }
}
