//! Section 5, Theorems 11 and 12: dead mediators, and what contenders make of them.

use election::algorithms::randomized::options::{Mode, Rounds};
use simulator::{Contenders, Estimate};

use super::model::Model;
use super::{Request, add, per, randomized, share, synchronous, told};
use crate::plot::{Axis, Look, Plot, Series};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

/// How likely a process is dead.
const GAMMAS: [f64; 4] = [0.001, 0.01, 0.03, 0.1];
/// The paper's second approach, which it adopts, and its first.
const APPROACHES: [&str; 2] = ["all-positive", "no-negative"];
/// With fewer contenders than this a mean over runs is not what the mean goes to.
const ENOUGH: f64 = 20.0;
/// How much less than the factor counts as the factor: `(1 - gamma)^sigma` is not quite its exponential.
const TOLERANCE: f64 = 0.01;

/// How many contend.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    One,
    All,
}

struct Point {
    gamma: f64,
    approach: &'static str,
    field: Field,
    runs: u64,
    place: usize,
}

pub(super) struct Failures {
    model: Model,
    points: Vec<Point>,
}

impl Failures {
    pub(super) fn of(study: &mut Study, request: Request) -> Failures {
        let nodes = request.nodes;
        let mut points = Vec::new();
        for approach in APPROACHES {
            for (field, part) in [(Field::One, 10), (Field::All, 200)] {
                for gamma in GAMMAS {
                    let contenders = match field {
                        Field::One => Contenders::Count(1),
                        Field::All => Contenders::Share(1.0),
                    };
                    let mut trial = synchronous(randomized(nodes, contenders)).set("on-failure", approach);
                    // Zero time to die in: before the start.
                    trial.scenario.fail = gamma;
                    let runs = request.part(part);
                    let who = if field == Field::One { "one contends" } else { "all contend" };
                    let name = format!("Theorem 11, gamma {gamma}, {approach}, {who}");
                    let place = add(trial, study, &name, runs);
                    points.push(Point { gamma, approach, field, runs, place });
                }
            }
        }
        Failures { model: Model::new(nodes as u64, Mode::Sync, Rounds::default()), points }
    }

    fn some(&self, approach: &str, field: Field) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.approach == approach && point.field == field)
    }

    /// What dead mediators leave of those that would go on from a round, and what the theorem says.
    fn factors(&self, point: &Point, results: &Results) -> Vec<(u8, Estimate, f64)> {
        let at = |round: u8| results.at(point.place).mean(&format!("contenders in round {round}"));
        let rounds = 1..self.model.rounds;
        rounds
            .filter_map(|round| {
                let (before, after) = (at(round)?, at(round + 1)?);
                let mediators = self.model.mediators(round) as f64;
                let claimed = libm::exp(-point.gamma * mediators);
                let without = self.model.next(round, before.mean, 0.0);
                let judged = before.mean >= ENOUGH && point.gamma * mediators < 1.0;
                judged.then(|| (round, per(after, without), claimed))
            })
            .collect()
    }

    fn theorem_11(&self, results: &Results) -> Claim {
        let says = "Where all must say yes and gamma < 1/sigma_j, dead mediators leave no less than a factor of \
                    exp(-gamma sigma_j) of those that would go on.";
        let (mut judged, mut refuted, mut worst) = (0, Vec::new(), 0.0_f64);
        for point in self.some("all-positive", Field::All) {
            for (round, factor, claimed) in self.factors(point, results) {
                judged += 1;
                worst = worst.max((factor.mean / claimed - 1.0).abs());
                if factor.hi < claimed * (1.0 - TOLERANCE) {
                    refuted.push(format!(
                        "{} against {} at gamma {}, round {round}",
                        interval(factor),
                        number(claimed),
                        point.gamma
                    ));
                }
            }
        }
        let (verdict, found) = match (judged, refuted.is_empty()) {
            (0, _) => (Verdict::Unclear, "No round has contenders enough.".to_string()),
            (_, true) => (
                Verdict::Held,
                format!(
                    "In {judged} rounds of {} values of gamma the factor is within {}% of that.",
                    GAMMAS.len(),
                    number(worst * 100.0)
                ),
            ),
            (_, false) => (Verdict::DidNotHold, format!("Measured are {}.", refuted.join("; "))),
        };
        Claim::new("Theorem 11", says, verdict, found)
    }

    fn theorem_12(&self, results: &Results, field: Field) -> Claim {
        let last = self.model.mediators(self.model.rounds) as f64;
        let log = libm::pow(libm::log2(self.model.nodes as f64), 6.0);
        let says = "If gamma sigma_(w-1) < 1, a single leader is elected but for a chance of O(exp(gamma \
                    sigma_(w-1)) / log^6 n).";
        let (mut verdicts, mut told) = (Vec::new(), Vec::new());
        for point in self.some("all-positive", field).filter(|point| point.gamma * last < 1.0) {
            let Some(once) = results.at(point.place).exact("one winner") else { continue };
            let least = 1.0 - libm::exp(point.gamma * last) / log;
            verdicts.push(if once.hi < least { Verdict::DidNotHold } else { Verdict::Held });
            told.push(format!("{} at gamma {}", interval(once), point.gamma));
        }
        let who = match field {
            Field::All => "All contend",
            Field::One => "One contends, whom the proof leaves out",
        };
        let found = format!(
            "{who}: one winner in {}; the chance, its constant taken to be one, is nothing.",
            told.join(", ")
        );
        Claim::new("Theorem 12", says, Verdict::all(verdicts), found)
    }

    fn alone(&self, results: &Results) -> Claim {
        let question =
            "Does a single contender fail to win as often as calculated, 1 - (1 - gamma)^(sum of sigma_j)?";
        let told: Vec<String> = self
            .some("all-positive", Field::One)
            .map(|point| {
                let none = share(results.at(point.place), "no winner");
                format!(
                    "{none} at gamma {}, {} by calculation",
                    point.gamma,
                    number(self.model.nobody_alone(point.gamma))
                )
            })
            .collect();
        Claim::new("", question, Verdict::OurQuestion, format!("It fails in {}.", told.join("; ")))
    }

    fn first_approach(&self, results: &Results) -> Claim {
        let says = "The first approach, to go on unless a mediator says no, lets more contenders go on, which affects \
                    the bounds on messages and rounds; the second keeps them.";
        let (mut verdicts, mut told) = (Vec::new(), Vec::new());
        for (second, first) in self.some("all-positive", Field::All).zip(self.some("no-negative", Field::All))
        {
            let finalists = [second, first].map(|point| results.at(point.place).mean("finalists"));
            let messages = [second, first].map(|point| results.at(point.place).mean("messages"));
            let ([Some(few), Some(many)], [Some(cheap), Some(dear)]) = (finalists, messages) else {
                continue;
            };
            verdicts.push(match many {
                many if many.lo > few.hi => Verdict::Held,
                many if many.hi < few.lo => Verdict::DidNotHold,
                _ => Verdict::Unclear,
            });
            told.push(format!(
                "{} finalists and {} messages against {} and {} at gamma {}",
                number(many.mean),
                number(dear.mean),
                number(few.mean),
                number(cheap.mean),
                second.gamma
            ));
        }
        // Too small a gamma makes no difference that could be seen.
        let seen: Vec<Verdict> =
            verdicts.into_iter().filter(|verdict| *verdict != Verdict::Unclear).collect();
        let found = format!("First against second: {}.", told.join("; "));
        Claim::new("section 5", says, Verdict::all(seen), found)
    }

    fn table(&self, results: &Results) -> Table {
        let head =
            ["approach", "contenders", "gamma", "runs", "one winner", "no winner", "finalists", "messages"];
        let title =
            "Elections in which processes are dead with probability gamma; exact intervals of the shares";
        let mut table = Table::new("failures", title, &head);
        for point in &self.points {
            let at = results.at(point.place);
            table.push([
                point.approach.to_string(),
                if point.field == Field::One { "one" } else { "all" }.to_string(),
                point.gamma.to_string(),
                point.runs.to_string(),
                share(at, "one winner"),
                share(at, "no winner"),
                told(at, "finalists"),
                told(at, "messages"),
            ]);
        }
        table
    }

    fn plot(&self, results: &Results) -> Plot {
        let measured = APPROACHES.map(|approach| {
            let points = self.some(approach, Field::One);
            let points =
                points.filter_map(|point| Some((point.gamma, results.at(point.place).exact("no winner")?)));
            Series::measured(approach, points)
        });
        let computed = GAMMAS.map(|gamma| (gamma, self.model.nobody_alone(gamma)));
        let mut series = vec![Series::computed("1 - (1 - gamma)^(sum of sigma_j)", Look::Curve, computed)];
        series.extend(measured);
        Plot {
            name: "no-leader".to_string(),
            title: "A single contender without success".to_string(),
            x: Axis::log("gamma"),
            y: Axis::linear("P(no leader)").from(0.0, 1.0),
            series,
        }
    }
}

impl Exhibitor for Failures {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        Exhibit {
            name: "failures".to_string(),
            title: "Section 5, Theorems 11 and 12: dead mediators".to_string(),
            setting: format!(
                "n = {}, synchronous, {} rounds in the first phase, sigma_(w-1) = {}; processes are dead from the \
                 start with probability gamma, and contenders are alive",
                self.model.nodes,
                self.model.rounds,
                self.model.mediators(self.model.rounds)
            ),
            claims: vec![
                self.theorem_11(results),
                self.theorem_12(results, Field::All),
                self.theorem_12(results, Field::One),
                self.first_approach(results),
                self.alone(results),
            ],
            plots: vec![self.plot(results)],
            tables: vec![self.table(results)],
            notes: vec![
                "The number of rounds is that of n processes; the paper would use n - n gamma, which changes it by \
                 none or one here."
                    .to_string(),
            ],
        }
    }
}
