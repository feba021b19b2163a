//! The common part of the programs `suffrage` and `suffrage-lab`.
//!
//! - [`main`], [`run`]: run a command line, print errors, return the exit code.
//! - [`Console`]: standard output and standard error, replaceable in tests.
//! - [`Error`]: errors with exit codes, each in one sentence that names the flag.
//! - [`cluster`]: the flags that name a cluster.
//! - [`completions`]: completions of shells.
//! - [`demo`]: a demo cluster of real processes on loopback whose leader is killed.
//! - [`socket`]: passes a bound socket to a child process.
//! - [`validate`]: the calculator for the timings of a lease.
//! - [`text`]: durations and lists as text. [`testing`]: runs commands in tests without starting processes.

pub mod cluster;
pub mod completions;
mod console;
pub mod demo;
mod error;
pub mod socket;
pub mod testing;
pub mod text;
pub mod validate;

use std::ffi::OsString;
use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;

pub use console::Console;
pub use error::Error;

/// Runs a program on this process's arguments and standard output.
pub fn main(run: fn(Vec<OsString>, &mut Console<'_>) -> u8) -> ExitCode {
    let (stdout, mut stderr) = (io::stdout(), io::stderr());
    let mut console = Console {
        out_is_terminal: stdout.is_terminal(),
        err_is_terminal: stderr.is_terminal(),
        out: &mut BufWriter::new(stdout.lock()),
        err: &mut stderr,
    };
    ExitCode::from(run(std::env::args_os().collect(), &mut console))
}

/// Runs a command line, whose first word is the program's name, and returns the exit code. Output is flushed; an
/// error is printed, with a hint that names the subcommand it is about.
pub fn run(
    arguments: Vec<OsString>,
    console: &mut Console<'_>,
    command: fn() -> clap::Command,
    execute: fn(&clap::ArgMatches, &mut Console<'_>) -> Result<u8, Error>,
) -> u8 {
    let matches = command().try_get_matches_from(&arguments).map_err(Error::from);
    let result = matches.and_then(|matches| execute(&matches, console));
    let result = result.and_then(|code| console.out.flush().map(|()| code).map_err(Error::from));
    result.unwrap_or_else(|error| error.report(&path(&command(), &arguments), console))
}

/// The subcommand a command line names, as far as it can be made out, for hints.
fn path(command: &clap::Command, arguments: &[OsString]) -> String {
    let mut here = command;
    let mut path = here.get_name().to_string();
    for word in arguments.iter().skip(1) {
        let Some(next) = here.find_subcommand(word) else { break };
        here = next;
        path = format!("{path} {}", here.get_name());
    }
    path
}

/// The command, with flags that accept values with a leading hyphen: `--ttl -3s` is an error about the value, not about
/// an unknown flag `-3`.
pub fn accept_hyphen_values(command: clap::Command) -> clap::Command {
    command.mut_args(|arg| {
        let flag = arg.get_long().is_some() && arg.get_action().takes_values();
        let optional = arg.get_num_args().is_some_and(|range| range.min_values() == 0);
        if flag && !optional { arg.allow_hyphen_values(true) } else { arg }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_with_a_hyphen_is_the_value_of_its_flag() {
        let command = clap::Command::new("validate").arg(clap::Arg::new("ttl").long("ttl"));
        let matches =
            accept_hyphen_values(command).try_get_matches_from(["validate", "--ttl", "-3s"]).unwrap();
        assert_eq!(matches.get_one::<String>("ttl").unwrap(), "-3s");
    }

    #[test]
    fn hints_name_the_subcommand() {
        let simulate = clap::Command::new("simulate").subcommand(clap::Command::new("bully"));
        let command = clap::Command::new("suffrage-lab").subcommand(simulate);
        let path = |line: &str| path(&command, &line.split(' ').map(OsString::from).collect::<Vec<_>>());
        assert_eq!(path("suffrage-lab simulate bully --nodes x"), "suffrage-lab simulate bully");
        assert_eq!(path("suffrage-lab simulate nobody --nodes x"), "suffrage-lab simulate");
        assert_eq!(path("suffrage-lab --nodes"), "suffrage-lab");
    }
}
