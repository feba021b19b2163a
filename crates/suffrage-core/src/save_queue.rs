//! The saves that a process has begun and that are not durable yet.

/// The saves of a process that does not wait for its disk ([`begin_save`](crate::Context::begin_save)). One state is
/// written at a time. A later state replaces one that waits, because a state replaces the earlier ones anyway.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SaveQueue<S> {
    writing: Option<S>,
    waiting: Option<S>,
}

impl<S> Default for SaveQueue<S> {
    fn default() -> SaveQueue<S> {
        SaveQueue { writing: None, waiting: None }
    }
}

impl<S> SaveQueue<S> {
    /// Adds a state. Returns the state to write now; none while another one is written.
    pub fn begin(&mut self, state: S) -> Option<&S> {
        if self.writing.is_some() {
            self.waiting = Some(state);
            return None;
        }
        self.writing = Some(state);
        self.writing.as_ref()
    }

    /// The state that is being written.
    pub fn writing(&self) -> Option<&S> {
        self.writing.as_ref()
    }

    /// The write has ended: returns the state that is durable. The next state to write, if there is one, is then
    /// [`writing`](SaveQueue::writing).
    pub fn end(&mut self) -> Option<S> {
        let next = self.waiting.take();
        std::mem::replace(&mut self.writing, next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_state_is_written_at_a_time_and_later_ones_replace_those_that_wait() {
        let mut queue = SaveQueue::default();
        assert_eq!(queue.begin(1), Some(&1));
        assert!(queue.begin(2).is_none() && queue.begin(3).is_none());
        assert_eq!(queue.end(), Some(1));
        assert_eq!(queue.writing(), Some(&3));
        assert!(queue.begin(4).is_none());
        assert_eq!(queue.end(), Some(3));
        assert_eq!(queue.end(), Some(4));
        assert!(queue.writing().is_none() && queue.end().is_none());
    }
}
