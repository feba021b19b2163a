//! A group of processes with a scripted schedule: the mediators and the number of each contender, the time at which it
//! begins, and the delay of every message.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use suffrage_algorithms::randomized::options::{Rounds, Tables};
use suffrage_algorithms::randomized::{Message, Options, Randomized, Timer};
use suffrage_core::{
    Algorithm, Command, Effect, Message as _, NodeId, Process, Recorder, Roster, Span, Time, Timer as _,
};

/// The delay of a message, as a multiple of tau.
pub(crate) type Delay<'s> = Box<dyn FnMut(u64, u64, &Message) -> f64 + 's>;

enum Event {
    Begin(usize),
    Deliver { to: usize, from: NodeId, message: Message },
    Timeout { who: usize, timer: Timer, generation: u64 },
}

pub(crate) struct ScriptedGroup<'s> {
    roster: Roster,
    options: Options,
    processes: Vec<Randomized>,
    recorders: Vec<Recorder<Randomized>>,
    generations: Vec<[u64; Timer::COUNT]>,
    /// The events by time, first-in first-out at equal times.
    events: BTreeMap<(Time, u64), Event>,
    count: u64,
    delay: Delay<'s>,
    pub(crate) now: Time,
    /// The log: a line for each message that arrived, and for each winner.
    pub(crate) log: String,
}

/// The asynchronous second phase alone, by these tables.
pub(crate) fn second_phase(tables: Tables) -> Options {
    Options { rounds: Rounds::Fixed(0), tables, ..Options::default() }
}

impl<'s> ScriptedGroup<'s> {
    pub(crate) fn new(processes: usize, options: Options, seed: u64, delay: Delay<'s>) -> ScriptedGroup<'s> {
        ScriptedGroup {
            roster: Roster::numbered(processes),
            options,
            processes: (1..=processes as u64).map(|id| Randomized::new(NodeId(id), &options)).collect(),
            recorders: (0..processes as u64).map(|slot| Recorder::new(seed * 1_000_003 + slot)).collect(),
            generations: vec![[0; Timer::COUNT]; processes],
            events: BTreeMap::new(),
            count: 0,
            delay,
            now: Time::ZERO,
            log: String::new(),
        }
    }

    /// Schedules the campaign of a process at this time, in tau.
    pub(crate) fn begin(&mut self, id: u64, at: f64) {
        self.schedule(Time::ZERO + Span::from_units(at), Event::Begin(id as usize - 1));
    }

    /// Chooses the seed of a process so that it asks these mediators with this number in the second phase.
    pub(crate) fn force_request(&mut self, id: u64, mediators: &[u64], number: u64) {
        let seed_for_request = self.seed_for_request(id, mediators, number);
        self.set_seed(id, seed_for_request);
    }

    /// Sets the seed of a process.
    pub(crate) fn set_seed(&mut self, id: u64, seed_for_request: u64) {
        self.recorders[id as usize - 1] = Recorder::new(seed_for_request);
    }

    /// The seed with which a process asks these mediators with this number.
    pub(crate) fn seed_for_request(&self, id: u64, mediators: &[u64], number: u64) -> u64 {
        let slot = id as usize - 1;
        let view = self.roster.view(slot);
        let fits = |seed: &u64| {
            let (mut process, mut recorder) = (self.processes[slot].clone(), Recorder::new(*seed));
            process.on_command(&mut recorder.context(Time::ZERO, view, Span::UNIT), Command::Campaign);
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
        (0..1_000_000).find(fits).expect("one of a million seeds fits")
    }

    fn schedule(&mut self, at: Time, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    /// Handles all events.
    pub(crate) fn run_until_quiet(&mut self) {
        while let Some(((at, _), event)) = self.events.pop_first() {
            self.now = at;
            let slot = match &event {
                Event::Begin(slot) => *slot,
                Event::Deliver { to, .. } => *to,
                Event::Timeout { who, timer, generation } => {
                    if self.generations[*who][timer.index()] != *generation {
                        continue;
                    }
                    *who
                }
            };
            let view = self.roster.view(slot);
            let mut cx = self.recorders[slot].context(at, view, Span::UNIT);
            let process = &mut self.processes[slot];
            match event {
                Event::Begin(_) => process.on_command(&mut cx, Command::Campaign),
                Event::Deliver { to, from, message } => {
                    let kind = Message::KINDS[message.kind()].name;
                    let _ = writeln!(self.log, "{at:>6}  {from} {kind} {}", to + 1);
                    process.on_message(&mut cx, from, message);
                }
                Event::Timeout { timer, .. } => process.on_timer(&mut cx, timer),
            }
            self.apply_effects(slot);
        }
    }

    fn apply_effects(&mut self, slot: usize) {
        let from = self.roster.id(slot);
        for effect in self.recorders[slot].take() {
            match effect {
                Effect::Send { to, message } => {
                    // The receiver is not in the group.
                    let Some(to_slot) = self.roster.slot(to) else { continue };
                    let delay = (self.delay)(from.0, to.0, &message);
                    // An infinite delay is a loss.
                    if delay.is_infinite() {
                        continue;
                    }
                    let span = Span::from_units(delay);
                    self.schedule(self.now + span, Event::Deliver { to: to_slot, from, message });
                }
                Effect::SetTimer { timer, after } => {
                    self.generations[slot][timer.index()] += 1;
                    let generation = self.generations[slot][timer.index()];
                    self.schedule(self.now + after, Event::Timeout { who: slot, timer, generation });
                }
                Effect::CancelTimer { timer } => self.generations[slot][timer.index()] += 1,
                // The winner's multicast is dropped, so that late contenders depend on the mediators alone.
                Effect::Multicast { .. } => {}
                Effect::Announce(_) => {
                    let _ = writeln!(self.log, "{:>6}  {from} leads", self.now);
                }
                other => panic!("unexpected effect: {other:?}"),
            }
        }
    }

    /// The winners.
    pub(crate) fn winners(&self) -> Vec<u64> {
        let won = |process: &&Randomized| process.member().record().is_some_and(|record| record.won);
        let index = |process: &Randomized| {
            self.processes
                .iter()
                .position(|other| std::ptr::eq(other, process))
                .expect("the process is in the group") as u64
                + 1
        };
        self.processes.iter().filter(won).map(index).collect()
    }

    /// The longest time of a contender in the second phase, in tau; none if a contender is still in it.
    pub(crate) fn longest(&self) -> Option<f64> {
        let mut longest = 0;
        for process in &self.processes {
            if process.member().contender().is_some() {
                return None;
            }
            longest = longest.max(process.member().record().map_or(0, |record| record.second_phase));
        }
        Some(f64::from(longest) / 1e3)
    }

    pub(crate) fn options(&self) -> &Options {
        &self.options
    }
}
