//! Real clusters of real processes on loopback, at ports that are free. Whatever a test starts ends with it, also
//! if it fails: every process is stopped by its number.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]
#![cfg(target_os = "linux")]

mod commands;
mod demo;
mod failovers;
mod members;
mod restarts;
mod support;
