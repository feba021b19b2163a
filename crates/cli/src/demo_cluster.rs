//! `suffrage demo`: a cluster of real processes on loopback, whose leader is killed before one's eyes.
//!
//! Each node is this program again, as `demo-node`, with a key and a data folder that end with the demo. A node
//! lives no longer than the demo: it ends when the pipe that is its standard input does.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes that run in real time")]

use std::collections::VecDeque;
use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::UdpSocket;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use election::{Span, Time};
use runtime::clock::{BootClock, Clock as _};

use crate::Console;
use crate::error::Error;

const TTL: &str = "1s";
const LONGEST_TTL: &str = "2s";
/// How long a leader is left to be looked at before it is killed, and what follows before the demo ends.
const LOOK: Span = Span::from_millis(1_500);
/// How long a node that has died stays dead.
const DEAD: Span = Span::from_millis(3_000);
/// How often the table is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// How many events are seen under it.
const EVENTS: usize = 12;

/// Shows it, until the user has seen enough; or once.
pub(crate) fn execute(nodes: usize, once: bool, console: &mut Console<'_>) -> Result<(), Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    // Where it cannot be set, a signal ends the program at once, and the nodes with it.
    let _ = ctrlc::set_handler(move || told.store(true, Ordering::Relaxed));
    let mut show = Show::start(nodes, console)?;
    let mut act = Act::Opening;
    while !stop.load(Ordering::Relaxed) {
        match show.news.recv_timeout(FRAME) {
            Ok(news) => show.hear(news)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the show itself holds a sender"),
        }
        show.revive(once)?;
        show.draw()?;
        let (now, agreed) = (BootClock.now(), show.agreed());
        act = match (act, agreed) {
            (Act::Opening, Some(leader)) => Act::Look(leader, now + LOOK),
            (Act::Look(leader, until), Some(still)) if leader == still && now >= until => {
                show.kill(leader)?;
                Act::Killed(leader)
            }
            (Act::Look(..), None) => Act::Opening,
            (Act::Killed(leader), Some(next)) if next != leader => Act::After(now + LOOK),
            (Act::After(until), Some(_)) if now >= until && once => break,
            (Act::After(until), Some(_)) if now >= until => {
                show.event("now you: kill -9 or kill -STOP any of these pids, and see; Ctrl-C ends")?;
                Act::Play
            }
            (act, _) => act,
        };
    }
    show.event("all are stopped")?;
    show.draw()
}

/// How far the play is.
enum Act {
    Opening,
    /// This one leads, and is left to until then.
    Look(usize, Time),
    Killed(usize),
    After(Time),
    Play,
}

/// What a node believes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Starts,
    Leads(u64),
    Follows(usize, u64),
    KnowsNobody,
    Dead,
}

/// What a node told, by the machine's clock; nothing if it has ended.
struct News {
    node: usize,
    pid: u32,
    told: Option<(Time, String)>,
}

/// A node's process, which ends with this.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.0.kill();
        _ = self.0.wait();
    }
}

struct Row {
    running: Option<Running>,
    pid: u32,
    role: Role,
    /// The end of its lease, as far as it has told.
    until: Time,
    died: Time,
}

/// A folder that ends with the demo.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Show<'a, 'c> {
    rows: Vec<Row>,
    news: Receiver<News>,
    sender: Sender<News>,
    addresses: String,
    events: VecDeque<String>,
    /// Since when nobody leads, and why.
    vacant: Option<(Time, String)>,
    start: Time,
    console: &'a mut Console<'c>,
    /// How many lines of the table stand on the screen.
    drawn: usize,
    /// The last, so that nodes are stopped before it is removed.
    folder: Folder,
}

impl<'a, 'c> Show<'a, 'c> {
    fn start(nodes: usize, console: &'a mut Console<'c>) -> Result<Show<'a, 'c>, Error> {
        let start = BootClock.now();
        let name = format!("suffrage-demo-{}-{}", std::process::id(), start.as_nanos());
        let folder = Folder(std::env::temp_dir().join(name));
        let failed = |error: std::io::Error| Error::Failed(format!("{}: {error}", folder.0.display()));
        fs::create_dir(&folder.0).map_err(failed)?;
        let keys = suffrage::Keyring::generate().and_then(|keyring| keyring.create(&folder.0.join("keys")));
        keys.map_err(|error| Error::Failed(error.to_string()))?;
        let sockets: Vec<UdpSocket> =
            (0..nodes).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let mut addresses = Vec::new();
        for (socket, id) in sockets.iter().zip(1..) {
            addresses.push(format!("{id}={}", socket.local_addr()?));
        }
        drop(sockets);
        let (sender, news) = channel();
        let vacant = Some((start, "the start".to_string()));
        let (rows, addresses) = (Vec::new(), addresses.join(","));
        let events = VecDeque::new();
        let mut show =
            Show { rows, news, sender, addresses, events, vacant, start, console, drawn: 0, folder };
        show.event(&format!("{nodes} processes, each with its own socket and data folder; leases of {TTL}"))?;
        for node in 0..nodes {
            let running = show.spawn(node, true)?;
            let pid = running.0.id();
            let row = Row { running: Some(running), pid, role: Role::Starts, until: start, died: start };
            show.rows.push(row);
        }
        Ok(show)
    }

    fn spawn(&self, node: usize, new: bool) -> Result<Running, Error> {
        let mut command = Command::new("/proc/self/exe");
        command
            .args(["demo-node", "--stand", "demo", "--ttl", TTL, "--longest-ttl", LONGEST_TTL])
            .args(["--id", &(node + 1).to_string(), "--cluster", &self.addresses, "--keys"])
            .arg(self.folder.0.join("keys"))
            .arg("--data")
            .arg(self.folder.0.join(format!("node-{}", node + 1)))
            .args(new.then_some("--new"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // Ctrl-C is for the demo, which stops them.
            .process_group(0);
        let mut child = command.spawn()?;
        let (pid, sender) = (child.id(), self.sender.clone());
        let output = child.stdout.take();
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(Result::ok) {
                let told = line
                    .split_once(' ')
                    .and_then(|(at, what)| Some((Time::from_nanos(at.parse().ok()?), what.to_string())));
                if told.is_some() && sender.send(News { node, pid, told }).is_err() {
                    return;
                }
            }
            _ = sender.send(News { node, pid, told: None });
        });
        Ok(Running(child))
    }

    fn hear(&mut self, news: News) -> Result<(), Error> {
        let (node, id) = (news.node, news.node + 1);
        if self.rows[node].pid != news.pid {
            return Ok(());
        }
        let Some((at, what)) = news.told else {
            let now = BootClock.now();
            let row = &mut self.rows[node];
            let led = matches!(row.role, Role::Leads(_));
            (row.running, row.role) = (None, Role::Dead);
            // If the demo has killed it, it knows better since when.
            if row.died <= self.start {
                row.died = now;
                self.event(&format!("node {id} has died"))?;
            }
            if led && self.vacant.is_none() {
                self.vacant = Some((self.rows[node].died, "its death".to_string()));
            }
            return Ok(());
        };
        let words: Vec<&str> = what.split(' ').collect();
        let number = |place: usize| words.get(place).and_then(|word| word.parse::<u64>().ok());
        let row = &mut self.rows[node];
        match (words[0], number(1), number(2)) {
            ("ready", ..) => row.role = Role::KnowsNobody,
            ("leads", Some(token), _) => {
                // One that stands still cannot say that it leads no more.
                self.rows.iter_mut().filter(|row| matches!(row.role, Role::Leads(_))).for_each(|row| {
                    row.role = Role::KnowsNobody;
                });
                self.rows[node].role = Role::Leads(token);
                let after = match self.vacant.take() {
                    Some((since, why)) => format!(", {} after {why}", at.since(since).on_the_clock_ms()),
                    None => String::new(),
                };
                self.event_at(at, &format!("node {id} leads with token {token}{after}"))?;
            }
            ("valid", Some(nanos), _) => row.until = at + Span::from_nanos(nanos),
            ("follows", Some(leader), Some(token)) => row.role = Role::Follows(leader as usize - 1, token),
            ("lost", ..) => {
                row.role = Role::KnowsNobody;
                self.event_at(at, &format!("node {id} leads no more: its lease could not be renewed"))?;
            }
            ("nobody", ..) if !matches!(row.role, Role::Leads(_)) => row.role = Role::KnowsNobody,
            _ => {}
        }
        Ok(())
    }

    /// Whom all that live believe to lead, if they do.
    fn agreed(&self) -> Option<usize> {
        let leader = self.rows.iter().position(|row| matches!(row.role, Role::Leads(_)))?;
        let believes = |(place, row): (usize, &Row)| match row.role {
            Role::Dead => true,
            Role::Leads(_) => place == leader,
            Role::Follows(whom, _) => whom == leader,
            Role::Starts | Role::KnowsNobody => false,
        };
        self.rows.iter().enumerate().all(believes).then_some(leader)
    }

    fn kill(&mut self, node: usize) -> Result<(), Error> {
        let now = BootClock.now();
        let row = &mut self.rows[node];
        let pid = row.pid;
        (row.died, row.role) = (now, Role::Dead);
        row.running = None;
        self.vacant = Some((now, "its death".to_string()));
        self.event_at(now, &format!("node {}, process {pid}, is killed with SIGKILL", node + 1))
    }

    /// Starts those again that have been dead for a while.
    fn revive(&mut self, once: bool) -> Result<(), Error> {
        let now = BootClock.now();
        for node in 0..self.rows.len() {
            let row = &self.rows[node];
            if !once && row.role == Role::Dead && now.since(row.died) >= DEAD {
                let running = self.spawn(node, false)?;
                let pid = running.0.id();
                self.rows[node] =
                    Row { running: Some(running), pid, role: Role::Starts, until: now, died: self.start };
                self.event(&format!(
                    "node {} comes back, and says nothing until what it granted is over",
                    node + 1
                ))?;
            }
        }
        Ok(())
    }

    fn event(&mut self, text: &str) -> Result<(), Error> {
        self.event_at(BootClock.now(), text)
    }

    fn event_at(&mut self, at: Time, text: &str) -> Result<(), Error> {
        let line = format!("{:8.3}s  {text}", at.since(self.start).as_nanos() as f64 / 1e9);
        if !self.console.out_is_terminal {
            writeln!(self.console.out, "{line}")?;
            return Ok(self.console.out.flush()?);
        }
        self.events.push_back(line);
        self.events.drain(..self.events.len().saturating_sub(EVENTS));
        Ok(())
    }

    /// The table and the last events, over what was drawn before.
    fn draw(&mut self) -> Result<(), Error> {
        if !self.console.out_is_terminal {
            return Ok(());
        }
        let now = BootClock.now();
        let mut lines = vec!["  node     pid  role            token  lease left".to_string()];
        for (row, id) in self.rows.iter().zip(1..) {
            let (role, token, left) = match row.role {
                Role::Starts => ("starts".to_string(), None, None),
                Role::Leads(token) => ("LEADS".to_string(), Some(token), Some(row.until.since(now))),
                Role::Follows(whom, token) => (format!("follows {}", whom + 1), Some(token), None),
                Role::KnowsNobody => ("knows no leader".to_string(), None, None),
                Role::Dead => ("dead".to_string(), None, None),
            };
            let token = token.map_or(String::new(), |token| token.to_string());
            let left = left.map_or(String::new(), |left| left.on_the_clock_ms());
            lines.push(format!("  {id:>4} {:>7}  {role:<15} {token:>5}  {left:>10}", row.pid));
        }
        lines.push(String::new());
        lines.extend(self.events.iter().cloned());
        if self.drawn > 0 {
            write!(self.console.out, "\x1b[{}A", self.drawn)?;
        }
        for line in &lines {
            writeln!(self.console.out, "\x1b[2K{line}")?;
        }
        self.drawn = lines.len();
        Ok(self.console.out.flush()?)
    }
}

/// To a millisecond, which is what a person reads.
trait Milliseconds {
    fn on_the_clock_ms(self) -> String;
}

impl Milliseconds for Span {
    fn on_the_clock_ms(self) -> String {
        format!("{} ms", (self.as_nanos() + 500_000) / 1_000_000)
    }
}
