//! Leader election algorithms as state machines without I/O, one file each.
//!
//! Each file opens with the source of the algorithm, its model, its messages, its cost, and its promises. The quorum
//! lease is the crate `suffrage_lease`; [`quorum_lease`] makes it an algorithm of the catalog.
//! `cargo run --release -p suffrage-lab -- gallery` writes one page that plays all of them, and shows what breaks each.
//!
//! - [`catalog`]: all algorithms by name, the quorum lease included.
//! - The bully family: [`bully`], [`modified_bully`], [`next_in_line`], [`candidate_ordinary`].
//! - Rings: [`chang_roberts`], [`collecting_ring`], [`maximum_ring`]; [`ring`] holds their common part.
//! - Groups that merge: [`invitation`]. A stable leader: [`stable_leader`].
//! - Soft state over multicast: [`announce`], [`suppress`]; [`soft_state`] holds their common part.
//! - One leader per term: [`raft`], [`grid_quorum`].
//! - One leader with high probability: [`gupta`], [`randomized`], [`probabilistic_quorum`].

pub mod announce;
pub mod bully;
pub mod candidate_ordinary;
pub mod catalog;
pub mod chang_roberts;
pub mod collecting_ring;
pub mod grid_quorum;
pub mod gupta;
pub mod invitation;
mod leader_belief;
mod leader_liveness;
pub mod maximum_ring;
pub mod modified_bully;
pub mod next_in_line;
mod poll;
pub mod probabilistic_quorum;
pub mod quorum_lease;
pub mod raft;
pub mod randomized;
pub mod ring;
pub mod soft_state;
pub mod stable_leader;
pub mod suppress;

pub use leader_belief::LeaderBelief;
use leader_liveness::LeaderLiveness;
use poll::Poll;
