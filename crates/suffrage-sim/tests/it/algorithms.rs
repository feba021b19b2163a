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

/// The number of storms of an algorithm: `SUFFRAGE_SEEDS`, or 1,000.
#[allow(clippy::disallowed_methods, reason = "the environment sets the number of seeds")]
pub(crate) fn seeds() -> u64 {
    std::env::var("SUFFRAGE_SEEDS").map_or(1_000, |seeds| seeds.parse().expect("SUFFRAGE_SEEDS is a number"))
}
