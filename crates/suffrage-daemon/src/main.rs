//! The program `suffrage`; see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    suffrage_cli::main(suffrage_daemon::run)
}
