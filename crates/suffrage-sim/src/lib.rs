//! A deterministic discrete-event simulator that runs any [`Process`](suffrage_core::Process).
//!
//! One seed decides everything: the same seed gives the same events in the same order and the same
//! [`trace_hash`](Ledger::trace_hash) on every machine.
//!
//! - [`Scenario`], [`Fault`], [`Latency`], [`Detector`], [`Multicast`]: a run as data. [`runner`] runs a scenario with
//!   an algorithm that is given by name.
//! - [`World`]: the event loop. `queue.rs` is the event queue, `environment.rs` holds network, clocks, disks and timers,
//!   and `schedule.rs` applies faults and commands.
//! - [`Facts`], [`invariants`]: the true state, which no process sees, and the invariants on it, one a file.
//! - [`Ledger`], [`Outcome`]: the counts of a run, and its result. `statistics.rs` computes means and shares
//!   with their intervals.
//! - [`TortureCase`], [`Storm`]: scenarios that a seed decides, and smaller scenarios that break the same promise.
//! - [`Trial`]: the scenarios in which all algorithms are compared.
//! - [`measure`]: failure detectors, multicasts and the fail-over of a lease, measured alone.
//! - [`Observer`]: hooks for traces and diagrams.

mod clocks;
mod contenders;
mod crashable_effects;
mod detector;
mod environment;
mod facts;
mod fault;
mod fingerprint;
pub mod groups;
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
mod state;
pub mod statistics;
mod storm;
mod suite;
mod torture;
mod world;

pub use contenders::Contenders;
pub use detector::Detector;
pub use facts::Facts;
pub use fault::{CrashPoint, Fault, Plan, sort_plan};
pub use invariants::{Invariant, Violation};
pub use ledger::{AgreementPeriod, Belief, LeadershipPeriod, Ledger, Traffic};
pub use multicast::Multicast;
pub use network::{Cut, Latency};
pub use observer::{Content, DropReason, Observer, TraceEvent, TracedMessage};
pub use outcome::{Messages, Outcome, Window};
pub use queue::Queue;
pub use runner::{Runner, borrow_settings, runner};
pub use scenario::{Ranking, Scenario, grammar};
pub use statistics::{Estimate, RunningMean, mean, proportion, quantiles};
pub use storm::{Storm, keep_disks, storm};
pub use suite::{TRIALS, Trial, TrialRun};
pub use torture::{MAX_MEMBERS, TortureCase, TortureTarget, effective_faults, shrink};
pub use world::{End, World};
