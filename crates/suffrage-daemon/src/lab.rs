//! `suffrage lab`: starts `suffrage-lab`, where it is installed.

use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process;

use clap::{Arg, ArgAction, ArgMatches, Command};
use suffrage_cli::Error;

const PROGRAM: &str = "suffrage-lab";

pub(crate) fn command() -> Command {
    Command::new("lab")
        .about("Starts suffrage-lab: simulate, compare, torture, check, reproduce")
        .disable_help_flag(true)
        .arg(
            Arg::new("arguments")
                .value_name("ARGUMENTS")
                .action(ArgAction::Append)
                .num_args(0..)
                .allow_hyphen_values(true)
                .trailing_var_arg(true)
                .value_parser(clap::value_parser!(OsString))
                .help("The arguments of suffrage-lab; `suffrage lab --help` prints its help"),
        )
}

/// Replaces this process by `suffrage-lab`: the program in the same folder, or the one in PATH.
pub(crate) fn execute(matches: &ArgMatches) -> Result<u8, Error> {
    let beside = env::current_exe().ok().map(|program| program.with_file_name(PROGRAM));
    let program = beside.filter(|program| program.exists()).unwrap_or_else(|| PathBuf::from(PROGRAM));
    let arguments = matches.get_many::<OsString>("arguments").into_iter().flatten();
    let error = process::Command::new(&program).args(arguments).exec();
    Err(Error::Failed(format!(
        "cannot start {}: {error}; install it with `cargo install suffrage-lab`, or in the source tree run \
         `cargo run --release -p suffrage-lab -- --help`",
        program.display()
    )))
}
