//! The probabilistic election over gossip, among five hundred members with a real socket each, in one process.

#[path = "../../examples/many_sockets/group.rs"]
#[allow(dead_code, reason = "the group is an example's, which uses all of it")]
mod group;

use std::sync::Arc;
use std::time::Duration;

use suffrage_algorithms::gupta::{self, Gupta};
use suffrage_core::multicast::bimodal;
use suffrage_core::{NodeId, Span, layers};

use self::group::{Group, Plan};

const MEMBERS: u64 = 500;
/// An election takes some 60 delays; another round, which a very busy machine may need, twice that.
const PATIENCE: Duration = Duration::from_secs(180);
/// "With a probability that does not depend on the size of the group": who misses the broadcasts of all relay
/// members and the gossip about them is left out, and nobody need be.
const MOST: f64 = 0.95;

/// One datagram in ten is lost, so that some fifty members miss every multicast and are told by gossip. A gossip
/// round is four delays, so that is what a multicast is given (Time_Out_3), and two to spare.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_sockets_elect_a_leader_and_after_it_the_next() {
    let algorithm = Arc::new(gupta::Options { multicast_timeout: 6, ..gupta::Options::default() });
    let multicast = Some(bimodal::Options { fanout: 2, rounds: 5 });
    let options = layers::Options { detector: None, multicast, algorithm };
    let plan = Plan { members: MEMBERS, loss: 100, delay_bound: Span::from_millis(100), options };
    let mut group = Group::<Gupta>::start(&plan).await.unwrap();
    group.campaign().await.unwrap();
    let leader = agreement(&group, None).await;

    // A detector from outside: the gossip detector takes longer than a test may (example `many_sockets`).
    group.stop(leader).await.unwrap();
    for member in &group.members {
        member.suspect(leader).await.unwrap();
    }
    let next = agreement(&group, Some(leader)).await;
    assert_ne!(next, leader);
}

async fn agreement(group: &Group<Gupta>, gone: Option<NodeId>) -> NodeId {
    let agreed = group.agree(MOST, PATIENCE).await;
    let traffic = group.traffic();
    let (leader, believers, took) = agreed.unwrap_or_else(|| {
        panic!("after {gone:?}: {:?} is all there is; {traffic:?}", group.favourite());
    });
    println!("{believers} of {} believe in {leader} after {took:.1?}; {traffic:?}", group.members.len());
    assert!(traffic.lost > 0 && traffic.received > MEMBERS, "{traffic:?}");
    leader
}
