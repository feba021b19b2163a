//! A process of a machine: a client by connection in one election.

use std::collections::VecDeque;

use suffrage_core::{Announcement, Context, Span, Term, Time};

use super::super::message::MemberMessage;
use super::{Delivery, Host, QuorumLease, SessionMessage, name};
use suffrage_lease::sessions::connection::ConnectionClient;
use suffrage_lease::sessions::{RequestId, SessionId};

/// Something that the node tells a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Told {
    Waiting,
    Leading {
        session: SessionId,
        token: u64,
        /// When the node told it, by the clock of the process.
        told: Time,
        /// The deadline, by the clock of the process.
        deadline: Time,
        hand_over: bool,
    },
    /// The session has ended, or the connection.
    Ended,
}

/// A process.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct LocalProcess {
    pub(super) election: usize,
    /// The connection that the process has open.
    pub(super) connection: Option<RequestId>,
    client: ConnectionClient,
    session: Option<SessionId>,
    /// What has arrived and was not read: a process that is stopped reads nothing.
    inbox: VecDeque<Told>,
    /// When the process is started, or connects again.
    pub(super) start_at: Option<Time>,
    pub(super) stopped_until: Option<Time>,
    /// The number of the value that the process has as the leader. 0 if it has none.
    pub(super) value: u32,
}

impl LocalProcess {
    pub(super) fn new(election: usize, start_at: Time) -> LocalProcess {
        LocalProcess {
            election,
            connection: None,
            client: ConnectionClient::default(),
            session: None,
            inbox: VecDeque::new(),
            start_at: Some(start_at),
            stopped_until: None,
            value: 0,
        }
    }

    /// The token with which the process leads, even if its deadline has passed.
    pub(super) fn token(&self) -> Option<u64> {
        self.client.lease().map(|lease| lease.token)
    }

    pub(super) fn session(&self) -> Option<SessionId> {
        self.session
    }

    /// Whether the deadline has passed at this time of the process's clock.
    pub(super) fn is_over(&self, now: Time) -> bool {
        self.client.lease().is_some_and(|lease| lease.until <= now)
    }

    pub(super) fn is_running(&self, now: Time) -> bool {
        self.stopped_until.is_none_or(|until| until <= now)
    }

    /// When the deadline passes, by the process's clock.
    pub(super) fn due(&self) -> Option<Time> {
        self.client.lease().map(|lease| lease.until)
    }

    /// Something has arrived. True if it is of the present connection.
    pub(super) fn receive(&mut self, request: RequestId, told: Told) -> bool {
        let present = self.connection == Some(request);
        if present {
            self.inbox.push_back(told);
        }
        present
    }
}

impl Host {
    /// The process does what is due.
    pub(super) fn run_process(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize) {
        self.read(cx, place);
        let now = cx.now();
        if !self.processes[place].is_running(now) {
            return;
        }
        self.processes[place].stopped_until = None;
        if self.processes[place].start_at.take_if(|at| *at <= now).is_some() {
            let request = RequestId(self.number());
            self.processes[place].connection = Some(request);
            self.deliver(cx, self.blueprint.delay, Delivery::Hold { process: place, request });
        }
    }

    /// A process that runs reads what has arrived. A process whose deadline has passed then gives up.
    pub(super) fn read(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize) {
        if !self.processes[place].is_running(cx.now()) {
            return;
        }
        while let Some(told) = self.processes[place].inbox.pop_front() {
            self.on_told(cx, place, told);
        }
        if self.processes[place].is_over(self.process_clock(cx.now())) {
            self.close(cx, place, self.blueprint.delay * 4);
        }
    }

    fn on_told(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize, told: Told) {
        match told {
            Told::Waiting => {}
            Told::Leading { session, token, told, deadline, hand_over } => {
                let now = self.process_clock(cx.now());
                let process = &mut self.processes[place];
                let before = process.token();
                // A process that has resigned leads no more.
                if before.is_none() && process.session.is_some() {
                    return;
                }
                let lease = process.client.on_leading(now, told, token, deadline);
                let Some(lease) = lease.expect("a machine has one clock") else { return };
                process.session = Some(session);
                let election = process.election;
                if now < lease.until {
                    self.announce(cx, place, token, lease.until);
                    let leading = SessionMessage::Leading { token };
                    cx.multicast(MemberMessage::session(name(election).hash(), leading));
                }
                // Some processes ignore the request, and stop at the deadline.
                if hand_over && cx.rng().chance(0.6) {
                    self.close(cx, place, self.blueprint.lease.ttl);
                }
            }
            Told::Ended => {
                self.step_down(cx, place);
                let pause = self.blueprint.delay * 4;
                self.disconnect(cx, place, pause);
            }
        }
    }

    /// Announces that a process leads until this time of its clock. If another process of this machine believes that it
    /// leads, it announces that again.
    fn announce(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize, token: u64, until: Time) {
        let election = self.processes[place].election;
        self.known_leaders.forget(election);
        cx.lead_until_in(election, self.member_time(until));
        if self.announced[election] == Some(place) {
            return;
        }
        let now = self.process_clock(cx.now());
        let others = self.processes.iter().enumerate().filter(|(other, process)| {
            *other != place && process.election == election && !process.is_over(now)
        });
        let others: Vec<u64> = others.filter_map(|(_, process)| process.token()).collect();
        for token in [token].into_iter().chain(others) {
            cx.announce_in(election, Announcement::Elected { leader: cx.me(), term: Term(token) });
        }
        self.announced[election] = Some(place);
    }

    /// The process leads no more.
    pub(super) fn step_down(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize) {
        let process = &mut self.processes[place];
        process.client.on_end();
        let election = process.election;
        if self.announced[election].take_if(|announced| *announced == place).is_some() {
            cx.announce_in(election, Announcement::SteppedDown);
        }
    }

    /// The process closes its connection or dies, and comes back within this time. The kernel tells the node.
    pub(super) fn close(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize, within: Span) {
        self.step_down(cx, place);
        let election = self.processes[place].election;
        if let Some(request) = self.processes[place].connection {
            self.deliver(cx, self.blueprint.delay, Delivery::End { election, request });
        }
        self.disconnect(cx, place, within);
    }

    fn disconnect(&mut self, cx: &mut Context<'_, QuorumLease>, place: usize, within: Span) {
        let start_at = cx.now() + self.blueprint.delay + within.scale(cx.rng().unit());
        let LocalProcess { election, value, .. } = self.processes[place];
        self.processes[place] = LocalProcess { value, ..LocalProcess::new(election, start_at) };
    }
}
