//! What is due next, of very many: a heap of moments, of which some are out of date.
//!
//! A moment that turns out to be too early costs one look; it is not searched for and taken out. Whoever has
//! an entry knows for when, and adds another only if it wants to be called earlier.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use suffrage_core::Time;

/// Whose turn it is, and when.
#[derive(Debug, Default)]
pub(super) struct Agenda(BinaryHeap<Reverse<(Time, u32)>>);

impl Agenda {
    pub(super) fn add(&mut self, when: Time, who: u32) {
        self.0.push(Reverse((when, who)));
    }

    pub(super) fn next(&self) -> Option<Time> {
        self.0.peek().map(|&Reverse((when, _))| when)
    }

    /// Takes out one whose moment has come.
    pub(super) fn take(&mut self, now: Time) -> Option<(Time, u32)> {
        self.next().filter(|&when| when <= now)?;
        self.0.pop().map(|Reverse(entry)| entry)
    }
}

/// The memory of one entry, in bytes, without the room for growth.
pub(super) const ENTRY_MEMORY: usize = size_of::<(Time, u32)>();
