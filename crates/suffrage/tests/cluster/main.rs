//! Clusters of real UDP sockets on loopback, at addresses that no other test has.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]
#![cfg(target_os = "linux")]

mod addresses;
mod config_file;
mod crashes;
mod handover;
mod notice;
mod pauses;
mod values;

use std::net::SocketAddr;
use std::time::Duration;

use suffrage::{Election, Keyring, MemoryStorage, Node, NodeBuilder, NodeId};

/// The interval of polls.
const LOOK: Duration = Duration::from_millis(5);

/// A lease that does not end while a test waits: the next leader got the lease by a handover.
const LONG: Duration = Duration::from_secs(50);

/// Three voters and their addresses, keys and disks.
struct Cluster {
    nodes: Vec<Node>,
    addresses: Vec<SocketAddr>,
    keyring: Keyring,
    disks: Vec<MemoryStorage>,
}

impl Cluster {
    /// Nodes 1 to 3, all of which vote.
    async fn start() -> Cluster {
        let mut cluster = Cluster {
            nodes: Vec::new(),
            addresses: (0..3).map(|_| suffrage_testbed::address()).collect(),
            keyring: Keyring::generate().unwrap(),
            // One per voter: clones share the memory.
            disks: (0..3).map(|_| MemoryStorage::default()).collect(),
        };
        for place in 0..3 {
            let node = cluster.builder(place).start().await.unwrap();
            cluster.nodes.push(node);
        }
        cluster
    }

    /// The configuration of a voter.
    fn builder(&self, place: usize) -> NodeBuilder {
        self.member(place as u64 + 1).memory(&self.disks[place])
    }

    /// The configuration of a node of this cluster.
    fn member(&self, id: u64) -> NodeBuilder {
        let builder = Node::builder(id).key(self.keyring.clone()).voters([1, 2, 3]);
        let builder = builder.delay(Duration::from_millis(5));
        self.addresses
            .iter()
            .zip(1..)
            .fold(builder, |builder, (address, voter)| builder.member(voter, *address))
    }

    /// Kills a voter and restarts it at the same address.
    async fn restart(&mut self, place: usize) {
        self.nodes[place].abort();
        self.nodes[place] = start_again(|| self.builder(place)).await;
    }

    /// Waits until a voter that was restarted votes again.
    async fn votes_again(&self, place: usize) {
        let silence = async || self.nodes[place].metrics().await.unwrap().voter.unwrap().silence_remaining;
        until(async || silence().await.is_zero()).await;
    }

    /// Waits until exactly these nodes wait in the queues of all voters.
    async fn queued<const N: usize>(&self, name: &str, waiting: [u64; N]) {
        for node in &self.nodes {
            until(async || {
                let mut queue = node.status(name).await.unwrap().unwrap().queue;
                queue.sort_unstable();
                queue == waiting.map(NodeId)
            })
            .await;
        }
    }

    /// Joins an election at every node.
    async fn join(&self, name: &str, ttl: Duration) -> Vec<Election> {
        let mut elections = Vec::new();
        for node in &self.nodes {
            elections.push(node.election(name).ttl(ttl).join().await.unwrap());
        }
        elections
    }
}

/// Restarts a node. Retries until the socket and the folder of the old one are released.
async fn start_again(builder: impl Fn() -> NodeBuilder) -> Node {
    soon(async {
        loop {
            match builder().start().await {
                Ok(node) => return node,
                Err(_) => tokio::time::sleep(LOOK).await,
            }
        }
    })
    .await
}

/// Fails after 30 s: longer than any step on a busy machine, shorter than a lease of [`LONG`].
async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes far too long")
}

/// Waits until the condition holds.
async fn until(mut is_so: impl AsyncFnMut() -> bool) {
    soon(async {
        while !is_so().await {
            tokio::time::sleep(LOOK).await;
        }
    })
    .await;
}
