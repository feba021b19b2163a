//! From the death of a leader until the next one knows that it leads.

use std::net::SocketAddr;
use std::ops::Range;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{KeptLease, all};
use crate::cluster::{self, Cluster};
use crate::etcd::{self, Etcd};
use crate::times::Times;

/// No failover takes as long.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often leaders die.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    /// In how many clusters at the same time, which have nothing to do with each other.
    pub(crate) clusters: usize,
    /// And in each of them one after the other.
    pub(crate) deaths: usize,
}

/// Nodes of ours that are killed while a client of theirs leads: the leader's voter dies with it. A client of each of
/// the other two waits.
pub(crate) async fn suffrage(ttl: Duration, effort: Effort) -> Result<Times, String> {
    let mut tasks = JoinSet::new();
    for number in 0..effort.clusters {
        tasks.spawn(async move {
            // Not in step with each other.
            tokio::time::sleep(ttl * number as u32 / effort.clusters as u32).await;
            deaths(ttl, number * effort.deaths..(number + 1) * effort.deaths).await
        });
    }
    let took = all(tasks).await?.concat();
    Times::of(&took).ok_or_else(|| "nobody took over".to_string())
}

/// The deaths of one cluster, by their numbers among all.
async fn deaths(ttl: Duration, numbers: Range<usize>) -> Result<Vec<Duration>, String> {
    let mut cluster = Cluster::start().await?;
    let (told, mut news) = mpsc::unbounded_channel();
    let mut clients = JoinSet::new();
    for place in 0..3 {
        clients.spawn(contend(place, cluster.http(place), ttl, told.clone()));
    }
    let (mut leader, _) = next(&mut news).await?;
    let mut took = Vec::new();
    for number in numbers {
        // Until the others are known to wait; and it may die at any time, from just before a renewal to just after.
        tokio::time::sleep(ttl + Duration::from_millis(100) + phase(ttl, number)).await;
        if news.try_recv().is_ok() {
            return Err(
                "a leader was lost that nobody killed: the machine is too busy for this ttl".to_string()
            );
        }
        let start = Instant::now();
        cluster.kill(leader);
        let (successor, at) = next(&mut news).await?;
        took.push(at - start);
        cluster.restart(leader).await?;
        // It says nothing before whatever it may have granted is over.
        tokio::time::sleep(ttl).await;
        leader = successor;
    }
    Ok(took)
}

/// How far into the time between two renewals the death of this number is: of any thirty in a row, each a thirtieth
/// later than another.
fn phase(ttl: Duration, number: usize) -> Duration {
    ttl / 3 * ((number * 7) % 30) as u32 / 30
}

async fn next(news: &mut mpsc::UnboundedReceiver<(usize, Instant)>) -> Result<(usize, Instant), String> {
    let told = tokio::time::timeout(PATIENCE, news.recv()).await;
    told.ok().flatten().ok_or_else(|| format!("nobody leads after {PATIENCE:?}"))
}

/// A client of one node: asks to lead, tells when it does, leads for as long as it can, and asks again.
async fn contend(
    place: usize,
    address: SocketAddr,
    ttl: Duration,
    told: mpsc::UnboundedSender<(usize, Instant)>,
) {
    loop {
        // Its node may be dead; it comes back.
        if let Ok(mut client) = cluster::Client::connect(address).await
            && let Ok(session) = client.campaign("failover", ttl).await
        {
            if told.send((place, Instant::now())).is_err() {
                return;
            }
            while client.renew(&session).await.is_ok() {
                tokio::time::sleep(ttl / 3).await;
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Holders of leases of etcd that renew no more, as one that is killed; the servers go on. Returns how long the leases
/// really were, too.
pub(crate) async fn etcd(etcd: &Etcd, ttl: Duration, count: usize) -> Result<(Times, i64), String> {
    let asked = ttl.as_secs_f64().ceil() as i64;
    let client = etcd::Client::connect(etcd.leader()).await?;
    let (_, granted) = client.grant(asked).await?;
    let mut tasks = JoinSet::new();
    for number in 0..count {
        let client = client.clone();
        tasks.spawn(async move {
            let name = format!("failover-{asked}-{number}");
            let holder = KeptLease::grant(&client, asked).await?;
            let next = KeptLease::grant(&client, asked).await?;
            client.campaign(&name, holder.id).await?;
            let (waiter, lease) = (client.clone(), next.id);
            let waiting = tokio::spawn(async move { (waiter.campaign(&name, lease).await, Instant::now()) });
            // As above: at any time between two renewals.
            let lease = Duration::from_secs(granted as u64);
            tokio::time::sleep(lease + phase(lease, number)).await;
            if waiting.is_finished() {
                return Err("a lease of etcd was lost that was renewed: the machine is too busy".to_string());
            }
            let start = Instant::now();
            drop(holder);
            let (won, at) = waiting.await.map_err(|error| error.to_string())?;
            won.map(|_| at - start)
        });
    }
    let times = Times::of(&all(tasks).await?).ok_or_else(|| "nobody took over".to_string())?;
    Ok((times, granted))
}
