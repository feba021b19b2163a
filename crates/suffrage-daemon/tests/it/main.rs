//! The daemon in this process, nodes and commands as real processes, and both under faults.
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "tests of the edge")]
#![cfg(target_os = "linux")]

mod cluster;
mod daemon;
mod engines;
mod group;
mod network_faults;
mod node;
mod validate;

use suffrage_cli::testing::{self, Ran};

/// Runs a command line of `suffrage`, without starting a process.
fn run(line: &str) -> Ran {
    testing::run(suffrage_daemon::run, line)
}

/// Runs a command line of `suffrage` that must succeed.
fn succeed(line: &str) -> String {
    testing::succeed(suffrage_daemon::run, line)
}
