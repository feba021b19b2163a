//! The algorithms of the catalog in a simulated world.

mod announcements;
mod calls;
mod composition;
mod exact_counts;
mod faults;
mod grid_quorum;
mod gupta;
mod invitation;
mod quorum_lease;
mod raft;
mod randomized;
mod stability;
