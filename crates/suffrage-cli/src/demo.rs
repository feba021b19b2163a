//! A demo cluster of real processes on loopback, whose leader is killed.
//!
//! Each node is this program in its own process, with a data folder that is removed after the demo. The demo binds
//! the sockets of all nodes and [passes](crate::socket) each node its socket, also after a restart. A node ends when its
//! standard input is closed, so that no node outlives the demo. A [`DemoNodes`] is what the nodes run.
//!
//! - `timeline.rs`: who led when, and overlaps. `links.rs`: links that can be cut. `server.rs`: the HTTP server of the
//!   playground. `playground.rs`: the state that its page shows, and the actions of its buttons.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes that run in real time")]

mod links;
mod playground;
mod server;
mod timeline;

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use suffrage_core::{Span, Time};
use suffrage_node::clock::{BootClock, Clock as _};

use self::links::Links;
use self::playground::Playground;
use self::timeline::Timeline;
use crate::{Console, Error, socket, text};

/// The time for which a leader is shown before it is killed, and for which the next is shown before the demo ends.
const SHOW: Span = Span::from_millis(1_500);
/// The time after which a dead node is restarted.
const RESTART: Span = Span::from_millis(3_000);
/// The time after which an election without a result is repeated.
const ELECTION_TIMEOUT: Span = Span::from_millis(10_000);
/// The interval in which the table is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// The number of events below the table.
const EVENTS: usize = 12;

/// The nodes of a demo: their command, and the meaning of their output. Nodes are numbered from 0.
pub trait DemoNodes {
    /// The command that starts a node of a cluster with these addresses, with its keys and data in this folder. The node
    /// [receives](crate::socket::receive) its socket over its standard input.
    fn command(&self, node: usize, addresses: &str, folder: &Path, new: bool) -> Command;
    /// Parses a line of output: the report and its time. None for other lines.
    fn parse_line(&self, line: &str) -> Option<(Time, NodeReport)>;
    /// The text before the demo.
    fn introduction(&self) -> Option<String> {
        None
    }
    /// The description of the cluster, in one line.
    fn setting(&self, nodes: usize) -> String;
    /// The event of a node that is restarted.
    fn on_return(&self, id: usize) -> String;
    /// Whether leaders have leases and tokens. Otherwise leaders have terms, and nodes have failure detectors and accept
    /// `campaign` on their standard input.
    fn has_leases(&self) -> bool;
    /// Whether a node must be told to call the first election.
    fn needs_campaign_command(&self) -> bool {
        false
    }
    /// Whether at most one node can believe that it leads at a time.
    fn never_two(&self) -> bool;
    /// The name of the algorithm, and what it promises, for the page.
    fn title(&self) -> (String, String);
    /// Whether the live nodes agree, given the numbers of nodes that follow the leader and that follow another node.
    fn agree(&self, alive: usize, believers: usize, others: usize) -> bool {
        let _ = others;
        believers == alive
    }
    /// Whether the live nodes can elect a leader.
    fn suffices(&self, alive: &[bool]) -> bool;
}

/// A report of a node. Peers are numbered from 0; the number is the token or the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReport {
    /// The node has started.
    Ready,
    /// The node leads with this number.
    Leads(u64),
    /// The remaining validity of the node's lease.
    Valid(Span),
    /// The node follows that leader with this number.
    Follows(usize, u64),
    /// The node has lost its leadership.
    Lost,
    /// The node knows no leader.
    Nobody,
    /// The failure detector of the node suspects that peer.
    Suspects(usize),
    /// The failure detector of the node no longer suspects that peer.
    Restores(usize),
}

/// The index of a node, from its id.
pub fn index_of(id: u64) -> Option<usize> {
    usize::try_from(id).ok()?.checked_sub(1)
}

/// The options of a demo.
#[derive(Clone, Copy, Debug)]
pub struct DemoOptions {
    /// The number of nodes.
    pub nodes: usize,
    /// Whether the demo ends when the second leader has been shown. It then has no page.
    pub once: bool,
    /// Whether the page is opened in a browser.
    pub open: bool,
}

/// The flag of [`DemoOptions::open`].
pub fn open_flag() -> clap::Arg {
    clap::Arg::new("open")
        .long("open")
        .action(clap::ArgAction::SetTrue)
        .conflicts_with("once")
        .help("Opens the page of the demo in a browser, by xdg-open and a file that only this user can read")
}

/// Runs the demo until Ctrl-C, or with `once` until the second leader has been shown.
pub fn execute(
    kind: Box<dyn DemoNodes>,
    options: DemoOptions,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let DemoOptions { nodes, once, open } = options;
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    // If the handler cannot be set, a signal ends the program and its nodes at once.
    let _ = ctrlc::set_handler(move || stopped.store(true, Ordering::Relaxed));
    let playground = if once { None } else { Some(Playground::start(open, console)?) };
    let mut demo = Demo::start(kind, nodes, playground, console)?;
    let mut step = Step::FirstElection;
    while !stop.load(Ordering::Relaxed) {
        match demo.output.recv_timeout(FRAME) {
            Ok(line) => demo.on_output(line)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the demo itself holds a sender"),
        }
        if demo.act()? {
            step = Step::Interactive;
        }
        demo.restart_dead(once)?;
        demo.draw()?;
        demo.publish();
        step = match demo.advance(step, once)? {
            Step::End => break,
            step => step,
        };
    }
    demo.event("all nodes are stopped")?;
    demo.draw()
}

/// The steps of the demo.
enum Step {
    FirstElection,
    /// This node leads, and is shown until this time.
    ShowLeader(usize, Time),
    NextElection(usize),
    ShowNextLeader(Time),
    Interactive,
    End,
}

/// The belief of a node.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Role {
    Starts,
    Leads(u64),
    Follows(usize, u64),
    NoLeader,
    Dead,
}

/// A line of a node's output, or its end.
struct Output {
    node: usize,
    pid: u32,
    line: Option<String>,
}

/// The process of a node and its standard input. The process is killed when this value is dropped.
struct Running {
    child: Child,
    input: UnixStream,
}

impl Drop for Running {
    fn drop(&mut self) {
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

struct Row {
    running: Option<Running>,
    pid: u32,
    role: Role,
    /// The end of its lease, by its last report.
    until: Time,
    /// The peers that its failure detector suspects.
    suspects: BTreeSet<usize>,
    died: Time,
    /// Whether the process is stopped by SIGSTOP from the page.
    paused: bool,
    /// Whether a dead node waits for the page to start it again.
    waits_for_start: bool,
}

impl Row {
    fn new(running: Running, start: Time) -> Row {
        let pid = running.child.id();
        let (until, died, suspects) = (start, start, BTreeSet::new());
        Row {
            running: Some(running),
            pid,
            role: Role::Starts,
            until,
            suspects,
            died,
            paused: false,
            waits_for_start: false,
        }
    }
}

/// A folder that is removed when this value is dropped.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Demo<'a, 'c> {
    kind: Box<dyn DemoNodes>,
    rows: Vec<Row>,
    output: Receiver<Output>,
    sender: Sender<Output>,
    /// The sockets of the nodes, which keep their ports bound.
    sockets: Vec<UdpSocket>,
    addresses: String,
    links: Links,
    timeline: Timeline,
    playground: Option<Playground>,
    events: VecDeque<String>,
    /// The time since which no node leads, and the cause.
    leaderless: Option<(Time, String)>,
    /// The time since which the live nodes do not agree, and the cause. None after their agreement was reported.
    disagreement: Option<(Time, String)>,
    /// The time at which a node was last told to call an election, or the start.
    called: Time,
    start: Time,
    console: &'a mut Console<'c>,
    /// The number of lines of the table on the screen.
    drawn: usize,
    /// The last field: the nodes stop before the folder is removed.
    folder: Folder,
}

impl<'a, 'c> Demo<'a, 'c> {
    fn start(
        kind: Box<dyn DemoNodes>,
        nodes: usize,
        playground: Option<Playground>,
        console: &'a mut Console<'c>,
    ) -> Result<Demo<'a, 'c>, Error> {
        let start = BootClock.now();
        let name = format!("suffrage-demo-{}-{}", std::process::id(), start.as_nanos());
        let folder = Folder(std::env::temp_dir().join(name));
        let failed = |error: std::io::Error| Error::Failed(format!("{}: {error}", folder.0.display()));
        fs::create_dir(&folder.0).map_err(failed)?;
        let keys =
            suffrage_net::Keyring::generate().and_then(|keyring| keyring.create(&folder.0.join("keys")));
        keys.map_err(|error| Error::Failed(error.to_string()))?;
        let sockets: Vec<UdpSocket> =
            (0..nodes).map(|_| UdpSocket::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let mut addresses = Vec::new();
        for (socket, id) in sockets.iter().zip(1..) {
            addresses.push(format!("{id}={}", socket.local_addr()?));
        }
        let (sender, output) = channel();
        let leaderless = Some((start, "the start".to_string()));
        if let Some(introduction) = kind.introduction() {
            for line in introduction.lines() {
                writeln!(console.out, "{}", text::wrap(line, 100, 2))?;
            }
            writeln!(console.out)?;
        }
        let mut demo = Demo {
            kind,
            rows: Vec::new(),
            output,
            sender,
            sockets,
            addresses: addresses.join(","),
            links: Links::default(),
            timeline: Timeline::default(),
            playground,
            events: VecDeque::new(),
            disagreement: leaderless.clone(),
            leaderless,
            called: start,
            start,
            console,
            drawn: 0,
            folder,
        };
        demo.event(&demo.kind.setting(nodes))?;
        for node in 0..nodes {
            let running = demo.spawn(node, true)?;
            demo.rows.push(Row::new(running, start));
        }
        Ok(demo)
    }

    fn spawn(&self, node: usize, new: bool) -> Result<Running, Error> {
        let mut command = self.kind.command(node, &self.addresses, &self.folder.0, new);
        let (input, theirs) = UnixStream::pair()?;
        socket::send(&input, &self.sockets[node])?;
        // Its own process group: Ctrl-C reaches only the demo, which stops the nodes.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (pid, sender) = (child.id(), self.sender.clone());
        let output = child.stdout.take();
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(Result::ok) {
                if sender.send(Output { node, pid, line: Some(line) }).is_err() {
                    return;
                }
            }
            _ = sender.send(Output { node, pid, line: None });
        });
        Ok(Running { child, input })
    }

    /// Moves on to the next step when the present one is done.
    fn advance(&mut self, step: Step, once: bool) -> Result<Step, Error> {
        let (now, agreed) = (BootClock.now(), self.agreed());
        if let Some(leader) = agreed {
            self.report_agreement(leader)?;
        } else if matches!(step, Step::FirstElection | Step::NextElection(_)) {
            self.call_election(now)?;
        }
        Ok(match (step, agreed) {
            (Step::FirstElection, Some(leader)) => Step::ShowLeader(leader, now + SHOW),
            (Step::FirstElection, None) if once && self.rows.iter().any(|row| row.role == Role::Dead) => {
                return Err(Error::Failed("a node ended before a leader was elected".to_string()));
            }
            (Step::ShowLeader(leader, _), Some(other)) if leader != other => {
                Step::ShowLeader(other, now + SHOW)
            }
            (Step::ShowLeader(leader, until), Some(_)) if now >= until => {
                self.kill(leader)?;
                if self.kind.suffices(&self.alive()) {
                    Step::NextElection(leader)
                } else {
                    self.event("the remaining nodes are too few to elect a leader")?;
                    Step::ShowNextLeader(now + SHOW)
                }
            }
            (Step::ShowLeader(..), None) => Step::FirstElection,
            (Step::NextElection(leader), Some(next)) if next != leader => Step::ShowNextLeader(now + SHOW),
            (Step::ShowNextLeader(until), _) if now >= until && once => Step::End,
            (Step::ShowNextLeader(until), _) if now >= until => {
                self.event("your turn: kill -9 or kill -STOP any of these pids; Ctrl-C ends the demo")?;
                Step::Interactive
            }
            (step, _) => step,
        })
    }

    fn alive(&self) -> Vec<bool> {
        self.rows.iter().map(|row| row.role != Role::Dead).collect()
    }

    /// Reports agreement, once after each disagreement.
    fn report_agreement(&mut self, leader: usize) -> Result<(), Error> {
        let disagreement = self.disagreement.take();
        if self.kind.has_leases() {
            return Ok(());
        }
        let Some((since, cause)) = disagreement else { return Ok(()) };
        let follows = |row: &&Row| matches!(row.role, Role::Follows(followed, _) if followed == leader);
        let followers = self.rows.iter().filter(follows).count();
        let others = self.alive().into_iter().filter(|&alive| alive).count() - 1;
        let (id, took) = (leader + 1, BootClock.now().since(since).format_ms());
        self.event(&format!("{followers} of {others} follow node {id}, {took} after {cause}"))
    }

    /// Tells a node to call an election if the algorithm needs that: the first one, and one after an election without a
    /// result.
    fn call_election(&mut self, now: Time) -> Result<(), Error> {
        let first = self.called == self.start && self.kind.needs_campaign_command();
        let ready = self.rows.iter().all(|row| row.role != Role::Starts);
        let since = self.disagreement.as_ref().map_or(now, |(since, _)| (*since).max(self.called));
        if self.kind.has_leases() {
            return Ok(());
        }
        if !ready || !(first || now.since(since) >= ELECTION_TIMEOUT) {
            return Ok(());
        }
        self.called = now;
        let Some(node) = self.alive().into_iter().position(|alive| alive) else { return Ok(()) };
        if let Some(running) = &mut self.rows[node].running {
            // A failure means that the node has ended, which its output reports.
            _ = running.input.write_all(b"campaign\n");
        }
        self.event_at(now, &format!("node {} is told to call an election", node + 1))
    }

    fn on_output(&mut self, output: Output) -> Result<(), Error> {
        let (node, id) = (output.node, output.node + 1);
        if self.rows[node].pid != output.pid {
            return Ok(());
        }
        let Some(line) = output.line else { return self.on_ended(node) };
        let Some((at, report)) = self.kind.parse_line(&line) else { return Ok(()) };
        let row = &mut self.rows[node];
        match report {
            NodeReport::Ready => row.role = Role::NoLeader,
            NodeReport::Leads(number) => self.on_leads(node, at, number)?,
            NodeReport::Valid(left) => {
                row.until = at + left;
                self.timeline.on_validity(node, at, left);
            }
            NodeReport::Follows(leader, number) => {
                row.role = Role::Follows(leader, number);
                self.timeline.end(node, at);
            }
            NodeReport::Lost => {
                row.role = Role::NoLeader;
                self.timeline.end(node, at);
                let why = if self.kind.has_leases() { ": its lease could not be renewed" } else { "" };
                self.event_at(at, &format!("node {id} has lost the leadership{why}"))?;
            }
            NodeReport::Nobody if self.kind.never_two() && matches!(row.role, Role::Leads(_)) => {}
            NodeReport::Nobody => {
                row.role = Role::NoLeader;
                self.timeline.end(node, at);
            }
            NodeReport::Suspects(peer) => {
                let first = !self.rows.iter().any(|row| row.suspects.contains(&peer));
                self.rows[node].suspects.insert(peer);
                if first {
                    let after = self.after(at);
                    self.event_at(at, &format!("node {id} suspects node {}{after}", peer + 1))?;
                }
            }
            NodeReport::Restores(peer) => _ = row.suspects.remove(&peer),
        }
        Ok(())
    }

    /// Handles the end of a node.
    fn on_ended(&mut self, node: usize) -> Result<(), Error> {
        let now = BootClock.now();
        let row = &mut self.rows[node];
        let led = matches!(row.role, Role::Leads(_));
        (row.running, row.role, row.paused) = (None, Role::Dead, false);
        row.suspects.clear();
        self.timeline.end(node, now);
        // The time of a node that the demo itself has killed is known already.
        if row.died <= self.start {
            row.died = now;
            self.event(&format!("node {} has ended", node + 1))?;
        }
        if led && self.leaderless.is_none() {
            self.leaderless = Some((self.rows[node].died, "its end".to_string()));
            self.disagreement.clone_from(&self.leaderless);
        }
        Ok(())
    }

    /// The time since the last leader was lost, as the end of a sentence. Empty if there is a leader.
    fn after(&self, at: Time) -> String {
        let after =
            |(since, cause): &(Time, String)| format!(", {} after {cause}", at.since(*since).format_ms());
        self.leaderless.as_ref().map(after).unwrap_or_default()
    }

    /// Handles the report of a node that it leads.
    fn on_leads(&mut self, node: usize, at: Time, number: u64) -> Result<(), Error> {
        if self.kind.never_two() {
            // A suspended node cannot report that it has lost its leadership. The timeline knows the end of its lease.
            self.rows.iter_mut().filter(|row| matches!(row.role, Role::Leads(_))).for_each(|row| {
                row.role = Role::NoLeader;
            });
        }
        self.rows[node].role = Role::Leads(number);
        self.timeline.begin(node, number, at, self.kind.has_leases());
        let (after, numbered) =
            (self.after(at), if self.kind.has_leases() { "with token" } else { "in term" });
        self.leaderless = None;
        self.event_at(at, &format!("node {} leads {numbered} {number}{after}", node + 1))?;
        let leaders = (0..self.rows.len()).filter(|&index| matches!(self.rows[index].role, Role::Leads(_)));
        let leaders: Vec<suffrage_core::NodeId> =
            leaders.map(|index| suffrage_core::NodeId(index as u64 + 1)).collect();
        if leaders.len() == 2 {
            self.event_at(
                at,
                &format!("nodes {} believe that they lead at the same time", text::ids(leaders)),
            )?;
        }
        Ok(())
    }

    /// The leader that the live nodes agree on, if they do.
    fn agreed(&self) -> Option<usize> {
        let leads = |row: &Row| matches!(row.role, Role::Leads(_));
        let leader = self.rows.iter().position(leads)?;
        let believed = |(index, row): (usize, &Row)| match row.role {
            Role::Leads(_) => Some(index),
            Role::Follows(leader, _) => Some(leader),
            Role::Dead | Role::Starts | Role::NoLeader => None,
        };
        let beliefs: Vec<usize> = self.rows.iter().enumerate().filter_map(believed).collect();
        let believers = beliefs.iter().filter(|&&believed| believed == leader).count();
        let alive = self.alive().into_iter().filter(|&alive| alive).count();
        self.kind.agree(alive, believers, beliefs.len() - believers).then_some(leader)
    }

    fn kill(&mut self, node: usize) -> Result<(), Error> {
        let now = BootClock.now();
        let row = &mut self.rows[node];
        let pid = row.pid;
        (row.died, row.role, row.paused) = (now, Role::Dead, false);
        row.running = None;
        row.suspects.clear();
        // The process has ended when its value is dropped.
        self.timeline.end(node, BootClock.now());
        self.leaderless = Some((now, "the kill".to_string()));
        self.disagreement.clone_from(&self.leaderless);
        // The nodes get time to elect the next leader themselves.
        self.called = now;
        self.event_at(now, &format!("node {}, process {pid}, is killed with SIGKILL", node + 1))
    }

    /// Restarts nodes that have been dead for [`RESTART`].
    fn restart_dead(&mut self, once: bool) -> Result<(), Error> {
        let now = BootClock.now();
        for node in 0..self.rows.len() {
            let row = &self.rows[node];
            let due = now.since(row.died) >= RESTART && !row.waits_for_start;
            if !once && row.role == Role::Dead && due {
                self.restart(node)?;
            }
        }
        Ok(())
    }

    fn restart(&mut self, node: usize) -> Result<(), Error> {
        self.discard_datagrams(node)?;
        let running = self.spawn(node, false)?;
        self.rows[node] = Row::new(running, self.start);
        self.event(&self.kind.on_return(node + 1))
    }

    /// Discards the datagrams that arrived while a node was dead, as the kernel does without a socket.
    fn discard_datagrams(&self, node: usize) -> Result<(), Error> {
        let socket = &self.sockets[node];
        socket.set_nonblocking(true)?;
        while socket.recv(&mut [0]).is_ok() {}
        Ok(())
    }

    fn event(&mut self, text: &str) -> Result<(), Error> {
        self.event_at(BootClock.now(), text)
    }

    fn event_at(&mut self, at: Time, text: &str) -> Result<(), Error> {
        if let Some(playground) = &mut self.playground {
            playground.note(at, text);
        }
        let line = format!("{:8.3}s  {text}", at.since(self.start).as_nanos() as f64 / 1e9);
        if !self.console.out_is_terminal {
            writeln!(self.console.out, "{line}")?;
            return Ok(self.console.out.flush()?);
        }
        self.events.push_back(line);
        self.events.drain(..self.events.len().saturating_sub(EVENTS));
        Ok(())
    }

    /// Draws the table and the last events over the previous ones.
    fn draw(&mut self) -> Result<(), Error> {
        if !self.console.out_is_terminal {
            return Ok(());
        }
        let now = BootClock.now();
        let heading = match self.kind.has_leases() {
            true => "  node     pid  role            token  lease left",
            false => "  node     pid  role             term  suspects",
        };
        let mut lines = vec![heading.to_string()];
        for (row, id) in self.rows.iter().zip(1..) {
            let (role, number) = match row.role {
                Role::Starts => ("starts".to_string(), None),
                Role::Leads(number) => ("LEADS".to_string(), Some(number)),
                Role::Follows(leader, number) => (format!("follows {}", leader + 1), Some(number)),
                Role::NoLeader => ("knows no leader".to_string(), None),
                Role::Dead => ("dead".to_string(), None),
            };
            let number = number.map_or(String::new(), |number| number.to_string());
            let more = match (self.kind.has_leases(), row.role) {
                (true, Role::Leads(_)) => row.until.since(now).format_ms(),
                (false, _) if !row.suspects.is_empty() => {
                    text::ids(row.suspects.iter().map(|&index| suffrage_core::NodeId(index as u64 + 1)))
                }
                _ => String::new(),
            };
            let line = format!("  {id:>4} {:>7}  {role:<15} {number:>5}  {more:>10}", row.pid);
            lines.push(line.trim_end().to_string());
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

/// Durations in whole milliseconds.
trait Milliseconds {
    fn format_ms(self) -> String;
}

impl Milliseconds for Span {
    fn format_ms(self) -> String {
        format!("{} ms", (self.as_nanos() + 500_000) / 1_000_000)
    }
}
