//! The elections that HTTP clients query. Each is observed for a while after a query, so that the next query is answered
//! at once.
//!
//! An observed election costs memory and messages, and clients may query names that no election has. So an election
//! without a leader is observed for a short time only, and the number of elections that no client uses at the moment is
//! limited.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use suffrage_node::Error;
use suffrage_node::lease::{Belief, Node, Participation};

/// The time for which an election is observed after the last query.
const LINGER: Duration = Duration::from_secs(60);
/// The same for an election without a known leader.
const LEADERLESS_LINGER: Duration = Duration::from_secs(10);
/// The interval at which unused watches are dropped.
const SWEEP: Duration = Duration::from_secs(1);
/// The most elections that are observed for HTTP clients.
const MOST_WATCHES: usize = 100_000;
/// The most elections that are observed although no client uses them at the moment. Beyond it, the least recently used
/// ones are dropped.
const MAX_UNUSED: usize = 1_000;

/// The belief of the node about an election. The election is observed while this value exists.
pub(super) struct Watched {
    pub(super) belief: watch::Receiver<Belief>,
    _observed: Arc<Participation>,
}

/// The elections that are observed for HTTP clients.
#[derive(Clone)]
pub(super) struct Watches {
    node: Node,
    open: Arc<Mutex<Open>>,
}

type Open = BTreeMap<String, Watch>;

struct Watch {
    observed: Arc<Participation>,
    used: Instant,
}

impl Watches {
    /// Observes no election yet.
    pub(super) fn new(node: Node) -> Watches {
        let open = Arc::new(Mutex::new(Open::new()));
        suffrage_node::spawn(close_unused(Arc::downgrade(&open)));
        Watches { node, open }
    }

    /// Observes an election.
    pub(super) async fn watch(&self, name: &str) -> Result<Watched, Error> {
        if let Some(watched) = self.known(name)? {
            return Ok(watched);
        }
        let observed = Arc::new(self.node.observe(name).await?);
        let mut open = lock(&self.open);
        let watch = open.entry(name.to_string()).or_insert(Watch { observed, used: Instant::now() });
        let watched = watch.watched();
        limit_unused(&mut open);
        Ok(watched)
    }

    /// The election, if it is observed already.
    fn known(&self, name: &str) -> Result<Option<Watched>, Error> {
        let mut open = lock(&self.open);
        if let Some(watch) = open.get_mut(name) {
            return Ok(Some(watch.watched()));
        }
        if open.len() >= MOST_WATCHES {
            return Err(Error::TooManyElections(MOST_WATCHES));
        }
        Ok(None)
    }
}

impl Watch {
    fn watched(&mut self) -> Watched {
        self.used = Instant::now();
        Watched { belief: self.observed.belief(), _observed: Arc::clone(&self.observed) }
    }

    fn is_in_use(&self) -> bool {
        Arc::strong_count(&self.observed) > 1
    }

    /// The time for which the election is observed after the last query.
    fn linger(&self) -> Duration {
        if self.observed.belief().borrow().leader.is_some() { LINGER } else { LEADERLESS_LINGER }
    }
}

/// If too many watches are unused, drops the least recently used quarter of them.
fn limit_unused(open: &mut Open) {
    if open.len() <= MAX_UNUSED {
        return;
    }
    let unused = open.iter().filter(|(_, watch)| !watch.is_in_use());
    let mut unused: Vec<(Instant, String)> = unused.map(|(name, watch)| (watch.used, name.clone())).collect();
    if unused.len() > MAX_UNUSED {
        unused.sort_unstable();
        for (_, name) in &unused[..unused.len() - MAX_UNUSED * 3 / 4] {
            open.remove(name);
        }
    }
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Periodically drops the watches that were not used for a while, until the daemon has stopped.
async fn close_unused(open: Weak<Mutex<Open>>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(open) = open.upgrade() else { return };
        let mut open = lock(&open);
        for watch in open.values_mut().filter(|watch| watch.is_in_use()) {
            watch.used = Instant::now();
        }
        open.retain(|_, watch| watch.used.elapsed() < watch.linger());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_core::NodeId;
    use suffrage_lease::Saved;
    use suffrage_net::transport::memory::Network;
    use suffrage_node::clock::TokioClock;
    use suffrage_node::lease::{CandidateConfig, Settings};
    use suffrage_node::storage::MemoryDisk;

    /// The only voter of a cluster, in virtual time.
    fn node() -> Node {
        let (transport, disk) = (Network::new(1).join(NodeId(1)), MemoryDisk::<Saved>::default());
        Node::start(transport, TokioClock::new(), disk, Settings::new([NodeId(1)])).unwrap()
    }

    async fn observed(node: &Node) -> Vec<String> {
        let mut names: Vec<String> = node.elections().await.unwrap().into_iter().map(|it| it.name).collect();
        names.sort_unstable();
        names
    }

    #[tokio::test(start_paused = true)]
    async fn queries_of_unknown_names_leave_a_bounded_number_of_watches() {
        let node = node();
        let watches = Watches::new(node.clone());
        let mut in_use = watches.watch("in use").await.unwrap();
        for number in 0..5_000 {
            watches.watch(&format!("unknown {number}")).await.unwrap();
            assert!(lock(&watches.open).len() <= MAX_UNUSED + 2, "after {number} queries");
        }
        let names = observed(&node).await;
        assert!(names.len() <= MAX_UNUSED + 2, "the node observes {} elections", names.len());
        assert!(names.contains(&"unknown 4999".to_string()), "the last ones are observed");
        assert!(in_use.belief.has_changed().is_ok(), "a watch in use is not dropped");
        assert!(lock(&watches.open).contains_key("in use"));
        tokio::time::sleep(LEADERLESS_LINGER + SWEEP * 2).await;
        assert_eq!(observed(&node).await, ["in use"], "without a leader, watches end soon");
        in_use.belief.borrow_and_update();
        drop(in_use);
        tokio::time::sleep(LEADERLESS_LINGER + SWEEP * 2).await;
        assert_eq!(observed(&node).await, [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn an_election_with_a_leader_is_observed_for_longer() {
        let node = node();
        let leader = node.join("led", CandidateConfig::default()).await.unwrap();
        leader.campaign();
        leader.belief().wait_for(|belief| belief.held.is_some()).await.unwrap();
        let watches = Watches::new(node.clone());
        watches.watch("led").await.unwrap();
        tokio::time::sleep(LINGER - SWEEP * 2).await;
        assert!(lock(&watches.open).contains_key("led"));
        tokio::time::sleep(SWEEP * 4).await;
        assert!(lock(&watches.open).is_empty());
    }
}
