//! Elections through the node of this machine.

use suffrage_node::client::LocalNode;

#[cfg(doc)]
use crate::{Election, Leadership};
use crate::{ElectionBuilder, Error};

/// A cluster, through the node of it that runs on this machine as a service (`suffrage node`). The program needs no keys,
/// ports or voters, only permission to use the node's Unix socket.
///
/// ```no_run
/// use suffrage::Cluster;
///
/// # async fn example() -> Result<(), suffrage::Error> {
/// let cluster = Cluster::connect("unix:/run/suffrage/suffrage.sock").await?;
/// let election = cluster.election("billing").join().await?;
/// let leadership = election.lead().await?; // returns when this program leads
/// println!("leading with token {} for {:?}", leadership.token(), leadership.valid_for());
/// # Ok(())
/// # }
/// ```
///
/// [`Election`] and [`Leadership`] are those of a [`Node`](crate::Node). The differences:
///
/// - The program leads for as long as its connection to the node stays open, and the node renews the lease. When this
///   *process* dies, the kernel tells the node, and the next candidate leads within milliseconds, whatever the ttl is.
/// - When the node dies, the leadership ends at once, and [`lead`](Election::lead) waits for the node to come back.
/// - A leader is known by its node: [`Election::leader`] returns the node of the program that leads.
/// - A program that forks must not use the connection in the child: docs/operations.md, "Clients by connection".
#[derive(Clone, Debug)]
pub struct Cluster {
    node: LocalNode,
}

impl Cluster {
    /// The cluster of the node whose socket is at this URL, `unix:/run/suffrage/suffrage.sock`. An error if no node
    /// listens there. A node that goes away later may come back: elections retry.
    pub async fn connect(url: &str) -> Result<Cluster, Error> {
        let node = LocalNode::parse(url).map_err(Error::InvalidConfig)?;
        node.connect().await.map_err(Error::from_node)?;
        Ok(Cluster { node })
    }

    /// Configures the participation in an election. [`join`](ElectionBuilder::join) joins it. The ttl is 3 s by default.
    pub fn election(&self, name: impl Into<String>) -> ElectionBuilder {
        ElectionBuilder::at_cluster(self.node.clone(), name.into())
    }
}
