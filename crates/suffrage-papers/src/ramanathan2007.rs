//! Ramanathan, Ferreira, Jagannathan, Grama, Szpankowski: "Randomized Leader Election", 2007.
//!
//! [`model`] is the mathematics, [`reproduction`] the paper's experiments and those that put its theorems to
//! the test; [`planner`] finds the number of rounds for a group.

mod accuracy;
pub mod bulk;
mod failures;
mod figure9;
mod lemma1;
mod losses;
pub mod model;
pub mod planner;
mod reuse;
mod scale;
mod table1;
mod time;

use suffrage_algorithms::probabilistic_quorum::Options;
use suffrage_algorithms::randomized::Message;
use suffrage_core::{Figure, Roster, Span, Value};
use suffrage_sim::{Contenders, Latency, Outcome, Scenario};

use crate::report::interval;
use crate::reproduction::{Exhibitor, Reproduction};
use crate::study::{Measured, Study};
use crate::trial::Trial;

/// What is to be reproduced.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// How many processes there are in the experiments of section 7; 50,000 in the paper.
    pub nodes: usize,
    /// How many there are at most where messages are measured over n.
    pub most_nodes: usize,
    /// How many runs there are of section 7.2; others have a part of them, as their tables say.
    pub runs: u64,
    /// The seed of the first.
    pub seed: u64,
}

impl Request {
    /// So many processes in section 7, and twenty times as many at most: 50,000 and a million as in the paper.
    pub fn sized(nodes: usize, runs: u64, seed: u64) -> Request {
        Request { nodes, most_nodes: 20 * nodes, runs, seed }
    }

    /// A part of the runs, but not so few that they say nothing of a mean.
    fn part(self, part: u64) -> u64 {
        const FEWEST: u64 = 3;
        (self.runs / part).max(FEWEST.min(self.runs))
    }
}

/// Figure 9 alone.
pub fn figure_9(request: Request) -> Reproduction {
    let mut study = Study::new(request.seed);
    let figure: Box<dyn Exhibitor> = Box::new(figure9::Figure9::of(&mut study, request));
    paper(study, vec![figure])
}

/// The paper's experiments.
pub fn reproduction(request: Request) -> Reproduction {
    let mut study = Study::new(request.seed);
    let exhibitors: Vec<Box<dyn Exhibitor>> = vec![
        Box::new(table1::Table1::of(&mut study, request)),
        Box::new(figure9::Figure9::of(&mut study, request)),
        Box::new(accuracy::Accuracy::of(&mut study, request)),
        Box::new(lemma1::Lemma1::of(&mut study, request)),
        Box::new(scale::Scale::of(&mut study, request)),
        Box::new(time::Times::of(&mut study, request)),
        Box::new(failures::Failures::of(&mut study, request)),
        Box::new(losses::Losses::of(&mut study, request)),
        Box::new(reuse::Reuse::of(&mut study, request)),
    ];
    paper(study, exhibitors)
}

fn paper(study: Study, exhibitors: Vec<Box<dyn Exhibitor>>) -> Reproduction {
    Reproduction {
        name: "ramanathan2007",
        title: "Randomized Leader Election",
        source: "Murali Krishna Ramanathan, Ronaldo A. Ferreira, Suresh Jagannathan, Ananth Grama, Wojciech \
                 Szpankowski; Distributed Computing, 2007",
        introduction: [
            "Contenders ask mediators whom they choose at random. In each round of the first phase those go on \
             whom all of theirs let pass, about half of them, and ask more mediators than before. Those that are \
             left ask about the root of n ln n in the second phase, so that any two of them have one in common, \
             who lets one of them win. PQ is the second phase alone.",
            "The number of rounds as printed is below one for any n under 6 x 10^8, and the tables of the \
             asynchronous second phase have mistakes of which two winners and none come. So measured are, if \
             nothing else is said, the repaired tables, with as many rounds as leave two contenders without a \
             finalist in 1% of elections. Where sigma_j is no whole number, it is rounded up. Messages are \
             counted without the announcement of the winner to everybody, which the paper does not have.",
            "PQ with the repaired tables and without an overlay is measured in bulk: messages that cannot \
             matter, such as a refusal of one that has dropped out, are counted and not carried out. That it \
             comes to the same, message by message, is tested. The commands of those points make such an \
             election in the simulator, by another chance.",
        ]
        .map(str::to_string)
        .to_vec(),
        study,
        exhibitors,
    }
}

/// Messages that take up to one time unit, which is tau.
fn scenario(nodes: usize, contenders: Contenders) -> Scenario {
    Scenario {
        latency: Latency::Uniform(Span::ZERO, Span::UNIT),
        contenders: Some(contenders),
        ..Scenario::new(Roster::numbered(nodes))
    }
}

/// An election of the randomized algorithm, asynchronous unless it is set otherwise.
pub fn randomized(nodes: usize, contenders: Contenders) -> Trial {
    Trial::new("randomized", scenario(nodes, contenders))
}

/// An election by probabilistic quorums.
pub fn quorums(nodes: usize, contenders: Contenders) -> Trial {
    Trial::new("probabilistic-quorum", scenario(nodes, contenders))
}

/// The trial with a common clock. All messages of a round are there by its middle whatever they take, so
/// that they may as well take a time unit each.
pub fn synchronous(trial: Trial) -> Trial {
    let mut trial = trial.set("mode", "sync");
    trial.scenario.latency = Latency::Const(Span::UNIT);
    trial
}

/// Adds so many runs of a trial to a study.
pub fn add(trial: Trial, study: &mut Study, name: &str, runs: u64) -> usize {
    let command = trial.command();
    study.add(name.to_string(), runs, command, move |seed| figures(trial.outcome(seed)))
}

/// Adds so many elections by probabilistic quorums to a study, made in [`bulk`]. The command that goes with
/// them makes the same election in the simulated world, by another chance.
pub fn add_in_bulk(nodes: usize, contenders: Contenders, study: &mut Study, name: &str, runs: u64) -> usize {
    let trial = quorums(nodes, contenders);
    let command = trial.command();
    study.add(name.to_string(), runs, command, move |seed| match bulk::run(nodes, contenders, seed) {
        Some(result) => bulk_figures(&result),
        None => figures(trial.outcome(seed)),
    })
}

/// What was sent in a run, and when it was over.
struct Course {
    first_phase: u64,
    second_phase: u64,
    /// All that counts for the paper: both phases, and what other algorithms send.
    messages: u64,
    /// With what is counted apart, a multicast counting for each addressee.
    sent: u64,
    /// When the last belief changed, in time units.
    decided: f64,
    agreed: bool,
}

fn figures(outcome: Outcome) -> Vec<Figure> {
    let of = |phase| {
        let kinds = outcome.messages.by_kind.iter();
        kinds.filter(|(kind, _)| Message::phase(kind) == Some(phase)).map(|(_, count)| count).sum()
    };
    let course = Course {
        first_phase: of("first"),
        second_phase: of("second"),
        messages: outcome.messages.total,
        sent: outcome.messages.sent,
        decided: outcome.decided,
        agreed: outcome.agreed,
    };
    measured(outcome.figures, course)
}

fn bulk_figures(result: &bulk::Result) -> Vec<Figure> {
    let total = result.counts.total();
    let told = (result.winners.len() * (result.tally.processes - 1)) as u64;
    let course = Course {
        first_phase: 0,
        second_phase: total,
        messages: total,
        sent: total + told,
        decided: Span::from_nanos(result.decided).as_units(),
        // Everybody hears of every winner, and believes in the greatest.
        agreed: !result.winners.is_empty(),
    };
    measured(result.tally.figures(&Options::default().0), course)
}

/// What a run is measured by: the algorithm's own figures; `messages` as the paper counts them, and those
/// of its two phases; `sent`, all messages, a multicast counting for each addressee; when the last belief
/// changed; and of the randomized algorithms, whether there was `no_finalist`, and whether everybody in the
/// second phase knew `within_7_tau` and `within_10_tau`.
fn measured(mut figures: Vec<Figure>, course: Course) -> Vec<Figure> {
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|at| at.value);
    let mut more = vec![
        Figure::amount("messages", course.messages as f64),
        Figure::amount("first_phase", course.first_phase as f64),
        Figure::amount("second_phase", course.second_phase as f64),
        Figure::amount("sent", course.sent as f64),
        Figure::amount("decided", course.decided),
        Figure::share("agreed", course.agreed),
    ];
    if let Some(Value::Amount(finalists)) = value("finalists") {
        more.push(Figure::share("no_finalist", finalists == 0.0));
    }
    if let Some(Value::Amount(longest)) = value("longest_second_phase_tau") {
        more.push(Figure::share("within_7_tau", longest <= 7.0));
        more.push(Figure::share("within_10_tau", longest <= 10.0));
    }
    figures.extend(more);
    figures
}

/// A figure's mean with its interval, for a table.
fn told(at: &Measured, name: &str) -> String {
    at.mean(name).map_or("-".to_string(), interval)
}

/// A share with its exact interval, for a table.
fn share(at: &Measured, name: &str) -> String {
    at.share(name).map_or("-".to_string(), interval)
}
