//! The elections that HTTP clients query. Each is observed for a while after a query, so that the next query is answered
//! at once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use suffrage_node::Error;
use suffrage_node::lease::{Belief, Node, Participation};

/// The time for which an election is observed after the last query.
const LINGER: Duration = Duration::from_secs(60);
/// The most elections that are observed for HTTP clients.
const MOST_WATCHES: usize = 100_000;

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
        tokio::spawn(close_unused(Arc::downgrade(&open)));
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
        Ok(watch.watched())
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
}

fn lock(open: &Mutex<Open>) -> MutexGuard<'_, Open> {
    open.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Periodically drops the watches that were not used for [`LINGER`], until the daemon has stopped.
async fn close_unused(open: Weak<Mutex<Open>>) {
    loop {
        tokio::time::sleep(LINGER / 2).await;
        let Some(open) = open.upgrade() else { return };
        let mut open = lock(&open);
        for watch in open.values_mut().filter(|watch| Arc::strong_count(&watch.observed) > 1) {
            watch.used = Instant::now();
        }
        open.retain(|_, watch| watch.used.elapsed() < LINGER);
    }
}
