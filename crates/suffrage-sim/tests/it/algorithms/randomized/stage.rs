//! A stage on which processes play to a script: who asks whom with which number, when each begins, and how
//! long every message takes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use suffrage_algorithms::randomized::options::{Rounds, Tables};
use suffrage_algorithms::randomized::{Message, Options, Randomized, Timer};
use suffrage_core::{
    Algorithm, Command, Effect, Message as _, NodeId, Process, Recorder, Roster, Span, Time, Timer as _,
};

/// How long a message takes, as a multiple of tau.
pub(crate) type Delay<'s> = Box<dyn FnMut(u64, u64, &Message) -> f64 + 's>;

enum Event {
    Begin(usize),
    Hear { to: usize, from: NodeId, message: Message },
    Expire { who: usize, timer: Timer, generation: u64 },
}

pub(crate) struct Stage<'s> {
    roster: Roster,
    options: Options,
    players: Vec<Randomized>,
    recorders: Vec<Recorder<Randomized>>,
    generations: Vec<[u64; Timer::COUNT]>,
    /// By time, then first come first served.
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    delay: Delay<'s>,
    pub(crate) now: Time,
    /// The exchange, a line for each message that arrived.
    pub(crate) script: String,
}

/// The asynchronous second phase alone, by these tables.
pub(crate) fn second_phase(tables: Tables) -> Options {
    Options { rounds: Rounds::Fixed(0), tables, ..Options::default() }
}

impl<'s> Stage<'s> {
    pub(crate) fn new(players: usize, options: Options, seed: u64, delay: Delay<'s>) -> Stage<'s> {
        Stage {
            roster: Roster::numbered(players),
            options,
            players: (1..=players as u64).map(|id| Randomized::new(NodeId(id), &options)).collect(),
            recorders: (0..players as u64).map(|slot| Recorder::new(seed * 1_000_003 + slot)).collect(),
            generations: vec![[0; Timer::COUNT]; players],
            events: BTreeMap::new(),
            count: 0,
            delay,
            now: Time::ZERO,
            script: String::new(),
        }
    }

    /// Has a player contend at this moment, in tau.
    pub(crate) fn begin(&mut self, id: u64, at: f64) {
        self.schedule(Time::ZERO + Span::from_units(at), Event::Begin(id as usize - 1));
    }

    /// Chooses a player's luck so that it asks these mediators with this number in the second phase.
    pub(crate) fn cast(&mut self, id: u64, mediators: &[u64], number: u64) {
        let luck = self.luck(id, mediators, number);
        self.recast(id, luck);
    }

    /// Gives a player the luck that another [`cast`](Stage::cast) has found.
    pub(crate) fn recast(&mut self, id: u64, luck: u64) {
        self.recorders[id as usize - 1] = Recorder::new(luck);
    }

    /// The seed with which a player asks these mediators with this number.
    pub(crate) fn luck(&self, id: u64, mediators: &[u64], number: u64) -> u64 {
        let slot = id as usize - 1;
        let view = self.roster.view(slot);
        let fits = |seed: &u64| {
            let (mut player, mut recorder) = (self.players[slot].clone(), Recorder::new(*seed));
            player.on_command(&mut recorder.context(Time::ZERO, view, Span::UNIT), Command::Campaign);
            let mut asked = Vec::new();
            for effect in recorder.take() {
                if let Effect::Send { to, message: Message::Req { number: drawn, .. } } = effect
                    && drawn == number
                {
                    asked.push(to.0);
                }
            }
            asked == mediators
        };
        (0..1_000_000).find(fits).expect("chance can be as kind as that")
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Plays until nothing is left to happen.
    pub(crate) fn play(&mut self) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            self.now = at;
            let slot = match &event {
                Event::Begin(slot) => *slot,
                Event::Hear { to, .. } => *to,
                Event::Expire { who, timer, generation } => {
                    if self.generations[*who][timer.index()] != *generation {
                        continue;
                    }
                    *who
                }
            };
            let view = self.roster.view(slot);
            let mut cx = self.recorders[slot].context(at, view, Span::UNIT);
            let player = &mut self.players[slot];
            match event {
                Event::Begin(_) => player.on_command(&mut cx, Command::Campaign),
                Event::Hear { to, from, message } => {
                    let kind = Message::KINDS[message.kind()].name;
                    let _ = writeln!(self.script, "{at:>6}  {from} {kind} {}", to + 1);
                    player.on_message(&mut cx, from, message);
                }
                Event::Expire { timer, .. } => player.on_timer(&mut cx, timer),
            }
            self.carry_out(slot);
        }
    }

    fn carry_out(&mut self, slot: usize) {
        let from = self.roster.id(slot);
        for effect in self.recorders[slot].take() {
            match effect {
                Effect::Send { to, message } => {
                    // A stranger is never reached.
                    let Some(to_slot) = self.roster.slot(to) else { continue };
                    let delay = (self.delay)(from.0, to.0, &message);
                    // What takes for ever is lost.
                    if delay.is_infinite() {
                        continue;
                    }
                    let span = Span::from_units(delay);
                    self.schedule(self.now + span, Event::Hear { to: to_slot, from, message });
                }
                Effect::SetTimer { timer, after } => {
                    self.generations[slot][timer.index()] += 1;
                    let generation = self.generations[slot][timer.index()];
                    self.schedule(self.now + after, Event::Expire { who: slot, timer, generation });
                }
                Effect::CancelTimer { timer } => self.generations[slot][timer.index()] += 1,
                // Nobody hears of the winner, so that late contenders find out by the protocol.
                Effect::Multicast { .. } => {}
                Effect::Announce(_) => {
                    let _ = writeln!(self.script, "{:>6}  {from} leads", self.now);
                }
                other => panic!("nobody does this: {other:?}"),
            }
        }
    }

    /// Who has won.
    pub(crate) fn winners(&self) -> Vec<u64> {
        let won = |player: &&Randomized| player.member().record().is_some_and(|record| record.won);
        let place = |player: &Randomized| {
            self.players.iter().position(|other| std::ptr::eq(other, player)).expect("it plays") as u64 + 1
        };
        self.players.iter().filter(won).map(place).collect()
    }

    /// How long anybody was in the second phase, in tau; none if somebody still is.
    pub(crate) fn longest(&self) -> Option<f64> {
        let mut longest = 0;
        for player in &self.players {
            if player.member().contender().is_some() {
                return None;
            }
            longest = longest.max(player.member().record().map_or(0, |record| record.second_phase));
        }
        Some(f64::from(longest) / 1e3)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}
