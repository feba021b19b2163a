//! Random schedules: delays of several distributions up to tau and beyond it, contenders that begin all at once or
//! spread over many tau. The announcement of the winner is not delivered. Seeds are fixed.

use suffrage_algorithms::randomized::options::Tables;
use suffrage_core::Rng;

use crate::algorithms::randomized::group::{Delay, ScriptedGroup, second_phase};

#[derive(Clone, Copy, Debug)]
enum Shape {
    Uniform,
    HeavyTailed,
    Bimodal,
}

const SHAPES: [Shape; 3] = [Shape::Uniform, Shape::HeavyTailed, Shape::Bimodal];
const SPREADS: [f64; 3] = [0.0, 5.0, 20.0];

/// A delay up to `max_delay` tau.
fn draw(shape: Shape, rng: &mut Rng, max_delay: f64) -> f64 {
    let unit = rng.unit();
    max_delay
        * match shape {
            Shape::Uniform => unit,
            // A truncated Pareto distribution: half of the delays are below a thirtieth, one in sixty is the maximum.
            Shape::HeavyTailed => (0.014 / (1.0 - unit)).min(1.0),
            Shape::Bimodal if unit < 0.7 => 0.02,
            Shape::Bimodal => 1.0,
        }
}

/// The results of many runs.
#[derive(Debug, Default)]
struct Result {
    nobody: usize,
    several: usize,
    stuck: usize,
    longest: f64,
}

/// Runs the second phase in a group of this size, with a random number of contenders.
fn search(
    processes: usize,
    tables: Tables,
    shape: Shape,
    spread: f64,
    (max_delay, loss): (f64, f64),
    runs: u64,
) -> Result {
    let mut result = Result::default();
    for seed in 0..runs {
        let mut rng = Rng::new(seed ^ 0x5eed);
        let contenders = 2 + rng.below(processes as u64 - 1);
        let mut network = Rng::new(seed);
        let delay: Delay = Box::new(move |_, _, _| match network.chance(loss) {
            true => f64::INFINITY,
            false => draw(shape, &mut network, max_delay),
        });
        let mut group = ScriptedGroup::new(processes, second_phase(tables), seed, delay);
        let mut ids: Vec<u64> = (1..=processes as u64).collect();
        rng.shuffle(&mut ids);
        ids[..contenders as usize].iter().for_each(|&id| group.begin(id, spread * rng.unit()));
        group.run_until_quiet();
        match group.winners().len() {
            0 => result.nobody += 1,
            1 => {}
            _ => result.several += 1,
        }
        match group.longest() {
            Some(longest) => result.longest = result.longest.max(longest),
            None => result.stuck += 1,
        }
    }
    result
}

/// Nine processes ask five mediators each, so any two have a mediator in common. Every run must have one winner, and
/// every contender must know its result within ten tau.
#[test]
fn where_mediators_are_shared_there_is_always_one_winner_within_ten_tau() {
    for shape in SHAPES {
        for spread in SPREADS {
            let result = search(9, Tables::Repaired, shape, spread, (1.0, 0.0), 500);
            println!("{shape:?} over {spread}: {result:?}");
            assert_eq!((result.nobody, result.several, result.stuck), (0, 0, 0), "{shape:?} {spread}");
            assert!(result.longest <= 10.0, "{shape:?} {spread}: {result:?}");
        }
    }
}

/// The same with dozens of finalists: sixty processes ask sixteen mediators each. Two sets are disjoint with
/// probability 0.2%, so several winners are possible; but there is always a winner.
#[test]
fn with_dozens_of_finalists_there_is_always_a_winner() {
    for shape in SHAPES {
        for spread in SPREADS {
            let result = search(60, Tables::Repaired, shape, spread, (1.0, 0.0), 40);
            println!("{shape:?} over {spread}: {result:?}");
            assert_eq!((result.nobody, result.stuck), (0, 0), "{shape:?} {spread}");
            assert!(result.longest <= 10.0, "{shape:?} {spread}: {result:?}");
        }
    }
}

/// With the printed tables, a large share of the elections has no winner, and some have two.
#[test]
fn the_printed_tables_often_leave_nobody() {
    let (mut nobody, mut several) = (0, 0);
    for shape in SHAPES {
        for spread in SPREADS {
            let result = search(9, Tables::Printed, shape, spread, (1.0, 0.0), 200);
            println!("{shape:?} over {spread}: {result:?}");
            (nobody, several) = (nobody + result.nobody, several + result.several);
        }
    }
    println!("of {}: nobody {nobody}, several {several}", 9 * 200);
    assert!(nobody > 0 && several > 0, "nobody {nobody}, several {several}");
}

/// With delays beyond tau, or lost messages, there may be no winner, but never two: a mediator that has accepted a POTW
/// accepts no other contender before that one has declined.
#[test]
fn beyond_tau_and_under_loss_there_are_never_two() {
    for shape in SHAPES {
        for (max_delay, loss) in [(3.0, 0.0), (20.0, 0.0), (1.0, 0.1), (5.0, 0.05)] {
            let result = search(9, Tables::Repaired, shape, 5.0, (max_delay, loss), 150);
            println!("{shape:?} up to {max_delay} tau, {loss} lost: {result:?}");
            assert_eq!(result.several, 0, "{shape:?} {max_delay} {loss}");
        }
    }
}
