//! Measures how often names are acquired and released per second.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use suffrage::Node;
use tokio::sync::Mutex;
use tokio::task::JoinSet;

use super::{KeptLease, all};
use crate::cluster::{self, Cluster};
use crate::etcd::{self, Etcd};

/// The load of a measurement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The number of clients, each with its own name.
    pub(crate) names: usize,
    pub(crate) span: Duration,
}

/// The length of a lease, much longer than an acquisition.
const TTL: Duration = Duration::from_secs(10);

/// Lets every client acquire and release repeatedly for the given time, and returns the rate per second.
async fn rate<C, F>(effort: Effort, clients: Vec<C>) -> Result<f64, String>
where
    C: FnMut() -> F + Send + 'static,
    F: Future<Output = Result<(), String>> + Send + 'static,
{
    let start = Instant::now();
    let mut tasks = JoinSet::new();
    for mut client in clients {
        tasks.spawn(async move {
            let mut count = 0u64;
            while start.elapsed() < effort.span {
                client().await?;
                count += 1;
            }
            Ok(count)
        });
    }
    let count: u64 = all(tasks).await?.into_iter().sum();
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Measures the library, with a node in this process.
pub(crate) async fn library(node: &Node, effort: Effort) -> Result<f64, String> {
    let mut clients = Vec::new();
    for number in 0..effort.names {
        let election = node.election(format!("library {number}")).ttl(TTL);
        let election = election.join().await.map_err(|error| error.to_string())?;
        clients.push(move || {
            let election = election.clone();
            async move { election.lead().await.map(drop).map_err(|error| error.to_string()) }
        });
    }
    rate(effort, clients).await
}

/// The way of clients to a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// HTTP over TCP.
    Tcp,
    /// HTTP over the node's Unix socket.
    Socket,
}

/// Measures HTTP, with one connection per client, to the three nodes in turn.
pub(crate) async fn over_http(cluster: &Cluster, effort: Effort, way: Way) -> Result<f64, String> {
    let mut clients = Vec::new();
    for number in 0..effort.names {
        let client = match way {
            Way::Tcp => cluster::Client::connect(cluster.http(number % 3)).await?,
            Way::Socket => cluster::Client::connect_local(&cluster.socket(number % 3)).await?,
        };
        let client = Arc::new(Mutex::new(client));
        let name = format!("{way:?}-{number}");
        clients.push(move || {
            let (client, name) = (Arc::clone(&client), name.clone());
            async move {
                let mut client = client.lock().await;
                let session = client.campaign(&name, TTL).await?;
                client.resign(&session).await
            }
        });
    }
    rate(effort, clients).await
}

/// Measures the calls of etcd's own client over one gRPC connection, or with `least` the least work that acquires a
/// name.
pub(crate) async fn etcd_grpc(etcd: &Etcd, effort: Effort, least: bool) -> Result<f64, String> {
    let client = etcd::Client::connect(etcd.leader()).await?;
    let lease = KeptLease::grant(&client, TTL.as_secs() as i64).await?;
    let clients: Vec<_> = (0..effort.names)
        .map(|number| {
            let (client, key, lease) = (client.clone(), format!("grpc-{number}"), lease.id);
            move || {
                let (client, key) = (client.clone(), key.clone());
                async move {
                    if least {
                        client.acquire(&key, lease).await?;
                        client.release(&key).await
                    } else {
                        client.lead_once(&key, lease).await
                    }
                }
            }
        })
        .collect();
    rate(effort, clients).await
}

/// Measures the HTTP gateway of etcd, with one connection per client: its election API, or with `least` the least work
/// that acquires a name. Returns the higher rate of the leading server and of the three servers in turn.
pub(crate) async fn etcd_http(etcd: &Etcd, effort: Effort, least: bool) -> Result<f64, String> {
    let at_leader = etcd_gateways(etcd, effort, least, |_| etcd.leader()).await?;
    let in_turn = etcd_gateways(etcd, effort, least, |number| etcd.server(number % 3)).await?;
    Ok(at_leader.max(in_turn))
}

async fn etcd_gateways(
    etcd: &Etcd,
    effort: Effort,
    least: bool,
    server: impl Fn(usize) -> SocketAddr,
) -> Result<f64, String> {
    let owner = etcd::Client::connect(etcd.leader()).await?;
    let lease = KeptLease::grant(&owner, TTL.as_secs() as i64).await?;
    let mut clients = Vec::new();
    for number in 0..effort.names {
        let client = etcd::GatewayClient::connect(server(number)).await?;
        let client = Arc::new(Mutex::new(client));
        let (key, lease) = (format!("http-{number}"), lease.id);
        clients.push(move || {
            let (client, key) = (Arc::clone(&client), key.clone());
            async move {
                let mut client = client.lock().await;
                if least {
                    client.acquire(&key, lease).await?;
                    client.release(&key).await
                } else {
                    let leader = client.campaign(&key, lease).await?;
                    client.resign(&leader).await
                }
            }
        });
    }
    rate(effort, clients).await
}
