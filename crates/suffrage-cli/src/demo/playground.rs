//! The playground: the state of the demo that its page shows, and the actions of its buttons.

use std::collections::VecDeque;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use suffrage_core::{Span, Time};
use suffrage_node::clock::{BootClock, Clock as _};

use super::server::{Action, Server};
use super::{Demo, Role};
use crate::{Console, Error};

/// The number of events that the page shows.
const EVENTS: usize = 60;
/// The time that the page's timeline shows.
const SHOWN: Span = Span::from_millis(120_000);

/// The page of a demo.
pub(super) struct Playground {
    server: Server,
    events: VecDeque<(Time, String)>,
    _opener: Option<Opener>,
}

/// A file that leads a browser to the page. Command lines are shown to all users of the machine, and the address has the
/// token: so xdg-open gets the path of a file that only this user can read. The file is removed when the demo ends.
struct Opener(PathBuf);

impl Opener {
    fn open(address: &str) -> io::Result<Opener> {
        let opener = Opener::write(address)?;
        let mut command = Command::new("xdg-open");
        command.arg(opener.file()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn()?;
        Ok(opener)
    }

    /// Writes the file, into a folder of its own.
    fn write(address: &str) -> io::Result<Opener> {
        let mut number = [0; 8];
        getrandom::fill(&mut number).map_err(io::Error::other)?;
        let number = u64::from_le_bytes(number);
        let folder = std::env::temp_dir().join(format!("suffrage-playground-{number:016x}"));
        // Fails if the folder exists: nobody else can have made it.
        DirBuilder::new().mode(0o700).create(&folder)?;
        let opener = Opener(folder);
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(opener.file())?;
        // The address has no characters that HTML treats specially.
        writeln!(
            file,
            "<!doctype html>\n<meta charset=\"utf-8\">\n<meta http-equiv=\"refresh\" content=\"0; url={address}\">\n\
             <title>suffrage demo</title>\n<a href=\"{address}\">The playground</a>"
        )?;
        Ok(opener)
    }

    fn file(&self) -> PathBuf {
        self.0.join("open.html")
    }
}

impl Drop for Opener {
    fn drop(&mut self) {
        // A file that stays is of no use to others: only this user can read it, and the server ends with the process.
        _ = fs::remove_dir_all(&self.0);
    }
}

impl Playground {
    /// Starts the server, prints the address of the page, and opens it if that is wished.
    pub(super) fn start(open: bool, console: &mut Console<'_>) -> Result<Playground, Error> {
        let server = Server::start()?;
        writeln!(console.out, "Playground: {}", server.address())?;
        let mut opener = None;
        if open {
            match Opener::open(server.address()) {
                Ok(opened) => opener = Some(opened),
                Err(error) => {
                    writeln!(
                        console.out,
                        "xdg-open cannot be started: {error}; open the address in a browser"
                    )?;
                }
            }
        }
        writeln!(console.out)?;
        console.out.flush()?;
        Ok(Playground { server, events: VecDeque::new(), _opener: opener })
    }

    /// Keeps an event for the page.
    pub(super) fn note(&mut self, at: Time, text: &str) {
        self.events.push_back((at, text.to_string()));
        self.events.drain(..self.events.len().saturating_sub(EVENTS));
    }
}

/// A button of the page. Nodes are numbered from 0.
#[derive(Debug, PartialEq, Eq)]
enum Button {
    Kill(usize),
    Start(usize),
    Pause(usize),
    Resume(usize),
    /// Tells a node to call an election.
    Campaign(usize),
    /// Cuts or restores the link from one node to another.
    Link {
        from: usize,
        to: usize,
        cut: bool,
    },
    /// Cuts all links of a node, in both directions.
    Isolate(usize),
    Heal,
}

impl Button {
    /// The button of an action, such as `{"do":"cut","from":1,"to":2}`.
    fn parse(text: &str, nodes: usize) -> Result<Button, String> {
        let action: Value =
            serde_json::from_str(text).map_err(|error| format!("the action is no JSON: {error}"))?;
        let node = |key: &str| {
            let id = action[key].as_u64().and_then(super::index_of).filter(|node| *node < nodes);
            id.ok_or_else(|| format!("{key}: must be the id of a node, 1 to {nodes}, not {}", action[key]))
        };
        let link = |cut| {
            let (from, to) = (node("from")?, node("to")?);
            if from == to {
                return Err(format!("from and to are both {}: a link has two ends", from + 1));
            }
            Ok(Button::Link { from, to, cut })
        };
        match action["do"].as_str() {
            Some("kill") => node("node").map(Button::Kill),
            Some("start") => node("node").map(Button::Start),
            Some("pause") => node("node").map(Button::Pause),
            Some("resume") => node("node").map(Button::Resume),
            Some("campaign") => node("node").map(Button::Campaign),
            Some("isolate") => node("node").map(Button::Isolate),
            Some("cut") => link(true),
            Some("restore") => link(false),
            Some("heal") => Ok(Button::Heal),
            _ => Err(format!("do: {} is no action", action["do"])),
        }
    }
}

impl Demo<'_, '_> {
    /// Carries out the actions of the page. Returns whether there was one: the demo then does nothing by itself.
    pub(super) fn act(&mut self) -> Result<bool, Error> {
        let mut acted = false;
        while let Some(Action { text, result }) = self.playground.as_ref().and_then(|it| it.server.action()) {
            acted = true;
            let done = match Button::parse(&text, self.rows.len()) {
                Ok(button) => self.press(button)?,
                Err(reason) => Err(reason),
            };
            // The state shows the effect when the page has the answer.
            self.publish();
            // The browser may have hung up.
            _ = result.send(done);
        }
        Ok(acted)
    }

    /// Carries out a button. The inner error is for the page.
    fn press(&mut self, button: Button) -> Result<Result<(), String>, Error> {
        match button {
            Button::Kill(node) | Button::Pause(node) | Button::Resume(node) | Button::Campaign(node)
                if self.rows[node].role == Role::Dead =>
            {
                return Ok(Err(format!("node {} is dead: start it again first", node + 1)));
            }
            Button::Kill(node) => {
                self.kill(node)?;
                self.rows[node].waits_for_start = true;
            }
            Button::Start(node) if self.rows[node].role != Role::Dead => {
                return Ok(Err(format!("node {} runs", node + 1)));
            }
            Button::Start(node) => self.restart(node)?,
            Button::Pause(node) => return self.signal(node, Signal::STOP, "is paused with SIGSTOP"),
            Button::Resume(node) => return self.signal(node, Signal::CONT, "continues after SIGCONT"),
            Button::Campaign(_) if self.kind.has_leases() => {
                return Ok(Err("nodes with leases campaign by themselves".to_string()));
            }
            Button::Campaign(node) => {
                if let Some(running) = &mut self.rows[node].running {
                    // A failure means that the node has ended, which its output reports.
                    _ = running.input.write_all(b"campaign\n");
                }
                self.event(&format!("node {} is told to call an election", node + 1))?;
            }
            Button::Link { from, to, cut } => {
                self.links.set(&self.sockets, from, to, cut)?;
                let what = if cut { "is cut" } else { "is restored" };
                self.event(&format!("the link from node {} to node {} {what}", from + 1, to + 1))?;
            }
            Button::Isolate(node) => {
                for other in (0..self.rows.len()).filter(|other| *other != node) {
                    self.links.set(&self.sockets, node, other, true)?;
                    self.links.set(&self.sockets, other, node, true)?;
                }
                self.event(&format!("all links of node {} are cut", node + 1))?;
            }
            Button::Heal => {
                self.links.heal(&self.sockets)?;
                self.event("all links are restored")?;
            }
        }
        Ok(Ok(()))
    }

    fn signal(&mut self, node: usize, signal: Signal, what: &str) -> Result<Result<(), String>, Error> {
        let row = &mut self.rows[node];
        let Some(running) = &row.running else { return Ok(Err(format!("node {} has ended", node + 1))) };
        let pid = Pid::from_child(&running.child);
        if let Err(error) = kill_process(pid, signal) {
            return Ok(Err(format!("node {} gets no signal: {error}", node + 1)));
        }
        row.paused = signal == Signal::STOP;
        let pid = row.pid;
        self.event(&format!("node {}, process {pid}, {what}", node + 1))?;
        Ok(Ok(()))
    }

    /// Publishes the state for the page.
    pub(super) fn publish(&self) {
        if let Some(playground) = &self.playground {
            playground.server.publish(self.state(playground).to_string());
        }
    }

    fn state(&self, playground: &Playground) -> Value {
        let now = BootClock.now();
        let milliseconds = |time: Time| time.since(self.start).as_nanos() as f64 / 1e6;
        let nodes: Vec<Value> = self.rows.iter().zip(1..).map(|(row, id)| {
            let (role, leader, number) = match row.role {
                Role::Starts => ("starts", None, None),
                Role::Leads(number) => ("leads", Some(id), Some(number)),
                Role::Follows(leader, number) => ("follows", Some(leader + 1), Some(number)),
                Role::NoLeader => ("undecided", None, None),
                Role::Dead => ("dead", None, None),
            };
            let lease = matches!(row.role, Role::Leads(_)) && self.kind.has_leases();
            json!({
                "id": id, "pid": row.pid, "role": role, "leader": leader, "number": number, "paused": row.paused,
                "lease_until": lease.then(|| milliseconds(row.until)),
                "suspects": row.suspects.iter().map(|peer| peer + 1).collect::<Vec<_>>(),
            })
        }).collect();
        let since = Time::from_nanos(now.as_nanos().saturating_sub(SHOWN.as_nanos()));
        let reigns: Vec<Value> = self.timeline.since(since).map(|reign| {
            let to = reign.to.map(milliseconds);
            json!({ "node": reign.node + 1, "number": reign.number, "from": milliseconds(reign.from), "to": to, "open": reign.open })
        }).collect();
        let cuts: Vec<Value> = self.links.cut().map(|(from, to)| json!([from + 1, to + 1])).collect();
        let events: Vec<Value> = playground
            .events
            .iter()
            .map(|(at, text)| json!({ "at": milliseconds(*at), "text": text }))
            .collect();
        let overlaps = self.timeline.overlaps(now);
        let (title, promise) = self.kind.title();
        json!({
            "now": milliseconds(now),
            "title": title,
            "promise": promise,
            "never_two": self.kind.never_two(),
            "has_leases": self.kind.has_leases(),
            "nodes": nodes,
            "cuts": cuts,
            "reigns": reigns,
            "overlaps": { "count": overlaps.count, "ms": overlaps.time.as_nanos() as f64 / 1e6 },
            "events": events,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn the_file_that_leads_to_the_page_is_readable_by_its_user_only_and_goes_with_the_demo() {
        let address = "http://127.0.0.1:7/#0123456789abcdef";
        let opener = Opener::write(address).unwrap();
        let mode = |path: PathBuf| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(opener.file()), mode(opener.0.clone())), (0o600, 0o700));
        assert!(fs::read_to_string(opener.file()).unwrap().contains(&format!("url={address}\"")));
        let folder = opener.0.clone();
        assert!(!folder.to_string_lossy().contains("0123456789abcdef"));
        drop(opener);
        assert!(!folder.exists());
    }

    #[test]
    fn actions_are_parsed_and_wrong_ones_are_explained() {
        let parse = |text: &str| Button::parse(text, 5);
        assert_eq!(parse(r#"{"do":"kill","node":5}"#), Ok(Button::Kill(4)));
        assert_eq!(parse(r#"{"do":"cut","from":1,"to":2}"#), Ok(Button::Link { from: 0, to: 1, cut: true }));
        assert_eq!(parse(r#"{"do":"heal"}"#), Ok(Button::Heal));
        for (wrong, reason) in [
            (r#"{"do":"kill","node":6}"#, "1 to 5, not 6"),
            (r#"{"do":"kill","node":0}"#, "1 to 5, not 0"),
            (r#"{"do":"kill"}"#, "not null"),
            (r#"{"do":"cut","from":2,"to":2}"#, "both 2"),
            (r#"{"do":"dance","node":1}"#, "is no action"),
            ("[", "no JSON"),
            ("7", "is no action"),
        ] {
            let error = parse(wrong).unwrap_err();
            assert!(error.contains(reason), "{wrong}: {error}");
        }
    }
}
