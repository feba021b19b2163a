//! Elections and handovers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use suffrage::{Error, Fenced, Keyring, Leader, Node, NodeId, Why};

use super::{Cluster, LONG, soon, until};

#[tokio::test]
async fn all_nodes_learn_the_leader() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[1].lead()).await.unwrap();
    assert!(leadership.is_valid());
    assert!(leadership.valid_for() > Duration::ZERO && leadership.valid_for() < LONG);
    for election in &elections {
        let leader = soon(election.watch().led()).await.unwrap();
        assert_eq!((leader.node, leader.token), (NodeId(2), leadership.token()));
    }
    // The other candidates wait, and report why.
    let waiting = tokio::spawn({
        let election = elections[0].clone();
        async move { election.lead().await.map(drop) }
    });
    let why = async || cluster.nodes[0].status("x").await.unwrap().unwrap().why;
    until(async || why().await == Why::Following { leader: NodeId(2) }).await;
    assert!(!waiting.is_finished());
    let history = cluster.nodes[1].history(Some("x")).await.unwrap();
    assert_eq!(history.last().unwrap().leader, Some(Leader { node: NodeId(2), token: leadership.token() }));
    drop(leadership);
    soon(waiting).await.unwrap().unwrap();
}

/// The lease is longer than the test: the next leader does not wait for its end.
#[tokio::test]
async fn dropping_a_leadership_hands_over_to_the_waiting_candidates_in_turn() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let mut leadership = soon(elections[0].lead()).await.unwrap();
    for round in 1..=20 {
        let next = elections[round % 2].clone();
        let waiting = tokio::spawn(async move { next.lead().await.unwrap() });
        cluster.queued("x", [round as u64 % 2 + 1]).await;
        let before = leadership.token();
        drop(leadership);
        leadership = soon(waiting).await.unwrap();
        assert!(leadership.token() > before);
    }
}

#[tokio::test]
async fn a_candidate_that_hands_over_yields_to_waiting_candidates() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let waiting = tokio::spawn({
        let election = elections[2].clone();
        async move { election.lead().await.unwrap() }
    });
    cluster.queued("x", [3]).await;
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
async fn a_transfer_goes_to_its_target_and_a_release_to_the_greatest_rank() {
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
    cluster.queued("x", [2, 3]).await;
    leadership.transfer(2);
    let second = soon(waiting.remove(0)).await.unwrap();
    assert!(!waiting[0].is_finished(), "though it is the better");
    drop(second);
    let best = soon(waiting.remove(0)).await.unwrap();
    assert!(best.is_valid());
    // An operator resigns by name at the node, and the leadership ends after its stop margin.
    assert!(cluster.nodes[2].resign("x").await.unwrap());
    soon(best.lost()).await;
    assert!(best.is_valid() && best.hands_over());
    assert!(!cluster.nodes[2].resign("y").await.unwrap(), "it takes no part in that");
}

/// A task keeps a leadership that has ended, and drops it when another task of the program leads.
#[tokio::test]
async fn dropping_an_ended_leadership_does_not_end_the_next_one_of_the_program() {
    let cluster = Cluster::start().await;
    let margin = Duration::from_millis(10);
    let election = cluster.nodes[0].election("x").ttl(LONG).stop_margin(margin).join().await.unwrap();
    let ended = soon(election.lead()).await.unwrap();
    election.set_healthy(false);
    soon(ended.lost()).await;
    election.set_healthy(true);
    let next = soon(election.lead()).await.unwrap();
    drop(ended);
    // The node answers after it has carried out the commands of the drop.
    assert!(cluster.nodes[0].status("x").await.unwrap().unwrap().leads());
    assert!(next.is_valid());
    next.resign();
    assert!(!cluster.nodes[0].status("x").await.unwrap().unwrap().leads());
}

#[tokio::test]
async fn an_unhealthy_candidate_hands_over_and_campaigns_again_when_healthy() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    elections[0].set_healthy(false);
    soon(leadership.lost()).await;
    drop(leadership);
    let asked = elections[0].clone();
    let waiting = tokio::spawn(async move { asked.lead().await.unwrap() });
    let why = async || cluster.nodes[0].status("x").await.unwrap().unwrap().why;
    until(async || why().await == Why::Unhealthy).await;
    // The other candidates lead in turn; the unhealthy one does not.
    for other in [1, 2, 1] {
        drop(soon(elections[other].lead()).await.unwrap());
    }
    assert!(!waiting.is_finished());
    elections[0].set_healthy(true);
    assert!(soon(waiting).await.unwrap().is_valid());
}

/// Dropping the future of `lead` ends the candidacy.
#[tokio::test]
async fn a_candidate_that_stops_waiting_is_not_elected() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let waiting = tokio::spawn({
        let election = elections[1].clone();
        async move { election.lead().await.map(drop) }
    });
    cluster.queued("x", [2]).await;
    waiting.abort();
    assert!(soon(waiting).await.unwrap_err().is_cancelled());
    drop(leadership);
    assert!(soon(elections[2].lead()).await.unwrap().is_valid());
    for node in &cluster.nodes {
        let history = node.history(Some("x")).await.unwrap();
        assert!(history.iter().all(|it| it.leader.is_none_or(|leader| leader.node != NodeId(2))));
    }
}

#[tokio::test]
async fn a_candidate_that_is_no_member_leads_and_is_observed() {
    let cluster = Cluster::start().await;
    let candidate = cluster.member(77).start().await.unwrap();
    let mut watch = cluster.nodes[0].observe("x").await.unwrap();
    assert_eq!(watch.leader(), None);
    let election = candidate.election("x").ttl(Duration::from_secs(1)).join().await.unwrap();
    let leadership = soon(election.lead()).await.unwrap();
    let leader = soon(watch.led()).await.unwrap();
    assert_eq!((leader.node, leader.token), (NodeId(77), leadership.token()));
    // A candidate that joins shares the belief of the observer.
    let here = cluster.nodes[0].election("x").join().await.unwrap();
    assert!(matches!(cluster.nodes[0].election("x").join().await, Err(Error::AlreadyJoined(_))));
    let leader_seen = soon(here.watch().led()).await.unwrap();
    assert_eq!(leader_seen, leader);
    candidate.stop().await;
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
    // The ended leadership still exists, and has no effect.
    assert!(matches!(soon(election.lead()).await, Err(Error::Stopped)));
    drop(leadership);
}

#[tokio::test]
async fn a_node_with_another_key_takes_no_part() {
    let cluster = Cluster::start().await;
    let stranger = cluster.member(9).key(Keyring::generate().unwrap()).start().await.unwrap();
    let election = stranger.election("x").join().await.unwrap();
    let waiting = tokio::spawn(async move { election.lead().await.map(drop) });
    for node in &cluster.nodes {
        let dropped = || node.traffic().unwrap().dropped(suffrage::Dropped::Unauthenticated);
        until(async || dropped() >= 5).await;
    }
    assert!(!waiting.is_finished());
    let status = stranger.status("x").await.unwrap().unwrap();
    assert_eq!(status.leader, None);
}

/// The keys are changed at one node after the other, in three rounds, during a leadership. After every change
/// each node leads another election once, which takes messages between all nodes.
#[tokio::test]
async fn keys_are_rotated_during_a_leadership() {
    let cluster = Cluster::start().await;
    let elections = cluster.join("x", LONG).await;
    let others = cluster.join("y", LONG).await;
    let leadership = soon(elections[0].lead()).await.unwrap();
    let old = cluster.keyring.keys().next().unwrap();
    let new = suffrage::Key::generate().unwrap();
    let rounds = [vec![old.clone(), new.clone()], vec![new.clone(), old], vec![new]];
    for keys in rounds {
        let ring = Keyring::new(keys).unwrap();
        for node in &cluster.nodes {
            node.rekey(&ring);
            for other in &others {
                assert!(soon(other.lead()).await.unwrap().is_valid());
            }
        }
    }
    assert!(leadership.is_valid());
    for (node, election) in cluster.nodes.iter().zip(&elections) {
        assert_eq!(soon(election.watch().led()).await.unwrap().token, leadership.token());
        assert_eq!(node.traffic().unwrap().dropped(suffrage::Dropped::Unauthenticated), 0);
        until(async || node.last_turn() < Duration::from_secs(2)).await;
    }
}

#[tokio::test]
async fn invalid_settings_are_refused() {
    let alone = Node::builder(1).key(Keyring::generate().unwrap());
    assert!(matches!(alone.start().await, Err(Error::NoStorage(NodeId(1)))));
    assert!(matches!(Node::builder(1).in_memory().start().await, Err(Error::NoKey)));
    let cluster = Cluster::start().await;
    let node = &cluster.nodes[0];
    let too_long = node.election("x").ttl(Duration::from_secs(61)).join().await;
    assert!(matches!(too_long, Err(Error::InvalidConfig(_))));
    let join = node.election("x").ttl(Duration::from_secs(3)).stop_margin(Duration::from_secs(2));
    let error = join.join().await.unwrap_err();
    assert!(error.to_string().contains("stop margin"), "{error}");
}

/// Nine contenders for one name: never two at once in the critical section, and every entry has a greater token.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_contenders_never_lead_at_once() {
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

/// A transfer to the own node is a release.
#[tokio::test]
async fn a_transfer_to_itself_hands_over_to_the_waiting_candidate() {
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
