//! Changes of leaders, for the open pages.
//!
//! The number of streams is limited, and each holds a bounded number of changes: a page that does not read them is told
//! that it has missed some, and reads the present state.

use std::sync::Arc;

use suffrage_lease::ElectionName;
use suffrage_node::lease::{Leader, NodeEvent};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, broadcast};

/// The most streams at a time.
pub(super) const MOST_STREAMS: usize = 32;
/// The number of changes that the streams hold, all together.
const HELD: usize = 256;

/// A change of the leader of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeaderChange {
    pub(super) election: ElectionName,
    pub(super) leader: Option<Leader>,
}

/// The changes of leaders that a node learns of.
#[derive(Clone)]
pub(super) struct Changes {
    sender: broadcast::Sender<LeaderChange>,
    streams: Arc<Semaphore>,
}

/// A place among the streams, and the changes since it was taken.
pub(super) struct Subscription {
    changes: broadcast::Receiver<LeaderChange>,
    _place: OwnedSemaphorePermit,
}

/// Changes that a stream has not seen.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Batch {
    pub(super) changes: Vec<LeaderChange>,
    /// Whether changes are missing.
    pub(super) lagged: bool,
}

impl Changes {
    pub(super) fn new() -> Changes {
        let (sender, _) = broadcast::channel(HELD);
        Changes { sender, streams: Arc::new(Semaphore::new(MOST_STREAMS)) }
    }

    /// Passes a change of leader to the streams.
    pub(super) fn send(&self, event: &NodeEvent) {
        let (NodeEvent::LeaderChanged { election, leader } | NodeEvent::GrantChanged { election, leader }) =
            event
        else {
            return;
        };
        if self.sender.receiver_count() > 0 && &**election != super::PROBE_ELECTION {
            // An error means that the last stream has just ended.
            _ = self.sender.send(LeaderChange { election: election.clone(), leader: *leader });
        }
    }

    /// The changes from now on. None if there are too many streams.
    pub(super) fn subscribe(&self) -> Option<Subscription> {
        let place = Arc::clone(&self.streams).try_acquire_owned().ok()?;
        Some(Subscription { changes: self.sender.subscribe(), _place: place })
    }
}

impl Subscription {
    /// Waits for a change, and returns it with those that have come since. None if the daemon has ended.
    pub(super) async fn next(&mut self) -> Option<Batch> {
        let mut batch = Batch::default();
        match self.changes.recv().await {
            Ok(change) => batch.changes.push(change),
            Err(broadcast::error::RecvError::Lagged(_)) => batch.lagged = true,
            Err(broadcast::error::RecvError::Closed) => return None,
        }
        loop {
            match self.changes.try_recv() {
                Ok(change) => batch.changes.push(change),
                Err(broadcast::error::TryRecvError::Lagged(_)) => batch.lagged = true,
                Err(_) => return Some(batch),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(name: &str) -> NodeEvent {
        NodeEvent::LeaderChanged { election: ElectionName::new(name).unwrap(), leader: None }
    }

    #[tokio::test]
    async fn a_stream_that_does_not_read_holds_a_bounded_number_of_changes() {
        let changes = Changes::new();
        let mut slow = changes.subscribe().unwrap();
        changes.send(&change("first"));
        let batch = slow.next().await.unwrap();
        assert_eq!((batch.changes.len(), batch.lagged), (1, false));
        for number in 0..HELD * 10 {
            changes.send(&change(&format!("{number}")));
        }
        let batch = slow.next().await.unwrap();
        assert!(batch.lagged && batch.changes.len() <= HELD, "{}", batch.changes.len());
        assert_eq!(&*batch.changes.last().unwrap().election, (HELD * 10 - 1).to_string());
    }

    #[tokio::test]
    async fn the_number_of_streams_is_limited_and_the_probe_is_not_shown() {
        let changes = Changes::new();
        let mut streams: Vec<Subscription> =
            (0..MOST_STREAMS).map(|_| changes.subscribe().unwrap()).collect();
        assert!(changes.subscribe().is_none());
        changes.send(&change(super::super::PROBE_ELECTION));
        changes.send(&change("shown"));
        let batch = streams[0].next().await.unwrap();
        assert_eq!(batch.changes.len(), 1);
        streams.pop();
        assert!(changes.subscribe().is_some(), "a stream that ends gives its place back");
    }
}
