//! Members of large groups on real sockets. This is not the quorum lease: two members can lead at the same time
//! (docs/groups.md).
//!
//! [`GroupMember::join`] starts a member: a task with a UDP socket, which runs [`Group`] of `suffrage-group`. A process can
//! have hundreds of members.

mod task;
#[cfg(test)]
mod tests;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use suffrage_core::{Attribute, Command, NodeId};
pub use suffrage_group::Counters as GroupCounters;
use suffrage_group::{Address, Group, GroupCommand, Record, Settings};
use suffrage_net::group_seal::GroupSeal;
use suffrage_net::{Counters, Keyring, Snapshot};
use tokio::net::UdpSocket;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use xxhash_rust::xxh3::xxh3_64;

use self::task::{Request, Task};
use crate::Error;

/// The requests that wait for the task of a member.
const REQUESTS: usize = 64;
/// Ids from here on are seeds of a member, not members.
const FIRST_SEED: u64 = u64::MAX - 0xffff;

/// The configuration of a member.
#[derive(Clone, Debug)]
pub struct GroupConfig {
    /// The name of the group. Groups with different names do not hear each other.
    pub name: String,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// The address at which others reach this member, if it is another one.
    pub advertise: Option<SocketAddr>,
    /// The id of this member: unique in the group, below 2^63. By default a hash of the address.
    pub id: Option<NodeId>,
    /// Addresses of members, as `host:port`. The first member of a group may have none, or its own address.
    pub seeds: Vec<String>,
    /// The keys of the group.
    pub keyring: Keyring,
    /// The greater, the better a candidate.
    pub rank: Attribute,
    /// False if this member must not be elected.
    pub stands: bool,
}

impl GroupConfig {
    /// A member that listens on this address.
    pub fn new(name: &str, listen: SocketAddr, seeds: Vec<String>, keyring: Keyring) -> GroupConfig {
        let (name, rank, stands) = (name.to_string(), 0, true);
        GroupConfig { name, listen, advertise: None, id: None, seeds, keyring, rank, stands }
    }
}

/// The leader that a member believes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupLeader {
    /// The leader.
    pub id: NodeId,
    /// The number of its election. Two sides of a partition can use the same number.
    pub term: u64,
    /// Its address.
    pub address: SocketAddr,
}

/// A member that another member believes alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupPeer {
    /// The member.
    pub id: NodeId,
    /// Its address.
    pub address: SocketAddr,
    /// Its rank.
    pub rank: Attribute,
    /// False if it must not be elected.
    pub stands: bool,
    /// True if it did not answer, and may soon be declared dead.
    pub suspected: bool,
}

/// The state of a member.
#[derive(Clone, Debug)]
pub struct GroupStatus {
    /// The number of members that this member believes alive, itself included.
    pub members: usize,
    /// The number of them that are suspected.
    pub suspected: usize,
    /// The members that are remembered as dead.
    pub dead: usize,
    /// The rank of this member.
    pub rank: Attribute,
    /// False if this member must not be elected.
    pub stands: bool,
    /// Equal at members with equal lists.
    pub digest: [u8; 4],
    /// Events since the start.
    pub counters: GroupCounters,
    /// Datagrams since the start.
    pub traffic: Snapshot,
}

/// A running member of a group. Clones are the same member. When the last one is dropped, the member leaves the group.
#[derive(Clone)]
pub struct GroupMember {
    id: NodeId,
    address: SocketAddr,
    requests: mpsc::Sender<Request>,
    leader: watch::Receiver<Option<GroupLeader>>,
    task: AbortHandle,
}

impl fmt::Debug for GroupMember {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupMember")
            .field("id", &self.id)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn invalid(reason: String) -> Error {
    Error::System { doing: "join the group".to_string(), source: std::io::Error::other(reason) }
}

impl GroupMember {
    /// Starts a member. It asks its seeds until one of them answers.
    pub async fn join(config: GroupConfig) -> Result<GroupMember, Error> {
        let system = |doing: &str| {
            let doing = format!("{doing} {}", config.listen);
            move |source| Error::System { doing, source }
        };
        let socket = UdpSocket::bind(config.listen).await.map_err(system("listen on"))?;
        let local = socket.local_addr().map_err(system("read the address of"))?;
        let address = config.advertise.unwrap_or(local);
        if address.ip().is_unspecified() {
            return Err(invalid(format!(
                "others cannot reach {address}: advertise an address of this machine"
            )));
        }
        if config.seeds.len() > 0xffff {
            return Err(invalid("there are more than 65535 seeds".to_string()));
        }
        let id = config.id.unwrap_or(NodeId(xxh3_64(address.to_string().as_bytes()) >> 1));
        if id.0 >> 63 > 0 {
            return Err(invalid(format!("the id {id} is not below 2^63")));
        }
        let seconds = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let settings = Settings {
            rank: config.rank,
            stands: config.stands,
            first_incarnation: seconds.map_or(1, |since| since.as_secs() as u32),
            ..Settings::new(
                encode(address),
                (0..config.seeds.len() as u64).map(|seed| NodeId(FIRST_SEED + seed)).collect(),
            )
        };
        let seal = GroupSeal::new(id, xxh3_64(config.name.as_bytes()), &config.keyring)?;
        let (requests, receiver) = mpsc::channel(REQUESTS);
        let (leader_sender, leader) = watch::channel(None);
        let counters = Arc::new(Counters::default());
        let task = Task::new(Group::new(id, settings), socket, seal, config.seeds, leader_sender, counters)?;
        let task = tokio::spawn(task.run(receiver, requests.downgrade())).abort_handle();
        Ok(GroupMember { id, address, requests, leader, task })
    }

    /// The id of this member.
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// The address of this member.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The leader that this member believes in. Another member can believe in another leader.
    pub fn leader(&self) -> Option<GroupLeader> {
        *self.leader.borrow()
    }

    /// True if this member believes that it leads. Another member can believe the same of itself.
    pub fn leads(&self) -> bool {
        self.leader().is_some_and(|leader| leader.id == self.id)
    }

    /// Waits until the leader is another one than at the last call of this clone, and returns it.
    pub async fn leader_changed(&mut self) -> Option<GroupLeader> {
        // The task ends only after the last clone, or killed: then nothing changes any more.
        if self.leader.changed().await.is_err() {
            return std::future::pending().await;
        }
        *self.leader.borrow_and_update()
    }

    /// The leader and its changes. The sender ends with the member.
    pub fn watch(&self) -> watch::Receiver<Option<GroupLeader>> {
        self.leader.clone()
    }

    /// The members that this member believes alive, itself included, in order of id. Empty if it has left.
    pub async fn members(&self) -> Vec<GroupPeer> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Members(answer)).await;
        answered.await.unwrap_or_default()
    }

    /// The state of this member; `None` if it has left.
    pub async fn status(&self) -> Option<GroupStatus> {
        let (answer, answered) = oneshot::channel();
        self.ask(Request::Status(answer)).await;
        answered.await.ok()
    }

    /// Changes the rank of this member. The leader stays; the next election uses the rank.
    pub async fn set_rank(&self, rank: Attribute) {
        self.ask(Request::Command(GroupCommand::Rank(rank))).await;
    }

    /// Stops leading, if this member leads, and does not stand for ten seconds.
    pub async fn resign(&self) {
        self.ask(Request::Command(GroupCommand::Common(Command::Resign))).await;
    }

    /// Hands leadership over, if this member leads.
    pub async fn transfer(&self, to: NodeId) {
        self.ask(Request::Command(GroupCommand::Common(Command::Transfer(to)))).await;
    }

    /// Replaces the keys.
    pub async fn rekey(&self, keyring: Keyring) {
        self.ask(Request::Rekey(keyring)).await;
    }

    /// Leaves the group. Others know at once; without this, they find out after some seconds.
    pub async fn leave(&self) {
        self.ask(Request::Command(GroupCommand::Leave)).await;
    }

    /// Waits until this member has left the group or was killed. Then everything that it had to send is sent.
    pub async fn ended(&self) {
        self.requests.closed().await;
    }

    /// Ends this member without leaving the group, as a crash does.
    pub fn kill(&self) {
        self.task.abort();
    }

    async fn ask(&self, request: Request) {
        // The task of a member that has left is gone, and so is what was asked.
        let _ = self.requests.send(request).await;
    }
}

fn encode(address: SocketAddr) -> Address {
    match address.ip() {
        IpAddr::V4(ip) => Address::V4(ip.octets(), address.port()),
        IpAddr::V6(ip) => Address::V6(ip.octets(), address.port()),
    }
}

fn decode(address: Address) -> SocketAddr {
    match address {
        Address::V4(ip, port) => SocketAddr::from((ip, port)),
        Address::V6(ip, port) => SocketAddr::from((ip, port)),
    }
}

fn peer(group: &Group, record: &Record) -> GroupPeer {
    let &Record { id, address, rank, stands, .. } = record;
    GroupPeer { id, address: decode(address), rank, stands, suspected: group.suspects(id) }
}
