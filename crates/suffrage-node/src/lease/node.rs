//! An engine with a network, a clock and a disk: one task, and handles to it.

mod sessions;
mod task;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::sessions::{SessionConfig, SessionEngine};
use suffrage_lease::{Action, CandidateConfig, ElectionName, JoinError, Lease, Name, Saved, Token};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

use self::sessions::SessionCommand;
use self::task::{Handles, Task};
use super::node_clock::NodeClock;
use super::output::Output;
use super::participation::{Belief, Participation};
use super::settings::Settings;
use super::status::{ElectionCounters, Record, Status, VoterStatus};
use crate::clock::Clock;
use crate::storage::Storage;
use suffrage_net::Transport;

use crate::Error;

/// How a node is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// It runs.
    #[default]
    Running,
    /// It stands still, for this reason: it cannot save what a voter must not forget. It retries every second.
    StorageFailing(String),
    /// It has stopped.
    Stopped {
        /// Why; none if it was told to.
        cause: Option<String>,
    },
}

impl NodeState {
    /// Whether the node has stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, NodeState::Stopped { .. })
    }

    /// Why the node stands still, if it does.
    pub fn storage_failure(&self) -> Option<&str> {
        match self {
            NodeState::StorageFailing(reason) => Some(reason),
            NodeState::Running | NodeState::Stopped { .. } => None,
        }
    }
}

/// What a node counts and measures.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeMetrics {
    /// What it has counted.
    pub counters: ElectionCounters,
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

/// A change of leaders that a node has learned of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderChange {
    /// Of which election.
    pub election: ElectionName,
    /// Who leads, and with which token; none if nobody does.
    pub leader: Option<(NodeId, Token)>,
}

/// What the handles ask of the task about one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionCommand {
    /// To be done by the engine.
    Act(Action),
    /// A participation has ended.
    Leave { stands: bool },
}

/// What the handles ask of the task.
enum Command {
    /// The answer is the participation itself: if nobody waits for it any more, it is dropped, and the node leaves
    /// again.
    Join {
        node: WeakNode,
        election: ElectionName,
        /// None to observe.
        config: Option<CandidateConfig>,
        reply: oneshot::Sender<Result<Participation, JoinError>>,
    },
    Do {
        name: Name,
        command: ElectionCommand,
        reply: Option<oneshot::Sender<bool>>,
    },
    Pin {
        name: Name,
        reply: oneshot::Sender<Option<Lease>>,
    },
    Session(SessionCommand),
    /// Wants to be told of every change of leaders.
    Changes {
        sender: mpsc::UnboundedSender<LeaderChange>,
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
    Metrics {
        reply: oneshot::Sender<NodeMetrics>,
    },
    Stop,
}

type Joined = (Name, watch::Receiver<Belief>);

/// A node that runs. Clones are the same node; when all of them and all its participations are gone, it stops.
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
    clock: NodeClock,
    state: watch::Receiver<NodeState>,
    stop: watch::Sender<bool>,
    /// In nanoseconds of its clock.
    turned: Arc<AtomicU64>,
    /// The number of the next request of a client.
    requests: AtomicU64,
    /// Whether no client is to lead any more.
    sessions_stop: AtomicBool,
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
        let out = Output::new(settings.datagram, seed);
        let engine = SessionEngine::new(me, settings.engine(), SessionConfig::new(settings.drift))?;
        let start = disk.start()?;
        let (commands, inbox) = mpsc::unbounded_channel();
        let (state_sender, state) = watch::channel(NodeState::default());
        let (stop, stopped) = watch::channel(false);
        let turned = Arc::new(AtomicU64::new(clock.now().as_nanos()));
        let handles = Handles { commands: inbox, state: state_sender, stopped, turned: Arc::clone(&turned) };
        let task = Task::new(engine, out, transport, clock.clone(), disk, handles, settings.history);
        let task = tokio::spawn(task.run(start)).abort_handle();
        let shared = Shared {
            me,
            settings,
            clock: NodeClock::new(clock),
            state,
            stop,
            turned,
            requests: AtomicU64::new(0),
            sessions_stop: AtomicBool::new(false),
            task,
        };
        Ok(Node { commands, shared: Arc::new(shared) })
    }

    /// Who it is.
    pub fn id(&self) -> NodeId {
        self.shared.me
    }

    /// Its clock.
    pub fn clock(&self) -> &NodeClock {
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
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.shared.state.clone()
    }

    /// Takes part in an election, and may stand in it. A node has one such participation in each.
    pub async fn join(&self, name: &str, config: CandidateConfig) -> Result<Participation, Error> {
        self.take_part(name, Some(config)).await
    }

    /// Follows who leads an election. A node may have any number of such participations.
    pub async fn observe(&self, name: &str) -> Result<Participation, Error> {
        self.take_part(name, None).await
    }

    fn downgrade(&self) -> WeakNode {
        WeakNode { commands: self.commands.downgrade(), shared: Arc::downgrade(&self.shared) }
    }

    async fn take_part(&self, name: &str, config: Option<CandidateConfig>) -> Result<Participation, Error> {
        let (node, election) = (self.downgrade(), ElectionName::new(name)?);
        Ok(self.ask(|reply| Command::Join { node, election, config, reply }).await??)
    }

    /// Hands an election over, and lets others go first for the length of a lease. False if this node takes no
    /// part in it.
    pub async fn resign(&self, name: &str) -> Result<bool, Error> {
        self.request(name, Action::Resign).await
    }

    /// Hands an election over to another node. False if this one takes no part in it.
    pub async fn transfer(&self, name: &str, to: NodeId) -> Result<bool, Error> {
        self.request(name, Action::Transfer(to)).await
    }

    async fn request(&self, name: &str, action: Action) -> Result<bool, Error> {
        let (name, command) = (Name::of(name), ElectionCommand::Act(action));
        self.ask(|reply| Command::Do { name, command, reply: Some(reply) }).await
    }

    pub(super) async fn pin(&self, name: Name) -> Result<Option<Lease>, Error> {
        self.ask(|reply| Command::Pin { name, reply }).await
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

    /// Every change of leaders that the node learns of from now on. Whoever called this before is told no more.
    pub fn leader_changes(&self) -> mpsc::UnboundedReceiver<LeaderChange> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // If the task is gone, nothing changes any more.
        _ = self.commands.send(Command::Changes { sender });
        receiver
    }

    /// What it has counted and measured.
    pub async fn metrics(&self) -> Result<NodeMetrics, Error> {
        self.ask(|reply| Command::Metrics { reply }).await
    }

    /// Hands over whatever it leads, and stops.
    pub async fn stop(&self) {
        _ = self.commands.send(Command::Stop);
        _ = self.shared.stop.send(true);
        // An error means that the task is gone.
        _ = self.state().wait_for(NodeState::is_stopped).await;
    }

    /// Stops at once, as a crash would: what it leads is nobody's until the leases are over.
    pub fn abort(&self) {
        self.shared.task.abort();
    }

    pub(super) fn tell(&self, name: Name, command: ElectionCommand) {
        // If the task is gone, so is what it would have done.
        _ = self.commands.send(Command::Do { name, command, reply: None });
    }

    async fn ask<R>(&self, command: impl FnOnce(oneshot::Sender<R>) -> Command) -> Result<R, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| Error::Stopped)?;
        answer.await.map_err(|_| Error::Stopped)
    }
}
