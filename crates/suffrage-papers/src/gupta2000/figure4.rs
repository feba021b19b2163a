//! Figure 4: the bounds of Theorem 1, compared with the measured success of a round.

use super::bounds::{Round, Setting};
use super::{Strategy, trial};
use crate::plot::{Axis, Plot, Series, Style};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

/// The values of K at which rounds are measured.
const KS: [u32; 8] = [7, 10, 15, 20, 30, 40, 50, 65];

pub(super) struct Figure4 {
    /// K, and the index of the point.
    points: Vec<(u32, usize)>,
}

impl Figure4 {
    pub(super) fn of(study: &mut Study, runs: u64) -> Figure4 {
        let points = KS.into_iter().map(|k| {
            let trial = trial(&Setting::FIGURE_4, Strategy::one_round(k));
            (k, trial.add_to(study, &format!("Figure 4, K = {k}"), runs))
        });
        Figure4 { points: points.collect() }
    }

    fn plot(&self, results: &Results) -> Plot {
        let curve = |name: &str, style, of: fn(&Round) -> f64| {
            let ks = (8..=130).map(|half| f64::from(half) / 2.0);
            Series::computed(name, style, ks.map(|k| (k, of(&Setting::FIGURE_4.round(k)))))
        };
        let measured = self
            .points
            .iter()
            .filter_map(|&(k, index)| Some((f64::from(k), results.at(index).share("strong")?)));
        Plot {
            name: "figure-4".to_string(),
            title: "Success of one round: bounds and measurement".to_string(),
            x: Axis::linear("K").from(0.0, 70.0),
            y: Axis::linear("probability").from(0.0, 1.05),
            series: vec![
                curve("Pr[E1]", Style::Curve, |round| round.e1),
                curve("Pr[E2|E1]", Style::Curve, |round| round.e2),
                curve("Pr[E3|E1,E2]", Style::Curve, |round| round.e3),
                curve("Pr[E4|E1..E3]", Style::Curve, |round| round.e4),
                curve("Pr[E1..E5]", Style::Bound, Round::success),
                Series::measured("measured", measured),
            ],
        }
    }

    fn table(&self, results: &Results) -> Table {
        let head =
            ["K", "bound", "measured", "relay members", "crashed leader", "undecided", "split", "weak"];
        let mut table = Table::new(
            "figure-4-rounds",
            "One round, with exact 95% intervals; causes of failure as shares of all runs",
            &head,
        );
        for &(k, index) in &self.points {
            let at = results.at(index);
            let mean = |name: &str| at.mean(name).map_or(String::new(), |mean| number(mean.mean));
            table.push([
                k.to_string(),
                number(Setting::FIGURE_4.round(k.into()).success()),
                at.share("strong").map_or(String::new(), interval),
                mean("first_relay_members"),
                mean("failed_dead_leader"),
                mean("failed_undecided"),
                mean("failed_split"),
                mean("weak"),
            ]);
        }
        table
    }

    /// Judges whether the bound is below the measured success.
    fn below(&self, results: &Results) -> Claim {
        let mut judged = Vec::new();
        let mut nearest = f64::INFINITY;
        for &(k, index) in &self.points {
            let (Some(strong), bound) =
                (results.at(index).share("strong"), Setting::FIGURE_4.round(k.into()).success())
            else {
                continue;
            };
            nearest = nearest.min(strong.mean - bound);
            let text = format!("K = {k}: {} against {}", interval(strong), number(bound));
            judged.push((Verdict::at_least(strong, bound), text));
        }
        let (verdict, deciding) = Verdict::decide(&judged);
        let found = match verdict {
            Verdict::Held => format!(
                "At every K the measured share is above the bound, by at least {}. The bound is pessimistic.",
                number(nearest)
            ),
            Verdict::DidNotHold => format!("The bound is above the measured share at {deciding}."),
            _ => format!("The bound is within the measured interval at {deciding}."),
        };
        let says = "The product of Theorem 1 is a lower bound of the probability that a round succeeds.";
        Claim::new("Theorem 1", says, verdict, found)
    }

    fn much_higher(&self, results: &Results) -> Claim {
        let (k, bound) = peak();
        let at =
            self.points.iter().min_by_key(|(other, _)| other.abs_diff(k as u32)).expect("there are points");
        let strong = results.at(at.1).share("strong");
        let says = "If members prefer the lowest id, the success of a round is much higher than the curve.";
        let verdict = strong.map_or(Verdict::Unclear, |strong| Verdict::at_least(strong, bound + 0.1));
        let measured = strong.map_or("no value".to_string(), interval);
        let found = format!(
            "At K = {}, near the peak of the bound at {}, the measured success is {measured}.",
            at.0,
            number(bound)
        );
        Claim::new("section 4", says, verdict, found)
    }
}

/// The K with the highest bound, and that bound.
fn peak() -> (f64, f64) {
    let ks = (4..=65).map(f64::from);
    let bounds = ks.map(|k| (k, Setting::FIGURE_4.round(k).success()));
    bounds.max_by(|a, b| a.1.total_cmp(&b.1)).expect("there are values of K")
}

impl Exhibitor for Figure4 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let (k, highest) = peak();
        let round = Setting::FIGURE_4.round(40.0);
        let largest = Setting::FIGURE_4.largest_group(40.0);
        let claims = vec![
            Claim::new(
                "Figure 4",
                "The product of the bounds appears to peak at 0.6.",
                Verdict::computed((0.55..0.65).contains(&highest)),
                format!("The peak is {} at K = {k}.", number(highest)),
            ),
            Claim::new(
                "section 4",
                "The bounds of E1 and E2 are near one at small K, here about 40, for every N.",
                Verdict::computed(round.e1 > 0.99 && round.e2 > 0.99),
                format!(
                    "At K = 40 the bounds are {} and {}. They do not depend on N.",
                    number(round.e1),
                    number(round.e2)
                ),
            ),
            Claim::new(
                "section 4",
                "At K = 40 the bound of E4 stays close to one for N far below 10^39.",
                Verdict::computed((1e39..1e40).contains(&largest)),
                format!("p_mcastl^(-K2/2) is {largest:.1e}."),
            ),
            self.below(results),
            self.much_higher(results),
        ];
        Exhibit {
            name: "figure-4".to_string(),
            title: "Figure 4 and Theorem 1: the success of one round".to_string(),
            setting: "N = 10,000, view_prob 0.4, p_ucastl = p_mcastl = p_fail = 0.01, one round".to_string(),
            claims,
            plots: vec![self.plot(results)],
            tables: vec![self.table(results)],
            notes: vec![
                "At K = 7 most failures are undecided members, which received no result or several. At large K the \
                 remaining failures are leaders that crashed during the round, which the protocol cannot prevent."
                    .to_string(),
            ],
        }
    }
}
