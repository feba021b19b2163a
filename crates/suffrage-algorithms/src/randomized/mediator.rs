//! The mediator of the asynchronous second phase: Figure 4, Tables 6 and 7, as printed and as repaired.
//!
//! ```text
//!   idle ──REQ──▶ safe ──3τ──▶ post-safe ──6τ──▶ idle
//!                  │ POTW        │ POTW
//!                  └──────┬──────┘
//!                         ▼
//!                     close-safe ──3τ──▶ final
//! ```
//!
//! A mediator is bound to the contender that it has granted, its *current* contender, and keeps the best contender
//! that asks meanwhile *waiting*. The mediator is a value whose inputs return its output, so that the tables can be
//! tested row by row.

use super::options::Tables;
use suffrage_core::NodeId;

/// The time that a mediator is safe or close-safe, and as printed also post-safe, in tau.
const STAGE: u64 = 3;
/// The time that a repaired mediator is post-safe, in tau: a contender's last answer may come eight tau after its
/// request, and its POTW one later, which is nine after the first answer was sent at the earliest.
const POST_SAFE: u64 = 6;

/// The states of Figure 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// S0: the mediator has granted no contender.
    #[default]
    Idle,
    /// S1: the mediator has granted within the last three tau.
    Safe,
    /// S2: the mediator has granted before that, and received no POTW.
    PostSafe,
    /// S3: the current contender is a potential winner.
    CloseSafe,
    /// S4: the current contender is the winner for this mediator.
    Final,
}

/// A contender with its random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// The random number. Ids break ties, which are extremely unlikely.
    pub number: u64,
    /// The contender.
    pub contender: NodeId,
}

/// The answer of a mediator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// ACK to a REQ.
    Ack,
    /// NAK to a REQ or a POTW.
    Nak,
    /// ACK to a POTW.
    PotwAck,
}

/// The output of a mediator for an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MediatorOutput {
    /// The answers, each with its addressee, in order.
    pub answers: [Option<(NodeId, Answer)>; 2],
    /// The new timer in tau: zero cancels it, `None` leaves it unchanged.
    pub timer: Option<u64>,
}

impl MediatorOutput {
    fn answer(contender: NodeId, answer: Answer) -> MediatorOutput {
        MediatorOutput { answers: [Some((contender, answer)), None], timer: None }
    }

    fn then(mut self, contender: NodeId, answer: Answer) -> MediatorOutput {
        self.answers[1] = Some((contender, answer));
        self
    }

    fn timer(mut self, tau: u64) -> MediatorOutput {
        self.timer = Some(tau);
        self
    }
}

/// A mediator of the asynchronous second phase.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Mediator {
    tables: Tables,
    state: State,
    current: Option<Claim>,
    waiting: Option<Claim>,
    /// The contenders that have sent DEC, sorted. They have dropped out for good, and their later messages are late.
    declined: Vec<NodeId>,
}

impl Mediator {
    /// An idle mediator with these rules.
    pub fn new(tables: Tables) -> Mediator {
        Mediator { tables, state: State::Idle, current: None, waiting: None, declined: Vec::new() }
    }

    /// The state of the mediator.
    pub fn state(&self) -> State {
        self.state
    }

    /// The contender that was granted last, unless it has dropped out.
    pub fn current(&self) -> Option<Claim> {
        self.current
    }

    /// The contender that waits for an answer.
    pub fn waiting(&self) -> Option<Claim> {
        self.waiting
    }

    fn is_repaired(&self) -> bool {
        self.tables == Tables::Repaired
    }

    /// `init` of Table 7 with `set`: grants this contender, and is safe again.
    fn grant(&mut self, claim: Claim) {
        (self.state, self.current, self.waiting) = (State::Safe, Some(claim), None);
    }

    fn become_idle(&mut self) -> MediatorOutput {
        (self.state, self.current, self.waiting) = (State::Idle, None, None);
        MediatorOutput::default().timer(0)
    }

    /// REQ: rows 1, 2, 4, 5 and 8.
    pub fn on_request(&mut self, claim: Claim) -> MediatorOutput {
        let contender = claim.contender;
        if self.is_repaired() && self.declined.binary_search(&contender).is_ok() {
            // Messages are not FIFO: the sender's DEC has overtaken this request.
            return MediatorOutput::default();
        }
        match (self.state, self.current) {
            (State::Final, _) if self.is_repaired() => MediatorOutput::answer(contender, Answer::Nak),
            // Printed, the final state has no way out and no answer.
            (State::Final, _) => MediatorOutput::default(),
            (State::Idle, _) | (_, None) => {
                self.grant(claim);
                let silent = self.tables == Tables::Literal;
                let output = if silent {
                    MediatorOutput::default()
                } else {
                    MediatorOutput::answer(contender, Answer::Ack)
                };
                output.timer(STAGE)
            }
            // A duplicated request.
            (_, Some(current)) if current.contender == contender && self.is_repaired() => {
                MediatorOutput::answer(contender, Answer::Ack)
            }
            (State::PostSafe, Some(current)) if claim > current => {
                self.grant(claim);
                MediatorOutput::answer(current.contender, Answer::Nak)
                    .then(contender, Answer::Ack)
                    .timer(STAGE)
            }
            (State::PostSafe, Some(_)) => MediatorOutput::answer(contender, Answer::Nak),
            (State::Safe | State::CloseSafe, Some(current)) => self.act(claim, current),
        }
    }

    /// `act` of Table 7: the best contender that asks waits, the others are refused.
    fn act(&mut self, claim: Claim, current: Claim) -> MediatorOutput {
        match self.waiting {
            _ if claim < current => MediatorOutput::answer(claim.contender, Answer::Nak),
            None => {
                self.waiting = Some(claim);
                MediatorOutput::default()
            }
            Some(waiting) if waiting.contender == claim.contender && self.is_repaired() => {
                MediatorOutput::default()
            }
            Some(waiting) if claim < waiting => MediatorOutput::answer(claim.contender, Answer::Nak),
            Some(waiting) => {
                let swapped = Claim { number: claim.contender.0, contender: NodeId(claim.number) };
                self.waiting = Some(if self.tables == Tables::Literal { swapped } else { claim });
                MediatorOutput::answer(waiting.contender, Answer::Nak)
            }
        }
    }

    /// POTW: the third line of row 2, and rows 6 and 7.
    pub fn on_potential_winner(&mut self, contender: NodeId) -> MediatorOutput {
        let is_current = self.current.is_some_and(|current| current.contender == contender);
        match self.state {
            // An idle mediator that has granted no other contender since: its contender had to ask replacements for
            // dead mediators, which took longer than the mediator is post-safe.
            State::Safe | State::PostSafe | State::Idle if is_current => {
                self.state = State::CloseSafe;
                if self.is_repaired() {
                    // The waiting contender is kept: it is next if this one loses elsewhere.
                    return MediatorOutput::answer(contender, Answer::PotwAck).timer(STAGE);
                }
                let refused = self.waiting.take().map(|waiting| (waiting.contender, Answer::Nak));
                MediatorOutput { answers: [refused, None], timer: Some(STAGE) }
            }
            State::CloseSafe | State::Final if is_current && self.is_repaired() => {
                MediatorOutput::answer(contender, Answer::PotwAck)
            }
            State::Safe if !is_current => MediatorOutput::answer(contender, Answer::Nak),
            _ if is_current => MediatorOutput::default(),
            _ if self.is_repaired() => MediatorOutput::answer(contender, Answer::Nak),
            _ => MediatorOutput::default(),
        }
    }

    /// DEC: the second line of row 2, and rows 10 to 12.
    pub fn on_decline(&mut self, contender: NodeId) -> MediatorOutput {
        if !self.is_repaired() {
            return self.on_decline_as_printed(contender);
        }
        if let Err(index) = self.declined.binary_search(&contender) {
            self.declined.insert(index, contender);
        }
        if self.waiting.is_some_and(|waiting| waiting.contender == contender) {
            self.waiting = None;
        }
        if self.current.is_none_or(|current| current.contender != contender) {
            return MediatorOutput::default();
        }
        // The final winner may also drop out: it has lost elsewhere, and its DEC took longer than tau.
        match self.waiting {
            Some(waiting) => {
                self.grant(waiting);
                MediatorOutput::answer(waiting.contender, Answer::Ack).timer(STAGE)
            }
            None => self.become_idle(),
        }
    }

    /// DEC by the printed tables: rows 2, 10 and 11 do not check the sender; row 12 does.
    fn on_decline_as_printed(&mut self, contender: NodeId) -> MediatorOutput {
        let is_current = self.current.is_some_and(|current| current.contender == contender);
        match (self.state, self.waiting) {
            (State::Safe | State::CloseSafe, Some(waiting)) => {
                self.grant(waiting);
                MediatorOutput::answer(waiting.contender, Answer::Ack).timer(STAGE)
            }
            (State::CloseSafe, None) => self.become_idle(),
            (State::PostSafe, _) if is_current => self.become_idle(),
            _ => MediatorOutput::default(),
        }
    }

    /// Timer expiry: the fourth line of row 2, and rows 3 and 9.
    pub fn on_timer(&mut self) -> MediatorOutput {
        match (self.state, self.current, self.waiting) {
            (State::Safe, Some(current), Some(waiting)) => {
                self.grant(waiting);
                MediatorOutput::answer(current.contender, Answer::Nak)
                    .then(waiting.contender, Answer::Ack)
                    .timer(STAGE)
            }
            (State::Safe, ..) => {
                self.state = State::PostSafe;
                MediatorOutput::default().timer(if self.is_repaired() { POST_SAFE } else { STAGE })
            }
            // The printed tables have no row for this case, so the state does not change.
            (State::PostSafe, ..) if self.is_repaired() => {
                self.state = State::Idle;
                MediatorOutput::default()
            }
            (State::CloseSafe, ..) => {
                self.state = State::Final;
                let waiting = self.waiting.take_if(|_| self.tables == Tables::Repaired);
                MediatorOutput {
                    answers: [waiting.map(|claim| (claim.contender, Answer::Nak)), None],
                    timer: None,
                }
            }
            _ => MediatorOutput::default(),
        }
    }
}

#[cfg(test)]
mod tests;
