//! A cluster of real processes on loopback, whose leader is killed before one's eyes.
//!
//! Each node is this program again, in a process of its own, with a key and a data folder that end with the demo. A
//! node lives no longer than the demo: it ends when the pipe that is its standard input does. What the nodes run,
//! and how their lines are read, is a [`DemoNodes`].
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "processes that run in real time")]

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::UdpSocket;
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

use crate::{Console, Error, text};

/// How long a leader is left to be looked at before it is killed, and what follows before the demo ends.
const LOOK: Span = Span::from_millis(1_500);
/// How long a node that has died stays dead.
const DEAD: Span = Span::from_millis(3_000);
/// How long an election may take before somebody calls another.
const PATIENCE: Span = Span::from_millis(10_000);
/// How often the table is drawn.
const FRAME: Duration = Duration::from_millis(100);
/// How many events are seen under it.
const EVENTS: usize = 12;

/// What the nodes of a demo run: how one is started, and what its lines mean. Nodes are counted from 0.
pub trait DemoNodes {
    /// The command that starts this node of a cluster at these addresses, with its keys and data in this folder.
    fn command(&self, node: usize, addresses: &str, folder: &Path, new: bool) -> Command;
    /// What a line of output says, and when; none if it says nothing of interest.
    fn parse_line(&self, line: &str) -> Option<(Time, NodeReport)>;
    /// What is printed before the demo begins.
    fn introduction(&self) -> Option<String> {
        None
    }
    /// How the nodes are set up, in one line.
    fn setting(&self, nodes: usize) -> String;
    /// What happens when this node comes back.
    fn on_return(&self, id: usize) -> String;
    /// Whether leaders have leases and tokens, and follow the quorum lease; otherwise they have terms, and nodes
    /// have failure detectors and take `campaign` on their standard input.
    fn has_leases(&self) -> bool;
    /// Whether somebody must be asked to call the first election.
    fn waits_for_a_call(&self) -> bool {
        false
    }
    /// Whether at most one node can believe that it leads.
    fn never_two(&self) -> bool;
    /// Whether the live nodes agree, if so many of them believe in the leader and so many in another.
    fn agree(&self, alive: usize, believers: usize, others: usize) -> bool {
        let _ = others;
        believers == alive
    }
    /// Whether the live nodes can elect somebody.
    fn suffices(&self, alive: &[bool]) -> bool;
}

/// What a node reports. Peers are counted from 0; the number is the token, or the term.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeReport {
    /// It has started.
    Ready,
    /// It leads with this number.
    Leads(u64),
    /// How much is left of its lease.
    Valid(Span),
    /// It follows that node, which has this number.
    Follows(usize, u64),
    /// It leads no more.
    Lost,
    /// It knows of no leader.
    Nobody,
    /// Its failure detector suspects that node.
    Suspects(usize),
    /// Its failure detector no longer suspects that node.
    Restores(usize),
}

/// The place of a node among all, from its id.
pub fn place(id: u64) -> Option<usize> {
    usize::try_from(id).ok()?.checked_sub(1)
}

/// Runs the demo until Ctrl-C; with `once`, until the second leader has been seen.
pub fn execute(
    cast: Box<dyn DemoNodes>,
    nodes: usize,
    once: bool,
    console: &mut Console<'_>,
) -> Result<(), Error> {
    let stop = Arc::new(AtomicBool::new(false));
    let told = Arc::clone(&stop);
    // Where it cannot be set, a signal ends the program at once, and the nodes with it.
    let _ = ctrlc::set_handler(move || told.store(true, Ordering::Relaxed));
    let mut show = Show::start(cast, nodes, console)?;
    let mut act = Act::Opening;
    while !stop.load(Ordering::Relaxed) {
        match show.news.recv_timeout(FRAME) {
            Ok(news) => show.hear(news)?,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => unreachable!("the show itself holds a sender"),
        }
        show.revive(once)?;
        show.draw()?;
        act = match show.advance(act, once)? {
            Act::End => break,
            act => act,
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
    End,
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

/// A line that a node wrote; nothing if it has ended.
struct News {
    node: usize,
    pid: u32,
    told: Option<String>,
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
    /// Whom its failure detector takes for dead.
    suspects: BTreeSet<usize>,
    died: Time,
}

impl Row {
    fn new(running: Running, start: Time) -> Row {
        let pid = running.0.id();
        let (until, died, suspects) = (start, start, BTreeSet::new());
        Row { running: Some(running), pid, role: Role::Starts, until, suspects, died }
    }
}

/// A folder that ends with the demo.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

struct Show<'a, 'c> {
    cast: Box<dyn DemoNodes>,
    rows: Vec<Row>,
    news: Receiver<News>,
    sender: Sender<News>,
    addresses: String,
    events: VecDeque<String>,
    /// Since when nobody leads, and why.
    vacant: Option<(Time, String)>,
    /// Since when those who live are not agreed, and why, as far as it has not been said that they are.
    divided: Option<(Time, String)>,
    /// When somebody was last asked to call an election; the start, if nobody was.
    asked: Time,
    start: Time,
    console: &'a mut Console<'c>,
    /// How many lines of the table stand on the screen.
    drawn: usize,
    /// The last, so that nodes are stopped before it is removed.
    folder: Folder,
}

impl<'a, 'c> Show<'a, 'c> {
    fn start(
        cast: Box<dyn DemoNodes>,
        nodes: usize,
        console: &'a mut Console<'c>,
    ) -> Result<Show<'a, 'c>, Error> {
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
        drop(sockets);
        let (sender, news) = channel();
        let vacant = Some((start, "the start".to_string()));
        if let Some(introduction) = cast.introduction() {
            for line in introduction.lines() {
                writeln!(console.out, "{}", text::wrap(line, 100, 2))?;
            }
            writeln!(console.out)?;
        }
        let mut show = Show {
            cast,
            rows: Vec::new(),
            news,
            sender,
            addresses: addresses.join(","),
            events: VecDeque::new(),
            divided: vacant.clone(),
            vacant,
            asked: start,
            start,
            console,
            drawn: 0,
            folder,
        };
        show.event(&show.cast.setting(nodes))?;
        for node in 0..nodes {
            let running = show.spawn(node, true)?;
            show.rows.push(Row::new(running, start));
        }
        Ok(show)
    }

    fn spawn(&self, node: usize, new: bool) -> Result<Running, Error> {
        let mut command = self.cast.command(node, &self.addresses, &self.folder.0, new);
        // Ctrl-C is for the demo, which stops them.
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).process_group(0);
        let mut child = command.spawn()?;
        let (pid, sender) = (child.id(), self.sender.clone());
        let output = child.stdout.take();
        thread::spawn(move || {
            let lines = output.into_iter().flat_map(|output| BufReader::new(output).lines());
            for line in lines.map_while(Result::ok) {
                if sender.send(News { node, pid, told: Some(line) }).is_err() {
                    return;
                }
            }
            _ = sender.send(News { node, pid, told: None });
        });
        Ok(Running(child))
    }

    /// What comes next, as things stand.
    fn advance(&mut self, act: Act, once: bool) -> Result<Act, Error> {
        let (now, agreed) = (BootClock.now(), self.agreed());
        if let Some(leader) = agreed {
            self.unite(leader)?;
        } else if matches!(act, Act::Opening | Act::Killed(_)) {
            self.call(now)?;
        }
        Ok(match (act, agreed) {
            (Act::Opening, Some(leader)) => Act::Look(leader, now + LOOK),
            (Act::Opening, None) if once && self.rows.iter().any(|row| row.role == Role::Dead) => {
                return Err(Error::Failed("a node ended before anybody led".to_string()));
            }
            (Act::Look(leader, _), Some(other)) if leader != other => Act::Look(other, now + LOOK),
            (Act::Look(leader, until), Some(_)) if now >= until => {
                self.kill(leader)?;
                if self.cast.suffices(&self.alive()) {
                    Act::Killed(leader)
                } else {
                    self.event("those who are left are too few to elect anybody")?;
                    Act::After(now + LOOK)
                }
            }
            (Act::Look(..), None) => Act::Opening,
            (Act::Killed(leader), Some(next)) if next != leader => Act::After(now + LOOK),
            (Act::After(until), _) if now >= until && once => Act::End,
            (Act::After(until), _) if now >= until => {
                self.event("now you: kill -9 or kill -STOP any of these pids, and see; Ctrl-C ends")?;
                Act::Play
            }
            (act, _) => act,
        })
    }

    fn alive(&self) -> Vec<bool> {
        self.rows.iter().map(|row| row.role != Role::Dead).collect()
    }

    /// Says that all are agreed, the first time that they are.
    fn unite(&mut self, leader: usize) -> Result<(), Error> {
        let divided = self.divided.take();
        if self.cast.has_leases() {
            return Ok(());
        }
        let Some((since, why)) = divided else { return Ok(()) };
        let follows = |row: &&Row| matches!(row.role, Role::Follows(whom, _) if whom == leader);
        let followers = self.rows.iter().filter(follows).count();
        let others = self.alive().into_iter().filter(|&alive| alive).count() - 1;
        let (id, took) = (leader + 1, BootClock.now().since(since).on_the_clock_ms());
        self.event(&format!("{followers} of {others} follow node {id}, {took} after {why}"))
    }

    /// Asks somebody to call an election, if it takes that: at first, and when the last one has led to nothing.
    fn call(&mut self, now: Time) -> Result<(), Error> {
        let first = self.asked == self.start && self.cast.waits_for_a_call();
        let ready = self.rows.iter().all(|row| row.role != Role::Starts);
        let since = self.divided.as_ref().map_or(now, |(since, _)| (*since).max(self.asked));
        if self.cast.has_leases() {
            return Ok(());
        }
        if !ready || !(first || now.since(since) >= PATIENCE) {
            return Ok(());
        }
        self.asked = now;
        let Some(node) = self.alive().into_iter().position(|alive| alive) else { return Ok(()) };
        let input = self.rows[node].running.as_mut().and_then(|running| running.0.stdin.as_mut());
        // If it is gone by now, that is told elsewhere.
        _ = input.map(|input| input.write_all(b"campaign\n"));
        self.event_at(now, &format!("node {} is asked to call an election", node + 1))
    }

    fn hear(&mut self, news: News) -> Result<(), Error> {
        let (node, id) = (news.node, news.node + 1);
        if self.rows[node].pid != news.pid {
            return Ok(());
        }
        let Some(line) = news.told else { return self.bury(node) };
        let Some((at, told)) = self.cast.parse_line(&line) else { return Ok(()) };
        let row = &mut self.rows[node];
        match told {
            NodeReport::Ready => row.role = Role::KnowsNobody,
            NodeReport::Leads(number) => self.crown(node, at, number)?,
            NodeReport::Valid(left) => row.until = at + left,
            NodeReport::Follows(leader, number) => row.role = Role::Follows(leader, number),
            NodeReport::Lost => {
                row.role = Role::KnowsNobody;
                let why = if self.cast.has_leases() { ": its lease could not be renewed" } else { "" };
                self.event_at(at, &format!("node {id} leads no more{why}"))?;
            }
            NodeReport::Nobody if self.cast.never_two() && matches!(row.role, Role::Leads(_)) => {}
            NodeReport::Nobody => row.role = Role::KnowsNobody,
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

    /// A node has ended.
    fn bury(&mut self, node: usize) -> Result<(), Error> {
        let now = BootClock.now();
        let row = &mut self.rows[node];
        let led = matches!(row.role, Role::Leads(_));
        (row.running, row.role) = (None, Role::Dead);
        row.suspects.clear();
        // If the demo has killed it, it knows better since when.
        if row.died <= self.start {
            row.died = now;
            self.event(&format!("node {} has died", node + 1))?;
        }
        if led && self.vacant.is_none() {
            self.vacant = Some((self.rows[node].died, "its death".to_string()));
            self.divided.clone_from(&self.vacant);
        }
        Ok(())
    }

    /// How long after the leader was gone, if it is.
    fn after(&self, at: Time) -> String {
        let after =
            |(since, why): &(Time, String)| format!(", {} after {why}", at.since(*since).on_the_clock_ms());
        self.vacant.as_ref().map(after).unwrap_or_default()
    }

    /// A node believes to lead.
    fn crown(&mut self, node: usize, at: Time, number: u64) -> Result<(), Error> {
        if self.cast.never_two() {
            // One that stands still cannot say that it leads no more.
            self.rows.iter_mut().filter(|row| matches!(row.role, Role::Leads(_))).for_each(|row| {
                row.role = Role::KnowsNobody;
            });
        }
        self.rows[node].role = Role::Leads(number);
        let (after, numbered) =
            (self.after(at), if self.cast.has_leases() { "with token" } else { "in term" });
        self.vacant = None;
        self.event_at(at, &format!("node {} leads {numbered} {number}{after}", node + 1))?;
        let leaders = (0..self.rows.len()).filter(|&place| matches!(self.rows[place].role, Role::Leads(_)));
        let leaders: Vec<suffrage_core::NodeId> =
            leaders.map(|place| suffrage_core::NodeId(place as u64 + 1)).collect();
        if leaders.len() == 2 {
            self.event_at(at, &format!("nodes {} believe to lead, at once", text::ids(leaders)))?;
        }
        Ok(())
    }

    /// Whom all that live believe to lead, if they do.
    fn agreed(&self) -> Option<usize> {
        let leads = |row: &Row| matches!(row.role, Role::Leads(_));
        let leader = self.rows.iter().position(leads)?;
        let believed = |(place, row): (usize, &Row)| match row.role {
            Role::Leads(_) => Some(place),
            Role::Follows(whom, _) => Some(whom),
            Role::Dead | Role::Starts | Role::KnowsNobody => None,
        };
        let beliefs: Vec<usize> = self.rows.iter().enumerate().filter_map(believed).collect();
        let believers = beliefs.iter().filter(|&&whom| whom == leader).count();
        let alive = self.alive().into_iter().filter(|&alive| alive).count();
        self.cast.agree(alive, believers, beliefs.len() - believers).then_some(leader)
    }

    fn kill(&mut self, node: usize) -> Result<(), Error> {
        let now = BootClock.now();
        let row = &mut self.rows[node];
        let pid = row.pid;
        (row.died, row.role) = (now, Role::Dead);
        row.running = None;
        row.suspects.clear();
        self.vacant = Some((now, "its death".to_string()));
        self.divided.clone_from(&self.vacant);
        // Nobody need be asked at once.
        self.asked = now;
        self.event_at(now, &format!("node {}, process {pid}, is killed with SIGKILL", node + 1))
    }

    /// Starts those again that have been dead for a while.
    fn revive(&mut self, once: bool) -> Result<(), Error> {
        let now = BootClock.now();
        for node in 0..self.rows.len() {
            let row = &self.rows[node];
            if !once && row.role == Role::Dead && now.since(row.died) >= DEAD {
                let running = self.spawn(node, false)?;
                self.rows[node] = Row::new(running, self.start);
                self.event(&self.cast.on_return(node + 1))?;
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
        let heading = match self.cast.has_leases() {
            true => "  node     pid  role            token  lease left",
            false => "  node     pid  role             term  suspects",
        };
        let mut lines = vec![heading.to_string()];
        for (row, id) in self.rows.iter().zip(1..) {
            let (role, number) = match row.role {
                Role::Starts => ("starts".to_string(), None),
                Role::Leads(number) => ("LEADS".to_string(), Some(number)),
                Role::Follows(whom, number) => (format!("follows {}", whom + 1), Some(number)),
                Role::KnowsNobody => ("knows no leader".to_string(), None),
                Role::Dead => ("dead".to_string(), None),
            };
            let number = number.map_or(String::new(), |number| number.to_string());
            let more = match (self.cast.has_leases(), row.role) {
                (true, Role::Leads(_)) => row.until.since(now).on_the_clock_ms(),
                (false, _) if !row.suspects.is_empty() => {
                    text::ids(row.suspects.iter().map(|&place| suffrage_core::NodeId(place as u64 + 1)))
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

/// To a millisecond, which is what a person reads.
trait Milliseconds {
    fn on_the_clock_ms(self) -> String;
}

impl Milliseconds for Span {
    fn on_the_clock_ms(self) -> String {
        format!("{} ms", (self.as_nanos() + 500_000) / 1_000_000)
    }
}
