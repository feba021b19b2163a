//! Five voters, partitioned into two and three, or one way. The registers are reachable from both sides: a deposed leader
//! could write.

use std::thread;
use std::time::{Duration, Instant};

use crate::network_faults::support::{Cluster, Leader, TTL, until};

/// Isolates the leader with one other node, and waits for a leader on the majority side.
fn cut_off(cluster: &Cluster, first: Leader) -> (Leader, Duration) {
    let (few, many) = cluster.sides(first, 1);
    let start = Instant::now();
    cluster.network.cut(&few, &many);
    let second = cluster.leader_after(first.token);
    let took = start.elapsed();
    assert!(many.contains(&second.host), "{second:?} leads, and cannot reach more than {few:?}");
    // Longer than any lease: the minority gets no lease, and learns that it knows no leader.
    cluster.writes_on(second, 20);
    for host in few {
        until(&format!("node {host} knows of no leader"), || cluster.believed(host).is_none().then_some(()));
    }
    thread::sleep(TTL);
    assert_eq!(cluster.last_leader(), Some(second));
    (second, took)
}

#[test]
fn a_leader_in_a_minority_of_two_is_succeeded_in_the_majority() {
    let cluster = Cluster::with_writers(5, 1);
    let first = cluster.leader_after(0);
    let (second, took) = cut_off(&cluster, first);
    println!("{took:.1?} from the cut until another writes, with a lease of {TTL:?}");
    cluster.network.heal();
    // The returning nodes do not disturb the leader.
    cluster.agreed_on(second);
    cluster.writes_on(second, 20);
    cluster.verify_fenced();
    // No process was paused: leases alone are enough here.
    assert_eq!(cluster.verify_trusting(), Ok(()));
}

#[test]
fn a_leader_in_the_majority_keeps_the_lease() {
    let cluster = Cluster::with_writers(5, 2);
    let first = cluster.leader_after(0);
    let (many, few) = cluster.sides(first, 2);
    cluster.network.cut(&many, &few);
    let start = Instant::now();
    while start.elapsed() < TTL * 2 {
        cluster.writes_on(first, 5);
    }
    for host in few {
        until(&format!("node {host} knows of no leader"), || cluster.believed(host).is_none().then_some(()));
    }
    cluster.network.heal();
    cluster.agreed_on(first);
    cluster.writes_on(first, 20);
    cluster.verify_fenced();
    assert_eq!(cluster.verify_trusting(), Ok(()));
}

#[test]
fn a_leader_behind_a_one_way_partition_is_succeeded() {
    let cluster = Cluster::with_writers(5, 3);
    let mut leader = cluster.leader_after(0);
    for deaf in [true, false] {
        let (alone, others) = cluster.sides(leader, 0);
        let start = Instant::now();
        match deaf {
            // All nodes receive its requests, and it receives no reply.
            true => cluster.network.cut_one_way(&others, &alone),
            // It receives all messages, and no node receives its requests.
            false => cluster.network.cut_one_way(&alone, &others),
        }
        let next = cluster.leader_after(leader.token);
        println!("deaf {deaf}: {:.1?} from the cut until another writes", start.elapsed());
        assert_ne!(next.host, leader.host, "it leads without being understood");
        cluster.writes_on(next, 20);
        cluster.network.heal();
        // The returning node does not disturb the leader.
        cluster.agreed_on(next);
        leader = next;
    }
    cluster.verify_fenced();
    assert_eq!(cluster.verify_trusting(), Ok(()));
}

#[test]
fn without_a_majority_there_is_no_leader_until_the_partition_heals() {
    let cluster = Cluster::with_writers(5, 4);
    let first = cluster.leader_after(0);
    for host in cluster.hosts() {
        let others: Vec<usize> = cluster.hosts().into_iter().filter(|other| *other != host).collect();
        cluster.network.cut_one_way(&[host], &others);
    }
    thread::sleep(TTL);
    let before = cluster.last_leader();
    thread::sleep(TTL);
    assert_eq!((before, cluster.last_leader()), (Some(first), Some(first)), "nobody can win a majority");
    assert!(cluster.hosts().into_iter().all(|host| cluster.believed(host).is_none()));
    cluster.network.heal();
    let second = cluster.leader_after(first.token);
    cluster.agreed_on(second);
    cluster.verify_fenced();
    assert_eq!(cluster.verify_trusting(), Ok(()));
}
