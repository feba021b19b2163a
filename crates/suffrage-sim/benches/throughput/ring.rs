//! W1: Chang-Roberts with random ranks, election after election; one message in flight.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_core::{Algorithm, Attribute, Command, Parameter, Rng, Roster, Span, Time};
use suffrage_sim::{Latency, World};

use crate::Work;

const LATENCY: Latency = Latency::Uniform(Span::ZERO, Span::UNIT);

/// A random order of 1..=members.
fn ranks(members: usize, seed: u64) -> Vec<u64> {
    let mut ranks: Vec<u64> = (1..=members as u64).collect();
    Rng::new(seed).shuffle(&mut ranks);
    ranks
}

/// Options that match the bare loop: no acknowledgement of hops, and the failure detector for repair.
fn plain() -> <ChangRoberts as Algorithm>::Options {
    let mut options = Default::default();
    for (name, value) in [("hop-timeout", "off"), ("repair", "detector")] {
        let parameter: &Parameter<_> =
            ChangRoberts::PARAMETERS.iter().find(|parameter| parameter.name == name).expect("it has that");
        (parameter.set)(&mut options, value).expect("it takes that");
    }
    options
}

/// The workload in the simulator.
pub(crate) fn simulate(members: usize, elections: usize, seed: u64) -> impl FnOnce() -> Work {
    let mut roster = Roster::numbered(members);
    for (slot, rank) in ranks(members, seed).into_iter().enumerate() {
        roster.set_attribute(roster.id(slot), rank as Attribute);
    }
    let options = plain();
    let mut world = World::new(roster, seed, LATENCY, move |id| ChangRoberts::new(id, &options));
    move || {
        for election in 0..elections {
            world.command(world.now(), election % members, Command::Campaign);
            world.run(Time::MAX);
        }
        let leader = world.ledger().belief(0).expect("everybody knows a leader").leader;
        let rank = world.roster().rank(leader).expect("a member ranks").attribute;
        Work { events: world.ledger().events, result: rank as u64 }
    }
}

/// The workload in a hand-written loop, over a heap.
pub(crate) fn bare(members: usize, elections: usize, seed: u64) -> impl FnOnce() -> Work {
    let ranks = ranks(members, seed);
    let mut rng = Rng::new(seed);
    move || {
        let mut leaders = vec![0; members];
        let mut forwarded = vec![0; members];
        let mut heap = BinaryHeap::new();
        let mut events = 0;
        for election in 0..elections {
            let run = election + 1;
            let caller = election % members;
            forwarded[caller] = run;
            // Time, addressee, the best so far, and whether it is elected.
            let mut now = 0;
            let mut send = |heap: &mut BinaryHeap<_>, now, from: usize, best, elected| {
                let to = if from + 1 == members { 0 } else { from + 1 };
                heap.push(Reverse((now + rng.below(Span::UNIT.as_nanos() + 1), to as u32, best, elected)));
            };
            send(&mut heap, now, caller, ranks[caller], false);
            while let Some(Reverse((time, to, best, elected))) = heap.pop() {
                events += 1;
                now = time;
                let to = to as usize;
                if elected {
                    leaders[to] = best;
                    if ranks[to] != best {
                        send(&mut heap, now, to, best, true);
                    }
                } else if best == ranks[to] {
                    leaders[to] = best;
                    send(&mut heap, now, to, best, true);
                } else if best > ranks[to] {
                    forwarded[to] = run;
                    send(&mut heap, now, to, best, false);
                } else if forwarded[to] != run {
                    forwarded[to] = run;
                    send(&mut heap, now, to, ranks[to], false);
                }
            }
        }
        Work { events, result: leaders[0] }
    }
}
