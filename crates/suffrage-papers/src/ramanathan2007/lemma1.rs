//! Lemma 1 and Theorems 1 and 2: the number of contenders halves in each round, and some are left.

use suffrage_algorithms::randomized::options::{Mode, Rounds};
use suffrage_core::Figure;
use suffrage_core::Value;
use suffrage_sim::{Contenders, Estimate, proportion};

use super::model::Model;
use super::{Request, add, mean_text, randomized, share, synchronous};
use crate::plot::{Axis, Plot, Series, Style};
use crate::report::{Claim, Exhibit, Table, Verdict, interval, number};
use crate::reproduction::Exhibitor;
use crate::study::{Measured, Results, Study};
use crate::trial::Trial;

pub(super) struct Lemma1 {
    model: Model,
    runs: u64,
    ceil: usize,
    random: usize,
    asynchronous: usize,
    /// Theorem 1 with two contenders: the mode, the number of runs and the index of the point.
    two: [(Mode, u64, usize); 2],
}

fn name(round: usize) -> String {
    format!("contenders_round_{round}")
}

/// Adds figures: whether the contenders of each round are within a fraction `epsilon` of the expected number.
fn concentrated(figures: Vec<Figure>, expected: &[f64], epsilon: f64) -> Vec<Figure> {
    let mut figures = figures;
    for (index, &mean) in expected.iter().enumerate().skip(1) {
        let round = name(index + 1);
        let Some(Value::Amount(contenders)) =
            figures.iter().find(|figure| figure.name == round).map(|figure| figure.value)
        else {
            continue;
        };
        let near = (contenders - mean).abs() < epsilon * mean;
        figures.push(Figure::share(format!("round_{}_near", index + 1), near));
    }
    figures
}

impl Lemma1 {
    pub(super) fn of(study: &mut Study, request: Request) -> Lemma1 {
        let nodes = request.nodes;
        let all = Contenders::Share(1.0);
        let model = Model::new(nodes as u64, Mode::Sync, Rounds::default());
        let runs = request.part(200);
        let lemma = |trial: Trial, name: &str, study: &mut Study| {
            let expected = model.contenders(nodes as f64, 0.0);
            let (command, epsilon) = (trial.command(), epsilon(nodes));
            study.add(name.to_string(), runs, command, move |seed| {
                concentrated(super::figures(trial.outcome(seed)), &expected, epsilon)
            })
        };
        let sync = || synchronous(randomized(nodes, all));
        let ceil = lemma(sync(), "Lemma 1, sigma rounded up", study);
        let random = lemma(sync().set("rounding", "random"), "Lemma 1, sigma rounded at random", study);
        let asynchronous = add(randomized(nodes, all), study, "Lemma 1, asynchronous", runs);
        let two = [Mode::Sync, Mode::Async].map(|mode| {
            let trial = randomized(nodes, Contenders::Count(2));
            let trial = if mode == Mode::Sync { synchronous(trial) } else { trial };
            let runs = request.part(4);
            (mode, runs, add(trial, study, &format!("Theorem 1, two contenders, {mode:?}"), runs))
        });
        Lemma1 { model, runs, ceil, random, asynchronous, two }
    }

    /// The ratio of the contenders of each round to those of the round before. The interval is that of the later
    /// round: the earlier number is as well known, and the two vary together.
    fn ratios(&self, at: &Measured) -> Vec<(usize, Estimate)> {
        let of = |round: usize| at.mean(&name(round));
        let rounds = 2..=usize::from(self.model.rounds);
        rounds.filter_map(|round| Some((round, of(round)?.per(of(round - 1)?.mean)))).collect()
    }

    /// Judges whether measured contenders lie in the interval of the lemma, with its constants set to one.
    fn halving(&self, at: &Measured) -> (Verdict, String) {
        let nodes = self.model.nodes as f64;
        let epsilon = epsilon(self.model.nodes as usize);
        let mut judged = Vec::new();
        for round in 2..=usize::from(self.model.rounds) {
            let Some(contenders) = at.mean(&name(round)) else { continue };
            let steps = (round - 1) as f64;
            let half = nodes / libm::exp2(steps);
            let (least, most) =
                (half * libm::pow(1.0 - epsilon, steps), half * libm::pow(1.0 + epsilon, steps));
            let text = format!(
                "{} in round {round}, claimed {} to {}",
                interval(contenders),
                number(least),
                number(most)
            );
            judged.push((Verdict::judge(contenders, least..=most), text));
        }
        let (verdict, deciding) = Verdict::decide(&judged);
        let found = match verdict {
            _ if judged.is_empty() => "There is no second round.".to_string(),
            Verdict::Held => "The means of all rounds are within the interval.".to_string(),
            _ => format!("Measured: {deciding}."),
        };
        (verdict, found)
    }

    fn claims(&self, results: &Results) -> Vec<Claim> {
        let says = "The expected number of contenders halves in each round: E[X_i] is n/2^(i-1) within factors of \
                    (1 - 1/log^2 n)^(i-1) and (1 + 1/log^2 n)^(i-1).";
        let mut claims = Vec::new();
        for (index, rounding) in [(self.ceil, "up"), (self.random, "up or down at random")] {
            let (verdict, found) = self.halving(results.at(index));
            let found = format!(
                "Sigma is rounded {rounding}. {found} In the first round sigma is 0.83, but there is at least one \
                 mediator, so 1/e of the contenders advance and not 1/2. In later rounds, rounding up also leaves \
                 fewer contenders."
            );
            claims.push(Claim::new("Lemma 1", says, verdict, found));
        }
        claims.push(self.predicted(results));
        claims.push(self.concentration(results));
        claims.extend(self.theorem_1(results));
        claims.push(self.theorem_2(results));
        claims
    }

    fn predicted(&self, results: &Results) -> Claim {
        let at = results.at(self.ceil);
        let contenders = self.model.contenders(self.model.nodes as f64, 0.0);
        let off = (2..=usize::from(self.model.rounds)).filter_map(|round| {
            let mean = at.mean(&name(round))?.mean;
            Some((mean / contenders[round - 1] - 1.0).abs())
        });
        let worst = off.fold(0.0, f64::max);
        let question = "Do the contenders follow the recursion of the lemma with the rounded sigma: \
                        X_(j+1) = X_j (1 - p_j)^(X_j - 1)?";
        let found = format!("The difference is at most {}% in any round.", number(worst * 100.0));
        Claim::new("", question, Verdict::OurQuestion, found)
    }

    fn concentration(&self, results: &Results) -> Claim {
        let at = results.at(self.ceil);
        let log = libm::log2(self.model.nodes as f64);
        let least = 1.0 - 1.0 / libm::pow(log, 6.0);
        let rounds = 2..=usize::from(self.model.rounds);
        let shares: Vec<(usize, Estimate)> =
            rounds.filter_map(|round| Some((round, at.share(&format!("round_{round}_near"))?))).collect();
        let worst = shares.iter().min_by(|a, b| a.1.mean.total_cmp(&b.1.mean));
        let says = "The contenders of a round are within a fraction of 1/log^2 n of their mean with probability \
                    1 - 1/log^6 n.";
        let (verdict, found) = match worst {
            None => (Verdict::Unclear, "There is no second round.".to_string()),
            Some(&(round, worst)) => (
                Verdict::at_least(worst, least),
                format!(
                    "In round {round} they are within {}% in {} of runs. The claim is {}. A count with mean m has a \
                     standard deviation of about sqrt(m), which is larger when few contenders are left.",
                    number(epsilon(self.model.nodes as usize) * 100.0),
                    interval(worst),
                    number(least)
                ),
            ),
        };
        Claim::new("Lemma 1", says, verdict, found)
    }

    fn theorem_1(&self, results: &Results) -> Vec<Claim> {
        let says = "The first phase leaves a contender, except with probability O(1/log^6 n).";
        let most = 1.0 / libm::pow(libm::log2(self.model.nodes as f64), 6.0);
        let mut claims = Vec::new();
        for (index, mode) in [(self.ceil, "synchronous"), (self.asynchronous, "asynchronous")] {
            let Some((none, runs)) = results.at(index).counts("no_finalist") else { continue };
            let verdict = Verdict::at_most(proportion(none, runs), most);
            let finalists = mean_text(results.at(index), "finalists");
            let found = format!(
                "All contend, {mode}: none is left in {none} of {runs} runs; the mean is {finalists}. With a constant \
                 of one, the claimed probability is {}, too small for this number of runs.",
                number(most)
            );
            claims.push(Claim::new("Theorem 1", says, verdict, found));
        }
        let question = "How often do two contenders alone end without a finalist, a case without a proof?";
        let found = self.two.map(|(mode, _, index)| {
            let expected = Model::new(self.model.nodes, mode, Rounds::default()).no_finalist_of_two();
            let measured = share(results.at(index), "no_finalist");
            let most = if mode == Mode::Async { "at most " } else { "" };
            format!(
                "{mode:?}: none is left in {measured} of elections, calculated {most}{}",
                number(expected)
            )
        });
        claims.push(Claim::new("", question, Verdict::OurQuestion, found.join(". ") + "."));
        claims
    }

    fn theorem_2(&self, results: &Results) -> Claim {
        let log = libm::log2(self.model.nodes as f64);
        let most = 0.5 * (1.0 + 1.0 / (log * log)) * libm::pow(log, 6.0);
        let says = "The first phase leaves at most (1 + epsilon)/2 log^6 n contenders.";
        let finalists = results.at(self.ceil).mean("finalists");
        let verdict = finalists.map_or(Verdict::Unclear, |finalists| Verdict::at_most(finalists, most));
        let found = format!(
            "The mean number of remaining contenders is {}. The bound is {}, {} than the number of processes.",
            mean_text(results.at(self.ceil), "finalists"),
            number(most),
            if most > self.model.nodes as f64 { "more" } else { "less" }
        );
        Claim::new("Theorem 2", says, verdict, found)
    }

    fn table(&self, results: &Results) -> Table {
        let head = [
            "round",
            "sigma_j",
            "n / 2^(j-1)",
            "recursion",
            "rounded up",
            "of the round before",
            "rounded at random",
            "asynchronous",
        ];
        let title = format!("Contenders of each round, all contending: means of {} runs", self.runs);
        let mut table = Table::new("lemma-1-contenders", &title, &head);
        let at = |index| results.at(index);
        let expected = self.model.contenders(self.model.nodes as f64, 0.0);
        let ratios = self.ratios(at(self.ceil));
        for round in 1..=usize::from(self.model.rounds) {
            let ratio = ratios.iter().find(|(of, _)| *of == round);
            table.push([
                round.to_string(),
                self.model.mediators(round as u8).to_string(),
                number(self.model.nodes as f64 / libm::exp2(round as f64 - 1.0)),
                number(expected[round - 1]),
                mean_text(at(self.ceil), &name(round)),
                ratio.map_or("-".to_string(), |(_, ratio)| number(ratio.mean)),
                mean_text(at(self.random), &name(round)),
                mean_text(at(self.asynchronous), &name(round)),
            ]);
        }
        table
    }

    fn plot(&self, results: &Results) -> Plot {
        let measured = |title: &str, index: usize| {
            let rounds = 1..=usize::from(self.model.rounds);
            let at = results.at(index);
            Series::measured(title, rounds.filter_map(|round| Some((round as f64, at.mean(&name(round))?))))
        };
        let halves = (1..=self.model.rounds)
            .map(|round| (f64::from(round), self.model.nodes as f64 / libm::exp2(f64::from(round) - 1.0)));
        let expected = self.model.contenders(self.model.nodes as f64, 0.0);
        let expected = expected.into_iter().enumerate().take(self.model.rounds.into());
        let expected = expected.map(|(index, contenders)| (index as f64 + 1.0, contenders));
        Plot {
            name: "lemma-1".to_string(),
            title: format!("Contenders, n = {}", self.model.nodes),
            x: Axis::linear("round"),
            y: Axis::log("contenders"),
            series: vec![
                Series::computed("n / 2^(j-1)", Style::Bound, halves),
                Series::computed("recursion", Style::Curve, expected),
                measured("rounded up", self.ceil),
                measured("rounded at random", self.random),
                measured("asynchronous", self.asynchronous),
            ],
        }
    }
}

/// The paper's epsilon, `O(1/log^2 n)`, with its constant set to one.
fn epsilon(nodes: usize) -> f64 {
    let log = libm::log2(nodes as f64);
    1.0 / (log * log)
}

impl Exhibitor for Lemma1 {
    fn exhibit(&self, _: &Study, results: &Results) -> Exhibit {
        Exhibit {
            name: "lemma-1".to_string(),
            title: "Lemma 1, Theorems 1 and 2: half of the contenders advance".to_string(),
            setting: format!(
                "n = {}, all contend, synchronous with {} rounds in the first phase",
                self.model.nodes, self.model.rounds
            ),
            claims: self.claims(results),
            plots: vec![self.plot(results)],
            tables: vec![self.table(results)],
            notes: vec![
                "The constants in O(1/log^2 n) are assumed to be one, and logarithms are to the base 2."
                    .to_string(),
            ],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concentrated_marks_rounds_within_epsilon_of_the_expectation() {
        let figures = vec![Figure::amount(name(2), 104.0), Figure::amount(name(3), 60.0)];
        let near = concentrated(figures, &[200.0, 100.0, 50.0, 25.0], 0.05);
        assert_eq!(near[2..], [Figure::share("round_2_near", true), Figure::share("round_3_near", false)]);
    }
}
