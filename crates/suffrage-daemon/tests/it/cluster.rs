//! Real clusters of real processes on loopback, at addresses that no other test has. Whatever a test starts ends with it, also
//! if it fails: every process is stopped by its number.

mod commands;
mod demo;
mod failovers;
mod restarts;
pub(crate) mod support;
