//! Theorems 3 to 5: the messages and the time of a round, over K.

use suffrage_core::{Figure, Value};
use suffrage_sim::Estimate;
use suffrage_sim::statistics::fit_exponent;

use super::bounds::Setting;
use super::{Strategy, trial};
use crate::plot::{Axis, Plot, Series, Style};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

const KS: [u32; 5] = [7, 14, 28, 56, 112];
/// The tolerance of exponents.
const TOLERANCE: f64 = 0.1;
/// With smaller views there are more first choices, and more messages to relay.
const VIEWS: [f64; 2] = [0.5, 0.1];

pub(super) struct Theorem3 {
    /// For each view_prob, K and the index of the point.
    points: Vec<(f64, Vec<(u32, usize)>)>,
}

fn setting(view_prob: f64) -> Setting {
    Setting { nodes: 2000.0, view_prob, ucast_loss: 0.001, mcast_loss: 0.001, fail: 0.001 }
}

impl Theorem3 {
    pub(super) fn of(study: &mut Study, runs: u64) -> Theorem3 {
        // Counts vary less than successes: fewer runs give the same precision.
        let runs = (runs / 2).max(1);
        let mut add = |view_prob: f64, k: u32| {
            let setting = setting(view_prob);
            let trial = trial(&setting, Strategy::one_round(k));
            let name = format!("Theorem 3, K = {k}, view_prob {view_prob}");
            let command = trial.command();
            (k, study.add(name, runs, command, move |seed| within(&setting, k, trial.run(seed))))
        };
        let points = VIEWS.map(|view_prob| (view_prob, KS.map(|k| add(view_prob, k)).to_vec()));
        Theorem3 { points: points.to_vec() }
    }

    fn series(points: &[(u32, usize)], results: &Results, name: &str, figure: &str) -> Series {
        let of = |&(k, index): &(u32, usize)| Some((f64::from(k), results.at(index).mean(figure)?));
        Series::measured(name, points.iter().filter_map(of))
    }

    /// The exponent with which a figure grows in K.
    fn power(points: &[(u32, usize)], results: &Results, figure: &str) -> Option<Estimate> {
        let series = Theorem3::series(points, results, "", figure);
        let points: Vec<_> = series.points.iter().map(|point| (point.x, point.y.mean)).collect();
        fit_exponent(&points)
    }

    fn plots(&self, results: &Results) -> Vec<Plot> {
        let plot =
            |name: &str, title: &str, axis: &str, figure: &str, bound: &dyn Fn(f64) -> f64, named: &str| {
                let mut series =
                    vec![Series::computed(named, Style::Bound, KS.map(|k| (f64::from(k), bound(k.into()))))];
                for (view_prob, points) in &self.points {
                    series.push(Theorem3::series(points, results, &format!("view_prob {view_prob}"), figure));
                }
                Plot {
                    name: name.to_string(),
                    title: title.to_string(),
                    x: Axis::log("K"),
                    y: Axis::log(axis),
                    series,
                }
            };
        let low_faults = setting(VIEWS[0]);
        vec![
            plot(
                "theorem-3-unicasts",
                "Unicasts of one round",
                "unicasts",
                "unicasts",
                &|k| low_faults.most_unicasts(k),
                "(3 K1/2)^3",
            ),
            plot(
                "theorem-3-multicasts",
                "Final multicasts of one round",
                "final multicasts",
                "finals",
                &|k| low_faults.most_final_multicasts(k),
                "3 K1/2",
            ),
            plot(
                "theorem-5-time",
                "Time of one round",
                "time units",
                "time",
                &|k| 2000.0 * k + 2000.0,
                "NK + N",
            ),
        ]
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "view_prob",
            "K",
            "relay members",
            "unicasts",
            "final multicasts",
            "time",
            "Pr[E1] bound",
            "E1",
            "unicasts within",
            "multicasts within",
        ];
        let title = "One round: means; the shares of runs in which E1 holds (for relay members at the start) and in which counts are within (3 K1/2)^3 and 3 K1/2";
        let mut table = Table::new("theorem-3-costs", title, &head);
        for (view_prob, points) in &self.points {
            for &(k, index) in points {
                let at = results.at(index);
                let mean = |name: &str| at.mean(name).map_or(String::new(), |mean| number(mean.mean));
                let mean_text = |name: &str| at.mean(name).map_or(String::new(), interval);
                let mut cells = vec![view_prob.to_string(), k.to_string(), mean("first_relay_members")];
                cells.extend([mean_text("unicasts"), mean_text("finals"), mean("time")]);
                cells.push(number(setting(*view_prob).round(k.into()).e1));
                cells.extend(["e1", "unicasts_within", "finals_within"].map(mean));
                table.push(cells);
            }
        }
        table
    }

    /// Judges whether a share is at least a bound at all points, and returns the lowest share.
    fn at_least(
        &self,
        results: &Results,
        share: &str,
        bound: &dyn Fn(&Setting, u32) -> f64,
    ) -> (Verdict, f64) {
        let (mut verdicts, mut lowest) = (Vec::new(), 1.0_f64);
        for (view_prob, points) in &self.points {
            for &(k, index) in points {
                let Some(measured) = results.at(index).share(share) else { continue };
                verdicts.push(Verdict::at_least(measured, bound(&setting(*view_prob), k)));
                lowest = lowest.min(measured.mean);
            }
        }
        (Verdict::all(verdicts), lowest)
    }

    fn theorem_3(&self, results: &Results) -> Vec<Claim> {
        let (verdict, lowest) =
            self.at_least(results, "unicasts_within", &|setting, k| setting.round(k.into()).e1);
        let unicasts = Claim::new(
            "Theorem 3",
            "With probability Pr[E1] or more, a round takes O(K^3) unicasts.",
            verdict,
            format!(
                "Unicasts are within (3 K1/2)^3 in a share of at least {} of the runs, at every K.",
                number(lowest)
            ),
        );
        let (verdict, lowest) = self.at_least(results, "finals_within", &|setting, k| {
            let e1 = setting.round(k.into()).e1;
            e1 * e1
        });
        let multicasts = Claim::new(
            "Theorem 3",
            "With probability Pr[E1]^2 or more, a round takes O(K) multicasts, also at one time.",
            verdict,
            format!(
                "The final multicasts, which are sent at one time, are within 3 K1/2 in a share of at least {} of the \
                 runs, at every K.",
                number(lowest)
            ),
        );
        vec![unicasts, multicasts]
    }

    /// Judges whether rounds end within NK + N delays.
    fn in_time(&self, results: &Results) -> Verdict {
        Verdict::all(self.points.iter().flat_map(|(view_prob, points)| {
            let nodes = setting(*view_prob).nodes;
            let most = move |k: u32| nodes * f64::from(k) + nodes;
            let time = |index: usize| results.at(index).mean("time");
            points.iter().filter_map(move |&(k, index)| Some(Verdict::at_most(time(index)?, most(k))))
        }))
    }

    fn powers(&self, results: &Results) -> Vec<Claim> {
        let fit_powers = |figure: &str| -> (String, Vec<Estimate>) {
            let powers = self.points.iter().filter_map(|(view_prob, points)| {
                Theorem3::power(points, results, figure).map(|power| (view_prob, power))
            });
            let powers: Vec<_> = powers.collect();
            let text: Vec<String> = powers
                .iter()
                .map(|(view_prob, power)| format!("{} at view_prob {view_prob}", interval(*power)))
                .collect();
            (text.join(", "), powers.into_iter().map(|(_, power)| power).collect())
        };
        let (unicasts, powers) = fit_powers("unicasts");
        let steepest = powers.iter().max_by(|a, b| a.mean.total_cmp(&b.mean));
        let cubic = steepest.map_or(Verdict::Unclear, |power| Verdict::at_least(*power, 3.0 - TOLERANCE));
        let (finals, linear) = fit_powers("finals");
        let (time, _) = fit_powers("time");
        vec![
            Claim::new(
                "Theorem 4",
                "The expected number of unicasts is O(K^3).",
                Verdict::all(powers.iter().map(|power| Verdict::at_most(*power, 3.0))),
                format!("Unicasts grow with K to the power of {unicasts}. K^3 is an upper bound."),
            ),
            Claim::new(
                "section 3.1",
                "Unicasts are of the order m^3 for m relay members, since each one\u{2019}s best choice might be \
                 communicated to every other.",
                cubic,
                format!(
                    "Unicasts grow with K to the power of {unicasts}. The claim holds if one power is at least {}. If members \
                     prefer the lowest id, most start with the same choice and have nothing to relay.",
                    3.0 - TOLERANCE
                ),
            ),
            Claim::new(
                "Theorem 4",
                "The expected number of multicasts is O(K).",
                Verdict::all(linear.iter().map(|power| Verdict::at_most(*power, 1.0 + TOLERANCE))),
                format!(
                    "Final multicasts grow with K to the power of {finals}. At most {} counts as linear. There is one \
                     initiating multicast in addition.",
                    1.0 + TOLERANCE
                ),
            ),
            Claim::new(
                "Theorem 5",
                "A round takes O(NK + N) time.",
                self.in_time(results),
                format!(
                    "A round takes far less than NK + N delays. If all members are one delay apart, time grows with K to \
                     the power of {time}, because of the time-outs of section 3.2, and not with N (see the table over N \
                     below). The bound is for networks of N hops."
                ),
            ),
        ]
    }
}

/// Adds figures: whether E1 held, and whether the counts are within the bounds.
fn within(setting: &Setting, k: u32, mut figures: Vec<Figure>) -> Vec<Figure> {
    let amount = |name: &str| match figures.iter().find(|figure| figure.name == name)?.value {
        Value::Amount(amount) => Some(amount),
        Value::Share(_) => None,
    };
    let (Some(unicasts), Some(multicasts), Some(relay)) =
        (amount("unicasts"), amount("multicasts"), amount("first_relay_members"))
    else {
        return figures;
    };
    let elected = figures.contains(&Figure::share("strong", true));
    // A round without an elected leader has no observable end.
    let time = amount("decided").filter(|_| elected);
    let k = f64::from(k);
    // All multicasts except the initiating one.
    let finals = multicasts - 1.0;
    let k1 = setting.k1(k);
    figures.extend(time.map(|time| Figure::amount("time", time)));
    figures.push(Figure::amount("finals", finals));
    figures.push(Figure::share("e1", (k1 / 2.0..=1.5 * k1).contains(&relay)));
    figures.push(Figure::share("unicasts_within", unicasts <= setting.most_unicasts(k)));
    figures.push(Figure::share("finals_within", finals <= setting.most_final_multicasts(k)));
    figures
}

impl Exhibitor for Theorem3 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let mut claims = self.theorem_3(results);
        claims.extend(self.powers(results));
        Exhibit {
            name: "theorems-3-to-5".to_string(),
            title: "Theorems 3 to 5: the cost of a round".to_string(),
            setting: "N = 2000, losses and p_fail 0.001, one round".to_string(),
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

    #[test]
    fn counts_are_compared_with_the_bounds() {
        let figures = |unicasts, multicasts, relay| {
            let figures =
                [("unicasts", unicasts), ("multicasts", multicasts), ("first_relay_members", relay)];
            let figures = figures.map(|(name, value)| Figure::amount(name, value)).to_vec();
            within(&Setting { mcast_loss: 0.0, ..setting(0.5) }, 10, figures)
        };
        let shares = |figures: Vec<Figure>| -> Vec<bool> {
            figures
                .into_iter()
                .filter_map(|figure| match figure.value {
                    Value::Share(held) => Some(held),
                    Value::Amount(_) => None,
                })
                .collect()
        };
        assert_eq!(shares(figures(3375.0, 16.0, 15.0)), [true, true, true]);
        assert_eq!(shares(figures(3376.0, 17.0, 4.0)), [false, false, false]);
    }
}
