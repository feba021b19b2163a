//! Traces as JSON lines.

use std::io::{self, Write};

use super::vector_clocks::VectorClocks;
use super::{Header, Line, Sink};

/// Writes one JSON object a line.
pub(super) struct Jsonl<W> {
    out: W,
    clocks: Option<VectorClocks>,
}

impl<W: Write> Jsonl<W> {
    pub(super) fn new(out: W, vector_clocks: bool) -> Jsonl<W> {
        Jsonl { out, clocks: vector_clocks.then(VectorClocks::default) }
    }
}

impl<W: Write> Sink for Jsonl<W> {
    fn open(&mut self, header: &Header) -> io::Result<()> {
        serde_json::to_writer(&mut self.out, header)?;
        self.out.write_all(b"\n")
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        match &mut self.clocks {
            None => serde_json::to_writer(&mut self.out, line)?,
            Some(clocks) => {
                let clock = clocks.advance(line).cloned();
                serde_json::to_writer(&mut self.out, &Line { clock, ..line.clone() })?;
            }
        }
        self.out.write_all(b"\n")
    }

    fn close(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
