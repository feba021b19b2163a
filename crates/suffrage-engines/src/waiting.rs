//! What engines with a row or a key per election share: candidates take turns, and are woken by messages.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::OwnedMutexGuard;

/// Of the candidates of this program in one election, one asks the server, and the others queue: a resignation wakes one
/// candidate per program.
#[derive(Default)]
pub(crate) struct Turns(Mutex<BTreeMap<Arc<str>, Weak<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for the turn of a candidate, in the order of the calls.
    pub(crate) async fn wait(&self, name: &Arc<str>) -> OwnedMutexGuard<()> {
        let turn = self.of(name);
        turn.lock_owned().await
    }

    fn of(&self, name: &Arc<str>) -> Arc<tokio::sync::Mutex<()>> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(turn) = turns.get(name).and_then(Weak::upgrade) {
            return turn;
        }
        turns.retain(|_, turn| turn.strong_count() > 0);
        let turn = Arc::default();
        turns.insert(Arc::clone(name), Arc::downgrade(&turn));
        turn
    }
}

/// The number of changes of an election that this program has heard of, and how many of them were releases.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    /// The number of changes.
    pub(crate) changes: u64,
    /// The number of changes after which nobody may lead.
    pub(crate) releases: u64,
}

impl Changes {
    /// Counts one more.
    pub(crate) fn count(&mut self, released: bool) {
        self.changes += 1;
        self.releases += u64::from(released);
    }
}

/// A random name: two candidates never have the same.
pub(crate) fn random_name() -> String {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).expect("the system has random numbers");
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
