//! A process, which is contender and mediator at once, in one election after another.

use super::contender::{Contender, ElectionContext, Progress};
use super::mediator::{Answer, Claim, Mediator, MediatorOutput};
use super::message::{Message, Timer};
use super::options::{Mode, Options, Tables};
use super::sync_mediator::{PendingRequest, SyncMediator};
use super::vector::Vector;
use suffrage_core::{Announcement, Command, Context, NodeId, Process, Span, Term};

/// The winner that a process follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Winner {
    /// The election.
    pub term: u32,
    /// The winner's random number: of two winners of one election, processes follow the greater.
    pub number: u64,
    /// The winner.
    pub id: NodeId,
}

/// The result of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// True if the contender won: "a process that has not received negative responses from any mediator".
    pub won: bool,
    /// True if the contender got into the second phase.
    pub finalist: bool,
    /// The last round of the first phase that the contender took part in.
    pub round: u8,
    /// The time in the first phase, in thousandths of tau.
    pub first_phase: u32,
    /// The time in the second phase, in thousandths of tau.
    pub second_phase: u32,
    /// The number of overlay edges of the contender's walks.
    pub hops: u64,
}

/// The mediator state of a process, from the first request on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum MediatorRole {
    Sync(SyncMediator),
    Async { vector: Vector, second: Mediator },
}

/// A process of `randomized` or `probabilistic-quorum`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    options: Options,
    /// The election that the process takes part in, from 1.
    term: u32,
    winner: Option<Winner>,
    record: Option<Record>,
    // State that few processes need at a time is boxed, so that a million processes fit into memory.
    contender: Option<Box<Contender>>,
    mediator_role: Option<Box<MediatorRole>>,
}

impl Member {
    pub(crate) fn new(options: &Options) -> Member {
        Member {
            options: *options,
            term: 0,
            winner: None,
            record: None,
            contender: None,
            mediator_role: None,
        }
    }

    /// The election that the process takes part in, from 1; zero before the first.
    pub fn term(&self) -> u32 {
        self.term
    }

    /// The winner that the process follows.
    pub fn winner(&self) -> Option<Winner> {
        self.winner
    }

    /// The contender state, while the process contends.
    pub fn contender(&self) -> Option<&Contender> {
        self.contender.as_deref()
    }

    /// The result of the process as a contender in the current election.
    pub fn record(&self) -> Option<Record> {
        self.record
    }

    /// The mediator of the asynchronous second phase; `None` before the first request.
    pub fn mediator(&self) -> Option<&Mediator> {
        match self.mediator_role.as_deref() {
            Some(MediatorRole::Async { second, .. }) => Some(second),
            _ => None,
        }
    }

    /// The mediator of the synchronous protocol; `None` before the first request.
    pub fn sync_mediator(&self) -> Option<&SyncMediator> {
        match self.mediator_role.as_deref() {
            Some(MediatorRole::Sync(sync_mediator)) => Some(sync_mediator),
            _ => None,
        }
    }

    /// The vector V of the asynchronous first phase; `None` before the first request.
    pub fn vector(&self) -> Option<&Vector> {
        match self.mediator_role.as_deref() {
            Some(MediatorRole::Async { vector, .. }) => Some(vector),
            _ => None,
        }
    }

    /// Returns whether the current election is over as far as the process knows.
    fn is_decided(&self) -> bool {
        self.winner.is_some_and(|winner| winner.term == self.term)
    }

    fn tau<P: Process>(&self, cx: &Context<'_, P>) -> Span {
        self.options.tau.unwrap_or(cx.delay_bound())
    }

    /// Moves to a later election.
    fn enter_election<P>(&mut self, cx: &mut Context<'_, P>, term: u32)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        (self.term, self.record) = (term, None);
        if self.contender.take().is_some() {
            cx.cancel_timer(Timer::Contender);
        }
        if self.mediator_role.take().is_some() {
            cx.cancel_timer(Timer::Mediator);
        }
    }

    pub(crate) fn on_command<P>(&mut self, cx: &mut Context<'_, P>, command: Command)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        // Leadership cannot be handed over: an application that wants another leader calls an election.
        if command == Command::Campaign && self.contender.is_none() {
            self.contend(cx);
        }
    }

    /// Contends in the current election, or in the next one if the current election is decided or the process has
    /// already contended in it.
    fn contend<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.term == 0 || self.record.is_some() || self.is_decided() {
            self.enter_election(cx, self.term.saturating_add(1));
        }
        let options = self.options;
        let election = ElectionContext { options: &options, term: self.term, tau: self.tau(cx) };
        let mut contender = Box::new(Contender::new(cx, &options));
        contender.begin(cx, election);
        self.contender = Some(contender);
    }

    pub(crate) fn on_suspect<P>(&mut self, cx: &mut Context<'_, P>, peer: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.winner.is_some_and(|winner| winner.id == peer) {
            cx.announce(Announcement::Undecided);
            // The election of the suspected winner stays decided: the next one is called.
            let term = self.winner.take().map_or(0, |winner| winner.term);
            if self.term == term {
                self.enter_election(cx, self.term.saturating_add(1));
            }
            if self.contender.is_none() {
                self.contend(cx);
            }
        }
    }

    /// Announces this process, if it is the winner, to a peer that was unreachable.
    pub(crate) fn on_restore<P>(&mut self, cx: &mut Context<'_, P>, peer: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if let Some(Winner { term, number, id }) = self.winner
            && id == cx.me()
        {
            cx.send(peer, Message::Elected { term, number });
        }
    }

    #[inline]
    pub(crate) fn on_message<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, message: Message)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let term = message.term();
        if term < self.term {
            return self.on_late_message(cx, from, &message);
        }
        if term > self.term {
            self.enter_election(cx, term);
        }
        match message {
            Message::Request { round, .. } => self.on_request(cx, from, round),
            Message::Req { number, .. } => self.on_final_request(cx, Claim { number, contender: from }),
            Message::Potw { .. } => self.mediate(cx, |mediator| mediator.on_potential_winner(from)),
            Message::Dec { .. } => self.on_decline(cx, from),
            Message::Elected { number, .. } => self.on_elected(cx, from, number),
            Message::Positive { .. }
            | Message::Negative { .. }
            | Message::Ack { .. }
            | Message::Nak { .. }
            | Message::PotwAck { .. } => self.on_answer(cx, from, &message),
        }
    }

    /// Handles a message of an earlier election: its sender learns the later one.
    fn on_late_message<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, message: &Message)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let term = self.term;
        match *message {
            Message::Request { round, .. } => cx.send(from, Message::Negative { term, round }),
            Message::Req { .. } | Message::Potw { .. } => cx.send(from, Message::Nak { term }),
            _ => {}
        }
    }

    fn on_answer<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, answer: &Message)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let view = cx.view();
        let Some(contender) = self.contender.as_deref_mut() else { return };
        let Some(slot) = view.slot_of(from) else { return };
        let (slot, group, options) = (slot as u32, view.group_len(), self.options);
        let tau = options.tau.unwrap_or(cx.delay_bound());
        let election = ElectionContext { options: &options, term: self.term, tau };
        let progress = match *answer {
            Message::Positive { round, .. } => contender.on_positive(cx, election, slot, round),
            Message::Negative { round, .. } => contender.on_negative(election, slot, round),
            Message::Ack { .. } => contender.on_ack(cx, election, slot),
            Message::Nak { .. } => contender.on_nak(slot),
            Message::PotwAck { .. } => contender.on_potw_ack(group, slot),
            _ => Progress::Contending,
        };
        self.conclude(cx, election, progress);
    }

    /// Records the result of the contender.
    fn conclude<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>, progress: Progress)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let won = match progress {
            Progress::Contending => return,
            Progress::Lost(_) => false,
            Progress::Won => true,
        };
        let Some(contender) = self.contender.take() else { return };
        cx.cancel_timer(Timer::Contender);
        let finalist = contender.is_finalist();
        let ((began, second), now) = (contender.times(), cx.now());
        let thousandths =
            |span: Span| (span.as_nanos() as f64 * 1e3 / election.tau.as_nanos() as f64).round() as u32;
        self.record = Some(Record {
            won,
            finalist,
            round: contender.round(),
            first_phase: thousandths(if finalist { second.since(began) } else { now.since(began) }),
            second_phase: thousandths(if finalist { now.since(second) } else { Span::ZERO }),
            hops: contender.hops(),
        });
        if let Progress::Lost(refused_by) = progress {
            return contender.drop_out(cx, election, refused_by);
        }
        let (term, number, id) = (self.term, contender.number(), cx.me());
        cx.multicast(Message::Elected { term, number });
        self.follow_winner(cx, Winner { term, number, id });
    }

    fn follow_winner<P: Process>(&mut self, cx: &mut Context<'_, P>, winner: Winner) {
        if self.winner < Some(winner) {
            self.winner = Some(winner);
            cx.announce(Announcement::Elected { leader: winner.id, term: Term(winner.term.into()) });
        }
    }

    fn on_elected<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, number: u64)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.follow_winner(cx, Winner { term: self.term, number, id: from });
        if self.contender.is_some() && self.options.tables == Tables::Repaired {
            let options = self.options;
            let election = ElectionContext { options: &options, term: self.term, tau: self.tau(cx) };
            self.conclude(cx, election, Progress::Lost(None));
        }
    }

    pub(crate) fn on_timer<P>(&mut self, cx: &mut Context<'_, P>, timer: Timer)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        match timer {
            Timer::Contender => {
                let options = self.options;
                let election = ElectionContext { options: &options, term: self.term, tau: self.tau(cx) };
                let Some(contender) = self.contender.as_deref_mut() else { return };
                let progress = contender.on_timer(cx, election);
                self.conclude(cx, election, progress);
            }
            Timer::Mediator => match self.mediator_role.as_deref_mut() {
                Some(MediatorRole::Sync(sync_mediator)) => {
                    let responses = sync_mediator.answer(self.options.reuse);
                    for response in responses {
                        let answer = Self::answer_message(self.term, response.round, response.positive);
                        cx.send(response.contender, answer);
                    }
                }
                _ => self.mediate(cx, Mediator::on_timer),
            },
        }
    }

    /// The message for an answer in this round, or in the second phase.
    fn answer_message(term: u32, round: Option<u8>, positive: bool) -> Message {
        match (round, positive) {
            (Some(round), true) => Message::Positive { term, round },
            (Some(round), false) => Message::Negative { term, round },
            (None, true) => Message::Ack { term },
            (None, false) => Message::Nak { term },
        }
    }

    /// Returns whether requests are refused because the winner is known. The paper's mediators do not learn the
    /// winner.
    fn refuses_requests(&self) -> bool {
        self.is_decided() && self.options.tables == Tables::Repaired
    }

    fn mediator_role(&mut self) -> &mut MediatorRole {
        let Options { mode, tables, .. } = self.options;
        self.mediator_role.get_or_insert_with(|| {
            Box::new(match mode {
                Mode::Sync => MediatorRole::Sync(SyncMediator::default()),
                Mode::Async => {
                    MediatorRole::Async { vector: Vector::default(), second: Mediator::new(tables) }
                }
            })
        })
    }

    /// Handles a request of the first phase.
    fn on_request<P>(&mut self, cx: &mut Context<'_, P>, contender: NodeId, round: u8)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let (term, options, refuses_requests) = (self.term, self.options, self.refuses_requests());
        match self.mediator_role() {
            _ if refuses_requests => cx.send(contender, Self::answer_message(term, Some(round), false)),
            MediatorRole::Async { vector, .. } => {
                let positive = vector.admit(round, contender, options.mediator, options.reuse);
                cx.send(contender, Self::answer_message(term, Some(round), positive));
            }
            MediatorRole::Sync(_) => {
                let claim = Claim { number: 0, contender };
                self.queue_request(cx, PendingRequest { round: Some(round), claim });
            }
        }
    }

    /// Handles a request of the second phase.
    fn on_final_request<P>(&mut self, cx: &mut Context<'_, P>, claim: Claim)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.refuses_requests() {
            cx.send(claim.contender, Message::Nak { term: self.term });
        } else if self.options.mode == Mode::Sync {
            self.queue_request(cx, PendingRequest { round: None, claim });
        } else {
            self.mediate(cx, |mediator| mediator.on_request(claim));
        }
    }

    /// Queues a synchronous request, which is answered in the middle of the round, when all requests of the round
    /// have arrived.
    fn queue_request<P>(&mut self, cx: &mut Context<'_, P>, request: PendingRequest)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let (tau, now) = (self.tau(cx), cx.now());
        let MediatorRole::Sync(sync_mediator) = self.mediator_role() else { return };
        if sync_mediator.add_request(request) {
            let options = self.options;
            let election = ElectionContext { options: &options, term: self.term, tau };
            cx.set_timer(Timer::Mediator, election.until(now, tau));
        }
    }

    fn on_decline<P>(&mut self, cx: &mut Context<'_, P>, contender: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let reuse = self.options.reuse;
        match self.mediator_role() {
            MediatorRole::Sync(sync_mediator) => sync_mediator.release(contender),
            MediatorRole::Async { vector, .. } => {
                if reuse {
                    vector.release(contender);
                }
                self.mediate(cx, |mediator| mediator.on_decline(contender));
            }
        }
    }

    /// Passes an input to the mediator of the asynchronous second phase, and executes its output.
    fn mediate<P>(&mut self, cx: &mut Context<'_, P>, input: impl FnOnce(&mut Mediator) -> MediatorOutput)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let (term, tau) = (self.term, self.tau(cx));
        let MediatorRole::Async { second, .. } = self.mediator_role() else { return };
        let MediatorOutput { answers, timer } = input(second);
        for (contender, answer) in answers.into_iter().flatten() {
            let answer = match answer {
                Answer::Ack => Message::Ack { term },
                Answer::Nak => Message::Nak { term },
                Answer::PotwAck => Message::PotwAck { term },
            };
            cx.send(contender, answer);
        }
        match timer {
            None => {}
            Some(0) => cx.cancel_timer(Timer::Mediator),
            Some(taus) => cx.set_timer(Timer::Mediator, tau * taus),
        }
    }
}
