//! The moments at which the elections of a node are due, of very many.
//!
//! An ordered set, not a heap with stale entries: the same elections make the same value, whichever way it was
//! reached, as a model checker needs it.

use std::collections::BTreeSet;

use suffrage_core::Time;

use crate::voter::per_entry;

/// Which election is due, and when: one entry for each.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct TimerQueue(BTreeSet<(Time, u32)>);

impl TimerQueue {
    /// Moves an election's entry.
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

    /// The next moment at which any is due.
    pub(super) fn next(&self) -> Option<Time> {
        self.0.first().map(|&(due, _)| due)
    }

    /// Takes out one that is due.
    pub(super) fn take(&mut self, now: Time) -> Option<u32> {
        self.next().filter(|&due| due <= now)?;
        self.0.pop_first().map(|(_, index)| index)
    }
}

/// The memory of one entry, in bytes.
pub(super) const ENTRY_MEMORY: usize = per_entry(size_of::<(Time, u32)>());
