//! Measurements of a three-node cluster in one process, over loopback.
//!
//! `cargo run --release -p suffrage-bench --example library -- acquire | handover | failover | held COUNT`
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "measures time")]

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use suffrage::{Error, Keyring, Leadership, Node};

use suffrage_sim::quantiles;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match words[..] {
        ["acquire"] => {
            acquire(1).await?;
            acquire(64).await
        }
        ["handover"] => handover().await,
        ["failover"] => failover().await,
        ["held", count] => held(count.parse().expect("COUNT must be a number")).await,
        _ => {
            eprintln!("usage: library acquire | handover | failover | held COUNT");
            std::process::exit(2);
        }
    }
}

async fn cluster() -> Result<Vec<Node>, Error> {
    let sockets = [(); 3].map(|()| UdpSocket::bind("127.0.0.1:0").expect("a port of loopback is free"));
    let addresses = sockets.each_ref().map(|socket| socket.local_addr().expect("the socket is bound"));
    let keyring = Keyring::generate()?;
    let mut nodes = Vec::new();
    for (socket, id) in sockets.into_iter().zip(1..) {
        let mut node = Node::builder(id).key(keyring.clone()).in_memory().socket(socket);
        for (address, member) in addresses.iter().zip(1..) {
            node = node.member(member, *address);
        }
        nodes.push(node.start().await?);
    }
    Ok(nodes)
}

/// Measures the rate at which names are acquired and released, with one client per name.
async fn acquire(names: usize) -> Result<(), Error> {
    let nodes = cluster().await?;
    let count = Arc::new(AtomicU64::new(0));
    let span = Duration::from_secs(5);
    let (start, cpu) = (Instant::now(), cpu());
    let mut clients = Vec::new();
    for number in 0..names {
        let election = nodes[0].election(format!("name {number}")).join().await?;
        let count = Arc::clone(&count);
        clients.push(tokio::spawn(async move {
            while start.elapsed() < span {
                drop(election.lead().await?);
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok::<(), Error>(())
        }));
    }
    for client in clients {
        client.await.expect("the task does not panic")?;
    }
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), crate::cpu() - cpu);
    let count = count.load(Ordering::Relaxed);
    let metrics = nodes[0].metrics().await?;
    println!(
        "{names} names at once: {:.0} acquisitions per second, {:.0}% CPU, {:.1} us of CPU each; node 1 sent {} messages",
        count as f64 / seconds,
        100.0 * cpu / seconds,
        1e6 * cpu / count as f64,
        metrics.messages_sent,
    );
    Ok(())
}

fn print_quantiles(what: &str, times: &[Duration]) {
    let [median, p99, max] = quantiles(times, [0.5, 0.99, 1.0]).expect("something was measured");
    println!("{what}: median {median:.1?}, p99 {p99:.1?}, max {max:.1?}, of {}", times.len());
}

/// Measures the time from the drop of a leadership until a waiting candidate of another node leads.
async fn handover() -> Result<(), Error> {
    let nodes = cluster().await?;
    let mut elections = Vec::new();
    for node in &nodes {
        elections.push(node.election("x").ttl(Duration::from_secs(20)).join().await?);
    }
    let mut times = Vec::new();
    let mut leadership = elections[0].lead().await?;
    for round in 1..=300 {
        let next = elections[round % 2].clone();
        let waiting = tokio::spawn(async move { (next.lead().await, Instant::now()) });
        tokio::time::sleep(Duration::from_millis(20)).await;
        let start = Instant::now();
        drop(leadership);
        let (next, led) = waiting.await.expect("the task does not panic");
        leadership = next?;
        times.push(led - start);
    }
    print_quantiles("handover", &times);
    Ok(())
}

/// Measures the time from the abort of the leading node until the next candidate leads, at several ttls.
async fn failover() -> Result<(), Error> {
    for millis in [200, 1_000, 3_000] {
        let ttl = Duration::from_millis(millis);
        let mut times = Vec::new();
        let rounds = if millis > 1_000 { 8 } else { 30 };
        for round in 0..rounds {
            let nodes = cluster().await?;
            let first = nodes[0].election("x").ttl(ttl).join().await?;
            let second = nodes[1].election("x").ttl(ttl).join().await?;
            let third = nodes[2].election("x").ttl(ttl).join().await?;
            let leadership = first.lead().await?;
            // Two candidates wait, and the two remaining voters must agree.
            let waiting = tokio::spawn(async move {
                let next = tokio::select! {
                    next = second.lead() => next,
                    next = third.lead() => next,
                };
                (next, Instant::now())
            });
            // The aborts are spread between two renewals.
            tokio::time::sleep(ttl / 2 + ttl * round / rounds / 3).await;
            let start = Instant::now();
            nodes[0].abort();
            let (next, led) = waiting.await.expect("the task does not panic");
            assert!(!leadership.is_valid() && next?.is_valid());
            times.push(led - start);
        }
        print_quantiles(&format!("failover, ttl {millis} ms"), &times);
    }
    Ok(())
}

/// Measures the cost of held elections.
async fn held(count: usize) -> Result<(), Error> {
    let nodes = cluster().await?;
    let base = memory();
    let ttl = Duration::from_secs(10);
    let start = Instant::now();
    let mut held: Vec<Leadership> = Vec::with_capacity(count);
    for from in (0..count).step_by(1_000) {
        let mut tasks = Vec::new();
        for number in from..count.min(from + 1_000) {
            let node = nodes[0].clone();
            tasks.push(tokio::spawn(async move {
                let election = node.election(format!("election {number}")).ttl(ttl).join().await?;
                election.lead().await
            }));
        }
        for task in tasks {
            held.push(task.await.expect("the task does not panic")?);
        }
    }
    println!("{count} acquired in {:.1?}", start.elapsed());
    tokio::time::sleep(ttl).await;
    let (start, cpu, before) = (Instant::now(), cpu(), nodes[0].metrics().await?);
    tokio::time::sleep(2 * ttl).await;
    let (seconds, cpu) = (start.elapsed().as_secs_f64(), crate::cpu() - cpu);
    let after = nodes[0].metrics().await?;
    let lost = held.iter().filter(|leadership| !leadership.is_valid()).count();
    println!(
        "{count} held at ttl {ttl:?}: {:.2}% of a CPU for all three nodes, {:.0} renewals and {:.0} messages \
         sent per second, {:.1} MB ({:.0} bytes each, for all three and the handles), {lost} lost",
        100.0 * cpu / seconds,
        (after.counters.renewals - before.counters.renewals) as f64 / seconds,
        (after.messages_sent - before.messages_sent) as f64 / seconds,
        (memory() - base) as f64 / 1e6,
        (memory() - base) as f64 / count as f64,
    );
    println!(
        "round trip {:?}; memory per election: at most {} bytes of a voter, {} bytes of the candidate",
        after.round_trip,
        suffrage_lease::VOTER_MEMORY,
        suffrage_node::lease::ELECTION_MEMORY,
    );
    Ok(())
}

/// Seconds of CPU that this process has used.
fn cpu() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

/// Resident memory of this process in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
    kilobytes.unwrap_or(0) * 1_024
}
