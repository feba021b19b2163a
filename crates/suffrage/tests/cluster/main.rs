//! Clusters of real UDP sockets on loopback, at ports that are free.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]

mod crashes;
mod handover;
mod pauses;

use std::net::SocketAddr;
use std::time::Duration;

use suffrage::{Election, Keyring, Memory, Node, NodeBuilder};
use suffrage_net::transport::udp::Socket;

/// Three voters and their addresses, keys and disks.
struct Cluster {
    nodes: Vec<Node>,
    addresses: Vec<SocketAddr>,
    keyring: Keyring,
    disks: Vec<Memory>,
}

const LOOPBACK: &str = "127.0.0.1:0";

impl Cluster {
    /// Nodes 1 to 3, all of which vote.
    async fn start() -> Cluster {
        let mut sockets = Vec::new();
        for _ in 0..3 {
            sockets.push(Socket::bind(LOOPBACK.parse().unwrap()).await.unwrap());
        }
        let mut cluster = Cluster {
            nodes: Vec::new(),
            addresses: sockets.iter().map(Socket::local_address).collect(),
            keyring: Keyring::generate().unwrap(),
            disks: vec![Memory::default(); 3],
        };
        // Each its own: a clone is the same disk.
        cluster.disks = (0..3).map(|_| Memory::default()).collect();
        for (place, socket) in sockets.into_iter().enumerate() {
            let node = cluster.builder(place).socket(socket).start().await.unwrap();
            cluster.nodes.push(node);
        }
        cluster
    }

    /// What the voter in this place is to be.
    fn builder(&self, place: usize) -> NodeBuilder {
        self.member(place as u64 + 1).memory(&self.disks[place])
    }

    /// What a node of this cluster is to be.
    fn member(&self, id: u64) -> NodeBuilder {
        let builder = Node::builder(id).key(self.keyring.clone()).voters([1, 2, 3]);
        let builder = builder.delay(Duration::from_millis(5));
        self.addresses
            .iter()
            .zip(1..)
            .fold(builder, |builder, (address, voter)| builder.member(voter, *address))
    }

    /// Starts a voter again, where it was: as soon as the one before is gone.
    async fn restart(&mut self, place: usize) {
        self.nodes[place].abort();
        for _ in 0..500 {
            match self.builder(place).start().await {
                Ok(node) => {
                    self.nodes[place] = node;
                    return;
                }
                Err(_) => tokio::time::sleep(Duration::from_millis(2)).await,
            }
        }
        panic!("its address is still taken after a second");
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

/// Nothing here takes as long, however busy the machine is.
async fn soon<F: Future>(what: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), what).await.expect("it takes far too long")
}
