//! Schedules of the model checker as runs of the player: a step is a unit of time.

use serde_json::value::RawValue;
use suffrage_check::{ScheduleEvent, ScheduleEventKind, Verdict};
use suffrage_core::{Announcement, NodeId};

use super::Encoder;
use crate::trace::{EventName, FORMAT, Header, Line, Sink as _, VERSION};

/// Encodes the schedule of a verdict.
pub(crate) fn encode_schedule(algorithm: &str, nodes: usize, verdict: &Verdict, command: &str) -> Encoder {
    let explanation = verdict.explanation.as_deref().unwrap_or_default();
    let steps = verdict.schedule.len();
    let title = format!("{algorithm}: {}", verdict.name);
    let note = format!("Broken after {steps} steps, and after no fewer: {explanation}.");
    let mut encoder = Encoder::new(&title, &note);
    let header = Header {
        at: 0.0,
        event: EventName::Opened,
        format: FORMAT.to_string(),
        version: VERSION,
        algorithm: algorithm.to_string(),
        seed: 0,
        members: (1..=nodes as u64).map(NodeId).collect(),
        crashed: Vec::new(),
        command: command.to_string(),
        steps: true,
    };
    let mut lines: Vec<Line> = verdict.trace.iter().map(line).collect();
    lines.push(Line {
        at: steps as f64,
        event: EventName::Violated,
        invariant: Some(verdict.name.into()),
        detail: Some(explanation.to_string()),
        ..Line::default()
    });
    let mut encode = || {
        encoder.open(&header)?;
        lines.iter().try_for_each(|line| encoder.line(line))?;
        encoder.close()
    };
    encode().expect("an encoder writes to memory");
    encoder
}

fn line(event: &ScheduleEvent) -> Line {
    let at = event.step as f64;
    let of = |name| Line { at, ..Line::of(name, event.node) };
    match &event.kind {
        ScheduleEventKind::Sent { message, to, kind, counted, content } => Line {
            at,
            event: EventName::Sent,
            message: Some(*message),
            from: Some(event.node),
            to: Some(*to),
            kind: Some((*kind).into()),
            counted: Some(*counted),
            content: RawValue::from_string(content.clone()).ok(),
            ..Line::default()
        },
        ScheduleEventKind::Delivered { message, from, kind } => Line {
            at,
            event: EventName::Delivered,
            message: Some(*message),
            from: Some(*from),
            to: Some(event.node),
            kind: Some((*kind).into()),
            ..Line::default()
        },
        ScheduleEventKind::Lost { message, from, kind } => Line {
            at,
            event: EventName::Dropped,
            message: Some(*message),
            from: Some(*from),
            to: Some(event.node),
            kind: Some((*kind).into()),
            reason: Some("lost".into()),
            ..Line::default()
        },
        ScheduleEventKind::Expired { timer } => Line { timer: Some(timer.clone()), ..of(EventName::Expired) },
        ScheduleEventKind::Announced(Announcement::Elected { leader, term }) => {
            Line { leader: Some(*leader), term: Some(*term), ..of(EventName::Elected) }
        }
        ScheduleEventKind::Announced(Announcement::SteppedDown) => of(EventName::SteppedDown),
        ScheduleEventKind::Announced(Announcement::Undecided) => of(EventName::Undecided),
        ScheduleEventKind::Leased { until } => Line { until: Some(*until as f64), ..of(EventName::Leased) },
        ScheduleEventKind::Commanded { command } => {
            Line { command: Some(command.clone()), ..of(EventName::Commanded) }
        }
        ScheduleEventKind::Crashed => of(EventName::Crashed),
        ScheduleEventKind::Recovered => of(EventName::Recovered),
        ScheduleEventKind::Time { now } => Line {
            at,
            event: EventName::Conditions,
            condition: Some("time".into()),
            value: Some(*now),
            ..Line::default()
        },
    }
}
