//! Elections by probabilistic quorums in bulk, without the messages that have no effect.
//!
//! With 50,000 processes of which half contend, an election takes 47 million messages. Nearly all of them have no
//! effect: a NAK to a contender that has dropped out, a DEC to a mediator that has refused its sender, a REQ that
//! arrives after its sender's DEC. In the simulated world each costs an event in the queue and memory at a mediator.
//! Here they are only counted. The other messages are handled by the [`Mediator`] of the protocol itself, in order of
//! time, so that the result is that of the protocol, message by message, for the same delays. `bulk/tests.rs` runs
//! both with the same delays and compares all counts.
//!
//! The method rests on four facts about the asynchronous second phase with the repaired tables, without failures, and
//! with all contenders starting at once:
//!
//! - A contender asks a mediator once. A DEC therefore has no effect at a mediator that neither supports its sender
//!   nor keeps it waiting, except on a REQ that arrives later, which is dropped.
//! - At the time that the REQ would arrive, it is known whether it is dropped: its sender has dropped out or not, and
//!   nothing else depends on the random delay of the DEC.
//! - Only the first NAK to arrive at a contender has an effect, and none at a contender that has dropped out.
//! - Every contender is answered within 8 tau, so that no contender asks replacements for silent mediators. If a
//!   contender ever had to, [`run`] returns `None`, and the caller uses the simulated world.
//!
//! Delays are uniform up to tau. A delay is a hash of the seed, the kind and the two ends of a message, not the next
//! draw of a generator, so that messages without effect need no draws.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use suffrage_algorithms::randomized::figures::RunSummary;
use suffrage_algorithms::randomized::rounds::{number_range, sigma_last};
use suffrage_algorithms::randomized::{Answer, Claim, Mediator, MediatorOutput, State, options::Tables};
use suffrage_core::{Hash, NodeId, Rng, Span};
use suffrage_sim::Contenders;

/// Tau: one time unit, in nanoseconds.
const TAU: u64 = Span::UNIT.as_nanos();
/// The size of a request in flight: arrival time, contender and mediator in one word.
const WORD_BITS: u32 = 64;
/// The bits of an arrival time: requests arrive within tau.
const TIME_BITS: u32 = TAU.ilog2() + 1;
const SLOT_BITS: u32 = (WORD_BITS - TIME_BITS) / 2;
/// The maximum number of processes: with more, a request does not fit into a word.
pub const MAX_NODES: usize = 1 << SLOT_BITS;
/// The number of requests that are sorted at a time: as many as fit into the cache. Tests use a small number, so that
/// small groups have as many slices as large ones.
const SLICE: usize = if cfg!(test) { 1 << 6 } else { 1 << 14 };
/// The time by which every contender is answered, in tau.
const ANSWERS: u64 = 8;

/// The number of messages of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// REQ.
    pub req: u64,
    /// ACK to REQ.
    pub ack: u64,
    /// NAK.
    pub nak: u64,
    /// POTW.
    pub potw: u64,
    /// ACK to POTW.
    pub potw_ack: u64,
    /// DEC.
    pub dec: u64,
}

impl Counts {
    /// The number of all messages.
    pub fn total(self) -> u64 {
        let Counts { req, ack, nak, potw, potw_ack, dec } = self;
        req + ack + nak + potw + potw_ack + dec
    }
}

/// The result of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Result {
    /// The messages.
    pub counts: Counts,
    /// The results of the contenders.
    pub summary: RunSummary,
    /// The winners by slot, in increasing order.
    pub winners: Vec<usize>,
    /// The time of the last change of belief, in nanoseconds; zero without a winner.
    pub decided: u64,
}

/// The kinds of message that differ in their delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum MessageKind {
    /// A REQ.
    Req,
    /// An ACK.
    Ack,
    /// A NAK to a REQ.
    Nak,
    /// A POTW.
    Potw,
    /// An ACK to a POTW.
    PotwAck,
    /// A NAK to a POTW whose sender the mediator has refused before.
    PotwNak,
    /// A DEC.
    Dec,
    /// The winner's announcement to all processes.
    Elected,
}

/// The random draws of an election, all determined by the seed.
#[derive(Clone, Copy, Debug)]
pub struct Draws(Hash);

impl Draws {
    /// The draws of this seed.
    pub fn new(seed: u64) -> Draws {
        Draws(Hash::new(Hash::new(seed).word(7)))
    }

    /// The delay of a message between these slots, in nanoseconds: uniform up to tau.
    #[inline]
    pub fn delay(self, kind: MessageKind, from: usize, to: usize) -> u64 {
        let bits = self.0.pair((kind as u64) << 32 | from as u64, to as u64);
        ((u128::from(bits) * u128::from(TAU + 1)) >> 64) as u64
    }

    /// The seed of the generator of the process in this slot, which draws its number, then its mediators.
    pub fn process_seed(self, slot: usize) -> u64 {
        self.0.word(slot as u64)
    }
}

/// Runs an election. Returns `None` if there are more than [`MAX_NODES`] processes, or if a contender is not answered
/// in time.
pub fn run(nodes: usize, contenders: Contenders, seed: u64) -> Option<Result> {
    if nodes > MAX_NODES {
        return None;
    }
    let mut slots = contenders.draw(seed, (0..nodes).collect());
    slots.sort_unstable();
    let mut election = Election::new(nodes, slots, seed);
    election.run();
    (!election.overdue).then(|| election.result())
}

/// The stage of a contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    Potential,
    Won,
    Out,
}

/// A contender. Contenders are numbered in order of slots, so that the order of numbers is the order of ids.
#[derive(Clone, Debug)]
struct Candidate {
    stage: Stage,
    granted: usize,
    confirmed: usize,
    /// The arrival time and the sender of the first NAK in flight.
    refused: Option<(u64, usize)>,
    /// The mediators that have supported the contender or kept it waiting.
    holders: Vec<usize>,
}

impl Candidate {
    fn is_contending(&self) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Potential)
    }
}

/// An event other than the arrival of a request: a message with an effect, or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Refused { candidate: usize },
    Granted { candidate: usize },
    Claimed { candidate: usize, mediator: usize },
    Confirmed { candidate: usize },
    Declined { candidate: usize, mediator: usize },
    Informed { candidate: usize },
    Expired { mediator: usize, generation: u32 },
}

/// An election in progress.
struct Election {
    nodes: usize,
    draws: Draws,
    needed: usize,
    candidates: Vec<Candidate>,
    // The fields that every request reads are stored apart from the rest, so that they stay in the cache.
    /// The slot of each contender.
    slots: Vec<usize>,
    /// The random number of each contender.
    numbers: Vec<u64>,
    /// The time at which each contender dropped out; `u64::MAX` if it has not.
    dropped_out: Vec<u64>,
    mediators: Vec<Mediator>,
    /// The number below which each mediator refuses without a change of its state.
    thresholds: Vec<u64>,
    /// The number of times that each mediator's timer was set or cancelled.
    generations: Vec<u32>,
    /// The time at which each process first learns a winner; empty while there is none.
    informed: Vec<u64>,
    /// The winners, with the times of their wins.
    won: Vec<(u64, usize)>,
    /// The pending events, by time, then in order of scheduling.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    counts: Counts,
    longest: u64,
    overdue: bool,
}

impl Election {
    fn new(nodes: usize, slots: Vec<usize>, seed: u64) -> Election {
        let draws = Draws::new(seed);
        let range = number_range(nodes as u64);
        let candidate =
            Candidate { stage: Stage::Asked, granted: 0, confirmed: 0, refused: None, holders: Vec::new() };
        Election {
            nodes,
            draws,
            needed: sigma_last(nodes as u64).min(nodes),
            candidates: vec![candidate; slots.len()],
            numbers: slots.iter().map(|&slot| Rng::new(draws.process_seed(slot)).below(range)).collect(),
            dropped_out: vec![u64::MAX; slots.len()],
            slots,
            thresholds: vec![0; nodes],
            mediators: vec![Mediator::new(Tables::Repaired); nodes],
            generations: vec![0; nodes],
            informed: Vec::new(),
            won: Vec::new(),
            events: BinaryHeap::new(),
            scheduled: 0,
            counts: Counts::default(),
            longest: 0,
            overdue: false,
        }
    }

    /// Draws the mediators that a contender asks. `seen` has an entry for each process, none of which is `tag`.
    fn draw_mediators(&self, candidate: usize, seen: &mut [u32], tag: u32, mut ask: impl FnMut(usize)) {
        let mut rng = Rng::new(self.draws.process_seed(self.slots[candidate]));
        rng.below(number_range(self.nodes as u64));
        let mut missing = self.needed;
        while missing > 0 {
            let mediator = rng.below(self.nodes as u64) as usize;
            if std::mem::replace(&mut seen[mediator], tag) != tag {
                missing -= 1;
                ask(mediator);
            }
        }
    }

    fn run(&mut self) {
        let slices = self.requests();
        let length = 1 << (TIME_BITS - slices.len().ilog2());
        for (begins, mut requests) in (0..).step_by(length).zip(slices) {
            // Many requests are overtaken: removing them first makes sorting cheaper.
            self.run_until(begins);
            requests.retain(|&request| !self.is_overtaken(request, 0));
            requests.sort_unstable();
            for request in requests {
                self.run_until(request >> (2 * SLOT_BITS));
                if !self.is_overtaken(request, begins) {
                    self.on_request(request);
                }
            }
        }
        self.run_until(u64::MAX);
        self.overdue |= self.candidates.iter().any(Candidate::is_contending);
    }

    /// All requests, one word each, in slices of time.
    fn requests(&mut self) -> Vec<Vec<u64>> {
        let total = self.candidates.len() * self.needed;
        self.counts.req = total as u64;
        let slices = (total / SLICE).next_power_of_two().min(1 << 12);
        let shift = TIME_BITS - slices.ilog2();
        let each = total / slices;
        let mut requests: Vec<Vec<u64>> = (0..slices).map(|_| Vec::with_capacity(each + each / 8)).collect();
        let mut seen = vec![0; self.nodes];
        for candidate in 0..self.candidates.len() {
            let slot = self.slots[candidate];
            self.draw_mediators(candidate, &mut seen, candidate as u32 + 1, |mediator| {
                let at = self.draws.delay(MessageKind::Req, slot, mediator);
                let word = (at << SLOT_BITS | candidate as u64) << SLOT_BITS | mediator as u64;
                requests[(at >> shift) as usize].push(word);
            });
        }
        requests
    }

    fn unpack(request: u64) -> (u64, usize, usize) {
        let slot = |word: u64| word as usize & (MAX_NODES - 1);
        (request >> (2 * SLOT_BITS), slot(request >> SLOT_BITS), slot(request))
    }

    /// Returns whether a request arrives after its sender's DEC, if the DEC is known yet and was sent at `since` or
    /// later.
    #[inline]
    fn is_overtaken(&self, request: u64, since: u64) -> bool {
        let (at, candidate, mediator) = Election::unpack(request);
        let dropped_out = self.dropped_out[candidate];
        (since..at).contains(&dropped_out) && dropped_out + self.dec_delay(candidate, mediator) < at
    }

    fn dec_delay(&self, candidate: usize, mediator: usize) -> u64 {
        self.draws.delay(MessageKind::Dec, self.slots[candidate], mediator)
    }

    fn on_request(&mut self, request: u64) {
        let (now, candidate, mediator) = Election::unpack(request);
        let (number, contender) = (self.numbers[candidate], NodeId(candidate as u64));
        // A mediator that knows the winner refuses all contenders.
        let informed = self.informed.get(mediator).is_some_and(|&informed| informed < now);
        if informed || number < self.thresholds[mediator] {
            self.counts.nak += 1;
            return self.refuse(now, candidate, mediator, MessageKind::Nak);
        }
        let output = self.mediators[mediator].on_request(Claim { number, contender });
        if self.holds(mediator, candidate) {
            match self.dropped_out[candidate] {
                u64::MAX => self.candidates[candidate].holders.push(mediator),
                dropped_out => {
                    let at = dropped_out + self.dec_delay(candidate, mediator);
                    self.schedule(at, Event::Declined { candidate, mediator });
                }
            }
        }
        self.apply_output(now, mediator, output, MessageKind::Nak);
    }

    /// Returns whether a mediator supports a contender or keeps it waiting.
    fn holds(&self, mediator: usize, candidate: usize) -> bool {
        let mediator = &self.mediators[mediator];
        let is = |claim: Option<Claim>| claim.is_some_and(|claim| claim.contender.0 == candidate as u64);
        is(mediator.current()) || is(mediator.waiting())
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.events.push(Reverse((at, self.scheduled, event)));
    }

    /// Handles all events before `until`. A request that arrives at that very time comes first, because it was sent
    /// before everything else.
    fn run_until(&mut self, until: u64) {
        while self.events.peek().is_some_and(|Reverse((at, ..))| *at < until) {
            let Some(Reverse((now, _, event))) = self.events.pop() else { return };
            self.on_event(now, event);
        }
    }

    fn on_event(&mut self, now: u64, event: Event) {
        match event {
            Event::Refused { candidate } => {
                let contender = &self.candidates[candidate];
                if contender.is_contending() && contender.refused.is_some_and(|(at, _)| at == now) {
                    self.drop_out(now, candidate, true);
                }
            }
            Event::Granted { candidate } => self.on_ack(now, candidate),
            Event::Claimed { candidate, mediator } => {
                let output = self.mediators[mediator].on_potential_winner(NodeId(candidate as u64));
                self.apply_output(now, mediator, output, MessageKind::PotwNak);
            }
            Event::Confirmed { candidate } => {
                let contender = &mut self.candidates[candidate];
                contender.confirmed += usize::from(contender.stage == Stage::Potential);
                if contender.stage == Stage::Potential && contender.confirmed == self.needed {
                    self.win(now, candidate);
                }
            }
            Event::Declined { candidate, mediator } => {
                let output = self.mediators[mediator].on_decline(NodeId(candidate as u64));
                self.apply_output(now, mediator, output, MessageKind::Nak);
            }
            Event::Informed { candidate } => {
                if self.candidates[candidate].is_contending() {
                    self.drop_out(now, candidate, false);
                }
            }
            Event::Expired { mediator, generation } => {
                if self.generations[mediator] == generation {
                    let output = self.mediators[mediator].on_timer();
                    self.apply_output(now, mediator, output, MessageKind::Nak);
                }
            }
        }
    }

    /// The number below which a mediator refuses without a change of its state: `act` of Table 7, and row 4.
    fn threshold(mediator: &Mediator) -> u64 {
        let number = |claim: Option<Claim>| claim.map_or(0, |claim| claim.number);
        match mediator.state() {
            State::Idle => 0,
            State::Safe | State::PostSafe | State::CloseSafe => {
                number(mediator.current()).max(number(mediator.waiting()))
            }
            State::Final => u64::MAX,
        }
    }

    /// Counts a mediator's answers, and schedules those with an effect.
    fn apply_output(&mut self, now: u64, mediator: usize, output: MediatorOutput, nak_kind: MessageKind) {
        self.thresholds[mediator] = Election::threshold(&self.mediators[mediator]);
        for (contender, answer) in output.answers.into_iter().flatten() {
            let candidate = contender.0 as usize;
            let (kind, event) = match answer {
                Answer::Nak => {
                    self.counts.nak += 1;
                    self.refuse(now, candidate, mediator, nak_kind);
                    continue;
                }
                Answer::Ack => {
                    self.counts.ack += 1;
                    (MessageKind::Ack, Event::Granted { candidate })
                }
                Answer::PotwAck => {
                    self.counts.potw_ack += 1;
                    (MessageKind::PotwAck, Event::Confirmed { candidate })
                }
            };
            let contender = &self.candidates[candidate];
            if contender.is_contending() {
                let at = now + self.draws.delay(kind, mediator, self.slots[candidate]);
                // An ACK that arrives after a NAK has no effect.
                if contender.refused.is_none_or(|(refused, _)| at <= refused) {
                    self.schedule(at, event);
                }
            }
        }
        if let Some(taus) = output.timer {
            self.generations[mediator] += 1;
            let generation = self.generations[mediator];
            if taus > 0 {
                self.schedule(now + taus * TAU, Event::Expired { mediator, generation });
            }
        }
    }

    /// Schedules a NAK, if it is the first to arrive of those in flight.
    fn refuse(&mut self, now: u64, candidate: usize, mediator: usize, kind: MessageKind) {
        if self.dropped_out[candidate] != u64::MAX {
            return;
        }
        let contender = &mut self.candidates[candidate];
        let at = now + self.draws.delay(kind, mediator, self.slots[candidate]);
        if contender.is_contending() && contender.refused.is_none_or(|(first, _)| at < first) {
            contender.refused = Some((at, mediator));
            self.schedule(at, Event::Refused { candidate });
        }
    }

    fn on_ack(&mut self, now: u64, candidate: usize) {
        let contender = &mut self.candidates[candidate];
        if contender.stage != Stage::Asked {
            return;
        }
        contender.granted += 1;
        if contender.granted < self.needed {
            return;
        }
        contender.stage = Stage::Potential;
        self.overdue |= now > ANSWERS * TAU;
        self.counts.potw += self.needed as u64;
        let slot = self.slots[candidate];
        let mut asked = Vec::with_capacity(self.needed);
        self.draw_mediators(candidate, &mut vec![0; self.nodes], 1, |mediator| asked.push(mediator));
        for mediator in asked {
            let at = now + self.draws.delay(MessageKind::Potw, slot, mediator);
            self.schedule(at, Event::Claimed { candidate, mediator });
        }
    }

    fn win(&mut self, now: u64, candidate: usize) {
        self.candidates[candidate].stage = Stage::Won;
        self.longest = self.longest.max(now);
        self.won.push((now, candidate));
        self.informed.resize(self.nodes, u64::MAX);
        for slot in 0..self.nodes {
            self.informed[slot] = self.informed[slot].min(self.informed_at(now, candidate, slot));
        }
        for other in 0..self.candidates.len() {
            if self.candidates[other].is_contending() {
                let at = self.informed_at(now, candidate, self.slots[other]);
                self.schedule(at, Event::Informed { candidate: other });
            }
        }
    }

    /// The time at which a process learns a winner.
    fn informed_at(&self, won: u64, winner: usize, slot: usize) -> u64 {
        let from = self.slots[winner];
        if from == slot { won } else { won + self.draws.delay(MessageKind::Elected, from, slot) }
    }

    /// Drops a contender out, and counts its DECs to all mediators that it asked, except the one that refused it.
    fn drop_out(&mut self, now: u64, candidate: usize, refused: bool) {
        let contender = &mut self.candidates[candidate];
        self.overdue |= contender.stage == Stage::Asked && now > ANSWERS * TAU;
        contender.stage = Stage::Out;
        let holders = std::mem::take(&mut contender.holders);
        self.dropped_out[candidate] = now;
        self.longest = self.longest.max(now);
        self.counts.dec += (self.needed - usize::from(refused)) as u64;
        for mediator in holders {
            if self.holds(mediator, candidate) {
                let at = now + self.dec_delay(candidate, mediator);
                self.schedule(at, Event::Declined { candidate, mediator });
            }
        }
    }

    fn result(&self) -> Result {
        let thousandths = |nanos: u64| (nanos as f64 * 1e3 / TAU as f64).round() as u32;
        let mut winners: Vec<usize> = self.won.iter().map(|&(_, winner)| self.slots[winner]).collect();
        winners.sort_unstable();
        let summary = RunSummary {
            processes: self.nodes,
            term: u32::from(!self.candidates.is_empty()),
            winners: winners.len(),
            contenders: Vec::new(),
            all_contenders: self.candidates.len(),
            finalists: self.candidates.len(),
            rounds: (!winners.is_empty()).then_some(1),
            time: self.won.iter().map(|&(at, _)| thousandths(at)).max(),
            longest_second_phase: thousandths(self.longest),
            hops: 0,
        };
        Result { counts: self.counts, summary, winners, decided: self.decided() }
    }

    /// The time of the last change of belief: of two winners, processes follow the one with the greater number.
    fn decided(&self) -> u64 {
        if self.won.len() < 2 {
            return self.informed.iter().copied().max().unwrap_or(0);
        }
        let mut last = 0;
        for slot in 0..self.nodes {
            let mut news: Vec<(u64, (u64, usize))> = self
                .won
                .iter()
                .map(|&(at, winner)| (self.informed_at(at, winner, slot), (self.numbers[winner], winner)))
                .collect();
            news.sort_unstable();
            let mut best = None;
            for (at, winner) in news {
                if best < Some(winner) {
                    (best, last) = (Some(winner), last.max(at));
                }
            }
        }
        last
    }
}

#[cfg(test)]
mod tests;
