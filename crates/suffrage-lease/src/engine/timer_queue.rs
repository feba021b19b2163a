//! A timer queue for very many elections.
//!
//! It is an ordered set, not a heap with stale entries: equal timers make equal values, whatever their history is. The
//! model checker needs that.

use std::collections::BTreeSet;

use suffrage_core::Time;

use crate::voter::per_entry;

/// When each election is due, with at most one entry for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TimerQueue(BTreeSet<(Time, u32)>);

impl TimerQueue {
    /// Moves the entry of an election from `before` to `due`.
    pub(super) fn set(&mut self, index: u32, before: Option<Time>, due: Option<Time>) {
        if before == due {
            return;
        }
        if let Some(before) = before {
            self.0.remove(&(before, index));
        }
        if let Some(due) = due {
            self.0.insert((due, index));
        }
    }

    /// The earliest due moment.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|&(due, _)| due)
    }

    /// Removes and returns an election that is due.
    pub(super) fn take(&mut self, now: Time) -> Option<u32> {
        self.next().filter(|&due| due <= now)?;
        self.0.pop_first().map(|(_, index)| index)
    }
}

/// The memory of one entry, in bytes.
pub(super) const ENTRY_MEMORY: usize = per_entry(size_of::<(Time, u32)>());
