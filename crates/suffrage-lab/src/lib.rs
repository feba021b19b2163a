//! The program `suffrage-lab`: turns flags into runs of the libraries, and results into tables and diagrams.
//!
//! `suffrage-lab gallery` writes one page with every algorithm, as runs to play: begin there.
//!
//! [`run`] is the whole program, so that tests run commands without starting processes.
//! Each subcommand is a file named after it (`simulate.rs`, `torture.rs`, `check.rs`, …). The other files:
//!
//! - `command.rs`: the command line; `args.rs` and `options.rs`: flags of scenarios and of algorithms.
//! - `run_report.rs`, `diagram.rs`, `trace.rs`: one run as a report, a space-time diagram, and a trace.
//! - `picture.rs`, `player.rs`: one run as a picture, and runs as a page to play them.
//! - `sweep.rs`, `parallel.rs`: measurements of many runs in parallel; results do not depend on the number of cores.
//! - `demo_members.rs`, [`member_runner`]: any algorithm as real processes.

mod algorithms;
mod args;
mod belief;
mod check;
mod command;
mod compare;
mod convert;
mod demo;
mod demo_members;
mod diagram;
mod gallery;
mod group;
mod member;
pub mod member_runner;
mod observers;
mod options;
mod output_file;
mod parallel;
mod picture;
mod plan;
mod plan_randomized;
mod play;
mod player;
mod replay;
mod reproduce;
mod run_report;
mod simulate;
mod simulate_detector;
mod simulate_multicast;
mod sweep;
mod torture;
mod tournament;
mod trace;
mod validate;

use std::ffi::OsString;

pub use suffrage_cli::Console;

/// Runs a command line, whose first word is the name of the program, and returns the exit code: 0 for success, 1 if a
/// promise was broken or output could not be written, 2 for bad input.
pub fn run(arguments: Vec<OsString>, console: &mut Console<'_>) -> u8 {
    suffrage_cli::run(arguments, console, command::command, command::execute)
}
