//! Daemons in this process, on free ports of loopback, asked over HTTP as clients do.

pub(crate) mod authority;
mod client;
mod elections;
mod operation;
mod refusals;
mod tls;

use std::fs;
use std::net::{SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suffrage_daemon::daemon::Daemon;
use suffrage_net::Keyring;
use suffrage_node::config::Config;

use client::Client;

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
        // All at once, so that they differ; the next to ask for a free port hardly gets one of these.
        let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let voters = sockets.iter().zip(1..).map(|(it, id)| format!("{id}={}", it.local_addr().unwrap()));
        let voters = voters.collect::<Vec<_>>().join(",");
        drop(sockets);
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
}

impl Drop for Cluster {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.folder);
    }
}

/// Nothing here takes as long, however busy the machine is.
async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(60), what).await.expect("it takes far too long")
}
