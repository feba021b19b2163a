//! A ring on a table: processes and a queue of messages, without time.

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

/// No acknowledgements, and the given repair.
pub(crate) fn options<T: Token>(repair: &str) -> Options {
    let mut options = Options::default();
    for (name, value) in [("repair", repair), ("hop-timeout", "off")] {
        let parameter = Ring::<T>::PARAMETERS.iter().find(|parameter| parameter.name == name).unwrap();
        (parameter.set)(&mut options, value).unwrap();
    }
    options
}

/// One process, and what it does.
pub(crate) struct One<T: Token> {
    pub(crate) process: Ring<T>,
    pub(crate) roster: Roster,
    pub(crate) now: Time,
    slot: usize,
    recorder: Recorder<Ring<T>>,
}

impl<T: Token> Clone for One<T> {
    fn clone(&self) -> One<T> {
        let (process, roster) = (self.process.clone(), self.roster.clone());
        One { process, roster, now: self.now, slot: self.slot, recorder: Recorder::new(1) }
    }
}

impl<T: Token> One<T> {
    /// Process `me` of a ring in the given order.
    pub(crate) fn new(order: &[u64], me: u64, options: Options) -> One<T> {
        let roster = Roster::listed(order.iter().copied().map(NodeId).collect()).unwrap();
        let slot = roster.slot(NodeId(me)).unwrap();
        let process = Ring::new(NodeId(me), &options);
        One { process, roster, now: Time::ZERO, slot, recorder: Recorder::new(1) }
    }

    fn input(&mut self, act: impl FnOnce(&mut Ring<T>, &mut Context<'_, Ring<T>>)) -> Vec<Effect<Ring<T>>> {
        let mut cx = self.recorder.context(self.now, self.roster.view(self.slot), DELAY);
        act(&mut self.process, &mut cx);
        self.recorder.take()
    }

    pub(crate) fn hear(&mut self, from: u64, message: Message<T>) -> Vec<Effect<Ring<T>>> {
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

    /// Lets the timer run out.
    pub(crate) fn run_out(&mut self, timer: Timer, after: Span) -> Vec<Effect<Ring<T>>> {
        self.now = self.now + after;
        self.input(|process, cx| process.on_timer(cx, timer))
    }

    pub(crate) fn suspect(&mut self, peer: u64) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_suspect(cx, NodeId(peer)))
    }

    pub(crate) fn restore(&mut self, peer: u64) -> Vec<Effect<Ring<T>>> {
        self.input(|process, cx| process.on_restore(cx, NodeId(peer)))
    }

    pub(crate) fn rank_changes(&mut self, id: u64, attribute: i64) -> Vec<Effect<Ring<T>>> {
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

pub(crate) fn believe<T: Token>(leader: u64, term: u64) -> Effect<Ring<T>> {
    Effect::Announce(Announcement::Elected { leader: NodeId(leader), term: Term(term) })
}

/// What was sent, to whom.
pub(crate) fn sent<T: Token>(effects: &[Effect<Ring<T>>]) -> Vec<(u64, Message<T>)> {
    let sends = effects.iter().filter_map(|effect| match effect {
        Effect::Send { to, message } => Some((to.0, message.clone())),
        _ => None,
    });
    sends.collect()
}

/// How long the timer was set for.
pub(crate) fn timer<T: Token>(effects: &[Effect<Ring<T>>], wanted: Timer) -> Option<u64> {
    effects.iter().find_map(|effect| match effect {
        Effect::SetTimer { timer, after } if *timer == wanted => Some(after.as_nanos() / DELAY.as_nanos()),
        _ => None,
    })
}

/// All processes of a ring, and the messages between them.
pub(crate) struct Table<T: Token> {
    processes: Vec<One<T>>,
    queue: VecDeque<(u64, u64, Message<T>)>,
    dead: Vec<u64>,
    sent: Vec<Message<T>>,
}

impl<T: Token> Table<T> {
    pub(crate) fn new(order: &[u64], options: Options) -> Table<T> {
        let processes = order.iter().map(|&id| One::new(order, id, options)).collect();
        Table { processes, queue: VecDeque::new(), dead: Vec::new(), sent: Vec::new() }
    }

    pub(crate) fn at(
        &mut self,
        id: u64,
        act: impl FnOnce(&mut One<T>) -> Vec<Effect<Ring<T>>>,
    ) -> &mut Table<T> {
        let one = self.processes.iter_mut().find(|one| one.roster.id(one.slot).0 == id).unwrap();
        for (to, message) in sent(&act(one)) {
            self.sent.push(message.clone());
            self.queue.push_back((id, to, message));
        }
        self
    }

    pub(crate) fn kill(&mut self, id: u64) {
        self.dead.push(id);
    }

    /// Delivers messages, oldest first, until there are none left or `limit` have been.
    pub(crate) fn deliver(&mut self, limit: usize) -> &mut Table<T> {
        for _ in 0..limit {
            let Some((from, to, message)) = self.queue.pop_front() else { break };
            if !self.dead.contains(&to) {
                self.at(to, |one| one.hear(from, message));
            }
        }
        self
    }

    /// How many messages were sent: those the sources count, and the others.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let count = self.sent.iter().filter(|message| kind_of(message).counted).count();
        (count, self.sent.len() - count)
    }

    /// How many messages of this name were sent.
    pub(crate) fn count(&self, name: &str) -> usize {
        self.sent.iter().filter(|message| kind_of(message).name == name).count()
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.queue.is_empty()
    }

    /// Whom the live processes believe in, each once.
    pub(crate) fn leaders(&self) -> Vec<Option<u64>> {
        let live = self.processes.iter().filter(|one| !self.dead.contains(&one.roster.id(one.slot).0));
        let mut leaders: Vec<_> = live.map(|one| one.process.outlook.leader().map(|id| id.0)).collect();
        leaders.sort_unstable();
        leaders.dedup();
        leaders
    }
}
