//! Claims of the paper on small groups with fixed seeds: tests of the experiments themselves.

use suffrage_papers::gupta2000::bounds::Setting;
use suffrage_papers::gupta2000::{Request, Strategy, reproduction, trial};
use suffrage_papers::report::{Provenance, page};
use suffrage_papers::study::{Measured, Study};

fn measure(setting: &Setting, strategy: Strategy, runs: u64) -> Measured {
    let mut study = Study::new(0);
    trial(setting, strategy).add_to(&mut study, "", runs);
    study.run_all().at(0).clone()
}

/// Theorem 1: a round succeeds at least as often as the product says. 200 runs each. If the true probability were
/// exactly the bound, the exact interval would miss it from below for one seed in 40. It is far above.
#[test]
fn theorem_1_the_bound_is_below_the_measured_success() {
    let setting = Setting { nodes: 500.0, ..Setting::FIGURE_4 };
    for k in [7, 20, 40] {
        let measured = measure(&setting, Strategy::one_round(k), 200).share("strong").unwrap();
        let bound = setting.round(k.into()).success();
        assert!(measured.hi >= bound, "K = {k}: measured {measured:?}, bound {bound}");
    }
}

/// E1: "between K1/2 and 3K1/2 members are chosen to participate in the Relay phase", K1 of them on
/// average. The mean of 200 runs has a standard error of sqrt(39.6 / 200) = 0.45: six of those.
#[test]
fn e1_about_k1_members_relay() {
    let setting = Setting { nodes: 1000.0, fail: 0.0, ..Setting::FIGURE_4 };
    let relay = measure(&setting, Strategy::one_round(40), 200).mean("first_relay_members").unwrap();
    assert!((relay.mean - setting.k1(40.0)).abs() < 2.7, "{relay:?}");
}

/// Theorem 2 does not hold for an elected leader that crashed: no member sees two choices, or none. 300 runs in a
/// network without losses in which one member in ten crashes: about 30 preferred members do.
#[test]
fn theorem_2_crashed_leaders_are_not_detected() {
    let setting = Setting { nodes: 300.0, view_prob: 0.5, ucast_loss: 0.0, mcast_loss: 0.0, fail: 0.1 };
    let strategy = Strategy { max_rounds: 2, ..Strategy::one_round(40) };
    let measured = measure(&setting, strategy, 300);
    let (crashed, _) = measured.counts("failed_dead_leader").unwrap();
    let (strong, runs) = measured.counts("strong").unwrap();
    assert!(crashed > 5, "{crashed}");
    assert!(crashed > (runs - strong) / 2, "{crashed} of {}", runs - strong);
    assert!(setting.detection(40.0) > 0.99, "the theorem claims detection in nearly all rounds");
}

/// Theorem 4: counts do not depend on N. 300 runs each; six standard errors of the difference.
#[test]
fn theorem_4_messages_do_not_depend_on_the_group() {
    let at = |nodes| Setting { nodes, view_prob: 0.5, ucast_loss: 0.001, mcast_loss: 0.001, fail: 0.0 };
    let [few, many] = [400.0, 4000.0].map(|nodes| measure(&at(nodes), Strategy::one_round(14), 300));
    for name in ["unicasts", "multicasts"] {
        let (few, many) = (few.amount(name).unwrap(), many.amount(name).unwrap());
        let error = libm::hypot(few.standard_error().unwrap(), many.standard_error().unwrap());
        assert!((few.mean() - many.mean()).abs() < 6.0 * error, "{name}: {few:?} and {many:?}");
        assert!(error < few.mean() / 10.0, "there are enough runs");
    }
}

/// Figure 5, with two runs of each point: every exhibit can be made, and the same request gives the
/// same page.
#[test]
fn the_report_of_a_figure_is_complete_and_reproducible() {
    let request = Request { figure: Some(5), runs: 2, seed: 7 };
    let make = || {
        let paper = reproduction(request);
        let provenance = Provenance { command: "suffrage".to_string(), runs: 2, seed: 7, version: "0" };
        paper.report(&paper.study.run_all(), provenance)
    };
    let report = make();
    assert_eq!(report.exhibits.len(), 3);
    let plots: Vec<&str> =
        report.exhibits.iter().flat_map(|exhibit| &exhibit.plots).map(|plot| plot.name.as_str()).collect();
    let letters: Vec<String> = ('a'..='i').map(|letter| format!("figure-5{letter}")).collect();
    assert_eq!(plots, letters);
    assert!(report.exhibits.iter().all(|exhibit| !exhibit.claims.is_empty() && !exhibit.tables.is_empty()));
    assert_eq!(page(&[&report]), page(&[&make()]));
}

/// Every point of every figure and theorem has a command that repeats it.
#[test]
fn every_point_can_be_replayed() {
    let paper = reproduction(Request { figure: None, runs: 1, seed: 0 });
    assert!(paper.study.points().len() > 60);
    for point in paper.study.points() {
        assert!(point.replay.starts_with("suffrage-lab simulate gupta --nodes "), "{}", point.replay);
        assert!(point.replay.contains("--first-k "));
    }
}
