//! The papers' mathematics and experiments.
//!
//! A [`study`] says what is to be measured, as a list of points that anybody may run in any order; what
//! was measured becomes [`report`]s: the paper's claim, our figure, and whether the claim held. Nothing
//! here reads a clock, starts a thread or writes a file: reports are strings, and the same seeds give the
//! same strings on every machine.

pub mod gupta2000;
pub mod plot;
pub mod report;
pub mod reproduction;
pub mod statistics;
pub mod study;
pub mod trial;
