//! Nodes, and how they are set up.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};
use std::time::Duration;

use suffrage_core::{NodeId, Span, Start, Time};
use suffrage_lease::{Drift, Saved};
use suffrage_net::transport::udp::{Socket, Udp};
use suffrage_net::transport::{Config, Sealed, Transport};
use suffrage_net::{Keyring, Snapshot};
use suffrage_node::clock::BootClock;
use suffrage_node::lease::{self, NodeMetrics, NodeState, Record, Settings, Status};
use suffrage_node::storage::{DataFolder, MemoryDisk, StateFile, Storage};
use tokio::sync::watch;

use crate::{Error, Watch};

/// What a voter keeps in memory, in the place of a disk. Clones are the same memory: a node that is started
/// with one knows what a node before it saved there. For tests, and for programs whose nodes all live and
/// die together.
#[derive(Clone, Debug, Default)]
pub struct Memory(MemoryDisk<Saved>);

/// Where a voter keeps what it must not forget.
#[derive(Clone, Debug)]
enum Keep {
    Nowhere,
    Memory(Memory),
    Folder { path: PathBuf, new: bool },
}

/// A voter's state, in a folder that stays locked as long as the node runs.
struct InFolder {
    file: StateFile<Saved>,
    _folder: DataFolder,
}

impl Storage<Saved> for InFolder {
    fn start(&mut self) -> Result<Start<Saved>, suffrage_node::Error> {
        self.file.start()
    }
    fn save(&mut self, saved: &Saved) -> Result<(), suffrage_node::Error> {
        Storage::save(&mut self.file, saved)
    }
    fn mark_started(&mut self) -> Result<(), suffrage_node::Error> {
        self.file.mark_started()
    }
}

/// What a node is to be.
#[derive(Debug)]
#[must_use = "nothing is started yet"]
pub struct NodeBuilder {
    id: NodeId,
    listen: Option<SocketAddr>,
    socket: Option<Socket>,
    members: BTreeMap<NodeId, SocketAddr>,
    voters: Option<Vec<NodeId>>,
    keyring: Option<Keyring>,
    keep: Keep,
    delay: Option<Duration>,
    drift: Option<f64>,
    longest_ttl: Option<Duration>,
    datagram: Option<usize>,
}

impl NodeBuilder {
    fn new(id: NodeId) -> NodeBuilder {
        NodeBuilder {
            id,
            listen: None,
            socket: None,
            members: BTreeMap::new(),
            voters: None,
            keyring: None,
            keep: Keep::Nowhere,
            delay: None,
            drift: None,
            longest_ttl: None,
            datagram: None,
        }
    }

    /// Where the node listens. If not set: where it is as a [`member`](NodeBuilder::member), or at any port of
    /// loopback.
    pub fn listen(mut self, address: SocketAddr) -> NodeBuilder {
        self.listen = Some(address);
        self
    }

    /// Takes a socket that listens already.
    pub fn socket(mut self, socket: Socket) -> NodeBuilder {
        self.socket = Some(socket);
        self
    }

    /// Adds a member of the cluster: all voters must be listed, this node among them if it votes. Nodes that
    /// only stand need not be: they are answered where they are heard from.
    pub fn member(mut self, id: impl Into<NodeId>, address: SocketAddr) -> NodeBuilder {
        self.members.insert(id.into(), address);
        self
    }

    /// Who votes: the same ids at all nodes, or there can be two leaders. All members, if not set.
    pub fn voters<I: Into<NodeId>>(mut self, ids: impl IntoIterator<Item = I>) -> NodeBuilder {
        self.voters = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// The cluster's keys: the same at all nodes.
    pub fn key(mut self, keyring: Keyring) -> NodeBuilder {
        self.keyring = Some(keyring);
        self
    }

    /// Keeps what a voter must not forget in this folder, which has been this node's before.
    pub fn data(mut self, folder: impl AsRef<Path>) -> NodeBuilder {
        self.keep = Keep::Folder { path: folder.as_ref().to_path_buf(), new: false };
        self
    }

    /// Keeps what a voter must not forget in this folder, which is made for a node that is new. Not for one
    /// that has voted before and lost its folder: that one must come back under another id.
    pub fn new_data(mut self, folder: impl AsRef<Path>) -> NodeBuilder {
        self.keep = Keep::Folder { path: folder.as_ref().to_path_buf(), new: true };
        self
    }

    /// Keeps nothing beyond the life of this node. If it votes, and is started again while other nodes go on,
    /// there can be two leaders: for tests and examples.
    pub fn in_memory(self) -> NodeBuilder {
        self.memory(&Memory::default())
    }

    /// Keeps what a voter must not forget in this memory.
    pub fn memory(mut self, memory: &Memory) -> NodeBuilder {
        self.keep = Keep::Memory(memory.clone());
        self
    }

    /// How long a message takes at most, as a rule: 25 ms if not set. Not safety rests on it, but how quickly
    /// a leader is found.
    pub fn delay(mut self, delay: Duration) -> NodeBuilder {
        self.delay = Some(delay);
        self
    }

    /// By which fraction clocks run fast or slow at most: 0.01 if not set. The same at all nodes.
    pub fn drift(mut self, fraction: f64) -> NodeBuilder {
        self.drift = Some(fraction);
        self
    }

    /// The longest lease that is granted: a minute if not set.
    pub fn longest_ttl(mut self, ttl: Duration) -> NodeBuilder {
        self.longest_ttl = Some(ttl);
        self
    }

    /// The longest datagram, as on the wire: 1,200 bytes if not set, which goes anywhere. More makes fewer
    /// packets of very many elections, on networks one knows.
    pub fn datagram(mut self, bytes: usize) -> NodeBuilder {
        self.datagram = Some(bytes);
        self
    }

    fn settings(&self) -> Result<Settings, Error> {
        let mut voters = self.voters.clone().unwrap_or_else(|| self.members.keys().copied().collect());
        if voters.is_empty() {
            voters.push(self.id);
        }
        let mut settings = Settings::new(voters);
        if let Some(delay) = self.delay {
            settings.delay = span(delay);
        }
        if let Some(fraction) = self.drift {
            let millionths = (fraction.max(0.0) * 1e6).ceil().min(f64::from(u32::MAX)) as u32;
            settings.drift = Drift::millionths(millionths).ok_or(lease::InvalidConfig::Drift)?;
        }
        if let Some(ttl) = self.longest_ttl {
            settings.longest_ttl = span(ttl);
        }
        settings.check()?;
        Ok(settings)
    }

    /// Starts the node, in the tokio runtime this is called in.
    pub async fn start(self) -> Result<Node, Error> {
        let mut settings = self.settings()?;
        let votes = settings.voters.contains(&self.id);
        let keyring = self.keyring.clone().ok_or(Error::NoKey)?;
        let mut config = Config::new(self.id, keyring)?;
        config.peers = self.members.clone();
        config.peers.remove(&self.id);
        config.datagram = self.datagram.unwrap_or(config.datagram);
        let folder = match &self.keep {
            Keep::Folder { path, new: true } => Some(DataFolder::create(path, self.id)?),
            Keep::Folder { path, new: false } => Some(DataFolder::open(path, self.id)?),
            Keep::Memory(_) | Keep::Nowhere => None,
        };
        if let Some(folder) = &folder {
            config.boot = folder.boot()?;
        }
        let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let address = self.listen.or_else(|| self.members.get(&self.id).copied()).unwrap_or(any);
        let socket = match self.socket {
            Some(socket) => socket,
            None => Socket::bind(address).await?,
        };
        let address = socket.local_address();
        let transport: Arc<Udp> = Arc::new(Sealed::new(socket, config)?);
        settings.datagram = transport.max_payload();
        let shared = Arc::downgrade(&transport);
        let lease = match (self.keep, folder) {
            (_, Some(folder)) => {
                let kept = InFolder { file: folder.file("voter"), _folder: folder };
                lease::Node::start(transport, BootClock, kept, settings)?
            }
            (Keep::Memory(memory), None) => lease::Node::start(transport, BootClock, memory.0, settings)?,
            (_, None) if votes => return Err(Error::NoDisk(self.id)),
            (_, None) => lease::Node::start(transport, BootClock, MemoryDisk::default(), settings)?,
        };
        Ok(Node { lease, address, transport: shared })
    }
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

/// A node of a cluster: it votes if it is one of the voters, and stands in the elections that are joined at it.
/// Clones are the same node. It runs until it is [stopped](Node::stop), or until all clones and all elections
/// joined at it are dropped; then it hands over what it leads.
#[derive(Clone, Debug)]
pub struct Node {
    pub(crate) lease: lease::Node,
    address: SocketAddr,
    /// While the node runs: who has only a handle does not keep its address taken.
    transport: Weak<Udp>,
}

impl Node {
    /// A node of this id, which is unique in its cluster and never used for another machine.
    pub fn builder(id: impl Into<NodeId>) -> NodeBuilder {
        NodeBuilder::new(id.into())
    }

    /// Who it is.
    pub fn id(&self) -> NodeId {
        self.lease.id()
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How long ago a moment of its clock was, as in a [`Status`] or a [`Record`].
    pub fn ago(&self, moment: Time) -> Duration {
        Duration::from_nanos(self.lease.clock().now().since(moment).as_nanos())
    }

    /// Changes the keys from now on: the first seals, all open. To replace a key without a gap, first add the
    /// new one at the end at every node, then move it to the front at every node, then remove the old one.
    pub fn rekey(&self, keyring: &Keyring) {
        if let Some(transport) = self.transport.upgrade() {
            transport.rekey(keyring);
        }
    }

    /// From now on this member is there.
    pub fn set_member(&self, id: impl Into<NodeId>, address: SocketAddr) {
        if let Some(transport) = self.transport.upgrade() {
            transport.set_peer(id.into(), address);
        }
    }

    /// What went over the network, and what was dropped and why; none once the node has stopped.
    pub fn traffic(&self) -> Option<Snapshot> {
        Some(self.transport.upgrade()?.counters().snapshot())
    }

    /// How long ago it last came round to everything it has to do. It does every second: if that is longer ago,
    /// it is stuck, as is whatever it leads.
    pub fn last_turn(&self) -> Duration {
        self.ago(self.lease.last_turn())
    }

    /// Follows who leads an election, without standing in it.
    pub async fn observe(&self, name: &str) -> Result<Watch, Error> {
        let part = self.lease.observe(name).await?;
        Ok(Watch::new(Arc::new(part)))
    }

    /// What it knows of an election that it takes part in: who leads, since when, and why this node does not.
    pub async fn status(&self, name: &str) -> Result<Option<Status>, Error> {
        Ok(self.lease.status(name).await?)
    }

    /// All the elections it takes part in.
    pub async fn elections(&self) -> Result<Vec<Status>, Error> {
        Ok(self.lease.elections().await?)
    }

    /// The changes of leaders that it learned of, the oldest first: of one election, or of all.
    pub async fn history(&self, name: Option<&str>) -> Result<Vec<Record>, Error> {
        Ok(self.lease.history(name).await?)
    }

    /// Hands an election over, whoever holds the [`Leadership`](crate::Leadership) here; others go first for
    /// the length of a lease. False if this node takes no part in it.
    pub async fn resign(&self, name: &str) -> Result<bool, Error> {
        Ok(self.lease.resign(name).await?)
    }

    /// Hands an election over to another node; if that one does not take it, to whoever is next. False if this
    /// node takes no part in it.
    pub async fn transfer(&self, name: &str, to: impl Into<NodeId>) -> Result<bool, Error> {
        Ok(self.lease.transfer(name, to.into()).await?)
    }

    /// What it has counted and measured.
    pub async fn metrics(&self) -> Result<NodeMetrics, Error> {
        Ok(self.lease.metrics().await?)
    }

    /// How it is, now and whenever that changes.
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.lease.state()
    }

    /// Hands over whatever it leads, and stops.
    pub async fn stop(&self) {
        self.lease.stop().await;
    }

    /// Stops at once, as a crash would: what it leads is nobody's until the leases are over.
    pub fn abort(&self) {
        self.lease.abort();
    }
}
