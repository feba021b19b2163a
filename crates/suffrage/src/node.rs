//! Nodes.

use std::net::SocketAddr;
use std::sync::{Arc, Weak};
use std::time::Duration;

use suffrage_core::NodeId;
use suffrage_net::Snapshot;
use suffrage_net::transport::Transport;
use suffrage_net::transport::udp::Udp;
use suffrage_node::lease::{self, HistoryEntry, NodeMetrics, NodeState, Status};
use tokio::sync::watch;

#[cfg(doc)]
use crate::Leadership;
use crate::participation::Participation;
use crate::{ElectionBuilder, Error, Keyring, NodeBuilder, Watch};

/// A node of a cluster. It votes if it is one of the voters, and is a candidate in the elections that the program joins
/// and asks to lead.
///
/// Clones share the node. It runs until it is [stopped](Node::stop), or until all clones, elections, leaderships and
/// watches are dropped. It releases its leases when it stops. Dropping a handle releases no lease: a [`Leadership`] and a
/// command of a [`Supervisor`](crate::Supervisor) keep the node running. If the runtime of the node is shut down, the
/// node ends as in a crash ([`abort`](Node::abort)).
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) lease: lease::Node,
    address: SocketAddr,
    /// The task of the node owns the transport: a handle does not keep the address bound.
    transport: Weak<Udp>,
    default_ttl: Option<Duration>,
    commands: Arc<SupervisedCommands>,
}

/// The commands of supervisors at a node, which end before the node stops.
#[derive(Debug)]
pub(crate) struct SupervisedCommands(watch::Sender<CommandsState>);

#[derive(Debug, Default)]
struct CommandsState {
    running: usize,
    /// Whether the node stops: no command may start.
    stopping: bool,
}

/// The permission to run a command, until this value is dropped.
pub(crate) struct CommandPermit(Arc<SupervisedCommands>);

impl SupervisedCommands {
    /// None if the node stops.
    pub(crate) fn begin(self: &Arc<SupervisedCommands>) -> Option<CommandPermit> {
        let begun = self.0.send_if_modified(|state| {
            state.running += usize::from(!state.stopping);
            !state.stopping
        });
        begun.then(|| CommandPermit(Arc::clone(self)))
    }

    /// Stops all commands, and waits until they have ended and their leases are released.
    async fn stop(&self) {
        self.0.send_modify(|state| state.stopping = true);
        // The sender is a part of this value: the channel is open.
        _ = self.0.subscribe().wait_for(|state| state.running == 0).await;
    }
}

impl CommandPermit {
    /// Waits until the command must be stopped, because its node stops.
    pub(crate) async fn stop_requested(&self) {
        _ = self.0.0.subscribe().wait_for(|state| state.stopping).await;
    }
}

impl Drop for CommandPermit {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.running -= 1);
    }
}

impl Node {
    pub(crate) fn new(
        lease: lease::Node,
        address: SocketAddr,
        transport: Weak<Udp>,
        default_ttl: Option<Duration>,
    ) -> Node {
        let commands = Arc::new(SupervisedCommands(watch::Sender::default()));
        Node { lease, address, transport, default_ttl, commands }
    }

    pub(crate) fn commands(&self) -> &Arc<SupervisedCommands> {
        &self.commands
    }

    /// Configures a node. The id is unique in the cluster, and never reused for another machine.
    pub fn builder(id: impl Into<NodeId>) -> NodeBuilder {
        NodeBuilder::new(id.into())
    }

    /// The id of the node.
    pub fn id(&self) -> NodeId {
        self.lease.id()
    }

    /// The address that the node listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces the keys. To rotate a key without interruption, first append the new key at every node, then move it to
    /// the front at every node, then remove the old key at every node.
    pub fn rekey(&self, keyring: &Keyring) {
        if let Some(transport) = self.transport.upgrade() {
            transport.rekey(keyring.wire());
        }
    }

    /// Changes the address of a member.
    pub fn set_member(&self, id: impl Into<NodeId>, address: SocketAddr) {
        if let Some(transport) = self.transport.upgrade() {
            transport.set_peer(id.into(), address);
        }
    }

    /// The counters of datagrams sent, received and dropped. None if the node has stopped.
    pub fn traffic(&self) -> Option<Snapshot> {
        Some(self.transport.upgrade()?.counters().snapshot())
    }

    /// The time since the last turn of the node's task. A task that is not stuck has a turn at least every second.
    pub fn last_turn(&self) -> Duration {
        let clock = self.lease.clock();
        Duration::from_nanos(clock.now().since(self.lease.last_turn()).as_nanos())
    }

    /// Configures the participation in an election. A name has 1 to 255 bytes. Programs that join the same name at
    /// nodes of one cluster are in the same election.
    pub fn election(&self, name: impl Into<String>) -> ElectionBuilder {
        ElectionBuilder::new(self.clone(), name.into(), self.default_ttl)
    }

    /// Watches the leader of an election without being a candidate.
    pub async fn observe(&self, name: &str) -> Result<Watch, Error> {
        let participation = self.lease.observe(name).await.map_err(Error::from_node)?;
        let name = name.to_string();
        Ok(Watch::new(Arc::new(Participation::Node { name, participation })))
    }

    /// The status of an election: the leader, since when, and why this node leads or does not. None if this node takes
    /// no part in the election.
    pub async fn status(&self, name: &str) -> Result<Option<Status>, Error> {
        self.lease.status(name).await.map_err(Error::from_node)
    }

    /// The status of every election that the node takes part in.
    pub async fn elections(&self) -> Result<Vec<Status>, Error> {
        self.lease.elections().await.map_err(Error::from_node)
    }

    /// The history of one election, or of all elections, the oldest entry first.
    pub async fn history(&self, name: Option<&str>) -> Result<Vec<HistoryEntry>, Error> {
        self.lease.history(name).await.map_err(Error::from_node)
    }

    /// Hands an election over, and yields to other candidates for the length of a lease. [`Leadership::lost`] returns at
    /// once, and the lease is released when the [`Leadership`](crate::Leadership) is dropped or its
    /// [stop margin](crate::ElectionBuilder::stop_margin) is over. A [`Supervisor`](crate::Supervisor) stops its command
    /// first. False if this node takes no part in the election.
    pub async fn resign(&self, name: &str) -> Result<bool, Error> {
        self.lease.resign(name).await.map_err(Error::from_node)
    }

    /// Hands an election over to another node, as [`resign`](Node::resign) does. If that node does not take the lease, the
    /// next candidate gets it. A later transfer replaces the target, and not the end. False if this node takes no part in
    /// the election. [`Error::CannotTransfer`] if no candidate waits there: nothing changes.
    pub async fn transfer(&self, name: &str, to: impl Into<NodeId>) -> Result<bool, Error> {
        self.lease.transfer(name, to.into()).await.map_err(Error::from_node)
    }

    /// The metrics of the node.
    pub async fn metrics(&self) -> Result<NodeMetrics, Error> {
        self.lease.metrics().await.map_err(Error::from_node)
    }

    /// The state of the node and its changes.
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.lease.state()
    }

    /// Hands over all leases of the node and stops it. Commands of a [`Supervisor`](crate::Supervisor) are stopped first,
    /// also if the future of its `run` was dropped: the node waits until they have ended. For every other
    /// [`Leadership`], [`lost`](crate::Leadership::lost) returns, and the node waits until it is dropped or its
    /// [stop margin](crate::ElectionBuilder::stop_margin) is over.
    ///
    /// Dropping the future does not undo the stop.
    pub async fn stop(&self) {
        self.commands.stop().await;
        self.lease.stop().await;
    }

    /// Stops the node at once, as a crash would. Its leases run until they expire. A command of a
    /// [`Supervisor`](crate::Supervisor) is stopped, and has ended before its lease expires.
    pub fn abort(&self) {
        self.lease.abort();
    }
}
