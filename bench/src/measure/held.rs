//! Measures the cost of many held elections, each with its own lease.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use suffrage::{Leadership, Node};
use tokio::task::{JoinHandle, JoinSet};

use super::all;
use crate::cluster::Cluster;
use crate::etcd::{Client, Etcd};
use crate::processes::Usage;

/// The number of concurrent requests.
const CONCURRENCY: usize = 256;

/// The cost of held elections.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// CPU of the three servers, as a share of one CPU.
    pub(crate) cpu: f64,
    /// CPU of the client, as a share of one CPU.
    pub(crate) client_cpu: f64,
    /// Memory of the three servers in bytes.
    pub(crate) memory: u64,
    /// Anonymous memory of the three servers in bytes.
    pub(crate) anonymous: u64,
    /// The number of elections lost during the measurement.
    pub(crate) lost: usize,
}

/// Measures the resource usage over a time.
pub(super) async fn observe(span: Duration, servers: impl Fn() -> Usage) -> Cost {
    let (start, before, own) = (Instant::now(), servers(), Usage::of("self"));
    tokio::time::sleep(span).await;
    let (after, own_after, seconds) = (servers(), Usage::of("self"), start.elapsed().as_secs_f64());
    let (cpu, client_cpu) = ((after.cpu - before.cpu) / seconds, (own_after.cpu - own.cpu) / seconds);
    Cost { cpu, client_cpu, memory: after.memory, anonymous: after.anonymous, lost: 0 }
}

/// Elections of suffrage, held by a non-voting node in this process.
pub(crate) struct HeldElections<'c> {
    cluster: &'c Cluster,
    node: Node,
    ttl: Duration,
    held: Vec<Leadership>,
}

impl<'c> HeldElections<'c> {
    pub(crate) async fn new(
        cluster: &'c Cluster,
        id: u64,
        ttl: Duration,
    ) -> Result<HeldElections<'c>, String> {
        Ok(HeldElections { cluster, node: cluster.member(id).await?, ttl, held: Vec::new() })
    }

    /// The number of held elections whose leases are valid.
    pub(crate) fn valid(&self) -> usize {
        self.held.iter().filter(|leadership| leadership.is_valid()).count()
    }

    /// Acquires elections until `count` are held.
    pub(crate) async fn hold(&mut self, count: usize) -> Result<(), String> {
        while self.held.len() < count {
            let mut tasks = JoinSet::new();
            for number in self.held.len()..count.min(self.held.len() + CONCURRENCY) {
                let (node, ttl) = (self.node.clone(), self.ttl);
                tasks.spawn(async move {
                    let election = node.election(format!("held {ttl:?} {number}")).ttl(ttl).join().await;
                    election
                        .map_err(|error| error.to_string())?
                        .lead()
                        .await
                        .map_err(|error| error.to_string())
                });
            }
            self.held.extend(all(tasks).await?);
        }
        Ok(())
    }

    pub(crate) async fn cost(&self, span: Duration) -> Cost {
        let cost = observe(span, || self.cluster.usage()).await;
        Cost { lost: self.held.len() - self.valid(), ..cost }
    }

    /// The messages that the holder has sent.
    pub(crate) async fn messages_sent(&self) -> Result<u64, String> {
        Ok(self.node.metrics().await.map_err(|error| error.to_string())?.messages_sent)
    }

    pub(crate) async fn release(self) {
        drop(self.held);
        self.node.stop().await;
    }
}

/// Keys of etcd, each with its own lease or all with one, held by a client that renews over one stream.
pub(crate) struct HeldKeys<'e> {
    etcd: &'e Etcd,
    client: Client,
    ttl: Duration,
    /// The number of held keys.
    held: usize,
    /// The lease of all keys, if they share one.
    shared: Option<i64>,
    leases: Arc<Leases>,
    lost: Arc<AtomicUsize>,
    renewing: JoinHandle<Result<(), String>>,
}

impl<'e> HeldKeys<'e> {
    pub(crate) async fn new(etcd: &'e Etcd, ttl: Duration, share: bool) -> Result<HeldKeys<'e>, String> {
        let client = Client::connect(etcd.leader()).await?;
        let (leases, lost) = (Arc::<Leases>::default(), Arc::<AtomicUsize>::default());
        let (mut renewals, mut renewed) = client.keep_alive().await?;
        let renewing = {
            let (leases, lost) = (Arc::clone(&leases), Arc::clone(&lost));
            tokio::spawn(async move {
                let mut tick = tokio::time::interval(Duration::from_millis(10));
                tick.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
                loop {
                    tokio::select! {
                        _ = tick.tick() => renewals.send(leases.due(ttl / 3))?,
                        answer = renewed.next() => match answer? {
                            Some((_, true)) => {}
                            Some((lease, false)) => {
                                leases.forget(lease);
                                lost.fetch_add(1, Ordering::Relaxed);
                            }
                            None => return Err("etcd closed the stream of renewals".to_string()),
                        },
                    }
                }
            })
        };
        let shared = if share { Some(client.grant(ttl.as_secs() as i64).await?.0) } else { None };
        leases.lock().extend(shared.map(|lease| (lease, Instant::now())));
        Ok(HeldKeys { etcd, client, ttl, held: 0, shared, leases, lost, renewing })
    }

    /// Acquires keys until `count` are held or the time-out has passed. Returns the number of held keys.
    pub(crate) async fn hold(&mut self, count: usize, timeout: Duration) -> Result<usize, String> {
        let start = Instant::now();
        while self.held < count && start.elapsed() < timeout {
            let next = count.min(self.held + CONCURRENCY);
            let mut tasks = JoinSet::new();
            for number in self.held..next {
                let (client, seconds, shared) = (self.client.clone(), self.ttl.as_secs() as i64, self.shared);
                tasks.spawn(async move {
                    let lease = match shared {
                        Some(lease) => lease,
                        None => client.grant(seconds).await?.0,
                    };
                    client.put(&format!("held-{number}"), lease).await?;
                    Ok(lease)
                });
            }
            let granted = all(tasks).await?;
            let now = Instant::now();
            if self.shared.is_none() {
                self.leases.lock().extend(granted.into_iter().map(|lease| (lease, now)));
            }
            self.held = next;
        }
        Ok(self.held)
    }

    pub(crate) async fn cost(&self, span: Duration) -> Result<Cost, String> {
        let cost = observe(span, || self.etcd.usage()).await;
        if self.renewing.is_finished() {
            return Err("etcd closed the stream of renewals".to_string());
        }
        Ok(Cost { lost: self.lost.load(Ordering::Relaxed), ..cost })
    }
}

impl Drop for HeldKeys<'_> {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}

/// The leases of one client, the least recently renewed first.
#[derive(Default)]
struct Leases(Mutex<VecDeque<(i64, Instant)>>);

impl Leases {
    fn lock(&self) -> MutexGuard<'_, VecDeque<(i64, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes a lost lease.
    fn forget(&self, lost: i64) {
        self.lock().retain(|&(lease, _)| lease != lost);
    }

    /// The leases that were last renewed at least `pause` ago. Marks them as renewed now.
    fn due(&self, pause: Duration) -> Vec<i64> {
        let (now, mut leases, mut due) = (Instant::now(), self.lock(), Vec::new());
        while let Some(&(lease, renewed)) = leases.front()
            && now.duration_since(renewed) >= pause
        {
            leases.rotate_left(1);
            leases.back_mut().expect("the queue is not empty").1 = now;
            due.push(lease);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_lease_is_not_renewed() {
        let leases = Leases::default();
        let (pause, now) = (Duration::from_millis(1), Instant::now());
        leases.lock().extend([7, 8, 9].map(|lease| (lease, now)));
        std::thread::sleep(pause);
        assert_eq!(leases.due(pause), [7, 8, 9]);
        assert!(leases.due(pause * 10_000).is_empty(), "all leases were renewed just now");
        leases.forget(8);
        std::thread::sleep(pause);
        assert_eq!(leases.due(pause), [7, 9]);
    }
}
