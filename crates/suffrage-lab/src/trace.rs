//! Traces: all events of a run, as `docs/trace-format.md` describes them.
//!
//! A [`Recorder`] observes a run and turns events into [`Line`]s. [`read`] reads the lines of a file. Both pass the lines to
//! a [`Sink`]: JSON lines, ShiViz, Perfetto, a picture, or the player. Everything that draws or converts a run therefore
//! works on a recorded trace as well.

mod jsonl;
mod line;
mod perfetto;
mod reader;
mod recorder;
mod routine;
mod shiviz;
mod vector_clocks;

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use clap::ValueEnum;
use suffrage_cli::Error;

pub(crate) use line::{EventName, FORMAT, Header, Line, VERSION};
pub(crate) use reader::read;
pub(crate) use recorder::Recorder;
pub(crate) use routine::Routine;

/// A receiver of a trace.
pub(crate) trait Sink {
    /// Handles the header, which comes first.
    fn open(&mut self, header: &Header) -> io::Result<()>;
    /// Handles an event.
    fn line(&mut self, line: &Line) -> io::Result<()>;
    /// Handles the end of the trace.
    fn close(&mut self) -> io::Result<()>;
}

/// A sink with two handles: one for the recorder, and one to use the sink after the run.
pub(crate) struct SharedSink<T>(Rc<RefCell<T>>);

impl<T> SharedSink<T> {
    pub(crate) fn new(sink: T) -> SharedSink<T> {
        SharedSink(Rc::new(RefCell::new(sink)))
    }

    pub(crate) fn handle(&self) -> SharedSink<T> {
        SharedSink(Rc::clone(&self.0))
    }

    /// The sink, after the recorder is dropped.
    pub(crate) fn into_inner(self) -> T {
        Rc::into_inner(self.0).expect("the recorder is dropped").into_inner()
    }
}

impl<T: Sink> Sink for SharedSink<T> {
    fn open(&mut self, header: &Header) -> io::Result<()> {
        self.0.borrow_mut().open(header)
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.0.borrow_mut().line(line)
    }

    fn close(&mut self) -> io::Result<()> {
        self.0.borrow_mut().close()
    }
}

/// A text format of traces.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum TraceFormat {
    /// One JSON object a line, as docs/trace-format.md describes
    #[default]
    Jsonl,
    /// A log with vector clocks, for ShiViz
    Shiviz,
    /// JSON for ui.perfetto.dev and chrome://tracing
    Perfetto,
}

impl TraceFormat {
    /// The sink that writes this format.
    pub(crate) fn sink(self, out: Box<dyn Write>, vector_clocks: bool) -> Box<dyn Sink> {
        match self {
            TraceFormat::Jsonl => Box::new(jsonl::Jsonl::new(out, vector_clocks)),
            TraceFormat::Shiviz => Box::new(shiviz::Shiviz::new(out)),
            TraceFormat::Perfetto => Box::new(perfetto::Perfetto::new(out)),
        }
    }
}

/// The most processes of a run with vector clocks: every line holds up to as many numbers.
pub(crate) const MAX_VECTOR: usize = 1_000;

/// Refuses vector clocks where the format has no place for them.
pub(crate) fn check_clocks(format: TraceFormat, vector_clocks: bool) -> Result<(), Error> {
    match format {
        TraceFormat::Shiviz if vector_clocks => {
            Err(Error::flag("vector-clocks", "is for JSON lines; a log for ShiViz always has them"))
        }
        TraceFormat::Perfetto if vector_clocks => {
            Err(Error::flag("vector-clocks", "is for JSON lines; Perfetto has no place for them"))
        }
        _ => Ok(()),
    }
}

/// A writer to memory, with a second handle to read the text.
#[derive(Clone, Default)]
pub(crate) struct SharedBuffer(Rc<RefCell<Vec<u8>>>);

impl SharedBuffer {
    /// Takes the text.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut self.0.borrow_mut())
    }
}

impl Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
