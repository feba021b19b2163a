//! Traces in the Trace Event Format, which Perfetto and Chrome read.
//!
//! One time unit is a millisecond. Each process has a thread of the group "processes", with a slice for each event and a
//! flow from each message's sending to its delivery. Leaderships are slices of the group "leaders". Leases, crashes,
//! pauses and cuts are asynchronous events.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde_json::{Value, json};
use suffrage_core::NodeId;

use super::{EventName, Header, Line, Sink};

/// The groups of threads, which the format calls processes.
const PROCESSES: u32 = 1;
const LEADERS: u32 = 2;
const NETWORK: u32 = 3;

/// The length of the slice of an event, in microseconds: flows start and end in slices.
const SLICE: f64 = 10.0;

/// Writes the Trace Event Format.
pub(super) struct Perfetto<W> {
    out: W,
    is_first: bool,
    /// The last time, in microseconds.
    now: f64,
    /// The terms of the processes that lead.
    leaders: BTreeMap<NodeId, String>,
    /// The asynchronous events that have begun: category and id, with the group and the name.
    open: BTreeMap<(&'static str, String), (u32, String)>,
    cuts: u64,
    open_cuts: Vec<(String, String)>,
}

impl<W: Write> Perfetto<W> {
    pub(super) fn new(out: W) -> Perfetto<W> {
        Perfetto {
            out,
            is_first: true,
            now: 0.0,
            leaders: BTreeMap::new(),
            open: BTreeMap::new(),
            cuts: 0,
            open_cuts: Vec::new(),
        }
    }

    fn write(&mut self, event: &Value) -> io::Result<()> {
        let separator = if std::mem::take(&mut self.is_first) { "" } else { ",\n" };
        write!(self.out, "{separator}{event}")
    }

    fn name(&mut self, what: &str, group: u32, thread: Option<NodeId>, name: &str) -> io::Result<()> {
        let thread = thread.map_or(0, |id| id.0);
        self.write(&json!({ "ph": "M", "name": what, "pid": group, "tid": thread, "args": { "name": name } }))
    }

    /// Begins or ends an asynchronous event.
    fn set_open(
        &mut self,
        category: &'static str,
        id: &str,
        group: u32,
        name: Option<&str>,
        at: f64,
    ) -> io::Result<()> {
        let key = (category, id.to_string());
        if let Some((group, name)) = self.open.remove(&key) {
            self.write(&json!({
                "ph": "e", "cat": category, "id": id, "name": name, "pid": group, "tid": 0, "ts": at,
            }))?;
        }
        if let Some(name) = name {
            self.write(&json!({
                "ph": "b", "cat": category, "id": id, "name": name, "pid": group, "tid": 0, "ts": at,
            }))?;
            self.open.insert(key, (group, name.to_string()));
        }
        Ok(())
    }

    fn slice(&mut self, line: &Line, process: NodeId) -> io::Result<()> {
        let (ts, name) = (self.now, line.describe());
        let mut args = serde_json::to_value(line)?;
        if let Some(content) = &line.content {
            args["content"] = serde_json::from_str(content.get())?;
        }
        self.write(&json!({
            "ph": "X", "cat": "event", "name": name, "pid": PROCESSES, "tid": process.0, "ts": ts, "dur": SLICE,
            "args": args,
        }))?;
        let flow = match line.event {
            EventName::Sent | EventName::Multicast => json!({ "ph": "s" }),
            EventName::Delivered => json!({ "ph": "f", "bp": "e" }),
            _ => return Ok(()),
        };
        let Some(message) = line.message else { return Ok(()) };
        let mut flow = flow;
        flow["cat"] = json!("message");
        flow["name"] = json!(line.kind);
        flow["id"] = json!(message);
        flow["pid"] = json!(PROCESSES);
        flow["tid"] = json!(process.0);
        flow["ts"] = json!(ts);
        self.write(&flow)
    }

    fn set_leader(&mut self, process: NodeId, name: Option<String>) -> io::Result<()> {
        let ts = self.now;
        if self.leaders.get(&process) == name.as_ref() {
            return Ok(());
        }
        if let Some(before) = self.leaders.remove(&process) {
            self.write(&json!({ "ph": "E", "name": before, "pid": LEADERS, "tid": process.0, "ts": ts }))?;
        }
        if let Some(name) = name {
            self.write(&json!({
                "ph": "B", "cat": "leader", "name": name, "pid": LEADERS, "tid": process.0, "ts": ts,
            }))?;
            self.leaders.insert(process, name);
        }
        Ok(())
    }

    /// Begins and ends what lasts: leaderships, leases, crashes, pauses.
    fn update_process(&mut self, line: &Line, process: NodeId) -> io::Result<()> {
        let (id, now) = (process.to_string(), self.now);
        match line.event {
            EventName::Elected if line.leader == line.node => {
                let term = line.term.unwrap_or_default();
                self.set_leader(process, Some(format!("{process} leads in term {term}")))
            }
            EventName::Elected | EventName::SteppedDown | EventName::Undecided => {
                self.set_open("lease", &id, LEADERS, None, now)?;
                self.set_leader(process, None)
            }
            EventName::Leased => {
                self.set_open("lease", &id, LEADERS, Some(&format!("lease of {process}")), now)
            }
            EventName::Crashed => {
                self.set_leader(process, None)?;
                self.set_open("lease", &id, LEADERS, None, now)?;
                self.set_open("pause", &id, NETWORK, None, now)?;
                self.set_open("crash", &id, NETWORK, Some(&format!("{process} is down")), now)
            }
            EventName::Recovered => self.set_open("crash", &id, NETWORK, None, now),
            EventName::Paused => {
                self.set_open("pause", &id, NETWORK, Some(&format!("{process} is paused")), now)
            }
            EventName::Resumed => self.set_open("pause", &id, NETWORK, None, now),
            _ => Ok(()),
        }
    }

    fn network(&mut self, line: &Line) -> io::Result<()> {
        let (name, now) = (line.describe(), self.now);
        match line.event {
            EventName::Cut => {
                self.cuts += 1;
                let id = self.cuts.to_string();
                self.set_open("cut", &id, NETWORK, Some(&name), now)?;
                self.open_cuts.push((name.replacen("cut", "healed", 1), id));
            }
            EventName::Healed => {
                if let Some(index) = self.open_cuts.iter().position(|(healed, _)| *healed == name) {
                    let (_, id) = self.open_cuts.remove(index);
                    self.set_open("cut", &id, NETWORK, None, now)?;
                }
            }
            EventName::HealedAll => {
                for (_, id) in std::mem::take(&mut self.open_cuts) {
                    self.set_open("cut", &id, NETWORK, None, now)?;
                }
            }
            _ => {}
        }
        self.write(&json!({
            "ph": "i", "s": "g", "cat": "network", "name": name, "pid": NETWORK, "tid": 0, "ts": now,
            "args": line,
        }))
    }
}

impl<W: Write> Sink for Perfetto<W> {
    fn open(&mut self, header: &Header) -> io::Result<()> {
        writeln!(self.out, "{{\"displayTimeUnit\":\"ms\",\"otherData\":{},\"traceEvents\":[", json!(header))?;
        for (group, name) in [(PROCESSES, "processes"), (LEADERS, "leaders"), (NETWORK, "network and faults")]
        {
            self.name("process_name", group, None, name)?;
        }
        for &member in &header.members {
            for group in [PROCESSES, LEADERS] {
                self.name("thread_name", group, Some(member), &format!("process {member}"))?;
            }
        }
        for &member in &header.crashed {
            let name = format!("{member} is down");
            self.set_open("crash", &member.to_string(), NETWORK, Some(&name), 0.0)?;
        }
        Ok(())
    }

    fn line(&mut self, line: &Line) -> io::Result<()> {
        self.now = line.at * 1000.0;
        match line.process() {
            Some(process) => {
                self.slice(line, process)?;
                self.update_process(line, process)
            }
            None => self.network(line),
        }
    }

    /// Ends what is still open, so that viewers show it up to the end of the run.
    fn close(&mut self) -> io::Result<()> {
        let now = self.now;
        for process in self.leaders.keys().copied().collect::<Vec<_>>() {
            self.set_leader(process, None)?;
        }
        for (category, id) in self.open.keys().cloned().collect::<Vec<_>>() {
            self.set_open(category, &id, NETWORK, None, now)?;
        }
        self.out.write_all(b"\n]}\n")?;
        self.out.flush()
    }
}
