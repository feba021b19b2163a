//! One process of a group, and what it does about one input after another: for tests.

use crate::{
    Algorithm, Announcement, Attribute, Command, Effect, NodeId, Recorder, Roster, Span, Start, Term, Time,
};

/// A process of the group 1..=N under test. A message takes one time unit at most.
pub struct Subject<A: Algorithm> {
    /// The process under test.
    pub process: A,
    roster: Roster,
    me: NodeId,
    now: Time,
}

impl<A: Algorithm> Subject<A> {
    /// Process `me` of `count`, started for the first time.
    pub fn new(me: u64, count: usize, options: &A::Options) -> Subject<A> {
        let mut subject = Subject::unstarted(me, count, options);
        assert_eq!(subject.starts(Start::Fresh).sent(), []);
        subject
    }

    /// The same, not started yet.
    pub fn unstarted(me: u64, count: usize, options: &A::Options) -> Subject<A> {
        let process = A::new(NodeId(me), options);
        Subject { process, roster: Roster::numbered(count), me: NodeId(me), now: Time::ZERO }
    }

    /// The same process in another group of the same members: one with partial views, or other ranks.
    pub fn of_group(mut self, roster: Roster) -> Subject<A> {
        self.roster = roster;
        self
    }

    /// The view of the process.
    pub fn view(&self) -> crate::View<'_> {
        self.roster.view(self.roster.slot(self.me).expect("it is a member"))
    }

    /// Starts the process.
    pub fn starts(&mut self, start: Start<A::Saved>) -> Done<A> {
        self.input(|process, cx| process.on_start(cx, start))
    }

    /// Delivers a message.
    pub fn hears(&mut self, from: u64, message: A::Message) -> Done<A> {
        self.input(|process, cx| process.on_message(cx, NodeId(from), message))
    }

    /// Lets a timer expire.
    pub fn runs_out(&mut self, timer: A::Timer) -> Done<A> {
        self.input(|process, cx| process.on_timer(cx, timer))
    }

    /// Reports a peer as failed.
    pub fn suspects(&mut self, peer: u64) -> Done<A> {
        self.input(|process, cx| process.on_suspect(cx, NodeId(peer)))
    }

    /// Reports a peer as restored.
    pub fn restores(&mut self, peer: u64) -> Done<A> {
        self.input(|process, cx| process.on_restore(cx, NodeId(peer)))
    }

    /// Asks the process to call an election.
    pub fn campaigns(&mut self) -> Done<A> {
        self.obeys(Command::Campaign)
    }

    /// Gives the process a command.
    pub fn obeys(&mut self, command: Command) -> Done<A> {
        self.input(|process, cx| process.on_command(cx, command.into()))
    }

    /// Changes the attribute of a member.
    pub fn ranks(&mut self, peer: u64, attribute: Attribute) -> Done<A> {
        self.roster.set_attribute(NodeId(peer), attribute);
        self.input(|process, cx| process.on_view_change(cx))
    }

    /// Lets some message delays pass in which nothing happens.
    pub fn waits(&mut self, delays: u64) {
        self.now = self.now + Span::from_millis(delays);
    }

    fn input(&mut self, handle: impl FnOnce(&mut A, &mut crate::Context<'_, A>)) -> Done<A> {
        let slot = self.roster.slot(self.me).expect("it is a member");
        let mut recorder = Recorder::new(0);
        let view = self.roster.view(slot);
        handle(&mut self.process, &mut recorder.context(self.now, view, Span::UNIT));
        Done(recorder.take())
    }
}

/// What a process did about one input.
#[derive(Debug)]
pub struct Done<A: Algorithm>(Vec<Effect<A>>);

impl<A: Algorithm> Done<A> {
    /// To whom it sent what.
    pub fn sent(&self) -> Vec<(u64, A::Message)> {
        let sent = |effect: &Effect<A>| match effect {
            Effect::Send { to, message } => Some((to.0, message.clone())),
            _ => None,
        };
        self.0.iter().filter_map(sent).collect()
    }

    /// What it sent to all at once.
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

    /// What it saved.
    pub fn saved(&self) -> Vec<A::Saved> {
        let saved = |effect: &Effect<A>| match effect {
            Effect::Save(state) => Some(state.clone()),
            _ => None,
        };
        self.0.iter().filter_map(saved).collect()
    }

    /// Whether all that it saved was saved before anything was sent.
    pub fn saved_before_it_sent(&self) -> bool {
        let last_save = self.0.iter().rposition(|effect| matches!(effect, Effect::Save(_)));
        let first_send = self.0.iter().position(|effect| matches!(effect, Effect::Send { .. }));
        last_save.is_some() && last_save < first_send
    }

    /// What it did about one input, however that was put to it.
    pub fn of(effects: Vec<Effect<A>>) -> Done<A> {
        Done(effects)
    }

    /// For how many message delays it set this timer, the last time it did: that is the one that counts.
    pub fn awaits(&self, awaited: A::Timer) -> Option<u64> {
        self.0.iter().rev().find_map(|effect| match effect {
            Effect::SetTimer { timer, after } if *timer == awaited => {
                Some(after.as_nanos() / Span::UNIT.as_nanos())
            }
            _ => None,
        })
    }

    /// Whether it did nothing at all.
    pub fn is_nothing(&self) -> bool {
        self.0.is_empty()
    }
}

/// The same message to several.
pub fn to<M: Clone>(addressees: impl IntoIterator<Item = u64>, message: M) -> Vec<(u64, M)> {
    addressees.into_iter().map(|addressee| (addressee, message.clone())).collect()
}

/// An announcement of a leader.
pub fn elected(leader: u64, term: u64) -> Announcement {
    Announcement::Elected { leader: NodeId(leader), term: Term(term) }
}
