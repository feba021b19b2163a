//! Section 3: the synchronous protocol.

use suffrage_algorithms::randomized::figures::RunSummary;
use suffrage_algorithms::randomized::options::{Mode, Rounding, Rounds};
use suffrage_algorithms::randomized::rounds::{Tournament, no_finalist_of_two, sigma, sigma_last, survivors};
use suffrage_algorithms::randomized::{Options, Randomized};
use suffrage_core::{NodeId, Roster, Span};
use suffrage_sim::{Contenders, Latency, Scenario, World};

pub(crate) const SYNC: fn() -> Options = || Options { mode: Mode::Sync, ..Options::default() };

/// The world at the end of an election with these contenders.
pub(crate) fn elect(nodes: usize, contenders: Contenders, seed: u64, options: &Options) -> World<Randomized> {
    let mut scenario = Scenario::new(Roster::numbered(nodes));
    (scenario.seed, scenario.contenders) = (seed, Some(contenders));
    scenario.latency = Latency::Uniform(Span::ZERO, Span::UNIT);
    end(&scenario, options)
}

pub(crate) fn end(scenario: &Scenario, options: &Options) -> World<Randomized> {
    let mut world = scenario.world::<Randomized>(options);
    world.run(scenario.horizon());
    world
}

pub(crate) fn summary(world: &World<Randomized>) -> RunSummary {
    RunSummary::of((0..world.roster().len()).map(|slot| world.process(slot).member()))
}

/// The first seed that reproduces Figure 1.
pub(crate) const FIGURE_1: u64 = 35_661;

/// Figure 1: "In the first round, each contender casts one ball and contenders 2, 4, 5, and 6 proceed […] In
/// round 2 […] each contender casts two balls and contenders 5 and 6 proceed. Finally, in round 3 […] each
/// contender casts 5 balls and contender 6 is selected the leader."
#[test]
fn figure_1() {
    let mut scenario = Scenario::new(Roster::numbered(8));
    scenario.initiators = (0..8).collect();
    let options = Options { rounds: Rounds::Figure1, ..SYNC() };
    scenario.seed = FIGURE_1;
    assert!(is_figure_1(&end(&scenario, &options)));
    let outcome = scenario.run::<Randomized>(&options);
    assert_eq!(outcome.leader, Some(NodeId(6)));
    // 8 balls, 4 x 2 balls, 2 x 5 balls, each with its answer.
    assert_eq!(outcome.messages.total, 2 * (8 + 8 + 10));
}

fn is_figure_1(world: &World<Randomized>) -> bool {
    let record = |id: usize| world.process(id - 1).member().record().expect("all contend, and it is over");
    let last = |id| (record(id).round, record(id).finalist, record(id).won);
    [1, 3, 7, 8].iter().all(|&id| last(id) == (1, false, false))
        && [2, 4].iter().all(|&id| last(id) == (2, false, false))
        && last(5) == (2, true, false)
        && last(6) == (2, true, true)
}

/// A single contender always wins, with `2 (sum sigma_j + sigma_w)` messages and two delays a round.
#[test]
fn a_single_contender_wins_at_a_known_cost() {
    for nodes in [1, 2, 8, 100, 5_000] {
        let mut scenario = Scenario::new(Roster::numbered(nodes));
        scenario.initiators = vec![nodes / 2];
        for (rounds, mode) in
            [(Rounds::default(), Mode::Sync), (Rounds::Fixed(4), Mode::Sync), (Rounds::Fixed(4), Mode::Async)]
        {
            let outcome = scenario.run::<Randomized>(&Options { rounds, mode, ..Options::default() });
            let size = nodes as u64;
            let first = Tournament { size, mode, rounds }.first_phase();
            let asked: f64 = (1..=first).map(|round| sigma(size, round).ceil()).sum();
            let (trips, last) = if mode == Mode::Sync { (2, 2.0) } else { (4, 4.0) };
            assert_eq!(
                outcome.messages.total,
                2 * asked as u64 + trips * sigma_last(size) as u64,
                "{nodes} {rounds:?} {mode:?}"
            );
            assert_eq!(outcome.leader, Some(NodeId(size / 2 + 1)));
            let told = if nodes == 1 { 0.0 } else { 1.0 };
            assert_eq!(outcome.time, 2.0 * f64::from(first) + last + told);
        }
    }
}

/// Lemma 1 and its mean field: `X_{j+1} = X_j (1 - p_j)^(X_j - 1)`. 20 elections of 4,000: the number of contenders
/// left in a round has a standard deviation below its square root, so the mean of 20 is outside of 5 times the square
/// root of `X / 20` once in a million. The variance of the round before adds up to 2%.
#[test]
fn contenders_fall_as_the_mean_field_says() {
    for rounding in [Rounding::Ceil, Rounding::Nearest] {
        let options = Options { rounds: Rounds::Fixed(7), rounding, ..SYNC() };
        let runs = 20;
        let mut means = [0.0; 8];
        for seed in 0..runs {
            let summary = summary(&elect(4_000, Contenders::Share(1.0), seed, &options));
            let counts = summary.contenders.iter().chain([&summary.finalists]);
            counts.zip(&mut means).for_each(|(&count, mean)| *mean += count as f64 / runs as f64);
        }
        for round in 1..=7u8 {
            let exact = sigma(4_000, round);
            let s = if rounding == Rounding::Ceil { exact.ceil() } else { exact.round().max(1.0) };
            let (before, after) = (means[usize::from(round) - 1], means[usize::from(round)]);
            let due = survivors(4_000, Mode::Sync, s, before);
            let error = 5.0 * (due / runs as f64).sqrt() + 0.02 * due;
            assert!((after - due).abs() < error, "{rounding:?} round {round}: {after}, due {due} +- {error}");
        }
    }
}

/// ALGORITHMS.md: "P(no finalist | two contenders) = 1 - prod (1 - p_j), exactly". 4,000 elections each; five
/// standard errors, exceeded once in a million. In the asynchronous mode the formula is a bound, since a contender that
/// is ahead tends to be first everywhere.
#[test]
fn two_contenders_eliminate_each_other_as_often_as_computed() {
    let runs = 4_000;
    for (mode, rounds) in [(Mode::Sync, 4), (Mode::Sync, 6), (Mode::Async, 6)] {
        let options = Options { mode, rounds: Rounds::Fixed(rounds), ..Options::default() };
        let nobody = |seed: &u64| summary(&elect(200, Contenders::Count(2), *seed, &options)).finalists == 0;
        let share = (0..runs).filter(nobody).count() as f64 / runs as f64;
        let due = no_finalist_of_two(200, mode, rounds);
        let error = 5.0 * (due * (1.0 - due) / runs as f64).sqrt();
        println!("{mode:?} {rounds} rounds: {share}, due {due} +- {error}");
        assert!(share < due + error, "{mode:?} {rounds}: {share}, due {due} +- {error}");
        assert!(mode == Mode::Async || share > due - error, "{mode:?} {rounds}: {share}, due {due}");
    }
}

/// "Total messages O(n)": from 1,000 to 16,000 processes, all contending, the messages per process do not
/// grow by more than a half in either mode.
#[test]
fn messages_are_linear_in_the_number_of_processes() {
    for mode in [Mode::Sync, Mode::Async] {
        let options = Options { mode, ..Options::default() };
        let cost = |nodes: usize| {
            let world = elect(nodes, Contenders::Share(1.0), 1, &options);
            assert_eq!(summary(&world).winners, 1, "{mode:?} {nodes}");
            world.ledger().traffic().messages as f64 / nodes as f64 - 1.0
        };
        let [few, many] = [1_000, 16_000].map(cost);
        println!("{mode:?}: {few} and {many} messages a process");
        assert!(many < 1.5 * few && many < 16.0, "{mode:?}: {few}, {many}");
    }
}
