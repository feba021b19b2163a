//! Clients of a node: requests into the task, and replies out of it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use suffrage_core::Time;
use suffrage_lease::sessions::{Arrival, RequestId, SessionId, SessionOutcome, SessionRequest};
use suffrage_lease::{ElectionName, Name, Saved};
use suffrage_net::Transport;
use tokio::sync::oneshot;

use super::task::Task;
use super::{Command, Node};
use crate::Error;
use crate::clock::Clock;
use crate::storage::Storage;

/// What the handles ask of the task about clients.
pub(super) enum SessionCommand {
    Request {
        arrival: Arrival,
        election: ElectionName,
        request: SessionRequest,
        reply: oneshot::Sender<SessionOutcome>,
    },
    /// Nobody waits for the answer any more, nor has anybody read it.
    HangUp { name: Name, request: RequestId },
    /// No client is to lead any more: to be told when none does.
    Stop { done: oneshot::Sender<()> },
}

/// The requests that are not answered yet.
#[derive(Default)]
pub(super) struct Sessions {
    open: BTreeMap<RequestId, (Name, oneshot::Sender<SessionOutcome>)>,
    stopping: Vec<oneshot::Sender<()>>,
}

/// Tells the node that its client is gone, if it is dropped before the reply was read.
struct Waiting<'n> {
    node: &'n Node,
    name: Name,
    request: RequestId,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            let hang_up = SessionCommand::HangUp { name: self.name, request: self.request };
            // If the task is gone, so are its clients.
            _ = self.node.commands.send(Command::Session(hang_up));
        }
    }
}

impl Node {
    /// Hands a client's request to the node. `received` is a moment on the node's clock: when the request had come, or
    /// earlier, but not before the client sent it. A future that is dropped before it is ready tells the node that the
    /// client has hung up.
    pub async fn session_request(
        &self,
        election: &str,
        request: SessionRequest,
        received: Time,
    ) -> Result<SessionOutcome, Error> {
        let election = ElectionName::new(election)?;
        let mut random = [0; 16];
        getrandom::fill(&mut random)?;
        let new_session = SessionId(u128::from_le_bytes(random));
        let number = RequestId(self.shared.requests.fetch_add(1, Ordering::Relaxed));
        let mut waiting = Waiting { node: self, name: election.hash(), request: number, answered: false };
        let (reply, answer) = oneshot::channel();
        let arrival = Arrival { request: number, received, new_session };
        let command = SessionCommand::Request { arrival, election, request, reply };
        self.commands.send(Command::Session(command)).map_err(|_| Error::Stopped)?;
        let outcome = answer.await;
        waiting.answered = true;
        outcome.map_err(|_| Error::Stopped)
    }

    /// Has no client come to lead any more, and waits until none leads: each keeps what it was promised.
    pub async fn stop_sessions(&self) {
        self.shared.sessions_stop.store(true, Ordering::Relaxed);
        let (done, stopped) = oneshot::channel();
        if self.commands.send(Command::Session(SessionCommand::Stop { done })).is_ok() {
            // An error means that the task is gone.
            _ = stopped.await;
        }
    }

    /// Whether [`stop_sessions`](Node::stop_sessions) was called.
    pub fn sessions_are_stopping(&self) -> bool {
        self.shared.sessions_stop.load(Ordering::Relaxed)
    }
}

impl<T: Transport, C: Clock, D: Storage<Saved>> Task<T, C, D> {
    pub(super) fn obey_client(&mut self, now: Time, command: SessionCommand) {
        match command {
            SessionCommand::Request { arrival, election, request, reply } => {
                self.sessions.open.insert(arrival.request, (election.hash(), reply));
                self.input(now, |node, cx| node.on_request(cx, arrival, &election, request));
            }
            SessionCommand::HangUp { name, request } => {
                self.sessions.open.remove(&request);
                self.input(now, |node, cx| node.on_reply_undelivered(cx, name, request));
            }
            SessionCommand::Stop { done } => {
                self.sessions.stopping.push(done);
                self.input(now, |node, cx| node.stop_sessions(cx));
            }
        }
    }

    /// Sends the replies that there are, all of which rest on what is on the disk. What comes of a reply that nobody
    /// reads may rest on more.
    pub(super) fn reply_to_clients(&mut self) {
        for (request, outcome) in self.node.take_replies() {
            let Some((name, reply)) = self.sessions.open.remove(&request) else { continue };
            if reply.send(outcome).is_err() {
                let now = self.clock.now();
                self.input(now, |node, cx| node.on_reply_undelivered(cx, name, request));
            }
        }
        if self.node.broker().is_stopped() {
            // If nobody waits for it, nobody has to be told.
            self.sessions.stopping.drain(..).for_each(|done| _ = done.send(()));
        }
    }
}
