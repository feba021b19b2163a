//! Exactly one active instance of something, without any other service: leader election by quorum lease,
//! embedded in your program.
//!
//! A few [`Node`]s, three or five of which vote, know each other's addresses and share a key. At each of them a
//! program joins [`Election`]s by name and asks to [`lead`](Election::lead). One of them gets a [`Leadership`],
//! for as long as its node can renew the lease; the others wait. When it is dropped, or its node dies, the next
//! one gets it.
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
//! drop(leadership); // hands over
//!
//! let again = election.lead().await?;
//! assert!(again.token() > first, "every leader's token is greater than all before it");
//! # Ok(())
//! # }
//! ```
//!
//! # What is promised
//!
//! At no moment are two [`Leadership`]s of one name valid ([`Leadership::is_valid`]), at whatever nodes, as long
//! as clocks run within 1% of true time and voters keep their disks. It does not matter how messages are lost
//! or late, how nodes crash, or how long a program is paused: a `Leadership` holds a moment of the machine's
//! clock, not a flag that somebody would have to clear.
//!
//! # What is not, and what to do about it
//!
//! A program may look at `is_valid`, be paused for a minute, and then write. No election can prevent that; the
//! thing that is written to can. Give it the [`Token`] with every write, and let it refuse all that are smaller
//! than the greatest it has seen: see [`Fence`] and [`Fenced`], and for a table in a database:
//!
//! ```sql
//! -- once: a column for the greatest token that has written this row
//! ALTER TABLE account ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
//!
//! -- every write: $2 is the token. No row is updated if a later leader has written: stop, you lead no more.
//! -- It protects this row only: another row does not know of that leader before it has written there, too.
//! UPDATE account SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2;
//!
//! -- or one fence for everything a leader does. Once: a row with token 0, without which nobody could write.
//! CREATE TABLE leader_fence (name VARCHAR(255) PRIMARY KEY, token BIGINT NOT NULL);
//! INSERT INTO leader_fence (name, token) VALUES ('nightly report', 0);
//!
//! -- first in each transaction: $1 is the token. No row is updated: roll back, and stop.
//! UPDATE leader_fence SET token = $1 WHERE name = 'nightly report' AND token <= $1;
//! ```
//!
//! How many rows were updated must mean how many were found. MySQL and MariaDB count those that changed instead,
//! and the second write with one token may change nothing: connect with `CLIENT_FOUND_ROWS` there.
//!
//! # Other algorithms
//!
//! An algorithm of your own runs on the same sockets, clocks and disks: crates `suffrage-core`, `suffrage-sim` and
//! `suffrage-node`, whose example `custom_algorithm` shows it.
//!
//! # Where it runs
//!
//! In a tokio runtime: a node is one task of the runtime that [`NodeBuilder::start`] is called in. If the
//! runtime's threads are blocked for longer than a lease, its leases end, as they should; use
//! `spawn_blocking` for work that blocks.
#![allow(
    clippy::disallowed_types,
    clippy::disallowed_methods,
    reason = "this is the edge: programs of several threads use it"
)]

mod builder;
mod election;
mod error;
mod fence;
mod leadership;
mod supervisor;

pub use suffrage_core::{NodeId, Span, Time};
pub use suffrage_lease::Token;
pub use suffrage_net::{Dropped, Key, Keyring, Snapshot};
pub use suffrage_node::lease::{
    ElectionCounters, InvalidConfig, NodeMetrics, NodeState, Record, Settings, Status, VoterStatus, Why,
};

pub use self::builder::{Memory, Node, NodeBuilder};
pub use self::election::{Election, ElectionBuilder, Leader, Watch};
pub use self::error::Error;
pub use self::fence::{Fence, Fenced, Presented, Stale};
pub use self::leadership::Leadership;
pub use self::supervisor::{Progress, Supervisor};
