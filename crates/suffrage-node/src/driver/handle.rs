//! The handle to a running process.

use std::fmt;

use suffrage_core::{Announcement, Attribute, Command, NodeId, Process, Roster, Time};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::Error;

/// The belief of a process about the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// The last announcement. [`Undecided`](Announcement::Undecided) before the first.
    pub announcement: Announcement,
    /// The end of the lease by the process's clock, if it leads by a lease.
    pub lead_until: Option<Time>,
    /// The time of the announcement by the process's clock.
    pub since: Time,
}

impl Belief {
    /// The leader, as the process knows it.
    pub fn leader(&self) -> Option<NodeId> {
        self.announcement.leader()
    }

    /// Whether the node `me` itself may act as the leader at `now` of its clock.
    pub fn leads(&self, me: NodeId, now: Time) -> bool {
        self.leader() == Some(me) && self.lead_until.is_none_or(|end| now < end)
    }

    pub(super) fn announce(&mut self, me: NodeId, announcement: Announcement, now: Time) {
        if self.announcement != announcement {
            self.since = now;
        }
        self.announcement = announcement;
        if announcement.leader() != Some(me) {
            self.lead_until = None;
        }
    }
}

/// An event of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The process announced its belief.
    Announced {
        /// The time by the process's clock.
        at: Time,
        /// The announcement.
        announcement: Announcement,
    },
    /// The failure detector of the process suspects a peer.
    Suspected {
        /// The time by the process's clock.
        at: Time,
        /// The peer.
        peer: NodeId,
    },
    /// The failure detector of the process no longer suspects a peer.
    Restored {
        /// The time by the process's clock.
        at: Time,
        /// The peer.
        peer: NodeId,
    },
}

/// An order of a handle.
pub(super) enum Order<P> {
    Stop,
    Command(Command),
    Suspect(NodeId),
    Restore(NodeId),
    Attribute(NodeId, Attribute),
    Roster(Roster),
    Inspect(Inspection<P>),
}

type Inspection<P> = Box<dyn FnOnce(&P, Time) + Send>;

/// A handle to a running process. Dropping it stops the process, as a crash would.
pub struct Handle<P> {
    me: NodeId,
    orders: mpsc::Sender<Order<P>>,
    beliefs: watch::Receiver<Belief>,
    events: broadcast::Sender<Event>,
    task: JoinHandle<Result<P, Error>>,
}

impl<P> fmt::Debug for Handle<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Handle").field("me", &self.me).field("belief", &self.belief()).finish_non_exhaustive()
    }
}

type Channels<P> = (mpsc::Sender<Order<P>>, watch::Receiver<Belief>, broadcast::Sender<Event>);

impl<P> Handle<P> {
    pub(super) fn new(
        me: NodeId,
        (orders, beliefs, events): Channels<P>,
        task: JoinHandle<Result<P, Error>>,
    ) -> Handle<P> {
        Handle { me, orders, beliefs, events, task }
    }

    /// The id of the process.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// The present belief.
    pub fn belief(&self) -> Belief {
        *self.beliefs.borrow()
    }

    /// The belief and its changes. A slow receiver sees the latest one.
    pub fn beliefs(&self) -> watch::Receiver<Belief> {
        self.beliefs.clone()
    }

    /// The events from now on. A receiver that lags too far behind misses events, and gets an error.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    async fn order(&self, order: Order<P>) -> Result<(), Error> {
        self.orders.send(order).await.map_err(|_| Error::Stopped)
    }

    /// Sends a command to the process.
    pub async fn command(&self, command: Command) -> Result<(), Error> {
        self.order(Order::Command(command)).await
    }

    /// Reports a suspicion of an external failure detector.
    pub async fn suspect(&self, peer: NodeId) -> Result<(), Error> {
        self.order(Order::Suspect(peer)).await
    }

    /// Withdraws a suspicion of an external failure detector.
    pub async fn restore(&self, peer: NodeId) -> Result<(), Error> {
        self.order(Order::Restore(peer)).await
    }

    /// Sets the rank of a member in this process's view.
    pub async fn set_attribute(&self, id: NodeId, attribute: Attribute) -> Result<(), Error> {
        self.order(Order::Attribute(id, attribute)).await
    }

    /// Changes the group. The process must remain a member.
    pub async fn set_roster(&self, roster: Roster) -> Result<(), Error> {
        if roster.slot(self.me).is_none() {
            return Err(Error::NotAMember(self.me));
        }
        self.order(Order::Roster(roster)).await
    }

    /// Stops the process without another message, and returns it. If it has stopped before, returns the cause.
    pub async fn stop(self) -> Result<P, Error> {
        // If the task has ended already, its result has the cause.
        _ = self.orders.send(Order::Stop).await;
        self.ended().await
    }

    /// Waits until the process stops, and returns it or the cause.
    pub async fn ended(self) -> Result<P, Error> {
        match self.task.await {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Stopped),
        }
    }
}

impl<P: Process> Handle<P> {
    /// Calls a function with the process and its time, between two inputs.
    pub async fn inspect<R, F>(&self, inspect: F) -> Result<R, Error>
    where
        R: Send + 'static,
        F: FnOnce(&P, Time) -> R + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        // The caller may be gone.
        let inspect = move |process: &P, now: Time| _ = reply.send(inspect(process, now));
        self.order(Order::Inspect(Box::new(inspect))).await?;
        answer.await.map_err(|_| Error::Stopped)
    }
}
