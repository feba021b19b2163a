//! A contender: the rounds of the first phase, and Table 5 with Figure 3 in the second.
//!
//! ```text
//!   S0 ──REQ to all──▶ S1 ──all ACK──▶ S2 ──2τ without NAK──▶ S4, the winner
//!                       └──NAK──▶ S3 ◀──NAK──┘        every way to S3 sends DEC
//! ```

use super::mediator_set::{MediatorSet, MediatorStatus};
use super::message::{Message, Timer};
use super::options::{Mode, OnFailure, Options, Tables, Walk};
use super::rounds::{Tournament, number_range, sigma_last};
use suffrage_core::{Context, Process, Span, Time};

/// The time that a contender waits for answers to its REQ, in tau, as printed: "a maximum of 5 tau".
const ANSWERS_AS_PRINTED: u64 = 5;
/// The same time as repaired: a tau for the REQ, three of a safe mediator, three of a close-safe one that keeps the
/// contender waiting, and a tau for the answer.
const ANSWERS: u64 = 8;
/// The time that a contender waits for answers to its POTW: "2 tau units".
const ROUND_TRIP: u64 = 2;
/// The maximum number of times that a contender asks replacements for mediators that do not answer.
const MAX_REPLACEMENTS: u8 = 20;

/// The parameters of one election.
#[derive(Clone, Copy, Debug)]
pub(super) struct ElectionContext<'o> {
    pub(super) options: &'o Options,
    pub(super) term: u32,
    pub(super) tau: Span,
}

impl ElectionContext<'_> {
    /// The time until the next point of the common clock that lies `after` a multiple of a round; zero if that is
    /// now. A round takes two tau.
    pub(super) fn until(&self, now: Time, after: Span) -> Span {
        let round = (self.tau * ROUND_TRIP).as_nanos();
        let elapsed = (now.as_nanos() + round - after.as_nanos()) % round;
        Span::from_nanos(if elapsed == 0 { 0 } else { round - elapsed })
    }

    pub(super) fn is_sync(&self) -> bool {
        self.options.mode == Mode::Sync
    }
}

/// The stage of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stage {
    /// The contender waits for the common clock to begin a round.
    Ready,
    /// The contender is in the first phase.
    First,
    /// S1: the contender has sent its REQs.
    Asked,
    /// S2: the contender has sent its POTWs.
    Potential,
}

/// The effect of an input on a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    Contending,
    /// The contender has lost; the slot of the mediator that refused it, if one did.
    Lost(Option<u32>),
    Won,
}

/// A contender.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Contender {
    tournament: Tournament,
    number: u64,
    stage: Stage,
    /// The current or last round of the first phase.
    round: u8,
    /// True if the time-out has expired, and only messages that arrive at the same time still count.
    grace: bool,
    /// The number of times that the contender has asked replacements for mediators that do not answer.
    replacements: u8,
    hops: u64,
    began: Time,
    second_began: Time,
    mediators: MediatorSet,
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
            replacements: 0,
            hops: 0,
            began: now,
            second_began: now,
            mediators: MediatorSet::default(),
        }
    }

    /// The stage of the contender.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// The current or last round of the first phase; zero before the first.
    pub fn round(&self) -> u8 {
        self.round
    }

    /// The contender's random number.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The mediators that the contender has asked in this round.
    pub fn mediators(&self) -> &MediatorSet {
        &self.mediators
    }

    /// The number of overlay edges of the contender's walks.
    pub fn hops(&self) -> u64 {
        self.hops
    }

    /// Returns whether the contender has got through the first phase.
    pub fn is_finalist(&self) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Potential)
    }

    /// The start times of the contender and of its second phase.
    pub(super) fn times(&self) -> (Time, Time) {
        (self.began, self.second_began)
    }

    /// The number of mediators that must grant in the second phase.
    fn required(&self, group: usize) -> usize {
        sigma_last(self.tournament.size).min(group)
    }

    pub(super) fn begin<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let wait = election.until(cx.now(), Span::ZERO);
        if election.is_sync() && !wait.is_zero() {
            return cx.set_timer(Timer::Contender, wait);
        }
        self.next_round(cx, election);
    }

    fn next_round<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if !self.tournament.has_round(self.round + 1) {
            return self.second_phase(cx, election);
        }
        self.round += 1;
        self.stage = Stage::First;
        let (group, ElectionContext { options, term, .. }) = (cx.view().group_len(), election);
        let count = self.tournament.mediators(self.round, options.rounding, cx.rng()).min(group);
        if !options.reuse {
            self.mediators = MediatorSet::default();
        }
        let fresh = count.saturating_sub(self.mediators.len());
        self.ask(cx, election, fresh, Message::Request { term, round: self.round });
        // Asynchronously, a contender whose mediators must all grant waits without a time-out.
        if election.is_sync() || options.on_failure == OnFailure::NoNegative || fresh == 0 {
            let wait = if election.is_sync() || fresh > 0 { ROUND_TRIP } else { 0 };
            cx.set_timer(Timer::Contender, election.tau * wait);
        }
    }

    fn second_phase<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.stage = Stage::Asked;
        self.second_began = cx.now();
        self.mediators = MediatorSet::default();
        let required = self.required(cx.view().group_len());
        self.send_reqs(cx, election, required);
    }

    fn send_reqs<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>, count: usize)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.ask(cx, election, count, Message::Req { term: election.term, number: self.number });
        let wait = match election.options.tables {
            _ if election.is_sync() => ROUND_TRIP,
            Tables::Repaired => ANSWERS,
            Tables::Printed | Tables::Literal => ANSWERS_AS_PRINTED,
        };
        cx.set_timer(Timer::Contender, election.tau * wait);
    }

    /// Asks `count` more mediators, "picked uniformly at random", perhaps including this process.
    fn ask<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        election: ElectionContext<'_>,
        count: usize,
        question: Message,
    ) where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.grace = false;
        let view = cx.view();
        let fresh = match view.overlay() {
            None => {
                let group = view.group_len() as u64;
                self.mediators.draw(count, || cx.rng().below(group) as u32)
            }
            Some(overlay) => {
                let steps = election.options.steps.unwrap_or_else(|| overlay.mixing_steps());
                let hops = &mut self.hops;
                self.mediators.draw(count, || {
                    let walk = match election.options.walk {
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

    /// Handles a positive answer of the first phase.
    pub(super) fn on_positive<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        election: ElectionContext<'_>,
        slot: u32,
        round: u8,
    ) -> Progress
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let is_new =
            self.stage == Stage::First && round == self.round && self.mediators.grant(slot).is_some();
        if is_new && self.mediators.is_unanimous() && !election.is_sync() {
            self.next_round(cx, election);
        }
        Progress::Contending
    }

    /// Handles a negative answer of the first phase. A mediator that holds a contender for later rounds may answer
    /// for an earlier round.
    pub(super) fn on_negative(&self, election: ElectionContext<'_>, slot: u32, round: u8) -> Progress {
        let counts = self.stage == Stage::First && (round == self.round || election.options.reuse);
        if counts { Progress::Lost(Some(slot)) } else { Progress::Contending }
    }

    /// Handles ACK: rows 2 and 3 of Table 5.
    pub(super) fn on_ack<P>(
        &mut self,
        cx: &mut Context<'_, P>,
        election: ElectionContext<'_>,
        slot: u32,
    ) -> Progress
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if !self.is_finalist() || self.mediators.grant(slot).is_none() || election.is_sync() {
            return Progress::Contending;
        }
        let view = cx.view();
        if self.stage == Stage::Potential {
            // This mediator was slower than its replacement.
            cx.send(view.in_slot(slot as usize), Message::Potw { term: election.term });
        } else if self.mediators.granted() >= self.required(view.group_len()) {
            self.send_potws(cx, election);
        }
        Progress::Contending
    }

    /// Sends POTW to the mediators that have granted.
    fn send_potws<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        (self.stage, self.grace) = (Stage::Potential, false);
        let view = cx.view();
        for (slot, status) in self.mediators.iter() {
            if status == MediatorStatus::Granted {
                cx.send(view.in_slot(slot as usize), Message::Potw { term: election.term });
            }
        }
        cx.set_timer(Timer::Contender, election.tau * ROUND_TRIP);
    }

    /// Handles NAK: row 4.
    pub(super) fn on_nak(&self, slot: u32) -> Progress {
        if self.is_finalist() { Progress::Lost(Some(slot)) } else { Progress::Contending }
    }

    /// Handles the positive response for POTW. With all responses the contender wins before the end of the two tau.
    pub(super) fn on_potw_ack(&mut self, group: usize, slot: u32) -> Progress {
        let is_new = self.stage == Stage::Potential && self.mediators.confirm(slot).is_some();
        if is_new && self.mediators.confirmed() >= self.required(group) {
            Progress::Won
        } else {
            Progress::Contending
        }
    }

    pub(super) fn on_timer<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>) -> Progress
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.stage == Stage::Ready {
            self.next_round(cx, election);
            return Progress::Contending;
        }
        let complete = self.stage != Stage::Potential && self.mediators.is_unanimous();
        if !self.grace && !complete {
            // An answer with the maximum delay arrives at this very time.
            self.grace = true;
            cx.set_timer(Timer::Contender, Span::ZERO);
            return Progress::Contending;
        }
        self.grace = false;
        let lenient = election.options.on_failure == OnFailure::NoNegative;
        match self.stage {
            Stage::Ready => Progress::Contending,
            Stage::First if lenient || self.mediators.is_unanimous() => {
                self.next_round(cx, election);
                Progress::Contending
            }
            Stage::First => Progress::Lost(None),
            Stage::Asked => self.replace_unresponsive(cx, election),
            // Row 5 of Table 5 only requires that no mediator has refused.
            Stage::Potential if lenient || election.options.tables != Tables::Repaired => Progress::Won,
            Stage::Potential => Progress::Lost(None),
        }
    }

    /// Handles missing answers: "every contender in the second phase needs to get a response from sqrt(n ln n) other
    /// mediators", so replacements are asked. At the end of a synchronous round with all answers, the contender has
    /// won.
    fn replace_unresponsive<P>(&mut self, cx: &mut Context<'_, P>, election: ElectionContext<'_>) -> Progress
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let group = cx.view().group_len();
        let missing = self.required(group).saturating_sub(self.mediators.granted());
        if missing == 0 {
            return Progress::Won;
        }
        if !election.is_sync() && election.options.tables != Tables::Repaired {
            // Table 5 has no row for this case.
            return Progress::Contending;
        }
        let fresh = missing.min(group - self.mediators.len());
        if fresh > 0 && self.replacements < MAX_REPLACEMENTS {
            self.replacements += 1;
            self.send_reqs(cx, election, fresh);
            return Progress::Contending;
        }
        match election.options.on_failure {
            OnFailure::AllPositive => Progress::Lost(None),
            OnFailure::NoNegative if election.is_sync() => Progress::Won,
            OnFailure::NoNegative => {
                self.send_potws(cx, election);
                Progress::Contending
            }
        }
    }

    /// Sends DEC after a loss, where required: in the second phase to all mediators that may have granted ("to the
    /// rest"; as printed, Table 5 has "to all"), and in the first phase to those that hold the contender for later
    /// rounds.
    pub(super) fn drop_out<P>(
        &self,
        cx: &mut Context<'_, P>,
        election: ElectionContext<'_>,
        refused_by: Option<u32>,
    ) where
        P: Process<Message = Message, Timer = Timer>,
    {
        let sends_dec = if self.is_finalist() { !election.is_sync() } else { election.options.reuse };
        if !sends_dec {
            return;
        }
        let to_all = self.is_finalist() && election.options.tables != Tables::Repaired;
        let view = cx.view();
        for (slot, _) in self.mediators.iter().filter(|&(slot, _)| to_all || Some(slot) != refused_by) {
            cx.send(view.in_slot(slot as usize), Message::Dec { term: election.term });
        }
    }
}
