//! Records a run: turns the events of the simulator into lines, and numbers the messages.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;

use serde_json::value::RawValue;
use suffrage_core::{Announcement, NodeId, Time};
use suffrage_sim::{DropReason, Observer, Scenario, TraceEvent, TracedMessage};

use super::{EventName, FORMAT, Header, Line, Sink, VERSION};
use crate::observers::{CutGroups, CutNames};

/// Passes the events of a run to sinks.
///
/// The simulator does not number messages. The recorder finds the message that arrives by sender, receiver, content and
/// time of arrival. Two messages that are equal in all of these cannot be told apart, and need not be.
pub(crate) struct Recorder {
    sinks: Vec<Box<dyn Sink>>,
    cuts: CutNames,
    /// The first error of a sink. Nothing is passed on after it.
    failure: Option<io::Error>,
    /// The number of the last message.
    messages: u64,
    /// The messages in flight, by sender and receiver, in the order of sending.
    in_flight: BTreeMap<(NodeId, NodeId), Vec<InFlight>>,
    /// The multicasts in flight that have no copies of their own, by sender.
    multicasts: BTreeMap<NodeId, Vec<MulticastInFlight>>,
    /// The number of receivers of a multicast.
    receivers: usize,
}

struct InFlight {
    message: u64,
    arrives: Time,
    content: String,
}

struct MulticastInFlight {
    message: u64,
    sent: Time,
    content: String,
    reached: BTreeSet<NodeId>,
    /// True if its copies are messages of their own.
    is_copied: bool,
}

impl Recorder {
    /// Opens the sinks.
    pub(crate) fn new(
        sinks: Vec<Box<dyn Sink>>,
        algorithm: &str,
        scenario: &Scenario,
        cuts: CutNames,
        command: &str,
    ) -> Recorder {
        let header = Header {
            at: 0.0,
            event: EventName::Opened,
            format: FORMAT.to_string(),
            version: VERSION,
            algorithm: algorithm.to_string(),
            seed: scenario.seed,
            members: scenario.roster.iter().collect(),
            crashed: scenario.crashed.iter().map(|&slot| scenario.roster.id(slot)).collect(),
            command: command.to_string(),
            steps: false,
        };
        let mut recorder = Recorder {
            sinks,
            cuts,
            failure: None,
            messages: 0,
            in_flight: BTreeMap::new(),
            multicasts: BTreeMap::new(),
            receivers: scenario.roster.len() - 1,
        };
        recorder.each_sink(|sink| sink.open(&header));
        recorder
    }

    fn each_sink(&mut self, mut handle: impl FnMut(&mut dyn Sink) -> io::Result<()>) {
        if self.failure.is_none() {
            self.failure = self.sinks.iter_mut().find_map(|sink| handle(&mut **sink).err());
        }
    }

    /// Closes the sinks. Returns the first error.
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.each_sink(|sink| sink.close());
        self.failure.map_or(Ok(()), Err)
    }

    fn next_message(&mut self) -> u64 {
        self.messages += 1;
        self.messages
    }

    /// The number of the multicast of which this message is a copy. The copies follow the multicast at once.
    fn copied_multicast(&mut self, at: Time, from: NodeId, content: &str) -> Option<u64> {
        let last = self.multicasts.get_mut(&from)?.last_mut()?;
        let is_copy = last.sent == at && last.content == content && last.reached.is_empty();
        last.is_copied |= is_copy;
        is_copy.then_some(last.message)
    }

    fn send(
        &mut self,
        at: Time,
        [from, to]: [NodeId; 2],
        content: String,
        arrives: Time,
    ) -> (u64, Option<u64>) {
        let multicast = self.copied_multicast(at, from, &content);
        let message = self.next_message();
        self.in_flight.entry((from, to)).or_default().push(InFlight { message, arrives, content });
        (message, multicast)
    }

    /// The number of the message that arrives now, and of the multicast that it belongs to.
    fn arrive(&mut self, at: Time, from: NodeId, to: NodeId, content: &str) -> (Option<u64>, Option<u64>) {
        if let Some(messages) = self.in_flight.get_mut(&(from, to)) {
            let same = |message: &InFlight| message.content == content;
            let on_time = messages.iter().position(|message| message.arrives == at && same(message));
            // A paused receiver handles a message later.
            let index = on_time
                .or_else(|| messages.iter().position(|message| message.arrives <= at && same(message)));
            if let Some(index) = index {
                let message = messages.remove(index).message;
                if messages.is_empty() {
                    self.in_flight.remove(&(from, to));
                }
                return (Some(message), None);
            }
        }
        let Some(multicasts) = self.multicasts.get_mut(&from) else { return (None, None) };
        let waiting = |multicast: &MulticastInFlight| {
            !multicast.is_copied && multicast.content == content && !multicast.reached.contains(&to)
        };
        let Some(index) = multicasts.iter().position(waiting) else { return (None, None) };
        let multicast = &mut multicasts[index];
        let message = multicast.message;
        multicast.reached.insert(to);
        if multicast.reached.len() == self.receivers {
            multicasts.remove(index);
        }
        (Some(message), Some(message))
    }

    fn describe(&mut self, at: Time, event: TraceEvent<'_>) -> Line {
        match event {
            TraceEvent::Sent { from, to, message, arrives } => {
                let content = message.content.json();
                let (number, multicast) = self.send(at, [from, to], content.clone(), arrives);
                Line {
                    message: Some(number),
                    multicast,
                    arrives: Some(arrives.as_units()),
                    ..with_content(between(EventName::Sent, from, to, message), content)
                }
            }
            TraceEvent::Multicast { from, message } => self.multicast(at, from, message),
            TraceEvent::Delivered { from, to, message } => {
                let (number, multicast) = self.arrive(at, from, to, &message.content.json());
                Line { message: number, multicast, ..between(EventName::Delivered, from, to, message) }
            }
            TraceEvent::Dropped { from, to, message, reason, on_send } => {
                self.drop_message(at, [from, to], message, reason, on_send)
            }
            TraceEvent::Cut => cut(EventName::Cut, self.cuts.cut()),
            TraceEvent::Healed => cut(EventName::Healed, self.cuts.heal()),
            TraceEvent::HealedAll => {
                self.cuts.heal_all(at);
                Line { event: EventName::HealedAll, ..Line::default() }
            }
            event => local(event),
        }
    }

    fn multicast(&mut self, at: Time, from: NodeId, message: TracedMessage<'_>) -> Line {
        let (number, content) = (self.next_message(), message.content.json());
        let multicasts = self.multicasts.entry(from).or_default();
        multicasts.retain(|multicast| !multicast.is_copied);
        multicasts.push(MulticastInFlight {
            message: number,
            sent: at,
            content: content.clone(),
            reached: BTreeSet::new(),
            is_copied: false,
        });
        let line = between(EventName::Multicast, from, from, message);
        Line { message: Some(number), to: None, ..with_content(line, content) }
    }

    fn drop_message(
        &mut self,
        at: Time,
        [from, to]: [NodeId; 2],
        message: TracedMessage<'_>,
        reason: DropReason,
        on_send: bool,
    ) -> Line {
        let content = message.content.json();
        let line = Line {
            reason: Some(reason_name(reason).into()),
            ..between(EventName::Dropped, from, to, message)
        };
        if on_send {
            let multicast = self.copied_multicast(at, from, &content);
            return Line { message: Some(self.next_message()), multicast, ..with_content(line, content) };
        }
        let (number, multicast) = self.arrive(at, from, to, &content);
        Line { message: number, multicast, ..line }
    }
}

impl Observer for Recorder {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        let line = Line { at: at.as_units(), ..self.describe(at, event) };
        self.each_sink(|sink| sink.line(&line));
    }
}

/// The line of an event that concerns one process or the whole network.
fn local(event: TraceEvent<'_>) -> Line {
    match event {
        TraceEvent::Expired { who, timer } => {
            Line { timer: Some(format!("{timer:?}")), ..Line::of(EventName::Expired, who) }
        }
        TraceEvent::Announced { who, announcement } => announced(who, announcement),
        TraceEvent::Leased { who, until } => {
            Line { until: Some(until.as_units()), ..Line::of(EventName::Leased, who) }
        }
        TraceEvent::Commanded { who, command } => {
            Line { command: Some(command.to_string()), ..Line::of(EventName::Commanded, who) }
        }
        TraceEvent::Suspected { who, peer } => {
            Line { peer: Some(peer), ..Line::of(EventName::Suspected, who) }
        }
        TraceEvent::Restored { who, peer } => Line { peer: Some(peer), ..Line::of(EventName::Restored, who) },
        TraceEvent::Crashed { who } => Line::of(EventName::Crashed, who),
        TraceEvent::Recovered { who } => Line::of(EventName::Recovered, who),
        TraceEvent::Paused { who } => Line::of(EventName::Paused, who),
        TraceEvent::Resumed { who } => Line::of(EventName::Resumed, who),
        TraceEvent::Jumped { who, by, back } => {
            let by = if back { -by.as_units() } else { by.as_units() };
            Line { by: Some(by), ..Line::of(EventName::Jumped, who) }
        }
        TraceEvent::Ranked { who, attribute } => {
            Line { attribute: Some(attribute), ..Line::of(EventName::Ranked, who) }
        }
        TraceEvent::Conditions { condition, value } => Line {
            event: EventName::Conditions,
            condition: Some(condition.into()),
            value: Some(value),
            ..Line::default()
        },
        TraceEvent::Violated { invariant, detail } => Line {
            event: EventName::Violated,
            invariant: Some(invariant.into()),
            detail: Some(detail.to_string()),
            ..Line::default()
        },
        TraceEvent::Sent { .. }
        | TraceEvent::Multicast { .. }
        | TraceEvent::Delivered { .. }
        | TraceEvent::Dropped { .. }
        | TraceEvent::Cut
        | TraceEvent::Healed
        | TraceEvent::HealedAll => unreachable!("the recorder handles these events"),
    }
}

fn between(event: EventName, from: NodeId, to: NodeId, message: TracedMessage<'_>) -> Line {
    let (kind, counted) = (Some(Cow::Borrowed(message.kind)), Some(message.counted));
    Line { event, from: Some(from), to: Some(to), kind, counted, ..Line::default() }
}

fn with_content(line: Line, content: String) -> Line {
    let content = RawValue::from_string(content).expect("the simulator writes JSON");
    Line { content: Some(content), ..line }
}

fn cut(event: EventName, CutGroups { groups, one_way }: CutGroups) -> Line {
    Line { event, groups: Some(groups), one_way: Some(one_way), ..Line::default() }
}

pub(super) fn announced(node: NodeId, announcement: Announcement) -> Line {
    match announcement {
        Announcement::Elected { leader, term } => {
            Line { leader: Some(leader), term: Some(term), ..Line::of(EventName::Elected, node) }
        }
        Announcement::SteppedDown => Line::of(EventName::SteppedDown, node),
        Announcement::Undecided => Line::of(EventName::Undecided, node),
    }
}

fn reason_name(reason: DropReason) -> &'static str {
    match reason {
        DropReason::Lost => "lost",
        DropReason::Cut => "cut",
        DropReason::ReceiverDead => "dead",
        DropReason::UnknownReceiver => "unknown",
    }
}
