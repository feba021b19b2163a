//! Figure 5: the strategy of section 5 over loss, group size and views, with a row of three plots for each.

use super::bounds::Setting;
use super::{Strategy, mean, trial};
use crate::plot::{Axis, Plot, Series};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Measured, Results, Study};
use suffrage_sim::statistics::equal_means;
use suffrage_sim::{Estimate, RunningMean};

/// A row of Figure 5: the varied quantity, and the constant ones.
pub(super) struct Row {
    name: &'static str,
    title: &'static str,
    setting: &'static str,
    /// The letters of the plots.
    letters: [&'static str; 3],
    /// The varied quantity.
    label: &'static str,
    values: &'static [f64],
    at: fn(f64) -> Setting,
    claims: fn(&Figure5, &Results) -> Vec<Claim>,
    /// The end of the paper's axis of messages, and the first value with points in the paper.
    axis: (f64, f64),
}

/// The losses and failures of section 5, where they are not varied.
const LOW_FAULTS: f64 = 0.001;

const fn setting(nodes: f64, view_prob: f64, loss: f64) -> Setting {
    Setting { nodes, view_prob, ucast_loss: loss, mcast_loss: loss, fail: LOW_FAULTS }
}

/// The rows of Figure 5.
pub(super) static ROWS: [&Row; 3] = [
    &Row {
        name: "figure-5-loss",
        title: "Figure 5 (a-c): message loss",
        setting: "N = 2000, p_fail 0.001, view_prob 0.5; K = 7, 14, 28, 56, N",
        letters: ["5a", "5b", "5c"],
        label: "p_ucastl = p_mcastl",
        values: &[0.0, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5],
        at: |loss| setting(2000.0, 0.5, loss),
        claims: loss_claims,
        axis: (1000.0, 0.1),
    },
    &Row {
        name: "figure-5-size",
        title: "Figure 5 (d-f): group size",
        setting: "p_ucastl = p_mcastl = p_fail = 0.001, view_prob 0.5; K = 7, 14, 28, 56, N",
        letters: ["5d", "5e", "5f"],
        label: "N, members",
        values: &[1000.0, 2000.0, 3000.0, 4000.0, 5000.0, 6000.0],
        at: |nodes| setting(nodes, 0.5, LOW_FAULTS),
        claims: size_claims,
        axis: (30.0, 1000.0),
    },
    &Row {
        name: "figure-5-view",
        title: "Figure 5 (g-i): view probability",
        setting: "N = 5000, p_ucastl = p_mcastl = p_fail = 0.001; K = 7, 14, 28, 56, N",
        letters: ["5g", "5h", "5i"],
        label: "view_prob",
        values: &[0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5],
        at: |view_prob| setting(5000.0, view_prob, LOW_FAULTS),
        claims: view_claims,
        axis: (140.0, 0.2),
    },
];

pub(super) struct Figure5 {
    row: &'static Row,
    /// The value of the varied quantity, and the index of the point.
    points: Vec<(f64, usize)>,
}

impl Figure5 {
    pub(super) fn of(row: &'static Row, study: &mut Study, runs: u64) -> Figure5 {
        let points = row.values.iter().map(|&value| {
            let trial = trial(&(row.at)(value), Strategy::SECTION_5);
            (value, trial.add_to(study, &format!("{}, {} {value}", row.letters[0], row.label), runs))
        });
        Figure5 { row, points: points.collect() }
    }

    fn series(&self, results: &Results, name: &str, figure: &str) -> Series {
        let of = |&(x, index): &(f64, usize)| Some((x, mean(results.at(index), figure)?));
        Series::measured(name, self.points.iter().filter_map(of))
    }

    fn plots(&self, results: &Results) -> Vec<Plot> {
        let plot = |column: usize, title: &str, y, series| Plot {
            name: format!("figure-{}", self.row.letters[column]),
            title: format!("{}. {title}", self.row.letters[column]),
            x: Axis::linear(self.row.label),
            y,
            series,
        };
        let low = self.points.iter().filter_map(|&(_, index)| results.at(index).mean("strong"));
        let low = low.map(|strong| strong.lo).fold(1.0, f64::min);
        // The paper's axis starts at 0.5; this axis fits the values.
        let floor = [0.9, 0.5, 0.0].into_iter().find(|&floor| floor <= low).unwrap_or(0.0);
        let rounds = self.series(results, "rounds", "rounds");
        let most = rounds.points.iter().map(|point| point.y.hi).fold(0.0, f64::max);
        vec![
            plot(
                0,
                "P(success)",
                Axis::linear("P(success)").from(floor, 1.0 + 0.04 * (1.0 - floor)),
                vec![self.series(results, "strong", "strong"), self.series(results, "weak", "weak")],
            ),
            plot(1, "Rounds", Axis::linear("rounds").from(0.0, most.ceil().max(2.0)), vec![rounds]),
            plot(
                2,
                "Messages",
                Axis::log("messages"),
                vec![
                    self.series(results, "unicasts", "unicasts"),
                    self.series(results, "multicasts", "multicasts"),
                ],
            ),
        ]
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            self.row.label,
            "strong",
            "weak",
            "rounds",
            "unicasts",
            "multicasts",
            "last round",
            "crashed leader",
            "undecided",
            "split",
        ];
        let title =
            "Means with 95% intervals; shares of runs that reached the last round, and causes of failure";
        let mut table = Table::new(&format!("{}-table", self.row.name), title, &head);
        for &(x, index) in &self.points {
            let at = results.at(index);
            let mean_text = |name: &str| mean(at, name).map_or(String::new(), interval);
            let brief = |name: &str| mean(at, name).map_or(String::new(), |mean| number(mean.mean));
            let mut cells = vec![number(x)];
            cells.extend(["strong", "weak", "rounds", "unicasts", "multicasts"].map(mean_text));
            cells.extend(
                ["reached_last_round", "failed_dead_leader", "failed_undecided", "failed_split"].map(brief),
            );
            table.push(cells);
        }
        table
    }

    fn at<'r>(&self, results: &'r Results, value: f64) -> Option<&'r Measured> {
        let point = self.points.iter().find(|(x, _)| (x - value).abs() < 1e-9)?;
        Some(results.at(point.1))
    }

    /// The measurements of an amount at each point.
    fn amounts(&self, results: &Results, figure: &str) -> Vec<RunningMean> {
        self.points.iter().filter_map(|&(_, index)| results.at(index).amount(figure)).collect()
    }

    /// The estimate of a figure at each point.
    fn all(&self, results: &Results, figure: &str) -> Vec<(f64, Estimate)> {
        self.points.iter().filter_map(|&(x, index)| Some((x, mean(results.at(index), figure)?))).collect()
    }

    /// The paper calls success "very high" and weak success "close to 1" in a range, without a number. This
    /// reproduction takes 0.9 of all runs and 0.95 of the members.
    fn success(
        &self,
        results: &Results,
        location: &'static str,
        says: &str,
        range: &dyn Fn(f64) -> bool,
    ) -> [Claim; 2] {
        let lowest = |figure: &str| {
            let all = self.all(results, figure).into_iter().filter(|&(x, _)| range(x));
            all.min_by(|a, b| a.1.mean.total_cmp(&b.1.mean))
        };
        let judge = |figure: &str, least: f64| match lowest(figure) {
            None => (Verdict::Unclear, "There are no measurements.".to_string()),
            Some((x, value)) => {
                let verdict = Verdict::at_least(value, least);
                (
                    verdict,
                    format!(
                        "The lowest value is {}, at {} = {}. The claim holds if it is at least {least}.",
                        interval(value),
                        self.row.label,
                        number(x)
                    ),
                )
            }
        };
        let (strong, weak) = (judge("strong", 0.9), judge("weak", 0.95));
        // By definition no run has less weak success than strong success: that part needs no test.
        let says_weak = "Weak success is close to 1 in that range, and higher than strong success.";
        [Claim::new(location, says, strong.0, strong.1), Claim::new(location, says_weak, weak.0, weak.1)]
    }
}

fn loss_claims(figure: &Figure5, results: &Results) -> Vec<Claim> {
    let says = "Strong success is very high even at high loss, up to 0.4.";
    let mut claims = figure.success(results, "Figure 5(a)", says, &|loss| loss <= 0.4 + 1e-9).to_vec();
    let strong = figure.all(results, "strong");
    let found = match rise(&strong) {
        None => "Strong success falls, or stays within the intervals, as the loss grows.".to_string(),
        Some((low, high)) => format!(
            "No. Strong success is {} at loss {} and {} at loss {}. At low loss, a member rarely misses all messages. At \
             high loss, so many members do that a larger round is called. Between them, a single member may miss the \
             call and every result, and no member detects it.",
            interval(low.1),
            low.0,
            interval(high.1),
            high.0
        ),
    };
    let question = "Does strong success fall monotonically with the loss?";
    claims.push(Claim::new("", question, Verdict::OurQuestion, found));
    if let (Some(without), Some(with)) = (figure.at(results, 0.0), figure.at(results, 0.5)) {
        let mean_text = |at: &Measured, name: &str| at.mean(name).map_or(String::new(), interval);
        let question = "What is the cost of loss?";
        let found = format!(
            "From loss 0 to loss 0.5, rounds grow from {} to {}, unicasts from {} to {}, multicasts from {} to {}. A run \
             that reaches the last round, K = N, costs about N^2 unicasts. At loss 0.5, {} of runs do.",
            mean_text(without, "rounds"),
            mean_text(with, "rounds"),
            mean_text(without, "unicasts"),
            mean_text(with, "unicasts"),
            mean_text(without, "multicasts"),
            mean_text(with, "multicasts"),
            mean_text(with, "reached_last_round"),
        );
        claims.push(Claim::new("", question, Verdict::OurQuestion, found));
    }
    claims
}

/// The lowest point and the highest point after it, if the rise exceeds their intervals.
fn rise(points: &[(f64, Estimate)]) -> Option<((f64, Estimate), (f64, Estimate))> {
    let (index, low) = points.iter().enumerate().min_by(|a, b| a.1.1.mean.total_cmp(&b.1.1.mean))?;
    let high = points[index..].iter().max_by(|a, b| a.1.mean.total_cmp(&b.1.mean))?;
    (high.1.lo > low.1.hi).then_some((*low, *high))
}

fn size_claims(figure: &Figure5, results: &Results) -> Vec<Claim> {
    let says = "Strong success is very high up to and beyond N = 6000.";
    let mut claims = figure.success(results, "Figure 5(d)", says, &|_| true).to_vec();
    let rounds = figure.all(results, "rounds");
    let longest = rounds.iter().max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
    claims.push(Claim::new(
        "Figure 5(e)",
        "Termination within 1 expected round for N up to 6000.",
        Verdict::all(rounds.iter().map(|(_, rounds)| Verdict::at_most(*rounds, 1.1))),
        longest.map_or(String::new(), |(_, rounds)| {
            format!(
                "The largest mean number of rounds is {}. The claim holds if it is at most 1.1.",
                interval(*rounds)
            )
        }),
    ));
    for name in ["unicasts", "multicasts"] {
        let (verdict, found) = judge_equal_means(&figure.amounts(results, name));
        claims.push(Claim::new(
            "Figure 5(f)",
            &format!("The number of {name} does not vary with N."),
            verdict,
            found,
        ));
    }
    claims
}

/// The maximum distance of an interval from the common mean, as a fraction, for the means to count as the same.
const TOLERANCE: f64 = 0.1;
/// The significance level of the test that the means differ.
const SIGNIFICANCE: f64 = 0.01;

/// Judges whether the mean of an amount is the same at all points, and describes the result. The means differ if a
/// test at the level [`SIGNIFICANCE`] says so. They are the same if the test does not, and every interval is within
/// [`TOLERANCE`] of the common mean.
pub(super) fn judge_equal_means(points: &[RunningMean]) -> (Verdict, String) {
    let Some(probability) = equal_means(points) else {
        return (Verdict::Unclear, "There are too few runs.".to_string());
    };
    let mut all = RunningMean::default();
    points.iter().for_each(|point| all.merge(point));
    let common = (1.0 - TOLERANCE) * all.mean()..=(1.0 + TOLERANCE) * all.mean();
    let near = |point: &RunningMean| Verdict::judge(point.estimate(), common.clone());
    let verdict = match probability < SIGNIFICANCE {
        true => Verdict::DidNotHold,
        // Points that are off by more than the tolerance, without a significant difference, do not refute the claim.
        false if Verdict::all(points.iter().map(near)) == Verdict::Held => Verdict::Held,
        false => Verdict::Unclear,
    };
    let means = points.iter().map(RunningMean::mean);
    let found = format!(
        "The means are between {} and {}. If all were equal, such differences would have probability {} (Welch\u{2019}s \
         analysis of variance). The claim did not hold if this is below {SIGNIFICANCE}. Otherwise it held if every \
         interval is within {}% of the common mean.",
        number(means.clone().fold(f64::INFINITY, f64::min)),
        number(means.fold(f64::NEG_INFINITY, f64::max)),
        number(probability),
        TOLERANCE * 100.0
    );
    (verdict, found)
}

fn view_claims(figure: &Figure5, results: &Results) -> Vec<Claim> {
    let says = "Strong success is very high down to view_prob = 0.2.";
    let mut claims = figure.success(results, "Figure 5(g)", says, &|_| true).to_vec();
    if let (Some(few), Some(many)) = (figure.at(results, 0.2), figure.at(results, 0.5)) {
        let mean_text = |at: &Measured, name: &str| at.mean(name).map_or(String::new(), interval);
        let found = format!(
            "At view_prob 0.2 an election takes {} rounds, {} unicasts and {} multicasts. At 0.5 it takes {}, {} and {}.",
            mean_text(few, "rounds"),
            mean_text(few, "unicasts"),
            mean_text(few, "multicasts"),
            mean_text(many, "rounds"),
            mean_text(many, "unicasts"),
            mean_text(many, "multicasts"),
        );
        claims.push(Claim::new("", "What is the cost of small views?", Verdict::OurQuestion, found));
    }
    claims
}

impl Figure5 {
    /// The paper's text does not give its curves, but the plots show the ends of the axes.
    fn within_axis(&self, results: &Results) -> Claim {
        let (end, from) = self.row.axis;
        let counts = ["unicasts", "multicasts"].map(|name| {
            let all = self.all(results, name).into_iter().filter(|&(x, _)| x >= from - 1e-9);
            let highest = all.max_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
            highest.map_or(String::new(), |(x, value)| {
                format!("{name} up to {} (at {})", interval(value), number(x))
            })
        });
        let question = format!(
            "The axis of Figure {} ends at {end} messages. Do the measurements stay below it?",
            self.row.letters[2].replace('5', "5(") + ")"
        );
        let verdicts = ["unicasts", "multicasts"].into_iter().flat_map(|name| {
            let points = self.all(results, name).into_iter().filter(|point| point.0 >= from - 1e-9);
            points.map(|point| Verdict::at_most(point.1, end))
        });
        let answer = match Verdict::all(verdicts) {
            Verdict::Held => "Yes",
            Verdict::DidNotHold => {
                "No. The measurements exceed the axis, and the paper does not explain the difference"
            }
            _ => "Unclear",
        };
        Claim::new(
            "",
            &question,
            Verdict::OurQuestion,
            format!("{answer}. Measured: {}.", counts.join(" and ")),
        )
    }
}

impl Exhibitor for Figure5 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let mut claims = (self.row.claims)(self, results);
        claims.push(self.within_axis(results));
        Exhibit {
            name: self.row.name.to_string(),
            title: self.row.title.to_string(),
            setting: self.row.setting.to_string(),
            claims,
            plots: self.plots(results),
            tables: vec![self.table(results)],
            notes: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(mean: f64, error: f64) -> Estimate {
        Estimate { mean, lo: mean - 1.96 * error, hi: mean + 1.96 * error }
    }

    /// `pairs` pairs of measurements, one on each side of the mean.
    fn spread(mean: f64, off: f64, pairs: usize) -> RunningMean {
        (0..pairs).flat_map(|_| [mean - off, mean + off]).collect()
    }

    #[test]
    fn equal_means_differ_by_no_more_than_random_error() {
        let points = |means: [f64; 3], off, pairs| means.map(|mean| spread(mean, off, pairs));
        let (same, grows) = ([10.0, 10.1, 9.9], [10.0, 12.0, 14.0]);
        assert_eq!(judge_equal_means(&points(same, 2.0, 200)).0, Verdict::Held);
        assert_eq!(
            judge_equal_means(&points(same, 2.0, 2)).0,
            Verdict::Unclear,
            "four runs do not show that it is the same"
        );
        assert_eq!(judge_equal_means(&points(grows, 2.0, 20)).0, Verdict::DidNotHold);
        assert_eq!(
            judge_equal_means(&points(grows, 2.0, 1)).0,
            Verdict::Unclear,
            "two runs do not show that it is not"
        );
        assert_eq!(judge_equal_means(&points(grows, 0.0, 2)).0, Verdict::Unclear);
        assert_eq!(judge_equal_means(&points(same, 2.0, 200)[..1]).0, Verdict::Unclear);
    }

    #[test]
    fn a_rise_exceeds_the_intervals() {
        let dip = [(0.0, near(0.99, 0.001)), (0.2, near(0.95, 0.005)), (0.4, near(0.98, 0.002))];
        assert_eq!(rise(&dip), Some((dip[1], dip[2])));
        assert_eq!(rise(&dip[..2]), None);
        assert_eq!(rise(&[dip[1], (0.4, near(0.955, 0.005))]), None);
        assert_eq!(rise(&[]), None);
    }

    /// "In Figures 5(a-c) …"
    #[test]
    fn the_rows_are_those_of_section_5() {
        let [loss, size, view] = ROWS.map(|row| (row.values, row.at));
        assert_eq!((loss.0.first(), loss.0.last()), (Some(&0.0), Some(&0.5)));
        let at = (loss.1)(0.3);
        assert_eq!(
            (at.nodes, at.fail, at.view_prob, at.ucast_loss, at.mcast_loss),
            (2000.0, 0.001, 0.5, 0.3, 0.3)
        );
        assert_eq!((size.0.first(), size.0.last()), (Some(&1000.0), Some(&6000.0)));
        let at = (size.1)(4000.0);
        assert_eq!((at.nodes, at.fail, at.view_prob, at.ucast_loss), (4000.0, 0.001, 0.5, 0.001));
        assert_eq!((view.0.first(), view.0.last()), (Some(&0.2), Some(&0.5)));
        let at = (view.1)(0.2);
        assert_eq!((at.nodes, at.fail, at.view_prob, at.mcast_loss), (5000.0, 0.001, 0.2, 0.001));
    }
}
