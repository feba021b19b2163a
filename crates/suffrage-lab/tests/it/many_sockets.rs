//! The probabilistic election over gossip, with five hundred members in one process, each with a real socket.

#[path = "../../examples/many_sockets/group.rs"]
#[allow(dead_code, reason = "the example uses the rest")]
mod group;

use std::sync::Arc;
use std::time::Duration;

use suffrage_algorithms::gupta::{self, Gupta};
use suffrage_core::multicast::bimodal;
use suffrage_core::{NodeId, Span, layers};

use self::group::{Group, Plan};

const MEMBERS: u64 = 500;
/// The longest wait for an agreement. An election takes about 60 delays; a second round, which a busy machine may need,
/// twice that.
const AGREEMENT_TIMEOUT: Duration = Duration::from_secs(180);
/// The share of members that must agree. A member that misses the broadcasts of all relay members and the gossip
/// about them does not know the leader, with a probability that does not depend on the size of the group.
const SHARE: f64 = 0.95;

/// One datagram in ten is lost, so that about fifty members miss each multicast and get it by gossip. A gossip round
/// takes four delays; Time_Out_3 is six.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_hundred_sockets_elect_a_leader_and_after_it_the_next() {
    let algorithm = Arc::new(gupta::Options { multicast_timeout: 6, ..gupta::Options::default() });
    let multicast = Some(bimodal::Options { fanout: 2, rounds: 5 });
    let options = layers::Options { detector: None, multicast, algorithm };
    let plan = Plan { members: MEMBERS, loss: 100, delay_bound: Span::from_millis(100), options };
    let mut group = Group::<Gupta>::start(&plan).await.unwrap();
    group.campaign().await.unwrap();
    let leader = agreement(&group, None).await;

    // The test reports the failure itself: the gossip detector takes too long (example `many_sockets`).
    group.stop(leader).await.unwrap();
    for member in &group.members {
        member.suspect(leader).await.unwrap();
    }
    let next = agreement(&group, Some(leader)).await;
    assert_ne!(next, leader);
}

async fn agreement(group: &Group<Gupta>, stopped: Option<NodeId>) -> NodeId {
    let agreed = group.agree(SHARE, AGREEMENT_TIMEOUT).await;
    let traffic = group.traffic();
    let (leader, believers, took) = agreed.unwrap_or_else(|| {
        panic!("no agreement after {stopped:?}: {:?}; {traffic:?}", group.most_believed());
    });
    println!("{believers} of {} believe in {leader} after {took:.1?}; {traffic:?}", group.members.len());
    assert!(traffic.lost > 0 && traffic.received > MEMBERS, "{traffic:?}");
    leader
}
