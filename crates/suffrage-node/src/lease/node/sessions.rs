//! Sessions of clients: requests to the task, and its replies.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

use suffrage_core::Time;
use suffrage_lease::sessions::connection::{ConnectionEnd, ConnectionState};
use suffrage_lease::sessions::{
    Arrival, LeaseRequest, RequestId, SessionError, SessionId, SessionOutcome, SessionReply, SessionRequest,
};
use suffrage_lease::{ElectionName, Name, Value};
use suffrage_net::Transport;
use tokio::sync::{oneshot, watch};

use super::task::Task;
use super::{Command, Node};
use crate::Error;
use crate::clock::Clock;

/// A command of a handle about sessions.
pub(super) enum SessionCommand {
    Request {
        arrival: Arrival,
        election: ElectionName,
        request: SessionRequest,
        reply: oneshot::Sender<SessionOutcome>,
    },
    /// The client is gone and has not read the reply.
    HangUp { name: Name, request: RequestId },
    /// A client asks to lead for as long as its connection stays open.
    Hold {
        arrival: Arrival,
        election: ElectionName,
        request: SessionRequest,
        states: watch::Sender<HoldState>,
    },
    /// The connection of a client has ended.
    End { name: Name, request: RequestId, end: ConnectionEnd },
    /// No session may begin to lead any more. `done` is sent when none leads.
    Stop { done: oneshot::Sender<()> },
}

/// The open requests.
#[derive(Default)]
pub(super) struct Sessions {
    open: BTreeMap<RequestId, (Name, oneshot::Sender<SessionOutcome>)>,
    /// The connections that are open.
    connections: BTreeMap<RequestId, watch::Sender<HoldState>>,
    stopping: Vec<oneshot::Sender<()>>,
}

/// A request that waits for its reply. If it is dropped before, the node learns that the client is gone.
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
            // The sessions end with the task.
            _ = self.node.commands.send(Command::Session(hang_up));
        }
    }
}

/// The state of a session by connection, as its connection sees it.
pub type HoldState = Option<Result<ConnectionState, SessionError>>;

/// A session by connection. Its driver tells the client each state, and the node how the connection has ended. A dropped
/// holding is a [broken](ConnectionEnd::Broken) connection.
#[derive(Debug)]
pub struct Holding {
    node: Node,
    name: Name,
    request: RequestId,
    states: watch::Receiver<HoldState>,
    end: ConnectionEnd,
}

impl Holding {
    /// The states: none before the first, and an error if the session was refused. A later state replaces an earlier one
    /// that was not read. The sender ends with the session and with the node.
    pub fn states(&mut self) -> &mut watch::Receiver<HoldState> {
        &mut self.states
    }

    /// The connection has ended.
    pub fn end(mut self, end: ConnectionEnd) {
        self.end = end;
    }
}

impl Drop for Holding {
    fn drop(&mut self) {
        let Holding { name, request, end, .. } = *self;
        // The sessions end with the task.
        _ = self.node.commands.send(Command::Session(SessionCommand::End { name, request, end }));
    }
}

/// Random ids of sessions. The system is asked for many at once: a call for each would take longer than the rest of a request.
#[derive(Default)]
pub(super) struct SessionIds(Mutex<Vec<SessionId>>);

impl SessionIds {
    /// The number of ids that are drawn at once.
    const BATCH: usize = 32;

    /// An id that nobody can guess.
    fn next(&self) -> Result<SessionId, Error> {
        let mut ids = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if ids.is_empty() {
            let mut random = [[0; 16]; SessionIds::BATCH];
            getrandom::fill(random.as_flattened_mut())?;
            ids.extend(random.map(|random| SessionId(u128::from_le_bytes(random))));
        }
        Ok(ids.pop().expect("it was filled"))
    }
}

/// The ids are secret.
impl fmt::Debug for SessionIds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SessionIds")
    }
}

impl Node {
    /// Leads for a client of this machine for as long as its connection stays open, with this value.
    pub fn hold(&self, election: &str, lease: LeaseRequest, value: Option<Value>) -> Result<Holding, Error> {
        let election = ElectionName::new(election)?;
        let request = RequestId(self.shared.requests.fetch_add(1, Ordering::Relaxed));
        let arrival =
            Arrival { request, received: self.clock().now(), new_session: self.shared.session_ids.next()? };
        let (states, receiver) = watch::channel(None);
        let (node, name, end) = (self.clone(), election.hash(), ConnectionEnd::Broken);
        let request_body = SessionRequest::Hold { lease, value };
        let command = SessionCommand::Hold { arrival, election, request: request_body, states };
        self.commands.send(Command::Session(command)).map_err(|_| Error::Stopped)?;
        Ok(Holding { node, name, request, states: receiver, end })
    }

    /// Passes a client's request to the node. `received` is a time of the node's clock, at which the client had sent
    /// the request and the node had not processed it yet. Dropping the future tells the node that the client hung up.
    pub async fn session_request(
        &self,
        election: &str,
        request: SessionRequest,
        received: Time,
    ) -> Result<SessionOutcome, Error> {
        let election = ElectionName::new(election)?;
        let new_session = self.shared.session_ids.next()?;
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

    /// Lets no session begin to lead any more, and waits until none leads. Sessions that lead keep their leases.
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

impl<T: Transport, C: Clock> Task<T, C> {
    pub(super) fn on_session_command(&mut self, now: Time, command: SessionCommand) {
        match command {
            SessionCommand::Request { arrival, election, request, reply } => {
                self.sessions.open.insert(arrival.request, (election.hash(), reply));
                self.note_grant(now, election.hash());
                self.input(now, |node, cx| node.on_request(cx, arrival, &election, request));
                self.forget_leader(now, election.hash());
            }
            SessionCommand::HangUp { name, request } => {
                self.sessions.open.remove(&request);
                self.input(now, |node, cx| node.on_reply_undelivered(cx, name, request));
            }
            SessionCommand::Hold { arrival, election, request, states } => {
                self.sessions.connections.insert(arrival.request, states);
                self.note_grant(now, election.hash());
                self.input(now, |node, cx| node.on_request(cx, arrival, &election, request));
                self.forget_leader(now, election.hash());
            }
            SessionCommand::End { name, request, end } => {
                self.sessions.connections.remove(&request);
                self.input(now, |node, cx| node.on_connection_end(cx, name, request, end));
            }
            SessionCommand::Stop { done } => {
                self.sessions.stopping.push(done);
                self.input(now, |node, cx| node.stop_sessions(cx));
            }
        }
    }

    /// Sends the replies of the engine. The state that they depend on is saved. An undelivered reply may change state
    /// that is not saved yet.
    pub(super) fn reply_to_clients(&mut self) {
        for (request, outcome) in self.node.take_replies() {
            if let Some(states) = self.sessions.connections.get(&request) {
                let state = match outcome {
                    Ok(SessionReply::Connection(state)) => Ok(state),
                    Ok(_) => continue,
                    Err(error) => Err(error),
                };
                states.send_replace(Some(state));
                if matches!(state, Err(_) | Ok(ConnectionState::Ended(_))) {
                    self.sessions.connections.remove(&request);
                }
                continue;
            }
            let Some((name, reply)) = self.sessions.open.remove(&request) else { continue };
            if reply.send(outcome).is_err() {
                let now = self.clock.now();
                self.input(now, |node, cx| node.on_reply_undelivered(cx, name, request));
            }
        }
        if self.node.broker().is_stopped() {
            // The caller may be gone.
            self.sessions.stopping.drain(..).for_each(|done| _ = done.send(()));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn ids_of_sessions_are_all_different_and_not_shown() {
        let ids = SessionIds::default();
        let drawn: BTreeSet<u128> = (0..SessionIds::BATCH * 3).map(|_| ids.next().unwrap().0).collect();
        assert_eq!(drawn.len(), SessionIds::BATCH * 3);
        assert_eq!(format!("{ids:?}"), "SessionIds");
    }
}
