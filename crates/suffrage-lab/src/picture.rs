//! `--svg`: the space-time diagram of a run as a picture for papers and slides.
//!
//! Time runs to the right, each process has a line, each message is an arrow. The text stays text, in fonts that every
//! machine has.

mod draw;
mod intervals;

use std::collections::BTreeMap;
use std::io;

use clap::ValueEnum;
use suffrage_core::{NodeId, Time};

use crate::trace::{EventName, Header, Line, Routine, Sink};
pub(crate) use intervals::Intervals;
use suffrage_cli::Error;

/// The most processes of a picture, and the most arrows: more cannot be read.
pub(crate) const MAX_PROCESSES: usize = 40;
const MAX_MESSAGES: usize = 5_000;

/// The purpose of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Theme {
    /// Thin lines and small text, for a column of a paper
    #[default]
    Paper,
    /// Thick lines and large text, for a projector
    Slide,
}

/// The part of a run that a picture shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct PictureOptions {
    pub(crate) from: Option<Time>,
    pub(crate) to: Option<Time>,
    /// Only these processes; all if empty.
    pub(crate) only: Vec<NodeId>,
    pub(crate) fold_heartbeats: bool,
    pub(crate) theme: Theme,
}

/// A message of a picture, with its ends in time.
struct Arrow {
    kind: String,
    counted: bool,
    from: NodeId,
    to: NodeId,
    sent: f64,
    end: f64,
    /// True if it arrives; `None` if it is on its way at the end.
    arrives: Option<bool>,
}

/// A mark on the line of a process.
struct Mark {
    at: f64,
    node: NodeId,
    event: EventName,
}

/// Collects a run and draws it.
#[derive(Default)]
pub(crate) struct Picture {
    options: PictureOptions,
    members: Vec<NodeId>,
    algorithm: String,
    routine: Routine,
    intervals: Intervals,
    arrows: Vec<Arrow>,
    /// The arrows of the messages in flight.
    flying: BTreeMap<u64, usize>,
    /// The multicasts that are delivered under their own numbers: time and kind.
    multicasts: BTreeMap<u64, (f64, String, bool)>,
    marks: Vec<Mark>,
    end: f64,
}

impl Picture {
    pub(crate) fn new(options: PictureOptions) -> Picture {
        Picture { options, ..Picture::default() }
    }

    /// The part of the run that is shown.
    fn range(&self) -> (f64, f64) {
        let from = self.options.from.map_or(0.0, Time::as_units);
        let to = self.options.to.map_or(self.end, Time::as_units).max(from + 1e-6);
        (from, to)
    }

    /// The processes that are shown, from top to bottom.
    fn shown(&self) -> Vec<NodeId> {
        let is_shown = |id: &NodeId| self.options.only.is_empty() || self.options.only.contains(id);
        self.members.iter().copied().filter(is_shown).collect()
    }

    /// The picture, or the reason why it cannot be drawn.
    pub(crate) fn svg(&self) -> Result<String, Error> {
        if let Some(id) = self.options.only.iter().find(|id| !self.members.contains(id)) {
            return Err(Error::flag("only", format!("there is no process {id}")));
        }
        let shown = self.shown();
        if shown.len() > MAX_PROCESSES {
            let count = shown.len();
            return Err(Error::flag(
                "svg",
                format!(
                    "draws at most {MAX_PROCESSES} processes, and there are {count}; name some by --only, or use --html"
                ),
            ));
        }
        let (from, to) = self.range();
        let is_visible = |arrow: &&Arrow| {
            arrow.sent <= to && arrow.end >= from && shown.contains(&arrow.from) && shown.contains(&arrow.to)
        };
        let arrows: Vec<&Arrow> = self.arrows.iter().filter(is_visible).collect();
        if arrows.len() > MAX_MESSAGES {
            let count = arrows.len();
            return Err(Error::flag(
                "svg",
                format!(
                    "draws at most {MAX_MESSAGES} messages, and there are {count}; use --from, --to or --fold-heartbeats"
                ),
            ));
        }
        Ok(draw::svg(self, &shown, &arrows))
    }

    fn on_message(&mut self, line: &Line) {
        let is_hidden = self.routine.is_routine(line) && self.options.fold_heartbeats;
        let Some(number) = line.message else { return };
        let (kind, counted) = (line.kind.as_deref().unwrap_or_default(), line.counted.unwrap_or(true));
        if is_hidden {
            return;
        }
        if line.event == EventName::Multicast {
            self.multicasts.insert(number, (line.at, kind.to_string(), counted));
            return;
        }
        let (Some(from), Some(to)) = (line.from, line.to) else { return };
        let arrow =
            |sent, end, arrives| Arrow { kind: kind.to_string(), counted, from, to, sent, end, arrives };
        match (line.event, self.flying.remove(&number)) {
            (EventName::Sent, _) => {
                self.flying.insert(number, self.arrows.len());
                self.arrows.push(arrow(line.at, line.arrives.unwrap_or(line.at), None));
            }
            (event, Some(index)) => {
                self.arrows[index].end = line.at;
                self.arrows[index].arrives = Some(event == EventName::Delivered);
            }
            (event, None) => {
                let sent = self.multicasts.get(&number).map_or(line.at, |&(sent, ..)| sent);
                self.arrows.push(arrow(sent, line.at, Some(event == EventName::Delivered)));
            }
        }
    }
}

impl Sink for Picture {
    fn open(&mut self, header: &Header) -> io::Result<()> {
        self.members = header.members.clone();
        self.algorithm = header.algorithm.clone();
        self.intervals = Intervals::new(&header.crashed);
        Ok(())
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.end = line.at;
        match line.event {
            EventName::Sent | EventName::Multicast | EventName::Delivered | EventName::Dropped => {
                self.on_message(line);
            }
            _ => {
                self.routine.is_routine(line);
                self.intervals.line(line);
            }
        }
        let is_mark = matches!(
            line.event,
            EventName::Commanded
                | EventName::Suspected
                | EventName::Restored
                | EventName::Crashed
                | EventName::Recovered
                | EventName::Resumed
                | EventName::Jumped
                | EventName::Ranked
        );
        if let Some(node) = line.node.filter(|_| is_mark) {
            self.marks.push(Mark { at: line.at, node, event: line.event });
        }
        Ok(())
    }

    fn close(&mut self) -> io::Result<()> {
        self.intervals.close();
        Ok(())
    }
}
