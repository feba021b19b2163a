//! The vocabulary of leader election as state machines without I/O.
//!
//! An algorithm is a [`Process`]. A process gets one input at a time (a message, a timer, a suspicion of the failure
//! detector, a command) and a [`Context`], through which it causes effects. A process has no clock, socket, thread or
//! randomness of its own. The same code therefore runs in the simulator, under the model checker and on the wire.
//!
//! ```text
//!   inputs                      ┌───────────┐   effects, in order
//!   on_start, on_message,  ───▶ │  Process  │ ───▶ send, multicast, set_timer, cancel_timer,
//!   on_timer, on_suspect, …     └───────────┘      save, announce
//! ```
//!
//! - [`Process`], [`Message`], [`Timer`], [`Context`], [`Effects`]: inputs and outputs of a process. The macros
//!   [`message_kinds`] and [`timer_indices`] implement `Message` and `Timer`.
//! - [`Announcement`]: a process's published belief about the leader, in the same words for all algorithms.
//! - [`Roster`], [`View`], [`NodeId`], [`Rank`]: the group, a member's knowledge of it, and the order of candidates.
//! - [`Algorithm`], [`Contract`], [`Parameter`]: a process with its assumptions, promises, costs and options, as data.
//! - [`detectors`], [`multicast`], [`layers`]: failure detectors and multicasts, and their composition with an algorithm.
//! - [`Recorder`], [`testing`]: effects as data, for tests of single transitions and for drivers.
//! - [`SaveQueue`]: the saves of a process that does not wait for its disk, for drivers.
//! - [`Time`], [`Span`], [`Rng`], [`struct@Hash`]: time, randomness and hashing with the same results on every machine.
//! - [`Grid`], [`Overlay`]: quorums of a grid, and sampling by random walks.
//! - [`Figure`]: metrics that an algorithm defines for itself.

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
mod save_queue;
pub mod testing;
mod time;
mod view;

pub use algorithm::{
    Algorithm, BadParameter, CommandStorm, Disruption, Leases, Parameter, SWITCH, Settings, Visitor,
};
pub use contract::{
    Choice, Contract, Cost, DRIFT_BOUND, Detection, Electorate, Expense, Formula, Safety, Synchrony, Topology,
};
pub use figure::{Figure, Member, Value};
pub use grid::Grid;
pub use hash::Hash;
pub use overlay::{Overlay, Walk};
pub use process::{Announcement, Command, Context, Effects, Kind, Message, Process, Start, Term, Timer};
pub use rank::{Attribute, NodeId, Quality, Rank, compact_ids};
pub use recorder::{Effect, Recorder};
pub use rng::Rng;
pub use save_queue::SaveQueue;
pub use time::{Span, Time};
pub use view::{Roster, View};
