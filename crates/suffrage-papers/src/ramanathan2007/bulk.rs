//! Elections by probabilistic quorums, in bulk: without the messages that cannot matter.
//!
//! With 50,000 processes half of which contend, an election takes 47 million messages, and nearly all of them
//! change nothing: a NAK to a contender that has dropped out, a DEC to a mediator that has refused its sender,
//! a REQ that is overtaken by its sender's DEC. In the simulated world each costs a place in a queue and the
//! memory of a mediator. Here they are counted and not carried out. What is carried out is done by the very
//! [`Mediator`] of the protocol, in order of time, so that the result is that of the protocol, message by
//! message, for the same delays. `bulk/tests.rs` plays both by the same delays and compares every count.
//!
//! That rests on four facts about the asynchronous second phase, repaired, without failures and with all
//! contenders beginning at once:
//!
//! - A contender asks a mediator once. So a DEC does nothing at a mediator that neither stands by its sender
//!   nor keeps it waiting, but for the REQ that may still come, which is then dropped.
//! - Whether that REQ is dropped can be told when it would arrive: by then its sender has dropped out or not,
//!   and the delay of the DEC is a matter of chance that nothing else knows of.
//! - Of all NAKs to a contender only the first to arrive counts, and none to one that has dropped out.
//! - Everybody is answered within 8 tau, so that no contender asks others in the place of the silent. Should
//!   one ever have to, the run is none ([`run`] returns nothing) and is left to the simulated world.
//!
//! Delays are uniform up to tau. They are a function of the seed, the kind and the two ends of a message, and
//! not drawn one after the other: so they need not be drawn for messages that do not matter.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use suffrage_algorithms::randomized::figures::RunSummary;
use suffrage_algorithms::randomized::rounds::{number_range, sigma_last};
use suffrage_algorithms::randomized::{Answer, Claim, Mediator, MediatorOutput, State, options::Tables};
use suffrage_core::{Hash, NodeId, Rng, Span};
use suffrage_sim::Contenders;

/// Tau, which is a time unit.
const TAU: u64 = Span::UNIT.as_nanos();
/// A request that is under way is one word: when it arrives, who asks, and whom.
const WORD_BITS: u32 = 64;
/// No request arrives later than after so many bits of time.
const TIME_BITS: u32 = TAU.ilog2() + 1;
const PLACE_BITS: u32 = (WORD_BITS - TIME_BITS) / 2;
/// With more processes than this a request does not fit into a word.
pub const MOST: usize = 1 << PLACE_BITS;
/// How many requests are put in order at a time: as many as fit into the cache. In tests few, so that small
/// groups have as many slices as large ones.
const SLICE: usize = if cfg!(test) { 1 << 6 } else { 1 << 14 };
/// Until when everybody is answered, in tau.
const ANSWERS: u64 = 8;

/// How many messages of each kind were sent.
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
    /// All of them.
    pub fn total(self) -> u64 {
        let Counts { req, ack, nak, potw, potw_ack, dec } = self;
        req + ack + nak + potw + potw_ack + dec
    }
}

/// What came of an election.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Result {
    /// What was sent.
    pub counts: Counts,
    /// What contenders came to.
    pub tally: RunSummary,
    /// Who won, by slot, in order.
    pub winners: Vec<usize>,
    /// When the last belief changed, in nanoseconds; zero if nobody won.
    pub decided: u64,
}

/// What a delay is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Leg {
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
    /// A NAK to a POTW, which its mediator has refused before.
    PotwNak,
    /// A DEC.
    Dec,
    /// The winner's word to everybody.
    Elected,
}

/// What chance decides of an election: everything follows from the seed.
#[derive(Clone, Copy, Debug)]
pub struct Chance(Hash);

impl Chance {
    /// The chance of this seed.
    pub fn new(seed: u64) -> Chance {
        Chance(Hash::new(Hash::new(seed).word(7)))
    }

    /// How long a message between these slots takes, in nanoseconds: up to tau, uniformly.
    #[inline]
    pub fn delay(self, leg: Leg, from: usize, to: usize) -> u64 {
        let bits = self.0.pair((leg as u64) << 32 | from as u64, to as u64);
        ((u128::from(bits) * u128::from(TAU + 1)) >> 64) as u64
    }

    /// The seed of the draws of the process in this slot: its number, then its mediators.
    pub fn luck(self, slot: usize) -> u64 {
        self.0.word(slot as u64)
    }
}

/// An election among so many processes, of whom these contend. None if there are more processes than
/// [`MOST`], or if a contender was not answered in time.
pub fn run(nodes: usize, contenders: Contenders, seed: u64) -> Option<Result> {
    if nodes > MOST {
        return None;
    }
    let mut slots = contenders.draw(seed, (0..nodes).collect());
    slots.sort_unstable();
    let mut election = Election::new(nodes, slots, seed);
    election.play();
    (!election.overdue).then(|| election.result())
}

/// Where a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Asked,
    Potential,
    Won,
    Out,
}

/// A contender. Contenders are known by their places in order of slots, so that the order of their ids is
/// that of their places.
#[derive(Clone, Debug)]
struct Candidate {
    stage: Stage,
    granted: usize,
    confirmed: usize,
    /// When the first NAK that is under way arrives, and of whom.
    refused: Option<(u64, usize)>,
    /// The mediators that have stood by it or kept it waiting.
    holders: Vec<usize>,
}

impl Candidate {
    fn stands(&self) -> bool {
        matches!(self.stage, Stage::Asked | Stage::Potential)
    }
}

/// What happens besides the arrival of requests: a message that matters, or a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Refused { candidate: usize },
    Granted { candidate: usize },
    Claimed { candidate: usize, mediator: usize },
    Confirmed { candidate: usize },
    Declined { candidate: usize, mediator: usize },
    Informed { candidate: usize },
    RanOut { mediator: usize, generation: u32 },
}

/// An election under way.
struct Election {
    nodes: usize,
    chance: Chance,
    needed: usize,
    candidates: Vec<Candidate>,
    // What every request is judged by is kept apart from the rest, so that it stays in the cache.
    /// The slot of each contender.
    slots: Vec<usize>,
    /// Its random number.
    numbers: Vec<u64>,
    /// When it dropped out; the end of time if it has not.
    left: Vec<u64>,
    mediators: Vec<Mediator>,
    /// Below which number each mediator refuses, and is none the wiser.
    bars: Vec<u64>,
    /// How often each mediator's timer was set or stopped.
    generations: Vec<u32>,
    /// When each process hears of a winner first; empty while there is none.
    heard: Vec<u64>,
    /// Winners, with the time.
    won: Vec<(u64, usize)>,
    /// What is to happen, by time, first come first served.
    agenda: BinaryHeap<Reverse<(u64, u64, Event)>>,
    scheduled: u64,
    counts: Counts,
    longest: u64,
    overdue: bool,
}

impl Election {
    fn new(nodes: usize, slots: Vec<usize>, seed: u64) -> Election {
        let chance = Chance::new(seed);
        let range = number_range(nodes as u64);
        let candidate =
            Candidate { stage: Stage::Asked, granted: 0, confirmed: 0, refused: None, holders: Vec::new() };
        Election {
            nodes,
            chance,
            needed: sigma_last(nodes as u64).min(nodes),
            candidates: vec![candidate; slots.len()],
            numbers: slots.iter().map(|&slot| Rng::new(chance.luck(slot)).below(range)).collect(),
            left: vec![u64::MAX; slots.len()],
            slots,
            bars: vec![0; nodes],
            mediators: vec![Mediator::new(Tables::Repaired); nodes],
            generations: vec![0; nodes],
            heard: Vec::new(),
            won: Vec::new(),
            agenda: BinaryHeap::new(),
            scheduled: 0,
            counts: Counts::default(),
            longest: 0,
            overdue: false,
        }
    }

    /// The mediators that a contender asks. `seen` has a place for each process, and nowhere `mark`.
    fn panel(&self, candidate: usize, seen: &mut [u32], mark: u32, mut ask: impl FnMut(usize)) {
        let mut rng = Rng::new(self.chance.luck(self.slots[candidate]));
        rng.below(number_range(self.nodes as u64));
        let mut missing = self.needed;
        while missing > 0 {
            let mediator = rng.below(self.nodes as u64) as usize;
            if std::mem::replace(&mut seen[mediator], mark) != mark {
                missing -= 1;
                ask(mediator);
            }
        }
    }

    fn play(&mut self) {
        let slices = self.requests();
        let length = 1 << (TIME_BITS - slices.len().ilog2());
        for (begins, mut requests) in (0..).step_by(length).zip(slices) {
            // Many are overtaken: better known before they are put in order.
            self.proceed(begins);
            requests.retain(|&request| !self.is_overtaken(request, 0));
            requests.sort_unstable();
            for request in requests {
                self.proceed(request >> (2 * PLACE_BITS));
                if !self.is_overtaken(request, begins) {
                    self.on_request(request);
                }
            }
        }
        self.proceed(u64::MAX);
        self.overdue |= self.candidates.iter().any(Candidate::stands);
    }

    /// All requests, by slices of time, each in one word.
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
            self.panel(candidate, &mut seen, candidate as u32 + 1, |mediator| {
                let at = self.chance.delay(Leg::Req, slot, mediator);
                let word = (at << PLACE_BITS | candidate as u64) << PLACE_BITS | mediator as u64;
                requests[(at >> shift) as usize].push(word);
            });
        }
        requests
    }

    fn unpack(request: u64) -> (u64, usize, usize) {
        let place = |word: u64| word as usize & (MOST - 1);
        (request >> (2 * PLACE_BITS), place(request >> PLACE_BITS), place(request))
    }

    /// Whether a request comes after its sender's DEC, as far as is known yet, and if that was sent since.
    #[inline]
    fn is_overtaken(&self, request: u64, since: u64) -> bool {
        let (at, candidate, mediator) = Election::unpack(request);
        let left = self.left[candidate];
        (since..at).contains(&left) && left + self.decline_takes(candidate, mediator) < at
    }

    fn decline_takes(&self, candidate: usize, mediator: usize) -> u64 {
        self.chance.delay(Leg::Dec, self.slots[candidate], mediator)
    }

    fn on_request(&mut self, request: u64) {
        let (now, candidate, mediator) = Election::unpack(request);
        let (number, contender) = (self.numbers[candidate], NodeId(candidate as u64));
        // One that knows the winner refuses everybody.
        let informed = self.heard.get(mediator).is_some_and(|&heard| heard < now);
        if informed || number < self.bars[mediator] {
            self.counts.nak += 1;
            return self.refuse(now, candidate, mediator, Leg::Nak);
        }
        let ruling = self.mediators[mediator].on_request(Claim { number, contender });
        if self.holds(mediator, candidate) {
            match self.left[candidate] {
                u64::MAX => self.candidates[candidate].holders.push(mediator),
                left => {
                    let at = left + self.decline_takes(candidate, mediator);
                    self.schedule(at, Event::Declined { candidate, mediator });
                }
            }
        }
        self.carry_out(now, mediator, ruling, Leg::Nak);
    }

    /// Whether a mediator stands by a contender or keeps it waiting.
    fn holds(&self, mediator: usize, candidate: usize) -> bool {
        let mediator = &self.mediators[mediator];
        let is = |claim: Option<Claim>| claim.is_some_and(|claim| claim.contender.0 == candidate as u64);
        is(mediator.current()) || is(mediator.waiting())
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.scheduled += 1;
        self.agenda.push(Reverse((at, self.scheduled, event)));
    }

    /// Everything that happens before a moment. A request that arrives at that moment comes first: it was
    /// sent before everything else.
    fn proceed(&mut self, until: u64) {
        while self.agenda.peek().is_some_and(|Reverse((at, ..))| *at < until) {
            let Some(Reverse((now, _, event))) = self.agenda.pop() else { return };
            self.happen(now, event);
        }
    }

    fn happen(&mut self, now: u64, event: Event) {
        match event {
            Event::Refused { candidate } => {
                let contender = &self.candidates[candidate];
                if contender.stands() && contender.refused.is_some_and(|(at, _)| at == now) {
                    self.leave(now, candidate, true);
                }
            }
            Event::Granted { candidate } => self.on_ack(now, candidate),
            Event::Claimed { candidate, mediator } => {
                let ruling = self.mediators[mediator].on_potential_winner(NodeId(candidate as u64));
                self.carry_out(now, mediator, ruling, Leg::PotwNak);
            }
            Event::Confirmed { candidate } => {
                let contender = &mut self.candidates[candidate];
                contender.confirmed += usize::from(contender.stage == Stage::Potential);
                if contender.stage == Stage::Potential && contender.confirmed == self.needed {
                    self.win(now, candidate);
                }
            }
            Event::Declined { candidate, mediator } => {
                let ruling = self.mediators[mediator].on_decline(NodeId(candidate as u64));
                self.carry_out(now, mediator, ruling, Leg::Nak);
            }
            Event::Informed { candidate } => {
                if self.candidates[candidate].stands() {
                    self.leave(now, candidate, false);
                }
            }
            Event::RanOut { mediator, generation } => {
                if self.generations[mediator] == generation {
                    let ruling = self.mediators[mediator].on_timer();
                    self.carry_out(now, mediator, ruling, Leg::Nak);
                }
            }
        }
    }

    /// Below which number a mediator refuses without a change of its state: `act` of Table 7, and row 4.
    fn bar(mediator: &Mediator) -> u64 {
        let number = |claim: Option<Claim>| claim.map_or(0, |claim| claim.number);
        match mediator.state() {
            State::Idle => 0,
            State::Safe | State::PostSafe | State::CloseSafe => {
                number(mediator.current()).max(number(mediator.waiting()))
            }
            State::Final => u64::MAX,
        }
    }

    /// Counts a mediator's answers, and sends those that matter.
    fn carry_out(&mut self, now: u64, mediator: usize, ruling: MediatorOutput, refusal: Leg) {
        self.bars[mediator] = Election::bar(&self.mediators[mediator]);
        for (contender, answer) in ruling.answers.into_iter().flatten() {
            let candidate = contender.0 as usize;
            let (leg, event) = match answer {
                Answer::Nak => {
                    self.counts.nak += 1;
                    self.refuse(now, candidate, mediator, refusal);
                    continue;
                }
                Answer::Ack => {
                    self.counts.ack += 1;
                    (Leg::Ack, Event::Granted { candidate })
                }
                Answer::PotwAck => {
                    self.counts.potw_ack += 1;
                    (Leg::PotwAck, Event::Confirmed { candidate })
                }
            };
            let contender = &self.candidates[candidate];
            if contender.stands() {
                let at = now + self.chance.delay(leg, mediator, self.slots[candidate]);
                // A yes that comes after a no is none.
                if contender.refused.is_none_or(|(refused, _)| at <= refused) {
                    self.schedule(at, event);
                }
            }
        }
        if let Some(taus) = ruling.timer {
            self.generations[mediator] += 1;
            let generation = self.generations[mediator];
            if taus > 0 {
                self.schedule(now + taus * TAU, Event::RanOut { mediator, generation });
            }
        }
    }

    /// Sends a NAK, if it is the first to arrive of those under way.
    fn refuse(&mut self, now: u64, candidate: usize, mediator: usize, leg: Leg) {
        if self.left[candidate] != u64::MAX {
            return;
        }
        let contender = &mut self.candidates[candidate];
        let at = now + self.chance.delay(leg, mediator, self.slots[candidate]);
        if contender.stands() && contender.refused.is_none_or(|(first, _)| at < first) {
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
        self.panel(candidate, &mut vec![0; self.nodes], 1, |mediator| asked.push(mediator));
        for mediator in asked {
            let at = now + self.chance.delay(Leg::Potw, slot, mediator);
            self.schedule(at, Event::Claimed { candidate, mediator });
        }
    }

    fn win(&mut self, now: u64, candidate: usize) {
        self.candidates[candidate].stage = Stage::Won;
        self.longest = self.longest.max(now);
        self.won.push((now, candidate));
        self.heard.resize(self.nodes, u64::MAX);
        for slot in 0..self.nodes {
            self.heard[slot] = self.heard[slot].min(self.hears(now, candidate, slot));
        }
        for other in 0..self.candidates.len() {
            if self.candidates[other].stands() {
                let at = self.hears(now, candidate, self.slots[other]);
                self.schedule(at, Event::Informed { candidate: other });
            }
        }
    }

    /// When a process hears of a winner.
    fn hears(&self, won: u64, winner: usize, slot: usize) -> u64 {
        let from = self.slots[winner];
        if from == slot { won } else { won + self.chance.delay(Leg::Elected, from, slot) }
    }

    /// A contender drops out, and says so to all it has asked but the one that has refused it.
    fn leave(&mut self, now: u64, candidate: usize, refused: bool) {
        let contender = &mut self.candidates[candidate];
        self.overdue |= contender.stage == Stage::Asked && now > ANSWERS * TAU;
        contender.stage = Stage::Out;
        let holders = std::mem::take(&mut contender.holders);
        self.left[candidate] = now;
        self.longest = self.longest.max(now);
        self.counts.dec += (self.needed - usize::from(refused)) as u64;
        for mediator in holders {
            if self.holds(mediator, candidate) {
                let at = now + self.decline_takes(candidate, mediator);
                self.schedule(at, Event::Declined { candidate, mediator });
            }
        }
    }

    fn result(&self) -> Result {
        let thousandths = |nanos: u64| (nanos as f64 * 1e3 / TAU as f64).round() as u32;
        let mut winners: Vec<usize> = self.won.iter().map(|&(_, winner)| self.slots[winner]).collect();
        winners.sort_unstable();
        let tally = RunSummary {
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
        Result { counts: self.counts, tally, winners, decided: self.decided() }
    }

    /// When anybody changed its mind last: of two winners the one of the greater number is believed in.
    fn decided(&self) -> u64 {
        if self.won.len() < 2 {
            return self.heard.iter().copied().max().unwrap_or(0);
        }
        let mut last = 0;
        for slot in 0..self.nodes {
            let mut news: Vec<(u64, (u64, usize))> = self
                .won
                .iter()
                .map(|&(at, winner)| (self.hears(at, winner, slot), (self.numbers[winner], winner)))
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
