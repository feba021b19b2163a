//! A member of a world that is a node with an application: the engine, and the work that the application does while the
//! node leads.

use suffrage_core::{Announcement, Context, Effects, Process as _, Span, Time, forward_effects};

use super::values::ValueAudit;
use super::work::Work;
use super::{QuorumLease, name};
use suffrage_lease::Lease;
use suffrage_lease::Message;
use suffrage_lease::Saved;
use suffrage_lease::sessions::SessionEngine;
use suffrage_lease::{Action, CandidateConfig, Command, ElectionIndex, ElectionName, Timer};

/// A node, with the numbers of its engine's elections.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) engine: SessionEngine,
    /// The number of the election with each index, counted from 0.
    pub(super) numbers: Vec<usize>,
    /// Whether the node may stand.
    pub(super) stands: bool,
    /// The work of the application in each election.
    work: Vec<Work>,
    timers: Timers,
    pub(super) values: ValueAudit,
}

/// The timer of the world, which serves the engine and the application.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
struct Timers {
    /// When the engine is due.
    engine: Option<Time>,
    /// The moment for which the timer is set.
    armed: Option<Time>,
}

impl Node {
    pub(super) fn new(engine: SessionEngine, elections: usize, stands: bool) -> Node {
        let work = vec![Work::default(); elections];
        let values = ValueAudit::new(elections, false);
        Node { engine, numbers: Vec::new(), stands, work, timers: Timers::default(), values }
    }

    /// Hands one input to the engine.
    pub(super) fn input(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        input: impl FnOnce(&mut SessionEngine, &mut Context<'_, SessionEngine>),
    ) {
        let (now, view, delay) = (cx.now(), cx.view(), cx.delay_bound());
        let mut relay = Relay { cx, numbers: &self.numbers, work: &mut self.work, timers: &mut self.timers };
        input(&mut self.engine, &mut Context::new(now, view, delay, &mut relay));
        self.engine.take_membership_changes();
        self.values.observe(now, self.engine.engine());
        self.arm(cx);
    }

    pub(super) fn on_timer(&mut self, cx: &mut Context<'_, QuorumLease>, timer: Timer) {
        let now = cx.now();
        self.timers.armed = None;
        for election in 0..self.work.len() {
            if self.work[election].finish(cx, election) {
                self.release(cx, election);
            }
        }
        if self.timers.engine.take_if(|due| *due <= now).is_some() {
            self.input(cx, |engine, cx| engine.on_timer(cx, timer));
        }
        self.arm(cx);
    }

    /// The application has ended its work because it was asked to. If it stood before, it asks to lead again.
    fn release(&mut self, cx: &mut Context<'_, QuorumLease>, election: usize) {
        let engine = self.engine.engine();
        let state = self.index(election).and_then(|index| engine.election(index));
        let again = state.is_some_and(|state| state.stands_again());
        self.command(cx, Action::Release(None).in_election(name(election)));
        if again {
            self.command(cx, Action::Stand { once: false }.in_election(name(election)));
        }
    }

    /// The application ends its work in this election, or in all, before it releases the lease.
    pub(super) fn end_work(&mut self, election: Option<&ElectionName>) {
        for (number, work) in self.work.iter_mut().enumerate() {
            if election.is_none_or(|wanted| *wanted == name(number)) {
                work.end();
            }
        }
    }

    /// Sets the timer if the application is due before the engine.
    fn arm(&mut self, cx: &mut Context<'_, QuorumLease>) {
        let work = self.work.iter().filter_map(Work::due).min();
        let due = [self.timers.engine, work].into_iter().flatten().min();
        if self.timers.armed != due {
            match due {
                Some(due) => cx.set_timer(Timer, due.since(cx.now())),
                None => cx.cancel_timer(Timer),
            }
            self.timers.armed = due;
        }
    }

    fn command(&mut self, cx: &mut Context<'_, QuorumLease>, command: Command) {
        self.input(cx, |engine, cx| engine.on_command(cx, command));
    }

    /// Joins an election, unless the node has joined it already.
    pub(super) fn join(
        &mut self,
        cx: &mut Context<'_, QuorumLease>,
        election: usize,
        config: CandidateConfig,
    ) {
        let config = CandidateConfig { standing: config.standing && self.stands, ..config };
        let engine = self.engine.engine();
        let joined = self.index(election).and_then(|index| engine.election(index));
        if joined.is_none_or(|state| state.is_leaving()) {
            self.work[election].set_margin(config.stop_margin);
        }
        self.command(cx, Action::Join(Some(config)).in_election(name(election)));
        if let Some(index) = self.index(election) {
            if self.numbers.len() <= index.index() {
                self.numbers.resize(index.index() + 1, election);
            }
            self.numbers[index.index()] = election;
        }
    }

    pub(super) fn index(&self, election: usize) -> Option<ElectionIndex> {
        self.engine.engine().index_of(name(election).hash())
    }

    /// The lease that the node holds in an election, even if it has expired by the node's clock.
    pub(super) fn lease_at(&self, election: usize) -> Option<Lease> {
        self.engine.engine().lease(Time::ZERO, self.index(election)?)
    }
}

/// Forwards the effects of an engine, with the numbers of elections in place of their indices. What the world believes of
/// a leadership is the work of the application.
struct Relay<'e, 'v> {
    cx: &'e mut Context<'v, QuorumLease>,
    numbers: &'e [usize],
    work: &'e mut [Work],
    timers: &'e mut Timers,
}

impl Effects<SessionEngine> for Relay<'_, '_> {
    forward_effects!(cx: rng, send(Message), multicast(Message), save(Saved), begin_save(Saved), suspect, restore);
    fn set_timer(&mut self, timer: Timer, after: Span) {
        self.timers.engine = Some(self.cx.now() + after);
        self.timers.armed = self.timers.engine;
        self.cx.set_timer(timer, after);
    }
    fn cancel_timer(&mut self, timer: Timer) {
        (self.timers.engine, self.timers.armed) = (None, None);
        self.cx.cancel_timer(timer);
    }
    fn announce(&mut self, announcement: Announcement) {
        self.announce_in(0, announcement);
    }
    fn lead_until(&mut self, end: Time) {
        self.lead_until_in(0, end);
    }
    fn announce_in(&mut self, index: usize, announcement: Announcement) {
        let election = self.numbers[index];
        self.work[election].on_announcement(self.cx, election, announcement);
    }
    fn lead_until_in(&mut self, index: usize, end: Time) {
        let election = self.numbers[index];
        self.work[election].on_lease(self.cx, election, end);
    }
}
