//! Processes composed of processes.
//!
//! ```text
//!                      ┌──────────── Stack<A> = Watched<detectors::Any, Bimodal<A>> ────────────┐
//!   messages, timers ─▶│ a detector's ──▶ detectors::Any ── suspect, restore ──┐                │
//!                      │ the rest ──────▶ Bimodal ──────────────────────────▶  A                │
//!                      └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! The messages and timers of a layer are those of either part. Its saved state is that of both parts. Each part
//! gets a [`Context`](crate::Context) of its own. A layer can be switched off and then forwards everything, so that
//! one type serves all combinations. A driver that needs no layer runs the bare algorithm.

mod kinds;
mod stack;
mod watched;

pub(crate) use kinds::{Concatenation, KindLists};
pub use stack::{Options, Stack};
pub use watched::{Layered, LayeredTimer, SavedParts, Watched};
