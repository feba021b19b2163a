//! What the rest of a program has of a running process.

use std::fmt;

use suffrage_core::{Announcement, Attribute, Command, NodeId, Process, Roster, Time};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;

use crate::Error;

/// What a process says it believes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Belief {
    /// What it announced last. [`Undecided`](Announcement::Undecided) before it has announced anything.
    pub announcement: Announcement,
    /// If it leads by a lease: the moment of its own clock at which it no longer does.
    pub lead_until: Option<Time>,
    /// When it announced that, by its own clock.
    pub since: Time,
}

impl Belief {
    /// Who leads, as far as it knows.
    pub fn leader(&self) -> Option<NodeId> {
        self.announcement.leader()
    }

    /// Whether this node itself, which is `me`, may act as the leader when its clock shows `now`.
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

/// Something that happened at a process, by its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It said what it believes.
    Announced {
        /// When.
        at: Time,
        /// What.
        announcement: Announcement,
    },
    /// Its failure detector takes a peer for failed.
    Suspected {
        /// When.
        at: Time,
        /// Whom.
        peer: NodeId,
    },
    /// Its failure detector does not any more.
    Restored {
        /// When.
        at: Time,
        /// Whom.
        peer: NodeId,
    },
}

/// What a running process is asked to do.
pub(super) enum Order<P> {
    Stop,
    Command(Command),
    Suspect(NodeId),
    Restore(NodeId),
    Attribute(NodeId, Attribute),
    Roster(Roster),
    Inspect(Look<P>),
}

type Look<P> = Box<dyn FnOnce(&P, Time) + Send>;

/// What the rest of a program has of a running process. Without it, the process stops, as if it had crashed.
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

    /// Who it is.
    pub fn me(&self) -> NodeId {
        self.me
    }

    /// What it believes now.
    pub fn belief(&self) -> Belief {
        *self.beliefs.borrow()
    }

    /// What it believes, now and whenever that changes. Who is slow sees the latest.
    pub fn beliefs(&self) -> watch::Receiver<Belief> {
        self.beliefs.clone()
    }

    /// What happens at it from now on, one by one. Who is very slow misses some, and is told.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.events.subscribe()
    }

    async fn order(&self, order: Order<P>) -> Result<(), Error> {
        self.orders.send(order).await.map_err(|_| Error::Stopped)
    }

    /// Asks it for something.
    pub async fn command(&self, command: Command) -> Result<(), Error> {
        self.order(Order::Command(command)).await
    }

    /// Tells it, as a failure detector from outside, that a peer has failed.
    pub async fn suspect(&self, peer: NodeId) -> Result<(), Error> {
        self.order(Order::Suspect(peer)).await
    }

    /// Tells it, as a failure detector from outside, that a peer is there after all.
    pub async fn restore(&self, peer: NodeId) -> Result<(), Error> {
        self.order(Order::Restore(peer)).await
    }

    /// Changes how good a leader somebody is taken to be, here.
    pub async fn set_attribute(&self, id: NodeId, attribute: Attribute) -> Result<(), Error> {
        self.order(Order::Attribute(id, attribute)).await
    }

    /// Changes the group, of which it must still be a member.
    pub async fn set_roster(&self, roster: Roster) -> Result<(), Error> {
        if roster.slot(self.me).is_none() {
            return Err(Error::NotAMember(self.me));
        }
        self.order(Order::Roster(roster)).await
    }

    /// Stops it, without a word to anybody, and returns it as it was; or why it had stopped before.
    pub async fn stop(self) -> Result<P, Error> {
        // If it is gone already, the task knows why.
        _ = self.orders.send(Order::Stop).await;
        self.ended().await
    }

    /// Waits until it stops by itself, and tells why.
    pub async fn ended(self) -> Result<P, Error> {
        match self.task.await {
            Ok(ended) => ended,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Err(_) => Err(Error::Stopped),
        }
    }
}

impl<P: Process> Handle<P> {
    /// Looks at it between two inputs, and at its clock.
    pub async fn inspect<R, F>(&self, look: F) -> Result<R, Error>
    where
        R: Send + 'static,
        F: FnOnce(&P, Time) -> R + Send + 'static,
    {
        let (answer, seen) = oneshot::channel();
        // Who asked may have given up.
        let look = move |process: &P, now: Time| _ = answer.send(look(process, now));
        self.order(Order::Inspect(Box::new(look))).await?;
        seen.await.map_err(|_| Error::Stopped)
    }
}
