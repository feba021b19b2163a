//! Who led when, by the clock of the machine.
//!
//! All nodes of a demo run on one machine and read one clock, so that their reports can be compared. A leader with a lease
//! leads until the end of its lease by its last report, and not longer, also if it is paused and cannot say so.

use std::collections::VecDeque;

use suffrage_core::{Span, Time};

/// The most leaderships that are kept.
const KEPT: usize = 512;

/// A leadership of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reign {
    pub(super) node: usize,
    /// The token or the term.
    pub(super) number: u64,
    pub(super) from: Time,
    /// The end, or the end of the lease by the last report. None while a node without a lease leads.
    pub(super) to: Option<Time>,
    /// Whether the node still leads, as far as it is known.
    pub(super) open: bool,
}

impl Reign {
    /// The time for which two nodes lead at once, up to now.
    fn overlap(&self, other: &Reign, now: Time) -> Span {
        if self.node == other.node {
            return Span::ZERO;
        }
        let end = |reign: &Reign| reign.to.unwrap_or(now).min(now);
        end(self).min(end(other)).since(self.from.max(other.from))
    }
}

/// Pairs of leaderships of two nodes that overlap.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Overlaps {
    pub(super) count: u64,
    pub(super) time: Span,
}

impl Overlaps {
    fn add(&mut self, overlap: Span) {
        if !overlap.is_zero() {
            self.count += 1;
            self.time += overlap;
        }
    }
}

/// The leaderships of all nodes.
#[derive(Debug, Default)]
pub(super) struct Timeline {
    reigns: VecDeque<Reign>,
    /// Those of leaderships that are no longer kept.
    forgotten: Overlaps,
}

impl Timeline {
    /// A node leads from this time on, with a lease until its first report of the validity, or without.
    pub(super) fn begin(&mut self, node: usize, number: u64, at: Time, has_lease: bool) {
        self.end(node, at);
        if self.reigns.len() == KEPT
            && let Some(oldest) = self.reigns.pop_front()
        {
            let end = oldest.to.unwrap_or(at);
            self.reigns.iter().for_each(|other| self.forgotten.add(oldest.overlap(other, end)));
        }
        self.reigns.push_back(Reign { node, number, from: at, to: has_lease.then_some(at), open: true });
    }

    /// A node has reported at this time for how long its lease is still valid. A node that continues after a pause reports
    /// that nothing is left, when others may lead already.
    pub(super) fn on_validity(&mut self, node: usize, at: Time, left: Span) {
        if left.is_zero() {
            return self.end(node, at);
        }
        if let Some(reign) = self.current(node) {
            reign.to = Some(reign.to.map_or(at + left, |to| to.max(at + left)));
        }
    }

    /// A node leads no longer than until this time.
    pub(super) fn end(&mut self, node: usize, at: Time) {
        if let Some(reign) = self.current(node) {
            reign.to = Some(reign.to.map_or(at, |to| to.min(at)).max(reign.from));
            reign.open = false;
        }
    }

    fn current(&mut self, node: usize) -> Option<&mut Reign> {
        self.reigns.iter_mut().rev().find(|reign| reign.node == node).filter(|reign| reign.open)
    }

    /// The leaderships that have not ended before this time, the oldest first.
    pub(super) fn since(&self, time: Time) -> impl Iterator<Item = &Reign> {
        self.reigns.iter().filter(move |reign| reign.to.is_none_or(|to| to >= time))
    }

    /// The overlaps of all leaderships up to now.
    pub(super) fn overlaps(&self, now: Time) -> Overlaps {
        let mut overlaps = self.forgotten;
        for (place, reign) in self.reigns.iter().enumerate() {
            for later in self.reigns.iter().skip(place + 1) {
                overlaps.add(reign.overlap(later, now));
            }
        }
        overlaps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: u64) -> Time {
        Time::ZERO + Span::from_millis(milliseconds)
    }

    #[test]
    fn a_lease_ends_by_its_last_report_although_the_node_does_not_say_so() {
        let mut timeline = Timeline::default();
        timeline.begin(0, 1, at(0), true);
        timeline.on_validity(0, at(0), Span::from_millis(900));
        timeline.on_validity(0, at(100), Span::from_millis(900));
        // The node is paused. The next leader begins when the lease has ended.
        timeline.begin(1, 2, at(1_000), true);
        timeline.on_validity(1, at(1_000), Span::from_millis(1_000));
        // The first one continues, and reports late that nothing is left of its lease, and that it has lost it.
        timeline.on_validity(0, at(1_500), Span::ZERO);
        timeline.end(0, at(5_000));
        assert_eq!(timeline.overlaps(at(6_000)), Overlaps::default());
        assert_eq!(timeline.since(at(0)).next().unwrap().to, Some(at(1_000)));
    }

    #[test]
    fn two_leaders_at_once_are_counted_with_their_time() {
        let mut timeline = Timeline::default();
        timeline.begin(0, 1, at(0), false);
        timeline.begin(1, 2, at(100), false);
        assert_eq!(timeline.overlaps(at(100)), Overlaps::default(), "no time has passed yet");
        let expected = Overlaps { count: 1, time: Span::from_millis(200) };
        assert_eq!(timeline.overlaps(at(300)), expected);
        timeline.end(0, at(300));
        assert_eq!(timeline.overlaps(at(900)), expected);
        // The same node again is no second leader.
        timeline.begin(1, 3, at(900), false);
        assert_eq!(timeline.overlaps(at(1_000)), expected);
        timeline.begin(2, 3, at(950), false);
        assert_eq!(timeline.overlaps(at(1_000)), Overlaps { count: 2, time: Span::from_millis(250) });
    }

    #[test]
    fn the_counter_remembers_what_the_timeline_forgets() {
        let mut timeline = Timeline::default();
        timeline.begin(0, 1, at(0), false);
        timeline.begin(1, 2, at(10), false);
        timeline.end(0, at(20));
        for number in 0..KEPT as u64 + 10 {
            timeline.begin(1, number, at(100 + number), false);
        }
        assert_eq!(timeline.reigns.len(), KEPT);
        assert_eq!(timeline.overlaps(at(9_999)), Overlaps { count: 1, time: Span::from_millis(10) });
    }
}
