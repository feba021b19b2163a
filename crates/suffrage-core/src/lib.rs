//! Leader election as state machines without I/O.
//!
//! An algorithm here is a [`Process`]: a value that is handed one input at a time (a message, a
//! timer, a word from the failure detector, a command) together with a [`Context`] through which
//! it causes effects. It has no clock, no socket, no thread and no randomness of its own, so the
//! same code runs in the simulator, under a model checker and on the wire.
//!
//! ```text
//!   inputs                      ┌───────────┐   effects, in order
//!   on_start, on_message,  ───▶ │  Process  │ ───▶ send, multicast, set_timer, cancel_timer,
//!   on_timer, on_suspect, …     └───────────┘      save, announce
//! ```
//!
//! - What a process is: [`Process`], [`Message`], [`Timer`], [`Context`]. The macros [`message_kinds`] and
//!   [`timer_indices`] implement `Message` and `Timer`.
//! - What it knows of the others: [`View`] over a [`Roster`], ordered by [`Rank`].
//! - What the world sees of it: [`Announcement`].
//! - What it promises, as data: [`Contract`].
//! - What the catalog of algorithms knows of each: [`Algorithm`].
//! - What can stand in front of one: [`detectors`] and [`multicast`], put together in [`layers`].

mod algorithm;
mod contract;
pub mod detectors;
mod figure;
mod grid;
mod hash;
pub mod layers;
mod macros;
pub mod multicast;
mod overlay;
pub mod parameters;
mod process;
mod rank;
mod recorder;
mod rng;
pub mod testing;
mod time;
mod view;

pub use algorithm::{Algorithm, BadParameter, Leases, Parameter, SWITCH, Settings, Visitor};
pub use contract::{
    Choice, Contract, Cost, DRIFT_BOUND, Detection, Electorate, Expense, Formula, Safety, Synchrony, Topology,
};
pub use figure::{Figure, Member, Value};
pub use grid::Grid;
pub use hash::Hash;
pub use overlay::{Overlay, Walked};
pub use process::{Announcement, Command, Context, Effects, Kind, Message, Process, Start, Term, Timer};
pub use rank::{Attribute, NodeId, Quality, Rank};
pub use recorder::{Effect, Recorder};
pub use rng::Rng;
pub use time::{Span, Time};
pub use view::{Roster, View};
