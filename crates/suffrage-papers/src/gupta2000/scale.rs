//! Costs that do not depend on the size of the group.

use super::bounds::Setting;
use super::figure5::judge_equal_means;
use super::{Strategy, trial};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Claim, Exhibit, Table, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};
use suffrage_sim::{Estimate, RunningMean};

/// Group sizes, each with the divisor of the number of runs: the time of a run is proportional to N.
const SIZES: [(usize, u64); 4] = [(1_000, 1), (10_000, 1), (100_000, 5), (1_000_000, 25)];
/// The minimum number of runs for a mean.
const FEWEST: u64 = 10;

pub(super) struct Scale {
    points: Vec<(usize, u64, usize)>,
}

impl Scale {
    pub(super) fn of(study: &mut Study, runs: u64) -> Scale {
        let points = SIZES.into_iter().map(|(nodes, part)| {
            let setting = Setting {
                nodes: nodes as f64,
                view_prob: 0.5,
                ucast_loss: 0.001,
                mcast_loss: 0.001,
                fail: 0.001,
            };
            // The strategy of section 5 without its last round, in which a million members would send to a million.
            let strategy = Strategy { max_rounds: 4, ends_with_all: false, ..Strategy::SECTION_5 };
            let runs = (runs / part).max(FEWEST.min(runs));
            (nodes, runs, trial(&setting, strategy).add_to(study, &format!("N = {nodes}"), runs))
        });
        Scale { points: points.collect() }
    }

    fn table(&self, results: &Results) -> Table {
        let head =
            ["N", "runs", "unicasts", "multicasts", "rounds", "relay members", "time", "strong", "weak"];
        let title = "The same K in groups of any size: means with 95% intervals";
        let mut table = Table::new("messages-over-n", title, &head);
        for &(nodes, runs, index) in &self.points {
            let at = results.at(index);
            let mean_text = |name: &str| at.mean(name).map_or(String::new(), interval);
            let mean = |name: &str| at.mean(name).map_or(String::new(), |mean| number(mean.mean));
            let mut cells = vec![nodes.to_string(), runs.to_string()];
            cells.extend([
                mean_text("unicasts"),
                mean_text("multicasts"),
                mean("rounds"),
                mean("first_relay_members"),
            ]);
            cells.extend([mean("decided"), mean_text("strong"), mean("weak")]);
            table.push(cells);
        }
        table
    }

    fn amounts(&self, results: &Results, figure: &str) -> Vec<RunningMean> {
        self.points.iter().filter_map(|&(_, _, index)| results.at(index).amount(figure)).collect()
    }

    fn all(&self, results: &Results, figure: &str) -> Vec<(f64, Estimate)> {
        let points = self.points.iter();
        points
            .filter_map(|&(nodes, _, index)| Some((nodes as f64, results.at(index).mean(figure)?)))
            .collect()
    }
}

impl Exhibitor for Scale {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let claim = |says: &str, figure: &str| {
            let (verdict, found) = judge_equal_means(&self.amounts(results, figure));
            Claim::new("Theorem 4", says, verdict, found)
        };
        let series =
            ["unicasts", "multicasts"].map(|figure| Series::measured(figure, self.all(results, figure)));
        Exhibit {
            name: "scale".to_string(),
            title: "Messages over N, from a thousand to a million".to_string(),
            setting: "K = 7, 14, 28, 56; view_prob 0.5, losses and p_fail 0.001".to_string(),
            claims: vec![
                claim("For a fixed K, the number of unicasts does not depend on N.", "unicasts"),
                claim("For a fixed K, the number of multicasts does not depend on N.", "multicasts"),
            ],
            plots: vec![Plot {
                name: "messages-over-n-plot".to_string(),
                title: "Messages of an election".to_string(),
                x: Axis::log("N, members"),
                y: Axis::linear("messages"),
                series: series.to_vec(),
            }],
            tables: vec![self.table(results)],
            notes: Vec::new(),
        }
    }
}
