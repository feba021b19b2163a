//! Elections on three servers of Consul, with `consul lock` beside us.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use suffrage_servers::consul::{Cluster, Consul, Settings};

use crate::conformance::conformance;

mod foreign;
mod traps;

/// A prefix of the cluster that runs, or of a new one.
async fn start() -> Consul {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    tokio::task::block_in_place(|| {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Cluster::start(Settings::default()));
            *shared = Arc::downgrade(&cluster);
            cluster
        });
        drop(shared);
        Consul::new(cluster)
    })
}

async fn start_alone() -> Consul {
    start_with(Settings::default())
}

fn start_with(settings: Settings) -> Consul {
    tokio::task::block_in_place(|| Consul::new(Arc::new(Cluster::start(settings))))
}

conformance!(
    start: cold_start, handover, killed, paused, cut, rides_out, reply_lost, slow_replies, entry_deleted, fifty_candidates,
    thousand_names, bad_input,
);
conformance!(start_alone: server_killed, all_restarted);
