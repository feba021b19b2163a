//! Theorem 8: the maximum duration of the second phase.

use suffrage_sim::{Contenders, Latency, proportion};

use super::{Request, add, mean_text, quorums, randomized, share};
use crate::report::{ALWAYS, Claim, Exhibit, Table, Verdict, interval};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};
use crate::trial::Trial;
use suffrage_core::Span;

/// The tables of the second phase, each with its maximum duration: by Theorem 8, and because the repaired mediators
/// keep a waiting contender until close-safe ends.
const TABLES: [(&str, &str); 2] = [("printed", "within_7_tau"), ("repaired", "within_10_tau")];

struct Point {
    tables: &'static str,
    within: &'static str,
    protocol: &'static str,
    latency: Latency,
    runs: u64,
    index: usize,
}

pub(super) struct Times {
    points: Vec<Point>,
}

impl Times {
    pub(super) fn of(study: &mut Study, request: Request) -> Times {
        let runs = request.part(20);
        let latencies = [Latency::Const(Span::UNIT), Latency::Uniform(Span::ZERO, Span::UNIT)];
        let small = (request.nodes / 50).max(20);
        let protocols: [(&str, Trial); 2] = [
            // There are as many finalists as contenders: mediators always have a waiting contender.
            ("PQ, 10% contend", quorums(small, Contenders::Share(0.1))),
            ("RE, all contend", randomized(small, Contenders::Share(1.0))),
        ];
        let mut points = Vec::new();
        for (tables, within) in TABLES {
            for (protocol, trial) in &protocols {
                for latency in latencies {
                    let mut trial = trial.clone().set("tables", tables);
                    trial.scenario.latency = latency;
                    let name = format!("Theorem 8, {protocol}, {tables}, {latency}");
                    let index = add(trial, study, &name, runs);
                    points.push(Point { tables, within, protocol, latency, runs, index });
                }
            }
        }
        Times { points }
    }

    fn judge(&self, results: &Results, tables: &str) -> (Verdict, String) {
        let mut late = Vec::new();
        let (mut in_time, mut runs) = (0, 0);
        for point in self.points.iter().filter(|point| point.tables == tables) {
            let at = results.at(point.index);
            let Some((within, of)) = at.counts(point.within) else { continue };
            in_time += within;
            runs += of;
            if within < of {
                let share = at.share(point.within).map_or(String::new(), interval);
                late.push(format!("{} with delays {}: {share}", point.protocol, point.latency));
            }
        }
        if runs == 0 {
            return (Verdict::Unclear, "There are no measurements.".to_string());
        }
        let share = proportion(in_time, runs);
        let found = match late.is_empty() {
            true => format!(
                "No contender took longer in any of {runs} runs: a share of {}. The claim holds if the interval is above {ALWAYS}.",
                interval(share)
            ),
            false => format!(
                "Not all contenders were in time. Shares of runs in which all were: {}.",
                late.join("; ")
            ),
        };
        (Verdict::always(share), found)
    }
}

impl Exhibitor for Times {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let says = "A contender in the second phase knows within 7 tau whether it has won.";
        let (verdict, found) = self.judge(results, "printed");
        let (repaired, also) = self.judge(results, "repaired");
        let question = "With the repaired tables, does a contender know it within 10 tau?";
        let head =
            ["protocol", "tables", "delays", "runs", "longest in tau", "within 7 tau", "within 10 tau"];
        let title = "The longest time of a contender in the second phase: the mean over runs, and the shares of runs in \
                     which all were in time";
        let mut table = Table::new("theorem-8-times", title, &head);
        for point in &self.points {
            let at = results.at(point.index);
            table.push([
                point.protocol.to_string(),
                point.tables.to_string(),
                point.latency.to_string(),
                point.runs.to_string(),
                mean_text(at, "longest_second_phase_tau"),
                share(at, "within_7_tau"),
                share(at, "within_10_tau"),
            ]);
        }
        Exhibit {
            name: "theorem-8".to_string(),
            title: "Theorem 8: the second phase is short".to_string(),
            setting: "Delays of tau, and uniform up to tau; all contenders start at the same time".to_string(),
            claims: vec![
                Claim::new("Theorem 8", says, verdict, found),
                Claim::new("", question, Verdict::OurQuestion, match repaired {
                    Verdict::Held => format!("Yes. {also}"),
                    Verdict::DidNotHold => format!("No. {also}"),
                    _ => format!("Unclear. {also}"),
                }),
            ],
            plots: Vec::new(),
            tables: vec![table],
            notes: vec![
                "With the printed tables, a waiting contender is refused as soon as a potential winner reports. That is \
                 fast, but sometimes no contender wins. With the repaired tables, the waiting contender is kept: an \
                 answer takes up to 8 tau (one in each direction, three for safe, three for close-safe), and POTW \
                 takes another two."
                    .to_string(),
            ],
        }
    }
}
