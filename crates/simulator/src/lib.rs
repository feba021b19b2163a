//! A deterministic discrete-event world that runs any [`Process`](election::Process).
//!
//! One seed decides everything: the same seed gives the same events in the same order and the same
//! [`trace_hash`](Ledger::trace_hash) on every machine.

mod detector;
mod facts;
mod fault;
mod fingerprint;
pub mod invariants;
mod ledger;
pub mod measure;
mod multicast;
mod network;
mod observer;
mod occurrence;
mod outcome;
mod outside;
mod queue;
mod scenario;
mod statistics;
mod storm;
mod world;

pub use detector::Detector;
pub use facts::Facts;
pub use fault::{Fault, Partition, Plan, parse_interval, parse_moment, parse_rerank, slot_of};
pub use invariants::{Invariant, Violation};
pub use ledger::{Belief, Ledger, Reign};
pub use multicast::Multicast;
pub use network::{Cut, Latency};
pub use observer::{Happening, Observer, Said, Why};
pub use outcome::{Messages, Outcome};
pub use queue::Queue;
pub use scenario::{Ranking, Scenario};
pub use statistics::{Estimate, Tally, mean, proportion};
pub use storm::{Storm, storm};
pub use world::{End, World};
