//! Elections, and leaders that hand over.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use suffrage::{Election, Error, Fenced, Keyring, Node, NodeId, Why};

use super::{Cluster, soon};

const LONG: Duration = Duration::from_secs(20);

#[tokio::test]
async fn one_leads_and_all_know_who() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", Duration::from_secs(2)).await;
    let leadership = soon(elections[1].lead()).await.unwrap();
    assert!(leadership.is_valid() && leadership.valid_for() > Duration::from_secs(1));
    for election in &elections {
        let leader = soon(election.watch().led()).await.unwrap();
        assert_eq!((leader.node, leader.token), (NodeId(2), leadership.token()));
    }
    // The others wait, and know why.
    let waiting = tokio::spawn({
        let election = elections[0].clone();
        async move { election.lead().await.map(drop) }
    });
    let why = async || cluster.nodes[0].status("x").await.unwrap().unwrap().why;
    soon(async {
        while why().await != Why::Follows(NodeId(2)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(!waiting.is_finished());
    let history = cluster.nodes[1].history(Some("x")).await.unwrap();
    assert_eq!(history.last().unwrap().leader, Some((NodeId(2), leadership.token())));
    drop(leadership);
    soon(waiting).await.unwrap().unwrap();
}

/// A lease takes twenty seconds to run out; a handover takes none of it.
#[tokio::test]
async fn dropping_it_hands_over_at_once_to_those_who_wait_in_turn() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let mut leadership = soon(elections[0].lead()).await.unwrap();
    let mut times = Vec::new();
    for round in 1..=20 {
        let next = elections[round % 2].clone();
        let waiting = tokio::spawn(async move {
            let leadership = next.lead().await.unwrap();
            (Instant::now(), leadership)
        });
        // Until it is in the voters' queues.
        tokio::time::sleep(Duration::from_millis(40)).await;
        let (before, start) = (leadership.token(), Instant::now());
        drop(leadership);
        let (led, next) = soon(waiting).await.unwrap();
        assert!(next.token() > before);
        times.push(led - start);
        leadership = next;
    }
    times.sort_unstable();
    println!("handover: median {:?}, most {:?}", times[10], times[19]);
    assert!(times[10] < Duration::from_millis(25), "{times:?}");
}

#[tokio::test]
async fn one_who_hands_over_and_asks_again_does_not_come_before_those_who_wait() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let waiting = tokio::spawn({
        let election = elections[2].clone();
        async move { election.lead().await.unwrap() }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    drop(leadership);
    let greedy = elections[0].clone();
    let again = tokio::spawn(async move { greedy.lead().await.unwrap() });
    let next = soon(waiting).await.unwrap();
    assert!(!again.is_finished());
    let token = next.token();
    drop(next);
    assert!(soon(again).await.unwrap().token() > token);
}

#[tokio::test]
async fn it_goes_to_whom_it_is_transferred_and_else_to_the_best() {
    let cluster = Cluster::start().await;
    let mut elections = Vec::new();
    for (place, node) in cluster.nodes.iter().enumerate() {
        let join = node.election("x").ttl(LONG).rank([0, 5, 9][place]);
        elections.push(join.join().await.unwrap());
    }
    let leadership = soon(elections[0].lead()).await.unwrap();
    let mut waiting: Vec<_> = elections[1..]
        .iter()
        .cloned()
        .map(|election| tokio::spawn(async move { election.lead().await.unwrap() }))
        .collect();
    tokio::time::sleep(Duration::from_millis(50)).await;
    leadership.transfer(2);
    let second = soon(waiting.remove(0)).await.unwrap();
    assert!(!waiting[0].is_finished(), "though it is the better");
    drop(second);
    let best = soon(waiting.remove(0)).await.unwrap();
    assert!(best.is_valid());
    // An operator does it by name, at the node; the leader gets to know.
    assert!(cluster.nodes[2].resign("x").await.unwrap());
    soon(best.lost()).await;
    assert!(!best.is_valid());
    assert!(!cluster.nodes[2].resign("y").await.unwrap(), "it takes no part in that");
}

#[tokio::test]
async fn one_that_is_unwell_hands_over_and_stands_again_when_it_is_well() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    elections[0].set_healthy(false);
    soon(leadership.lost()).await;
    assert!(!leadership.is_valid());
    drop(leadership);
    let other = soon(elections[1].lead()).await.unwrap();
    drop(other);
    let asked = elections[0].clone();
    let waiting = tokio::spawn(async move { asked.lead().await.unwrap() });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(!waiting.is_finished());
    elections[0].set_healthy(true);
    assert!(soon(waiting).await.unwrap().is_valid());
}

/// A wait that is given up is no candidacy: nobody is elected who does not ask.
#[tokio::test]
async fn one_that_gives_up_waiting_stands_no_longer() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let gave_up = tokio::time::timeout(Duration::from_millis(50), elections[1].lead()).await;
    assert!(gave_up.is_err());
    drop(leadership);
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert!(elections.iter().all(|it| it.leader().is_none_or(|leader| leader.node != NodeId(2))));
    assert!(soon(elections[2].lead()).await.unwrap().is_valid());
}

#[tokio::test]
async fn one_that_is_not_listed_stands_too_and_observers_see_it() {
    let cluster = Cluster::start().await;
    let guest = cluster.member(77).start().await.unwrap();
    let mut watch = cluster.nodes[0].observe("x").await.unwrap();
    assert_eq!(watch.leader(), None);
    let election = guest.election("x").ttl(Duration::from_secs(1)).join().await.unwrap();
    let leadership = soon(election.lead()).await.unwrap();
    let leader = soon(watch.led()).await.unwrap();
    assert_eq!((leader.node, leader.token), (NodeId(77), leadership.token()));
    // Joined here as well, it takes over what was observed.
    let here = cluster.nodes[0].election("x").join().await.unwrap();
    assert!(matches!(cluster.nodes[0].election("x").join().await, Err(Error::Joined(_))));
    let leader_seen = soon(here.watch().led()).await.unwrap();
    assert_eq!(leader_seen, leader);
    guest.stop().await;
    soon(leadership.lost()).await;
    assert!(!leadership.is_valid());
    let own = soon(here.lead()).await.unwrap();
    assert!(own.token() > leader.token, "a node that is stopped hands over");
    let seen = async {
        while watch.leader().is_none_or(|leader| leader.node != NodeId(1)) {
            watch.changed().await.unwrap();
        }
    };
    soon(seen).await;
    // It still has what it has lost, which is in nobody's way.
    assert!(matches!(soon(election.lead()).await, Err(Error::Stopped)));
    drop(leadership);
}

#[tokio::test]
async fn one_with_another_key_takes_no_part() {
    let cluster = Cluster::start().await;
    let stranger = cluster.member(9).key(Keyring::generate().unwrap()).start().await.unwrap();
    let election = stranger.election("x").join().await.unwrap();
    assert!(tokio::time::timeout(Duration::from_millis(300), election.lead()).await.is_err());
    let status = stranger.status("x").await.unwrap().unwrap();
    assert_eq!(status.leader, None);
}

/// The keys are changed at one node after the other, in three rounds, while a leader goes on.
#[tokio::test]
async fn keys_are_rotated_under_a_leader() {
    let cluster = Cluster::start().await;
    let ttl = Duration::from_millis(400);
    let elections = cluster.join("x", ttl).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let old = cluster.keyring.keys()[0].clone();
    let new = suffrage::Key::generate().unwrap();
    let rounds = [vec![old.clone(), new.clone()], vec![new.clone(), old], vec![new]];
    for keys in rounds {
        let ring = Keyring::new(keys).unwrap();
        for node in &cluster.nodes {
            node.rekey(&ring);
            tokio::time::sleep(ttl / 2).await;
            assert!(leadership.is_valid());
        }
    }
    tokio::time::sleep(ttl * 2).await;
    assert!(leadership.is_valid());
    for node in &cluster.nodes {
        assert_eq!(node.traffic().unwrap().dropped(suffrage::Dropped::Unauthenticated), 0);
        assert!(node.last_turn() < Duration::from_secs(3));
    }
}

#[tokio::test]
async fn what_cannot_work_is_refused() {
    let alone = Node::builder(1).key(Keyring::generate().unwrap());
    assert!(matches!(alone.start().await, Err(Error::NoDisk(NodeId(1)))));
    assert!(matches!(Node::builder(1).in_memory().start().await, Err(Error::NoKey)));
    let cluster = Cluster::start().await;
    let node = &cluster.nodes[0];
    let too_long = node.election("x").ttl(Duration::from_secs(61)).join().await;
    assert!(matches!(too_long, Err(Error::Unfit(_))));
    let join = node.election("x").ttl(Duration::from_secs(3)).stop_margin(Duration::from_secs(2));
    let error = join.join().await.unwrap_err();
    assert!(error.to_string().contains("stop margin"), "{error}");
}

/// Nine contenders for one name, as fast as they can: never two inside, and every entry has a greater token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_two_at_once_under_contention() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let (inside, register) = (Arc::new(AtomicU64::new(0)), Arc::new(Fenced::new(Vec::new())));
    let mut contenders = Vec::new();
    for number in 0..9 {
        let election = elections[number % 3].clone();
        let (inside, register) = (Arc::clone(&inside), Arc::clone(&register));
        contenders.push(tokio::spawn(async move {
            for _ in 0..20 {
                let leadership = election.lead().await.unwrap();
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "another is inside");
                let token = leadership.token();
                register.update(token, |entries| entries.push(token)).unwrap();
                tokio::task::yield_now().await;
                assert!(leadership.is_valid());
                assert_eq!(inside.fetch_sub(1, Ordering::SeqCst), 1);
            }
        }));
    }
    for contender in contenders {
        soon(contender).await.unwrap();
    }
    register.read(|entries| {
        assert_eq!(entries.len(), 180);
        assert!(entries.windows(2).all(|pair| pair[0] < pair[1]));
    });
}

/// Whoever says so wants to lead no longer, whatever else it says.
#[tokio::test]
async fn a_transfer_to_oneself_hands_over_to_whoever_waits() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let first = leadership.token();
    leadership.transfer(1);
    let again = soon(elections[0].lead()).await.unwrap();
    assert!(again.token() > first);
    let waiting = tokio::spawn({
        let election = elections[1].clone();
        async move { election.lead().await.map(|leadership| leadership.token()) }
    });
    let second = again.token();
    again.transfer(1);
    assert!(soon(waiting).await.unwrap().unwrap() > second);
}
