//! Our side of the measurements: elections through suffrage-engines.

use std::time::{Duration, Instant};

use suffrage_engines::{Clock, Election, Engine, Leadership, Moment};
use tokio::task::JoinSet;

/// The clock of the machine, as production uses it.
#[derive(Clone, Copy)]
struct BootClock;

impl Clock for BootClock {
    fn now(&self) -> Moment {
        suffrage_servers::now()
    }
}

/// The time-out for a leadership. The slowest engine lets a candidate wait for half a minute.
const TIMEOUT: Duration = Duration::from_secs(90);
/// The number of candidates that stand at once when many elections are to be held.
const CONCURRENCY: usize = 32;

pub(crate) fn connect(url: &str) -> Result<Engine, String> {
    Engine::connect(url, BootClock).map_err(|error| error.to_string())
}

fn join(engine: &Engine, name: &str, ttl: Duration) -> Result<Election, String> {
    engine.election(name).ttl(ttl).join().map_err(|error| error.to_string())
}

async fn lead(election: &Election) -> Result<Leadership, String> {
    let led = tokio::time::timeout(TIMEOUT, election.lead()).await;
    let led = led.map_err(|_| format!("no leadership after {TIMEOUT:?}: {:?}", election.obstacle()))?;
    led.map_err(|error| error.to_string())
}

/// Leads one election until the process is killed or the benchmark has ended: `candidate URL TTL_MS NAME`.
pub(crate) async fn candidate(url: &str, ttl: Duration, name: &str) -> Result<(), String> {
    let election = join(&connect(url)?, name, ttl)?;
    std::thread::spawn(|| {
        // The end of the benchmark ends its standard input, which has no lines.
        _ = std::io::stdin().lines().count();
        std::process::exit(0);
    });
    let leadership = lead(&election).await?;
    println!("leads");
    leadership.lost().await;
    Err(format!("the leadership was lost: {:?}", leadership.loss()))
}

/// Hands an election over between two engines. The next candidate has waited for `settle` when the leader resigns.
pub(crate) async fn handover(
    engines: &[Engine; 2],
    (ttl, settle): (Duration, Duration),
    rounds: usize,
) -> Result<Vec<Duration>, String> {
    let elections = [join(&engines[0], "handover", ttl)?, join(&engines[1], "handover", ttl)?];
    let mut leader = lead(&elections[0]).await?;
    let mut took = Vec::new();
    for round in 1..=rounds {
        let next = elections[round % 2].clone();
        let waiting = tokio::spawn(async move { (lead(&next).await, Instant::now()) });
        tokio::time::sleep(settle).await;
        if waiting.is_finished() {
            return Err("the next candidate leads before the leader has resigned".to_string());
        }
        let start = Instant::now();
        leader.resign().await;
        let (won, at) = waiting.await.map_err(|error| error.to_string())?;
        leader = won?;
        took.push(at - start);
    }
    leader.resign().await;
    Ok(took)
}

/// Acquires and releases names for the given time, each by its own task, and returns the rate per second.
pub(crate) async fn acquire(
    engine: &Engine,
    names: usize,
    (ttl, span): (Duration, Duration),
) -> Result<f64, String> {
    let mut elections = Vec::new();
    for number in 0..names {
        let election = join(engine, &format!("acquire-{number}"), ttl)?;
        // The connection is there.
        lead(&election).await?.resign().await;
        elections.push(election);
    }
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for election in elections {
        tasks.spawn(async move {
            let mut count = 0u64;
            while start.elapsed() < span {
                lead(&election).await?.resign().await;
                count += 1;
            }
            Ok(count)
        });
    }
    let count: u64 = crate::measure::all(tasks).await?.into_iter().sum();
    Ok(count as f64 / start.elapsed().as_secs_f64())
}

/// Leads this many elections.
pub(crate) async fn hold(engine: &Engine, count: usize, ttl: Duration) -> Result<Vec<Leadership>, String> {
    let mut held = Vec::new();
    while held.len() < count {
        let mut tasks = JoinSet::new();
        for number in held.len()..count.min(held.len() + CONCURRENCY) {
            let election = join(engine, &format!("held-{number}"), ttl)?;
            tasks.spawn(async move { lead(&election).await });
        }
        held.extend(crate::measure::all(tasks).await?);
    }
    Ok(held)
}
