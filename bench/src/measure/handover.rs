//! Measures handover: the time from the resignation of a leader until the next one knows that it leads.

use std::time::{Duration, Instant};

use super::KeptLease;
use crate::cluster::{self, Cluster};
use crate::etcd::{self, Etcd};
use crate::times::Times;

/// The length of a lease, longer than a measurement.
const TTL: Duration = Duration::from_secs(20);
/// The time for which the next candidate waits before the leader resigns, so that the servers know it. etcd registers
/// new watchers every 100 ms.
const SETTLE: Duration = Duration::from_millis(120);

fn times(times: Vec<Duration>) -> Result<Times, String> {
    Times::of(&times).ok_or_else(|| "no handover was measured".to_string())
}

/// Measures the library, with two non-voting nodes in this process.
pub(crate) async fn library(cluster: &Cluster, rounds: usize) -> Result<Times, String> {
    let nodes = [cluster.member(201).await?, cluster.member(202).await?];
    let mut elections = Vec::new();
    for node in &nodes {
        let joined = node.election("handover").ttl(TTL).join().await;
        elections.push(joined.map_err(|error| error.to_string())?);
    }
    let mut took = Vec::new();
    let mut leadership = elections[0].lead().await.map_err(|error| error.to_string())?;
    for round in 1..=rounds {
        let next = elections[round % 2].clone();
        let waiting = tokio::spawn(async move { (next.lead().await, Instant::now()) });
        tokio::time::sleep(SETTLE).await;
        let start = Instant::now();
        drop(leadership);
        let (next, led) = waiting.await.map_err(|error| error.to_string())?;
        leadership = next.map_err(|error| error.to_string())?;
        took.push(led - start);
    }
    drop(leadership);
    for node in nodes {
        node.stop().await;
    }
    times(took)
}

/// Measures HTTP: from a client of one node to a client of another.
pub(crate) async fn over_http(cluster: &Cluster, rounds: usize) -> Result<Times, String> {
    let mut leader = cluster::Client::connect(cluster.http(0)).await?;
    let mut next = cluster::Client::connect(cluster.http(1)).await?;
    let mut session = leader.campaign("handover-http", TTL).await?;
    let mut took = Vec::new();
    for _ in 0..rounds {
        let waiting = tokio::spawn(async move {
            let session = next.campaign("handover-http", TTL).await;
            (next, session, Instant::now())
        });
        tokio::time::sleep(SETTLE).await;
        let start = Instant::now();
        leader.resign(&session).await?;
        let (led, won, at) = waiting.await.map_err(|error| error.to_string())?;
        took.push(at - start);
        (session, next) = (won?, leader);
        leader = led;
    }
    leader.resign(&session).await?;
    times(took)
}

/// Measures etcd over gRPC.
pub(crate) async fn etcd_grpc(etcd: &Etcd, rounds: usize) -> Result<Times, String> {
    let clients = [etcd::Client::connect(etcd.leader()).await?, etcd::Client::connect(etcd.leader()).await?];
    let leases = [
        KeptLease::grant(&clients[0], TTL.as_secs() as i64).await?,
        KeptLease::grant(&clients[1], TTL.as_secs() as i64).await?,
    ];
    let mut took = Vec::new();
    let mut key = clients[0].campaign("handover", leases[0].id).await?;
    for round in 1..=rounds {
        let (next, lease) = (clients[round % 2].clone(), leases[round % 2].id);
        let waiting = tokio::spawn(async move { (next.campaign("handover", lease).await, Instant::now()) });
        tokio::time::sleep(SETTLE).await;
        let start = Instant::now();
        clients[(round + 1) % 2].resign(&key).await?;
        let (won, at) = waiting.await.map_err(|error| error.to_string())?;
        took.push(at - start);
        key = won?;
    }
    times(took)
}

/// Measures the HTTP gateway of etcd.
pub(crate) async fn etcd_http(etcd: &Etcd, rounds: usize) -> Result<Times, String> {
    let owner = etcd::Client::connect(etcd.leader()).await?;
    let (mut lease, mut other) = (
        KeptLease::grant(&owner, TTL.as_secs() as i64).await?,
        KeptLease::grant(&owner, TTL.as_secs() as i64).await?,
    );
    let mut leader = etcd::GatewayClient::connect(etcd.leader()).await?;
    let mut next = etcd::GatewayClient::connect(etcd.leader()).await?;
    let mut key = leader.campaign("handover-http", lease.id).await?;
    let mut took = Vec::new();
    for _ in 0..rounds {
        let id = other.id;
        let waiting = tokio::spawn(async move {
            let key = next.campaign("handover-http", id).await;
            (next, key, Instant::now())
        });
        tokio::time::sleep(SETTLE).await;
        let start = Instant::now();
        leader.resign(&key).await?;
        let (led, won, at) = waiting.await.map_err(|error| error.to_string())?;
        took.push(at - start);
        (key, next) = (won?, leader);
        leader = led;
        std::mem::swap(&mut lease, &mut other);
    }
    times(took)
}
