//! The binary `suffrage`; see the library of this crate.

use std::io::{self, BufWriter, IsTerminal};
use std::process::ExitCode;

use cli::Console;

fn main() -> ExitCode {
    let (stdout, mut stderr) = (io::stdout(), io::stderr());
    let mut console = Console {
        out_is_terminal: stdout.is_terminal(),
        err_is_terminal: stderr.is_terminal(),
        out: &mut BufWriter::new(stdout.lock()),
        err: &mut stderr,
    };
    ExitCode::from(cli::run(std::env::args_os(), &mut console))
}
