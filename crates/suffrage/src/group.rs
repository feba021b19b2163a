//! Large groups: gossip membership, and a leader that the members believe in.

use std::net::{Ipv4Addr, SocketAddr};

use suffrage_core::NodeId;
use suffrage_node::group::{GroupConfig, GroupLeader, GroupMember, GroupPeer, GroupStatus};

use crate::{Error, Keyring};

/// A member of a large group: hundreds or thousands of programs that find each other by gossip, and believe in a leader.
///
/// **This is not the quorum lease: two members can lead at the same time.** In a partition each side has a leader, and a
/// leader that was cut off believes in itself until it hears of its successor. Where two leaders do harm, use an
/// [`Election`](crate::Election). docs/groups.md of the project has the contract.
///
/// ```
/// use suffrage::{Group, Keyring};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), suffrage::Error> {
/// let keys = Keyring::generate()?;
/// # let any = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
/// let first = Group::builder("telemetry").listen(any).key(keys.clone()).join().await?;
/// let seed = first.address().to_string(); // `host:port` in production
/// let mut second = Group::builder("telemetry").listen(any).key(keys).seed(seed).join().await?;
/// let leader = loop {
///     if let Some(leader) = second.leader_changed().await {
///         break leader;
///     }
/// };
/// println!("{} leads for now, at {}", leader.id, leader.address);
/// # Ok(())
/// # }
/// ```
///
/// Clones are the same member. When the last one is dropped, the member leaves the group.
#[derive(Clone, Debug)]
pub struct Group {
    member: GroupMember,
}

/// The settings of a member of a [`Group`].
#[derive(Clone, Debug)]
pub struct GroupBuilder {
    name: String,
    listen: SocketAddr,
    advertise: Option<SocketAddr>,
    id: Option<NodeId>,
    seeds: Vec<String>,
    keyring: Option<Keyring>,
    rank: i64,
    stands: bool,
}

impl GroupBuilder {
    /// The address to listen on; 0.0.0.0:7500 by default, which needs [`advertise`](GroupBuilder::advertise).
    pub fn listen(mut self, address: SocketAddr) -> GroupBuilder {
        self.listen = address;
        self
    }

    /// The address at which other members reach this one, if it is not the one to listen on.
    pub fn advertise(mut self, address: SocketAddr) -> GroupBuilder {
        self.advertise = Some(address);
        self
    }

    /// The id of this member: unique in the group, below 2^63. By default a hash of its address.
    pub fn id(mut self, id: impl Into<NodeId>) -> GroupBuilder {
        self.id = Some(id.into());
        self
    }

    /// Adds the address of a member to ask, as `host:port`. The first member of a group needs none.
    pub fn seed(mut self, address: impl Into<String>) -> GroupBuilder {
        self.seeds.push(address.into());
        self
    }

    /// The keys of the group.
    pub fn key(mut self, keyring: Keyring) -> GroupBuilder {
        self.keyring = Some(keyring);
        self
    }

    /// The rank of this member, 0 by default. Of the live members, one with the greatest rank is elected; a leader stays
    /// when a better member joins.
    pub fn rank(mut self, rank: i64) -> GroupBuilder {
        self.rank = rank;
        self
    }

    /// Lets this member take part without being elected.
    pub fn never_lead(mut self) -> GroupBuilder {
        self.stands = false;
        self
    }

    /// Starts the member. It asks its seeds until one of them answers.
    pub async fn join(self) -> Result<Group, Error> {
        let GroupBuilder { name, listen, advertise, id, seeds, keyring, rank, stands } = self;
        let keyring = keyring.ok_or(Error::NoKey)?.wire().clone();
        let config = GroupConfig { name, listen, advertise, id, seeds, keyring, rank, stands };
        GroupMember::join(config).await.map(|member| Group { member }).map_err(Error::network)
    }
}

impl Group {
    /// Configures a member of the group with this name. Groups with different names do not hear each other.
    pub fn builder(name: impl Into<String>) -> GroupBuilder {
        GroupBuilder {
            name: name.into(),
            listen: SocketAddr::from((Ipv4Addr::UNSPECIFIED, 7500)),
            advertise: None,
            id: None,
            seeds: Vec::new(),
            keyring: None,
            rank: 0,
            stands: true,
        }
    }

    /// The id of this member.
    pub fn id(&self) -> NodeId {
        self.member.id()
    }

    /// The address of this member.
    pub fn address(&self) -> SocketAddr {
        self.member.address()
    }

    /// The leader that this member believes in. Another member can believe in another one.
    pub fn leader(&self) -> Option<GroupLeader> {
        self.member.leader()
    }

    /// True if this member believes that it leads. Another member can believe the same of itself.
    pub fn leads(&self) -> bool {
        self.member.leads()
    }

    /// Waits until the leader is another one than at the last call of this clone, and returns it.
    pub async fn leader_changed(&mut self) -> Option<GroupLeader> {
        self.member.leader_changed().await
    }

    /// The members that this member believes alive, itself included, in order of id. Empty after [`leave`](Group::leave).
    pub async fn members(&self) -> Vec<GroupPeer> {
        self.member.members().await
    }

    /// The state and the counters of this member; `None` after [`leave`](Group::leave).
    pub async fn status(&self) -> Option<GroupStatus> {
        self.member.status().await
    }

    /// Changes the rank of this member, for the next election.
    pub async fn set_rank(&self, rank: i64) {
        self.member.set_rank(rank).await;
    }

    /// Stops leading, if this member leads, and does not stand for ten seconds.
    pub async fn resign(&self) {
        self.member.resign().await;
    }

    /// Hands leadership over to another member, if this member leads.
    pub async fn transfer(&self, to: NodeId) {
        self.member.transfer(to).await;
    }

    /// Replaces the keys: see [`Keyring`] for a rotation.
    pub async fn rekey(&self, keyring: Keyring) {
        self.member.rekey(keyring.wire().clone()).await;
    }

    /// Leaves the group. The others know at once; without this, they find out after some seconds.
    pub async fn leave(&self) {
        self.member.leave().await;
    }
}
