//! Section 5: contenders that die during the election; and lost messages, which the paper does not consider.

use suffrage_core::{Span, Time};
use suffrage_sim::{Contenders, Fault, Scenario, proportion};

use super::{Request, add, mean_text, randomized, share, synchronous};
use crate::report::{Claim, Exhibit, Table, Verdict};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};
use crate::trial::Trial;

/// The probabilities that a message is lost.
const LOSSES: [f64; 4] = [0.0, 0.001, 0.01, 0.05];
const MODES: [&str; 2] = ["sync", "async"];
const APPROACHES: [&str; 2] = ["all-positive", "no-negative"];
/// The number of contenders in the experiment with deaths. All but one of them die, one after the other.
const MORTALS: usize = 10;
/// The time within which the contenders die, in tau: about the duration of an election.
const WITHIN: f64 = 20.0;

/// The fault of an experiment.
#[derive(Clone, Copy, PartialEq)]
enum Trouble {
    /// Messages are lost with this probability.
    Loss(f64),
    /// All contenders but the last die, one after the other.
    Deaths,
}

struct Point {
    trouble: Trouble,
    mode: &'static str,
    approach: &'static str,
    runs: u64,
    index: usize,
}

pub(super) struct Losses {
    nodes: usize,
    points: Vec<Point>,
}

impl Losses {
    pub(super) fn of(study: &mut Study, request: Request) -> Losses {
        let nodes = (request.nodes / 10).max(50);
        let troubles = LOSSES.map(Trouble::Loss).into_iter().chain([Trouble::Deaths]);
        let mut points = Vec::new();
        for trouble in troubles {
            for mode in MODES {
                for approach in APPROACHES {
                    let trial = Losses::trial(nodes, trouble);
                    let trial = if mode == "sync" { synchronous(trial) } else { trial };
                    let trial = trial.set("on-failure", approach);
                    let runs = request.part(40);
                    let name = match trouble {
                        Trouble::Loss(loss) => format!("Messages lost: {loss}, {mode}, {approach}"),
                        Trouble::Deaths => format!("Contenders crash, {mode}, {approach}"),
                    };
                    points.push(Point {
                        trouble,
                        mode,
                        approach,
                        runs,
                        index: add(trial, study, &name, runs),
                    });
                }
            }
        }
        Losses { nodes, points }
    }

    fn trial(nodes: usize, trouble: Trouble) -> Trial {
        match trouble {
            Trouble::Loss(loss) => {
                let mut trial = randomized(nodes, Contenders::Share(0.01));
                trial.scenario.loss = loss;
                // The winner's multicast is not lost: the experiment is not about who learns the winner.
                trial.scenario.multicast_loss = Some(0.0);
                trial
            }
            Trouble::Deaths => {
                // Mediators are chosen at random, so the contenders that die can be the same in every run.
                let mut trial = randomized(nodes, Contenders::Count(0));
                let Scenario { contenders, initiators, plan, .. } = &mut trial.scenario;
                (*contenders, *initiators) = (None, (0..MORTALS).collect());
                *plan = (1..MORTALS)
                    .map(|slot| {
                        let at = WITHIN * slot as f64 / MORTALS as f64;
                        (Time::ZERO + Span::from_units(at), Fault::Crash(slot))
                    })
                    .collect();
                trial
            }
        }
    }

    fn some(&self, trouble: Trouble) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.trouble == trouble)
    }

    fn deaths(&self, results: &Results) -> Claim {
        let says = "Contenders can also fail, but as long as there is at least one who has not failed, a leader gets \
                    elected.";
        let (mut verdicts, mut found) = (Vec::new(), Vec::new());
        for point in self.some(Trouble::Deaths) {
            let Some((none, runs)) = results.at(point.index).counts("winners_0") else { continue };
            verdicts.push(Verdict::always(proportion(runs - none, runs)));
            found.push(format!("{none} of {runs} ({}, {})", point.mode, point.approach));
        }
        let found = format!(
            "{MORTALS} processes contend, and all but one crash within {WITHIN} tau, one after the other. There is no \
             winner in {} elections. In these, a contender crashed after it had beaten the others and before it won. \
             A contender that has lost does not try again, and the surviving one has lost.",
            found.join(", ")
        );
        Claim::new("section 5", says, Verdict::all(verdicts), found)
    }

    fn lost(&self, results: &Results) -> Claim {
        let question =
            "How often is there one winner if messages are lost, a case that the paper does not cover?";
        let texts: Vec<String> = LOSSES
            .into_iter()
            .map(|loss| {
                let each: Vec<String> = self
                    .some(Trouble::Loss(loss))
                    .map(|point| {
                        let once = share(results.at(point.index), "winners_1");
                        format!("{once} ({}, {})", point.mode, point.approach)
                    })
                    .collect();
                format!("with {}% lost in {}", loss * 100.0, each.join(", "))
            })
            .collect();
        let found = format!(
            "1% contend; {}. There are no retransmissions. With the second approach, a lost message counts as a crashed \
             mediator. With the first, two contenders both advance if a refusal is lost.",
            texts.join("; ")
        );
        Claim::new("", question, Verdict::OurQuestion, found)
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "trouble",
            "mode",
            "approach",
            "runs",
            "one winner",
            "no winner",
            "two or more",
            "agreed",
            "messages",
        ];
        let title = "Shares of all runs with exact 95% intervals (Clopper and Pearson)";
        let mut table = Table::new("losses", title, &head);
        for point in &self.points {
            let at = results.at(point.index);
            table.push([
                match point.trouble {
                    Trouble::Loss(loss) => format!("{}% lost", loss * 100.0),
                    Trouble::Deaths => "contenders die".to_string(),
                },
                point.mode.to_string(),
                point.approach.to_string(),
                point.runs.to_string(),
                share(at, "winners_1"),
                share(at, "winners_0"),
                share(at, "winners_2_or_more"),
                share(at, "agreed"),
                mean_text(at, "messages"),
            ]);
        }
        table
    }
}

impl Exhibitor for Losses {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        Exhibit {
            name: "losses".to_string(),
            title: "Section 5: crashed contenders and lost messages".to_string(),
            setting: format!("n = {}", self.nodes),
            claims: vec![self.deaths(results), self.lost(results)],
            plots: Vec::new(),
            tables: vec![self.table(results)],
            notes: vec![
                "An election is agreed if in the end all live processes believe in the same live leader. A contender \
                 that won and crashed counts as a winner: according to the paper, the application replaces it."
                    .to_string(),
            ],
        }
    }
}
