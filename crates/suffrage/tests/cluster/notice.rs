//! The notice of hand-overs: the work of a leader has its stop margin before the next leader is elected.

use std::time::Duration;

use suffrage::{Election, Leadership, NodeId, Watch, Why};
use tokio::task::JoinHandle;

use super::{Cluster, LONG, soon, until};

/// The reason for a hand-over of node 1, which leads, to node 2, which waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cause {
    Failback,
    Resign,
    Transfer,
    Unhealthy,
    Stop,
}

const CAUSES: [Cause; 5] = [Cause::Failback, Cause::Resign, Cause::Transfer, Cause::Unhealthy, Cause::Stop];

struct Scene {
    cluster: Cluster,
    election: Election,
    first: Leadership,
    next: JoinHandle<Leadership>,
    /// Node 3 takes part.
    _watch: Watch,
    /// The call of `Node::stop`.
    stopping: Option<JoinHandle<()>>,
}

impl Scene {
    /// Node 1 leads with this stop margin, and node 2 waits. Then node 1 is to hand over.
    async fn handing_over(cause: Cause, margin: Duration) -> Scene {
        let cluster = Cluster::start().await;
        let join = |place: usize| cluster.nodes[place].election("x").ttl(LONG).stop_margin(margin);
        let _watch = cluster.nodes[2].observe("x").await.unwrap();
        let election = join(0).join().await.unwrap();
        let first = soon(election.lead()).await.unwrap();
        let rival = match cause {
            Cause::Failback => join(1).rank(9).failback(Duration::from_millis(1)).join().await.unwrap(),
            _ => join(1).join().await.unwrap(),
        };
        let next = tokio::spawn(async move { rival.lead().await.unwrap() });
        let mut stopping = None;
        if cause != Cause::Failback {
            cluster.queued("x", [2]).await;
            assert!(!first.hands_over());
        }
        match cause {
            Cause::Failback => {}
            Cause::Resign => assert!(cluster.nodes[0].resign("x").await.unwrap()),
            Cause::Transfer => assert!(cluster.nodes[0].transfer("x", 2).await.unwrap()),
            Cause::Unhealthy => election.set_healthy(false),
            Cause::Stop => {
                let node = cluster.nodes[0].clone();
                stopping = Some(tokio::spawn(async move { node.stop().await }));
            }
        }
        Scene { cluster, election, first, next, _watch, stopping }
    }
}

/// The lease and the margin are longer than the test waits: the next leader is elected because the work has ended.
#[tokio::test]
async fn a_leader_that_hands_over_has_its_stop_margin_to_end_its_work() {
    let margin = Duration::from_secs(25);
    for cause in CAUSES {
        let scene = Scene::handing_over(cause, margin).await;
        soon(scene.first.lost()).await;
        let rest = scene.first.valid_for();
        assert!(scene.first.is_valid() && scene.first.hands_over(), "{cause:?}");
        assert!(rest > Duration::ZERO && rest <= margin, "{cause:?}: {rest:?}");
        let why = scene.cluster.nodes[0].status("x").await.unwrap().unwrap().why;
        assert!(matches!(why, Why::HandingOver { remaining, .. } if remaining <= margin), "{cause:?}: {why}");
        // The voters know of no hand-over, and the node does not renew.
        let token = scene.first.token();
        for node in &scene.cluster.nodes[1..] {
            let leader = node.status("x").await.unwrap().unwrap().leader;
            assert!(
                leader.is_none_or(|leader| leader.node == NodeId(1) && leader.token == token),
                "{cause:?}"
            );
        }
        assert!(!scene.next.is_finished(), "{cause:?}: the work goes on");
        assert!(scene.first.valid_for() <= rest, "{cause:?}: a renewal has lengthened the lease");
        drop(scene.first);
        let next = soon(scene.next).await.unwrap();
        assert!(next.token() > token && next.is_valid(), "{cause:?}");
        if let Some(stopping) = scene.stopping {
            soon(stopping).await.unwrap();
        }
    }
}

/// The lease is longer than the test waits: the next leader is elected because the margin is over.
#[tokio::test]
async fn a_lease_is_released_when_the_stop_margin_is_over() {
    for cause in CAUSES {
        let scene = Scene::handing_over(cause, Duration::from_millis(300)).await;
        let next = soon(scene.next).await.unwrap();
        assert!(!scene.first.is_valid(), "{cause:?}: both lead");
        assert!(next.token() > scene.first.token() && next.is_valid(), "{cause:?}");
        if let Some(stopping) = scene.stopping {
            soon(stopping).await.unwrap();
        }
        drop(scene.first);
        assert!(next.is_valid(), "{cause:?}");
        drop(scene.election);
    }
}

/// The hand-over goes on when the program is healthy again, and a later command does not move its end.
#[tokio::test]
async fn a_hand_over_that_has_begun_goes_on() {
    let scene = Scene::handing_over(Cause::Unhealthy, Duration::from_secs(25)).await;
    soon(scene.first.lost()).await;
    let rest = scene.first.valid_for();
    scene.election.set_healthy(true);
    assert!(scene.cluster.nodes[0].resign("x").await.unwrap());
    assert!(scene.cluster.nodes[0].transfer("x", 2).await.unwrap());
    let why = async || scene.cluster.nodes[0].status("x").await.unwrap().unwrap().why;
    until(async || matches!(why().await, Why::HandingOver { to: Some(NodeId(2)), .. })).await;
    assert!(scene.first.valid_for() <= rest && scene.first.hands_over());
    drop(scene.first);
    assert!(soon(scene.next).await.unwrap().is_valid());
}
