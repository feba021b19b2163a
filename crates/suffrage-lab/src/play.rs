//! `suffrage-lab play`: a recorded trace as a page.

use std::io;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};

use crate::convert::read_file;
use crate::output_file;
use crate::parallel::Stopwatch;
use crate::player::{self, Encoder};
use crate::trace::{Header, Line, Sink};
use suffrage_cli::Console;
use suffrage_cli::Error;

const ABOUT: &str = "Writes a recorded trace as a page to play, step and zoom.

The page is one file that needs nothing else, and works without a network. The trace is a file that `suffrage-lab simulate … \
--trace FILE` wrote. The address of the page names the moment that is shown, so that a moment can be linked to.";

const EXAMPLES: &str = "Examples:
  suffrage-lab simulate raft --crash leader@30 --until 80 --trace run.jsonl
  suffrage-lab play run.jsonl
      writes run.html
  suffrage-lab simulate raft --crash leader@30 --until 80 --html run.html
      the same without a trace

Exit codes: 0 the page was written, 1 a file cannot be read or written, 2 the command line is wrong.";

#[derive(Args, Debug)]
struct Flags {
    /// The trace, a file of JSON lines
    #[arg(value_name = "TRACE")]
    trace: PathBuf,
    /// The file of the page [default: the name of the trace, with .html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

pub(crate) fn command() -> Command {
    Flags::augment_args(Command::new("play"))
        .about("Writes a recorded trace as a page to play, step and zoom")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

/// An encoder that shows its progress.
struct Progressing {
    encoder: Encoder,
    stopwatch: Stopwatch,
}

impl Sink for Progressing {
    fn open(&mut self, header: &Header) -> io::Result<()> {
        self.encoder.set_title(&format!("{}, seed {}", header.algorithm, header.seed));
        self.encoder.open(header)
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.encoder.line(line)?;
        let events = self.encoder.events();
        if events.is_multiple_of(10_000) {
            self.stopwatch.update(|| format!("{events} events"));
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        self.encoder.close()
    }
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let Flags { trace, html } = Flags::from_arg_matches(matches)?;
    let html = html.unwrap_or_else(|| trace.with_extension("html"));
    if html == trace {
        return Err(Error::flag("html", "is the trace itself; name another file"));
    }
    let stopwatch = Stopwatch::start(console.err_is_terminal);
    let mut sink = Progressing { encoder: Encoder::default(), stopwatch };
    read_file(&trace, &mut sink)?;
    let name = trace.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    output_file::write(&html, &player::page(&name, &[(name.clone(), sink.encoder)]))?;
    Ok(writeln!(console.out, "{}", html.display())?)
}
