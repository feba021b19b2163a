//! A contender: the rounds of the first phase, and Table 5 with Figure 3 in the second.
//!
//! ```text
//!   S0 ──REQ to all──▶ S1 ──all ACK──▶ S2 ──2τ without NAK──▶ S4, the winner
//!                       └──NAK──▶ S3 ◀──NAK──┘        every way to S3 sends DEC
//! ```

use super::message::{Message, Timer};
use super::options::{Mode, OnFailure, Options, Tables, Walk};
use super::panel::{Panel, Standing};
use super::rounds::{Tournament, number_range, sigma_last};
use suffrage_core::{Context, Process, Span, Time};

/// How long a contender waits for answers to its REQ, in tau, printed: "a maximum of 5 tau".
const ANSWERS_AS_PRINTED: u64 = 5;
/// The same as repaired: a tau for the REQ, three of a safe mediator, three of a close-safe one that keeps
/// it waiting, and a tau for the answer.
const ANSWERS: u64 = 8;
/// How long it waits for answers to its POTW: "2 tau units".
const ROUND_TRIP: u64 = 2;
/// How often it asks others in the place of those that do not answer.
const TRIES: u8 = 20;

/// What the contenders and mediators of one election play by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Game<'o> {
    pub(super) options: &'o Options,
    pub(super) term: u32,
    pub(super) tau: Span,
}

impl Game<'_> {
    /// How long it is until the next moment of the common clock that lies `after` a multiple of a round,
    /// or none if it is now. A round takes two tau.
    pub(super) fn until(&self, now: Time, after: Span) -> Span {
        let round = (self.tau * ROUND_TRIP).as_nanos();
        let into = (now.as_nanos() + round - after.as_nanos()) % round;
        Span::from_nanos(if into == 0 { 0 } else { round - into })
    }

    pub(super) fn is_sync(&self) -> bool {
        self.options.mode == Mode::Sync
    }
}

/// Where a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// It waits for the common clock to begin a round.
    Ready,
    /// In the first phase.
    First,
    /// S1: it has sent its REQs.
    Asked,
    /// S2: it has sent its POTWs.
    Potential,
}

/// What became of a contender through an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Stands,
    /// It is out; if a mediator said so, which one.
    Lost(Option<u32>),
    Won,
}

/// A contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contender {
    tournament: Tournament,
    number: u64,
    stage: Stage,
    /// The round of the first phase it is in, or was in last.
    round: u8,
    /// Whether its time-out has run out, and only what arrives at the same moment is still heard.
    grace: bool,
    /// How often it has asked others in the place of those that do not answer.
    tries: u8,
    hops: u64,
    began: Time,
    second_began: Time,
    panel: Panel,
}

impl Contender {
    pub(super) fn new<P: Process>(cx: &mut Context<'_, P>, options: &Options) -> Contender {
        let group = cx.view().group_len() as u64;
        let (low, high) = options.estimate;
        let factor = match low == high {
            true => f64::from(low),
            false => f64::from(low) * libm::pow(f64::from(high) / f64::from(low), cx.rng().unit()),
        };
        let size = ((group as f64 * factor / 1_000.0).round() as u64).max(1);
        let tournament = Tournament { size, mode: options.mode, rounds: options.rounds };
        let number = cx.rng().below(number_range(size));
        let now = cx.now();
        Contender {
            tournament,
            number,
            stage: Stage::Ready,
            round: 0,
            grace: false,
            tries: 0,
            hops: 0,
            began: now,
            second_began: now,
            panel: Panel::default(),
        }
    }

    /// Where it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The round of the first phase it is in, or was in last; zero before the first.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// Its random number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The mediators it has asked in this round.
    pub fn panel(&self) -> &Panel {
        &self.panel
    }

    /// Over how many edges of an overlay its walks have gone.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Whether it has got through the first phase.
    pub fn is_finalist(&self) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Potential)
    }

    /// When it began, and when it began the second phase.
    pub(super) fn times(&self) -> (Time, Time) {
        (self.began, self.second_began)
    }

    /// How many mediators must say yes in the second phase.
    fn needed(&self, group: usize) -> usize {
        sigma_last(self.tournament.size).min(group)
    }

    pub(super) fn begin<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let wait = game.until(cx.now(), Span::ZERO);
        if game.is_sync() && !wait.is_zero() {
            return cx.set_timer(Timer::Contender, wait);
        }
        self.next_round(cx, game);
    }

    fn next_round<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if !self.tournament.has_round(self.round + 1) {
            return self.second_phase(cx, game);
        }
        self.round += 1;
        self.stage = Stage::First;
        let (group, Game { options, term, .. }) = (cx.view().group_len(), game);
        let count = self.tournament.mediators(self.round, options.rounding, cx.rng()).min(group);
        if !options.reuse {
            self.panel = Panel::default();
        }
        let fresh = count.saturating_sub(self.panel.len());
        self.ask(cx, game, fresh, Message::Request { term, round: self.round });
        // Asynchronously, one whose mediators must all say yes waits for them for ever, as good as lost.
        if game.is_sync() || options.on_failure == OnFailure::NoNegative || fresh == 0 {
            let wait = if game.is_sync() || fresh > 0 { ROUND_TRIP } else { 0 };
            cx.set_timer(Timer::Contender, game.tau * wait);
        }
    }

    fn second_phase<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.stage = Stage::Asked;
        self.second_began = cx.now();
        self.panel = Panel::default();
        let needed = self.needed(cx.view().group_len());
        self.ask_finally(cx, game, needed);
    }

    fn ask_finally<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>, count: usize)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.ask(cx, game, count, Message::Req { term: game.term, number: self.number });
        let wait = match game.options.tables {
            _ if game.is_sync() => ROUND_TRIP,
            Tables::Repaired => ANSWERS,
            Tables::Printed | Tables::Literal => ANSWERS_AS_PRINTED,
        };
        cx.set_timer(Timer::Contender, game.tau * wait);
    }

    /// Asks so many more mediators, "picked uniformly at random", itself perhaps among them.
    fn ask<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>, count: usize, question: Message)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.grace = false;
        let view = cx.view();
        let fresh = match view.overlay() {
            None => {
                let group = view.group_len() as u64;
                self.panel.draw(count, || cx.rng().below(group) as u32)
            }
            Some(overlay) => {
                let steps = game.options.steps.unwrap_or_else(|| overlay.mixing_steps());
                let hops = &mut self.hops;
                self.panel.draw(count, || {
                    let walk = match game.options.walk {
                        Walk::Metropolis => overlay.walk(view.slot(), steps, cx.rng()),
                        Walk::Naive => overlay.naive_walk(view.slot(), steps, cx.rng()),
                    };
                    *hops += u64::from(walk.hops);
                    walk.end as u32
                })
            }
        };
        for slot in fresh {
            cx.send(view.in_slot(slot as usize), question.clone());
        }
    }

    /// A mediator of the first phase says yes.
    pub(super) fn on_positive<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        game: Game<'_>,
        slot: u32,
        round: u8,
    ) -> Step
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let news = self.stage == Stage::First && round == self.round && self.panel.grant(slot).is_some();
        if news && self.panel.is_unanimous() && !game.is_sync() {
            self.next_round(cx, game);
        }
        Step::Stands
    }

    /// A mediator of the first phase says no. One that holds a contender for later rounds may not know how
    /// far it has come.
    pub(super) fn on_negative(&self, game: Game<'_>, slot: u32, round: u8) -> Step {
        let counts = self.stage == Stage::First && (round == self.round || game.options.reuse);
        if counts { Step::Lost(Some(slot)) } else { Step::Stands }
    }

    /// ACK: rows 2 and 3 of Table 5.
    pub(super) fn on_ack<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>, slot: u32) -> Step
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if !self.is_finalist() || self.panel.grant(slot).is_none() || game.is_sync() {
            return Step::Stands;
        }
        let view = cx.view();
        if self.stage == Stage::Potential {
            // It was slower than those who were asked in its place.
            cx.send(view.in_slot(slot as usize), Message::Potw { term: game.term });
        } else if self.panel.granted() >= self.needed(view.group_len()) {
            self.claim(cx, game);
        }
        Step::Stands
    }

    /// Sends POTW to those who have said yes.
    fn claim<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        (self.stage, self.grace) = (Stage::Potential, false);
        let view = cx.view();
        for (slot, standing) in self.panel.iter() {
            if standing == Standing::Granted {
                cx.send(view.in_slot(slot as usize), Message::Potw { term: game.term });
            }
        }
        cx.set_timer(Timer::Contender, game.tau * ROUND_TRIP);
    }

    /// NAK: row 4.
    pub(super) fn on_nak(&self, slot: u32) -> Step {
        if self.is_finalist() { Step::Lost(Some(slot)) } else { Step::Stands }
    }

    /// The positive response for POTW. Who has all of them need not wait for the rest of the two tau.
    pub(super) fn on_potw_ack(&mut self, group: usize, slot: u32) -> Step {
        let news = self.stage == Stage::Potential && self.panel.confirm(slot).is_some();
        if news && self.panel.confirmed() >= self.needed(group) { Step::Won } else { Step::Stands }
    }

    pub(super) fn on_timer<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>) -> Step
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.stage == Stage::Ready {
            self.next_round(cx, game);
            return Step::Stands;
        }
        let complete = self.stage != Stage::Potential && self.panel.is_unanimous();
        if !self.grace && !complete {
            // An answer that takes as long as it may arrives at this very moment.
            self.grace = true;
            cx.set_timer(Timer::Contender, Span::ZERO);
            return Step::Stands;
        }
        self.grace = false;
        let lenient = game.options.on_failure == OnFailure::NoNegative;
        match self.stage {
            Stage::Ready => Step::Stands,
            Stage::First if lenient || self.panel.is_unanimous() => {
                self.next_round(cx, game);
                Step::Stands
            }
            Stage::First => Step::Lost(None),
            Stage::Asked => self.top_up(cx, game),
            // Row 5 of Table 5 asks for no more than that nobody has said no.
            Stage::Potential if lenient || game.options.tables != Tables::Repaired => Step::Won,
            Stage::Potential => Step::Lost(None),
        }
    }

    /// Some do not answer: "every contender in the second phase needs to get a response from sqrt(n ln n)
    /// other mediators", so others are asked in their place. At the end of a synchronous round with all
    /// answers, it has won.
    fn top_up<P>(&mut self, cx: &mut Context<'_, P>, game: Game<'_>) -> Step
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let group = cx.view().group_len();
        let missing = self.needed(group).saturating_sub(self.panel.granted());
        if missing == 0 {
            return Step::Won;
        }
        if !game.is_sync() && game.options.tables != Tables::Repaired {
            // Table 5 has no row for it.
            return Step::Stands;
        }
        let fresh = missing.min(group - self.panel.len());
        if fresh > 0 && self.tries < TRIES {
            self.tries += 1;
            self.ask_finally(cx, game, fresh);
            return Step::Stands;
        }
        match game.options.on_failure {
            OnFailure::AllPositive => Step::Lost(None),
            OnFailure::NoNegative if game.is_sync() => Step::Won,
            OnFailure::NoNegative => {
                self.claim(cx, game);
                Step::Stands
            }
        }
    }

    /// It is out, and says so where that matters: in the second phase to all that may stand by it ("to the
    /// rest"; printed, Table 5 has "to all"), and in the first to those that hold it for later rounds.
    pub(super) fn drop_out<P>(&self, cx: &mut Context<'_, P>, game: Game<'_>, refused_by: Option<u32>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let informs = if self.is_finalist() { !game.is_sync() } else { game.options.reuse };
        if !informs {
            return;
        }
        let to_all = self.is_finalist() && game.options.tables != Tables::Repaired;
        let view = cx.view();
        for (slot, _) in self.panel.iter().filter(|&(slot, _)| to_all || Some(slot) != refused_by) {
            cx.send(view.in_slot(slot as usize), Message::Dec { term: game.term });
        }
    }
}
