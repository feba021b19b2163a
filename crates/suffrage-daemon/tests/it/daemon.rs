//! Daemons in this process, at addresses that no other test has, with HTTP clients.

mod client;
mod elections;
mod operation;
mod refusals;
mod tls;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_daemon::daemon::Daemon;
use suffrage_net::Keyring;
use suffrage_node::config::Config;

use client::Client;

/// A lease that does not end while a test waits: the next leader got the lease by a handover.
const LONG: &str = "50s";
/// The time that clients wait to lead: shorter than [`LONG`].
const WAIT: &str = "25s";
/// The interval of polls.
const LOOK: Duration = Duration::from_millis(10);

/// Three voters, each with a folder and a key file of its own.
struct Cluster {
    daemons: Vec<Option<Daemon>>,
    folder: PathBuf,
    voters: String,
}

impl Cluster {
    async fn start() -> Cluster {
        Cluster::start_with(&[]).await
    }

    async fn start_with(flags: &[(&'static str, &str)]) -> Cluster {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("suffrage-daemon-{}-{number}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let voters = (1..=3).map(|id| format!("{id}={}", suffrage_testbed::address()));
        let voters = voters.collect::<Vec<_>>().join(",");
        let mut cluster = Cluster { daemons: Vec::new(), folder, voters };
        let keyring = Keyring::generate().unwrap();
        for id in 1..=3 {
            keyring.create(&cluster.keys(id)).unwrap();
            let daemon = Daemon::start(&cluster.config(id, flags), true).await.unwrap();
            cluster.daemons.push(Some(daemon));
        }
        cluster
    }

    fn keys(&self, id: u64) -> PathBuf {
        self.folder.join(format!("keys-{id}"))
    }

    fn config(&self, id: u64, flags: &[(&'static str, &str)]) -> Config {
        let path = |name: &str| self.folder.join(format!("{name}-{id}")).display().to_string();
        let mut said = vec![
            ("id", id.to_string()),
            ("voters", self.voters.clone()),
            ("keys", path("keys")),
            ("data", path("data")),
            ("http", "127.0.0.1:0".to_string()),
            ("delay", "10ms".to_string()),
        ];
        said.extend(flags.iter().map(|(key, value)| (*key, value.to_string())));
        Config::read(None, |_| None, &said).unwrap()
    }

    fn daemon(&self, id: usize) -> &Daemon {
        self.daemons[id - 1].as_ref().unwrap()
    }

    /// A client of that daemon.
    fn client(&self, id: usize) -> Client {
        Client::new(self.http(id))
    }

    fn http(&self, id: usize) -> SocketAddr {
        self.daemon(id).http_address().unwrap()
    }

    fn folder(&self) -> &Path {
        &self.folder
    }

    /// Waits until exactly these nodes wait in the queues of all voters.
    async fn queued<const N: usize>(&self, name: &str, waiting: [u64; N]) {
        for daemon in self.daemons.iter().flatten() {
            // A node has a status only of elections that it takes part in.
            let _part = daemon.node().observe(name).await.unwrap();
            until(async || {
                let mut queue = daemon.node().status(name).await.unwrap().unwrap().queue;
                queue.sort_unstable();
                queue == waiting.map(NodeId)
            })
            .await;
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// Restarts a daemon. Retries until the address and the folder of the old one are released.
async fn start_again(config: &Config) -> Daemon {
    soon(async {
        loop {
            match Daemon::start(config, false).await {
                Ok(daemon) => return daemon,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    })
    .await
}

/// Fails after 30 s: longer than any step on a busy machine, shorter than a lease of [`LONG`].
async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(40), what).await.expect("it takes far too long")
}

/// Waits until the condition holds.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
}
