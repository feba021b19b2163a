//! A process: contender and mediator in one, in one election after another.

use super::contender::{Contender, Game, Step};
use super::docket::{Docket, Petition};
use super::mediator::{Answer, Claim, Mediator, Ruling};
use super::message::{Message, Timer};
use super::options::{Mode, Options, Tables};
use super::vector::Vector;
use suffrage_core::{Announcement, Command, Context, NodeId, Process, Span, Term};

/// Whom a process believes in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Winner {
    /// Of which election.
    pub term: u32,
    /// Its random number: of two winners of one election, the greater is believed in.
    pub number: u64,
    /// Who.
    pub id: NodeId,
}

/// What became of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Record {
    /// Whether it won: "a process that has not received negative responses from any mediator".
    pub won: bool,
    /// Whether it got into the second phase.
    pub finalist: bool,
    /// The last round of the first phase that it took part in.
    pub round: u8,
    /// How long it was in the first phase, in thousandths of tau.
    pub first_phase: u32,
    /// How long it was in the second phase, in thousandths of tau.
    pub second_phase: u32,
    /// Over how many edges of an overlay its walks went.
    pub hops: u64,
}

/// What a process is as a mediator, from the first request on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Mediation {
    Sync(Docket),
    Async { vector: Vector, second: Mediator },
}

/// A process of `randomized` or `probabilistic-quorum`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    options: Options,
    /// The election it takes part in, from 1.
    term: u32,
    winner: Option<Winner>,
    record: Option<Record>,
    // What not everybody needs at a time is kept apart, so that a million of them fit.
    contender: Option<Box<Contender>>,
    mediation: Option<Box<Mediation>>,
}

impl Member {
    pub(crate) fn new(options: &Options) -> Member {
        Member { options: *options, term: 0, winner: None, record: None, contender: None, mediation: None }
    }

    /// The election it takes part in, from 1; zero before the first.
    pub fn term(&self) -> u32 {
        self.term
    }

    /// Whom it believes in.
    pub fn winner(&self) -> Option<Winner> {
        self.winner
    }

    /// The contender it is, while it stands.
    pub fn contender(&self) -> Option<&Contender> {
        self.contender.as_deref()
    }

    /// What became of it as a contender in the present election.
    pub fn record(&self) -> Option<Record> {
        self.record
    }

    /// The mediator of the asynchronous second phase it is, if it was ever asked anything.
    pub fn mediator(&self) -> Option<&Mediator> {
        match self.mediation.as_deref() {
            Some(Mediation::Async { second, .. }) => Some(second),
            _ => None,
        }
    }

    /// The mediator of the synchronous protocol it is, if it was ever asked anything.
    pub fn docket(&self) -> Option<&Docket> {
        match self.mediation.as_deref() {
            Some(Mediation::Sync(docket)) => Some(docket),
            _ => None,
        }
    }

    /// The vector V of the asynchronous first phase, if it was ever asked anything.
    pub fn vector(&self) -> Option<&Vector> {
        match self.mediation.as_deref() {
            Some(Mediation::Async { vector, .. }) => Some(vector),
            _ => None,
        }
    }

    /// Whether the present election is over as far as it knows.
    fn is_decided(&self) -> bool {
        self.winner.is_some_and(|winner| winner.term == self.term)
    }

    fn tau<P: Process>(&self, cx: &Context<'_, P>) -> Span {
        self.options.tau.unwrap_or(cx.delay_bound())
    }

    /// Moves on to a later election.
    fn enter<P>(&mut self, cx: &mut Context<'_, P>, term: u32)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        (self.term, self.record) = (term, None);
        if self.contender.take().is_some() {
            cx.cancel_timer(Timer::Contender);
        }
        if self.mediation.take().is_some() {
            cx.cancel_timer(Timer::Mediator);
        }
    }

    pub(crate) fn on_command<P>(&mut self, cx: &mut Context<'_, P>, command: Command)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        // Leadership cannot be handed over: whoever wants another leader calls an election.
        if command == Command::Campaign && self.contender.is_none() {
            self.contend(cx);
        }
    }

    /// Stands in the present election if there is one it has not stood in yet, and in the next otherwise.
    fn contend<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.term == 0 || self.record.is_some() || self.is_decided() {
            self.enter(cx, self.term.saturating_add(1));
        }
        let options = self.options;
        let game = Game { options: &options, term: self.term, tau: self.tau(cx) };
        let mut contender = Box::new(Contender::new(cx, &options));
        contender.begin(cx, game);
        self.contender = Some(contender);
    }

    pub(crate) fn on_suspect<P>(&mut self, cx: &mut Context<'_, P>, peer: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.winner.is_some_and(|winner| winner.id == peer) {
            cx.announce(Announcement::Undecided);
            // Its election stays decided: the next one is called.
            let term = self.winner.take().map_or(0, |winner| winner.term);
            if self.term == term {
                self.enter(cx, self.term.saturating_add(1));
            }
            if self.contender.is_none() {
                self.contend(cx);
            }
        }
    }

    /// A winner tells one that was out of reach.
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
            self.enter(cx, term);
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

    /// Of an election that is over: who stands in it learns that there is a later one.
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
        let game = Game { options: &options, term: self.term, tau };
        let step = match *answer {
            Message::Positive { round, .. } => contender.on_positive(cx, game, slot, round),
            Message::Negative { round, .. } => contender.on_negative(game, slot, round),
            Message::Ack { .. } => contender.on_ack(cx, game, slot),
            Message::Nak { .. } => contender.on_nak(slot),
            Message::PotwAck { .. } => contender.on_potw_ack(group, slot),
            _ => Step::Stands,
        };
        self.conclude(cx, game, step);
    }

    /// Takes note of what became of the contender.
    fn conclude<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>, step: Step)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let won = match step {
            Step::Stands => return,
            Step::Lost(_) => false,
            Step::Won => true,
        };
        let Some(contender) = self.contender.take() else { return };
        cx.cancel_timer(Timer::Contender);
        let finalist = contender.is_finalist();
        let ((began, second), now) = (contender.times(), cx.now());
        let thousandths =
            |span: Span| (span.as_nanos() as f64 * 1e3 / game.tau.as_nanos() as f64).round() as u32;
        self.record = Some(Record {
            won,
            finalist,
            round: contender.round(),
            first_phase: thousandths(if finalist { second.since(began) } else { now.since(began) }),
            second_phase: thousandths(if finalist { now.since(second) } else { Span::ZERO }),
            hops: contender.hops(),
        });
        if let Step::Lost(refused_by) = step {
            return contender.drop_out(cx, game, refused_by);
        }
        let (term, number, id) = (self.term, contender.number(), cx.me());
        cx.multicast(Message::Elected { term, number });
        self.believe(cx, Winner { term, number, id });
    }

    fn believe<P: Process>(&mut self, cx: &mut Context<'_, P>, winner: Winner) {
        if self.winner < Some(winner) {
            self.winner = Some(winner);
            cx.announce(Announcement::Elected { leader: winner.id, term: Term(winner.term.into()) });
        }
    }

    fn on_elected<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, number: u64)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.believe(cx, Winner { term: self.term, number, id: from });
        if self.contender.is_some() && self.options.tables == Tables::Repaired {
            let options = self.options;
            let game = Game { options: &options, term: self.term, tau: self.tau(cx) };
            self.conclude(cx, game, Step::Lost(None));
        }
    }

    pub(crate) fn on_timer<P>(&mut self, cx: &mut Context<'_, P>, timer: Timer)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        match timer {
            Timer::Contender => {
                let options = self.options;
                let game = Game { options: &options, term: self.term, tau: self.tau(cx) };
                let Some(contender) = self.contender.as_deref_mut() else { return };
                let step = contender.on_timer(cx, game);
                self.conclude(cx, game, step);
            }
            Timer::Mediator => match self.mediation.as_deref_mut() {
                Some(Mediation::Sync(docket)) => {
                    let verdicts = docket.answer(self.options.reuse);
                    for verdict in verdicts {
                        let answer = Self::verdict(self.term, verdict.round, verdict.positive);
                        cx.send(verdict.contender, answer);
                    }
                }
                _ => self.mediate(cx, Mediator::on_timer),
            },
        }
    }

    /// The answer to a request of this round, or of the second phase.
    fn verdict(term: u32, round: Option<u8>, positive: bool) -> Message {
        match (round, positive) {
            (Some(round), true) => Message::Positive { term, round },
            (Some(round), false) => Message::Negative { term, round },
            (None, true) => Message::Ack { term },
            (None, false) => Message::Nak { term },
        }
    }

    /// Whether a request is to be refused because the winner is known. The paper's mediators do not learn
    /// of it.
    fn refuses(&self) -> bool {
        self.is_decided() && self.options.tables == Tables::Repaired
    }

    fn mediation(&mut self) -> &mut Mediation {
        let Options { mode, tables, .. } = self.options;
        self.mediation.get_or_insert_with(|| {
            Box::new(match mode {
                Mode::Sync => Mediation::Sync(Docket::default()),
                Mode::Async => Mediation::Async { vector: Vector::default(), second: Mediator::new(tables) },
            })
        })
    }

    /// A request of the first phase.
    fn on_request<P>(&mut self, cx: &mut Context<'_, P>, contender: NodeId, round: u8)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let (term, options, refuses) = (self.term, self.options, self.refuses());
        match self.mediation() {
            _ if refuses => cx.send(contender, Self::verdict(term, Some(round), false)),
            Mediation::Async { vector, .. } => {
                let positive = vector.admit(round, contender, options.mediator, options.reuse);
                cx.send(contender, Self::verdict(term, Some(round), positive));
            }
            Mediation::Sync(_) => {
                let claim = Claim { number: 0, contender };
                self.enter_docket(cx, Petition { round: Some(round), claim });
            }
        }
    }

    /// A request of the second phase.
    fn on_final_request<P>(&mut self, cx: &mut Context<'_, P>, claim: Claim)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.refuses() {
            cx.send(claim.contender, Message::Nak { term: self.term });
        } else if self.options.mode == Mode::Sync {
            self.enter_docket(cx, Petition { round: None, claim });
        } else {
            self.mediate(cx, |mediator| mediator.on_request(claim));
        }
    }

    /// Synchronously, a request is answered in the middle of the round, when all of the round are there.
    fn enter_docket<P>(&mut self, cx: &mut Context<'_, P>, petition: Petition)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let (tau, now) = (self.tau(cx), cx.now());
        let Mediation::Sync(docket) = self.mediation() else { return };
        if docket.enter(petition) {
            let options = self.options;
            let game = Game { options: &options, term: self.term, tau };
            cx.set_timer(Timer::Mediator, game.until(now, tau));
        }
    }

    fn on_decline<P>(&mut self, cx: &mut Context<'_, P>, contender: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let reuse = self.options.reuse;
        match self.mediation() {
            Mediation::Sync(docket) => docket.release(contender),
            Mediation::Async { vector, .. } => {
                if reuse {
                    vector.release(contender);
                }
                self.mediate(cx, |mediator| mediator.on_decline(contender));
            }
        }
    }

    /// Puts an input to the mediator of the asynchronous second phase, and carries its ruling out.
    fn mediate<P>(&mut self, cx: &mut Context<'_, P>, input: impl FnOnce(&mut Mediator) -> Ruling)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let (term, tau) = (self.term, self.tau(cx));
        let Mediation::Async { second, .. } = self.mediation() else { return };
        let Ruling { answers, timer } = input(second);
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
