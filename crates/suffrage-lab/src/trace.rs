//! `--trace`: all events of a run, one JSON object per line.

use std::io::{self, Write};

use serde::Serialize;
use suffrage_core::{Announcement, NodeId, Term, Time};
use suffrage_sim::{DropReason, Observer, Scenario, TraceEvent, TracedMessage};

use crate::observers::CutNames;

/// Writes the events of a run.
pub(crate) struct Trace<W> {
    out: W,
    cuts: CutNames,
    /// The first error of writing. Nothing is written after it.
    failure: Option<io::Error>,
}

/// The first line: the algorithm, the seed and the members.
#[derive(Serialize)]
struct Header<'a> {
    at: f64,
    event: &'a str,
    algorithm: &'a str,
    seed: u64,
    members: Vec<NodeId>,
    crashed: Vec<NodeId>,
}

/// Every other line. A field is present if it applies to the event.
#[derive(Default, Serialize)]
struct Line {
    at: f64,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    node: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    to: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    peer: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader: Option<NodeId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    term: Option<Term>,
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    arrives: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    attribute: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    groups: Option<String>,
}

impl<W: Write> Trace<W> {
    pub(crate) fn new(out: W, algorithm: &str, scenario: &Scenario, cuts: CutNames) -> Trace<W> {
        let mut trace = Trace { out, cuts, failure: None };
        trace.write(&Header {
            at: 0.0,
            event: "opened",
            algorithm,
            seed: scenario.seed,
            members: scenario.roster.iter().collect(),
            crashed: scenario.crashed.iter().map(|&slot| scenario.roster.id(slot)).collect(),
        });
        trace
    }

    fn write(&mut self, line: &impl Serialize) {
        if self.failure.is_none() {
            let written = serde_json::to_writer(&mut self.out, line).map_err(io::Error::from);
            self.failure = written.and_then(|()| self.out.write_all(b"\n")).err();
        }
    }

    /// Flushes and returns the writer, or the first error.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.failure.map_or(Ok(()), Err)?;
        self.out.flush()?;
        Ok(self.out)
    }
}

impl<W: Write> Observer for Trace<W> {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        let line = Line { at: at.as_units(), ..self.describe(at, event) };
        self.write(&line);
    }
}

impl<W> Trace<W> {
    fn describe(&mut self, at: Time, event: TraceEvent<'_>) -> Line {
        match event {
            TraceEvent::Sent { from, to, message, arrives } => {
                Line { arrives: Some(arrives.as_units()), ..between("sent", from, to, message) }
            }
            TraceEvent::Multicast { from, message } => {
                Line { to: None, ..between("multicast", from, from, message) }
            }
            TraceEvent::Delivered { from, to, message } => between("delivered", from, to, message),
            TraceEvent::Dropped { from, to, message, reason: why } => {
                Line { reason: Some(reason(why)), ..between("dropped", from, to, message) }
            }
            TraceEvent::Expired { who, timer } => {
                Line { content: Some(format!("{timer:?}")), ..of("expired", who) }
            }
            TraceEvent::Announced { who, announcement } => announced(who, announcement),
            TraceEvent::Commanded { who, command } => {
                Line { content: Some(command.to_string()), ..of("commanded", who) }
            }
            TraceEvent::Suspected { who, peer } => Line { peer: Some(peer), ..of("suspected", who) },
            TraceEvent::Restored { who, peer } => Line { peer: Some(peer), ..of("restored", who) },
            TraceEvent::Crashed { who } => of("crashed", who),
            TraceEvent::Recovered { who } => of("recovered", who),
            TraceEvent::Paused { who } => of("paused", who),
            TraceEvent::Resumed { who } => of("resumed", who),
            TraceEvent::Jumped { who, by, back } => {
                let sign = if back { "-" } else { "+" };
                Line { content: Some(format!("{sign}{by}")), ..of("jumped", who) }
            }
            TraceEvent::Ranked { who, attribute } => Line { attribute: Some(attribute), ..of("ranked", who) },
            TraceEvent::Cut => Line { event: "cut", groups: Some(self.cuts.cut()), ..Line::default() },
            TraceEvent::HealedAll => {
                self.cuts.heal_all(at);
                Line { event: "healed-all", ..Line::default() }
            }
            TraceEvent::Healed => Line { event: "healed", groups: Some(self.cuts.heal()), ..Line::default() },
        }
    }
}

fn of(event: &'static str, node: NodeId) -> Line {
    Line { event, node: Some(node), ..Line::default() }
}

fn between(event: &'static str, from: NodeId, to: NodeId, message: TracedMessage<'_>) -> Line {
    let content = Some(format!("{:?}", message.content));
    Line { event, from: Some(from), to: Some(to), kind: Some(message.kind), content, ..Line::default() }
}

fn announced(node: NodeId, announcement: Announcement) -> Line {
    match announcement {
        Announcement::Elected { leader, term } => {
            Line { leader: Some(leader), term: Some(term), ..of("elected", node) }
        }
        Announcement::SteppedDown => of("stepped-down", node),
        Announcement::Undecided => of("undecided", node),
    }
}

fn reason(why: DropReason) -> &'static str {
    match why {
        DropReason::Lost => "lost",
        DropReason::Cut => "cut",
        DropReason::ReceiverDead => "dead",
        DropReason::UnknownReceiver => "stranger",
    }
}
