//! The program `suffrage-lab`: a thin layer over the libraries that turns flags into runs, and results into tables and
//! diagrams.
//!
//! [`run`] is the whole program without the process around it, so that tests run commands without starting processes.
//! Each subcommand is a file named after it (`simulate.rs`, `torture.rs`, `check.rs`, …). The other files:
//!
//! - `command.rs`: the command line; `args.rs` and `options.rs`: flags of scenarios and of algorithms.
//! - `account.rs`, `diagram.rs`, `trace.rs`: one run as a report, a space-time diagram, and lines of JSON.
//! - `sweep.rs`, `parallel.rs`: many runs, measured on all cores with results that do not depend on their number.
//! - `demo_members.rs`, [`member_runner`]: any algorithm as real processes.

mod account;
mod algorithms;
mod args;
mod belief;
mod check;
mod command;
mod compare;
mod demo;
mod demo_members;
mod diagram;
mod member;
pub mod member_runner;
mod options;
mod parallel;
mod plan;
mod plan_randomized;
mod replay;
mod reproduce;
mod simulate;
mod simulate_detector;
mod simulate_multicast;
mod sweep;
mod torture;
mod tournament;
mod trace;
mod validate;
mod watch;

use std::ffi::OsString;

pub use suffrage_cli::Console;

/// Runs a command line, whose first word is the program's name, and returns the exit code: 0 if it
/// ran, 1 if a promise was broken or output could not be written, 2 for bad input.
pub fn run(arguments: Vec<OsString>, console: &mut Console<'_>) -> u8 {
    suffrage_cli::run(arguments, console, command::command, command::execute)
}
