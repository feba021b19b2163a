//! Crashes and restarts of voters.

use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::cluster::support::{Cluster, WORK, alone};

/// Three nodes that are all candidates, and the leader with its token.
fn all_stand(new: bool, cluster: &mut Cluster) {
    for place in 0..3 {
        let flags = ["--campaign", "test", "--new"];
        cluster.start_voter(place, if new { &flags } else { &flags[..2] });
    }
}

/// Waits until a running node leads; returns its index and token.
fn leader(cluster: &mut Cluster) -> (usize, u64) {
    let (place, mut token) = (cluster.voters.iter().position(Option::is_some).unwrap(), None);
    let voter = cluster.voters[place].as_mut().unwrap();
    while token.is_none() {
        let line = voter.line();
        let words: Vec<&str> = line.split(' ').collect();
        token = match words[..] {
            ["leads", token] => Some((place, token.parse().unwrap())),
            ["follows", id, token] => Some((id.parse::<usize>().unwrap() - 1, token.parse().unwrap())),
            _ => None,
        };
    }
    token.unwrap()
}

#[test]
fn when_the_leader_is_killed_another_leads() {
    let _alone = alone();
    let mut cluster = Cluster::prepare("1s");
    all_stand(true, &mut cluster);
    let (first, token) = leader(&mut cluster);
    let start = Instant::now();
    cluster.kill_voter(first);
    let (second, next) = loop {
        let (place, token) = leader(&mut cluster);
        if place != first {
            break (place, token);
        }
    };
    println!("{:.1?} after SIGKILL of the leader, another leads, with a lease of 500ms", start.elapsed());
    assert!(next > token, "{next} comes after {token}");
    // A leader that gets SIGTERM hands over.
    cluster.voters[second].as_ref().unwrap().process.signal(Signal::TERM);
    assert_eq!(cluster.voters[second].as_mut().unwrap().process.code(), 0);
}

#[test]
fn tokens_increase_over_a_restart_of_all_nodes() {
    let _alone = alone();
    let mut cluster = Cluster::prepare("1s");
    all_stand(true, &mut cluster);
    let mut greatest = leader(&mut cluster).1;
    for _ in 0..3 {
        (0..3).for_each(|place| cluster.kill_voter(place));
        all_stand(false, &mut cluster);
        let (_, token) = leader(&mut cluster);
        assert!(token > greatest, "{token} comes after {greatest}");
        greatest = token;
    }
}

#[test]
fn restarted_voters_are_silent_until_their_grants_have_expired() {
    let _alone = alone();
    let mut cluster = Cluster::start("30s");
    let _run = cluster.run("--ttl 2s --quiet", WORK);
    let first = cluster.wait_for("start", 0);
    let start = Instant::now();
    for place in [0, 1] {
        cluster.kill_voter(place);
        cluster.start_voter(place, &[]);
    }
    // Two of three voters are silent: the lease cannot be renewed, and no leader can be elected.
    let second = cluster.wait_for("start", 1);
    let took = start.elapsed();
    assert!(took >= Duration::from_secs(2), "{took:?}: they have granted leases of two seconds");
    assert!(second[1].parse::<u64>().unwrap() > first[1].parse::<u64>().unwrap());
    assert_eq!(cluster.count("overlap"), 0);
}
