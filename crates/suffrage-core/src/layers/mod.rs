//! Processes made of processes.
//!
//! ```text
//!                      ┌──────────── Stack<A> = Watched<detectors::Any, Bimodal<A>> ────────────┐
//!   messages, timers ─▶│ a detector's ──▶ detectors::Any ── suspect, restore ──┐                │
//!                      │ the rest ──────▶ Bimodal ──────────────────────────▶  A                │
//!                      └─────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A layer's messages, timers and saved state are those of its parts side by side; each part is handed
//! a [`Context`](crate::Context) of its own. A layer that is not wanted lets everything through, so that
//! one type serves all combinations; who wants no layer at all runs the bare algorithm.

mod kinds;
mod stack;
mod watched;

pub(crate) use kinds::{Concatenation, Lists};
pub use stack::{Options, Stack};
pub use watched::{Layered, LayeredTimer, SavedParts, Watched};
