//! Interpretations of points that the paper leaves open, compared over the loss.

use super::bounds::Setting;
use super::{Strategy, mean, trial};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

const LOSSES: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];

/// An interpretation: its name and its settings.
struct Interpretation {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    description: &'static str,
}

const INTERPRETATIONS: [Interpretation; 5] = [
    Interpretation {
        name: "delay",
        settings: &[],
        description: "a member without a result calls a round after a random delay (the default)",
    },
    Interpretation {
        name: "delay, all know",
        settings: &[("all-know", "on")],
        description: "the same, and members that missed the call also wait for results",
    },
    Interpretation {
        name: "always",
        settings: &[("on-silence", "always")],
        description: "a member without a result calls a round at once",
    },
    Interpretation {
        name: "hash",
        settings: &[("on-silence", "hash")],
        description: "a member without a result calls a round only if it passes the filter, as after several results",
    },
    Interpretation {
        name: "never",
        settings: &[("on-silence", "never")],
        description: "a member without a result does nothing",
    },
];

pub(super) struct Interpretations {
    /// For each interpretation, the loss and the index of the point.
    points: Vec<Vec<(f64, usize)>>,
}

impl Interpretations {
    pub(super) fn of(study: &mut Study, runs: u64) -> Interpretations {
        let runs = (runs / 2).max(1);
        let mut add = |interpretation: &Interpretation, loss: f64| {
            let setting =
                Setting { nodes: 500.0, view_prob: 0.5, ucast_loss: loss, mcast_loss: loss, fail: 0.001 };
            let mut trial = trial(&setting, Strategy::SECTION_5);
            trial
                .settings
                .extend(interpretation.settings.iter().map(|(name, value)| (*name, value.to_string())));
            (loss, trial.add_to(study, &format!("{}, loss {loss}", interpretation.name), runs))
        };
        let points = INTERPRETATIONS
            .iter()
            .map(|interpretation| LOSSES.map(|loss| add(interpretation, loss)).to_vec());
        Interpretations { points: points.collect() }
    }

    fn plot(&self, results: &Results, name: &str, title: &str, y: Axis, figure: &str) -> Plot {
        let series = INTERPRETATIONS.iter().zip(&self.points).map(|(interpretation, points)| {
            let of = |&(loss, index): &(f64, usize)| Some((loss, mean(results.at(index), figure)?));
            Series::measured(interpretation.name, points.iter().filter_map(of))
        });
        Plot {
            name: name.to_string(),
            title: title.to_string(),
            x: Axis::linear("p_ucastl = p_mcastl"),
            y,
            series: series.collect(),
        }
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "interpretation",
            "loss",
            "strong",
            "weak",
            "rounds",
            "unicasts",
            "multicasts",
            "undecided",
            "split",
        ];
        let title = "All interpretations at all losses: means with 95% intervals";
        let mut table = Table::new("interpretations-table", title, &head);
        for (interpretation, points) in INTERPRETATIONS.iter().zip(&self.points) {
            for &(loss, index) in points {
                let at = results.at(index);
                let mean_text = |name: &str| mean(at, name).map_or(String::new(), interval);
                let brief = |name: &str| mean(at, name).map_or(String::new(), |mean| number(mean.mean));
                let mut cells = vec![
                    interpretation.name.to_string(),
                    loss.to_string(),
                    mean_text("strong"),
                    mean_text("weak"),
                ];
                cells.extend(
                    ["rounds", "unicasts", "multicasts", "failed_undecided", "failed_split"].map(brief),
                );
                table.push(cells);
            }
        }
        table
    }

    /// The lowest strong success of an interpretation, and the loss at which it occurs.
    fn lowest(&self, results: &Results, interpretation: usize) -> Option<(f64, suffrage_sim::Estimate)> {
        let points = self.points[interpretation].iter();
        let strong = points.filter_map(|&(loss, index)| Some((loss, results.at(index).mean("strong")?)));
        strong.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    }
}

impl Exhibitor for Interpretations {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let lowest_text = |interpretation: usize| {
            let name = INTERPRETATIONS[interpretation].name;
            self.lowest(results, interpretation).map_or(String::new(), |(loss, strong)| {
                format!("{name}: {} at loss {loss}", interval(strong))
            })
        };
        let all: Vec<String> = (0..INTERPRETATIONS.len()).map(lowest_text).collect();
        let descriptions = INTERPRETATIONS
            .iter()
            .map(|interpretation| format!("{}: {}.", interpretation.name, interpretation.description));
        let success = Axis::linear("P(success), strong").from(0.0, 1.02);
        Exhibit {
            name: "interpretations".to_string(),
            title: "Interpretations: which member calls the next round without a result?".to_string(),
            setting:
                "N = 500, p_fail 0.001, view_prob 0.5; K = 7, 14, 28, 56, N. The group is small because one of the \
                      interpretations sends about N multicasts."
                    .to_string(),
            claims: vec![Claim::new(
                "",
                "What should a member do that received no final choice to hash?",
                Verdict::OurQuestion,
                format!("The lowest strong success of each interpretation: {}.", all.join("; ")),
            )],
            plots: vec![
                self.plot(results, "interpretations-strong", "Strong success", success, "strong"),
                self.plot(
                    results,
                    "interpretations-multicasts",
                    "Multicasts",
                    Axis::log("multicasts"),
                    "multicasts",
                ),
                self.plot(results, "interpretations-unicasts", "Unicasts", Axis::log("unicasts"), "unicasts"),
            ],
            tables: vec![self.table(results)],
            notes: descriptions.collect(),
        }
    }
}
