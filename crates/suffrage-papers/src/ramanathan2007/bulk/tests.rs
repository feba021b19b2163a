//! Comparison of elections in bulk with elections of the processes.

use std::collections::BTreeMap;

use suffrage_algorithms::probabilistic_quorum::{Options, ProbabilisticQuorum};
use suffrage_algorithms::randomized::{Message, Timer};
use suffrage_core::{Algorithm, Command, Effect, Process, Recorder, Roster, Time, Timer as _};

use super::*;
use crate::ramanathan2007::{add, add_in_bulk, quorums};
use crate::study::Study;

enum TraceEvent {
    Begin,
    Hear { from: usize, message: Message },
    Expire { timer: Timer, generation: u64 },
}

/// The processes of the protocol with all their messages, and the random draws of [`bulk`](super).
struct FullElection {
    draws: Draws,
    roster: Roster,
    processes: Vec<ProbabilisticQuorum>,
    recorders: Vec<Recorder<ProbabilisticQuorum>>,
    generations: Vec<[u64; Timer::COUNT]>,
    /// The pending events, by time, then in order of scheduling.
    events: BTreeMap<(Time, u64), (usize, TraceEvent)>,
    scheduled: u64,
    refusals: BTreeMap<(usize, usize), u32>,
    counts: Counts,
    decided: Time,
}

impl FullElection {
    fn new(nodes: usize, contenders: Contenders, seed: u64) -> FullElection {
        let draws = Draws::new(seed);
        let mut played = FullElection {
            draws,
            roster: Roster::numbered(nodes),
            processes: (1..=nodes as u64)
                .map(|id| ProbabilisticQuorum::new(NodeId(id), &Options::default()))
                .collect(),
            recorders: (0..nodes).map(|slot| Recorder::new(draws.process_seed(slot))).collect(),
            generations: vec![[0; Timer::COUNT]; nodes],
            events: BTreeMap::new(),
            scheduled: 0,
            refusals: BTreeMap::new(),
            counts: Counts::default(),
            decided: Time::ZERO,
        };
        let mut slots = contenders.draw(seed, (0..nodes).collect());
        slots.sort_unstable();
        slots.into_iter().for_each(|slot| played.schedule(Time::ZERO, slot, TraceEvent::Begin));
        played
    }

    fn schedule(&mut self, at: Time, slot: usize, event: TraceEvent) {
        self.scheduled += 1;
        self.events.insert((at, self.scheduled), (slot, event));
    }

    fn play(&mut self) {
        while let Some(((now, _), (slot, event))) = self.events.pop_first() {
            let mut cx = self.recorders[slot].context(now, self.roster.view(slot), Span::UNIT);
            let process = &mut self.processes[slot];
            match event {
                TraceEvent::Begin => process.on_command(&mut cx, Command::Campaign),
                TraceEvent::Hear { from, message } => {
                    process.on_message(&mut cx, self.roster.id(from), message);
                }
                TraceEvent::Expire { timer, generation } => {
                    if self.generations[slot][timer.index()] != generation {
                        continue;
                    }
                    process.on_timer(&mut cx, timer);
                }
            }
            self.carry_out(now, slot);
        }
    }

    fn carry_out(&mut self, now: Time, slot: usize) {
        for effect in self.recorders[slot].take() {
            match effect {
                Effect::Send { to, message } => {
                    let to = self.roster.slot(to).expect("members know members");
                    let kind = self.kind(slot, to, &message);
                    self.send(now, kind, slot, to, message);
                }
                Effect::Multicast { message } => {
                    for to in (0..self.processes.len()).filter(|&to| to != slot) {
                        self.send(now, MessageKind::Elected, slot, to, message.clone());
                    }
                }
                Effect::SetTimer { timer, after } => {
                    self.generations[slot][timer.index()] += 1;
                    let generation = self.generations[slot][timer.index()];
                    self.schedule(now + after, slot, TraceEvent::Expire { timer, generation });
                }
                Effect::CancelTimer { timer } => self.generations[slot][timer.index()] += 1,
                Effect::Announce(_) => self.decided = now,
                other => panic!("unexpected effect: {other:?}"),
            }
        }
    }

    fn send(&mut self, now: Time, kind: MessageKind, from: usize, to: usize, message: Message) {
        let takes = Span::from_nanos(self.draws.delay(kind, from, to));
        self.schedule(now + takes, to, TraceEvent::Hear { from, message });
    }

    /// Counts a message, and returns its kind.
    fn kind(&mut self, from: usize, to: usize, message: &Message) -> MessageKind {
        let (count, kind) = match message {
            Message::Req { .. } => (&mut self.counts.req, MessageKind::Req),
            Message::Ack { .. } => (&mut self.counts.ack, MessageKind::Ack),
            Message::Potw { .. } => (&mut self.counts.potw, MessageKind::Potw),
            Message::PotwAck { .. } => (&mut self.counts.potw_ack, MessageKind::PotwAck),
            Message::Dec { .. } => (&mut self.counts.dec, MessageKind::Dec),
            Message::Nak { .. } => {
                let before = self.refusals.entry((from, to)).or_default();
                *before += 1;
                (&mut self.counts.nak, if *before == 1 { MessageKind::Nak } else { MessageKind::PotwNak })
            }
            other => panic!("PQ has no {other:?}"),
        };
        *count += 1;
        kind
    }

    fn result(&self) -> Result {
        let members = || self.processes.iter().map(ProbabilisticQuorum::member);
        let won = members().enumerate().filter(|(_, member)| member.record().is_some_and(|it| it.won));
        Result {
            counts: self.counts,
            summary: RunSummary::of(members()),
            winners: won.map(|(slot, _)| slot).collect(),
            decided: self.decided.as_nanos(),
        }
    }
}

/// With the same delays and draws, all counts of messages, times and winners are the same: for one contender and
/// many, in groups whose quorums always intersect and in groups where they do not.
#[test]
fn bulk_elections_equal_full_elections_with_the_same_delays() {
    let mut several = 0;
    for (nodes, contenders, runs) in [
        (1, Contenders::Count(1), 1),
        (5, Contenders::Share(1.0), 200),
        // Quorums of eight, which are disjoint once in 250 runs.
        (20, Contenders::Count(2), 2_000),
        (30, Contenders::Share(0.5), 200),
        (100, Contenders::Share(0.1), 100),
        (100, Contenders::Share(1.0), 50),
        (300, Contenders::Count(1), 5),
        (300, Contenders::Count(2), 50),
        (300, Contenders::Share(0.5), 20),
    ] {
        for seed in 0..runs {
            let mut played = FullElection::new(nodes, contenders, seed);
            played.play();
            let result = run(nodes, contenders, seed).expect("all requests are answered in time");
            assert_eq!(result, played.result(), "{contenders} of {nodes} contend, seed {seed}");
            several += usize::from(result.winners.len() > 1);
        }
    }
    assert!(several > 0, "some elections have two winners, and they are the same");
}

/// The simulated world draws its delays in another way, so only the means must agree. 300 elections each of 400
/// processes, at two shares: six comparisons at five standard errors, of which one in 300,000 sets of seeds would
/// fail. The seeds are fixed.
#[test]
fn bulk_means_agree_with_the_simulated_world() {
    for share in [0.02, 0.5] {
        let (contenders, mut study) = (Contenders::Share(share), Study::new(11));
        let world = add(quorums(400, contenders), &mut study, "world", 300);
        let bulk = add_in_bulk(400, contenders, &mut study, "bulk", 300);
        let results = study.run_all();
        for figure in ["messages", "time_tau", "longest_second_phase_tau"] {
            let [world, bulk] = [world, bulk].map(|index| results.at(index).mean(figure).unwrap());
            // Half of a 95% interval is 1.96 standard errors.
            let errors = [world, bulk].map(|mean| (mean.hi - mean.lo) / 2.0 / 1.96);
            let error = libm::sqrt(errors[0] * errors[0] + errors[1] * errors[1]);
            println!("{share} {figure}: {world:?} {bulk:?}");
            assert!((world.mean - bulk.mean).abs() < 5.0 * error, "{share} {figure}: {world:?} {bulk:?}");
        }
        for index in [world, bulk] {
            assert_eq!(results.at(index).counts("agreed").unwrap(), (300, 300));
        }
    }
}
