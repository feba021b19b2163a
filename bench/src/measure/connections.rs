//! Measures the cost of many clients that lead by connection, each with its own name and its own connection.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::all;
use super::held::{Cost, observe};
use crate::cluster::Cluster;

/// The number of connections that are opened at a time.
const CONCURRENCY: usize = 256;
/// The open files of each process that so many connections need: a node uses a twelfth of its files for connections of its
/// socket.
const FILES: u64 = 65_536;

/// Lets this process and the nodes that it starts open enough files for `count` connections to three nodes. Returns how many
/// connections the system allows. Call it before the nodes start.
pub(crate) fn allow_files(count: usize) -> usize {
    let now = getrlimit(Resource::Nofile);
    let raised =
        Rlimit { current: Some(FILES), maximum: Some(now.maximum.map_or(u64::MAX, |most| most.max(FILES))) };
    if now.current.is_some_and(|files| files < FILES) && setrlimit(Resource::Nofile, raised).is_err() {
        // Only an administrator may raise the maximum. With less, there are fewer connections.
        _ = setrlimit(Resource::Nofile, Rlimit { current: now.maximum, ..now });
    }
    let files = getrlimit(Resource::Nofile).current.unwrap_or(FILES).min(FILES);
    // A sixteenth of a node's connections is for overflow.
    count.min((files / 12 * 15 / 16 * 3) as usize)
}

/// Clients that lead by connection. Dropping them closes the connections.
pub(crate) struct Holders<'c> {
    cluster: &'c Cluster,
    /// A task for each connection.
    connections: JoinSet<()>,
    lost: Arc<AtomicUsize>,
}

impl<'c> Holders<'c> {
    /// Connects so many clients to the three nodes in turn, and waits until all lead.
    pub(crate) async fn start(cluster: &'c Cluster, count: usize, ttl: Duration) -> Result<Self, String> {
        let (mut connections, lost) = (JoinSet::new(), Arc::new(AtomicUsize::new(0)));
        for first in (0..count).step_by(CONCURRENCY) {
            let mut opening = JoinSet::new();
            for number in first..count.min(first + CONCURRENCY) {
                opening.spawn(lead(cluster.socket(number % 3), number, ttl));
            }
            for stream in all(opening).await? {
                let lost = Arc::clone(&lost);
                connections.spawn(async move {
                    read_until_lost(stream).await;
                    lost.fetch_add(1, Ordering::Relaxed);
                });
            }
        }
        Ok(Holders { cluster, connections, lost })
    }

    pub(crate) async fn cost(&self, span: Duration) -> Cost {
        let cost = observe(span, || self.cluster.usage()).await;
        Cost { lost: self.lost.load(Ordering::Relaxed), ..cost }
    }

    /// The number of connections that are open.
    pub(crate) fn len(&self) -> usize {
        self.connections.len()
    }
}

/// Connects, and waits until the client leads.
async fn lead(socket: PathBuf, number: usize, ttl: Duration) -> Result<BufReader<UnixStream>, String> {
    let failed = |error: std::io::Error| format!("client {number}: {error}");
    let mut stream = UnixStream::connect(&socket).await.map_err(failed)?;
    let body = format!("{{\"hold\":\"connection\",\"ttl\":\"{}ms\"}}", ttl.as_millis());
    let head = format!(
        "POST /elections/connection-{number}/campaign HTTP/1.1\r\nHost: localhost\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all((head + &body).as_bytes()).await.map_err(failed)?;
    let mut stream = BufReader::with_capacity(512, stream);
    let mut line = String::new();
    while !line.contains("\"event\":\"leading\"") {
        line.clear();
        if stream.read_line(&mut line).await.map_err(failed)? == 0 || line.contains("\"error\"") {
            return Err(format!("client {number} does not lead: {line}"));
        }
    }
    Ok(stream)
}

/// Reads events until the client has lost its lease, or the connection has ended.
async fn read_until_lost(mut stream: BufReader<UnixStream>) {
    let mut line = String::new();
    while stream.read_line(&mut line).await.is_ok_and(|read| read > 0) && !line.contains("\"event\":\"lost\"")
    {
        line.clear();
    }
}
