//! The slowest point of Figure 9: elections by probabilistic quorums among 50,000 processes of which half contend,
//! and the randomized election for comparison.
//!
//! `cargo run --release -p suffrage-papers --example quorums_in_bulk -- [RUNS] [NODES]`

use suffrage_core::Span;
use suffrage_papers::ramanathan2007::{add, add_in_bulk, randomized};
use suffrage_papers::study::Study;
use suffrage_sim::Contenders;

fn main() {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse().expect("a number"));
    let runs = numbers.next().unwrap_or(3);
    let nodes = numbers.next().unwrap_or(50_000) as usize;
    let half = Contenders::Share(0.5);
    let mut study = Study::new(0);
    let quorums = add_in_bulk(nodes, half, &mut study, "PQ", runs);
    let rounds = add(randomized(nodes, half), &mut study, "RE", runs);
    let results = study.run_all();
    println!("{nodes} processes, half contend, delays up to {}: means of {runs} runs", Span::UNIT);
    for (name, index) in [("probabilistic-quorum", quorums), ("randomized", rounds)] {
        for figure in ["messages", "winners_1", "time_tau"] {
            let mean = results.at(index).mean(figure).map_or(f64::NAN, |mean| mean.mean);
            println!("{name:<22} {figure:<12} {mean}");
        }
    }
}
