//! The program `suffrage`: a node as a service, commands that run only on the leader, and queries of nodes.
//!
//! [`run`](run()) is the program as a function, so that tests run commands without starting processes.
//!
//! - [`daemon`]: the service: HTTP API, TLS, health, metrics, logs, systemd notification. The sessions of HTTP clients are
//!   `suffrage_lease::sessions`.
//! - `node.rs`: `suffrage node` and `suffrage config check`. `run.rs`: `suffrage run`. `keygen.rs`: `suffrage keygen`.
//! - `group.rs`: `suffrage group`, a member of a large group.
//! - `client.rs`: `suffrage leader`, `status`, `why`, `elections`, `watch`, `resign` and `transfer`.
//! - `demo.rs`, `demo_node.rs`: `suffrage demo` and its processes. `lab.rs`: starts `suffrage-lab`.
//! - `command.rs`: the command line. `cluster.rs`: a node of the cluster that the flags name.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "this is the edge: it reads clocks, opens sockets and is run by several threads"
)]

mod client;
mod cluster;
mod command;
pub mod daemon;
mod demo;
mod demo_node;
mod group;
mod keygen;
mod lab;
mod node;
mod run;

use std::ffi::OsString;

pub use suffrage_cli::Console;

/// Runs a command line, whose first word is the name of the program, and returns the exit code: 0 for success, 1 for a
/// failure or an election without a leader, 2 for wrong input, 3 if the queried node cannot be reached.
pub fn run(arguments: Vec<OsString>, console: &mut Console<'_>) -> u8 {
    suffrage_cli::run(arguments, console, command::command, command::execute)
}
