//! Section 3.2: the messages saved when mediators of earlier rounds take part in later ones.

use suffrage_sim::{Contenders, Estimate};

use super::{Request, add, mean_text, randomized, share, synchronous};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

const SHARES: [f64; 2] = [0.01, 1.0];

struct Point {
    mode: &'static str,
    share: f64,
    /// The indices of the points without and with reuse.
    indices: [usize; 2],
}

pub(super) struct Reuse {
    nodes: usize,
    runs: u64,
    points: Vec<Point>,
}

impl Reuse {
    pub(super) fn of(study: &mut Study, request: Request) -> Reuse {
        let runs = request.part(400);
        let mut points = Vec::new();
        for mode in ["sync", "async"] {
            for share in SHARES {
                let indices = [false, true].map(|reuse| {
                    let trial = randomized(request.nodes, Contenders::Share(share));
                    let trial = if mode == "sync" { synchronous(trial) } else { trial };
                    let trial = if reuse { trial.set("reuse-mediators", "on") } else { trial };
                    add(trial, study, &format!("Reuse of mediators: {reuse}, {mode}, {share}"), runs)
                });
                points.push(Point { mode, share, indices });
            }
        }
        Reuse { nodes: request.nodes, runs, points }
    }

    /// The messages with reuse, as a fraction of those without.
    fn part(point: &Point, results: &Results, figure: &str) -> Option<Estimate> {
        let [without, with] = point.indices.map(|index| results.at(index).mean(figure));
        let (without, with) = (without?, with?);
        Some(with.ratio(without))
    }
}

impl Exhibitor for Reuse {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let parts: Vec<(&Point, Estimate)> = self
            .points
            .iter()
            .filter_map(|point| Some((point, Reuse::part(point, results, "messages")?)))
            .collect();
        let verdicts = parts.iter().map(|(_, part)| Verdict::at_most(*part, 1.0));
        let found: Vec<String> = parts
            .iter()
            .map(|(point, part)| {
                format!("{}, {}% contend: {}", point.mode, number(point.share * 100.0), interval(*part))
            })
            .collect();
        let says = "Reusing the mediators of earlier rounds and asking only the additional ones reduces the messages by \
                    a constant factor.";
        let found = format!("Messages, as a share of those without reuse: {}.", found.join("; "));
        let head = ["mode", "contenders", "used again", "messages", "first phase", "finalists", "one winner"];
        let title = format!("Means of {} runs", self.runs);
        let mut table = Table::new("mediators-used-again", &title, &head);
        for point in &self.points {
            for (index, reuse) in point.indices.into_iter().zip(["no", "yes"]) {
                let at = results.at(index);
                table.push([
                    point.mode.to_string(),
                    format!("{}%", point.share * 100.0),
                    reuse.to_string(),
                    mean_text(at, "messages"),
                    mean_text(at, "first_phase"),
                    mean_text(at, "finalists"),
                    share(at, "winners_1"),
                ]);
            }
        }
        Exhibit {
            name: "reuse".to_string(),
            title: "Section 3.2: reuse of mediators".to_string(),
            setting: format!("n = {}", self.nodes),
            claims: vec![Claim::new("section 3.2", says, Verdict::all(verdicts), found)],
            plots: Vec::new(),
            tables: vec![table],
            notes: vec![
                "Our interpretation: a mediator keeps an accepted contender until it drops out, so a losing contender \
                 must report that. This message is counted and reduces the savings."
                    .to_string(),
            ],
        }
    }
}
