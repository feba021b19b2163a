//! Commands of two leaders never run at once, whatever fault the leader has.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use crate::cluster::support::{Cluster, Process, WORK, alone, stubborn, until};

const FLAGS: &str = "--ttl 600ms --stop-grace 60ms --kill-time 100ms --quiet";
const FAILOVERS: usize = 52;

/// A fault of the leader. Another candidate replaces it afterwards.
#[derive(Clone, Copy, Debug)]
enum Blow {
    /// The supervisor is killed: the guard stops the command.
    Kill,
    /// The supervisor gets SIGTERM: it hands over.
    Terminate,
    /// The supervisor is paused for longer than its lease: the guard stops the command.
    Stop,
    /// The guard is paused, and the supervisor gets SIGTERM: it kills the command itself.
    StopGuard,
}

const BLOWS: [Blow; 4] = [Blow::Kill, Blow::Terminate, Blow::Stop, Blow::StopGuard];

/// The candidate whose command has this process id. The parent of the command is the guard, whose parent is the candidate.
fn parent(pid: i32) -> i32 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").and_then(|(_, tail)| tail.split(' ').nth(1)?.parse().ok()).unwrap_or(0)
}

/// Checks, by the clocks of the scripts, that the last heartbeat of every leader is before the start of the next.
fn check(cluster: &Cluster) -> Vec<f64> {
    let log = cluster.log();
    let overlaps: Vec<_> = log.iter().filter(|line| line[0] == "overlap").collect();
    assert_eq!(overlaps, [] as [&Vec<String>; 0], "a lock was still held by a former leader's processes");
    let mut lives: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
    for line in &log {
        let (token, time): (u64, f64) = (line[1].parse().unwrap(), line[2].parse().unwrap());
        let life = lives.entry(token).or_insert((time, time));
        assert!(line[0] != "start" || life.0 == time, "token {token} has been given to two commands");
        *life = (life.0.min(time), life.1.max(time));
    }
    let lives: Vec<(f64, f64)> = lives.into_values().collect();
    for pair in lives.windows(2) {
        assert!(pair[0].1 <= pair[1].0, "{pair:?}: two at once, or tokens out of order");
    }
    lives.windows(2).map(|pair| pair[1].0 - pair[0].1).collect()
}

#[test]
fn a_command_has_ended_before_the_next_starts_over_fifty_failovers() {
    let _alone = alone();
    let cluster = Cluster::start("1s");
    let stubborn = stubborn();
    let candidate = |place: usize| cluster.run(FLAGS, if place.is_multiple_of(2) { WORK } else { &stubborn });
    let mut candidates: Vec<Process> = (0..3).map(candidate).collect();
    cluster.wait_for("start", 0);
    let start = Instant::now();
    let mut stopped: Option<usize> = None;
    for failover in 0..FAILOVERS {
        let count = cluster.count("start");
        let command: i32 = cluster.last("start")[3].parse().unwrap();
        let guard = parent(command);
        let leader = candidates.iter().position(|other| other.0.id() as i32 == parent(guard));
        if let Some(place) = stopped.take() {
            candidates[place].signal(Signal::CONT);
        }
        // The leader may have lost its lease because the machine is busy: that is a failover, too.
        let Some(leader) = leader else {
            until("the next", || (cluster.count("start") > count).then_some(()));
            continue;
        };
        let blow = BLOWS[failover % BLOWS.len()];
        match blow {
            Blow::Kill => candidates[leader].kill(),
            Blow::Terminate => candidates[leader].signal(Signal::TERM),
            Blow::Stop => {
                candidates[leader].signal(Signal::STOP);
                stopped = Some(leader);
            }
            Blow::StopGuard => {
                _ = kill_process(Pid::from_raw(guard).unwrap(), Signal::STOP);
                candidates[leader].signal(Signal::TERM);
            }
        }
        until(&format!("failover {failover}, by {blow:?}"), || {
            (cluster.count("start") > count).then_some(())
        });
        if !matches!(blow, Blow::Stop) {
            candidates[leader].code();
            candidates[leader] = candidate(failover);
        }
    }
    let took = start.elapsed();
    let mut gaps = check(&cluster);
    assert!(gaps.len() >= 50, "{} failovers", gaps.len());
    gaps.sort_by(f64::total_cmp);
    let (median, longest) = (gaps[gaps.len() / 2], gaps[gaps.len() - 1]);
    println!(
        "{} failovers in {took:.1?}: from the last sign of life to the next start {:.2}s to {longest:.2}s, median {median:.2}s",
        gaps.len(),
        gaps[0]
    );
    drop(candidates);
    until("orphans none", || cluster.commands().is_empty().then_some(()));
}

#[test]
fn a_paused_supervisor_finds_its_command_stopped_and_campaigns_again() {
    let _alone = alone();
    let cluster = Cluster::start("1s");
    let only = cluster.run(FLAGS, WORK);
    let first = cluster.wait_for("start", 0);
    only.signal(Signal::STOP);
    // There is no other candidate: no other leader stops the command.
    until("the guard ends the command", || cluster.commands().is_empty().then_some(()));
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    threads.block_on(async {
        let node = cluster.node(99).voters([1, 2, 3]).start().await.unwrap();
        // Another candidate leads after the end of the lease, and hands over again.
        let election = node.election("test").ttl(Duration::from_millis(500)).join().await.unwrap();
        let leadership = tokio::time::timeout(Duration::from_secs(60), election.lead()).await;
        drop(leadership.expect("the lease ends").unwrap());
        node.stop().await;
    });
    assert_eq!(cluster.count("start"), 1);
    only.signal(Signal::CONT);
    let second = cluster.wait_for("start", 1);
    assert!(second[1].parse::<u64>().unwrap() > first[1].parse::<u64>().unwrap());
    check(&cluster);
}

#[test]
fn a_candidate_of_greater_rank_waits_for_the_command() {
    let _alone = alone();
    let cluster = Cluster::start("3s");
    // The address must be known to the other candidate for its claim.
    let address = suffrage_testbed::address();
    let flags = format!("--ttl 1s --stop-grace 60ms --quiet --id 50 --listen {address}");
    let mut run = cluster.run(&flags, WORK);
    cluster.wait_for("start", 0);
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    threads.block_on(async {
        let node = cluster.node(99).voters([1, 2, 3]).member(50, address).start().await.unwrap();
        let (ttl, steady) = (Duration::from_secs(1), Duration::from_millis(50));
        let election = node.election("test").ttl(ttl).rank(5).failback(steady).join().await.unwrap();
        // The command runs for forty times as long as the claim takes.
        let beats = cluster.count("beat") + 100;
        let lives_on = async {
            while cluster.count("beat") < beats {
                tokio::time::sleep(steady).await;
            }
        };
        tokio::select! {
            _ = election.lead() => panic!("it was handed over at once, while the command ran"),
            () = lives_on => {}
        }
        run.signal(Signal::TERM);
        let leadership = tokio::time::timeout(Duration::from_secs(30), election.lead()).await;
        assert_eq!(cluster.commands(), [] as [i32; 0]);
        assert!(leadership.unwrap().unwrap().is_valid());
    });
    assert_eq!(run.code(), 128 + 15);
}

#[test]
fn a_handover_does_not_wait_for_the_end_of_the_lease() {
    let _alone = alone();
    let cluster = Cluster::start("300s");
    // The lease is longer than every timeout of the test.
    let flags = "--ttl 200s";
    let mut first = cluster.run(flags, WORK);
    cluster.wait_for("start", 0);
    let _second = cluster.run_second(flags);
    first.signal(Signal::TERM);
    cluster.wait_for("start", 1);
    assert_eq!(first.code(), 128 + 15);
    check(&cluster);
}
