//! `suffrage-lab convert`: a recorded trace in another format.

use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches as _};

use crate::trace::{self, SharedBuffer, Sink, TraceFormat};
use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Converts a recorded trace to another format.

The trace is a file that `suffrage-lab simulate … --trace FILE` wrote. ShiViz and Perfetto are viewers of others: ShiViz \
shows which event may have influenced which, Perfetto shows long runs.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate bully --nodes 6 --crashed 6 --initiator 3 --trace run.jsonl
  suffrage-lab convert run.jsonl --format shiviz --out run.shiviz.log
      open the file in ShiViz
  suffrage-lab convert run.jsonl --format perfetto --out run.json
      open the file in ui.perfetto.dev or chrome://tracing
  suffrage-lab convert run.jsonl --vector-clocks
      the same trace, with vector clocks

Exit codes: 0 the trace was converted, 1 a file cannot be read or written, 2 the command line is wrong.";

#[derive(Args, Debug)]
struct Flags {
    /// The trace, a file of JSON lines
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The format of the result
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "jsonl")]
    format: TraceFormat,
    /// Adds the vector clock of its process to each event of JSON lines
    #[arg(long)]
    vector_clocks: bool,
    /// The file of the result [default: print it]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(crate) fn command() -> Command {
    Flags::augment_args(Command::new("convert"))
        .about("Converts a recorded trace for ShiViz, Perfetto or Chrome")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let flags = Flags::from_arg_matches(matches)?;
    trace::check_clocks(flags.format, flags.vector_clocks)?;
    let Some(out) = &flags.out else {
        let text = SharedBuffer::default();
        read_file(&flags.trace, &mut *flags.format.sink(Box::new(text.clone()), flags.vector_clocks))?;
        return Ok(console.out.write_all(&text.take())?);
    };
    // Writing to the file that is being read would destroy it.
    if same_file(out, &flags.trace) {
        return Err(Error::flag("out", "is the trace itself; name another file"));
    }
    let file = File::create(out).map_err(|error| Error::File(out.clone(), error))?;
    read_file(&flags.trace, &mut *flags.format.sink(Box::new(BufWriter::new(file)), flags.vector_clocks))
}

fn same_file(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Reads a trace from a file.
pub(crate) fn read_file(path: &Path, sink: &mut dyn Sink) -> Result<(), Error> {
    let failed = |reason: String| Error::Failed(format!("cannot read {}: {reason}", path.display()));
    let file = File::open(path).map_err(|error| failed(error.to_string()))?;
    trace::read(BufReader::new(file), sink).map_err(failed)
}
