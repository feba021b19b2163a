//! A deterministic discrete-event world that runs any [`Process`](suffrage_core::Process).
//!
//! One seed decides everything: the same seed gives the same events in the same order and the same
//! [`trace_hash`](Ledger::trace_hash) on every machine.

mod clocks;
mod contenders;
mod detector;
mod environment;
mod facts;
mod fault;
mod fingerprint;
pub mod invariants;
mod ledger;
pub mod measure;
mod multicast;
mod network;
mod observer;
mod outcome;
mod queue;
mod runner;
mod scenario;
mod schedule;
mod statistics;
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
pub use observer::{Observer, Said, TraceEvent, Why};
pub use outcome::{Messages, Outcome, Window};
pub use queue::Queue;
pub use runner::{Runner, borrowed, runner};
pub use scenario::{Ranking, Scenario};
pub use statistics::{Estimate, Tally, mean, proportion, quantile};
pub use storm::{Storm, keep_disks, storm};
pub use suite::{TRIALS, Trial, TrialRun};
pub use torture::{MOST_MEMBERS, TortureCase, TortureTarget, effective, shrink};
pub use world::{End, World};
