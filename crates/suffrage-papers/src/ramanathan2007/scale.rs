//! Theorems 4 to 7 and 9: rounds, messages and time over n.

use suffrage_algorithms::randomized::options::{Mode, Rounds};
use suffrage_sim::statistics::{fit_exponent, fit_line};
use suffrage_sim::{Contenders, Estimate};

use super::model::Model;
use super::{Request, add, mean_text, randomized, share, synchronous};
use crate::plot::{Axis, Plot, Series, Style};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

/// Group sizes, each with the divisor of the number of runs: the time of a run is proportional to n.
const SIZES: [(usize, u64); 7] = [
    (1_000, 10),
    (3_000, 30),
    (10_000, 100),
    (30_000, 300),
    (100_000, 1_000),
    (300_000, 3_000),
    (1_000_000, 5_000),
];
/// The tolerance of exponents above one: rounding up costs small and large groups differently.
const TOLERANCE: f64 = 0.05;
/// The maximum duration of the second phase with the repaired tables, in tau.
const SECOND_PHASE: f64 = 10.0;

struct Point {
    mode: Mode,
    nodes: usize,
    runs: u64,
    index: usize,
}

pub(super) struct Scale {
    points: Vec<Point>,
}

impl Scale {
    pub(super) fn of(study: &mut Study, request: Request) -> Scale {
        let mut points = Vec::new();
        for mode in [Mode::Sync, Mode::Async] {
            for (nodes, part) in SIZES.into_iter().filter(|&(nodes, _)| nodes <= request.most_nodes) {
                let trial = randomized(nodes, Contenders::Share(1.0));
                let trial = if mode == Mode::Sync { synchronous(trial) } else { trial };
                let runs = request.part(part);
                let name = format!("Theorems 4 to 7, {mode:?}, n = {nodes}");
                points.push(Point { mode, nodes, runs, index: add(trial, study, &name, runs) });
            }
        }
        Scale { points }
    }

    fn of_mode(&self, mode: Mode) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(move |point| point.mode == mode)
    }

    fn all(&self, results: &Results, mode: Mode, figure: &str) -> Vec<(f64, Estimate)> {
        let points = self.of_mode(mode);
        points.filter_map(|at| Some((at.nodes as f64, results.at(at.index).mean(figure)?))).collect()
    }

    fn messages(&self, results: &Results, mode: Mode, location: &'static str) -> Claim {
        let says = "The total number of messages is O(n), for any number of contenders.";
        let points = self.all(results, mode, "messages");
        let means: Vec<(f64, f64)> = points.iter().map(|(nodes, value)| (*nodes, value.mean)).collect();
        let (Some(power), Some(fit)) = (fit_exponent(&means), fit_line(&means)) else {
            return Claim::new(location, says, Verdict::Unclear, "There are too few sizes.".to_string());
        };
        let each: Vec<f64> = means.iter().map(|(nodes, messages)| messages / nodes).collect();
        let found = format!(
            "{mode:?}: messages grow as n to the power of {}. At most {} counts as linear. The fitted line is {} n + {}. \
             There are between {} and {} messages per process.",
            interval(power),
            1.0 + TOLERANCE,
            number(fit.slope.mean),
            number(fit.intercept),
            number(each.iter().copied().fold(f64::INFINITY, f64::min)),
            number(each.iter().copied().fold(0.0, f64::max)),
        );
        Claim::new(location, says, Verdict::at_most(power, 1.0 + TOLERANCE), found)
    }

    fn rounds(&self, results: &Results, mode: Mode, location: &'static str) -> Claim {
        let says = "The number of rounds is O(log n).";
        let points = self.all(results, mode, "rounds");
        let verdicts =
            points.iter().map(|(nodes, rounds)| Verdict::at_most(*rounds, libm::log2(*nodes) + 1.0));
        let texts: Vec<String> =
            points.iter().map(|(nodes, rounds)| format!("{} at n = {nodes}", number(rounds.mean))).collect();
        let logs: Vec<(f64, f64)> =
            points.iter().map(|(nodes, rounds)| (libm::log2(*nodes), rounds.mean)).collect();
        let fit = fit_line(&logs).map_or(String::new(), |fit| {
            format!(" The fitted line is {} log2 n + {}.", number(fit.slope.mean), number(fit.intercept))
        });
        let found = format!("{mode:?}: at most log2 n + 1 rounds: {}.{fit}", texts.join(", "));
        Claim::new(location, says, Verdict::all(verdicts), found)
    }

    fn time(&self, results: &Results) -> Claim {
        let says = "A contender knows whether it has won within O(tau log n): two tau per round, and the second phase.";
        let (mut verdicts, mut texts) = (Vec::new(), Vec::new());
        for point in self.of_mode(Mode::Async) {
            let Some(time) = results.at(point.index).mean("time_tau") else { continue };
            let rounds = Model::new(point.nodes as u64, Mode::Async, Rounds::default()).rounds;
            let most = 2.0 * f64::from(rounds) + SECOND_PHASE;
            verdicts.push(Verdict::at_most(time, most));
            texts.push(format!("{} of {most} at n = {}", number(time.mean), point.nodes));
        }
        let found = format!(
            "Time until the winner knows that it has won, in tau, and the bound: {}.",
            texts.join(", ")
        );
        Claim::new("Theorem 9", says, Verdict::all(verdicts), found)
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "mode",
            "n",
            "runs",
            "messages",
            "messages / n",
            "calculated / n",
            "rounds",
            "time in tau",
            "finalists",
            "one winner",
        ];
        let title = "All contend: means with 95% intervals; the share with one winner has an exact interval";
        let mut table = Table::new("messages-over-n", title, &head);
        for &Point { mode, nodes, runs, index } in &self.points {
            let at = results.at(index);
            let size = nodes as f64;
            let expected = Model::new(nodes as u64, mode, Rounds::default()).messages(size).total();
            let each = at.mean("messages").map_or(String::new(), |mean| number(mean.per(size).mean));
            table.push([
                format!("{mode:?}"),
                nodes.to_string(),
                runs.to_string(),
                mean_text(at, "messages"),
                each,
                number(expected / size),
                mean_text(at, "rounds"),
                mean_text(at, "time_tau"),
                mean_text(at, "finalists"),
                share(at, "winners_1"),
            ]);
        }
        table
    }

    fn plot(&self, results: &Results) -> Plot {
        let mut series = Vec::new();
        for mode in [Mode::Sync, Mode::Async] {
            let model = |nodes: usize| {
                let size = nodes as f64;
                (size, Model::new(nodes as u64, mode, Rounds::default()).messages(size).total() / size)
            };
            let computed = self.of_mode(mode).map(|point| model(point.nodes));
            series.push(Series::computed(&format!("{mode:?}, calculated"), Style::Curve, computed));
            let measured = self.all(results, mode, "messages").into_iter();
            let measured = measured.map(|(nodes, value)| (nodes, value.per(nodes)));
            series.push(Series::measured(&format!("{mode:?}"), measured));
        }
        Plot {
            name: "messages-per-process".to_string(),
            title: "Messages per process, all contending".to_string(),
            x: Axis::log("n, processes"),
            y: Axis::linear("messages / n"),
            series,
        }
    }
}

impl Exhibitor for Scale {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        Exhibit {
            name: "scale".to_string(),
            title: "Theorems 4 to 7 and 9: rounds, messages and time over n".to_string(),
            setting: "All processes contend".to_string(),
            claims: vec![
                self.rounds(results, Mode::Sync, "Theorem 4"),
                self.messages(results, Mode::Sync, "Theorem 5"),
                self.rounds(results, Mode::Async, "Theorem 6"),
                self.messages(results, Mode::Async, "Theorem 7"),
                self.time(results),
            ],
            plots: vec![self.plot(results)],
            tables: vec![self.table(results)],
            notes: Vec::new(),
        }
    }
}
