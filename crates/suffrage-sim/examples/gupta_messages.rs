//! Prints the number of messages of the probabilistic election, from a thousand members to a million: it does not depend
//! on the group size. Views of one half, one message in a thousand lost.
//!
//! `cargo run --release -p suffrage-sim --example gupta_messages [RUNS]`

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it is the clock on the wall that is asked for"
)]

use std::sync::Arc;
use std::time::Instant;

use suffrage_algorithms::gupta::Gupta;
use suffrage_core::Roster;
use suffrage_sim::{Outcome, Ranking, Scenario, mean};

fn elect(members: usize, seed: u64) -> Outcome {
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.ranking = Ranking::LowestId;
    (scenario.seed, scenario.view_prob, scenario.loss) = (seed, 0.5, 0.001);
    scenario.initiators = vec![0];
    scenario.run::<Gupta>(&Arc::default())
}

fn main() {
    let runs: u64 = std::env::args().nth(1).map_or(20, |runs| runs.parse().expect("a number of runs"));
    println!(
        "{:>9} {:>6} {:>22} {:>22} {:>8} {:>9}",
        "N", "runs", "unicasts", "multicasts", "agreed", "s a run"
    );
    for members in [1_000, 10_000, 100_000, 1_000_000] {
        let start = Instant::now();
        let outcomes: Vec<Outcome> = (0..runs).map(|seed| elect(members, seed)).collect();
        let cell = |of: fn(&Outcome) -> u64| {
            let values: Vec<f64> = outcomes.iter().map(|outcome| of(outcome) as f64).collect();
            let estimate = mean(&values);
            format!("{:.1} ({:.1}-{:.1})", estimate.mean, estimate.lo, estimate.hi)
        };
        let agreed = outcomes.iter().filter(|outcome| outcome.agreed).count();
        println!(
            "{members:>9} {runs:>6} {:>22} {:>22} {agreed:>8} {:>9.3}",
            cell(|outcome| outcome.messages.total),
            cell(|outcome| outcome.messages.multicasts),
            start.elapsed().as_secs_f64() / runs as f64
        );
    }
}
