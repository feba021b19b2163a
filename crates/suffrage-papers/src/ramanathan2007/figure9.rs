//! Figure 9: messages over the share of contenders, for the randomized election (RE) and PQ.

use suffrage_sim::{Contenders, Estimate};

use super::{Request, add, add_in_bulk, mean_text, quorums, randomized};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};
use crate::trial::Trial;

/// "We vary beta from 1% to 50%."
const SHARES: [f64; 7] = [0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5];
/// "with power-law parameter alpha = 0.8".
const ALPHA: f64 = 0.8;

/// A curve of the figure.
struct Curve {
    name: &'static str,
    trial: fn(usize, Contenders) -> Trial,
    overlaid: bool,
    /// True if [`bulk`](super::bulk) computes the runs.
    bulk: bool,
    /// The divisor of the number of runs.
    part: u64,
    shares: &'static [f64],
}

const CURVES: [Curve; 4] = [
    Curve { name: "RE", trial: randomized, overlaid: false, bulk: false, part: 100, shares: &SHARES },
    Curve {
        name: "RE, power-law overlay",
        trial: randomized,
        overlaid: true,
        bulk: false,
        part: 2_000,
        shares: &SHARES,
    },
    Curve { name: "PQ", trial: quorums, overlaid: false, bulk: true, part: 500, shares: &SHARES },
    // This curve has a random walk for each mediator. The other shares would take minutes per run, with the same
    // result.
    Curve {
        name: "PQ, power-law overlay",
        trial: quorums,
        overlaid: true,
        bulk: false,
        part: 5_000,
        shares: &[0.01],
    },
];

struct Point {
    curve: &'static Curve,
    share: f64,
    runs: u64,
    index: usize,
}

pub(super) struct Figure9 {
    nodes: usize,
    points: Vec<Point>,
}

impl Figure9 {
    pub(super) fn of(study: &mut Study, request: Request) -> Figure9 {
        let mut points = Vec::new();
        for curve in &CURVES {
            for &share in curve.shares {
                // The slowest point has as many runs as the fast ones.
                let part = if share == 0.5 && curve.bulk { 100 } else { curve.part };
                let runs = request.part(part);
                let (nodes, contenders) = (request.nodes, Contenders::Share(share));
                let name = format!("Figure 9, {}, {}% contend", curve.name, share * 100.0);
                let trial = || (curve.trial)(nodes, contenders);
                let index = match (curve.bulk, curve.overlaid) {
                    (true, _) => add_in_bulk(nodes, contenders, study, &name, runs),
                    (false, true) => add(trial().over_power_law(ALPHA), study, &name, runs),
                    (false, false) => add(trial(), study, &name, runs),
                };
                points.push(Point { curve, share, runs, index });
            }
        }
        Figure9 { nodes: request.nodes, points }
    }

    fn at(&self, results: &Results, curve: &str, share: f64, figure: &str) -> Option<Estimate> {
        let point = self.points.iter().find(|point| point.curve.name == curve && point.share == share)?;
        results.at(point.index).mean(figure)
    }

    fn curve(&self, results: &Results, curve: &str) -> Vec<(f64, Estimate)> {
        let points = SHARES.into_iter();
        points
            .filter_map(|share| Some((share * 100.0, self.at(results, curve, share, "messages")?)))
            .collect()
    }

    /// The ratio of the messages of PQ to those of RE.
    fn ratio(&self, results: &Results, share: f64) -> Option<Estimate> {
        let (few, many) =
            (self.at(results, "RE", share, "messages")?, self.at(results, "PQ", share, "messages")?);
        Some(many.ratio(few))
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let mut claims = Vec::new();
        let says = "With 50% contenders, PQ takes more than ten times as many messages as RE.";
        if let Some(ratio) = self.ratio(results, 0.5) {
            let found = format!("PQ takes {} times as many messages as RE.", interval(ratio));
            claims.push(Claim::new("section 7.1", says, Verdict::at_least(ratio, 10.0), found));
        }
        let growth = |curve: &str| {
            let ends = [0.01, 0.5].map(|share| self.at(results, curve, share, "messages"));
            Some(ends[1]?.ratio(ends[0]?))
        };
        if let (Some(quorums), Some(rounds)) = (growth("PQ"), growth("RE")) {
            let says = "PQ does not scale well when the share of contenders grows.";
            let found = format!(
                "From 1% to 50% contenders, the messages of PQ grow by a factor of {}, those of RE by {}.",
                interval(quorums),
                interval(rounds)
            );
            claims.push(Claim::new("section 7.1", says, Verdict::above(quorums.ratio(rounds), 1.0), found));
        }
        claims.extend(self.overlay(results));
        claims
    }

    /// The cost of finding mediators by random walks.
    fn overlay(&self, results: &Results) -> Option<Claim> {
        let plain = self.at(results, "RE", 0.5, "messages")?;
        let walked = self.at(results, "RE, power-law overlay", 0.5, "messages")?;
        let hops = self.at(results, "RE, power-law overlay", 0.5, "walk_hops")?;
        let question = "What is the cost of finding mediators by Metropolis-Hastings walks in the overlay?";
        let found = format!(
            "At 50% contenders an election takes {} messages with walks and {} without. The walks take {} hops, {} per \
             message, which the paper does not count.",
            interval(walked),
            interval(plain),
            number(hops.mean),
            number(hops.mean / walked.mean),
        );
        Some(Claim::new("", question, Verdict::OurQuestion, found))
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "protocol",
            "contenders",
            "runs",
            "messages",
            "messages / n",
            "first phase",
            "second phase",
            "finalists",
            "one winner",
            "hops",
        ];
        let title =
            format!("Messages of an election among {} processes: means with 95% intervals", self.nodes);
        let mut table = Table::new("figure-9-numbers", &title, &head);
        for point in &self.points {
            let at = results.at(point.index);
            let mean = |name: &str| at.mean(name).map_or("-".to_string(), |mean| number(mean.mean));
            let each = at.mean("messages").map(|mean| number(mean.per(self.nodes as f64).mean));
            table.push([
                point.curve.name.to_string(),
                format!("{}%", point.share * 100.0),
                point.runs.to_string(),
                mean_text(at, "messages"),
                each.unwrap_or_default(),
                mean("first_phase"),
                mean("second_phase"),
                mean("finalists"),
                mean("winners_1"),
                mean("walk_hops"),
            ]);
        }
        table
    }
}

impl Exhibitor for Figure9 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let series = CURVES.iter().map(|curve| Series::measured(curve.name, self.curve(results, curve.name)));
        Exhibit {
            name: "figure-9".to_string(),
            title: "Figure 9: messages against the share of contenders".to_string(),
            setting: format!(
                "n = {}, asynchronous, delays uniform up to tau; mediators chosen uniformly, or by walks in a \
                 power-law overlay of alpha {ALPHA}",
                self.nodes
            ),
            claims: self.claims(results),
            plots: vec![Plot {
                name: "figure-9".to_string(),
                title: format!("Messages, n = {}", self.nodes),
                x: Axis::linear("contenders, % of processes"),
                y: Axis::log("messages"),
                series: series.collect(),
            }],
            tables: vec![self.table(results)],
            notes: Vec::new(),
        }
    }
}
