//! The calls of etcd's own client, as a process that reads the commands of `clients/driver.py`: `etcd-client SERVERS TTL_MS`.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::task::JoinSet;

use crate::etcd::Client;
use crate::measure::{KeptLease, all};

use super::measure::SETTLE;

pub(crate) async fn serve(servers: &str, ttl: Duration) -> Result<(), String> {
    let server = servers.split(',').next().unwrap_or_default();
    let server: SocketAddr = server.parse().map_err(|_| format!("`{server}` is no address"))?;
    let seconds = ttl.as_secs() as i64;
    let mut held = Vec::new();
    // Standard input is read by this thread: nothing happens between two commands, but for renewals in other threads.
    for line in std::io::stdin().lines() {
        let line = line.map_err(|error| error.to_string())?;
        let words: Vec<&str> = line.split(' ').collect();
        let number = |index: usize| words.get(index).and_then(|word| word.parse::<usize>().ok()).unwrap_or(0);
        match words[0] {
            "handover" => {
                let times = handover(server, seconds, number(1)).await?;
                let times: Vec<String> = times.iter().map(|time| time.as_nanos().to_string()).collect();
                println!("times {}", times.join(" "));
            }
            "acquire" => {
                let span = Duration::from_millis(number(2) as u64);
                println!("rate {}", acquire(server, seconds, number(1), span).await?);
            }
            "hold" => {
                let client = Client::connect(server).await?;
                for number in 0..number(1) {
                    let lease = KeptLease::grant(&client, seconds).await?;
                    client.campaign(&format!("theirs/held-{number}"), lease.id).await?;
                    held.push(lease);
                }
                println!("held");
            }
            other => return Err(format!("there is no command `{other}`")),
        }
    }
    Ok(())
}

async fn handover(server: SocketAddr, seconds: i64, rounds: usize) -> Result<Vec<Duration>, String> {
    let clients = [Client::connect(server).await?, Client::connect(server).await?];
    let leases =
        [KeptLease::grant(&clients[0], seconds).await?, KeptLease::grant(&clients[1], seconds).await?];
    let mut key = clients[0].campaign("theirs/handover", leases[0].id).await?;
    let mut took = Vec::new();
    for round in 1..=rounds {
        let (next, lease) = (clients[round % 2].clone(), leases[round % 2].id);
        let waiting =
            tokio::spawn(async move { (next.campaign("theirs/handover", lease).await, Instant::now()) });
        tokio::time::sleep(SETTLE).await;
        let start = Instant::now();
        clients[(round + 1) % 2].resign(&key).await?;
        let (won, at) = waiting.await.map_err(|error| error.to_string())?;
        took.push(at - start);
        key = won?;
    }
    clients[rounds % 2].resign(&key).await?;
    Ok(took)
}

async fn acquire(server: SocketAddr, seconds: i64, names: usize, span: Duration) -> Result<f64, String> {
    let client = Client::connect(server).await?;
    let lease = KeptLease::grant(&client, seconds).await?;
    let (start, mut tasks) = (Instant::now(), JoinSet::new());
    for number in 0..names {
        let (client, name, lease) = (client.clone(), format!("theirs/acquire-{number}"), lease.id);
        tasks.spawn(async move {
            let mut count = 0u64;
            while start.elapsed() < span {
                client.lead_once(&name, lease).await?;
                count += 1;
            }
            Ok(count)
        });
    }
    let count: u64 = all(tasks).await?.into_iter().sum();
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
