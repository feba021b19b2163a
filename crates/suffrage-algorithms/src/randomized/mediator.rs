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
//! A mediator stands by the one it has said yes to, its *current* contender, and keeps the best that asks
//! meanwhile *waiting*. It is a value with inputs that return what is to be done, so that the tables can be
//! tested row by row.

use super::options::Tables;
use suffrage_core::NodeId;

/// For how many tau a mediator is safe or close-safe, and printed also post-safe.
const STAGE: u64 = 3;
/// For how many tau a repaired mediator is post-safe: a contender's last answer may come eight tau after
/// its request, and its POTW one later, which is nine after the first answer was sent at the earliest.
const POST_SAFE: u64 = 6;

/// The states of Figure 5.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum State {
    /// S0: it has said yes to nobody.
    #[default]
    Idle,
    /// S1: it has said yes within the last three tau.
    Safe,
    /// S2: it has said yes before that, and heard no more.
    PostSafe,
    /// S3: the one it has said yes to is a potential winner.
    CloseSafe,
    /// S4: it takes that one for the winner.
    Final,
}

/// A contender with its random number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Claim {
    /// Its number. Equal numbers, which are all but impossible, are told apart by the ids.
    pub number: u64,
    /// Who.
    pub contender: NodeId,
}

/// What a mediator answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    /// ACK to a REQ.
    Ack,
    /// NAK to a REQ or a POTW.
    Nak,
    /// ACK to a POTW.
    PotwAck,
}

/// What a mediator does about an input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ruling {
    /// Whom it answers what, in order.
    pub answers: [Option<(NodeId, Answer)>; 2],
    /// After how many tau its timer is to run out; zero to stop it; none to let it be.
    pub timer: Option<u64>,
}

impl Ruling {
    fn of(contender: NodeId, answer: Answer) -> Ruling {
        Ruling { answers: [Some((contender, answer)), None], timer: None }
    }

    fn then(mut self, contender: NodeId, answer: Answer) -> Ruling {
        self.answers[1] = Some((contender, answer));
        self
    }

    fn timer(mut self, tau: u64) -> Ruling {
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
    /// Who has sent DEC, sorted: they are out for good, and what else arrives of them is late.
    declined: Vec<NodeId>,
}

impl Mediator {
    /// An idle one that follows these rules.
    pub fn new(tables: Tables) -> Mediator {
        Mediator { tables, state: State::Idle, current: None, waiting: None, declined: Vec::new() }
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whom it has said yes to last, unless that one has declined.
    pub fn current(&self) -> Option<Claim> {
        self.current
    }

    /// Who waits for its answer.
    pub fn waiting(&self) -> Option<Claim> {
        self.waiting
    }

    fn is_repaired(&self) -> bool {
        self.tables == Tables::Repaired
    }

    /// `init` of Table 7 with `set`: says yes to this one, and is safe again.
    fn accept(&mut self, claim: Claim) {
        (self.state, self.current, self.waiting) = (State::Safe, Some(claim), None);
    }

    fn rest(&mut self) -> Ruling {
        (self.state, self.current, self.waiting) = (State::Idle, None, None);
        Ruling::default().timer(0)
    }

    /// REQ: rows 1, 2, 4, 5 and 8.
    pub fn on_request(&mut self, claim: Claim) -> Ruling {
        let contender = claim.contender;
        if self.is_repaired() && self.declined.binary_search(&contender).is_ok() {
            // Messages are not first come first served: this one was overtaken by its sender's DEC.
            return Ruling::default();
        }
        match (self.state, self.current) {
            (State::Final, _) if self.is_repaired() => Ruling::of(contender, Answer::Nak),
            // Printed, the final state has no way out and no answer.
            (State::Final, _) => Ruling::default(),
            (State::Idle, _) | (_, None) => {
                self.accept(claim);
                let silent = self.tables == Tables::Literal;
                let ruling = if silent { Ruling::default() } else { Ruling::of(contender, Answer::Ack) };
                ruling.timer(STAGE)
            }
            // The network has doubled it.
            (_, Some(current)) if current.contender == contender && self.is_repaired() => {
                Ruling::of(contender, Answer::Ack)
            }
            (State::PostSafe, Some(current)) if claim > current => {
                self.accept(claim);
                Ruling::of(current.contender, Answer::Nak).then(contender, Answer::Ack).timer(STAGE)
            }
            (State::PostSafe, Some(_)) => Ruling::of(contender, Answer::Nak),
            (State::Safe | State::CloseSafe, Some(current)) => self.act(claim, current),
        }
    }

    /// `act` of Table 7: the best that asks waits, the others are refused.
    fn act(&mut self, claim: Claim, current: Claim) -> Ruling {
        match self.waiting {
            _ if claim < current => Ruling::of(claim.contender, Answer::Nak),
            None => {
                self.waiting = Some(claim);
                Ruling::default()
            }
            Some(waiting) if waiting.contender == claim.contender && self.is_repaired() => Ruling::default(),
            Some(waiting) if claim < waiting => Ruling::of(claim.contender, Answer::Nak),
            Some(waiting) => {
                let swapped = Claim { number: claim.contender.0, contender: NodeId(claim.number) };
                self.waiting = Some(if self.tables == Tables::Literal { swapped } else { claim });
                Ruling::of(waiting.contender, Answer::Nak)
            }
        }
    }

    /// POTW: the third line of row 2, and rows 6 and 7.
    pub fn on_potential_winner(&mut self, contender: NodeId) -> Ruling {
        let is_current = self.current.is_some_and(|current| current.contender == contender);
        match self.state {
            // An idle one that has said yes to nobody since: its contender had to ask others in the place of
            // the dead, and was longer about it than the mediator is post-safe.
            State::Safe | State::PostSafe | State::Idle if is_current => {
                self.state = State::CloseSafe;
                if self.is_repaired() {
                    // The waiter stays: should this one lose elsewhere, it is the waiter's turn.
                    return Ruling::of(contender, Answer::PotwAck).timer(STAGE);
                }
                let refused = self.waiting.take().map(|waiting| (waiting.contender, Answer::Nak));
                Ruling { answers: [refused, None], timer: Some(STAGE) }
            }
            State::CloseSafe | State::Final if is_current && self.is_repaired() => {
                Ruling::of(contender, Answer::PotwAck)
            }
            State::Safe if !is_current => Ruling::of(contender, Answer::Nak),
            _ if is_current => Ruling::default(),
            _ if self.is_repaired() => Ruling::of(contender, Answer::Nak),
            _ => Ruling::default(),
        }
    }

    /// DEC: the second line of row 2, and rows 10 to 12.
    pub fn on_decline(&mut self, contender: NodeId) -> Ruling {
        if !self.is_repaired() {
            return self.on_decline_as_printed(contender);
        }
        if let Err(place) = self.declined.binary_search(&contender) {
            self.declined.insert(place, contender);
        }
        if self.waiting.is_some_and(|waiting| waiting.contender == contender) {
            self.waiting = None;
        }
        if self.current.is_none_or(|current| current.contender != contender) {
            return Ruling::default();
        }
        // Of the final winner, too: it has lost elsewhere after all, and was slower to say so than it may.
        match self.waiting {
            Some(waiting) => {
                self.accept(waiting);
                Ruling::of(waiting.contender, Answer::Ack).timer(STAGE)
            }
            None => self.rest(),
        }
    }

    /// Printed, rows 2, 10 and 11 do not ask who has declined; row 12 does.
    fn on_decline_as_printed(&mut self, contender: NodeId) -> Ruling {
        let is_current = self.current.is_some_and(|current| current.contender == contender);
        match (self.state, self.waiting) {
            (State::Safe | State::CloseSafe, Some(waiting)) => {
                self.accept(waiting);
                Ruling::of(waiting.contender, Answer::Ack).timer(STAGE)
            }
            (State::CloseSafe, None) => self.rest(),
            (State::PostSafe, _) if is_current => self.rest(),
            _ => Ruling::default(),
        }
    }

    /// The timer ran out: the fourth line of row 2, and rows 3 and 9.
    pub fn on_timer(&mut self) -> Ruling {
        match (self.state, self.current, self.waiting) {
            (State::Safe, Some(current), Some(waiting)) => {
                self.accept(waiting);
                Ruling::of(current.contender, Answer::Nak).then(waiting.contender, Answer::Ack).timer(STAGE)
            }
            (State::Safe, ..) => {
                self.state = State::PostSafe;
                Ruling::default().timer(if self.is_repaired() { POST_SAFE } else { STAGE })
            }
            // Printed, no row says what becomes of it, and it stays as it is.
            (State::PostSafe, ..) if self.is_repaired() => {
                self.state = State::Idle;
                Ruling::default()
            }
            (State::CloseSafe, ..) => {
                self.state = State::Final;
                let waiting = self.waiting.take_if(|_| self.tables == Tables::Repaired);
                Ruling { answers: [waiting.map(|claim| (claim.contender, Answer::Nak)), None], timer: None }
            }
            _ => Ruling::default(),
        }
    }
}

#[cfg(test)]
mod tests;
