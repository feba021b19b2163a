//! Soft-state leadership, which the two algorithms for multicast groups share (Schooler, Manohar, Chandy 2002):
//! announcements, and a leadership that lasts only while it is repeated.
//!
//! Their work "considers message loss as a fundamental concern" (Ramanathan et al. 2007, section 8), so no step
//! depends on a single message. A leader repeats its announcement each period. A member that misses the announcement
//! for some periods calls an election. A leader that receives the announcement of a worse process repeats its own at
//! once.

use serde::{Deserialize, Serialize};

use suffrage_core::{Announcement, BadParameter, Context, NodeId, Process, Span, Term};

/// The messages of these algorithms, all multicast.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Message {
    /// "I am a candidate, or the leader."
    Announce {
        /// The term.
        term: Term,
    },
}

suffrage_core::message_kinds!(Message { Announce });

/// The timers of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Timer {
    /// The process is due to announce itself in an election.
    Wake,
    /// In an election, the wait for better announcements is over. At the leader, the wait for better answers to its
    /// announcement is over.
    Listen,
    /// The leader is due to repeat its announcement.
    Period,
    /// A follower has missed the leader's announcements.
    Silence,
}

suffrage_core::timer_indices!(Timer { Wake, Listen, Period, Silence });

/// The time to listen for better announcements once all processes have had their turn, in message delays: more than
/// a round trip, within which a better leader has answered.
pub(crate) const LISTEN: u64 = 3;

/// The period of a leader's announcements, and the time-out of its followers, in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AnnouncementTiming {
    /// The period of a leader's repeated announcement.
    pub period: u64,
    /// The time without an announcement after which followers call an election.
    pub timeout: u64,
}

impl Default for AnnouncementTiming {
    /// The time-out is three periods, the delay of the third announcement, and a margin for clock drift.
    fn default() -> AnnouncementTiming {
        AnnouncementTiming { period: 10, timeout: 35 }
    }
}

impl AnnouncementTiming {
    /// Rejects a timing that would replace a healthy leader.
    pub(crate) fn check(self) -> Result<(), BadParameter> {
        if self.period <= LISTEN {
            let reason =
                format!("must be more than {LISTEN}, the time a process listens after it announced itself");
            return Err(BadParameter { name: "period", reason });
        }
        let least = self.period + 2;
        if self.timeout < least {
            let reason = format!("must be at least {least}: a healthy leader would be replaced");
            return Err(BadParameter { name: "timeout", reason });
        }
        Ok(())
    }
}

/// The role of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// In an election. `best` is the best process that has announced itself, perhaps this one.
    Electing { best: Option<NodeId> },
    /// The process leads. `recent` is true if it has announced itself within the last round trip.
    Leading { recent: bool },
    /// The process follows this leader.
    Following { leader: NodeId },
}

/// A process's belief about the leader, which expires unless it is refreshed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SoftState {
    timing: AnnouncementTiming,
    /// The time from the beginning of an election within which a better process may still announce itself, in
    /// message delays; `None` if better processes announce themselves first.
    window: Option<u64>,
    phase: Phase,
    /// The term of the leader, or of the best announcement of this election.
    term: Term,
}

impl SoftState {
    pub(crate) fn new(timing: AnnouncementTiming, window: Option<u64>) -> SoftState {
        SoftState { timing, window, phase: Phase::Electing { best: None }, term: Term::default() }
    }

    /// Returns whether an election is in progress, as far as this process knows.
    pub(crate) fn is_electing(&self) -> bool {
        matches!(self.phase, Phase::Electing { .. })
    }

    /// The leader that this process follows; `None` in an election and at the leader.
    pub(crate) fn followed_leader(&self) -> Option<NodeId> {
        match self.phase {
            Phase::Following { leader } => Some(leader),
            Phase::Electing { .. } | Phase::Leading { .. } => None,
        }
    }

    /// Begins an election. This process announces itself after `wait`, unless a better process does so before, and
    /// decides when it has listened long enough.
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
        let until_all_announced = self.window.map_or(wait, |window| cx.delay_bound() * window);
        cx.set_timer(Timer::Listen, until_all_announced + cx.delay_bound() * LISTEN);
        if wait.is_zero() {
            self.announce_candidacy(cx);
        } else {
            cx.set_timer(Timer::Wake, wait);
        }
    }

    /// Announces this process, unless a better process has announced itself. A process that knows no better member
    /// leads at once.
    fn announce_candidacy<P>(&mut self, cx: &mut Context<'_, P>)
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

    /// Ends the election with this result.
    fn decide<P>(&mut self, cx: &mut Context<'_, P>, best: NodeId)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if best == cx.me() {
            self.phase = Phase::Leading { recent: false };
            cx.announce(Announcement::Elected { leader: best, term: self.term });
            cx.set_timer(Timer::Period, cx.delay_bound() * self.timing.period);
        } else {
            self.follow(cx, best, self.term);
        }
    }

    /// Repeats the announcement of this process, which leads.
    fn repeat<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        self.phase = Phase::Leading { recent: true };
        cx.multicast(Message::Announce { term: self.term });
        cx.set_timer(Timer::Listen, cx.delay_bound() * LISTEN);
        cx.set_timer(Timer::Period, cx.delay_bound() * self.timing.period);
    }

    /// Repeats the announcement of this process, if it leads and its last announcement is not still on its way.
    pub(crate) fn repeat_unless_recent<P>(&mut self, cx: &mut Context<'_, P>)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        if self.phase == (Phase::Leading { recent: false }) {
            self.repeat(cx);
        }
    }

    fn follow<P>(&mut self, cx: &mut Context<'_, P>, leader: NodeId, term: Term)
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        let changed = self.followed_leader() != Some(leader) || self.term != term;
        if self.followed_leader().is_none() {
            [Timer::Wake, Timer::Listen, Timer::Period].iter().for_each(|&timer| cx.cancel_timer(timer));
        }
        (self.phase, self.term) = (Phase::Following { leader }, term);
        cx.set_timer(Timer::Silence, cx.delay_bound() * self.timing.timeout);
        if changed {
            cx.announce(Announcement::Elected { leader, term });
        }
    }

    /// "On receiving an announcement, a process decides locally if the current leader must be changed."
    pub(crate) fn on_announce<P>(&mut self, cx: &mut Context<'_, P>, from: NodeId, term: Term)
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
            Phase::Leading { .. } => self.repeat_unless_recent(cx),
            Phase::Following { leader } if from == leader || view.outranks(from, leader) => {
                self.follow(cx, from, term);
            }
            Phase::Electing { .. } | Phase::Following { .. } => {}
        }
    }

    /// Handles a timer. Returns true if a follower has missed the leader's announcements and must call an election.
    pub(crate) fn on_timer<P>(&mut self, cx: &mut Context<'_, P>, timer: Timer) -> bool
    where
        P: Process<Message = Message, Timer = Timer>,
    {
        match (timer, self.phase) {
            (Timer::Wake, _) => self.announce_candidacy(cx),
            (Timer::Listen, Phase::Electing { best }) => self.decide(cx, best.unwrap_or(cx.me())),
            (Timer::Listen, _) => self.phase = Phase::Leading { recent: false },
            (Timer::Period, _) => self.repeat(cx),
            (Timer::Silence, _) => return true,
        }
        false
    }

    /// Returns whether this process outranks the leader that it follows, or the best announcement of the election,
    /// after a change of ranks.
    pub(crate) fn outranks_leader<P: Process>(&self, cx: &Context<'_, P>) -> bool {
        match self.phase {
            Phase::Electing { best: Some(leader) } | Phase::Following { leader } => {
                cx.view().outranks(cx.me(), leader)
            }
            Phase::Electing { best: None } | Phase::Leading { .. } => false,
        }
    }
}
