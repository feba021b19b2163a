//! Table 1: the measured cost of elections over n.

use suffrage_sim::statistics::fit_exponent;
use suffrage_sim::{Contenders, Estimate, Ranking};

use super::{Request, add, add_in_bulk, mean_text, quorums, randomized, scenario};
use crate::gupta2000::{Strategy, bounds::Setting, trial};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};
use crate::trial::Trial;

const SIZES: [usize; 6] = [250, 500, 1_000, 2_000, 4_000, 8_000];
/// The tolerance of exponents, for rounding up in small groups and for logarithms.
const TOLERANCE: f64 = 0.1;

/// A row of the table.
struct Row {
    name: &'static str,
    /// The message complexity that the paper claims.
    says: &'static str,
    /// The exponent of that complexity.
    most: f64,
    /// The figure that counts the messages.
    messages: &'static str,
    trial: fn(usize) -> Trial,
    /// True if [`bulk`](super::bulk) computes the runs.
    bulk: bool,
}

const ALL: Contenders = Contenders::Share(1.0);

fn ring(nodes: usize) -> Trial {
    let mut trial = Trial::new("chang-roberts", scenario(nodes, ALL));
    trial.scenario.ranking = Ranking::Random;
    trial
}

fn gupta(nodes: usize) -> Trial {
    let nodes = nodes as f64;
    let setting = Setting { nodes, view_prob: 1.0, ucast_loss: 0.0, mcast_loss: 0.0, fail: 0.0 };
    trial(&setting, Strategy::SECTION_5)
}

const ROWS: [Row; 4] = [
    Row {
        name: "probabilistic quorum",
        says: "PQ takes O(n sqrt n) messages (by section 8, O(n sqrt(n ln n))).",
        most: 1.5,
        messages: "messages",
        trial: |nodes| quorums(nodes, ALL),
        bulk: true,
    },
    Row {
        name: "gupta (P.C.L.E.)",
        says: "The election of Gupta et al. takes O(K^4 n) messages per round.",
        most: 1.0,
        messages: "sent",
        trial: gupta,
        bulk: false,
    },
    Row {
        name: "ring (chang-roberts)",
        says: "Does a ring need n log n messages, as the table says?",
        most: 1.0,
        messages: "messages",
        trial: ring,
        bulk: false,
    },
    Row {
        name: "randomized",
        says: "Randomized election takes O(n) messages.",
        most: 1.0,
        messages: "messages",
        trial: |nodes| randomized(nodes, ALL),
        bulk: false,
    },
];

pub(super) struct Table1 {
    /// For each row, sizes and the indices of the points.
    points: Vec<(&'static Row, Vec<(usize, usize)>)>,
    runs: u64,
}

impl Table1 {
    pub(super) fn of(study: &mut Study, request: Request) -> Table1 {
        let runs = request.part(500);
        let points = ROWS.iter().map(|row| {
            let sizes = SIZES.into_iter().filter(|&nodes| nodes <= request.most_nodes);
            let indices = sizes.map(|nodes| {
                let name = format!("Table 1, {}, n = {nodes}", row.name);
                let index = match row.bulk {
                    true => add_in_bulk(nodes, ALL, study, &name, runs),
                    false => add((row.trial)(nodes), study, &name, runs),
                };
                (nodes, index)
            });
            (row, indices.collect())
        });
        Table1 { points: points.collect(), runs }
    }

    fn messages(row: &Row, indices: &[(usize, usize)], results: &Results) -> Vec<(f64, Estimate)> {
        let all = indices.iter();
        all.filter_map(|&(nodes, index)| Some((nodes as f64, results.at(index).mean(row.messages)?)))
            .collect()
    }

    fn exponent(row: &Row, indices: &[(usize, usize)], results: &Results) -> Option<Estimate> {
        let points = Table1::messages(row, indices, results);
        fit_exponent(&points.iter().map(|(nodes, value)| (*nodes, value.mean)).collect::<Vec<_>>())
    }

    fn claim(row: &Row, indices: &[(usize, usize)], results: &Results) -> Claim {
        let Some(fit) = Table1::exponent(row, indices, results) else {
            return Claim::new("Table 1", row.says, Verdict::Unclear, "There are too few sizes.".to_string());
        };
        let grows = format!("Messages grow as n to the power of {}", interval(fit));
        if row.name.starts_with("ring") {
            // The bound is for the worst order of ranks; the measurement is the mean over random orders.
            let found = format!("{grows}, on average over random orders. The bound is for the worst order.");
            return Claim::new("", row.says, Verdict::OurQuestion, found);
        }
        let found = format!(
            "{grows}. The claim is {}, with a tolerance of {TOLERANCE} for rounding and logarithms.",
            row.most
        );
        Claim::new("Table 1", row.says, Verdict::at_most(fit, row.most + TOLERANCE), found)
    }

    fn table(&self, results: &Results) -> Table {
        let head = ["algorithm", "n", "messages", "messages / n", "exponent", "rounds", "time", "agreed"];
        let title = format!(
            "Messages, rounds, and time in maximum delays, if all contend (gupta: one initiator), {} runs each. The \
             exponent is of the power law over all sizes. A multicast of gupta counts once per member",
            self.runs
        );
        let mut table = Table::new("table-1", &title, &head);
        for (row, indices) in &self.points {
            let fit = Table1::exponent(row, indices, results).map_or("-".to_string(), |fit| number(fit.mean));
            for &(nodes, index) in indices {
                let at = results.at(index);
                let each = at.mean(row.messages).map_or(0.0, |mean| mean.mean) / nodes as f64;
                table.push([
                    row.name.to_string(),
                    nodes.to_string(),
                    mean_text(at, row.messages),
                    number(each),
                    fit.clone(),
                    mean_text(at, "rounds"),
                    mean_text(at, "decided"),
                    mean_text(at, "agreed"),
                ]);
            }
        }
        table
    }
}

impl Exhibitor for Table1 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let series = self
            .points
            .iter()
            .map(|(row, indices)| Series::measured(row.name, Table1::messages(row, indices, results)));
        Exhibit {
            name: "table-1".to_string(),
            title: "Table 1: comparison of algorithms".to_string(),
            setting: "All processes contend; gupta has one initiator and K = 7, 14, 28, 56, N; the ranks of the \
                      ring are in random order; no message is lost"
                .to_string(),
            claims: self
                .points
                .iter()
                .map(|(row, indices)| Table1::claim(row, indices, results))
                .collect(),
            plots: vec![Plot {
                name: "table-1-messages".to_string(),
                title: "Messages of an election".to_string(),
                x: Axis::log("n, processes"),
                y: Axis::log("messages"),
                series: series.collect(),
            }],
            tables: vec![self.table(results)],
            notes: vec![
                "The other rows of the table are for other networks, a multihop radio network and multicast groups. \
                 They are not measured."
                    .to_string(),
            ],
        }
    }
}
