//! What the two algorithms for multicast groups share (Schooler, Manohar, Chandy 2002): announcements, and
//! a leadership that lasts only while it is repeated.
//!
//! Their work "considers message loss as a fundamental concern" (Ramanathan et al. 2007, section 8), so
//! nothing depends on one message. A leader repeats its announcement each period; a member that misses it
//! for some periods calls an election; and a leader that hears a worse one announce itself repeats its own
//! at once.

use serde::{Deserialize, Serialize};

use suffrage_core::{Announcement, BadParameter, Context, NodeId, Process, Span, Term};

/// What processes of these algorithms say, to all at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I would lead, or do."
    Announce {
        /// In which term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Announce });

/// What a process waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// In an election: its turn to announce itself.
    Wake,
    /// In an election: any announcement that is better. As the leader: whether its announcement is
    /// answered by a better one.
    Listen,
    /// As the leader: the time to repeat its announcement.
    Period,
    /// As a follower: the leader's announcement.
    Silence,
}

suffrage_core::timer_indices!(Timer { Wake, Listen, Period, Silence });

/// How long to listen for a better announcement once all have had their turn: more than a round trip,
/// within which one that is better and leads has answered. In message delays.
pub(crate) const LISTEN: u64 = 3;

/// How often a leader speaks, and how long its followers bear its silence; in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pace {
    /// How often a leader repeats its announcement.
    pub period: u64,
    /// How long it may be silent.
    pub timeout: u64,
}

impl Default for Pace {
    /// The time-out is three periods, the delay of the third announcement, and some for clocks that drift.
    fn default() -> Pace {
        Pace { period: 10, timeout: 35 }
    }
}

impl Pace {
    /// Refuses a pace that a healthy leader could not keep.
    pub(crate) fn check(self) -> Result<(), BadParameter> {
        if self.period <= LISTEN {
            let reason = format!("it must be more than {LISTEN}, how long one that announced itself listens");
            return Err(BadParameter { name: "period", reason });
        }
        let least = self.period + 2;
        if self.timeout < least {
            let reason = format!("a healthy leader would be replaced: it must be at least {least}");
            return Err(BadParameter { name: "timeout", reason });
        }
        Ok(())
    }
}

/// Where a process is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// An election: this is the best that has announced itself, perhaps this process.
    Electing { best: Option<NodeId> },
    /// It leads; fresh if it has announced itself within the last round trip.
    Leading { fresh: bool },
    /// It follows this one.
    Following { leader: NodeId },
}

/// Whom a process believes to lead, for as long as it is told so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SoftState {
    pace: Pace,
    /// How long after the beginning of an election somebody better may yet announce itself, in message
    /// delays; none if the better ones come first.
    window: Option<u64>,
    phase: Phase,
    /// Of the leader believed in, or heard of in this election.
    term: Term,
}

impl SoftState {
    pub(crate) fn new(pace: Pace, window: Option<u64>) -> SoftState {
        SoftState { pace, window, phase: Phase::Electing { best: None }, term: Term::default() }
    }

    /// Whether an election is under way, as far as this process knows.
    pub(crate) fn is_electing(&self) -> bool {
        matches!(self.phase, Phase::Electing { .. })
    }

    /// Whom it follows.
    pub(crate) fn follows(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Following { leader } => Some(leader),
            Phase::Electing { .. } | Phase::Leading { .. } => None,
        }
    }

    /// An election begins: this process will announce itself after a while, unless it hears somebody
    /// better before, and decide when it has listened long enough.
    pub(crate) fn call_election<P>(&mut self, cx: &mut Context<'_, P>, wait: Span)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        match self.phase {
            Phase::Electing { .. } => {}
            Phase::Leading { .. } => {
                cx.cancel_timer(Timer::Period);
                cx.announce(Announcement::SteppedDown);
            }
            Phase::Following { .. } => {
                cx.cancel_timer(Timer::Silence);
                cx.announce(Announcement::Undecided);
            }
        }
        self.phase = Phase::Electing { best: None };
        let until_all_spoke = self.window.map_or(wait, |window| cx.delay_bound() * window);
        cx.set_timer(Timer::Listen, until_all_spoke + cx.delay_bound() * LISTEN);
        if wait.is_zero() {
            self.stand(cx);
        } else {
            cx.set_timer(Timer::Wake, wait);
        }
    }

    /// Announces itself, unless a better one has. One that knows nobody better need not listen.
    fn stand<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let Phase::Electing { best } = self.phase else { return };
        if best.is_none_or(|best| cx.view().outranks(cx.me(), best)) {
            self.term = self.term.next();
            if cx.view().above().next().is_none() {
                cx.announce(Announcement::Elected { leader: cx.me(), term: self.term });
                return self.repeat(cx);
            }
            self.phase = Phase::Electing { best: Some(cx.me()) };
            cx.multicast(Message::Announce { term: self.term });
        }
    }

    /// The election is over.
    fn decide<P>(&mut self, cx: &mut Context<'_, P>, best: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if best == cx.me() {
            self.phase = Phase::Leading { fresh: false };
            cx.announce(Announcement::Elected { leader: best, term: self.term });
            cx.set_timer(Timer::Period, cx.delay_bound() * self.pace.period);
        } else {
            self.follow(cx, best, self.term);
        }
    }

    /// As the leader: repeats its announcement.
    fn repeat<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.phase = Phase::Leading { fresh: true };
        cx.multicast(Message::Announce { term: self.term });
        cx.set_timer(Timer::Listen, cx.delay_bound() * LISTEN);
        cx.set_timer(Timer::Period, cx.delay_bound() * self.pace.period);
    }

    /// As the leader: repeats its announcement, unless it is on its way to everybody.
    pub(crate) fn remind<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.phase == (Phase::Leading { fresh: false }) {
            self.repeat(cx);
        }
    }

    fn follow<P>(&mut self, cx: &mut Context<'_, P>, leader: NodeId, term: Term)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let news = self.follows() != Some(leader) || self.term != term;
        if self.follows().is_none() {
            [Timer::Wake, Timer::Listen, Timer::Period].iter().for_each(|&timer| cx.cancel_timer(timer));
        }
        (self.phase, self.term) = (Phase::Following { leader }, term);
        cx.set_timer(Timer::Silence, cx.delay_bound() * self.pace.timeout);
        if news {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    /// "On receiving an announcement, a process decides locally if the current leader must be changed."
    pub(crate) fn hear<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, term: Term)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let view = cx.view();
        match self.phase {
            Phase::Electing { best } if view.outranks(from, best.unwrap_or(cx.me())) => {
                (self.phase, self.term) = (Phase::Electing { best: Some(from) }, term);
                if self.window.is_none() {
                    cx.set_timer(Timer::Listen, cx.delay_bound() * LISTEN);
                }
            }
            Phase::Leading { .. } if view.outranks(from, cx.me()) => self.follow(cx, from, term),
            Phase::Leading { .. } => self.remind(cx),
            Phase::Following { leader } if from == leader || view.outranks(from, leader) => {
                self.follow(cx, from, term);
            }
            Phase::Electing { .. } | Phase::Following { .. } => {}
        }
    }

    /// A timer ran out. True if it is the leader's silence, and an election is to be called.
    pub(crate) fn expire<P>(&mut self, cx: &mut Context<'_, P>, timer: Timer) -> bool
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        match (timer, self.phase) {
            (Timer::Wake, _) => self.stand(cx),
            (Timer::Listen, Phase::Electing { best }) => self.decide(cx, best.unwrap_or(cx.me())),
            (Timer::Listen, _) => self.phase = Phase::Leading { fresh: false },
            (Timer::Period, _) => self.repeat(cx),
            (Timer::Silence, _) => return true,
        }
        false
    }

    /// Whether ranks have changed so that this process should stand against the one it believes in, or
    /// is about to.
    pub(crate) fn is_overtaken<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        match self.phase {
            Phase::Electing { best: Some(leader) } | Phase::Following { leader } => {
                cx.view().outranks(cx.me(), leader)
            }
            Phase::Electing { best: None } | Phase::Leading { .. } => false,
        }
    }
}
