//! A model checker for small groups, which runs the same processes as the simulator.
//!
//! An [`ElectionModel`] is a few processes and a budget of events ([`Bounds`]). From each [`ModelState`] the checker takes every
//! possible [`Step`]: a message in flight arrives, or arrives and stays in flight; a timer fires; a process gets a
//! command, or crashes and restarts; time advances. [`check`] visits all reachable states, nearest first (breadth-first
//! search by stateright). It reports which [`Claim`]s held and which states were seen, and the shortest schedule to each
//! violation.
//!
//! How faults are modelled:
//! - *Loss.* A message that never arrives is lost. This needs no step of its own, because no step is mandatory. Only
//!   claims about the end of a run ([`Claim::QuietMeansAgreed`]) make loss a step.
//! - *Delay and order.* Messages in flight have no order and no age, unless the model is synchronous.
//! - *Pauses.* A timer fires when it is due or at any later time. The timer of a paused process is late, so every pause
//!   is among the schedules.
//! - *Crashes.* A process crashes and restarts in one step, with its disk or without. Since the process may have been
//!   paused before, this includes long absences. A process that never restarts is one that takes no further step.
//! - *Randomness.* Draws are always the shortest, see `seeds.rs`. Timers may be late, so longer back-offs are among the
//!   schedules, except in a synchronous model, where timers are on time.
//! - *Time.* See [`Clocks`].
//!
//! There are no failure detectors: elections are started by the application or by time-outs.
//!
//! What a check proves: a promise holds in every schedule within the bounds if the space was
//! [`exhausted`](Extent::Exhausted), and in the visited part otherwise. States are identified by 64 bits of a hash: among
//! ten million states, the probability that any two collide is below one in 100,000.

mod bounds;
mod claims;
mod model;
mod report;
mod schedule;
mod seeds;
mod state;
mod trace;

pub use bounds::{Bounds, Clocks, LEASE_TICK, NodeCommand, Rates, SHORT_LEASES};
pub use claims::Claim;
pub use model::{ElectionModel, Step};
pub use report::{CheckReport, ClaimOutcome, Extent, Limits, SearchProgress, Verdict, check};
pub use state::{Envelope, History, ModelState, Node};
pub use trace::{ScheduleEvent, ScheduleEventKind};
