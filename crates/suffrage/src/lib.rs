//! Leader election by quorum lease, embedded in your program: exactly one active instance of something, without another
//! service.
//!
//! A cluster has a few [`Node`]s, of which one, three or five vote. The nodes know the addresses of the voters and share
//! a key. A program joins an [`Election`] by name at its node and asks to [`lead`](Election::lead). One candidate gets a
//! [`Leadership`], for as long as its node renews the lease; the others wait. The next candidate leads when the
//! leadership is dropped or its node dies.
//!
//! ```
//! use std::time::Duration;
//! use suffrage::{Keyring, Node};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), suffrage::Error> {
//! # // README begins
//! let node = Node::builder(1).key(Keyring::generate()?).in_memory().start().await?; // a cluster of one voter
//! let election = node.election("billing").ttl(Duration::from_secs(2)).join().await?;
//! let leadership = election.lead().await?; // returns when this program leads
//! assert!(leadership.is_valid()); // turns false by itself, at the end of the lease
//! println!("leading with token {} for {:?}", leadership.token(), leadership.valid_for());
//! # // README ends
//! let first = leadership.token();
//! drop(leadership); // releases the lease
//!
//! let again = election.lead().await?;
//! assert!(again.token() > first, "every leadership has a greater token than all before it");
//! # Ok(())
//! # }
//! ```
//!
//! A program that shares its machine with a node of the cluster (`suffrage node`) needs no node of its own: [`Cluster`]
//! leads through that one, with the same [`Election`] and [`Leadership`].
//!
//! In production, the nodes of a cluster read the same `suffrage.toml` as `suffrage node`:
//! [`NodeBuilder::from_file`].
//!
//! # Guarantees
//!
//! At no moment are two [`Leadership`]s of one name [valid](Leadership::is_valid), at any nodes, as long as clocks run
//! within 1% of true time and voters keep their data folders. Lost or late messages, crashes and pauses do not matter: a
//! `Leadership` holds a moment of the machine's clock, not a flag that somebody would have to clear.
//!
//! # Limits, and fencing
//!
//! A program may check `is_valid`, be paused for a minute, and then write. No election can prevent that; the resource
//! that is written to can. Send the [`Token`] with every write, and let the resource reject tokens that are smaller than
//! the greatest one it has seen: see [`Fence`] and [`Fenced`], and for a table in a database:
//!
//! ```sql
//! -- once: a column for the greatest token that has written this row
//! ALTER TABLE account ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
//!
//! -- every write: $2 is the token. If no row is updated, a later leader has written: stop, the leadership has ended.
//! -- This protects one row: a later leader is not known to another row before it has written that row.
//! UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2;
//!
//! -- or one fence for all writes of a leader. Once: a row with token 0, which every write needs.
//! CREATE TABLE leader_fence (name VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL);
//! INSERT INTO leader_fence (name, token) VALUES ('nightly report', 0);
//!
//! -- first in each transaction: $1 is the token. If no row is updated: roll back, and stop.
//! UPDATE leader_fence SET token = $1 WHERE name = 'nightly report' AND token <= $1;
//! ```
//!
//! The number of updated rows must be the number of rows found. MySQL and MariaDB count changed rows by default, and a
//! second write with the same token may change nothing: connect with `CLIENT_FOUND_ROWS`.
//!
//! # Runtime
//!
//! A node is one task of the tokio runtime in which [`NodeBuilder::start`] is called. If the threads of the runtime are
//! blocked for longer than a lease, the lease ends: use `spawn_blocking` for blocking work.
//!
//! # Large groups
//!
//! A [`Group`] has thousands of members and no voters: its members find each other by gossip and believe in a leader. It
//! costs about 100 bytes a second, and promises less: two members can lead at the same time.
//!
//! # Other algorithms
//!
//! The crates `suffrage-core`, `suffrage-sim` and `suffrage-node` run other algorithms on the same sockets, clocks and
//! disks. The example `custom_algorithm` of `suffrage-node` shows one.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the edge: programs of several threads use it"
)]

mod builder;
mod cluster;
mod election;
pub mod engines;
mod error;
mod fence;
mod group;
mod keys;
mod leadership;
mod node;
mod participation;
mod supervisor;

// Every type in a public signature is nameable here, and names no other internal type in turn: `cargo xtask test`
// checks the links of the documentation.
#[doc(inline)]
pub use suffrage_core::NodeId;
#[doc(inline)]
pub use suffrage_lease::Token;
#[doc(inline)]
pub use suffrage_net::{Dropped, Snapshot};
#[doc(inline)]
pub use suffrage_node::group::{GroupCounters, GroupLeader, GroupPeer, GroupStatus};
#[doc(inline)]
pub use suffrage_node::lease::{
    DurationHistogram, ElectionCounters, HistoryEntry, Leader, LeaderValue, MismatchedNode, NodeMetrics,
    NodeState, NotVoting, Refusal, RefusalReason, Status, VoterContact, VoterStatus, Why,
};

pub use self::builder::{MemberAddress, MemoryStorage, NodeBuilder};
pub use self::cluster::Cluster;
pub use self::election::{Election, ElectionBuilder, Watch};
pub use self::error::{ConfigFileError, ConfigProblem, Error};
pub use self::fence::{Fence, Fenced, PresentedToken, StaleToken};
pub use self::group::{Group, GroupBuilder};
pub use self::keys::{Key, Keyring};
pub use self::leadership::Leadership;
pub use self::node::Node;
pub use self::supervisor::{CommandExit, Supervisor, SupervisorEvent};
