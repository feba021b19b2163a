//! Ramanathan, Ferreira, Jagannathan, Grama, Szpankowski: "Randomized Leader Election", 2007.
//!
//! [`model`] is the mathematics. [`reproduction`] repeats the paper's experiments and adds tests of its theorems.
//! [`planner`] finds the number of rounds for a group.

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

/// A request for a reproduction.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The number of processes in the experiments of section 7; 50,000 in the paper.
    pub nodes: usize,
    /// The maximum number of processes where messages are measured over n.
    pub most_nodes: usize,
    /// The number of runs of section 7.2. Other experiments have a fraction of it, as their tables show.
    pub runs: u64,
    /// The seed of the first run.
    pub seed: u64,
}

impl Request {
    /// A request with `nodes` processes in section 7 and at most twenty times as many elsewhere: 50,000 and a million
    /// as in the paper.
    pub fn sized(nodes: usize, runs: u64, seed: u64) -> Request {
        Request { nodes, most_nodes: 20 * nodes, runs, seed }
    }

    /// A fraction of the runs, but at least enough for a mean.
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
            "Contenders ask randomly chosen mediators. In each round of the first phase, a contender advances if all \
             its mediators accept it. About half of the contenders advance, and they ask more mediators than before. \
             In the second phase, each remaining contender asks about sqrt(n ln n) mediators, so that any two \
             contenders have a mediator in common, which lets only one of them win. PQ is the second phase alone.",
            "The printed number of rounds is below one for n under 6 x 10^8. The printed tables of the asynchronous \
             second phase have errors that lead to two winners or to none. So the measurements use repaired tables, \
             unless stated otherwise. The number of rounds is chosen so that two contenders end without a finalist \
             in 1% of elections. sigma_j is rounded up. Messages do not include the announcement of the winner to \
             all processes, which the paper does not have.",
            "PQ with the repaired tables and without an overlay is measured in bulk: messages without effect, such \
             as a refusal of a contender that has dropped out, are counted but not simulated. A test compares the \
             counts message by message. The commands of those points run such an election in the simulator, with \
             other random choices.",
        ]
        .map(str::to_string)
        .to_vec(),
        study,
        exhibitors,
    }
}

/// A scenario with message delays of up to one time unit, which is tau.
fn scenario(nodes: usize, contenders: Contenders) -> Scenario {
    Scenario {
        latency: Latency::Uniform(Span::ZERO, Span::UNIT),
        contenders: Some(contenders),
        ..Scenario::new(Roster::numbered(nodes))
    }
}

/// A trial of the randomized algorithm, asynchronous by default.
pub fn randomized(nodes: usize, contenders: Contenders) -> Trial {
    Trial::new("randomized", scenario(nodes, contenders))
}

/// A trial of an election by probabilistic quorums.
pub fn quorums(nodes: usize, contenders: Contenders) -> Trial {
    Trial::new("probabilistic-quorum", scenario(nodes, contenders))
}

/// The trial with a common clock. All messages of a round arrive by its middle whatever their delay, so each takes
/// one time unit.
pub fn synchronous(trial: Trial) -> Trial {
    let mut trial = trial.set("mode", "sync");
    trial.scenario.latency = Latency::Const(Span::UNIT);
    trial
}

/// Adds a trial with this number of runs to a study.
pub fn add(trial: Trial, study: &mut Study, name: &str, runs: u64) -> usize {
    let command = trial.command();
    study.add(name.to_string(), runs, command, move |seed| figures(trial.outcome(seed)))
}

/// Adds elections by probabilistic quorums to a study, computed by [`bulk`]. The command of the point runs the same
/// election in the simulated world, with other random draws.
pub fn add_in_bulk(nodes: usize, contenders: Contenders, study: &mut Study, name: &str, runs: u64) -> usize {
    let trial = quorums(nodes, contenders);
    let command = trial.command();
    study.add(name.to_string(), runs, command, move |seed| match bulk::run(nodes, contenders, seed) {
        Some(result) => bulk_figures(&result),
        None => figures(trial.outcome(seed)),
    })
}

/// The messages and the end of a run.
struct RunCosts {
    first_phase: u64,
    second_phase: u64,
    /// The messages that the paper counts: both phases, and the messages of other algorithms.
    messages: u64,
    /// All messages, with the uncounted ones. A multicast counts once for each addressee.
    sent: u64,
    /// The time of the last change of belief, in time units.
    decided: f64,
    agreed: bool,
}

fn figures(outcome: Outcome) -> Vec<Figure> {
    let of = |phase| {
        let kinds = outcome.messages.by_kind.iter();
        kinds.filter(|(kind, _)| Message::phase(kind) == Some(phase)).map(|(_, count)| count).sum()
    };
    let costs = RunCosts {
        first_phase: of("first"),
        second_phase: of("second"),
        messages: outcome.messages.total,
        sent: outcome.messages.sent,
        decided: outcome.decided,
        agreed: outcome.agreed,
    };
    measured(outcome.figures, costs)
}

fn bulk_figures(result: &bulk::Result) -> Vec<Figure> {
    let total = result.counts.total();
    let announcements = (result.winners.len() * (result.summary.processes - 1)) as u64;
    let costs = RunCosts {
        first_phase: 0,
        second_phase: total,
        messages: total,
        sent: total + announcements,
        decided: Span::from_nanos(result.decided).as_units(),
        // All processes learn all winners, and follow the greatest.
        agreed: !result.winners.is_empty(),
    };
    measured(result.summary.figures(&Options::default().0), costs)
}

/// The figures of a run: those of the algorithm; `messages` as the paper counts them, and those of its two phases;
/// `sent`, all messages, with a multicast counted once for each addressee; the time of the last change of belief;
/// and, for the randomized algorithms, `no_finalist`, and whether all contenders of the second phase had a result
/// `within_7_tau` and `within_10_tau`.
fn measured(mut figures: Vec<Figure>, costs: RunCosts) -> Vec<Figure> {
    let value = |name: &str| figures.iter().find(|figure| figure.name == name).map(|at| at.value);
    let mut more = vec![
        Figure::amount("messages", costs.messages as f64),
        Figure::amount("first_phase", costs.first_phase as f64),
        Figure::amount("second_phase", costs.second_phase as f64),
        Figure::amount("sent", costs.sent as f64),
        Figure::amount("decided", costs.decided),
        Figure::share("agreed", costs.agreed),
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

/// The mean of a figure with its interval, for a table.
fn mean_text(at: &Measured, name: &str) -> String {
    at.mean(name).map_or("-".to_string(), interval)
}

/// A share with its exact interval, for a table.
fn share(at: &Measured, name: &str) -> String {
    at.share(name).map_or("-".to_string(), interval)
}
