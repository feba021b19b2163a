//! The measurements of one engine. Our side and the engine's own client alternate, or run at the same time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use suffrage_servers::{Proxy, now};

use super::case::{Case, Client};
use super::ours;
use super::wire::RequestCounter;
use crate::processes::Usage;
use crate::times::Times;

/// The time for which the next candidate waits before the leader resigns.
pub(crate) const SETTLE: Duration = Duration::from_millis(120);
/// The length of a lease, longer than a hand-over or an acquisition.
const LONG: Duration = Duration::from_secs(20);
/// The length of a lease of held elections.
pub(crate) const HELD_TTL: Duration = Duration::from_secs(10);
/// The number of held elections.
pub(crate) const HELD: usize = 100;
/// How often the two sides take turns.
const TURNS: usize = 4;
/// The pairs of processes whose fail-over is measured at the same time, on each side.
const PAIRS: usize = 3;

/// A figure of our side and of the engine's own client.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides<T> {
    pub(crate) ours: T,
    pub(crate) theirs: T,
}

fn times(took: &[Duration]) -> Result<Times, String> {
    Times::of(took).ok_or_else(|| "nothing was measured".to_string())
}

/// Measures the time from the resignation of a leader until the next one leads.
pub(crate) async fn handover(case: &Case, rounds: usize) -> Result<Sides<Times>, String> {
    let addresses = case.servers.addresses();
    let url = case.url(&addresses, LONG);
    let engines = [ours::connect(&url)?, ours::connect(&url)?];
    let mut client = case.client(&addresses, LONG)?;
    // Both sides have connected, and have done it once.
    ours::handover(&engines, (LONG, SETTLE), 2).await?;
    client.ask("handover 2", "times")?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.extend(ours::handover(&engines, (LONG, SETTLE), rounds / TURNS).await?);
        let nanos = client.ask(&format!("handover {}", rounds / TURNS), "times")?;
        theirs.extend(nanos.into_iter().map(|nanos| Duration::from_nanos(nanos as u64)));
    }
    Ok(Sides { ours: times(&ours)?, theirs: times(&theirs)? })
}

/// Measures how often names are acquired and released per second.
pub(crate) async fn acquire(case: &Case, names: usize, span: Duration) -> Result<Sides<f64>, String> {
    let addresses = case.servers.addresses();
    let engine = ours::connect(&case.url(&addresses, LONG))?;
    let mut client = case.client(&addresses, LONG)?;
    let turn = span / TURNS as u32;
    let (mut ours, mut theirs) = (0.0, 0.0);
    for _ in 0..TURNS {
        ours += ours::acquire(&engine, names, (LONG, turn)).await? / TURNS as f64;
        let rate = client.ask(&format!("acquire {names} {}", turn.as_millis()), "rate")?;
        theirs += rate.first().copied().unwrap_or(0.0) / TURNS as f64;
    }
    Ok(Sides { ours, theirs })
}

/// Fail-overs, and how many were discarded because a lease was lost without a kill.
pub(crate) struct Failovers {
    pub(crate) times: Sides<Times>,
    pub(crate) discarded: Sides<usize>,
}

/// Measures the time from SIGKILL of the leading process until the next process leads. Both sides run at the same time.
pub(crate) async fn failover(case: &Case, ttl: Duration, rounds: usize) -> Result<Failovers, String> {
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let mut discarded = Sides { ours: 0, theirs: 0 };
    for round in 0..rounds {
        let mut pairs = Vec::new();
        for number in 0..PAIRS {
            let name = format!("failover-{round}-{number}");
            pairs.push(Pair::start(case, true, &format!("ours-{name}"), ttl)?);
            pairs.push(Pair::start(case, false, &format!("theirs-{name}"), ttl)?);
        }
        for pair in &mut pairs {
            pair.await_leader()?;
            pair.start_next(case, ttl)?;
        }
        // The next ones have connected, and the leaders have renewed.
        tokio::time::sleep(ttl.max(Duration::from_secs(3))).await;
        let count = pairs.len() as u32;
        for pair in &mut pairs {
            // At different times between two renewals.
            tokio::time::sleep(ttl / 3 / count).await;
            pair.kill();
        }
        for pair in pairs {
            let is_ours = pair.is_ours;
            match (pair.took()?, is_ours) {
                (Some(took), true) => ours.push(took),
                (Some(took), false) => theirs.push(took),
                (None, true) => discarded.ours += 1,
                (None, false) => discarded.theirs += 1,
            }
        }
    }
    Ok(Failovers { times: Sides { ours: times(&ours)?, theirs: times(&theirs)? }, discarded })
}

/// A leader and the next one, each a process.
struct Pair {
    is_ours: bool,
    name: String,
    leader: Client,
    next: Option<Client>,
    /// When the leader was killed. None if the next one led before.
    killed: Option<Duration>,
}

impl Pair {
    fn start(case: &Case, is_ours: bool, name: &str, ttl: Duration) -> Result<Pair, String> {
        let leader = candidate(case, is_ours, name, ttl)?;
        Ok(Pair { is_ours, name: name.to_string(), leader, next: None, killed: None })
    }

    fn await_leader(&mut self) -> Result<(), String> {
        self.leader.hear().map(drop)
    }

    fn start_next(&mut self, case: &Case, ttl: Duration) -> Result<(), String> {
        self.next = Some(candidate(case, self.is_ours, &self.name, ttl)?);
        Ok(())
    }

    fn kill(&mut self) {
        if self.next.as_ref().is_some_and(Client::is_silent) {
            self.killed = Some(now());
            self.leader.kill();
        }
    }

    /// The time from the kill until the next one led.
    fn took(self) -> Result<Option<Duration>, String> {
        let (Some(next), Some(killed)) = (self.next, self.killed) else { return Ok(None) };
        let (_, at) = next.hear()?;
        Ok(Some(at.saturating_sub(killed)))
    }
}

fn candidate(case: &Case, is_ours: bool, name: &str, ttl: Duration) -> Result<Client, String> {
    if is_ours { case.our_candidate(name, ttl) } else { case.their_candidate(name, ttl) }
}

/// The load of held elections on the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Requests per second for each election.
    pub(crate) requests: f64,
    /// CPU of the servers beyond that of idle servers, as a share of one CPU.
    pub(crate) cpu: f64,
}

/// Proxies in front of the servers, which count requests.
struct CountedServers {
    proxies: Vec<Proxy>,
    requests: Arc<AtomicU64>,
}

impl CountedServers {
    async fn start(case: &Case) -> CountedServers {
        let requests = Arc::<AtomicU64>::default();
        let protocol = case.kind.protocol();
        let mut proxies = Vec::new();
        for address in case.servers.addresses() {
            let requests = Arc::clone(&requests);
            let observer = move || -> suffrage_servers::Observer {
                let (mut counter, requests) = (RequestCounter::new(protocol), Arc::clone(&requests));
                Box::new(move |bytes| {
                    requests.fetch_add(counter.count(bytes), Ordering::Relaxed);
                })
            };
            proxies.push(Proxy::observed(address, observer).await);
        }
        CountedServers { proxies, requests }
    }

    fn addresses(&self) -> Vec<std::net::SocketAddr> {
        self.proxies.iter().map(|proxy| proxy.address).collect()
    }

    /// Observes the servers for a time.
    async fn load(&self, case: &Case, span: Duration) -> Load {
        // The last acquisitions are over.
        tokio::time::sleep(HELD_TTL / 3).await;
        let requests = || self.requests.load(Ordering::Relaxed);
        let before = requests();
        let (cpu, seconds) = cpu(case, span).await;
        Load { requests: (requests() - before) as f64 / seconds / HELD as f64, cpu }
    }
}

/// The CPU of the servers over a time, as a share of one CPU, and the time in seconds.
async fn cpu(case: &Case, span: Duration) -> (f64, f64) {
    let pids = case.servers.pids();
    let (start, before) = (Instant::now(), Usage::of_trees(&pids));
    tokio::time::sleep(span).await;
    let (after, seconds) = (Usage::of_trees(&pids), start.elapsed().as_secs_f64());
    ((after.cpu - before.cpu) / seconds, seconds)
}

/// Measures the load of held elections on the servers.
pub(crate) async fn held(case: &Case, span: Duration) -> Result<Sides<Load>, String> {
    let (idle, _) = cpu(case, span).await;
    let beyond_idle = |load: Load| Load { cpu: (load.cpu - idle).max(0.0), ..load };
    let ours = {
        let servers = CountedServers::start(case).await;
        let engine = ours::connect(&case.url(&servers.addresses(), HELD_TTL))?;
        let held = ours::hold(&engine, HELD, HELD_TTL).await?;
        let load = servers.load(case, span).await;
        let lost = held.iter().filter(|leadership| !leadership.is_valid()).count();
        if lost > 0 {
            return Err(format!("{lost} of {HELD} held elections were lost"));
        }
        for leadership in held {
            leadership.resign().await;
        }
        load
    };
    let theirs = {
        let servers = CountedServers::start(case).await;
        let mut client = case.client(&servers.addresses(), HELD_TTL)?;
        client.ask(&format!("hold {HELD}"), "held")?;
        servers.load(case, span).await
    };
    Ok(Sides { ours: beyond_idle(ours), theirs: beyond_idle(theirs) })
}
