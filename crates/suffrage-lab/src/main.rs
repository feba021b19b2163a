//! The program `suffrage-lab`; see the library of this crate.

use std::process::ExitCode;

fn main() -> ExitCode {
    suffrage_cli::main(suffrage_lab::run)
}
