//! A host with a network, a clock and a disk: one task, and handles to it.

mod task;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use suffrage_core::{Attribute, NodeId, Span, Time};
use suffrage_lease::{Name, Saved};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use self::task::{Handles, Task};
use super::host::{Host, Refused};
use super::output::Output;
use super::part::{Belief, Part};
use super::settings::{Settings, Terms};
use super::status::{Record, Status, Tally, VoterStatus};
use super::timepiece::Timepiece;
use crate::clock::Clock;
use crate::storage::Storage;
use suffrage_net::Transport;

use crate::Error;

/// How a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Condition {
    /// Why it stands still: it cannot save what a voter must not forget. It tries again every now and then.
    pub trouble: Option<String>,
    /// That it has stopped, and why if not because it was told to.
    pub stopped: Option<Option<String>>,
}

/// What a node counts and measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Figures {
    /// What it has counted.
    pub tally: Tally,
    /// How many elections it takes part in.
    pub elections: usize,
    /// How long ago each voter was heard, if ever; itself just now, if it votes at present.
    pub heard: Vec<(NodeId, Option<Span>)>,
    /// How it is as a voter.
    pub voter: Option<VoterStatus>,
    /// How long voters have lately taken to answer.
    pub round_trip: Span,
    /// How many messages it has sent.
    pub messages_sent: u64,
}

/// What can be wished of a part in an election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Deed {
    Campaign,
    Withdraw,
    Resign,
    Transfer(NodeId),
    SetHealthy(bool),
    SetAttribute(Attribute),
    Leave { stands: bool },
}

/// What the handles ask of the task.
enum Command {
    /// The answer is the part itself: if nobody waits for it any more, it is dropped, and the node leaves again.
    Join {
        node: WeakNode,
        text: String,
        terms: Option<Terms>,
        reply: oneshot::Sender<Result<Part, Refused>>,
    },
    Do {
        name: Name,
        deed: Deed,
        reply: Option<oneshot::Sender<bool>>,
    },
    Status {
        name: Name,
        reply: oneshot::Sender<Option<Status>>,
    },
    Elections {
        reply: oneshot::Sender<Vec<Status>>,
    },
    History {
        name: Option<Name>,
        reply: oneshot::Sender<Vec<Record>>,
    },
    Figures {
        reply: oneshot::Sender<Figures>,
    },
    Stop,
}

type Joined = (Name, watch::Receiver<Belief>);

/// A node that runs. Clones are the same node; when all of them and all its parts are gone, it stops.
#[derive(Clone, Debug)]
pub struct Node {
    commands: mpsc::UnboundedSender<Command>,
    shared: Arc<Shared>,
}

/// The same, which does not keep it running: what waits in its own queue must not.
struct WeakNode {
    commands: mpsc::WeakUnboundedSender<Command>,
    shared: Weak<Shared>,
}

impl WeakNode {
    /// None if nobody has the node any more.
    fn upgrade(&self) -> Option<Node> {
        Some(Node { commands: self.commands.upgrade()?, shared: self.shared.upgrade()? })
    }
}

#[derive(Debug)]
struct Shared {
    me: NodeId,
    settings: Settings,
    clock: Timepiece,
    condition: watch::Receiver<Condition>,
    stop: watch::Sender<bool>,
    /// In nanoseconds of its clock.
    turned: Arc<AtomicU64>,
    task: AbortHandle,
}

impl Node {
    /// Starts a node, in the tokio runtime this is called in. One that does not vote saves nothing: it does
    /// with a [`MemoryDisk`](crate::storage::MemoryDisk).
    pub fn start(
        transport: impl Transport,
        clock: impl Clock,
        mut disk: impl Storage<Saved>,
        mut settings: Settings,
    ) -> Result<Node, Error> {
        settings.datagram = settings.datagram.min(transport.max_payload());
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)?;
        let (me, seed) = (transport.local(), u64::from_le_bytes(seed));
        let mut out = Output::new(settings.datagram);
        let host = Host::start(me, settings.clone(), disk.start()?, seed, clock.now(), &mut out)?;
        let (commands, inbox) = mpsc::unbounded_channel();
        let (state, condition) = watch::channel(Condition::default());
        let (stop, stopped) = watch::channel(false);
        let turned = Arc::new(AtomicU64::new(clock.now().as_nanos()));
        let handles = Handles { commands: inbox, condition: state, stopped, turned: Arc::clone(&turned) };
        let task = Task::new(host, out, transport, clock.clone(), disk, handles);
        let task = tokio::spawn(task.run()).abort_handle();
        let shared = Shared { me, settings, clock: Timepiece::new(clock), condition, stop, turned, task };
        Ok(Node { commands, shared: Arc::new(shared) })
    }

    /// Who it is.
    pub fn id(&self) -> NodeId {
        self.shared.me
    }

    /// Its clock.
    pub fn clock(&self) -> &Timepiece {
        &self.shared.clock
    }

    /// What is set.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// When it last came round to everything it has to do. It does every second: if that is long ago, it is
    /// stuck, as is whatever it leads.
    pub fn last_turn(&self) -> Time {
        Time::from_nanos(self.shared.turned.load(Ordering::Relaxed))
    }

    /// How it is, now and whenever that changes.
    pub fn condition(&self) -> watch::Receiver<Condition> {
        self.shared.condition.clone()
    }

    /// Takes part in an election, and may stand in it. A node has one such part in each.
    pub async fn join(&self, name: &str, terms: Terms) -> Result<Part, Error> {
        self.take_part(name, Some(terms)).await
    }

    /// Follows who leads an election. A node may have any number of such parts.
    pub async fn observe(&self, name: &str) -> Result<Part, Error> {
        self.take_part(name, None).await
    }

    fn downgrade(&self) -> WeakNode {
        WeakNode { commands: self.commands.downgrade(), shared: Arc::downgrade(&self.shared) }
    }

    async fn take_part(&self, text: &str, terms: Option<Terms>) -> Result<Part, Error> {
        let (node, text) = (self.downgrade(), text.to_string());
        Ok(self.ask(|reply| Command::Join { node, text, terms, reply }).await??)
    }

    /// Hands an election over, and lets others go first for the length of a lease. False if this node takes no
    /// part in it.
    pub async fn resign(&self, name: &str) -> Result<bool, Error> {
        self.request(name, Deed::Resign).await
    }

    /// Hands an election over to another node. False if this one takes no part in it.
    pub async fn transfer(&self, name: &str, to: NodeId) -> Result<bool, Error> {
        self.request(name, Deed::Transfer(to)).await
    }

    async fn request(&self, name: &str, deed: Deed) -> Result<bool, Error> {
        let name = Name::of(name);
        self.ask(|reply| Command::Do { name, deed, reply: Some(reply) }).await
    }

    /// What it knows of an election that it takes part in, and why it does not lead it.
    pub async fn status(&self, name: &str) -> Result<Option<Status>, Error> {
        let name = Name::of(name);
        self.ask(|reply| Command::Status { name, reply }).await
    }

    /// All the elections it takes part in.
    pub async fn elections(&self) -> Result<Vec<Status>, Error> {
        self.ask(|reply| Command::Elections { reply }).await
    }

    /// The changes of leaders that it learned of, the oldest first: of one election, or of all.
    pub async fn history(&self, name: Option<&str>) -> Result<Vec<Record>, Error> {
        let name = name.map(Name::of);
        self.ask(|reply| Command::History { name, reply }).await
    }

    /// What it has counted and measured.
    pub async fn figures(&self) -> Result<Figures, Error> {
        self.ask(|reply| Command::Figures { reply }).await
    }

    /// Hands over whatever it leads, and stops.
    pub async fn stop(&self) {
        _ = self.commands.send(Command::Stop);
        _ = self.shared.stop.send(true);
        let mut condition = self.condition();
        // An error means that the task is gone.
        _ = condition.wait_for(|condition| condition.stopped.is_some()).await;
    }

    /// Stops at once, as a crash would: what it leads is nobody's until the leases are over.
    pub fn abort(&self) {
        self.shared.task.abort();
    }

    pub(super) fn tell(&self, name: Name, deed: Deed) {
        // If the task is gone, so is what it would have done.
        _ = self.commands.send(Command::Do { name, deed, reply: None });
    }

    async fn ask<R>(&self, command: impl FnOnce(oneshot::Sender<R>) -> Command) -> Result<R, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| Error::Stopped)?;
        answer.await.map_err(|_| Error::Stopped)
    }
}
