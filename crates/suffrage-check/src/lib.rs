//! Checks every schedule of a small world, with the very processes that the simulator runs.
//!
//! A [`Universe`] is a few processes and a budget of what may happen to them ([`Bounds`]). From each
//! [`World`] in it, every [`Step`] that is possible is taken: any message in flight arrives, or arrives and
//! stays in flight, a timer runs out, somebody calls an election, crashes and comes back, time goes on.
//! [`check`] looks at all worlds that can be reached, the nearest first (stateright's breadth-first search), and
//! tells what always held, what was seen, and the shortest schedule to what should not have happened.
//!
//! What stands for what:
//! - *Loss.* A message that never arrives is lost. Nothing has to be done for that: there is no step that one
//!   must take. Only where the end of a run is looked at ([`Claim::QuietMeansAgreed`]) losing is a step.
//! - *Delay and order.* Messages in flight have no order and no age, unless the world is synchronous.
//! - *Pauses.* A timer runs out when its time has come, or any time later. One whose process is paused is
//!   late, so every pause is among the schedules.
//! - *Crashes.* A process crashes and comes back in one step, with its disk or without. Since it may have
//!   been paused before, that is as good as being away for long; one that never comes back is one that does
//!   nothing more.
//! - *Chance.* Draws are always short, see `chance.rs`. As timers may be late, longer back-offs are among the
//!   schedules all the same; not so in a synchronous world, where timers are on time.
//! - *Time.* See [`Clocks`].
//!
//! Failure detectors there are none: elections are called by the application or by time-outs.
//!
//! What that proves: that a promise holds in every schedule within the bounds, if the space was
//! [`exhausted`](Extent::Exhausted), and as far as it was looked at otherwise. States are told apart by 64 bits
//! of a hash: among ten million, the chance that any two are taken for one is below one in 100,000.

mod bounds;
mod chance;
mod claims;
mod report;
mod schedule;
mod universe;
mod world;

pub use bounds::{Bounds, Clocks, LEASE_TICK, Rates, SHORT_LEASES};
pub use claims::Claim;
pub use report::{Extent, Limits, Outcome, Report, Tally, Verdict, check};
pub use universe::{Step, Universe};
pub use world::{History, Letter, Node, World};
