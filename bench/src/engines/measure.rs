//! The measurements of one engine. Our side and the engine's own client alternate, or run at the same time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use suffrage_servers::{Proxy, now};

use super::case::{Case, Client};
use super::ours;
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
const TURNS: usize = 6;
/// The time in which a process starts and connects.
const START: Duration = Duration::from_secs(3);
/// The pairs of processes whose fail-over is measured at the same time, on each side.
const PAIRS: usize = 3;

/// A figure of our side and of the engine's own client, if it can do that.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sides<T> {
    pub(crate) ours: T,
    pub(crate) theirs: Option<T>,
}

fn times(took: &[Duration]) -> Result<Times, String> {
    Times::of(took).ok_or_else(|| "nothing was measured".to_string())
}

/// Measures the time from the resignation of a leader until the next one leads.
pub(crate) async fn handover(case: &Case, rounds: usize) -> Result<Sides<Times>, String> {
    let server = case.one_server();
    let url = case.url(&server, LONG);
    let engines = [ours::connect(&url)?, ours::connect(&url)?];
    // Both sides have connected, and have done it once.
    ours::handover(&engines, (LONG, SETTLE), 2).await?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    let Some(mut client) = case.client(&server, LONG)? else {
        ours.extend(ours::handover(&engines, (LONG, SETTLE), rounds).await?);
        let theirs = handover_of_processes(case, rounds.div_ceil(15)).await?;
        return Ok(Sides { ours: times(&ours)?, theirs });
    };
    client.ask("handover 2", "times")?;
    for _ in 0..TURNS {
        ours.extend(ours::handover(&engines, (LONG, SETTLE), rounds.div_ceil(TURNS)).await?);
        let nanos = client.ask(&format!("handover {}", rounds.div_ceil(TURNS)), "times")?;
        theirs.extend(nanos.into_iter().map(|nanos| Duration::from_nanos(nanos as u64)));
    }
    Ok(Sides { ours: times(&ours)?, theirs: Some(times(&theirs)?) })
}

/// Measures hand-overs of a client that is nothing but a process: from SIGTERM of the leader until the next one leads.
async fn handover_of_processes(case: &Case, rounds: usize) -> Result<Option<Times>, String> {
    let start = || case.their_candidate("handover-of-processes", LONG);
    let Some(mut leader) = start()? else { return Ok(None) };
    leader.leads()?;
    let mut took = Vec::new();
    for _ in 0..rounds {
        let Some(next) = start()? else { return Ok(None) };
        tokio::time::sleep(START).await;
        let begin = now();
        leader.terminate();
        took.push(next.leads()?.saturating_sub(begin));
        leader = next;
    }
    times(&took).map(Some)
}

/// Measures how often names are acquired and released per second.
pub(crate) async fn acquire(case: &Case, names: usize, span: Duration) -> Result<Sides<f64>, String> {
    let server = case.one_server();
    let engine = ours::connect(&case.url(&server, LONG))?;
    let mut client = case.client(&server, LONG)?;
    let turn = span / TURNS as u32;
    let mut sides = Sides { ours: 0.0, theirs: client.as_ref().map(|_| 0.0) };
    for _ in 0..TURNS {
        sides.ours += ours::acquire(&engine, names, (LONG, turn)).await? / TURNS as f64;
        if let (Some(client), Some(theirs)) = (&mut client, &mut sides.theirs) {
            let rate = client.ask(&format!("acquire {names} {}", turn.as_millis()), "rate")?;
            *theirs += rate.first().copied().unwrap_or(0.0) / TURNS as f64;
        }
    }
    Ok(sides)
}

/// Fail-overs, and how many were discarded because a lease was lost without a kill.
pub(crate) struct Failovers {
    pub(crate) times: Sides<Times>,
    /// Of ours and of theirs.
    pub(crate) discarded: [usize; 2],
}

/// Measures the time from SIGKILL of the leading process until the next process leads. Both sides run at the same time.
pub(crate) async fn failover(case: &Case, ttl: Duration, rounds: usize) -> Result<Failovers, String> {
    // Of ours and of theirs.
    let (mut took, mut discarded) = ([Vec::new(), Vec::new()], [0, 0]);
    for round in 0..rounds {
        let mut pairs = Vec::new();
        for number in 0..PAIRS {
            for side in [0, 1] {
                pairs.extend(Pair::start(case, side, format!("failover-{round}-{number}-{side}"), ttl)?);
            }
        }
        for pair in &mut pairs {
            pair.leader.leads()?;
            pair.next = pair.candidate(case, ttl)?;
        }
        // The next ones have connected, and the leaders have renewed.
        tokio::time::sleep((ttl / 2).max(START)).await;
        let count = pairs.len() as u32;
        for pair in &mut pairs {
            // At different times between two renewals.
            tokio::time::sleep(ttl / 3 / count).await;
            pair.kill();
        }
        for pair in pairs {
            match pair.took()? {
                Some(time) => took[pair.side].push(time),
                None => discarded[pair.side] += 1,
            }
        }
    }
    let [ours, theirs] = took;
    let theirs = if theirs.is_empty() { None } else { Some(times(&theirs)?) };
    Ok(Failovers { times: Sides { ours: times(&ours)?, theirs }, discarded })
}

/// A leader and the next one, each a process.
struct Pair {
    /// 0 is our side, and 1 is theirs.
    side: usize,
    name: String,
    leader: Client,
    next: Option<Client>,
    /// When the leader was killed. None if the next one led before.
    killed: Option<Duration>,
}

fn candidate(case: &Case, side: usize, name: &str, ttl: Duration) -> Result<Option<Client>, String> {
    if side == 0 { case.our_candidate(name, ttl).map(Some) } else { case.their_candidate(name, ttl) }
}

impl Pair {
    /// None if that side has no client.
    fn start(case: &Case, side: usize, name: String, ttl: Duration) -> Result<Option<Pair>, String> {
        let leader = candidate(case, side, &name, ttl)?;
        Ok(leader.map(|leader| Pair { side, name, leader, next: None, killed: None }))
    }

    fn candidate(&self, case: &Case, ttl: Duration) -> Result<Option<Client>, String> {
        candidate(case, self.side, &self.name, ttl)
    }

    fn kill(&mut self) {
        if self.next.as_ref().is_some_and(|next| !next.leads_already()) {
            self.killed = Some(now());
            self.leader.kill();
        }
    }

    /// The time from the kill until the next one led.
    fn took(&self) -> Result<Option<Duration>, String> {
        let (Some(next), Some(killed)) = (&self.next, self.killed) else { return Ok(None) };
        Ok(Some(next.leads()?.saturating_sub(killed)))
    }
}

/// The load of held elections on the servers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    /// Requests per second for each election.
    pub(crate) requests: f64,
    /// CPU of the servers beyond that of idle servers, as a share of one CPU.
    pub(crate) cpu: f64,
}

/// Servers behind proxies that count requests, or a server that counts them itself.
struct CountedServers {
    addresses: Vec<SocketAddr>,
    requests: Arc<AtomicU64>,
    /// They end when they are dropped.
    _proxies: Vec<Proxy>,
}

impl CountedServers {
    async fn start(case: &Case) -> CountedServers {
        let (requests, addresses) = (Arc::<AtomicU64>::default(), case.servers.addresses());
        let Some(protocol) = case.kind.protocol() else {
            return CountedServers { addresses, requests, _proxies: Vec::new() };
        };
        let mut proxies = Vec::new();
        for address in addresses {
            proxies.push(Proxy::counting(address, protocol, &requests).await);
        }
        let addresses = proxies.iter().map(|proxy| proxy.address).collect();
        CountedServers { addresses, requests, _proxies: proxies }
    }

    /// Observes the servers for a time.
    async fn load(&self, case: &Case, span: Duration) -> Load {
        // The last acquisitions are over.
        tokio::time::sleep(HELD_TTL / 2).await;
        let requests = || case.requests_of_leases().unwrap_or_else(|| self.requests.load(Ordering::Relaxed));
        let before = requests();
        let (cpu, seconds) = cpu(case, span).await;
        Load { requests: requests().saturating_sub(before) as f64 / seconds / HELD as f64, cpu }
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
    // The kernel counts ticks of 10 ms: less than one tick of difference is none.
    let least = 0.01 / span.as_secs_f64();
    let beyond_idle = |load: Load| {
        let more = load.cpu - idle;
        Load { cpu: if more < least { 0.0 } else { more }, ..load }
    };
    let ours = {
        let servers = CountedServers::start(case).await;
        let engine = ours::connect(&case.url(&servers.addresses, HELD_TTL))?;
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
    let servers = CountedServers::start(case).await;
    let theirs = match case.client(&servers.addresses, HELD_TTL)? {
        Some(mut client) => {
            client.ask(&format!("hold {HELD}"), "held")?;
            Some(servers.load(case, span).await)
        }
        None => None,
    };
    Ok(Sides { ours: beyond_idle(ours), theirs: theirs.map(beyond_idle) })
}
