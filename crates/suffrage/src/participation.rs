//! The participation of this program in one election: at a node of its own, or through the node of its machine.

use std::sync::Arc;

use suffrage_core::NodeId;
use suffrage_lease::Token;
use suffrage_node::client::ClientParticipation;
use suffrage_node::lease::{self, Belief, HeldLease, NodeClock, Status, Value};
use tokio::sync::watch;

use crate::Error;

/// A participation. The two kinds have the same functions, so that an election is the same for the program.
#[derive(Debug)]
pub(crate) enum Participation {
    Node { name: String, participation: lease::Participation },
    Client(ClientParticipation),
}

impl Participation {
    /// The clock by which leases are measured.
    pub(crate) fn clock(&self) -> &NodeClock {
        match self {
            Participation::Node { participation, .. } => participation.node().clock(),
            Participation::Client(client) => client.clock(),
        }
    }

    pub(crate) fn belief(&self) -> watch::Receiver<Belief> {
        match self {
            Participation::Node { participation, .. } => participation.belief(),
            Participation::Client(client) => client.belief(),
        }
    }

    /// The reason why the belief is closed.
    pub(crate) fn stopped(&self) -> Error {
        match self {
            Participation::Node { .. } => Error::Stopped,
            Participation::Client(client) => Error::from_node(client.failure()),
        }
    }

    /// Makes this program a candidate, until it has led, and waits for its next lease: not for one that it holds already.
    pub(crate) async fn next_lease(&self) -> Result<Arc<HeldLease>, Error> {
        let lease = match self {
            Participation::Node { participation, .. } => participation.next_lease().await,
            Participation::Client(client) => client.next_lease().await,
        };
        lease.map_err(Error::from_node)
    }

    /// Ends the candidacy. A lease is handed over after the stop margin.
    pub(crate) fn withdraw(&self) {
        match self {
            Participation::Node { participation, .. } => participation.withdraw(),
            Participation::Client(client) => client.withdraw(),
        }
    }

    /// Ends the candidacy. A lease is released at once: the work has ended.
    pub(crate) fn release(&self, to: Option<NodeId>) {
        match self {
            Participation::Node { participation, .. } => participation.release(to),
            Participation::Client(client) => client.release(to),
        }
    }

    pub(crate) fn set_healthy(&self, healthy: bool) {
        match self {
            Participation::Node { participation, .. } => participation.set_healthy(healthy),
            Participation::Client(client) => client.set_healthy(healthy),
        }
    }

    pub(crate) fn set_rank(&self, rank: i64) {
        match self {
            Participation::Node { participation, .. } => participation.set_attribute(rank),
            Participation::Client(client) => client.set_rank(rank),
        }
    }

    pub(crate) fn set_value(&self, value: Option<Value>) {
        match self {
            Participation::Node { participation, .. } => participation.set_value(value),
            Participation::Client(client) => client.set_value(value),
        }
    }

    pub(crate) async fn status(&self) -> Result<Status, Error> {
        match self {
            Participation::Node { name, participation } => {
                let status = participation.node().status(name).await;
                status.map_err(Error::from_node)?.ok_or(Error::Stopped)
            }
            Participation::Client(client) => client.status().await.map_err(Error::from_node),
        }
    }

    /// Pins the lease of a node, and returns its token.
    pub(crate) async fn pin(&self) -> Result<Option<Token>, Error> {
        match self {
            Participation::Node { participation, .. } => {
                let pinned = participation.pin().await.map_err(Error::from_node)?;
                Ok(pinned.map(|lease| lease.token))
            }
            // A node does not hand the lease of a client over to a greater rank.
            Participation::Client(_) => Ok(None),
        }
    }
}
