//! Section 5, Theorems 11 and 12: dead mediators, and the contenders' reactions to them.

use suffrage_algorithms::randomized::options::{Mode, Rounds};
use suffrage_sim::{Contenders, Estimate};

use super::model::Model;
use super::{Request, add, mean_text, randomized, share, synchronous};
use crate::plot::{Axis, Plot, Series, Style};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

/// The probabilities that a process is dead.
const GAMMAS: [f64; 4] = [0.001, 0.01, 0.03, 0.1];
/// The paper's second approach, which it adopts, and its first approach.
const APPROACHES: [&str; 2] = ["all-positive", "no-negative"];
const MODES: [Mode; 2] = [Mode::Sync, Mode::Async];
/// The number of contenders below which the mean over runs is not close to its limit.
const ENOUGH: f64 = 100.0;
/// The tolerance below the factor: `(1 - gamma)^sigma` is not exactly its exponential. In the asynchronous mode the
/// calculated baseline is off by a few percent, by varying amounts.
fn tolerance(mode: Mode) -> f64 {
    if mode == Mode::Sync { 0.01 } else { 0.05 }
}

/// The number of contenders.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    One,
    All,
}

struct Point {
    mode: Mode,
    gamma: f64,
    approach: &'static str,
    field: Field,
    runs: u64,
    index: usize,
}

pub(super) struct Failures {
    nodes: u64,
    points: Vec<Point>,
    /// The points where no process is dead and all contend, in each mode.
    sound: [usize; 2],
}

impl Failures {
    pub(super) fn of(study: &mut Study, request: Request) -> Failures {
        let nodes = request.nodes;
        let trial = |mode, contenders| {
            let trial = randomized(nodes, contenders);
            if mode == Mode::Sync { synchronous(trial) } else { trial }
        };
        let mut points = Vec::new();
        for mode in MODES {
            for approach in APPROACHES {
                for (field, part) in [(Field::One, 40), (Field::All, 500)] {
                    for gamma in GAMMAS {
                        let contenders = match field {
                            Field::One => Contenders::Count(1),
                            Field::All => Contenders::Share(1.0),
                        };
                        let mut trial = trial(mode, contenders).set("on-failure", approach);
                        // Processes die within a time of zero: before the start.
                        trial.scenario.fail = gamma;
                        let runs = request.part(part);
                        let who = if field == Field::One { "one contends" } else { "all contend" };
                        let name = format!("Theorem 11, {mode:?}, gamma {gamma}, {approach}, {who}");
                        let index = add(trial, study, &name, runs);
                        points.push(Point { mode, gamma, approach, field, runs, index });
                    }
                }
            }
        }
        let sound = MODES.map(|mode| {
            let name = format!("Theorem 11, {mode:?}, no crashed processes");
            add(trial(mode, Contenders::Share(1.0)), study, &name, request.part(500))
        });
        Failures { nodes: nodes as u64, points, sound }
    }

    fn model(&self, mode: Mode) -> Model {
        Model::new(self.nodes, mode, Rounds::default())
    }

    fn some(&self, mode: Mode, approach: &str, field: Field) -> impl Iterator<Item = &Point> {
        let points = self.points.iter();
        points.filter(move |at| at.mode == mode && at.approach == approach && at.field == field)
    }

    /// The number of contenders after a round, as a fraction of the number calculated without dead processes; and the
    /// number of contenders before the round.
    fn part(&self, mode: Mode, index: usize, round: u8, results: &Results) -> Option<(Estimate, f64)> {
        let at = |round: u8| results.at(index).mean(&format!("contenders_round_{round}"));
        let (before, after) = (at(round)?, at(round + 1)?);
        Some((after.per(self.model(mode).next(round, before.mean, 0.0)), before.mean))
    }

    /// The factor that dead mediators leave of the contenders after a round, and the factor of the theorem. The
    /// measurement is relative to a group without dead processes, so that it does not depend on the accuracy of the
    /// calculation.
    fn factors(&self, point: &Point, results: &Results) -> Vec<(u8, Estimate, f64)> {
        let Point { mode, gamma, index, .. } = *point;
        let model = self.model(mode);
        let sound = self.sound[usize::from(mode == Mode::Async)];
        (1..model.rounds)
            .filter_map(|round| {
                let (left, before) = self.part(mode, index, round, results)?;
                let (usual, _) = self.part(mode, sound, round, results)?;
                let factor = left.ratio(usual);
                let exponent = gamma * model.mediators(round) as f64;
                (before >= ENOUGH && exponent < 1.0).then(|| (round, factor, libm::exp(-exponent)))
            })
            .collect()
    }

    fn theorem_11(&self, results: &Results, mode: Mode) -> Claim {
        let says = "If all mediators must accept and gamma < 1/sigma_j, crashed mediators leave at least a factor of \
                    exp(-gamma sigma_j) of the contenders that would advance.";
        let (mut judged, mut worst) = (Vec::new(), 0.0_f64);
        for point in self.some(mode, "all-positive", Field::All) {
            for (round, factor, claimed) in self.factors(point, results) {
                worst = worst.max((factor.mean / claimed - 1.0).abs());
                let text = format!(
                    "{} versus {} at gamma {}, round {round}",
                    interval(factor),
                    number(claimed),
                    point.gamma
                );
                judged.push((Verdict::at_least(factor, claimed * (1.0 - tolerance(mode))), text));
            }
        }
        let (verdict, deciding) = Verdict::decide(&judged);
        let rounds = judged.len();
        let found = match verdict {
            _ if judged.is_empty() => format!("{mode:?}: no round has enough contenders."),
            Verdict::Held => format!(
                "{mode:?}: in {rounds} rounds of {} values of gamma the factor is within {}% of that. The claim holds \
                 down to {}% less, because the calculation is approximate.",
                GAMMAS.len(),
                number(worst * 100.0),
                tolerance(mode) * 100.0
            ),
            _ => format!("{mode:?}: of {rounds} rounds, the deciding ones are {deciding}."),
        };
        Claim::new("Theorem 11", says, verdict, found)
    }

    /// The first approach admits every contender that no live mediator refuses: it loses no factor, and gains a
    /// little.
    fn first_approach_factor(&self, results: &Results, mode: Mode) -> Option<String> {
        let points = self.some(mode, "no-negative", Field::All);
        let factors = points.flat_map(|point| self.factors(point, results));
        let (least, most) = factors.fold((f64::INFINITY, 0.0_f64), |(least, most), (_, factor, _)| {
            (least.min(factor.mean), most.max(factor.mean))
        });
        (most > 0.0).then(|| format!("{mode:?}: between {} and {}", number(least), number(most)))
    }

    fn theorem_11_of_the_first_approach(&self, results: &Results) -> Claim {
        let question =
            "If a contender advances unless a mediator refuses it, what factor of the contenders is left?";
        let found: Vec<String> =
            MODES.into_iter().filter_map(|mode| self.first_approach_factor(results, mode)).collect();
        let found = match found.is_empty() {
            true => "No round has enough contenders.".to_string(),
            false => format!(
                "{}, over all rounds and values of gamma. Crashed mediators refuse no contender.",
                found.join("; ")
            ),
        };
        Claim::new("", question, Verdict::OurQuestion, found)
    }

    fn theorem_12(&self, results: &Results, mode: Mode, field: Field) -> Claim {
        let model = self.model(mode);
        let last = model.mediators(model.rounds) as f64;
        let log = libm::pow(libm::log2(self.nodes as f64), 6.0);
        let says = "If gamma sigma_(w-1) < 1, a single leader is elected, except with probability O(exp(gamma \
                    sigma_(w-1)) / log^6 n).";
        let (mut verdicts, mut texts) = (Vec::new(), Vec::new());
        let within = |point: &&Point| point.gamma * last < 1.0;
        for point in self.some(mode, "all-positive", field).filter(within) {
            let Some(once) = results.at(point.index).share("winners_1") else { continue };
            let least = 1.0 - libm::exp(point.gamma * last) / log;
            verdicts.push(Verdict::at_least(once, least));
            texts.push(format!("{} at gamma {}", interval(once), point.gamma));
        }
        let who = match field {
            Field::All => "All contend".to_string(),
            Field::One => format!(
                "One contends, a case without a proof: each of its {} mediators of the first phase must be alive",
                model.asked()
            ),
        };
        let first: Vec<String> = self
            .some(mode, "no-negative", field)
            .filter(within)
            .map(|point| format!("{} at gamma {}", share(results.at(point.index), "winners_1"), point.gamma))
            .collect();
        let found = format!(
            "{mode:?}. {who}: one winner in {}. With a constant of one, the bound of the probability is close to zero. \
             With the first approach: one winner in {}.",
            texts.join(", "),
            first.join(", ")
        );
        Claim::new("Theorem 12", says, Verdict::all(verdicts), found)
    }

    fn alone(&self, results: &Results, mode: Mode) -> Claim {
        let question =
            "Does a single contender fail with the calculated probability, 1 - (1 - gamma)^(sum of sigma_j)?";
        let texts: Vec<String> = self
            .some(mode, "all-positive", Field::One)
            .map(|point| {
                let none = share(results.at(point.index), "winners_0");
                format!(
                    "{none} at gamma {}, calculated {}",
                    point.gamma,
                    number(self.model(mode).single_contender_fails(point.gamma))
                )
            })
            .collect();
        Claim::new(
            "",
            question,
            Verdict::OurQuestion,
            format!("{mode:?}: the contender fails in {}.", texts.join("; ")),
        )
    }

    fn first_approach(&self, results: &Results, mode: Mode) -> Claim {
        let says = "With the first approach, a contender advances unless a mediator refuses. More contenders advance, \
                    which affects the bounds on messages and rounds. The second approach keeps the bounds.";
        let (mut verdicts, mut texts) = (Vec::new(), Vec::new());
        let points = APPROACHES.map(|approach| self.some(mode, approach, Field::All));
        let [second, first] = points;
        for (second, first) in second.zip(first) {
            let finalists = [second, first].map(|point| results.at(point.index).mean("finalists"));
            let messages = [second, first].map(|point| results.at(point.index).mean("messages"));
            let ([Some(few), Some(many)], [Some(cheap), Some(dear)]) = (finalists, messages) else {
                continue;
            };
            verdicts.push(Verdict::above(many.ratio(few), 1.0));
            texts.push(format!(
                "{} finalists and {} messages versus {} and {} at gamma {}",
                number(many.mean),
                number(dear.mean),
                number(few.mean),
                number(cheap.mean),
                second.gamma
            ));
        }
        // If gamma is too small, there is no visible difference.
        let seen: Vec<Verdict> =
            verdicts.into_iter().filter(|verdict| *verdict != Verdict::Unclear).collect();
        let found = format!("{mode:?}, first versus second approach: {}.", texts.join("; "));
        Claim::new("section 5", says, Verdict::all(seen), found)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let mut claims: Vec<Claim> = MODES.map(|mode| self.theorem_11(results, mode)).to_vec();
        claims.push(self.theorem_11_of_the_first_approach(results));
        for mode in MODES {
            claims.extend([Field::All, Field::One].map(|field| self.theorem_12(results, mode, field)));
        }
        claims.extend(MODES.map(|mode| self.first_approach(results, mode)));
        claims.extend(MODES.map(|mode| self.alone(results, mode)));
        claims
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "mode",
            "approach",
            "contenders",
            "gamma",
            "runs",
            "one winner",
            "no winner",
            "finalists",
            "messages",
        ];
        let title =
            "Elections in which processes have crashed with probability gamma; exact intervals of the shares";
        let mut table = Table::new("failures", title, &head);
        for point in &self.points {
            let at = results.at(point.index);
            table.push([
                format!("{:?}", point.mode),
                point.approach.to_string(),
                if point.field == Field::One { "one" } else { "all" }.to_string(),
                point.gamma.to_string(),
                point.runs.to_string(),
                share(at, "winners_1"),
                share(at, "winners_0"),
                mean_text(at, "finalists"),
                mean_text(at, "messages"),
            ]);
        }
        table
    }

    fn plot(&self, results: &Results) -> Plot {
        let mut series = Vec::new();
        for mode in MODES {
            let model = self.model(mode);
            let name = format!("1 - (1 - gamma)^{}, {mode:?}", model.asked());
            let computed = GAMMAS.map(|gamma| (gamma, model.single_contender_fails(gamma)));
            series.push(Series::computed(&name, Style::Curve, computed));
            for approach in APPROACHES {
                let points = self.some(mode, approach, Field::One);
                let points = points
                    .filter_map(|point| Some((point.gamma, results.at(point.index).share("winners_0")?)));
                series.push(Series::measured(&format!("{approach}, {mode:?}"), points));
            }
        }
        Plot {
            name: "no-leader".to_string(),
            title: "A single contender that does not win".to_string(),
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
            title: "Section 5, Theorems 11 and 12: crashed mediators".to_string(),
            setting: format!(
                "n = {}; {}; processes are crashed from the start with probability gamma, and contenders are alive",
                self.nodes,
                MODES
                    .map(|mode| {
                        let model = self.model(mode);
                        let last = model.mediators(model.rounds);
                        format!("{mode:?}: {} rounds in the first phase, sigma_(w-1) = {last}", model.rounds)
                    })
                    .join("; ")
            ),
            claims: self.claims(results),
            plots: vec![self.plot(results)],
            tables: vec![self.table(results)],
            notes: vec![
                "The number of rounds is that of n processes. The paper would use n - n gamma, which changes it by at \
                 most one here. The theorems of the paper are for the synchronous protocol. The asynchronous one has \
                 more rounds, so more mediators must be alive. There, a contender waits for ever for a crashed \
                 mediator with the second approach, and advances after two tau with the first."
                    .to_string(),
            ],
        }
    }
}
