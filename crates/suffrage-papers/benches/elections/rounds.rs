//! The baseline of P3: the first phase of the asynchronous election over a heap, and nothing else. Of the second
//! phase, which few reach, there is only the winner's announcement.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use suffrage_algorithms::randomized::options::Options;
use suffrage_algorithms::randomized::rounds::{Tournament, sigma_last};
use suffrage_core::{Rng, Span};

/// Runs an election in which all processes contend. Returns the number of messages.
pub(crate) fn bare(nodes: usize, seed: u64) -> u64 {
    let mut rng = Rng::new(seed);
    let Options { mode, rounds, rounding, .. } = Options::default();
    let tournament = Tournament { size: nodes as u64, mode, rounds };
    let panels: Vec<usize> =
        (1..=tournament.first_phase()).map(|round| tournament.mediators(round, rounding, &mut rng)).collect();
    // For each contender: its round, and the number of answers it waits for; zero if it has lost.
    let mut stages = vec![(0_u8, 0_usize); nodes];
    // The rounds in which a mediator has granted, as bits.
    let mut granted = vec![0_u64; nodes];
    let mut heap = BinaryHeap::new();
    let (mut messages, mut finalists) = (0, 0_u64);
    // In a round that does not exist, no mediator is asked.
    let begin = |contender: usize, round: u8, now: u64, heap: &mut BinaryHeap<_>, rng: &mut Rng| {
        let count = panels.get(usize::from(round) - 1).copied().unwrap_or(0);
        for _ in 0..count {
            let mediator = rng.below(nodes as u64) as u32;
            heap.push(Reverse((now + delay(rng), mediator, contender as u32, round, false)));
        }
        count
    };
    for (contender, stage) in stages.iter_mut().enumerate() {
        *stage = (1, begin(contender, 1, 0, &mut heap, &mut rng));
    }
    while let Some(Reverse((now, mediator, contender, round, answered))) = heap.pop() {
        messages += 1;
        let (mediator, contender) = (mediator as usize, contender as usize);
        if !answered {
            let says_yes = granted[mediator] >> round & 1 == 0;
            granted[mediator] |= 1 << round;
            let to = if says_yes { mediator } else { nodes } as u32;
            heap.push(Reverse((now + delay(&mut rng), to, contender as u32, round, true)));
            continue;
        }
        let (at, missing) = &mut stages[contender];
        if *missing == 0 || *at != round {
            continue;
        }
        *missing = if mediator < nodes { *missing - 1 } else { 0 };
        if *missing == 0 && mediator < nodes {
            let count = begin(contender, round + 1, now, &mut heap, &mut rng);
            finalists += u64::from(count == 0);
            stages[contender] = (round + 1, count);
        }
    }
    stages.fill((0, 0));
    // Each finalist asks its mediators, gets their answers, and withdraws or is confirmed.
    messages + finalists * 3 * sigma_last(nodes as u64) as u64
}

fn delay(rng: &mut Rng) -> u64 {
    rng.below(Span::UNIT.as_nanos() + 1)
}
