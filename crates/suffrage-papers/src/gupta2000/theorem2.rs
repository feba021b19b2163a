//! Theorem 2: a failed round is followed by another.

use suffrage_core::{Figure, Value};

use super::bounds::Setting;
use super::{Strategy, trial};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Results, Study};

/// Settings in which rounds fail: K, view_prob, loss, p_fail.
const CASES: [(u32, f64, f64, f64); 8] = [
    (7, 0.4, 0.01, 0.01),
    (14, 0.4, 0.01, 0.01),
    (40, 0.4, 0.01, 0.01),
    (40, 0.4, 0.01, 0.05),
    (40, 0.4, 0.0, 0.05),
    (14, 0.4, 0.3, 0.0),
    (14, 0.1, 0.01, 0.0),
    (28, 0.06, 0.01, 0.0),
];
const NODES: f64 = 2000.0;

pub(super) struct Theorem2 {
    points: Vec<(u32, Setting, usize)>,
}

impl Theorem2 {
    pub(super) fn of(study: &mut Study, runs: u64) -> Theorem2 {
        let points = CASES.into_iter().map(|(k, view_prob, loss, fail)| {
            let setting = Setting { nodes: NODES, view_prob, ucast_loss: loss, mcast_loss: loss, fail };
            // A second round that members can call.
            let strategy = Strategy { max_rounds: 2, ..Strategy::one_round(k) };
            let trial = trial(&setting, strategy);
            let name = format!("Theorem 2, K = {k}, loss {loss}, p_fail {fail}");
            let command = trial.command();
            let index = study.add(name, runs, command, move |seed| first_round(trial.run(seed)));
            (k, setting, index)
        });
        Theorem2 { points: points.collect() }
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "K",
            "view_prob",
            "loss",
            "p_fail",
            "bound",
            "failed",
            "followed by another",
            "of those, leader alive",
        ];
        let title = "Failed rounds, as a share of all; the share of failed rounds that were followed by another round; \
                     and that share without rounds in which all agree on a crashed leader. Exact 95% intervals";
        let mut table = Table::new("theorem-2-detection", title, &head);
        for &(k, setting, index) in &self.points {
            let at = results.at(index);
            let share_text = |name: &str| at.share(name).map_or("-".to_string(), interval);
            table.push([
                k.to_string(),
                setting.view_prob.to_string(),
                setting.mcast_loss.to_string(),
                setting.fail.to_string(),
                number(setting.detection(k.into())),
                at.mean("failed").map_or("-".to_string(), |mean| number(mean.mean)),
                share_text("detected"),
                share_text("detected_alive"),
            ]);
        }
        table
    }

    /// Judges whether the bound holds where it is not trivial, by one of the figures.
    fn judge(&self, results: &Results, figure: &str) -> (Verdict, String) {
        let mut judged = Vec::new();
        for &(k, setting, index) in &self.points {
            let Some(share) = results.at(index).share(figure) else { continue };
            let bound = setting.detection(k.into());
            let Setting { mcast_loss, fail, .. } = setting;
            let text = format!(
                "{} against {} at K = {k}, loss {mcast_loss}, p_fail {fail}",
                interval(share),
                number(bound)
            );
            judged.push((Verdict::at_least(share, bound), text));
        }
        let (verdict, deciding) = Verdict::decide(&judged);
        let found = match verdict {
            _ if judged.is_empty() => "No round failed.".to_string(),
            Verdict::Held => format!("In all {} settings the interval is above the bound.", judged.len()),
            _ => format!("Measured: {deciding}."),
        };
        (verdict, found)
    }
}

/// The figures of the first round of a run with two rounds.
fn first_round(figures: Vec<Figure>) -> Vec<Figure> {
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|figure| figure.value);
    let is = |name: &str| value(name) == Some(Value::Share(true));
    // A member that calls the next round has not agreed: the round has failed.
    let another = matches!(value("rounds"), Some(Value::Amount(rounds)) if rounds >= 2.0);
    let failed = another || !is("strong");
    let mut first = vec![Figure::share("failed", failed)];
    if failed {
        first.push(Figure::share("detected", another));
    }
    if failed && (another || !is("failed_dead_leader")) {
        first.push(Figure::share("detected_alive", another));
    }
    first
}

impl Exhibitor for Theorem2 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        let says = "A failed round is followed by a re-initiating multicast at least as often as the bound, which is \
                    close to one for large K and N.";
        let (verdict, found) = self.judge(results, "detected");
        let mut claims = vec![Claim::new("Theorem 2", says, verdict, found)];
        let question = "Does the bound hold without rounds in which all agree on a crashed leader?";
        let (verdict, found) = self.judge(results, "detected_alive");
        claims.push(Claim::new(
            "",
            question,
            Verdict::OurQuestion,
            format!(
                "{}. {found}",
                match verdict {
                    Verdict::Held => "Yes",
                    Verdict::DidNotHold => "No",
                    _ => "Unclear",
                }
            ),
        ));
        Exhibit {
            name: "theorem-2".to_string(),
            title: "Theorem 2: failed rounds are detected".to_string(),
            setting: "N = 2000, two rounds, of which the first is evaluated".to_string(),
            claims,
            plots: Vec::new(),
            tables: vec![self.table(results)],
            notes: vec![
                "Members call another round when they received no final choice, or two. A crash of the elected leader \
                 during the round is not detected: the protocol has no failure detector. A member that missed both \
                 the initiating multicast and every final choice does not detect the failure either."
                    .to_string(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(rounds: f64, strong: bool, dead: bool) -> Vec<Figure> {
        let figures = vec![
            Figure::amount("rounds", rounds),
            Figure::share("strong", strong),
            Figure::share("failed_dead_leader", dead),
        ];
        first_round(figures)
    }

    #[test]
    fn the_first_round_failed_if_a_second_one_was_called() {
        assert_eq!(run(1.0, true, false), [Figure::share("failed", false)]);
        let noticed = [
            Figure::share("failed", true),
            Figure::share("detected", true),
            Figure::share("detected_alive", true),
        ];
        assert_eq!(run(2.0, true, false), noticed);
        assert_eq!(run(2.0, false, true), noticed, "the second round does not matter");
        assert_eq!(run(1.0, false, true), [Figure::share("failed", true), Figure::share("detected", false)]);
        assert_eq!(
            run(1.0, false, false)[1..],
            [Figure::share("detected", false), Figure::share("detected_alive", false)]
        );
    }
}
