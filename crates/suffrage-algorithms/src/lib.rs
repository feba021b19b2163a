//! Leader election algorithms as state machines without I/O, one file each. Every file opens with its source, its
//! model and its messages. [`catalog`] has them all by name.

pub mod announce;
pub mod bully;
pub mod candidate_ordinary;
pub mod catalog;
pub mod chang_roberts;
pub mod collecting_ring;
pub mod grid_quorum;
pub mod gupta;
pub mod invitation;
pub mod maximum_ring;
pub mod modified_bully;
pub mod next_in_line;
mod outlook;
mod poll;
pub mod probabilistic_quorum;
pub mod raft;
pub mod randomized;
pub mod ring;
pub mod soft_state;
pub mod stable_leader;
pub mod suppress;
mod tenure;

pub use outlook::Outlook;
use poll::Poll;
use tenure::Tenure;
