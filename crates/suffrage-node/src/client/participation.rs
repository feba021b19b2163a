//! The participation of a program in one election, through the node of its machine.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};

use serde_json::Value;
use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::Token;
use suffrage_lease::sessions::connection::ConnectionClient;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use super::hold::{HoldEvent, HoldRequest, HoldStream};
use super::{LocalNode, election, leader, value};
use crate::Error;
use crate::clock::boottime;
use crate::lease::{Belief, HeldLease, NodeClock, Status, Value as LeaseValue};

/// The pause after a failed attempt to reach the node. It doubles from the first value to the longest.
const FIRST_BACKOFF: Span = Span::from_millis(5);
const LONGEST_BACKOFF: Span = Span::from_millis(500);

/// The configuration of a participation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientConfig {
    /// The election, the length of the node's lease, and the rank.
    pub hold: HoldRequest,
    /// The time that the program needs to stop its work when it hands over.
    pub stop_margin: Span,
}

enum Command {
    Campaign(oneshot::Sender<Arc<HeldLease>>),
    Withdraw,
    Release(Option<NodeId>),
    Health(bool),
    Rank(i64),
    Value(Option<LeaseValue>),
}

/// The participation of a program in one election. It ends when this value is dropped: the lease is then released at
/// once. The functions mean what those of [`Participation`](crate::lease::Participation) mean.
#[derive(Debug)]
pub struct ClientParticipation {
    node: LocalNode,
    name: String,
    clock: NodeClock,
    commands: mpsc::UnboundedSender<Command>,
    belief: watch::Receiver<Belief>,
    failure: Arc<OnceLock<String>>,
}

impl ClientParticipation {
    /// Joins the election. Needs a tokio runtime. The node is asked when the program campaigns.
    pub fn join(node: &LocalNode, config: ClientConfig) -> ClientParticipation {
        let (commands, orders) = mpsc::unbounded_channel();
        let (sender, belief) =
            watch::channel(Belief { leader: None, value: None, since: boottime(), held: None });
        let belief_sender = Arc::new(sender);
        let (name, failure) = (config.hold.name.clone(), Arc::default());
        let observer = observe(node.clone(), name.clone(), Arc::clone(&belief_sender));
        let task = Task {
            node: node.clone(),
            clock: NodeClock::boottime(),
            config,
            orders,
            belief: belief_sender,
            observer: crate::spawn(observer),
            failure: Arc::clone(&failure),
            standing: false,
            healthy: true,
            client: ConnectionClient::default(),
            session: None,
            held: None,
            elected: None,
            close_at: None,
            retry_at: None,
            backoff: FIRST_BACKOFF,
            connection: Connection::Idle,
            value_order: 0,
            node_order: 0,
            telling: None,
            tell_at: None,
            tell_backoff: FIRST_BACKOFF,
        };
        crate::spawn(task.run());
        ClientParticipation {
            node: node.clone(),
            name,
            clock: NodeClock::boottime(),
            commands,
            belief,
            failure,
        }
    }

    /// The clock by which leases are measured: CLOCK_BOOTTIME.
    pub fn clock(&self) -> &NodeClock {
        &self.clock
    }

    /// The belief and its changes. Closed when the node has refused this program.
    pub fn belief(&self) -> watch::Receiver<Belief> {
        self.belief.clone()
    }

    /// The reason why [`belief`](ClientParticipation::belief) is closed.
    pub fn failure(&self) -> Error {
        match self.failure.get() {
            Some(reason) => {
                Error::RefusedByNode { path: self.node.path().to_path_buf(), reason: reason.clone() }
            }
            None => Error::Stopped,
        }
    }

    /// Makes the program a candidate, and waits for its next lease. A lease that it holds already is not returned. A caller
    /// that does not wait any more must [`release`](ClientParticipation::release) the lease.
    pub async fn next_lease(&self) -> Result<Arc<HeldLease>, Error> {
        let (elected, lease) = oneshot::channel();
        self.tell(Command::Campaign(elected));
        lease.await.map_err(|_| self.failure())
    }

    /// Ends the candidacy. If the program leads, its connection closes after the stop margin.
    pub fn withdraw(&self) {
        self.tell(Command::Withdraw);
    }

    /// Ends the candidacy. If the program leads, its connection closes at once, because the work has ended.
    pub fn release(&self, to: Option<NodeId>) {
        self.tell(Command::Release(to));
    }

    /// Reports the health of the program.
    pub fn set_healthy(&self, healthy: bool) {
        self.tell(Command::Health(healthy));
    }

    /// Sets the rank. A program that waits takes its new place in the queue.
    pub fn set_rank(&self, rank: i64) {
        self.tell(Command::Rank(rank));
    }

    /// Sets the value of the program as the leader, from now on and in later leaderships, or takes it back.
    pub fn set_value(&self, value: Option<LeaseValue>) {
        self.tell(Command::Value(value));
    }

    /// The status of the election, as the node knows it.
    pub async fn status(&self) -> Result<Status, Error> {
        self.node.status(&self.name).await
    }

    fn tell(&self, command: Command) {
        // The task has ended if the node has refused this program.
        _ = self.commands.send(command);
    }
}

/// A request that tells the node a value. Returns the number of the change.
type Telling = Pin<Box<dyn Future<Output = (u64, Result<(), Error>)> + Send>>;

/// Cancel-safe.
async fn told(telling: &mut Option<Telling>) -> (u64, Result<(), Error>) {
    match telling {
        Some(request) => request.await,
        None => std::future::pending().await,
    }
}

type Opening = Pin<Box<dyn Future<Output = Result<HoldStream, Error>> + Send>>;

enum Connection {
    Idle,
    Opening(Opening),
    Open(HoldStream),
}

enum Step {
    Opened(Result<HoldStream, Error>),
    Event(Result<HoldEvent, Error>),
}

impl Connection {
    /// Cancel-safe.
    async fn next(&mut self) -> Step {
        match self {
            Connection::Idle => std::future::pending().await,
            Connection::Opening(opening) => Step::Opened(opening.await),
            Connection::Open(stream) => Step::Event(stream.next().await),
        }
    }
}

/// The task of a participation. The lease ends before its connection closes, also if the task is dropped with its runtime:
/// the node releases at once.
struct Task {
    node: LocalNode,
    clock: NodeClock,
    config: ClientConfig,
    orders: mpsc::UnboundedReceiver<Command>,
    belief: Arc<watch::Sender<Belief>>,
    observer: JoinHandle<()>,
    failure: Arc<OnceLock<String>>,
    /// Whether the program asks to lead.
    standing: bool,
    healthy: bool,
    client: ConnectionClient,
    session: Option<String>,
    held: Option<Arc<HeldLease>>,
    /// Gets the next lease.
    elected: Option<oneshot::Sender<Arc<HeldLease>>>,
    /// When the connection closes: the program hands over.
    close_at: Option<Time>,
    retry_at: Option<Time>,
    backoff: Span,
    connection: Connection,
    /// The number of changes of the value.
    value_order: u64,
    /// The change that the node has, as far as this program knows.
    node_order: u64,
    /// The request that tells the node the value.
    telling: Option<Telling>,
    /// When the node is told again, after a failure.
    tell_at: Option<Time>,
    tell_backoff: Span,
}

impl Task {
    async fn run(mut self) {
        loop {
            if self.standing && self.healthy && self.is_idle() && self.retry_at.is_none() {
                // The request has the present value.
                self.node_order = self.value_order;
                let (node, request) = (self.node.clone(), self.config.hold.clone());
                self.connection = Connection::Opening(Box::pin(async move { node.hold(&request).await }));
            }
            self.tell_value();
            let due = self.close_at.into_iter().chain(self.retry_at).chain(self.tell_at).min();
            let sleep = async {
                match due {
                    Some(due) => self.clock.sleep_until(due).await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                biased;
                order = self.orders.recv() => match order {
                    Some(order) => self.on_order(order),
                    // The participation was dropped.
                    None => return,
                },
                () = sleep => self.on_due(),
                (order, outcome) = told(&mut self.telling) => self.on_told(order, &outcome),
                step = self.connection.next() => if let Err(reason) = self.on_step(step) {
                    // A later failure changes nothing.
                    _ = self.failure.set(reason);
                    return;
                },
            }
        }
    }

    fn is_idle(&self) -> bool {
        matches!(self.connection, Connection::Idle)
    }

    fn on_order(&mut self, order: Command) {
        match order {
            Command::Campaign(elected) => {
                self.standing = true;
                self.elected = Some(elected);
            }
            Command::Withdraw => {
                (self.standing, self.elected) = (false, None);
                self.hand_over();
            }
            Command::Release(to) => {
                (self.standing, self.elected) = (false, None);
                match (to, self.session.take()) {
                    (Some(to), Some(session)) => self.transfer(to, session),
                    _ => self.close(),
                }
            }
            Command::Health(healthy) => {
                self.healthy = healthy;
                if !healthy {
                    self.hand_over();
                }
            }
            Command::Rank(rank) => {
                let changed = std::mem::replace(&mut self.config.hold.rank, rank) != rank;
                if changed && self.held.is_none() {
                    self.close();
                }
            }
            Command::Value(value) => {
                self.config.hold.value = value;
                self.value_order += 1;
            }
        }
    }

    /// Tells the node the value if it has another one: with one request at a time, so that of many changes at once the node
    /// hears the last. A program whose session is not known yet tells it when it leads.
    fn tell_value(&mut self) {
        let Some(session) = &self.session else { return };
        if self.node_order == self.value_order || self.telling.is_some() || self.tell_at.is_some() {
            return;
        }
        let (node, name, session) = (self.node.clone(), self.config.hold.name.clone(), session.clone());
        let (value, order) = (self.config.hold.value.clone(), self.value_order);
        self.telling =
            Some(Box::pin(
                async move { (order, node.set_value(&name, &session, value.as_ref(), order).await) },
            ));
    }

    /// The node has answered, or cannot be reached: then it is told again, for as long as the program leads.
    fn on_told(&mut self, order: u64, outcome: &Result<(), Error>) {
        self.telling = None;
        if let Err(Error::Unreachable { .. }) = outcome {
            self.tell_at = Some(self.clock.now() + self.tell_backoff);
            self.tell_backoff = (self.tell_backoff * 2).min(LONGEST_BACKOFF);
        } else {
            // A node that refuses has forgotten the session.
            self.node_order = order;
            self.tell_backoff = FIRST_BACKOFF;
        }
    }

    fn on_due(&mut self) {
        let now = self.clock.now();
        self.retry_at.take_if(|when| *when <= now);
        self.tell_at.take_if(|when| *when <= now);
        if self.close_at.is_some_and(|when| when <= now) {
            self.close();
        }
    }

    /// Gives the work its stop margin, and closes the connection then.
    fn hand_over(&mut self) {
        let Some(held) = &self.held else { return self.close() };
        // A candidacy ends when the program has led.
        self.standing = false;
        let end = self.clock.now() + self.config.stop_margin;
        let end = *self.close_at.get_or_insert(end);
        held.shorten(held.valid_until().min(end));
    }

    /// Ends the leadership or the candidacy, and closes the connection.
    fn close(&mut self) {
        self.end_lease();
        self.connection = Connection::Idle;
    }

    /// The lease turns invalid before anybody else hears of it.
    fn end_lease(&mut self) {
        self.client = ConnectionClient::default();
        (self.session, self.close_at) = (None, None);
        (self.telling, self.tell_at, self.tell_backoff) = (None, None, FIRST_BACKOFF);
        if let Some(held) = self.held.take() {
            held.end();
            // A candidacy ends when the program has led, unless the program waits for the next lease.
            self.standing = self.elected.as_ref().is_some_and(|elected| !elected.is_closed());
            self.belief.send_modify(|belief| belief.held = None);
        }
    }

    /// Hands over to another node. The connection closes when the node has heard of it.
    fn transfer(&mut self, to: NodeId, session: String) {
        self.end_lease();
        let connection = std::mem::replace(&mut self.connection, Connection::Idle);
        let (node, name) = (self.node.clone(), self.config.hold.name.clone());
        crate::spawn(async move {
            // If the node refuses, the end of the connection releases the lease.
            _ = node.resign(&name, &session, Some(to)).await;
            drop(connection);
        });
    }

    /// An error is the reason why the node refuses this program for good.
    fn on_step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Opened(Ok(stream)) => self.connection = Connection::Open(stream),
            Step::Event(Ok(HoldEvent::Waiting)) => self.backoff = FIRST_BACKOFF,
            Step::Event(Ok(HoldEvent::Leading { session, token, told, deadline, hand_over })) => {
                self.backoff = FIRST_BACKOFF;
                self.session = session.or(self.session.take());
                self.on_leading(token, told, deadline, hand_over)?;
            }
            Step::Opened(Err(Error::RefusedByNode { reason, .. })) => return Err(reason),
            Step::Opened(Err(_)) | Step::Event(Err(_) | Ok(HoldEvent::Lost(_))) => {
                self.close();
                self.retry_at = Some(self.clock.now() + self.backoff);
                self.backoff = (self.backoff * 2).min(LONGEST_BACKOFF);
            }
        }
        Ok(())
    }

    fn on_leading(&mut self, token: u64, told: Time, deadline: Time, hand_over: bool) -> Result<(), String> {
        let other_clock = |_| {
            "CLOCK_BOOTTIME of this program is not that of the node: run both in the same time namespace"
                .to_string()
        };
        let lease = self.client.on_leading(boottime(), told, token, deadline).map_err(other_clock)?;
        // None: the deadline has passed before this program read it. The next one comes with the next renewal.
        let Some(lease) = lease else { return Ok(()) };
        let held = match &self.held {
            Some(held) => {
                held.renew_with_token(Token::after(token - 1), lease.until);
                Arc::clone(held)
            }
            None => {
                let held = Arc::new(HeldLease::new(Token::after(token - 1), lease.until));
                self.held = Some(Arc::clone(&held));
                self.belief.send_modify(|belief| belief.held = Some(Arc::clone(&held)));
                if let Some(elected) = self.elected.take() {
                    // If the caller is gone, it has told the task to release the lease.
                    _ = elected.send(Arc::clone(&held));
                }
                held
            }
        };
        if hand_over {
            held.shorten(lease.until);
        }
        Ok(())
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.observer.abort();
        self.end_lease();
    }
}

/// Follows the leader that the node knows, for as long as the participation lasts.
async fn observe(node: LocalNode, name: String, belief: Arc<watch::Sender<Belief>>) {
    let publish = |leader, value| {
        belief.send_if_modified(|belief| {
            let changed = belief.leader != leader;
            if changed {
                (belief.leader, belief.since) = (leader, boottime());
            }
            let changed = changed || belief.value != value;
            belief.value = value;
            changed
        });
    };
    let mut backoff = FIRST_BACKOFF;
    loop {
        if let Ok(mut events) = node.exchange("GET", &election(&name, "observe"), None).await {
            while let Ok(Some(line)) = events.line().await {
                backoff = FIRST_BACKOFF;
                let Some(data) = line.strip_prefix("data:") else { continue };
                let event: Value = serde_json::from_str(data).unwrap_or_default();
                publish(leader(&event), value(&event));
            }
        }
        publish(None, None);
        tokio::time::sleep(std::time::Duration::from_nanos(backoff.as_nanos())).await;
        backoff = (backoff * 2).min(LONGEST_BACKOFF);
    }
}

#[cfg(test)]
mod tests;
