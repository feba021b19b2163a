//! Crashes and restarts of nodes.

use std::time::Duration;

use suffrage::{Keyring, Node, NodeBuilder};

use super::{Cluster, soon, start_again, until};

const TTL: Duration = Duration::from_millis(300);

/// The next candidate leads when the lease of the crashed leader has ended, and not before.
#[tokio::test]
async fn a_dead_leader_is_replaced_after_its_lease() {
    let mut cluster = Cluster::start().await;
    for place in [0, 1, 2] {
        let elections = cluster.join("x", TTL).await;
        let leadership = soon(elections[place].lead()).await.unwrap();
        let other = (place + 1) % 3;
        let next = elections[other].clone();
        let waiting = tokio::spawn(async move { next.lead().await.unwrap() });
        cluster.queued("x", [other as u64 + 1]).await;
        cluster.nodes[place].abort();
        let next = soon(waiting).await.unwrap();
        assert!(!leadership.is_valid(), "two lead at once");
        assert!(next.token() > leadership.token());
        drop((leadership, next, elections));
        cluster.restart(place).await;
        cluster.votes_again(place).await;
    }
}

/// A voter that was restarted is silent for the length of a lease. The others renew the lease meanwhile.
#[tokio::test]
async fn a_leader_outlives_the_restart_of_any_one_voter() {
    // Longer than a busy machine keeps a task waiting.
    let ttl = Duration::from_secs(2);
    let mut cluster = Cluster::start().await;
    let candidate = cluster.member(9).start().await.unwrap();
    let election = candidate.election("x").ttl(ttl).join().await.unwrap();
    let leadership = soon(election.lead()).await.unwrap();
    let renewed = async || candidate.metrics().await.unwrap().counters.renewals;
    for place in [0, 1, 2] {
        let before = renewed().await;
        cluster.restart(place).await;
        until(async || renewed().await >= before + 2).await;
        cluster.votes_again(place).await;
        assert!(leadership.is_valid());
    }
    assert_eq!(election.leader().unwrap().token, leadership.token());
}

/// All voters crash and restart from their folders: no token is granted twice.
#[tokio::test]
async fn tokens_increase_over_a_full_restart() {
    let base = std::env::temp_dir().join(format!("suffrage-{}-full-restart", std::process::id()));
    let (addresses, keyring) = ([(); 3].map(|()| suffrage_testbed::address()), Keyring::generate().unwrap());
    let voter = |id: u64| -> NodeBuilder {
        let builder = Node::builder(id).key(keyring.clone()).delay(Duration::from_millis(5));
        let members = addresses.iter().zip(1..);
        members.fold(builder, |builder, (address, member)| builder.member(member, *address))
    };
    let (mut greatest, mut stopped) = (None, Vec::new());
    for round in 0..3 {
        let mut nodes = Vec::new();
        for id in 1..=3 {
            let folder = base.join(id.to_string());
            nodes.push(match round {
                0 => voter(id).new_data(folder).start().await.unwrap(),
                // Handles of the old node still exist: they keep neither its address nor its folder.
                2 => voter(id).data(folder).start().await.unwrap(),
                _ => start_again(|| voter(id).data(&folder)).await,
            });
        }
        let election = nodes[round % 3].election("x").ttl(TTL).join().await.unwrap();
        let leadership = soon(election.lead()).await.unwrap();
        assert!(greatest < Some(leadership.token()));
        greatest = Some(leadership.token());
        if round == 1 {
            for node in &nodes {
                node.stop().await;
            }
        } else {
            nodes.iter().for_each(Node::abort);
            soon(leadership.lost()).await;
        }
        stopped.push((leadership, election, nodes));
    }
    std::fs::remove_dir_all(&base).unwrap();
}
