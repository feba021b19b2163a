//! Failures during an election: whatever happens, once it stops every component ends with exactly
//! one leader, its best live member, for every algorithm of the bully and ring families.

use election::catalog::{self, CONTRACTS, Visitor};
use election::{Algorithm, Roster, Span, Time};
use simulator::{Detector, Latency, Outcome, Scenario, Storm, storm};

/// How processes are to get through a storm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Means {
    /// No message is lost, and a failure detector reports silence and its end.
    Detector,
    /// The same, and the detector errs now and then while the storm lasts.
    ErringDetector,
    /// Messages are lost and doubled, there is no detector, and leaders reaffirm themselves.
    Reaffirm,
    /// All of it at once.
    Both,
}

const STORM: u64 = 300;

fn stormy(seed: u64, means: Means) -> Scenario {
    let members = 2 + (seed % 7) as usize;
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.seed = seed;
    scenario.latency = match seed % 3 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.3)),
    };
    // Everybody calls: one that never had a leader and is not told to call has nothing to miss.
    scenario.initiators = (0..members).collect();
    let delay = Span::from_units(2.0 + (seed % 5) as f64);
    scenario.detector = match means {
        Means::Reaffirm => Detector::None,
        Means::Detector => Detector::Ideal { delay },
        Means::ErringDetector | Means::Both => Detector::Parametric { delay, false_rate: 0.01 },
    };
    let (from, to) = (Time::ZERO, Time::ZERO + Span::from_millis(STORM));
    let lossy = matches!(means, Means::Reaffirm | Means::Both);
    scenario.plan = storm(seed, Storm { members, from, to, lossy });
    scenario.until = Some(to + Span::from_millis(6_000));
    scenario
}

struct Weather {
    scenario: Scenario,
    settings: &'static [(&'static str, &'static str)],
}

impl Visitor for Weather {
    type Output = Outcome;

    fn visit<A: Algorithm>(self) -> Outcome {
        let mut options = A::Options::default();
        for (name, value) in self.settings {
            let parameter = A::PARAMETERS.iter().find(|parameter| parameter.name == *name);
            (parameter.expect("it has that parameter").set)(&mut options, value)
                .expect("it takes that value");
        }
        self.scenario.run::<A>(&options)
    }
}

fn outcome(name: &str, seed: u64, means: Means) -> Outcome {
    let settings: &[(&str, &str)] = match means {
        Means::Detector | Means::ErringDetector => &[],
        Means::Reaffirm | Means::Both => &[("reaffirm", "10")],
    };
    let weather = Weather { scenario: stormy(seed, means), settings };
    catalog::visit(name, weather).expect("it is in the catalog")
}

fn survive(means: Means, seeds: u64) {
    let mut failures = Vec::new();
    let mut stirred = 0;
    for contract in CONTRACTS {
        for seed in 0..seeds {
            let outcome = outcome(contract.name, seed, means);
            stirred += usize::from(outcome.reigns > 1);
            if let Some(violation) = outcome.violations.first() {
                failures.push(format!("{} {means:?} seed {seed}: {violation:?}", contract.name));
            }
        }
    }
    assert!(
        failures.is_empty(),
        "{} of them:\n{}",
        failures.len(),
        failures[..failures.len().min(20)].join("\n")
    );
    // The storms are not empty: in most of them leadership changes.
    assert!(stirred as u64 * 2 > seeds * CONTRACTS.len() as u64, "only {stirred} runs were stirred");
}

#[test]
fn with_a_detector_and_no_loss_the_best_of_each_component_leads() {
    survive(Means::Detector, 2_000);
}

#[test]
fn with_a_detector_that_errs_the_best_of_each_component_leads() {
    survive(Means::ErringDetector, 2_000);
}

#[test]
fn with_loss_and_reaffirmation_the_best_of_each_component_leads() {
    survive(Means::Reaffirm, 2_000);
}

#[test]
fn with_everything_at_once_the_best_of_each_component_leads() {
    survive(Means::Both, 2_000);
}

/// The sources assume that messages are not lost. Without reaffirmation that assumption is needed.
#[test]
fn without_reaffirmation_lost_messages_leave_some_without_the_right_leader() {
    for contract in CONTRACTS {
        let fails = |seed: &u64| {
            let weather = Weather { scenario: stormy(*seed, Means::Reaffirm), settings: &[] };
            !catalog::visit(contract.name, weather).expect("it is there").violations.is_empty()
        };
        assert!((0..50).any(|seed| fails(&seed)), "{}", contract.name);
    }
}
