//! The number of rounds that a group needs for a given probability of success, and its cost.

use serde::Serialize;
use suffrage_algorithms::randomized::options::Mode;
use suffrage_sim::{Contenders, Estimate};

use super::model::{Expected, Model};
use super::{add, randomized, synchronous};
use crate::study::{Results, Study};

/// The maximum number of rounds of the first phase: beyond it sigma_j exceeds sigma_w, even for very large groups.
const MAX_ROUNDS: u8 = 40;

/// The requirements of a plan.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// The number of processes.
    pub nodes: u64,
    /// The contenders for the count of messages. The probability of success is that of the worst number of
    /// contenders.
    pub contenders: Contenders,
    /// Synchronous or asynchronous.
    pub mode: Mode,
    /// The probability that a process is dead.
    pub fail: f64,
    /// The required probability of exactly one winner.
    pub target: f64,
}

/// A number of rounds, with its calculated results.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// The number of processes.
    pub nodes: u64,
    /// The number of contenders.
    pub contenders: f64,
    /// The number of rounds of the first phase.
    pub rounds: u8,
    /// The number of mediators that a contender asks in each round of the first phase.
    pub mediators: Vec<u64>,
    /// The number of mediators that a contender asks in the second phase.
    pub quorum: u64,
    /// The expected number of finalists.
    pub finalists: f64,
    /// The expected messages, without the announcement.
    pub messages: Expected,
    /// The probability of exactly one winner, at the worst number of contenders.
    pub success: f64,
    /// The probability that neither of two contenders is a finalist.
    pub no_finalist_of_two: f64,
    /// The probability that a single contender does not win because mediators are dead.
    pub single_contender_fails: f64,
    /// An upper bound of the probability of a second winner.
    pub two_winners: f64,
    /// True if the probability of success reaches the target.
    pub reaches: bool,
}

impl Question {
    /// The number of contenders in a group of `nodes` processes.
    fn count(&self, nodes: u64) -> f64 {
        match self.contenders {
            Contenders::Share(share) => (share * nodes as f64).round(),
            Contenders::Count(count) => (count as f64).min(nodes as f64),
        }
    }

    /// The plan with this number of rounds.
    fn with(&self, rounds: u8) -> Plan {
        let model = Model { nodes: self.nodes, mode: self.mode, rounds };
        let contenders = self.count(self.nodes);
        let success = model.success(self.fail);
        Plan {
            nodes: self.nodes,
            contenders,
            rounds,
            mediators: (1..=rounds).map(|round| model.mediators(round)).collect(),
            quorum: model.quorum(),
            finalists: model.contenders(contenders, self.fail).last().copied().unwrap_or(contenders),
            messages: model.messages(contenders),
            success,
            no_finalist_of_two: model.no_finalist_of_two(),
            single_contender_fails: model.single_contender_fails(self.fail),
            two_winners: model.two_winners(),
            reaches: success >= self.target,
        }
    }

    /// The plan with the fewest messages among those that reach the target. If none does, the plan without a first
    /// phase, which has the highest probability of success.
    pub fn plan(&self) -> Plan {
        let model = |rounds| Model { nodes: self.nodes, mode: self.mode, rounds };
        let fits = |&rounds: &u8| rounds == 0 || model(rounds).mediators(rounds) < model(rounds).quorum();
        let plans = (0..=MAX_ROUNDS).take_while(fits).map(|rounds| self.with(rounds));
        let reaching = plans.take_while(|plan| plan.reaches);
        let cheapest = reaching.min_by(|a, b| a.messages.total().total_cmp(&b.messages.total()));
        cheapest.unwrap_or_else(|| self.with(0))
    }

    /// Runs of the plan, in two points: with the given number of contenders, and with two.
    pub fn study(&self, plan: &Plan, runs: u64, seed: u64) -> Study {
        let mut study = Study::new(seed);
        for (contenders, name) in
            [(self.contenders, "as asked for"), (Contenders::Count(2), "two contenders")]
        {
            let trial = randomized(self.nodes as usize, contenders).set("rounds", plan.rounds);
            let mut trial = if self.mode == Mode::Sync { synchronous(trial) } else { trial };
            trial.scenario.fail = self.fail;
            add(trial, &mut study, name, runs);
        }
        study
    }
}

/// The measurements of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// The number of simulated processes.
    pub nodes: u64,
    /// The number of runs of each point.
    pub runs: u64,
    /// The calculated plan for this number of processes.
    pub plan: Plan,
    /// The messages, without the announcement.
    pub messages: Estimate,
    /// The share of runs with exactly one winner.
    pub success: Estimate,
    /// The share of runs with exactly one winner among two contenders.
    pub success_of_two: Estimate,
}

impl Checked {
    /// The measurements of the runs of a [`study`](Question::study) of that plan.
    ///
    /// # Panics
    /// If there were no runs.
    pub fn of(plan: Plan, runs: u64, results: &Results) -> Checked {
        let exact = |index| results.at(index).share("winners_1").expect("there were runs");
        Checked {
            nodes: plan.nodes,
            runs,
            plan,
            messages: results.at(0).mean("messages").expect("there were runs"),
            success: exact(0),
            success_of_two: exact(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUESTION: Question = Question {
        nodes: 50_000,
        contenders: Contenders::Share(1.0),
        mode: Mode::Sync,
        fail: 0.0,
        target: 0.99,
    };

    /// All processes contend: more rounds are cheaper, and two contenders limit the number of rounds. `auto` has the
    /// same number.
    #[test]
    fn rounds_are_as_many_as_two_contenders_allow() {
        let plan = QUESTION.plan();
        assert!(plan.reaches && plan.success >= 0.99, "{plan:?}");
        assert!(plan.no_finalist_of_two + plan.two_winners <= 0.01);
        assert!(
            QUESTION.with(plan.rounds + 1).success < 0.99 || {
                QUESTION.with(plan.rounds + 1).messages.total() > plan.messages.total()
            }
        );
        assert_eq!(plan.mediators.len(), usize::from(plan.rounds));
        let surer = Question { target: 0.9999, ..QUESTION }.plan();
        assert!(surer.rounds < plan.rounds && surer.messages.total() > plan.messages.total());
    }

    /// A single contender has no rival: a first phase would only cost messages.
    #[test]
    fn a_single_contender_needs_no_first_phase() {
        let plan = Question { contenders: Contenders::Count(1), ..QUESTION }.plan();
        assert_eq!((plan.rounds, plan.mediators.is_empty()), (0, true));
        assert!(plan.messages.total() < 2.0 * plan.quorum as f64 + 1.0);
    }

    /// "The probability of intersection is high", but not one: two quorums are disjoint about once in n.
    #[test]
    fn there_are_targets_that_no_plan_reaches() {
        let plan = Question { nodes: 100, target: 0.9999, ..QUESTION }.plan();
        assert!(!plan.reaches && plan.rounds == 0 && plan.success > 0.9, "{plan:?}");
    }

    /// Section 5: dead mediators reduce the number of rounds.
    #[test]
    fn dead_mediators_allow_fewer_rounds() {
        let plan = Question { fail: 0.001, ..QUESTION }.plan();
        assert!(plan.reaches && plan.rounds < QUESTION.plan().rounds, "{plan:?}");
        assert!(plan.single_contender_fails <= 0.01);
    }
}
