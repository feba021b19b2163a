//! Elections on a kube-apiserver, with client-go's example of leader election beside us.
//!
//! No registry has the two programs. `SUFFRAGE_KUBE_APISERVER` and `SUFFRAGE_CLIENT_GO` name them:
//! `cargo xtask conformance kubernetes` sets both.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use suffrage_servers::kubernetes::{Cluster, Kubernetes};

use crate::conformance::conformance;

mod foreign;
mod ours;
#[allow(dead_code, reason = "of the engine, for what the server stores")]
#[path = "../../src/kubernetes/wire.rs"]
mod wire;

use self::wire::{Message, unseal};

/// A namespace of the cluster that runs, or of a new one.
async fn start() -> Kubernetes {
    static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
    tokio::task::block_in_place(|| {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let cluster = shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Cluster::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        });
        drop(shared);
        Kubernetes::new(cluster)
    })
}

async fn start_alone() -> Kubernetes {
    tokio::task::block_in_place(|| Kubernetes::new(Arc::new(Cluster::start())))
}

/// What the server stores.
trait Leases {
    /// The Lease of an election.
    fn lease(&self, name: &str) -> Message;
    /// The holder, the duration and the transitions of a Lease.
    fn spec(&self, name: &str) -> (String, u64, u64);
}

impl Leases for Kubernetes {
    fn lease(&self, name: &str) -> Message {
        let (status, reply) = tokio::task::block_in_place(|| {
            self.cluster.curl("GET", &format!("{}/{name}", self.path()), None)
        });
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&reply));
        unseal(&reply).expect("a Lease")
    }

    fn spec(&self, name: &str) -> (String, u64, u64) {
        let spec = self.lease(name).message(2);
        (spec.text(1).to_string(), spec.number(2).unwrap_or(0), spec.number(5).unwrap_or(0))
    }
}

conformance!(
    start: cold_start, handover, killed, paused, cut, rides_out, server_killed, reply_lost, slow_replies, entry_deleted, fifty_candidates,
    thousand_names, bad_input,
);
conformance!(start_alone: all_restarted);
