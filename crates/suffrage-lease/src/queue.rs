//! The candidates that wait for an election, in the order in which a voter wakes them.

use suffrage_core::{Attribute, NodeId, Span, Time};

/// The candidates that wait at one voter for one election. Higher ranks come first. Among equal ranks the longest wait
/// comes first, so that no candidate starves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Queue(Vec<Waiter>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    who: NodeId,
    attribute: Attribute,
    /// When the voter last heard from the candidate.
    last_heard: Time,
}

impl Queue {
    /// Queues a candidate. A candidate that is in the queue already keeps its position, unless its rank has changed.
    /// Candidates that have been silent for longer than `stale_after` are dropped.
    pub fn join(&mut self, who: NodeId, attribute: Attribute, now: Time, stale_after: Span) {
        let here = self.0.iter_mut().find(|waiter| waiter.who == who && waiter.attribute == attribute);
        if let Some(waiter) = here {
            waiter.last_heard = now;
            return;
        }
        self.leave(who);
        self.drop_stale(now, stale_after);
        let position = self.0.partition_point(|waiter| waiter.attribute >= attribute);
        self.0.insert(position, Waiter { who, attribute, last_heard: now });
    }

    /// Removes a candidate. True if it was in the queue.
    pub fn leave(&mut self, who: NodeId) -> bool {
        let before = self.0.len();
        self.0.retain(|waiter| waiter.who != who);
        self.0.len() < before
    }

    /// Removes and returns the next candidate: the preferred one if it is in the queue, or else the first. Candidates
    /// that have been silent for longer than `stale_after` are dropped.
    pub fn next(&mut self, preferred: Option<NodeId>, now: Time, stale_after: Span) -> Option<NodeId> {
        self.drop_stale(now, stale_after);
        let preferred = preferred.filter(|&who| self.leave(who));
        preferred.or_else(|| (!self.0.is_empty()).then(|| self.0.remove(0).who))
    }

    fn drop_stale(&mut self, now: Time, stale_after: Span) {
        self.0.retain(|waiter| now.since(waiter.last_heard) <= stale_after);
    }

    /// The waiting candidates in order, with their ranks.
    pub fn iter(&self) -> impl Iterator<Item = (NodeId, Attribute)> {
        self.0.iter().map(|waiter| (waiter.who, waiter.attribute))
    }

    /// The waiting candidates in order, without those that have been silent for longer than `stale_after`.
    pub fn live(&self, now: Time, stale_after: Span) -> impl Iterator<Item = NodeId> {
        let heard = move |waiter: &&Waiter| now.since(waiter.last_heard) <= stale_after;
        self.0.iter().filter(heard).map(|waiter| waiter.who)
    }

    /// Whether the queue is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STALE_AFTER: Span = Span::from_millis(10);

    fn time(units: u64) -> Time {
        Time::ZERO + Span::from_millis(units)
    }

    #[test]
    fn better_ones_come_first_and_equal_ones_in_turn() {
        let mut queue = Queue::default();
        for (who, attribute) in [(1, 5), (2, 9), (3, 5), (4, 7)] {
            queue.join(NodeId(who), attribute, time(0), STALE_AFTER);
        }
        queue.join(NodeId(1), 5, time(1), STALE_AFTER);
        let mut order = Vec::new();
        for _ in 0..6 {
            let next = queue.next(None, time(2), STALE_AFTER).unwrap();
            order.push(next.0);
            if next.0 == 1 || next.0 == 3 {
                queue.join(next, 5, time(2), STALE_AFTER);
            }
        }
        assert_eq!(order, [2, 4, 1, 3, 1, 3], "within a rank, nobody is passed over twice");
    }

    #[test]
    fn the_preferred_candidate_comes_first_and_silent_candidates_are_dropped() {
        let mut queue = Queue::default();
        for who in 1..=4 {
            queue.join(NodeId(who), who as Attribute, time(if who == 3 { 0 } else { 5 }), STALE_AFTER);
        }
        assert_eq!(queue.live(time(11), STALE_AFTER).collect::<Vec<_>>(), [4, 2, 1].map(NodeId));
        assert_eq!(queue.next(Some(NodeId(2)), time(6), STALE_AFTER), Some(NodeId(2)));
        assert_eq!(queue.next(Some(NodeId(9)), time(11), STALE_AFTER), Some(NodeId(4)));
        assert_eq!(queue.next(None, time(11), STALE_AFTER), Some(NodeId(1)), "3 was last heard at 0");
        assert!(queue.is_empty());
    }

    #[test]
    fn a_change_of_rank_changes_the_position() {
        let mut queue = Queue::default();
        queue.join(NodeId(1), 1, time(0), STALE_AFTER);
        queue.join(NodeId(2), 2, time(0), STALE_AFTER);
        queue.join(NodeId(1), 3, time(0), STALE_AFTER);
        assert_eq!(queue.next(None, time(0), STALE_AFTER), Some(NodeId(1)));
        assert_eq!(queue.next(None, time(0), STALE_AFTER), Some(NodeId(2)));
        assert_eq!(queue.next(None, time(0), STALE_AFTER), None);
    }

    /// While an election is held no candidate is woken, possibly for months.
    #[test]
    fn candidates_that_come_and_go_do_not_accumulate() {
        let mut queue = Queue::default();
        for who in 0..1_000 {
            queue.join(NodeId(who), 5, time(who), STALE_AFTER);
            assert!(queue.iter().count() <= 11, "heard within the last 10");
        }
        assert_eq!(queue.next(None, time(1_000), STALE_AFTER), Some(NodeId(990)));
    }
}
