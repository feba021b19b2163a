//! A member of a world that is a node with clients: the wire's [`SessionEngine`], whose requests and replies are
//! messages of the world.
//!
//! The node announces no leadership of its own, because it leads for clients only. It follows the client that says that
//! it leads.

use suffrage_core::{Announcement, Context, Effects, NodeId, Process, Span, Time, forward_effects};

use super::clients::KnownLeaders;
use super::message::SessionMessage;
use super::requests::ClientRequests;
use super::values::ValueAudit;
use super::{QuorumLease, name};
use suffrage_lease::Message;
use suffrage_lease::Saved;
use suffrage_lease::sessions::{Arrival, RequestId, SessionEngine, SessionId};
use suffrage_lease::{Action, Command, Engine, Timer};

/// For how many lengths of a lease a stopped node accepts no clients.
const LEASES_STOPPED: u64 = 3;

/// A node with clients.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Server {
    engine: SessionEngine,
    ttl: Span,
    next_request: u64,
    requests: ClientRequests,
    /// The leaders that the node has heard of.
    known_leaders: KnownLeaders,
    /// When the engine is due.
    engine_due: Option<Time>,
    /// When a stopped node accepts clients again.
    resume_at: Option<Time>,
    armed: Option<Time>,
    pub(super) values: ValueAudit,
}

impl Server {
    pub(super) fn new(engine: SessionEngine, elections: usize, ttl: Span) -> Server {
        Server {
            engine,
            ttl,
            next_request: 0,
            requests: ClientRequests::default(),
            known_leaders: KnownLeaders::new(elections, ttl),
            engine_due: None,
            resume_at: None,
            armed: None,
            values: ValueAudit::new(elections, true),
        }
    }

    pub(super) fn engine(&self) -> &Engine {
        self.engine.engine()
    }

    /// Hands one input to the engine, and sends the replies.
    pub(super) fn input(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>),
    ) {
        self.input_engine(cx, input);
        while self.send_replies(cx) {}
        self.arm(cx);
    }

    fn input_engine(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>),
    ) {
        let (now, view, delay) = (cx.now(), cx.view(), cx.delay_bound());
        let mut relay = Relay { cx, due: &mut self.engine_due };
        input(&mut self.engine, &mut Context::new(now, view, delay, &mut relay));
        self.engine.take_membership_changes();
        self.values.observe(now, self.engine.engine());
    }

    /// Sends the pending replies, except to clients that are known to be gone. True if there were any.
    fn send_replies(&mut self, cx: &mut Context<'_, QuorumLease>) -> bool {
        let replies = self.engine.take_replies();
        let any = !replies.is_empty();
        for (request, outcome) in replies {
            if let Some(name) = self.requests.reply(cx, request, outcome) {
                self.input_engine(cx, |engine, cx| engine.on_reply_undelivered(cx, name, request));
            }
        }
        any
    }

    pub(super) fn on_session(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        from: NodeId,
        election: usize,
        message: SessionMessage,
    ) {
        match message {
            SessionMessage::Request { number, request } => {
                let id = RequestId(self.next_request);
                self.next_request += 1;
                self.requests.insert(id, (from, number), name(election).hash());
                let rng = cx.rng();
                let new_session = SessionId(u128::from(rng.bits()) << 64 | u128::from(rng.bits()));
                let arrival = Arrival { request: id, received: cx.now(), new_session };
                self.input(cx, |engine, cx| engine.on_request(cx, arrival, &name(election), request));
            }
            SessionMessage::HangUp { number } => {
                for (request, name) in self.requests.hang_up(cx, from, number) {
                    self.input(cx, |engine, cx| engine.on_hang_up(cx, name, request));
                }
            }
            SessionMessage::Leading { token } => {
                self.known_leaders.on_leading(cx, election, from, token);
                self.arm(cx);
            }
            SessionMessage::Reply { .. } => {}
        }
    }

    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, QuorumLease>) {
        self.armed = None;
        if self.resume_at.take_if(|when| *when <= cx.now()).is_some() {
            self.engine.resume_sessions();
        }
        if self.engine_due.is_some_and(|due| due <= cx.now()) {
            self.engine_due = None;
            self.input(cx, |engine, cx| engine.on_timer(cx, Timer));
        }
        self.known_leaders.on_due(cx);
        self.arm(cx);
    }

    /// On `leave` a node stops like a daemon: promises to clients are kept.
    pub(super) fn on_command(&mut self, cx: &mut Context<'_, QuorumLease>, command: Command) {
        match command.action {
            Action::Leave => {
                self.resume_at = Some(cx.now() + self.ttl * LEASES_STOPPED);
                self.input(cx, |engine, cx| engine.stop_sessions(cx));
            }
            // No application of the node's own takes part.
            Action::Join(_) => {}
            _ => self.input(cx, |engine, cx| engine.on_command(cx, command)),
        }
    }

    fn arm(&mut self, cx: &mut Context<'_, QuorumLease>) {
        let known_leaders = Some(self.known_leaders.next_due()).filter(|&due| due < Time::MAX);
        let due = [self.engine_due, self.resume_at, known_leaders].into_iter().flatten().min();
        if self.armed != due {
            match due {
                Some(due) => cx.set_timer(Timer, due.since(cx.now())),
                None => cx.cancel_timer(Timer),
            }
            self.armed = due;
        }
    }
}

/// Forwards the effects of the engine, except announcements: clients announce.
struct Relay<'e, 'v> {
    cx: &'e mut Context<'v, QuorumLease>,
    due: &'e mut Option<Time>,
}

impl Effects<SessionEngine> for Relay<'_, '_> {
    forward_effects!(cx: rng, send(Message), multicast(Message), save(Saved), begin_save(Saved), suspect, restore);
    fn set_timer(&mut self, _: Timer, after: Span) {
        *self.due = Some(self.cx.now() + after);
    }
    fn cancel_timer(&mut self, _: Timer) {
        *self.due = None;
    }
    fn announce(&mut self, _: Announcement) {}
    fn lead_until(&mut self, _: Time) {}
    fn announce_in(&mut self, _: usize, _: Announcement) {}
    fn lead_until_in(&mut self, _: usize, _: Time) {}
}
