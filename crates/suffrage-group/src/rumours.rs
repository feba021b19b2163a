//! The news that a member still passes on.

use std::collections::{BTreeMap, VecDeque};

use suffrage_core::NodeId;

/// Above this many pieces of news, each is passed on less often, and above four times as many not at all: in a storm, lists
/// are compared instead.
const STORM: usize = 100;

/// The members about whom there is news, each with the number of transmissions left. The newest come first. The text of
/// the news is the present state of the member, so that old news is never sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Rumours {
    queue: VecDeque<NodeId>,
    left: BTreeMap<NodeId, u8>,
}

impl Rumours {
    /// Adds news about a member.
    pub(crate) fn push(&mut self, id: NodeId, transmissions: u8) {
        let storm = self.left.len() / STORM;
        if storm > 3 && !self.left.contains_key(&id) {
            return;
        }
        let transmissions = transmissions.div_ceil(1 + storm.min(3) as u8);
        if self.left.insert(id, transmissions).is_none() {
            self.queue.push_front(id);
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.left.len()
    }

    /// Takes news for one message: calls `add` until it returns false because the message is full.
    pub(crate) fn take(&mut self, mut add: impl FnMut(NodeId) -> bool) {
        for _ in 0..self.queue.len() {
            let Some(id) = self.queue.pop_front() else { return };
            let left = self.left.get_mut(&id).expect("every member in the queue has transmissions left");
            if !add(id) {
                return self.queue.push_front(id);
            }
            *left -= 1;
            if *left == 0 {
                self.left.remove(&id);
            } else {
                self.queue.push_back(id);
            }
        }
        if self.queue.is_empty() {
            // The storm of a forming group leaves no memory behind.
            self.queue = VecDeque::new();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(rumours: &mut Rumours, most: usize) -> Vec<u64> {
        let mut taken = Vec::new();
        rumours.take(|id| {
            let fits = taken.len() < most;
            if fits {
                taken.push(id.0);
            }
            fits
        });
        taken
    }

    #[test]
    fn each_piece_of_news_is_sent_a_bounded_number_of_times() {
        let mut rumours = Rumours::default();
        for id in 1..=3 {
            rumours.push(NodeId(id), 2);
        }
        assert_eq!(take(&mut rumours, 2), [3, 2]);
        assert_eq!(take(&mut rumours, 2), [1, 3]);
        rumours.push(NodeId(3), 2);
        assert_eq!(take(&mut rumours, 9), [3, 2, 1]);
        assert_eq!(take(&mut rumours, 9), [3]);
        assert_eq!((take(&mut rumours, 9), rumours.len()), (vec![], 0));
    }

    #[test]
    fn a_storm_is_passed_on_less_often() {
        let mut rumours = Rumours::default();
        for id in 0..1_000 {
            rumours.push(NodeId(id), 4);
        }
        let mut sent = 0;
        while rumours.len() > 0 {
            sent += take(&mut rumours, 50).len();
        }
        assert!((500..1_000).contains(&sent), "{sent}");
    }
}
