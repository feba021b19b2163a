//! The binary `suffrage`, thin over the libraries: flags in, tables and drawings out.
//!
//! [`run`] is the whole program but for the process around it, so that tests run commands as users
//! do, without starting processes.

mod account;
mod algorithms;
mod args;
mod belief;
mod check;
mod client;
mod cluster;
mod command;
mod compare;
mod console;
mod demo;
mod demo_cast;
mod demo_cluster;
mod demo_node;
mod diagram;
mod error;
mod keygen;
mod member;
mod node;
mod options;
mod parallel;
mod plan;
mod plan_randomized;
mod replay;
mod reproduce;
mod run;
mod simulate;
mod simulate_detector;
mod simulate_multicast;
mod sweep;
mod text;
mod torture;
mod tournament;
mod trace;
mod validate;
mod watch;

use std::ffi::OsString;

pub use console::Console;

/// Runs a command line, whose first word is the program's name, and returns the exit code: 0 if it
/// ran, 1 if a promise was broken under `--strict` or output could not be written, 2 for bad input,
/// 3 if a node that was to be asked cannot be reached.
pub fn run<T>(arguments: impl IntoIterator<Item = T>, console: &mut Console<'_>) -> u8
where
    T: Into<OsString>,
{
    let arguments: Vec<OsString> = arguments.into_iter().map(Into::into).collect();
    let result = command::execute(&arguments, console);
    let result = result.and_then(|code| console.out.flush().map(|()| code).map_err(error::Error::from));
    result.unwrap_or_else(|error| error.report(&command::path(&arguments), console))
}
