//! A test harness for rings: processes and a queue of messages, without time.

use std::collections::VecDeque;

use super::{Message, Options, Outcome, Ring, Run, Timer, Token};
use suffrage_core::{
    Algorithm, Announcement, Command, Context, Effect, Kind, NodeId, Process, Recorder, Roster, Span, Start,
    Term, Time,
};

pub(crate) const DELAY: Span = Span::UNIT;

pub(crate) fn run(term: u64, initiator: u64) -> Run {
    Run { term: Term(term), initiator: NodeId(initiator) }
}

pub(crate) fn elected<T>(run: Run, round: u32, leader: u64) -> Message<T> {
    Message::Elected { hop: 0, outcome: Outcome { run, round, leader: NodeId(leader) } }
}

/// Options without acknowledgements and with the given repair.
pub(crate) fn options<T: Token>(repair: &str) -> Options {
    let mut options = Options::default();
    for (name, value) in [("repair", repair), ("hop-timeout", "off")] {
        let parameter = Ring::<T>::PARAMETERS.iter().find(|parameter| parameter.name == name).unwrap();
        (parameter.set)(&mut options, value).unwrap();
    }
    options
}

/// One process under test, and its effects.
pub(crate) struct RingProcess<T: Token> {
    pub(crate) process: Ring<T>,
    pub(crate) roster: Roster,
    pub(crate) now: Time,
    slot: usize,
    recorder: Recorder<Ring<T>>,
}

impl<T: Token> Clone for RingProcess<T> {
    fn clone(&self) -> RingProcess<T> {
        let (process, roster) = (self.process.clone(), self.roster.clone());
        RingProcess { process, roster, now: self.now, slot: self.slot, recorder: Recorder::new(1) }
    }
}

impl<T: Token> RingProcess<T> {
    /// Process `me` of a ring in the given order.
    pub(crate) fn new(order: &[u64], me: u64, options: Options) -> RingProcess<T> {
        let roster = Roster::listed(order.iter().copied().map(NodeId).collect()).unwrap();
        let slot = roster.slot(NodeId(me)).unwrap();
        let process = Ring::new(NodeId(me), &options);
        RingProcess { process, roster, now: Time::ZERO, slot, recorder: Recorder::new(1) }
    }

    fn input(
        &mut self,
        handle: impl FnOnce(&mut Ring<T>, &mut Context<'_, Ring<T>>),
    ) -> Vec<Effect<Ring<T>>> {
        let mut cx = self.recorder.context(self.now, self.roster.view(self.slot), DELAY);
        handle(&mut self.process, &mut cx);
        self.recorder.take()
    }

    pub(crate) fn receive(&mut self, from: u64, message: Message<T>) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_message(cx, NodeId(from), message))
    }

    pub(crate) fn campaign(&mut self) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_command(cx, Command::Campaign))
    }

    pub(crate) fn recover(&mut self) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_start(cx, Start::Recovered(None)))
    }

    pub(crate) fn start(&mut self) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_start(cx, Start::Fresh))
    }

    /// Advances the clock and lets the timer expire.
    pub(crate) fn expire(&mut self, timer: Timer, after: Span) -> Vec<Effect<Ring<T>>> {
        self.now = self.now + after;
        self.input(|process, cx| process.on_timer(cx, timer))
    }

    pub(crate) fn suspect(&mut self, peer: u64) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_suspect(cx, NodeId(peer)))
    }

    pub(crate) fn restore(&mut self, peer: u64) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_restore(cx, NodeId(peer)))
    }

    pub(crate) fn set_attribute(&mut self, id: u64, attribute: i64) -> Vec<Effect<Ring<T>>> {
        self.roster.set_attribute(NodeId(id), attribute);
        self.input(|process, cx| process.on_view_change(cx))
    }
}

fn kind_of<T: Token>(message: &Message<T>) -> Kind {
    <Message<T> as suffrage_core::Message>::KINDS[suffrage_core::Message::kind(message)]
}

pub(crate) fn send<T: Token>(to: u64, message: Message<T>) -> Effect<Ring<T>> {
    Effect::Send { to: NodeId(to), message }
}

pub(crate) fn announce_leader<T: Token>(leader: u64, term: u64) -> Effect<Ring<T>> {
    Effect::Announce(Announcement::Elected { leader: NodeId(leader), term: Term(term) })
}

/// The sent messages, each with its addressee.
pub(crate) fn sent<T: Token>(effects: &[Effect<Ring<T>>]) -> Vec<(u64, Message<T>)> {
    let sends = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, message } => Some((to.0, message.clone())),
        _ => None,
    });
    sends.collect()
}

/// The duration of the timer, in message delays.
pub(crate) fn timer<T: Token>(effects: &[Effect<Ring<T>>], wanted: Timer) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::SetTimer { timer, after } if *timer == wanted => Some(after.as_nanos() / DELAY.as_nanos()),
        _ => None,
    })
}

/// All processes of a ring, and the messages between them.
pub(crate) struct TestRing<T: Token> {
    processes: Vec<RingProcess<T>>,
    queue: VecDeque<(u64, u64, Message<T>)>,
    dead: Vec<u64>,
    sent: Vec<Message<T>>,
}

impl<T: Token> TestRing<T> {
    pub(crate) fn new(order: &[u64], options: Options) -> TestRing<T> {
        let processes = order.iter().map(|&id| RingProcess::new(order, id, options)).collect();
        TestRing { processes, queue: VecDeque::new(), dead: Vec::new(), sent: Vec::new() }
    }

    pub(crate) fn at(
        &mut self,
        id: u64,
        handle: impl FnOnce(&mut RingProcess<T>) -> Vec<Effect<Ring<T>>>,
    ) -> &mut TestRing<T> {
        let process =
            self.processes.iter_mut().find(|process| process.roster.id(process.slot).0 == id).unwrap();
        for (to, message) in sent(&handle(process)) {
            self.sent.push(message.clone());
            self.queue.push_back((id, to, message));
        }
        self
    }

    pub(crate) fn kill(&mut self, id: u64) {
        self.dead.push(id);
    }

    /// Delivers messages, oldest first, until none is left or `limit` messages are delivered.
    pub(crate) fn deliver(&mut self, limit: usize) -> &mut TestRing<T> {
        for _ in 0..limit {
            let Some((from, to, message)) = self.queue.pop_front() else { break };
            if !self.dead.contains(&to) {
                self.at(to, |process| process.receive(from, message));
            }
        }
        self
    }

    /// The number of sent messages that the sources count, and the number of the others.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = self.sent.iter().filter(|message| kind_of(message).counted).count();
        (count, self.sent.len() - count)
    }

    /// The number of sent messages of this name.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.sent.iter().filter(|message| kind_of(message).name == name).count()
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// The distinct leaders that the live processes believe in.
    pub(crate) fn leaders(&self) -> Vec<Option<u64>> {
        let live =
            self.processes.iter().filter(|process| !self.dead.contains(&process.roster.id(process.slot).0));
        let mut leaders: Vec<_> =
            live.map(|process| process.process.belief.leader().map(|id| id.0)).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders
    }
}
