//! Section 6: mediators are to be chosen uniformly, also where processes know only their neighbours.

use std::sync::Arc;

use suffrage_algorithms::randomized::Options;
use suffrage_algorithms::randomized::options::Walk;
use suffrage_core::{Overlay, Rng, Roster};
use suffrage_sim::{Contenders, Scenario};

use crate::algorithms::randomized::synchronous::{end, summary};

const NODES: usize = 500;
const WALKS: usize = 50_000;

fn ends(overlay: &Overlay, walk: impl Fn(&Overlay, &mut Rng) -> usize) -> Vec<f64> {
    let mut rng = Rng::new(8);
    let mut counts = vec![0.0; NODES];
    (0..WALKS).for_each(|_| counts[walk(overlay, &mut rng)] += 1.0);
    counts
}

/// The rate at which two walks end at the same process, relative to a uniform choice.
fn collisions(counts: &[f64]) -> f64 {
    let pairs = WALKS as f64 * (WALKS as f64 - 1.0);
    counts.iter().map(|count| count * (count - 1.0)).sum::<f64>() / pairs * NODES as f64
}

/// All walks begin at the same process. Chi-square with 499 degrees of freedom exceeds 617 once in 5,000 sets of seeds;
/// the seed is fixed. A walk of a tenth of the steps is not uniform, so the test can fail.
#[test]
fn metropolis_hastings_walks_end_uniformly() {
    let overlay = Overlay::power_law(NODES, 0.8, 1);
    let due = WALKS as f64 / NODES as f64;
    let chi_square = |steps| -> f64 {
        let counts = ends(&overlay, |overlay, rng| overlay.walk(7, steps, rng).end);
        counts.iter().map(|count| (count - due).powi(2) / due).sum()
    };
    let steps = overlay.mixing_steps();
    let (whole, tenth) = (chi_square(steps), chi_square(steps / 10));
    println!("chi-square {whole} after {steps} steps, {tenth} after a tenth of them");
    assert!(whole < 617.0, "{whole}");
    assert!(tenth > 617.0, "{tenth}");
}

/// ALGORITHMS.md: "Choosing mediators in proportion to degree multiplies collisions by an order of
/// magnitude". Among 50,000, exactly; among 500, by walking.
#[test]
fn naive_walks_multiply_collisions() {
    let overlay = Overlay::power_law(NODES, 0.8, 1);
    let steps = overlay.mixing_steps();
    let uniform = collisions(&ends(&overlay, |overlay, rng| overlay.walk(7, steps, rng).end));
    let naive = collisions(&ends(&overlay, |overlay, rng| overlay.naive_walk(7, steps, rng).end));
    println!("collisions: {uniform} uniform, {naive} naive");
    assert!((uniform - 1.0).abs() < 0.05 && naive > 3.0, "{uniform}, {naive}");
    let large = Overlay::power_law(50_000, 0.8, 0);
    let degrees = || (0..50_000).map(|slot| large.degree(slot) as f64);
    let multiple =
        50_000.0 * degrees().map(|degree| degree * degree).sum::<f64>() / degrees().sum::<f64>().powi(2);
    println!("among 50,000: {multiple}");
    assert!(multiple > 10.0, "{multiple}");
}

/// Elections over the overlay: uniform walks elect one leader; with naive walks fewer contenders pass the first phase.
#[test]
fn elections_over_an_overlay() {
    let overlay = Arc::new(Overlay::power_law(1_000, 0.8, 1));
    let mut scenario = Scenario::new(Roster::numbered(1_000).with_overlay(overlay));
    scenario.contenders = Some(Contenders::Share(0.3));
    let mut finalists = [0, 0];
    for seed in 0..5 {
        scenario.seed = seed;
        for (walk, finalists) in [Walk::Metropolis, Walk::Naive].into_iter().zip(&mut finalists) {
            let summary = summary(&end(&scenario, &Options { walk, ..Options::default() }));
            assert!(summary.hops > 0);
            assert!(walk == Walk::Naive || summary.winners == 1, "seed {seed}");
            *finalists += summary.finalists;
        }
    }
    println!("finalists: {finalists:?}");
    assert!(finalists[1] < finalists[0], "{finalists:?}");
}
