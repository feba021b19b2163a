//! A deterministic discrete-event world that runs any [`Process`](election::Process).
//!
//! One seed decides everything: the same seed gives the same events in the same order and the same
//! [`trace_hash`](Ledger::trace_hash) on every machine.

mod clocks;
mod contenders;
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
mod runner;
mod scenario;
pub mod statistics;
mod storm;
mod suite;
mod torture;
mod world;

pub use contenders::Contenders;
pub use detector::Detector;
pub use facts::Facts;
pub use fault::{
    Fault, Partition, Plan, Whom, order, parse_interval, parse_jump, parse_moment, parse_rerank,
    parse_transfer, parse_whom, slot_of,
};
pub use invariants::{Invariant, Violation};
pub use ledger::{Accord, Belief, Ledger, Reign, Traffic};
pub use multicast::Multicast;
pub use network::{Cut, Latency};
pub use observer::{Happening, Observer, Said, Why};
pub use outcome::{Messages, Outcome, Window};
pub use queue::Queue;
pub use runner::{Runner, runner};
pub use scenario::{Ranking, Scenario};
pub use statistics::{Estimate, RunningMean, mean, proportion, quantiles};
pub use storm::{Storm, keep_disks, storm};
pub use suite::{Course, TRIALS, Trial};
pub use torture::{MOST_MEMBERS, Ordeal, Victim, effective, shrink};
pub use world::{End, World};
