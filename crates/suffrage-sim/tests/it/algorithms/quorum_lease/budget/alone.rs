//! A single waiting candidate: voters and a candidate without a world. Messages often take no time or the longest time,
//! to find the worst case.

use std::collections::BTreeMap;
use std::sync::Arc;

use suffrage_core::{Announcement, Attribute, NodeId, Rng, Span, Time};
use suffrage_lease::membership::{Configuration, DiskId};
use suffrage_lease::{
    Ask, Boot, Candidate, CandidateEffects, Name, Reply, Request, Saved, Timings, Token, Voter, VoterEffects,
    VoterStart,
};
use suffrage_sim::measure::FailoverCause;

const LEADER: NodeId = NodeId(98);
const WAITING: NodeId = NodeId(99);

enum Event {
    Ask { voter: usize, from: NodeId, ask: Ask },
    Reply { voter: usize, reply: Reply },
}

/// Records the messages that are sent.
struct SentEvents<'n> {
    rng: &'n mut Rng,
    from: usize,
    sent: Vec<Event>,
}

impl VoterEffects for SentEvents<'_> {
    fn save(&mut self, _: &Saved) {}
    fn reply(&mut self, to: NodeId, _: Name, reply: Reply) {
        if to == WAITING {
            self.sent.push(Event::Reply { voter: self.from, reply });
        }
    }
}

impl CandidateEffects for SentEvents<'_> {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        self.sent.push(Event::Ask { voter: voter.0 as usize, from: WAITING, ask });
    }
    fn claim(&mut self, _: NodeId, _: Attribute) {}
    fn announce(&mut self, _: Announcement) {}
    fn lead_until(&mut self, _: Time) {}
    fn rng(&mut self) -> &mut Rng {
        self.rng
    }
}

struct SingleCandidate {
    voters: Vec<Voter>,
    /// A dead voter.
    dead: Option<usize>,
    candidate: Candidate,
    /// The rates of the voters' clocks, and last of the candidate's.
    rates: Vec<f64>,
    delay: Span,
    rng: Rng,
    now: Time,
    /// The messages in flight, by arrival.
    in_flight: BTreeMap<(Time, usize), Event>,
    count: usize,
}

/// The leaderless time after the leader's end, in true time, with one waiting candidate.
pub(crate) fn failover(timings: Timings, rtt: Span, voters: usize, seed: u64, cause: FailoverCause) -> Span {
    let mut world = SingleCandidate::new(timings, rtt, voters, seed);
    let (token, ttl, request) = (Token::after(0), timings.ttl, Request(0));
    let propose = Ask::Propose {
        request,
        token,
        ttl,
        attribute: 0,
        renewal: false,
        value: suffrage_lease::ValueVersion::NONE,
    };
    (0..voters).for_each(|voter| world.deliver(Event::Ask { voter, from: LEADER, ask: propose }));
    // Late enough that the candidate waits in every queue, and before the lease is over.
    let settled = timings.gap * 2 + rtt * 2;
    let end = Time::ZERO + settled + (ttl.scale(0.4) - settled).scale(world.rng.unit());
    world.run(end);
    let last_ask = match cause {
        FailoverCause::Crash => propose,
        FailoverCause::Release => Ask::Release { token, to: None },
    };
    if cause == FailoverCause::Crash && voters > 2 && world.rng.chance(0.5) {
        world.dead = Some(world.rng.below(voters as u64) as usize);
    }
    (0..voters).for_each(|voter| world.send(Event::Ask { voter, from: LEADER, ask: last_ask }));
    world.run(end + ttl * 20);
    world.now.since(end)
}

impl SingleCandidate {
    fn new(timings: Timings, rtt: Span, count: usize, seed: u64) -> SingleCandidate {
        let mut rng = Rng::new(seed);
        let drift = timings.drift.fraction();
        // The slowest or the fastest rates within the bound: the worst case is among them.
        let rates = (0..=count).map(|_| if rng.chance(0.5) { 1.0 - drift } else { 1.0 + drift }).collect();
        let ids: Vec<NodeId> = (0..count).map(|voter| NodeId(voter as u64)).collect();
        let sent_events = &mut SentEvents { rng: &mut rng, from: 0, sent: Vec::new() };
        let founding = Configuration::founding(ids.iter().map(|id| (*id, String::new())), timings.drift);
        let founding = Arc::new(founding.expect("the list is valid"));
        let blank = || VoterStart::Blank(Saved::blank(DiskId(0), Arc::clone(&founding)));
        let start = |_| Voter::start(timings, sent_events, Time::ZERO, blank());
        let voters = (0..count).map(start).collect();
        let candidate = Candidate::new((WAITING, Boot(0)), ids, timings, 0, sent_events, Time::ZERO);
        let (now, in_flight) = (Time::ZERO, BTreeMap::new());
        let delay = rtt.scale(0.5);
        SingleCandidate { voters, dead: None, candidate, rates, delay, rng, now, in_flight, count: 0 }
    }

    fn clock(&self, who: usize) -> Time {
        Time::ZERO + self.now.since(Time::ZERO).scale(self.rates[who])
    }

    /// The true time at which a clock shows this, or just after.
    fn moment(&self, who: usize, shown: Time) -> Time {
        let span = shown.since(Time::ZERO).scale(1.0 / self.rates[who]);
        (Time::ZERO + span + Span::from_nanos(1)).max(self.now)
    }

    fn send(&mut self, event: Event) {
        let delay = match self.rng.below(3) {
            0 => Span::ZERO,
            1 => self.delay,
            _ => self.delay.scale(self.rng.unit()),
        };
        self.count += 1;
        self.in_flight.insert((self.now + delay, self.count), event);
    }

    /// Runs one step of a process, and sends its messages.
    fn step(
        &mut self,
        from: usize,
        step: impl FnOnce(&mut [Voter], &mut Candidate, &mut SentEvents<'_>, Time),
    ) {
        let now = self.clock(from);
        let mut sent_events = SentEvents { rng: &mut self.rng, from, sent: Vec::new() };
        step(&mut self.voters, &mut self.candidate, &mut sent_events, now);
        sent_events.sent.into_iter().for_each(|event| self.send(event));
    }

    fn deliver(&mut self, event: Event) {
        let name = Name::of("alone");
        match event {
            Event::Ask { voter, .. } if self.dead == Some(voter) => {}
            Event::Ask { voter, from, ask } => {
                self.step(voter, |voters, _, sent_events, now| {
                    voters[voter].on_ask(sent_events, now, (from, Boot(0)), name, ask)
                });
            }
            Event::Reply { voter, reply } => {
                let last = self.voters.len();
                let from = NodeId(voter as u64);
                self.step(last, |_, candidate, sent_events, now| {
                    candidate.on_reply(sent_events, now, from, reply)
                });
            }
        }
    }

    /// Runs until this time, or until the candidate leads.
    fn run(&mut self, until: Time) {
        let last = self.voters.len();
        while self.candidate.lease().is_none() {
            let arrival = self.in_flight.keys().next().map_or(Time::MAX, |&(at, _)| at);
            let alive = (0..last).filter(|&voter| self.dead != Some(voter));
            let due =
                alive.filter_map(|voter| Some((self.moment(voter, self.voters[voter].next_due()?), voter)));
            let due = due.chain([(self.moment(last, self.candidate.next_due()), last)]).min();
            let (due, who) = due.expect("the candidate always has something to do");
            let next = due.min(arrival);
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if arrival <= due {
                let (_, event) = self.in_flight.pop_first().expect("something arrives");
                self.deliver(event);
            } else if who == last {
                self.step(last, |_, candidate, sent_events, now| candidate.on_due(sent_events, now));
            } else {
                self.step(who, |voters, _, sent_events, now| voters[who].on_due(sent_events, now));
            }
        }
    }
}
