//! W2: rumour gossip. Every process, once a round, tells a random peer whether it knows the rumour.

use std::cmp::Reverse;

use serde::{Deserialize, Serialize};
use suffrage_core::{Command, Context, NodeId, Process, Rng, Roster, Span, Start, Time};
use suffrage_sim::{Latency, World};

use crate::Work;

/// The length of a round, and the longest delay of a message.
const ROUND: Span = Span::UNIT;
const LOSS: f64 = 0.01;

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Rumour {
    known: bool,
}

suffrage_core::message_kinds!(Rumour);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Round;

suffrage_core::timer_indices!(Round);

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Gossip {
    knows: bool,
    rounds: u8,
}

impl Process for Gossip {
    type Message = Rumour;
    type Timer = Round;
    type Saved = ();
    type Command = Command;

    fn on_start(&mut self, cx: &mut Context<'_, Self>, _: Start<()>) {
        let phase = cx.rng().below(ROUND.as_nanos());
        cx.set_timer(Round, Span::from_nanos(phase));
    }

    fn on_message(&mut self, _: &mut Context<'_, Self>, _: NodeId, message: Rumour) {
        self.knows |= message.known;
    }

    fn on_timer(&mut self, cx: &mut Context<'_, Self>, round: Round) {
        let view = cx.view();
        if let Some(peer) = view.random_peer(cx.rng()) {
            cx.send(peer, Rumour { known: self.knows });
        }
        self.rounds -= 1;
        if self.rounds > 0 {
            cx.set_timer(round, ROUND);
        }
    }

    fn on_command(&mut self, _: &mut Context<'_, Self>, _: Command) {}
}

/// The workload in the simulator.
pub(crate) fn simulate(members: usize, rounds: u8, seed: u64) -> impl FnOnce() -> Work {
    let latency = Latency::Uniform(Span::ZERO, ROUND);
    let mut world = World::new(Roster::numbered(members), seed, latency, move |id| Gossip {
        knows: id == NodeId(1),
        rounds,
    });
    world.set_loss(LOSS);
    move || {
        world.run(Time::MAX);
        let informed = (0..members).filter(|&slot| world.process(slot).knows).count();
        Work { events: world.ledger().events, result: informed as u64 }
    }
}

/// The workload in a hand-written loop: events of 16 bytes in buckets of equal width, which are sorted when they are
/// opened.
pub(crate) fn bare(members: usize, rounds: u8, seed: u64) -> impl FnOnce() -> Work {
    // About eight events a bucket, but no more buckets than fit the cache; more than a round of them,
    // since nothing is further away than one. Powers of two, to shift and mask instead of dividing.
    let wanted = ROUND.as_nanos() / (members as u64 / 4).clamp(1, 8192);
    let width = wanted.max(1).ilog2();
    let buckets = ((ROUND.as_nanos() >> width) + 2).next_power_of_two() as usize;
    let mut rng = Rng::new(seed);
    let mut queue: Vec<Vec<(u64, u32, u32)>> = vec![Vec::new(); buckets];
    for process in 0..members as u32 {
        let time = rng.below(ROUND.as_nanos());
        queue[(time >> width) as usize].push((time, process, TIMER));
    }
    let mut knows = vec![false; members];
    let mut left = vec![rounds; members];
    knows[0] = true;
    const TIMER: u32 = 2;
    move || {
        let (mut events, mut current) = (0, 0);
        let mut pending = members;
        let mut bucket: Vec<(u64, u32, u32)> = Vec::new();
        while pending > 0 {
            let place = current & (buckets - 1);
            if queue[place].is_empty() {
                current += 1;
                continue;
            }
            // Descending, so that the next event is popped off the end.
            std::mem::swap(&mut bucket, &mut queue[place]);
            bucket.sort_unstable_by_key(|&(time, ..)| Reverse(time));
            while let Some((time, process, what)) = bucket.pop() {
                pending -= 1;
                events += 1;
                if what != TIMER {
                    knows[process as usize] |= what == 1;
                    continue;
                }
                if !rng.chance(LOSS) {
                    let peer = rng.below(members as u64 - 1) as u32;
                    let peer = peer + u32::from(peer >= process);
                    let arrives = time + rng.below(ROUND.as_nanos() + 1);
                    let message = (arrives, peer, u32::from(knows[process as usize]));
                    pending += 1;
                    let place = (arrives >> width) as usize;
                    if place == current {
                        let spot = bucket.partition_point(|&(other, ..)| other > arrives);
                        bucket.insert(spot, message);
                    } else {
                        queue[place & (buckets - 1)].push(message);
                    }
                }
                left[process as usize] -= 1;
                if left[process as usize] > 0 {
                    pending += 1;
                    let next = time + ROUND.as_nanos();
                    queue[(next >> width) as usize & (buckets - 1)].push((next, process, TIMER));
                }
            }
        }
        Work { events, result: knows.iter().filter(|&&knows| knows).count() as u64 }
    }
}
