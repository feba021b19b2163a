//! The algorithms, one file each; every file opens with its source, its model and its messages.

pub mod announce;
pub mod bully;
pub mod candidate_ordinary;
pub mod chang_roberts;
pub mod collecting_ring;
pub mod grid_quorum;
pub mod gupta;
pub mod invitation;
pub mod maximum_ring;
pub mod modified_bully;
pub mod next_in_line;
mod outlook;
mod parameters;
mod poll;
pub mod quorum_lease;
pub mod raft;
pub mod ring;
pub mod soft_state;
pub mod stable_leader;
#[cfg(test)]
mod subject;
pub mod suppress;
mod tenure;

pub use outlook::Outlook;
use poll::Poll;
use tenure::Tenure;
