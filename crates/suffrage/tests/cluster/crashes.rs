//! Nodes that die, and clusters that start again.

use std::time::{Duration, Instant};

use suffrage::{Election, Node, NodeBuilder};

use super::{Cluster, soon};

const TTL: Duration = Duration::from_millis(300);

/// The next one leads once the lease is over, and not before: by then the dead one's leadership is invalid.
#[tokio::test]
async fn a_dead_leader_is_replaced_after_its_lease() {
    let mut cluster = Cluster::start().await;
    for place in [0, 1, 2] {
        let elections = cluster.join("x", TTL).await;
        let leadership = soon(elections[place].lead()).await.unwrap();
        let next = elections[(place + 1) % 3].clone();
        let waiting = tokio::spawn(async move { next.lead().await.unwrap() });
        tokio::time::sleep(Duration::from_millis(30)).await;
        let killed = Instant::now();
        cluster.nodes[place].abort();
        let next = soon(waiting).await.unwrap();
        let took = killed.elapsed();
        assert!(!leadership.is_valid(), "two lead at once");
        assert!(next.token() > leadership.token());
        // Renewed at most a third of it before; and the machine may be busy.
        assert!(took > TTL / 2 && took < TTL * 4, "{took:?}");
        drop((leadership, next, elections));
        cluster.restart(place).await;
        // It stays silent for the length of the lease.
        tokio::time::sleep(TTL).await;
    }
}

#[tokio::test]
async fn a_leader_outlives_the_restart_of_any_one_voter() {
    let mut cluster = Cluster::start().await;
    let guest = cluster.member(9).start().await.unwrap();
    let election = guest.election("x").ttl(TTL).join().await.unwrap();
    let leadership = soon(election.lead()).await.unwrap();
    for place in [0, 1, 2] {
        cluster.restart(place).await;
        let until = Instant::now() + TTL * 2;
        while Instant::now() < until {
            assert!(leadership.is_valid());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// All voters die and come back from their folders: no token is given twice.
#[tokio::test]
async fn tokens_rise_over_a_full_restart() {
    let base = std::env::temp_dir().join(format!("suffrage-{}-full-restart", std::process::id()));
    let cluster = Cluster::start().await;
    let (addresses, keyring) = (cluster.addresses.clone(), cluster.keyring.clone());
    for node in &cluster.nodes {
        node.stop().await;
    }
    drop(cluster);
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
            let builder = if round == 0 { voter(id).new_data(folder) } else { voter(id).data(folder) };
            nodes.push(builder.start().await.unwrap());
        }
        let election = nodes[round % 3].election("x").ttl(TTL).join().await.unwrap();
        let leadership = soon(election.lead()).await.unwrap();
        assert!(greatest < Some(leadership.token()));
        greatest = Some(leadership.token());
        if round == 1 {
            // One that is stopped leaves its address and its folder free, whoever still has a handle to it.
            for node in &nodes {
                node.stop().await;
            }
        } else {
            nodes.iter().for_each(Node::abort);
            soon(leadership.lost()).await;
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        stopped.push((leadership, election, nodes));
    }
    std::fs::remove_dir_all(&base).unwrap();
}
