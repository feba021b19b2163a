//! A trace as columns of numbers, for the player.
//!
//! `web/player/model.js` reads the columns. Times and contents are stored once a message; a page with a million events has
//! about 30 MB.

use std::collections::BTreeMap;
use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;
use serde_json::json;
use suffrage_core::NodeId;

use crate::trace::{EventName, Header, Line, Routine, Sink};

/// The slot or text of a field that does not apply.
const NONE: u32 = u32::MAX;

/// The first bytes of an encoded run.
const MAGIC: &[u8; 4] = b"SUF1";

/// What became of a message.
#[derive(Clone, Copy)]
enum Fate {
    Flying = 0,
    Delivered = 1,
    Lost = 2,
    Cut = 3,
    Dead = 4,
    Unknown = 5,
}

/// A kind of message.
#[derive(Serialize)]
struct Kind {
    name: String,
    counted: bool,
}

#[derive(Default)]
struct Events {
    at: Vec<f64>,
    kind: Vec<u8>,
    reference: Vec<u32>,
}

#[derive(Default)]
struct Messages {
    sent: Vec<f64>,
    end: Vec<f64>,
    from: Vec<u32>,
    to: Vec<u32>,
    kind: Vec<u8>,
    fate: Vec<u8>,
    flags: Vec<u8>,
    content: Vec<u32>,
}

#[derive(Default)]
struct Marks {
    node: Vec<u32>,
    a: Vec<u32>,
    b: Vec<f64>,
}

/// Texts without repetition.
#[derive(Default)]
struct Texts {
    indices: BTreeMap<String, u32>,
    bytes: Vec<u8>,
    offsets: Vec<u32>,
}

impl Texts {
    fn index(&mut self, text: &str) -> u32 {
        if let Some(&index) = self.indices.get(text) {
            return index;
        }
        if self.offsets.is_empty() {
            self.offsets.push(0);
        }
        let index = self.offsets.len() as u32 - 1;
        self.bytes.extend_from_slice(text.as_bytes());
        self.offsets.push(self.bytes.len() as u32);
        self.indices.insert(text.to_string(), index);
        index
    }
}

/// A multicast that is delivered under its own number.
struct Multicast {
    sent: f64,
    kind: u8,
    content: u32,
    is_routine: bool,
}

/// Encodes a trace.
#[derive(Default)]
pub(crate) struct Encoder {
    title: String,
    note: String,
    header: Option<Header>,
    slots: BTreeMap<NodeId, u32>,
    kinds: Vec<Kind>,
    events: Events,
    messages: Messages,
    marks: Marks,
    texts: Texts,
    routine: Routine,
    /// The rows of the messages in flight.
    flying: BTreeMap<u64, u32>,
    multicasts: BTreeMap<u64, Multicast>,
    end: f64,
}

impl Encoder {
    /// An encoder for a run with this title, and a note about it, which may be empty.
    pub(crate) fn new(title: &str, note: &str) -> Encoder {
        Encoder { title: title.to_string(), note: note.to_string(), ..Encoder::default() }
    }

    pub(crate) fn set_title(&mut self, title: &str) {
        self.title = title.to_string();
    }

    /// The number of events.
    pub(crate) fn events(&self) -> usize {
        self.events.at.len()
    }

    fn slot(&self, id: Option<NodeId>) -> u32 {
        id.and_then(|id| self.slots.get(&id).copied()).unwrap_or(NONE)
    }

    fn kind(&mut self, line: &Line) -> u8 {
        let name = line.kind.as_deref().unwrap_or_default();
        let index = self.kinds.iter().position(|kind| kind.name == name).unwrap_or_else(|| {
            self.kinds.push(Kind { name: name.to_string(), counted: line.counted.unwrap_or(true) });
            self.kinds.len() - 1
        });
        index.min(u8::MAX.into()) as u8
    }

    fn event(&mut self, line: &Line, reference: u32) {
        self.events.at.push(line.at);
        self.events.kind.push(line.event as u8);
        self.events.reference.push(reference);
    }

    /// Adds a row of the table of messages.
    fn message(&mut self, line: &Line, sent: f64, kind: u8, content: u32, is_routine: bool) -> u32 {
        let (from, to) = (self.slot(line.from), self.slot(line.to));
        let messages = &mut self.messages;
        messages.sent.push(sent);
        messages.end.push(line.arrives.unwrap_or(line.at));
        messages.from.push(from);
        messages.to.push(to);
        messages.kind.push(kind);
        messages.fate.push(Fate::Flying as u8);
        messages.flags.push(u8::from(is_routine));
        messages.content.push(content);
        messages.sent.len() as u32 - 1
    }

    fn end_message(&mut self, row: u32, line: &Line) {
        let fate = match (line.event, line.reason.as_deref()) {
            (EventName::Delivered, _) => Fate::Delivered,
            (_, Some("cut")) => Fate::Cut,
            (_, Some("dead")) => Fate::Dead,
            (_, Some("unknown")) => Fate::Unknown,
            _ => Fate::Lost,
        };
        self.messages.end[row as usize] = line.at;
        self.messages.fate[row as usize] = fate as u8;
    }

    fn on_message(&mut self, line: &Line) {
        let is_routine = self.routine.is_routine(line);
        let number = line.message.unwrap_or_default();
        let kind = self.kind(line);
        if let Some(content) = &line.content {
            let content = self.texts.index(content.get());
            if line.event == EventName::Multicast {
                self.multicasts.insert(number, Multicast { sent: line.at, kind, content, is_routine });
                let name = self.texts.index(line.kind.as_deref().unwrap_or_default());
                return self.mark(line, line.from, name, content.into());
            }
            let row = self.message(line, line.at, kind, content, is_routine);
            match line.event {
                EventName::Dropped => self.end_message(row, line),
                _ => drop(self.flying.insert(number, row)),
            }
            return self.event(line, row);
        }
        let row = match self.flying.remove(&number) {
            Some(row) => row,
            None => {
                let known = self.multicasts.get(&number);
                let (sent, content, is_routine) = known
                    .map_or((line.at, NONE, false), |known| (known.sent, known.content, known.is_routine));
                let kind = known.map_or(kind, |known| known.kind);
                self.message(line, sent, kind, content, is_routine)
            }
        };
        self.end_message(row, line);
        self.event(line, row);
    }

    fn mark(&mut self, line: &Line, node: Option<NodeId>, a: u32, b: f64) {
        let node = self.slot(node);
        self.marks.node.push(node);
        self.marks.a.push(a);
        self.marks.b.push(b);
        let row = self.marks.node.len() as u32 - 1;
        self.event(line, row);
    }

    fn on_mark(&mut self, line: &Line) {
        self.routine.is_routine(line);
        let (a, b) = match line.event {
            EventName::Expired => (self.texts.index(line.timer.as_deref().unwrap_or_default()), 0.0),
            EventName::Elected => (self.slot(line.leader), line.term.unwrap_or_default().0 as f64),
            EventName::Leased => (NONE, line.until.unwrap_or(line.at)),
            EventName::Commanded => (self.texts.index(line.command.as_deref().unwrap_or_default()), 0.0),
            EventName::Suspected | EventName::Restored => (self.slot(line.peer), 0.0),
            EventName::Jumped => (NONE, line.by.unwrap_or_default()),
            EventName::Ranked => (NONE, line.attribute.unwrap_or_default() as f64),
            EventName::Cut | EventName::Healed => {
                let group = |group: &Vec<NodeId>| -> Vec<u32> {
                    group.iter().map(|&id| self.slot(Some(id))).collect()
                };
                let groups: Vec<Vec<u32>> = line.groups.iter().flatten().map(group).collect();
                let one_way = line.one_way.unwrap_or_default();
                (self.texts.index(&json!({ "groups": groups, "one_way": one_way }).to_string()), 0.0)
            }
            EventName::Conditions => {
                let name = line.condition.as_deref().unwrap_or_default();
                (self.texts.index(name), line.value.unwrap_or_default())
            }
            EventName::Violated => {
                let invariant = line.invariant.as_deref().unwrap_or_default();
                let detail = line.detail.as_deref().unwrap_or_default();
                (self.texts.index(&format!("{invariant}: {detail}")), 0.0)
            }
            _ => (NONE, 0.0),
        };
        self.mark(line, line.node, a, b);
    }

    /// The run as text that a page can contain: Base64.
    pub(crate) fn text(&self) -> String {
        STANDARD.encode(self.bytes())
    }

    fn bytes(&self) -> Vec<u8> {
        let doubles =
            |values: &[f64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let words = |values: &[u32]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<u8>>();
        let Encoder { events, messages, marks, texts, .. } = self;
        let columns: [(&str, &str, usize, Vec<u8>); 16] = [
            ("event_at", "f64", events.at.len(), doubles(&events.at)),
            ("event_type", "u8", events.kind.len(), events.kind.clone()),
            ("event_ref", "u32", events.reference.len(), words(&events.reference)),
            ("message_sent", "f64", messages.sent.len(), doubles(&messages.sent)),
            ("message_end", "f64", messages.end.len(), doubles(&messages.end)),
            ("message_from", "u32", messages.from.len(), words(&messages.from)),
            ("message_to", "u32", messages.to.len(), words(&messages.to)),
            ("message_kind", "u8", messages.kind.len(), messages.kind.clone()),
            ("message_fate", "u8", messages.fate.len(), messages.fate.clone()),
            ("message_flags", "u8", messages.flags.len(), messages.flags.clone()),
            ("message_content", "u32", messages.content.len(), words(&messages.content)),
            ("mark_node", "u32", marks.node.len(), words(&marks.node)),
            ("mark_a", "u32", marks.a.len(), words(&marks.a)),
            ("mark_b", "f64", marks.b.len(), doubles(&marks.b)),
            ("text_bytes", "u8", texts.bytes.len(), texts.bytes.clone()),
            ("text_offsets", "u32", texts.offsets.len(), words(&texts.offsets)),
        ];
        // The offsets are relative to the start of the data, and are as long as they can be: the header's length is not
        // known yet.
        let meta = |start: usize| {
            let mut offset = start;
            let mut list = Vec::new();
            for (name, kind, count, bytes) in &columns {
                list.push(json!([name, kind, offset, count]));
                offset += bytes.len().next_multiple_of(8);
            }
            json!({
                "header": self.header, "title": self.title, "note": self.note, "kinds": self.kinds,
                "end": self.end, "columns": list,
            })
            .to_string()
        };
        let longest = meta(usize::MAX >> 16).len() + columns.len() * 8;
        let start = (MAGIC.len() + 4 + longest).next_multiple_of(8);
        let header = format!("{:width$}", meta(start), width = start - 8);
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        for (.., column) in columns {
            bytes.extend_from_slice(&column);
            bytes.resize(bytes.len().next_multiple_of(8), 0);
        }
        bytes
    }
}

impl Sink for Encoder {
    fn open(&mut self, header: &Header) -> io::Result<()> {
        self.slots = header.members.iter().enumerate().map(|(slot, &id)| (id, slot as u32)).collect();
        self.header = Some(header.clone());
        Ok(())
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.end = line.at;
        match line.event {
            EventName::Sent | EventName::Multicast | EventName::Delivered | EventName::Dropped => {
                self.on_message(line);
            }
            _ => self.on_mark(line),
        }
        Ok(())
    }

    /// The last step of a schedule takes a unit of time, so that its effects can be seen.
    fn close(&mut self) -> io::Result<()> {
        self.end += f64::from(u8::from(self.header.as_ref().is_some_and(|header| header.steps)));
        Ok(())
    }
}
