//! Measures failover: the time from the kill of a leader until the next one knows that it leads.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{KeptLease, all};
use crate::cluster::{self, Cluster};
use crate::etcd::{self, Etcd};
use crate::times::Times;

/// The time-out of a failover.
const FAILOVER_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of killed leaders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// The number of independent clusters that run at the same time.
    pub(crate) clusters: usize,
    /// The number of kills in each cluster, one after the other.
    pub(crate) kills: usize,
}

/// Measures suffrage: kills the node whose client leads, with its voter. A client of each other node waits.
pub(crate) async fn suffrage(ttl: Duration, effort: Effort) -> Result<Times, String> {
    let mut tasks = JoinSet::new();
    for number in 0..effort.clusters {
        tasks.spawn(async move {
            // The clusters start at different times.
            tokio::time::sleep(ttl * number as u32 / effort.clusters as u32).await;
            measure_kills(ttl, number * effort.kills..(number + 1) * effort.kills).await
        });
    }
    let took = all(tasks).await?.concat();
    Times::of(&took).ok_or_else(|| "no failover was measured".to_string())
}

/// Kills the leaders of one cluster. The numbers are those of the kills among all clusters.
async fn measure_kills(ttl: Duration, numbers: Range<usize>) -> Result<Vec<Duration>, String> {
    let mut cluster = Cluster::start().await?;
    let (sender, mut leaders) = mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    for index in 0..3 {
        clients.spawn(contend(index, cluster.http(index), ttl, sender.clone()));
    }
    let (mut leader, _) = next(&mut leaders).await?;
    let mut took = Vec::new();
    for number in numbers {
        // Waits until the voters know the waiting clients, and kills at different times between two renewals.
        tokio::time::sleep(ttl + Duration::from_millis(100) + phase(ttl, number)).await;
        if leaders.try_recv().is_ok() {
            return Err(
                "a leader lost its lease without a kill: the machine is too busy for this ttl".to_string()
            );
        }
        let start = Instant::now();
        cluster.kill(leader);
        let (successor, at) = next(&mut leaders).await?;
        took.push(at - start);
        cluster.restart(leader).await?;
        // The restarted voter is silent until its earlier grants have expired.
        tokio::time::sleep(ttl).await;
        leader = successor;
    }
    Ok(took)
}

/// The time of a kill between two renewals. Any thirty kills in a row are spread evenly in steps of a thirtieth.
fn phase(ttl: Duration, number: usize) -> Duration {
    ttl / 3 * ((number * 7) % 30) as u32 / 30
}

async fn next(leaders: &mut mpsc::UnboundedReceiver<(usize, Instant)>) -> Result<(usize, Instant), String> {
    let received = tokio::time::timeout(FAILOVER_TIMEOUT, leaders.recv()).await;
    received.ok().flatten().ok_or_else(|| format!("no leader after {FAILOVER_TIMEOUT:?}"))
}

/// Runs a client of one node: it campaigns, reports when it leads, renews as long as it can, and campaigns again.
async fn contend(
    index: usize,
    address: SocketAddr,
    ttl: Duration,
    sender: mpsc::UnboundedSender<(usize, Instant)>,
) {
    loop {
        // The node may be dead until its restart.
        if let Ok(mut client) = cluster::Client::connect(address).await
            && let Ok(session) = client.campaign("failover", ttl).await
        {
            if sender.send((index, Instant::now())).is_err() {
                return;
            }
            while client.renew(&session).await.is_ok() {
                tokio::time::sleep(ttl / 3).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Measures etcd: the holder of a lease stops its renewals, as if it were killed; the servers stay alive. Also returns
/// the granted length of the leases.
pub(crate) async fn etcd(etcd: &Etcd, ttl: Duration, count: usize) -> Result<(Times, i64), String> {
    let requested = ttl.as_secs_f64().ceil() as i64;
    let client = etcd::Client::connect(etcd.leader()).await?;
    let (_, granted) = client.grant(requested).await?;
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let client = client.clone();
        tasks.spawn(async move {
            let name = format!("failover-{requested}-{number}");
            let holder = KeptLease::grant(&client, requested).await?;
            let next = KeptLease::grant(&client, requested).await?;
            client.campaign(&name, holder.id).await?;
            let (waiter, lease) = (client.clone(), next.id);
            let waiting = tokio::spawn(async move { (waiter.campaign(&name, lease).await, Instant::now()) });
            // As above: at different times between two renewals.
            let lease = Duration::from_secs(granted as u64);
            tokio::time::sleep(lease + phase(lease, number)).await;
            if waiting.is_finished() {
                return Err("etcd lost a renewed lease: the machine is too busy".to_string());
            }
            let start = Instant::now();
            drop(holder);
            let (won, at) = waiting.await.map_err(|error| error.to_string())?;
            won.map(|_| at - start)
        });
    }
    let times = Times::of(&all(tasks).await?).ok_or_else(|| "no failover was measured".to_string())?;
    Ok((times, granted))
}
