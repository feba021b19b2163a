//! A harness for unit tests: one process of a group, and its effects for one input after another.

use crate::{
    Algorithm, Announcement, Attribute, Command, Effect, NodeId, Recorder, Roster, Span, Start, Term, Time,
};

/// A process under test in the group 1..=N. The delay bound is one time unit.
pub struct TestProcess<A: Algorithm> {
    /// The process under test.
    pub process: A,
    roster: Roster,
    me: NodeId,
    now: Time,
}

impl<A: Algorithm> TestProcess<A> {
    /// Process `me` of `count`, started for the first time.
    pub fn new(me: u64, count: usize, options: &A::Options) -> TestProcess<A> {
        let mut process = TestProcess::unstarted(me, count, options);
        assert_eq!(process.start(Start::Fresh).sent(), []);
        process
    }

    /// Process `me` of `count`, not started yet.
    pub fn unstarted(me: u64, count: usize, options: &A::Options) -> TestProcess<A> {
        let process = A::new(NodeId(me), options);
        TestProcess { process, roster: Roster::numbered(count), me: NodeId(me), now: Time::ZERO }
    }

    /// Replaces the group by another group of the same members, with partial views or other ranks.
    pub fn in_group(mut self, roster: Roster) -> TestProcess<A> {
        self.roster = roster;
        self
    }

    /// The view of the process.
    pub fn view(&self) -> crate::View<'_> {
        self.roster.view(self.roster.slot(self.me).expect("the process under test is a member of the group"))
    }

    /// Starts the process.
    pub fn start(&mut self, start: Start<A::Saved>) -> Step<A> {
        self.input(|process, cx| process.on_start(cx, start))
    }

    /// Delivers a message.
    pub fn receive(&mut self, from: u64, message: A::Message) -> Step<A> {
        self.input(|process, cx| process.on_message(cx, NodeId(from), message))
    }

    /// Lets a timer expire.
    pub fn expire(&mut self, timer: A::Timer) -> Step<A> {
        self.input(|process, cx| process.on_timer(cx, timer))
    }

    /// Reports a peer as failed.
    pub fn suspect(&mut self, peer: u64) -> Step<A> {
        self.input(|process, cx| process.on_suspect(cx, NodeId(peer)))
    }

    /// Reports a peer as restored.
    pub fn restore(&mut self, peer: u64) -> Step<A> {
        self.input(|process, cx| process.on_restore(cx, NodeId(peer)))
    }

    /// Sends the process the command to call an election.
    pub fn campaign(&mut self) -> Step<A> {
        self.command(Command::Campaign)
    }

    /// Sends the process a command.
    pub fn command(&mut self, command: Command) -> Step<A> {
        self.input(|process, cx| process.on_command(cx, command.into()))
    }

    /// Changes the attribute of a member.
    pub fn set_attribute(&mut self, peer: u64, attribute: Attribute) -> Step<A> {
        self.roster.set_attribute(NodeId(peer), attribute);
        self.input(|process, cx| process.on_view_change(cx))
    }

    /// Advances the process's clock by some message delays, without any input.
    pub fn advance(&mut self, delays: u64) {
        self.now = self.now + Span::from_millis(delays);
    }

    fn input(&mut self, handle: impl FnOnce(&mut A, &mut crate::Context<'_, A>)) -> Step<A> {
        let slot = self.roster.slot(self.me).expect("the process under test is a member of the group");
        let mut recorder = Recorder::new(0);
        let view = self.roster.view(slot);
        handle(&mut self.process, &mut recorder.context(self.now, view, Span::UNIT));
        Step(recorder.take())
    }
}

/// The effects of one input.
#[derive(Debug)]
pub struct Step<A: Algorithm>(Vec<Effect<A>>);

impl<A: Algorithm> Step<A> {
    /// The messages to single peers, each with its addressee.
    pub fn sent(&self) -> Vec<(u64, A::Message)> {
        let sent = |effect: &Effect<A>| match effect {
            Effect::Send { to, message } => Some((to.0, message.clone())),
            _ => None,
        };
        self.0.iter().filter_map(sent).collect()
    }

    /// The multicast messages.
    pub fn multicast(&self) -> Vec<A::Message> {
        let sent = |effect: &Effect<A>| match effect {
            Effect::Multicast { message } => Some(message.clone()),
            _ => None,
        };
        self.0.iter().filter_map(sent).collect()
    }

    /// The announcements.
    pub fn announced(&self) -> Vec<Announcement> {
        let announced = |effect: &Effect<A>| match effect {
            Effect::Announce(announcement) => Some(*announcement),
            _ => None,
        };
        self.0.iter().filter_map(announced).collect()
    }

    /// The saved states.
    pub fn saved(&self) -> Vec<A::Saved> {
        let saved = |effect: &Effect<A>| match effect {
            Effect::Save(state) => Some(state.clone()),
            _ => None,
        };
        self.0.iter().filter_map(saved).collect()
    }

    /// Returns whether the process saved its state, and did so before it sent the first message.
    pub fn saved_before_sending(&self) -> bool {
        let last_save = self.0.iter().rposition(|effect| matches!(effect, Effect::Save(_)));
        let first_send = self.0.iter().position(|effect| matches!(effect, Effect::Send { .. }));
        last_save.is_some() && last_save < first_send
    }

    /// The step of an input that the test has handled itself.
    pub fn from_effects(effects: Vec<Effect<A>>) -> Step<A> {
        Step(effects)
    }

    /// The duration of this timer as last set by the input, in message delays.
    pub fn timer_delays(&self, wanted: A::Timer) -> Option<u64> {
        self.0.iter().rev().find_map(|effect| match effect {
            Effect::SetTimer { timer, after } if *timer == wanted => {
                Some(after.as_nanos() / Span::UNIT.as_nanos())
            }
            _ => None,
        })
    }

    /// Returns whether the input had no effects.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// The same message to several addressees, in the form of [`Step::sent`].
pub fn to<M: Clone>(addressees: impl IntoIterator<Item = u64>, message: M) -> Vec<(u64, M)> {
    addressees.into_iter().map(|addressee| (addressee, message.clone())).collect()
}

/// An announcement of a leader.
pub fn elected(leader: u64, term: u64) -> Announcement {
    Announcement::Elected { leader: NodeId(leader), term: Term(term) }
}
