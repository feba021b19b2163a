//! The program `suffrage-lab`, thin over the libraries: flags in, tables and drawings out.
//!
//! [`run`] is the whole program but for the process around it, so that tests run commands as users
//! do, without starting processes.

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
mod scenario;
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
