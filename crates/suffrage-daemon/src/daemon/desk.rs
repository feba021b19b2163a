//! One election at one daemon: a task that stands in it for whoever is first in [`Line`].
//!
//! A node has one candidacy in each election, and its clients share it, one after the other. Between two of
//! them the node hands over, to whoever waits anywhere, and asks again: each has a token of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use suffrage_core::{NodeId, Span, Time};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::{info, warn};

use super::line::{Answer, Held, Line, Refusal, Session, Step, Wish};
use suffrage_node::Error;
use suffrage_node::lease::{Belief, CandidateConfig, Node, Participation};

/// How long a desk that nobody needs stays open, so that who asks every now and then is answered at once.
const LINGER: Span = Span::from_millis(60_000);
/// How many elections clients can take part in or ask about at one daemon.
const MOST_DESKS: usize = 100_000;

/// What a client is told, and as whom it is known from now on.
pub(super) type Reply = Result<(Session, Answer), Refusal>;

/// What is asked of a desk.
pub(super) enum Request {
    Campaign {
        session: Option<Session>,
        wish: Wish,
        received: Time,
        wait: Span,
        reply: oneshot::Sender<Reply>,
    },
    Renew {
        session: Session,
        received: Time,
        reply: oneshot::Sender<Reply>,
    },
    Resign {
        session: Session,
        to: Option<NodeId>,
        reply: oneshot::Sender<Result<(), Refusal>>,
    },
    /// An operator wants the node to hand over: within which time it does; none if it does not lead.
    Recall {
        to: Option<NodeId>,
        reply: oneshot::Sender<Option<Span>>,
    },
    Watch {
        reply: oneshot::Sender<Watched>,
    },
    Stop,
}

/// What the node believes of an election. The desk stays open while this exists.
pub(super) struct Watched {
    pub(super) belief: watch::Receiver<Belief>,
    _open: Arc<()>,
}

/// All desks of a daemon.
#[derive(Clone)]
pub(super) struct Desks {
    node: Node,
    open: Arc<Mutex<Open>>,
}

#[derive(Default)]
struct Open {
    desks: BTreeMap<String, mpsc::UnboundedSender<Request>>,
    stopping: bool,
}

impl Desks {
    pub(super) fn new(node: Node) -> Desks {
        Desks { node, open: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Open> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the desk of this election, and opens it if need be.
    pub(super) async fn ask<R>(
        &self,
        name: &str,
        request: impl FnOnce(oneshot::Sender<R>) -> Request,
    ) -> Result<R, Error> {
        let (reply, answer) = oneshot::channel();
        self.send(name, request(reply))?;
        answer.await.map_err(|_| Error::Stopped)
    }

    /// Under one lock with a desk's closing: none is asked any more that is closed already.
    fn send(&self, name: &str, request: Request) -> Result<(), Error> {
        let mut open = self.lock();
        if let Some(desk) = open.desks.get(name) {
            return desk.send(request).map_err(|_| Error::Stopped);
        }
        if open.stopping {
            return Err(Error::Stopped);
        }
        if open.desks.len() >= MOST_DESKS {
            return Err(Error::TooManyElections(MOST_DESKS));
        }
        let (sender, inbox) = mpsc::unbounded_channel();
        // It is there until it is dropped, below.
        _ = sender.send(request);
        open.desks.insert(name.to_string(), sender);
        tokio::spawn(run(name.to_string(), self.clone(), inbox));
        Ok(())
    }

    /// Closes all desks: as soon as nobody leads any more who was promised to.
    pub(super) async fn stop(&self) {
        let desks: Vec<_> = {
            let mut open = self.lock();
            open.stopping = true;
            open.desks.values().cloned().collect()
        };
        for desk in &desks {
            // One that is gone has stopped.
            _ = desk.send(Request::Stop);
        }
        for desk in desks {
            desk.closed().await;
        }
    }

    /// Whether nobody comes to lead here any more.
    pub(super) fn is_stopping(&self) -> bool {
        self.lock().stopping
    }

    /// A desk that nobody needs is closed, unless somebody has just asked it something.
    fn close(&self, name: &str, inbox: &mpsc::UnboundedReceiver<Request>) -> bool {
        let mut open = self.lock();
        let closes = inbox.is_empty();
        if closes {
            open.desks.remove(name);
        }
        closes
    }
}

async fn run(name: String, desks: Desks, inbox: mpsc::UnboundedReceiver<Request>) {
    // The name was looked at before, and otherwise only a node that has stopped refuses.
    let watch = match desks.node.observe(&name).await {
        Ok(watch) => watch,
        Err(error) => {
            warn!(election = name, "cannot take part: {error}");
            desks.lock().desks.remove(&name);
            return;
        }
    };
    let line = Line::new(desks.node.settings().drift);
    let (used, belief) = (desks.node.clock().now(), watch.belief());
    let desk = Desk {
        name,
        desks,
        inbox,
        belief,
        watch,
        part: None,
        line,
        waiting: BTreeMap::new(),
        used,
        users: Arc::new(()),
        stopping: false,
        known: None,
    };
    desk.run().await;
}

struct Desk {
    name: String,
    desks: Desks,
    inbox: mpsc::UnboundedReceiver<Request>,
    belief: watch::Receiver<Belief>,
    /// Observes, as long as the desk is open.
    watch: Participation,
    /// Stands, with leases of this length.
    part: Option<(Participation, Span)>,
    line: Line,
    waiting: BTreeMap<Session, oneshot::Sender<Reply>>,
    /// When it was last needed.
    used: Time,
    users: Arc<()>,
    stopping: bool,
    /// Who was last logged to lead.
    known: Option<(NodeId, u64)>,
}

impl Desk {
    async fn run(mut self) {
        loop {
            if let Err(error) = self.settle().await {
                warn!(election = self.name, "cannot stand: {error}");
                break;
            }
            if self.stopping && self.line.is_empty() {
                break;
            }
            let idle = self.line.is_empty() && Arc::strong_count(&self.users) == 1;
            let now = self.now();
            if !idle {
                self.used = now;
            }
            if now >= self.used + LINGER && self.desks.close(&self.name, &self.inbox) {
                return;
            }
            let due = self.line.next_due().min(now.max(self.used) + LINGER);
            tokio::select! {
                request = self.inbox.recv() => match request {
                    Some(request) => self.serve(request),
                    None => break,
                },
                changed = self.belief.changed() => if changed.is_err() { break },
                () = self.desks.node.clock().sleep_until(due) => {}
            }
        }
        self.desks.lock().desks.remove(&self.name);
    }

    fn now(&self) -> Time {
        self.watch.node().clock().now()
    }

    /// The lease that the node holds, while it stands.
    fn lease(&self) -> Option<Held> {
        let belief = self.belief.borrow();
        let lease = belief.held.as_ref()?;
        let held = Held { until: lease.valid_until(), token: lease.token().number() };
        (self.now() < held.until).then_some(held)
    }

    fn serve(&mut self, request: Request) {
        let now = self.now();
        self.used = now;
        // Who is not there any more to be answered has asked all the same.
        match request {
            Request::Campaign { session, wish, received, wait, reply } => {
                self.campaign(now, session, wish, received, wait, reply);
            }
            Request::Renew { session, received, reply } => {
                let renewed = self.line.renew(now, received, session, self.lease());
                _ = reply.send(renewed.map(|answer| (session, answer)));
            }
            Request::Resign { session, to, reply } => {
                self.waiting.remove(&session);
                _ = reply.send(self.line.resign(session, to));
            }
            Request::Recall { to, reply } => {
                let within = match (self.line.recall(now, to), self.lease()) {
                    (None, Some(_)) => {
                        self.release(to);
                        Some(Span::ZERO)
                    }
                    (within, _) => within,
                };
                _ = reply.send(within);
            }
            Request::Watch { reply } => {
                let belief = self.watch.belief();
                _ = reply.send(Watched { belief, _open: Arc::clone(&self.users) });
            }
            Request::Stop => {
                self.stopping = true;
                let mut answers = Vec::new();
                self.line.stop(now, &mut answers);
                self.answer(answers);
            }
        }
    }

    fn campaign(
        &mut self,
        now: Time,
        session: Option<Session>,
        wish: Wish,
        received: Time,
        wait: Span,
        reply: oneshot::Sender<Reply>,
    ) {
        let known = match session {
            Some(session) => (session, true),
            None => {
                let mut random = [0; 16];
                if getrandom::fill(&mut random).is_err() {
                    // Without chance there is no session; the caller hears that the daemon cannot.
                    return;
                }
                (Session(u128::from_le_bytes(random)), false)
            }
        };
        let (session, _) = known;
        let refused = if self.line.is_held_by(session) {
            // It leads already: its answer may have been lost.
            Some(self.line.renew(now, received, session, self.lease()).map(|answer| (session, answer)))
        } else {
            self.line.campaign(now, received, known, wish, wait).err().map(Err)
        };
        match refused {
            Some(answer) => _ = reply.send(answer),
            None => {
                if let Some(earlier) = self.waiting.insert(session, reply) {
                    _ = earlier.send(Ok((session, Answer::Superseded)));
                }
            }
        }
    }

    /// Brings the node in step with those in line.
    async fn settle(&mut self) -> Result<(), Error> {
        self.log();
        loop {
            let mut answers = Vec::new();
            let (now, lease) = (self.now(), self.lease());
            let step = self.line.settle(now, lease, &mut answers);
            self.answer(answers);
            match step {
                Step::Rest => break,
                Step::Release(to) => self.release(to),
                // A lease of another length was meant for somebody who has left the line.
                Step::Offer(wish) if self.part.as_ref().is_none_or(|(_, ttl)| *ttl != wish.ttl) => {
                    self.release(None);
                }
                Step::Offer(wish) => self.offer(wish).await?,
            }
        }
        self.stand().await
    }

    /// Gives the lease to the first in line, once nothing but time can end it: a leader that is asked to hand
    /// over to a better one does so at once, and a client of ours would not know.
    async fn offer(&mut self, wish: Wish) -> Result<(), Error> {
        let Some((part, _)) = &self.part else { return Ok(()) };
        let secured = part.pin().await?.map(|lease| lease.token.number());
        let Some(lease) = self.lease().filter(|lease| secured == Some(lease.token)) else { return Ok(()) };
        let now = self.now();
        if let Some((session, answer)) = self.line.grant(now, lease) {
            let told = self.waiting.remove(&session).map(|reply| reply.send(Ok((session, answer))));
            if !matches!(told, Some(Ok(()))) {
                self.line.undelivered(now, wish);
            }
        }
        Ok(())
    }

    fn answer(&mut self, answers: Vec<(Session, Answer)>) {
        for (session, answer) in answers {
            let told = self.waiting.remove(&session).map(|reply| reply.send(Ok((session, answer))));
            if !matches!(told, Some(Ok(()))) {
                self.line.unheard(session);
            }
        }
    }

    /// Hands over. Nobody here leads by the old lease any more before anybody is told.
    fn release(&mut self, to: Option<NodeId>) {
        if let Some(held) = &self.belief.borrow().held {
            held.end();
        }
        match (&self.part, to) {
            (Some((part, _)), Some(to)) if to != part.node().id() => part.transfer(to),
            (Some((part, _)), _) => part.withdraw(),
            (None, _) => {}
        }
    }

    /// Asks to lead for the first in line, or no longer if there is none.
    async fn stand(&mut self) -> Result<(), Error> {
        let Some(wish) = self.line.wish() else {
            if !self.line.is_held()
                && let Some((part, _)) = &self.part
            {
                part.withdraw();
            }
            return Ok(());
        };
        if self.part.as_ref().is_none_or(|(_, ttl)| *ttl != wish.ttl) {
            // Only once it is known to lead no longer; that is news, which comes at once.
            if self.belief.borrow().held.is_some() {
                return Ok(());
            }
            self.part = None;
            // A client does not die with the daemon: the one before this may have promised it the election.
            let config = CandidateConfig {
                ttl: wish.ttl,
                attribute: wish.rank,
                wait_out_previous_holder: true,
                ..CandidateConfig::default()
            };
            let part = self.desks.node.join(&self.name, config).await?;
            self.part = Some((part, wish.ttl));
        }
        if let Some((part, _)) = &self.part
            && self.lease().is_none()
        {
            part.set_attribute(wish.rank);
            part.campaign();
        }
        Ok(())
    }

    fn log(&mut self) {
        let leader = self.belief.borrow_and_update().leader.map(|(node, token)| (node, token.number()));
        if leader == self.known {
            return;
        }
        self.known = leader;
        match leader {
            Some((leader, token)) => info!(election = self.name, leader = leader.0, token, "a leader"),
            None => info!(election = self.name, "no leader"),
        }
    }
}
