//! A node: an engine with a network, a clock and a disk. One task runs the engine; handles send it commands.

mod sessions;
mod task;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use suffrage_core::{NodeId, Start, Time};
use suffrage_lease::membership::{Change, Configuration, VoterEntry};
use suffrage_lease::sessions::{SessionConfig, SessionEngine};
use suffrage_lease::{Action, CandidateConfig, ElectionName, JoinError, Lease, Name, Saved, Token, Value};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;

pub use self::sessions::{HoldState, Holding};
use self::sessions::{SessionCommand, SessionIds};
use self::task::{Disk, Handles, Task};
use super::node_clock::NodeClock;
use super::output::Output;
use super::participation::{Belief, HeldLease, Participation};
use super::settings::Settings;
use super::status::{
    ElectionCounters, GrantedElection, HistoryEntry, KnownElection, Leader, ListedElection, MembershipStatus,
    MismatchedNode, Refusal, Status, VoterContact, VoterStatus,
};
use super::survey::VoterReport;
use crate::clock::{BootClock, Clock};
use crate::storage::Storage;
use suffrage_net::Transport;
use suffrage_net::transport::udp::Udp;

use crate::Error;

/// The state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeState {
    /// The node runs.
    #[default]
    Running,
    /// The node is suspended, because it cannot save its state. It retries every second. The text names the failure.
    StorageFailing(String),
    /// The node has stopped.
    Stopped {
        /// The failure that stopped the node. None if the node was asked to stop.
        cause: Option<String>,
    },
}

impl NodeState {
    /// Whether the node has stopped.
    pub fn is_stopped(&self) -> bool {
        matches!(self, NodeState::Stopped { .. })
    }

    /// The failure to save that suspends the node, if there is one.
    pub fn storage_failure(&self) -> Option<&str> {
        match self {
            NodeState::StorageFailing(reason) => Some(reason),
            NodeState::Running | NodeState::Stopped { .. } => None,
        }
    }
}

/// The metrics of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeMetrics {
    /// The counters over all elections.
    pub counters: ElectionCounters,
    /// The number of elections that the node takes part in.
    pub elections: usize,
    /// The number of leases that the node's voter has granted and that have not ended.
    pub granted: usize,
    /// The last reply of each voter of the cluster.
    pub voters: Vec<VoterContact>,
    /// The state of the node as a voter, if it is one.
    pub voter: Option<VoterStatus>,
    /// The version of the cluster's configuration.
    pub version: u64,
    /// The nodes whose messages change nothing at this node, and the reasons.
    pub mismatches: Vec<MismatchedNode>,
    /// The number of messages that changed nothing for such a reason.
    pub mismatched_messages: u64,
    /// The smoothed time that voters take to answer.
    pub round_trip: Duration,
    /// The number of messages sent.
    pub messages_sent: u64,
}

/// The state of a node that costs little to tell: nothing of it grows with the number of elections.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NodeOverview {
    /// The counters over all elections.
    pub counters: ElectionCounters,
    /// The number of elections that the node takes part in.
    pub elections: usize,
    /// The last reply of each voter of the cluster.
    pub voters: Vec<VoterContact>,
    /// The state of the node as a voter, if it is one.
    pub voter: Option<VoterStatus>,
    /// The smoothed time that voters take to answer.
    pub round_trip: Duration,
    /// The reports of other voters: whom they hear, and how their clocks go. Voters of an earlier version have none.
    pub reports: Vec<VoterReport>,
}

/// An event for the operator of a node.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NodeEvent {
    /// Another leader is known in an election that the node takes part in, or none.
    LeaderChanged {
        /// The election.
        election: ElectionName,
        /// The leader since then.
        leader: Option<Leader>,
    },
    /// The node's voter has granted the lease to another holder, or the grant has ended, in an election that the node
    /// takes no part in.
    GrantChanged {
        /// The election.
        election: ElectionName,
        /// The holder since then.
        leader: Option<Leader>,
    },
    /// This node has asked the leader of an election to hand over ([`Node::move_leader`]).
    HandOverRequested {
        /// The election.
        election: ElectionName,
        /// The leader.
        leader: Leader,
        /// The node that is to lead next. None for the next candidate.
        to: Option<NodeId>,
    },
    /// Another node asks this one to hand over an election that it leads.
    AskedToHandOver {
        /// The election.
        election: ElectionName,
        /// The node that asks.
        by: NodeId,
        /// The node that is to lead next. None for the next candidate.
        to: Option<NodeId>,
    },
    /// A voter refuses the node's candidate for another reason than before.
    Refused {
        /// The election.
        election: ElectionName,
        /// The refusal.
        refusal: Refusal,
    },
}

/// A command of a handle about one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ElectionCommand {
    /// An action of the engine.
    Act(Action),
    /// A participation has ended.
    Leave { candidate: bool },
}

/// A command of a handle.
enum Command {
    /// The reply is the participation itself. If the caller is gone, the participation is dropped, and the node leaves
    /// the election.
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
    /// Makes the node a candidate, until it has led. The reply is its next lease, and not the one that it may hold already:
    /// the owner of that one has ended it.
    Campaign {
        name: Name,
        elected: oneshot::Sender<Arc<HeldLease>>,
    },
    SetValue {
        name: Name,
        value: Option<Value>,
    },
    Pin {
        name: Name,
        reply: oneshot::Sender<Option<Lease>>,
    },
    /// Checks whether a candidate waits at this node. Changes nothing.
    CheckTransfer {
        name: Name,
        to: NodeId,
        reply: oneshot::Sender<Result<(), Error>>,
    },
    /// Asks the leader, whichever node it is, to hand over: to this node, where a candidate must wait, or to the next
    /// candidate. The reply names the leader.
    Move {
        election: ElectionName,
        to: Option<NodeId>,
        /// The token of the leader, if a later one is not to be asked.
        token: Option<Token>,
        reply: oneshot::Sender<Result<Option<Leader>, Error>>,
    },
    /// The holder of the lease, and the time until its grant ends unless it is renewed.
    Holder {
        name: Name,
        reply: oneshot::Sender<Option<(Leader, Duration)>>,
    },
    Session(SessionCommand),
    /// Subscribes to events.
    Events {
        sender: mpsc::UnboundedSender<NodeEvent>,
    },
    Status {
        name: Name,
        reply: oneshot::Sender<Option<Status>>,
    },
    Elections {
        reply: oneshot::Sender<Vec<Status>>,
    },
    Granted {
        reply: oneshot::Sender<Vec<GrantedElection>>,
    },
    List {
        reply: oneshot::Sender<Vec<ListedElection>>,
    },
    Known {
        names: Vec<Name>,
        reply: oneshot::Sender<Vec<KnownElection>>,
    },
    History {
        name: Option<Name>,
        reply: oneshot::Sender<Vec<HistoryEntry>>,
    },
    Metrics {
        reply: oneshot::Sender<NodeMetrics>,
    },
    /// Asks the voters for reports if `survey`. The reply has the reports that have come before.
    Overview {
        survey: bool,
        reply: oneshot::Sender<NodeOverview>,
    },
    /// Begins to coordinate a change of the voters. The reply says whether it has begun.
    ChangeVoters {
        change: Change,
        reply: oneshot::Sender<bool>,
    },
    StopChange,
    Membership {
        reply: oneshot::Sender<MembershipStatus>,
    },
    Stop,
}

type Joined = (Name, watch::Receiver<Belief>);

/// A handle to a running node. Clones share the node. The node stops when all handles and all participations are
/// dropped.
#[derive(Clone, Debug)]
pub struct Node {
    commands: mpsc::UnboundedSender<Command>,
    shared: Arc<Shared>,
}

/// A handle that does not keep the node running: for commands in the node's own queue.
struct WeakNode {
    commands: mpsc::WeakUnboundedSender<Command>,
    shared: Weak<Shared>,
}

impl WeakNode {
    /// None if all handles are dropped.
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
    configuration: watch::Receiver<Arc<Configuration>>,
    stop: watch::Sender<bool>,
    /// The time of the last turn, in nanoseconds of the node's clock.
    turned: Arc<AtomicU64>,
    /// See [`NOT_SAVING`].
    saving_since: Arc<AtomicU64>,
    /// The number of the next request of a client.
    requests: AtomicU64,
    session_ids: SessionIds,
    /// Whether no session may begin to lead any more.
    sessions_stop: AtomicBool,
    task: AbortHandle,
}

/// The time at which the write to the disk began that is under way, in nanoseconds of the node's clock, has this value if
/// there is none.
const NOT_SAVING: u64 = u64::MAX;

/// The time since the write to the disk began that is under way.
fn save_pending(saving_since: &AtomicU64, now: Time) -> Option<Duration> {
    let since = saving_since.load(Ordering::Relaxed);
    (since != NOT_SAVING).then(|| Duration::from_nanos(now.since(Time::from_nanos(since)).as_nanos()))
}

/// Refuses settings that contradict the stored configuration: a voter that forgets its configuration could make two
/// leaders.
fn check_saved(saved: &Saved, settings: &Settings) -> Result<(), Error> {
    let ids = |voters: &[VoterEntry]| {
        let ids: Vec<String> = voters.iter().map(|voter| voter.id.to_string()).collect();
        ids.join(", ")
    };
    let (stored, given) = (&saved.configuration, settings.founding()?);
    // A node that has found its cluster at version 0 does not vote, and may have any list.
    if saved.certain
        && saved.trusted
        && stored.version() == 0
        && stored.stamp() != given.stamp()
        && stored.drift() == given.drift()
    {
        return Err(Error::OtherVoters { stored: ids(stored.voters()), given: ids(given.voters()) });
    }
    if saved.certain && stored.drift() != given.drift() {
        return Err(Error::OtherDrift { stored: stored.drift(), given: given.drift() });
    }
    Ok(())
}

impl Node {
    /// Starts a node in the current tokio runtime. A node that does not vote saves nothing: a
    /// [`MemoryDisk`](crate::storage::MemoryDisk) is enough for it.
    pub fn start(
        transport: impl Transport,
        clock: impl Clock,
        disk: impl Storage<Saved>,
        settings: Settings,
    ) -> Result<Node, Error> {
        Node::start_on(transport, clock, Box::new(disk), settings)
    }

    /// Starts a node that sends datagrams, by the clock of this machine. The function is not generic: the task of the
    /// node is compiled in this crate, once.
    pub fn start_udp(
        transport: Arc<Udp>,
        disk: Box<dyn Storage<Saved>>,
        settings: Settings,
    ) -> Result<Node, Error> {
        Node::start_on(transport, BootClock, disk, settings)
    }

    fn start_on(
        transport: impl Transport,
        clock: impl Clock,
        mut disk: Disk,
        mut settings: Settings,
    ) -> Result<Node, Error> {
        settings.datagram = settings.datagram.min(transport.max_payload());
        let mut seed = [0; 8];
        getrandom::fill(&mut seed)?;
        let (me, seed) = (transport.local(), u64::from_le_bytes(seed));
        let out = Output::new(settings.datagram, seed);
        let engine = SessionEngine::new(me, settings.engine(), SessionConfig::new(settings.drift))?;
        let start = disk.start()?;
        if let Start::Recovered(Some(saved)) = &start {
            check_saved(saved, &settings)?;
        }
        let (commands, inbox) = mpsc::unbounded_channel();
        let (state_sender, state) = watch::channel(NodeState::default());
        let (stop, stopped) = watch::channel(false);
        let turned = Arc::new(AtomicU64::new(clock.now().as_nanos()));
        let saving_since = Arc::new(AtomicU64::new(NOT_SAVING));
        let (configuration_sender, configuration) =
            watch::channel(Arc::clone(engine.engine().configuration()));
        let handles = Handles {
            commands: inbox,
            state: state_sender,
            configuration: configuration_sender,
            stopped,
            turned: Arc::clone(&turned),
            saving_since: Arc::clone(&saving_since),
        };
        let task = Task::new(engine, out, transport, clock.clone(), disk, handles, settings.history);
        let task = crate::spawn(task.run(start)).abort_handle();
        let shared = Shared {
            me,
            settings,
            clock: NodeClock::new(clock),
            state,
            configuration,
            stop,
            turned,
            saving_since,
            requests: AtomicU64::new(0),
            session_ids: SessionIds::default(),
            sessions_stop: AtomicBool::new(false),
            task,
        };
        Ok(Node { commands, shared: Arc::new(shared) })
    }

    /// The id of the node.
    pub fn id(&self) -> NodeId {
        self.shared.me
    }

    /// The clock of the node.
    pub fn clock(&self) -> &NodeClock {
        &self.shared.clock
    }

    /// The settings of the node.
    pub fn settings(&self) -> &Settings {
        &self.shared.settings
    }

    /// The time of the last turn of the node's task. A task that is not stuck has a turn at least every second.
    pub fn last_turn(&self) -> Time {
        Time::from_nanos(self.shared.turned.load(Ordering::Relaxed))
    }

    /// The time since the write to the disk began that is under way, with all its attempts. None if there is none. Needs no
    /// answer of the node's task, which may wait for the disk.
    pub fn save_pending(&self) -> Option<Duration> {
        save_pending(&self.shared.saving_since, self.clock().now())
    }

    /// The state of the node and its changes.
    pub fn state(&self) -> watch::Receiver<NodeState> {
        self.shared.state.clone()
    }

    /// The configuration of the cluster and its changes. Until the node has heard of a voter, it is the list that the node
    /// was started with.
    pub fn configuration(&self) -> watch::Receiver<Arc<Configuration>> {
        self.shared.configuration.clone()
    }

    /// Begins to coordinate a change of the voters, in place of the one that this node coordinates already. See
    /// [`membership`](Node::membership) for its progress. [`Error::UnknownCluster`] if the node has not heard of any voter.
    pub async fn change_voters(&self, change: Change) -> Result<(), Error> {
        let begun = self.ask(|reply| Command::ChangeVoters { change, reply }).await?;
        if begun { Ok(()) } else { Err(Error::UnknownCluster) }
    }

    /// Stops coordinating. What a majority has accepted is completed by the next change.
    pub fn stop_change(&self) {
        // Without a task nothing is coordinated.
        _ = self.commands.send(Command::StopChange);
    }

    /// The configuration, the change that this node coordinates, and the nodes that do not match.
    pub async fn membership(&self) -> Result<MembershipStatus, Error> {
        self.ask(|reply| Command::Membership { reply }).await
    }

    /// Joins an election as a possible candidate. A node has at most one such participation in each election.
    pub async fn join(&self, name: &str, config: CandidateConfig) -> Result<Participation, Error> {
        self.take_part(name, Some(config)).await
    }

    /// Joins an election as an observer. A node may have any number of such participations.
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

    /// Hands an election over after the stop margin, and yields to other candidates for the length of a lease. False if
    /// this node takes no part in the election.
    pub async fn resign(&self, name: &str) -> Result<bool, Error> {
        self.request(name, Action::Resign).await
    }

    /// Hands an election over to another node after the stop margin. False if this node takes no part in the election. An error, which
    /// changes nothing, as of [`check_transfer`](Node::check_transfer).
    pub async fn transfer(&self, name: &str, to: NodeId) -> Result<bool, Error> {
        self.check_transfer(name, to).await?;
        self.request(name, Action::Transfer(to)).await
    }

    /// Checks whether an election that this node leads can be handed over to another node: a candidate must wait there.
    /// The node knows that from its own voter. If it does not vote, it cannot know:
    /// [`Error::UnknownQueue`]. Without the lease there is nothing to check.
    pub async fn check_transfer(&self, name: &str, to: NodeId) -> Result<(), Error> {
        let name = Name::of(name);
        self.ask(|reply| Command::CheckTransfer { name, to, reply }).await?
    }

    /// Asks the leader of an election, whichever node it is, to hand over: to this node, where a candidate must wait, or to
    /// the next candidate. Returns the leader that was asked; none if this node knows of none, or of another token than
    /// the given one. The message can be lost: the caller repeats it with the token until [`holder`](Node::holder) has
    /// changed.
    pub async fn move_leader(
        &self,
        name: &str,
        to: Option<NodeId>,
        token: Option<Token>,
    ) -> Result<Option<Leader>, Error> {
        let election = ElectionName::new(name)?;
        self.ask(|reply| Command::Move { election, to, token, reply }).await?
    }

    /// The holder of an election's lease, as this node's voter knows it, and the time until its grant ends unless it is
    /// renewed. A node that does not vote must take part in the election to know the holder.
    pub async fn holder(&self, name: &str) -> Result<Option<(Leader, Duration)>, Error> {
        let name = Name::of(name);
        self.ask(|reply| Command::Holder { name, reply }).await
    }

    async fn request(&self, name: &str, action: Action) -> Result<bool, Error> {
        self.act(Name::of(name), action).await
    }

    /// False if the node takes no part in the election.
    pub(super) async fn act(&self, name: Name, action: Action) -> Result<bool, Error> {
        let command = ElectionCommand::Act(action);
        self.ask(|reply| Command::Do { name, command, reply: Some(reply) }).await
    }

    /// The next lease of this node: see [`Command::Campaign`].
    pub(super) async fn next_lease(&self, name: Name) -> Result<Arc<HeldLease>, Error> {
        self.ask(|elected| Command::Campaign { name, elected }).await
    }

    pub(super) async fn pin(&self, name: Name) -> Result<Option<Lease>, Error> {
        self.ask(|reply| Command::Pin { name, reply }).await
    }

    /// The status of an election. None if the node takes no part in it.
    pub async fn status(&self, name: &str) -> Result<Option<Status>, Error> {
        let name = Name::of(name);
        self.ask(|reply| Command::Status { name, reply }).await
    }

    /// The status of every election that the node takes part in.
    pub async fn elections(&self) -> Result<Vec<Status>, Error> {
        self.ask(|reply| Command::Elections { reply }).await
    }

    /// The elections that the node's voter has granted and that the node takes no part in.
    pub async fn granted(&self) -> Result<Vec<GrantedElection>, Error> {
        self.ask(|reply| Command::Granted { reply }).await
    }

    /// The names and leaders of all elections that the node takes part in or that its voter has granted, in no order. This
    /// is cheaper than the status of all of them.
    pub async fn list(&self) -> Result<Vec<ListedElection>, Error> {
        self.ask(|reply| Command::List { reply }).await
    }

    /// The elections of these names that the node takes part in or that its voter has granted.
    pub async fn known(&self, names: Vec<Name>) -> Result<Vec<KnownElection>, Error> {
        self.ask(|reply| Command::Known { names, reply }).await
    }

    /// The history of one election, or of all, the oldest entry first.
    pub async fn history(&self, name: Option<&str>) -> Result<Vec<HistoryEntry>, Error> {
        let name = name.map(Name::of);
        self.ask(|reply| Command::History { name, reply }).await
    }

    /// Subscribes to events. A later subscription replaces an earlier one.
    pub fn events(&self) -> mpsc::UnboundedReceiver<NodeEvent> {
        let (sender, receiver) = mpsc::unbounded_channel();
        // The receiver is closed if the task is gone.
        _ = self.commands.send(Command::Events { sender });
        receiver
    }

    /// The state of the node that costs little to tell, without reports of other voters.
    pub async fn overview(&self) -> Result<NodeOverview, Error> {
        self.ask(|reply| Command::Overview { survey: false, reply }).await
    }

    /// The state of the node with the reports of other voters that have come, and asks them for new ones. Who shows reports
    /// repeats this every second.
    pub async fn survey(&self) -> Result<NodeOverview, Error> {
        self.ask(|reply| Command::Overview { survey: true, reply }).await
    }

    /// The metrics of the node.
    pub async fn metrics(&self) -> Result<NodeMetrics, Error> {
        self.ask(|reply| Command::Metrics { reply }).await
    }

    /// Hands over all leases of the node and stops it. Work that goes on gets its stop margin first: the node stops when
    /// all leases are [released](Participation::release), or when the longest margin is over. Clients that lead are not
    /// waited for: see [`stop_sessions`](Node::stop_sessions).
    pub async fn stop(&self) {
        _ = self.commands.send(Command::Stop);
        _ = self.shared.stop.send(true);
        // An error means that the task is gone.
        _ = self.state().wait_for(NodeState::is_stopped).await;
    }

    /// Stops the node at once, as a crash would. Its leases run until they expire.
    pub fn abort(&self) {
        self.shared.task.abort();
    }

    pub(super) fn tell(&self, name: Name, command: ElectionCommand) {
        // The participation ends with the task.
        _ = self.commands.send(Command::Do { name, command, reply: None });
    }

    pub(super) fn set_value(&self, name: Name, value: Option<Value>) {
        // The participation ends with the task.
        _ = self.commands.send(Command::SetValue { name, value });
    }

    async fn ask<R>(&self, command: impl FnOnce(oneshot::Sender<R>) -> Command) -> Result<R, Error> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).map_err(|_| Error::Stopped)?;
        answer.await.map_err(|_| Error::Stopped)
    }
}
