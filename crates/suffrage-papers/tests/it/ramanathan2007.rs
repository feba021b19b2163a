//! Claims of the paper on small groups with fixed seeds: tests of the experiments themselves.

use suffrage_algorithms::randomized::options::{Mode, Rounds};
use suffrage_algorithms::randomized::rounds::intersection_probability;
use suffrage_papers::ramanathan2007::model::Model;
use suffrage_papers::ramanathan2007::planner::{Checked, Question};
use suffrage_papers::ramanathan2007::{Request, add, quorums, randomized, reproduction, synchronous};
use suffrage_papers::report::{Provenance, page};
use suffrage_papers::study::{Measured, Study};
use suffrage_papers::trial::Trial;
use suffrage_sim::Contenders;

const ALL: Contenders = Contenders::Share(1.0);

fn measure(trial: Trial, runs: u64) -> Measured {
    let mut study = Study::new(0);
    add(trial, &mut study, "", runs);
    study.run_all().at(0).clone()
}

fn in_mode(mode: Mode, trial: Trial) -> Trial {
    if mode == Mode::Sync { synchronous(trial) } else { trial }
}

/// Theorem 3: "the probability that any two sets intersect". Two finalists of a synchronous election both win if and
/// only if their quorums are disjoint. With 8 processes, quorums of 5 always intersect. With quorums that are too
/// small, because the estimate of n is a fraction of n, they often do not. 2,000 runs; six standard errors.
#[test]
fn theorem_3_two_win_as_often_as_quorums_are_disjoint() {
    let trial = synchronous(quorums(200, Contenders::Count(2))).set("n-estimate", "0.25");
    let runs = 2_000;
    let (twice, _) = measure(trial, runs).counts("winners_2_or_more").unwrap();
    let quorum = Model::new(50, Mode::Sync, Rounds::Fixed(0)).quorum();
    let disjoint = 1.0 - intersection_probability(200, quorum);
    let error = libm::sqrt(disjoint * (1.0 - disjoint) / runs as f64);
    let share = twice as f64 / runs as f64;
    assert!(
        (share - disjoint).abs() < 6.0 * error,
        "{share} is not within six standard errors of {disjoint} ({error})"
    );
    assert!(twice > 50, "only {twice} runs with two winners");
}

/// ALGORITHMS.md, section 6: P(no finalist | two contenders) is exact with a common clock. 3,000 runs; six standard
/// errors. For the asynchronous first phase it is an upper bound, for messages that arrive in random order; the
/// messages of a contender that is ahead arrive first everywhere.
#[test]
fn two_contenders_are_left_without_a_finalist_as_often_as_calculated() {
    for (mode, rounds) in [(Mode::Sync, 5), (Mode::Async, 8)] {
        let model = Model { nodes: 300, mode, rounds };
        let trial = in_mode(mode, randomized(300, Contenders::Count(2))).set("rounds", rounds);
        let runs = 3_000;
        let (none, _) = measure(trial, runs).counts("no_finalist").unwrap();
        let expected = model.no_finalist_of_two();
        let error = 6.0 * libm::sqrt(expected * (1.0 - expected) / runs as f64);
        let share = none as f64 / runs as f64;
        assert!(share < expected + error, "{mode:?}: {share} is more than {expected}");
        assert!(mode == Mode::Async || share > expected - error, "{mode:?}: {share} is less than {expected}");
        assert!(none > 30, "{mode:?}: only {none} runs without a finalist");
    }
}

/// Lemma 1 and Theorem 6: the recursions for the contenders of each round, while there are many. 40 runs of 3,000
/// processes. A mean of m contenders has a standard error below sqrt(m / 40); the tolerance is six of them, and 3%
/// because the mean of a function is not the function of the mean.
#[test]
fn lemma_1_contenders_follow_the_recursion() {
    for mode in [Mode::Sync, Mode::Async] {
        let model = Model::new(3_000, mode, Rounds::default());
        let measured = measure(in_mode(mode, randomized(3_000, ALL)), 40);
        let mut judged = 0;
        for (place, expected) in model.contenders(3_000.0, 0.0).into_iter().enumerate() {
            let Some(mean) = measured.mean(&format!("contenders_round_{}", place + 1)) else { continue };
            if expected < 30.0 {
                continue;
            }
            judged += 1;
            let error = 6.0 * libm::sqrt(expected / 40.0) + 0.03 * expected;
            assert!((mean.mean - expected).abs() < error, "{mode:?}, {place}: {mean:?} is not {expected}");
        }
        assert!(judged >= 4, "{mode:?} {judged}");
    }
}

/// Theorem 5: the calculated messages agree with the measured ones within a tenth.
#[test]
fn theorem_5_messages_are_as_calculated() {
    for mode in [Mode::Sync, Mode::Async] {
        for contenders in [Contenders::Count(1), Contenders::Count(100), ALL] {
            let first = match contenders {
                Contenders::Count(count) => count as f64,
                Contenders::Share(share) => share * 3_000.0,
            };
            let expected = Model::new(3_000, mode, Rounds::default()).messages(first).total();
            let measured =
                measure(in_mode(mode, randomized(3_000, contenders)), 30).mean("messages").unwrap();
            let off = measured.mean / expected - 1.0;
            assert!(off.abs() < 0.1, "{mode:?} {contenders}: {measured:?} is not {expected}");
        }
    }
}

/// Section 5: with the second approach a single contender fails with a probability of 1 - (1 - gamma)^(sum of
/// sigma_j). 2,000 runs; six standard errors, and one contender in n that asks itself.
#[test]
fn section_5_a_single_contender_fails_as_often_as_calculated() {
    let model = Model::new(1_000, Mode::Sync, Rounds::default());
    for gamma in [0.002, 0.02] {
        let mut trial = synchronous(randomized(1_000, Contenders::Count(1)));
        trial.scenario.fail = gamma;
        let runs = 2_000;
        let (none, _) = measure(trial, runs).counts("winners_0").unwrap();
        let expected = model.single_contender_fails(gamma);
        let error = libm::sqrt(expected * (1.0 - expected) / runs as f64);
        let share = none as f64 / runs as f64;
        assert!((share - expected).abs() < 6.0 * error, "{gamma}: {share} is not {expected}");
    }
}

/// Theorem 8, as repaired: "a maximum of" 10 tau, with a hundred finalists.
#[test]
fn theorem_8_the_second_phase_is_short() {
    let measured = measure(quorums(500, Contenders::Share(0.2)), 50);
    assert_eq!(measured.counts("within_10_tau"), Some((50, 50)));
    assert_eq!(measured.counts("winners_1"), Some((50, 50)));
}

/// The calculated plan agrees with the measurements: messages within a tenth; success at least as calculated for the
/// worst case, as far as 1,000 runs can tell (exact 95% interval).
#[test]
fn plans_perform_as_calculated() {
    for mode in [Mode::Sync, Mode::Async] {
        let question = Question { nodes: 1_000, contenders: ALL, mode, fail: 0.0, target: 0.97 };
        let plan = question.plan();
        assert!(plan.reaches && plan.rounds > 0, "{plan:?}");
        let results = question.study(&plan, 1_000, 0).run_all();
        let checked = Checked::of(plan.clone(), 1_000, &results);
        let off = checked.messages.mean / plan.messages.total() - 1.0;
        assert!(off.abs() < 0.1, "{mode:?}: {checked:?}");
        assert!(checked.success_of_two.hi >= plan.success, "{mode:?}: {checked:?}");
    }
}

/// The whole paper in small groups: every exhibit can be made, with each claim in a sentence, and the same request
/// gives the same page.
#[test]
fn the_report_of_the_paper_is_complete_and_reproducible() {
    let request = Request { nodes: 400, most_nodes: 1_000, runs: 3, seed: 7 };
    let make = || {
        let paper = reproduction(request);
        let provenance = Provenance { command: "suffrage".to_string(), runs: 3, seed: 7, version: "0" };
        paper.report(&paper.study.run_all(), provenance)
    };
    let report = make();
    let names: Vec<&str> = report.exhibits.iter().map(|exhibit| exhibit.name.as_str()).collect();
    let all = [
        "table-1",
        "figure-9",
        "section-7-2",
        "lemma-1",
        "scale",
        "theorem-8",
        "failures",
        "losses",
        "reuse",
    ];
    assert_eq!(names, all);
    for exhibit in &report.exhibits {
        assert!(!exhibit.claims.is_empty() && !exhibit.tables.is_empty(), "{}", exhibit.name);
        for claim in &exhibit.claims {
            assert!(claim.measured.ends_with('.') && claim.statement.ends_with(['.', '?']), "{claim:?}");
        }
    }
    let mut files: Vec<String> = report.files().into_iter().map(|file| file.name).collect();
    let count = files.len();
    files.sort();
    files.dedup();
    assert_eq!(files.len(), count, "no file is written twice");
    assert_eq!(page(&[&report]), page(&[&make()]));
}

/// Section 5: "as long as there is at least one contender who has not failed, a leader gets elected". That is false
/// if the contender that has beaten the others crashes before it has won. Of ten contenders that crash one after the
/// other during the election, this happens in some of 100 elections, and not in all.
#[test]
fn section_5_crashes_of_contenders_can_fail_the_election() {
    let paper = reproduction(Request { nodes: 5_000, most_nodes: 1_000, runs: 4_000, seed: 0 });
    let crashing =
        |point: &&suffrage_papers::study::Point| point.name == "Contenders crash, async, all-positive";
    let point = paper.study.points().iter().find(crashing).unwrap();
    assert!(point.replay.contains(" --crash 2@2 --crash 3@4 "), "{}", point.replay);
    let runs = point.runs;
    let first: u64 = paper.study.points().iter().take_while(|at| !crashing(at)).map(|at| at.runs).sum();
    let mut measured = Measured::default();
    (first..first + runs).for_each(|number| measured.add(paper.study.run(number)));
    let (none, of) = measured.counts("winners_0").unwrap();
    assert_eq!(of as u64, runs);
    println!("no winner in {none} of {of} runs");
    assert!(none > 0 && none < of, "{none} of {of}");
}

/// Every point has a command that repeats it.
#[test]
fn every_point_can_be_replayed() {
    let paper = reproduction(Request { nodes: 400, most_nodes: 1_000, runs: 1, seed: 0 });
    assert!(paper.study.points().len() > 60);
    for point in paper.study.points() {
        assert!(point.replay.starts_with("suffrage-lab simulate "), "{}", point.replay);
        assert!(point.replay.contains(" --nodes "), "{}", point.replay);
    }
}
