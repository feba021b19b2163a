//! The configuration of a node, by a program or by a file.

use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use suffrage_core::{NodeId, Span, Start};
use suffrage_lease::{Drift, InvalidConfig, Saved};
use suffrage_net::transport::udp::{Socket, Udp};
use suffrage_net::transport::{Config as WireConfig, Sealed, Transport};
use suffrage_node::config::{Config, Origin, Problem, Problems};
use suffrage_node::lease::{self, Settings};
use suffrage_node::resolver::{self, Resolver};
use suffrage_node::storage::{DataFolder, MemoryDisk, StateFile, Storage};

use crate::error::ConfigFileError;
use crate::{Error, Keyring, Node};

/// Storage of a voter in memory. Clones share the memory: a node that is started with a clone continues with the state
/// of the node before. For tests, and for programs whose nodes always start and stop together.
#[derive(Clone, Debug, Default)]
pub struct MemoryStorage(MemoryDisk<Saved>);

/// The storage of a voter.
#[derive(Clone, Debug)]
enum StorageConfig {
    None,
    Memory(MemoryStorage),
    Folder { path: PathBuf, create: bool },
}

/// The state of a voter in a data folder, which is locked while the node runs.
struct FolderStorage {
    file: StateFile<Saved>,
    _folder: DataFolder,
}

impl Storage<Saved> for FolderStorage {
    fn start(&mut self) -> Result<Start<Saved>, suffrage_node::Error> {
        self.file.start()
    }
    fn save(&mut self, saved: &Saved) -> Result<(), suffrage_node::Error> {
        Storage::save(&mut self.file, saved)
    }
    fn mark_started(&mut self) -> Result<(), suffrage_node::Error> {
        self.file.mark_started()
    }
    fn saves(&self) -> Option<u64> {
        self.file.saves()
    }
    fn set_aside(&mut self) -> Result<(), suffrage_node::Error> {
        self.file.set_aside()
    }
}

/// The address of a cluster member: an IP address and port, or a host name and port. A name is resolved when the node
/// starts, and again while the member is not heard. A member whose name is not known yet does not keep the node from
/// starting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemberAddress(Address);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Address {
    Socket(SocketAddr),
    Host(String),
}

impl From<SocketAddr> for MemberAddress {
    fn from(address: SocketAddr) -> MemberAddress {
        MemberAddress(Address::Socket(address))
    }
}

impl From<&str> for MemberAddress {
    fn from(address: &str) -> MemberAddress {
        MemberAddress(address.parse().map_or_else(|_| Address::Host(address.to_string()), Address::Socket))
    }
}

impl From<String> for MemberAddress {
    fn from(address: String) -> MemberAddress {
        MemberAddress::from(address.as_str())
    }
}

impl fmt::Display for MemberAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Address::Socket(address) => address.fmt(f),
            Address::Host(host) => f.write_str(host),
        }
    }
}

impl MemberAddress {
    fn unusable(id: NodeId, host: &str, reason: &str) -> Error {
        Error::from_node(suffrage_node::Error::Unresolved(format!("voter {id} at {host}: {reason}")))
    }

    fn check(&self, id: NodeId) -> Result<(), Error> {
        match &self.0 {
            Address::Socket(_) => Ok(()),
            Address::Host(host) => {
                resolver::check_address(host).map_err(|reason| MemberAddress::unusable(id, host, &reason))
            }
        }
    }

    /// The address to listen on. Waits for the name service.
    async fn resolve_own(&self, id: NodeId) -> Result<SocketAddr, Error> {
        match &self.0 {
            Address::Socket(address) => Ok(*address),
            Address::Host(host) => {
                resolver::lookup_once(host).await.map_err(|reason| MemberAddress::unusable(id, host, &reason))
            }
        }
    }
}

/// The configuration of a [`Node`].
#[derive(Debug)]
#[must_use = "call `start` to start the node"]
pub struct NodeBuilder {
    id: NodeId,
    listen: Option<SocketAddr>,
    socket: Option<UdpSocket>,
    members: BTreeMap<NodeId, MemberAddress>,
    voters: Option<Vec<NodeId>>,
    keyring: Option<Keyring>,
    storage: StorageConfig,
    delay: Option<Duration>,
    drift: Option<u32>,
    longest_ttl: Option<Duration>,
    tokens_above: u64,
    default_ttl: Option<Duration>,
    datagram: Option<usize>,
}

impl NodeBuilder {
    pub(crate) fn new(id: NodeId) -> NodeBuilder {
        NodeBuilder {
            id,
            listen: None,
            socket: None,
            members: BTreeMap::new(),
            voters: None,
            keyring: None,
            storage: StorageConfig::None,
            delay: None,
            drift: None,
            longest_ttl: None,
            tokens_above: 0,
            default_ttl: None,
            datagram: None,
        }
    }

    /// Reads a configuration file, the `suffrage.toml` of `suffrage node`. All setters can override its values.
    ///
    /// The keys `id`, `voters`, `keys`, `data`, `listen`, `ttl`, `longest-ttl`, `delay` and `drift` apply. The keys
    /// about HTTP and logs are checked and have no effect. Relative paths are relative to the working directory. An
    /// error names the file, the line, the key, the value and what to do; all errors of a file are reported at once.
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), suffrage::Error> {
    /// let node = suffrage::NodeBuilder::from_file("suffrage.toml")?.start().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_file(path: impl AsRef<Path>) -> Result<NodeBuilder, Error> {
        let path = path.as_ref();
        let failed = |problems| Error::ConfigFile(ConfigFileError::new(problems));
        let text = std::fs::read_to_string(path).map_err(|error| {
            let (origin, key) = (Origin::Path(path.to_path_buf()), String::new());
            failed(Problems(vec![Problem { origin, key, reason: format!("cannot read the file: {error}") }]))
        })?;
        let config = Config::read(Some((path, &text)), |_| None, &[]).map_err(failed)?;
        NodeBuilder::from_config(&config)
    }

    /// For the program `suffrage`, which merges the file with flags and the environment.
    #[doc(hidden)]
    pub fn from_config(config: &Config) -> Result<NodeBuilder, Error> {
        let keyring = suffrage_net::Keyring::load(&config.keys).map_err(config.at("keys"));
        let duration = |span: Span| Duration::from_nanos(span.as_nanos());
        let mut builder = NodeBuilder::new(config.id)
            .key(Keyring::from_wire(keyring.map_err(Error::from_node)?))
            .voters(config.voters.iter().map(|voter| voter.id))
            .delay(duration(config.delay))
            .drift_ppm(config.drift.as_millionths())
            .longest_ttl(duration(config.longest_ttl))
            .tokens_above(config.tokens_above)
            .default_ttl(duration(config.ttl));
        builder.listen = config.listen;
        if let Some(folder) = &config.data {
            builder = builder.data(folder);
        }
        let members = config.voters.iter();
        Ok(members.fold(builder, |builder, voter| builder.member(voter.id, voter.address.as_str())))
    }

    /// Sets the address to listen on. By default, a voter listens on its own [`member`](NodeBuilder::member) address.
    /// Other nodes listen on any free port: of loopback if all members are on loopback, of all interfaces otherwise.
    pub fn listen(mut self, address: SocketAddr) -> NodeBuilder {
        self.listen = Some(address);
        self
    }

    /// Uses a bound UDP socket instead of binding one. Use it to bind port 0 and learn the address before the node
    /// starts.
    pub fn socket(mut self, socket: UdpSocket) -> NodeBuilder {
        self.socket = Some(socket);
        self
    }

    /// Adds a member of the cluster. All voters must be members, including this node if it votes. Candidates that do
    /// not vote need not be members: voters reply to the address that a datagram came from.
    pub fn member(mut self, id: impl Into<NodeId>, address: impl Into<MemberAddress>) -> NodeBuilder {
        self.members.insert(id.into(), address.into());
        self
    }

    /// Sets the voters. The voters that found a cluster must be started with the same list: a voter with another list is
    /// another cluster. A node that does not vote asks these voters for those of the cluster. Default: all members.
    pub fn voters<I: Into<NodeId>>(mut self, ids: impl IntoIterator<Item = I>) -> NodeBuilder {
        self.voters = Some(ids.into_iter().map(Into::into).collect());
        self
    }

    /// Sets the keys of the cluster. Must be the same at all nodes.
    pub fn key(mut self, keyring: Keyring) -> NodeBuilder {
        self.keyring = Some(keyring);
        self
    }

    /// Stores the state of the voter in this data folder, which this node has used before.
    pub fn data(mut self, folder: impl AsRef<Path>) -> NodeBuilder {
        self.storage = StorageConfig::Folder { path: folder.as_ref().to_path_buf(), create: false };
        self
    }

    /// Creates this data folder and stores the state of the voter in it. Only for a node that has never voted: a voter
    /// that has lost its data folder must get another id.
    pub fn new_data(self, folder: impl AsRef<Path>) -> NodeBuilder {
        self.data(folder).first_start()
    }

    /// Creates the [data folder](NodeBuilder::data) that is set. Only for a node that has never voted.
    pub fn first_start(mut self) -> NodeBuilder {
        if let StorageConfig::Folder { create, .. } = &mut self.storage {
            *create = true;
        }
        self
    }

    /// Stores the state of the voter in memory. If a voter restarts without its state while other nodes run, two
    /// leaders are possible: for tests and examples.
    pub fn in_memory(self) -> NodeBuilder {
        self.memory(&MemoryStorage::default())
    }

    /// Stores the state of the voter in this memory.
    pub fn memory(mut self, memory: &MemoryStorage) -> NodeBuilder {
        self.storage = StorageConfig::Memory(memory.clone());
        self
    }

    /// Sets the expected upper bound of the delay of a message. Safety does not depend on it; the time to elect a
    /// leader does. Default: 25 ms.
    pub fn delay(mut self, delay: Duration) -> NodeBuilder {
        self.delay = Some(delay);
        self
    }

    /// Sets the greatest drift of clocks in parts per million: 10,000 is 1%. Must be the same at all nodes, and true:
    /// otherwise two leaders are possible. Default: 10,000.
    pub fn drift_ppm(mut self, millionths: u32) -> NodeBuilder {
        self.drift = Some(millionths);
        self
    }

    /// Sets the longest lease that this node grants as a voter. Must be the same at all nodes. Default: 60 s.
    pub fn longest_ttl(mut self, ttl: Duration) -> NodeBuilder {
        self.longest_ttl = Some(ttl);
        self
    }

    /// If this node is a voter and starts for the first time, it grants only tokens above this one: for a cluster that is
    /// founded anew after all voters were lost. Must be set at all voters. Default: 0.
    pub fn tokens_above(mut self, token: u64) -> NodeBuilder {
        self.tokens_above = token;
        self
    }

    /// Sets the ttl of elections that are joined without a [ttl](crate::ElectionBuilder::ttl). Default: 3 s.
    pub fn default_ttl(mut self, ttl: Duration) -> NodeBuilder {
        self.default_ttl = Some(ttl);
        self
    }

    /// Sets the greatest size of a datagram in bytes. Default and minimum: 1,200 bytes, which every network forwards. A
    /// greater size needs fewer packets for thousands of elections.
    pub fn datagram(mut self, bytes: usize) -> NodeBuilder {
        self.datagram = Some(bytes);
        self
    }

    pub(crate) fn settings(&self) -> Result<Settings, Error> {
        let mut voters = self.voters.clone().unwrap_or_else(|| self.members.keys().copied().collect());
        if voters.is_empty() {
            voters.push(self.id);
        }
        let mut settings = Settings::new(voters);
        if let Some(delay) = self.delay {
            settings.delay = span(delay);
        }
        if let Some(millionths) = self.drift {
            settings.drift =
                Drift::millionths(millionths).ok_or_else(|| Error::invalid(&InvalidConfig::Drift))?;
        }
        if let Some(ttl) = self.longest_ttl {
            settings.longest_ttl = span(ttl);
        }
        settings.tokens_above = self.tokens_above;
        settings.check().map_err(|invalid| Error::invalid(&invalid))?;
        Ok(settings)
    }

    /// Binds the socket. Without an address it is any port: of loopback if all members are there. While the address of a
    /// member is unknown, the socket is an IPv6 socket if the machine has IPv6, which reaches both families.
    async fn bind(
        socket: Option<UdpSocket>,
        address: Option<SocketAddr>,
        members: &[SocketAddr],
        complete: bool,
    ) -> Result<Socket, Error> {
        let address = match (socket, address) {
            (Some(socket), _) => return Socket::from_std(socket).map_err(Error::network),
            (None, Some(address)) => address,
            (None, None) => {
                if !complete && let Ok(socket) = Socket::bind((Ipv6Addr::UNSPECIFIED, 0).into()).await {
                    return Ok(socket);
                }
                let ip: IpAddr = match members.iter().find(|member| !member.ip().is_loopback()) {
                    Some(SocketAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
                    Some(SocketAddr::V4(_)) => Ipv4Addr::UNSPECIFIED.into(),
                    None if !complete => Ipv4Addr::UNSPECIFIED.into(),
                    None => members.first().map_or(Ipv4Addr::LOCALHOST.into(), SocketAddr::ip),
                };
                (ip, 0).into()
            }
        };
        Socket::bind(address).await.map_err(Error::network)
    }

    /// Starts the node in the current tokio runtime.
    ///
    /// If the data folder cannot be written, for example because the disk is full, this fails with [`Error::Storage`]. A
    /// node that runs is suspended instead, until it can save: see [`NodeState`](crate::NodeState).
    pub async fn start(self) -> Result<Node, Error> {
        let mut settings = self.settings()?;
        let votes = settings.voters.contains(&self.id);
        let keyring = self.keyring.as_ref().ok_or(Error::NoKey)?.wire().clone();
        let mut wire = WireConfig::new(self.id, keyring).map_err(Error::network)?;
        let mut names = BTreeMap::new();
        for (&id, member) in &self.members {
            member.check(id)?;
            match &member.0 {
                _ if id == self.id => {}
                Address::Socket(address) => _ = wire.peers.insert(id, *address),
                Address::Host(host) => _ = names.insert(id, host.clone()),
            }
        }
        let own = match self.members.get(&self.id) {
            Some(own) if self.listen.is_none() && self.socket.is_none() => {
                Some(own.resolve_own(self.id).await?)
            }
            _ => self.listen,
        };
        let resolver = Resolver::new(names).await;
        let members: Vec<SocketAddr> = wire.peers.values().copied().chain(resolver.addresses()).collect();
        wire.datagram = self.datagram.unwrap_or_default().max(wire.datagram);
        let folder = match &self.storage {
            StorageConfig::Folder { path, create: true } => Some(DataFolder::create(path, self.id)),
            StorageConfig::Folder { path, create: false } if votes => Some(DataFolder::open(path, self.id)),
            StorageConfig::Folder { path, create: false } => Some(DataFolder::open_or_create(path, self.id)),
            StorageConfig::Memory(_) | StorageConfig::None => None,
        };
        let folder = folder.transpose().map_err(Error::from_node)?;
        if let Some(folder) = &folder {
            wire.boot = folder.boot().map_err(Error::from_node)?;
        }
        let socket = NodeBuilder::bind(self.socket, own, &members, resolver.is_complete()).await?;
        let address = socket.local_address();
        let transport: Arc<Udp> = Arc::new(Sealed::new(socket, wire).map_err(Error::network)?);
        settings.datagram = transport.max_payload();
        settings.can_vote = folder.is_some() || matches!(self.storage, StorageConfig::Memory(_));
        settings.addresses = self.members.iter().map(|(&id, address)| (id, address.to_string())).collect();
        let handle = Arc::downgrade(&transport);
        let peers = Arc::clone(&transport);
        resolver.configure(&peers, address);
        let disk: Box<dyn Storage<Saved>> = match (self.storage, folder) {
            (_, Some(folder)) => Box::new(FolderStorage { file: folder.file("voter"), _folder: folder }),
            (StorageConfig::Memory(memory), None) => Box::new(memory.0),
            (_, None) if votes => return Err(Error::NoStorage(self.id)),
            (_, None) => Box::new(MemoryDisk::default()),
        };
        let lease = lease::Node::start_udp(transport, disk, settings).map_err(Error::from_node)?;
        let names = resolver.start(&peers, address, &lease.state(), |_, _, _| {});
        names.follow(self.id, lease.configuration());
        Ok(Node::new(lease, address, handle, self.default_ttl))
    }
}

pub(crate) fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drift_is_in_parts_per_million() {
        let settings = |ppm| NodeBuilder::new(NodeId(1)).drift_ppm(ppm).settings();
        assert_eq!(settings(10_000).unwrap().drift, "1%".parse().unwrap());
        for ppm in [200_001, 500_000, u32::MAX] {
            assert!(settings(ppm).unwrap_err().to_string().contains("a drift above 20%"), "{ppm}");
        }
    }
}
