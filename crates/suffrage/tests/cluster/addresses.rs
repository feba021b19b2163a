//! Members that move to another address, and members whose names are not known.

use std::time::Duration;

use suffrage::{Error, Keyring, MemoryStorage, Node};

use super::{Cluster, LONG, soon, until};

/// The other voters keep the old address in their configuration.
#[tokio::test]
async fn a_voter_that_comes_back_at_another_address_rejoins() {
    let mut cluster = Cluster::start().await;
    cluster.nodes[2].stop().await;
    cluster.addresses[2] = suffrage_testbed::address();
    cluster.nodes[2] = cluster.builder(2).start().await.unwrap();
    cluster.votes_again(2).await;
    // Nodes 1 and 3 are the only majority that is left.
    cluster.nodes[1].stop().await;
    let at_three = cluster.nodes[2].election("x").ttl(LONG).join().await.unwrap();
    let leadership = soon(at_three.lead()).await.unwrap();
    let at_one = cluster.nodes[0].election("y").ttl(LONG).join().await.unwrap();
    soon(at_one.lead()).await.unwrap().resign();
    leadership.resign();
}

/// Node 3 does not exist yet. In a Kubernetes headless service, it gets its name when it runs.
#[tokio::test]
async fn a_node_starts_while_the_names_of_other_members_are_unknown() {
    let (keyring, addresses) = (Keyring::generate().unwrap(), [1, 2].map(|_| suffrage_testbed::address()));
    let builder = |id: u64| {
        let builder = Node::builder(id).key(keyring.clone()).delay(Duration::from_millis(5));
        let builder = builder.member(1, addresses[0]).member(2, addresses[1]);
        builder.member(3, "three.invalid:7400").memory(&MemoryStorage::default())
    };
    let (one, _two) = (soon(builder(1).start()).await.unwrap(), soon(builder(2).start()).await.unwrap());
    let election = one.election("x").join().await.unwrap();
    let _leadership = soon(election.lead()).await.unwrap();
    // A candidate that is no member listens on any port.
    let candidate = soon(builder(9).voters([1, 2, 3]).start()).await.unwrap();
    let watch = candidate.observe("x").await.unwrap();
    until(async || watch.leader().is_some_and(|leader| leader.node.0 == 1)).await;
    // Voter 3 itself cannot listen on a name without an address, unless it is told where to listen.
    let unknown = soon(builder(3).start()).await.unwrap_err();
    assert!(matches!(unknown, Error::Network(_)), "{unknown}");
    assert!(unknown.to_string().contains("voter 3 at three.invalid:7400"), "{unknown}");
    soon(builder(3).listen(suffrage_testbed::address()).start()).await.unwrap();
}

#[tokio::test]
async fn a_malformed_address_is_an_error_at_the_start() {
    for malformed in ["three", "three:0", "10.0.0.300:7400", "::1:7400"] {
        let builder = Node::builder(1).key(Keyring::generate().unwrap()).in_memory();
        let builder = builder.member(1, suffrage_testbed::address()).member(3, malformed);
        let error = builder.start().await.unwrap_err().to_string();
        assert!(error.contains(malformed) && error.contains("is not a host and a port"), "{error}");
    }
}
