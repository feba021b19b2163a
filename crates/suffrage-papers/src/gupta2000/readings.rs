//! Readings of what the paper leaves open, compared over the loss.

use super::bounds::Setting;
use super::{Strategy, mean, trial};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

const LOSSES: [f64; 6] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5];

/// A reading: what it is called, and what it sets.
struct Reading {
    name: &'static str,
    settings: &'static [(&'static str, &'static str)],
    story: &'static str,
}

const READINGS: [Reading; 5] = [
    Reading {
        name: "delay",
        settings: &[],
        story: "whoever heard nothing calls a round after a random delay (the default)",
    },
    Reading {
        name: "delay, all know",
        settings: &[("all-know", "on")],
        story: "and those wait for results, too, who missed the call",
    },
    Reading {
        name: "always",
        settings: &[("on-silence", "always")],
        story: "whoever heard nothing calls a round at once",
    },
    Reading {
        name: "hash",
        settings: &[("on-silence", "hash")],
        story: "only if it passes the filter, as after several results",
    },
    Reading {
        name: "never",
        settings: &[("on-silence", "never")],
        story: "whoever heard nothing does nothing",
    },
];

pub(super) struct Readings {
    /// For each reading, the loss and the point's place.
    points: Vec<Vec<(f64, usize)>>,
}

impl Readings {
    pub(super) fn of(study: &mut Study, runs: u64) -> Readings {
        let runs = (runs / 2).max(1);
        let mut add = |reading: &Reading, loss: f64| {
            let setting =
                Setting { nodes: 500.0, view_prob: 0.5, ucast_loss: loss, mcast_loss: loss, fail: 0.001 };
            let mut trial = trial(&setting, Strategy::SECTION_5);
            trial.settings.extend(reading.settings.iter().map(|(name, value)| (*name, value.to_string())));
            (loss, trial.add_to(study, &format!("{}, loss {loss}", reading.name), runs))
        };
        let points = READINGS.iter().map(|reading| LOSSES.map(|loss| add(reading, loss)).to_vec());
        Readings { points: points.collect() }
    }

    fn plot(&self, results: &Results, name: &str, title: &str, y: Axis, figure: &str) -> Plot {
        let series = READINGS.iter().zip(&self.points).map(|(reading, points)| {
            let of = |&(loss, place): &(f64, usize)| Some((loss, mean(results.at(place), figure)?));
            Series::measured(reading.name, points.iter().filter_map(of))
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
        let head =
            ["reading", "loss", "strong", "weak", "rounds", "unicasts", "multicasts", "undecided", "split"];
        let title = "Every reading at every loss: means with 95% intervals";
        let mut table = Table::new("readings-table", title, &head);
        for (reading, points) in READINGS.iter().zip(&self.points) {
            for &(loss, place) in points {
                let at = results.at(place);
                let told = |name: &str| mean(at, name).map_or(String::new(), interval);
                let brief = |name: &str| mean(at, name).map_or(String::new(), |mean| number(mean.mean));
                let mut cells =
                    vec![reading.name.to_string(), loss.to_string(), told("strong"), told("weak")];
                cells.extend(
                    ["rounds", "unicasts", "multicasts", "failed_undecided", "failed_split"].map(brief),
                );
                table.push(cells);
            }
        }
        table
    }

    /// A reading's lowest strong success, and where.
    fn lowest(&self, results: &Results, reading: usize) -> Option<(f64, suffrage_sim::Estimate)> {
        let points = self.points[reading].iter();
        let strong = points.filter_map(|&(loss, place)| Some((loss, results.at(place).mean("strong")?)));
        strong.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
    }
}

impl Exhibitor for Readings {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let told = |reading: usize| {
            let name = READINGS[reading].name;
            self.lowest(results, reading).map_or(String::new(), |(loss, strong)| {
                format!("{name}: {} at loss {loss}", interval(strong))
            })
        };
        let all: Vec<String> = (0..READINGS.len()).map(told).collect();
        let stories = READINGS.iter().map(|reading| format!("{}: {}.", reading.name, reading.story));
        let success = Axis::linear("P(success), strong").from(0.0, 1.02);
        Exhibit {
            name: "readings".to_string(),
            title: "Readings: who calls the next round when nothing was heard?".to_string(),
            setting:
                "N = 500, p_fail 0.001, view_prob 0.5; K = 7, 14, 28, 56, N. A small group, since one of the \
                      readings multicasts in the order of N times."
                    .to_string(),
            claims: vec![Claim::new(
                "",
                "A member that heard no final choice has none to hash. What should it do?",
                Verdict::OurQuestion,
                format!("The lowest strong success of each reading: {}.", all.join("; ")),
            )],
            plots: vec![
                self.plot(results, "readings-strong", "Strong success", success, "strong"),
                self.plot(
                    results,
                    "readings-multicasts",
                    "Multicasts",
                    Axis::log("multicasts"),
                    "multicasts",
                ),
                self.plot(results, "readings-unicasts", "Unicasts", Axis::log("unicasts"), "unicasts"),
            ],
            tables: vec![self.table(results)],
            notes: stories.collect(),
        }
    }
}
