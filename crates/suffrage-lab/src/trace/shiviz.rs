//! Logs for ShiViz: the regular expression of an event, an empty line, then two lines an event.

use std::io::{self, Write};

use suffrage_core::NodeId;

use super::vector_clocks::{VectorClock, VectorClocks};
use super::{Header, Line, Sink};

/// The regular expression that ShiViz reads from the first line of a file.
pub(super) const EXPRESSION: &str = r"(?<host>\S*) (?<clock>{.*})\n(?<event>.*)";

/// The name of the host of events that belong to no process.
const NETWORK: &str = "network";

/// Writes a log for ShiViz.
pub(super) struct Shiviz<W> {
    out: W,
    clocks: VectorClocks,
    network_events: u64,
}

impl<W: Write> Shiviz<W> {
    pub(super) fn new(out: W) -> Shiviz<W> {
        Shiviz { out, clocks: VectorClocks::default(), network_events: 0 }
    }
}

/// The name of a process. A plain number would be sorted by value in the clocks of ShiViz.
fn host(id: NodeId) -> String {
    format!("p{id}")
}

fn clock_text(clock: &VectorClock) -> String {
    let entries: Vec<String> =
        clock.iter().map(|(id, count)| format!("\"{}\": {count}", host(*id))).collect();
    format!("{{{}}}", entries.join(", "))
}

impl<W: Write> Sink for Shiviz<W> {
    fn open(&mut self, _: &Header) -> io::Result<()> {
        write!(self.out, "{EXPRESSION}\n\n")
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        let event = format!("{} (at {})", line.describe(), line.at).replace(['\n', '\r'], " ");
        match (self.clocks.advance(line), line.process()) {
            (Some(clock), Some(process)) => {
                writeln!(self.out, "{} {}\n{event}", host(process), clock_text(clock))
            }
            _ => {
                self.network_events += 1;
                writeln!(self.out, "{NETWORK} {{\"{NETWORK}\": {}}}\n{event}", self.network_events)
            }
        }
    }

    fn close(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}
