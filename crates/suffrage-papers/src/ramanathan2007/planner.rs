//! How many rounds a group needs for a wanted probability of success, and what that costs.

use serde::Serialize;
use suffrage_algorithms::randomized::options::Mode;
use suffrage_sim::{Contenders, Estimate};

use super::model::{Expected, Model};
use super::{add, randomized, synchronous};
use crate::study::{Results, Study};

/// No first phase has more rounds: sigma_j is beyond sigma_w then, even of very large groups.
const MOST_ROUNDS: u8 = 40;

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Question {
    /// How many processes there are.
    pub nodes: u64,
    /// How many of them contend, when messages are counted. Success is that of the worst number.
    pub contenders: Contenders,
    /// Synchronous or not.
    pub mode: Mode,
    /// How likely a process is dead.
    pub fail: f64,
    /// How likely exactly one is to win.
    pub target: f64,
}

/// A number of rounds, and what comes of it by calculation.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Plan {
    /// How many processes there are.
    pub nodes: u64,
    /// How many of them contend.
    pub contenders: f64,
    /// How many rounds the first phase has.
    pub rounds: u8,
    /// How many mediators a contender asks in each of them.
    pub mediators: Vec<u64>,
    /// How many it asks in the second phase.
    pub quorum: u64,
    /// How many are expected to get there.
    pub finalists: f64,
    /// The messages, but for the announcement.
    pub messages: Expected,
    /// The chance of exactly one winner, at the number of contenders that is the worst.
    pub success: f64,
    /// The chance that of two contenders none is a finalist.
    pub no_finalist_of_two: f64,
    /// The chance that a single contender does not win for want of live mediators.
    pub nobody_alone: f64,
    /// The chance of a second winner, at most.
    pub two_winners: f64,
    /// Whether success is the target.
    pub reaches: bool,
}

impl Question {
    /// How many contend, in a group of so many.
    fn count(&self, nodes: u64) -> f64 {
        match self.contenders {
            Contenders::Share(share) => (share * nodes as f64).round(),
            Contenders::Count(count) => (count as f64).min(nodes as f64),
        }
    }

    /// A number of rounds.
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
            nobody_alone: model.nobody_alone(self.fail),
            two_winners: model.two_winners(),
            reaches: success >= self.target,
        }
    }

    /// The number of rounds with the fewest messages of those that reach the target; if none does, no first
    /// phase at all, which is the surest.
    pub fn plan(&self) -> Plan {
        let model = |rounds| Model { nodes: self.nodes, mode: self.mode, rounds };
        let fits = |&rounds: &u8| rounds == 0 || model(rounds).mediators(rounds) < model(rounds).quorum();
        let plans = (0..=MOST_ROUNDS).take_while(fits).map(|rounds| self.with(rounds));
        let reaching = plans.take_while(|plan| plan.reaches);
        let cheapest = reaching.min_by(|a, b| a.messages.total().total_cmp(&b.messages.total()));
        cheapest.unwrap_or_else(|| self.with(0))
    }

    /// Runs of the plan, in two points: with as many contenders as are asked for, and with two.
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

/// What was measured of a plan.
#[derive(Clone, Debug, Serialize)]
pub struct Checked {
    /// How many processes were simulated.
    pub nodes: u64,
    /// How many runs there were of each.
    pub runs: u64,
    /// What is to be expected of that many, by calculation.
    pub plan: Plan,
    /// The messages, but for the announcement.
    pub messages: Estimate,
    /// How often exactly one won.
    pub success: Estimate,
    /// How often exactly one won where two contended.
    pub success_of_two: Estimate,
}

impl Checked {
    /// What the runs of a [`study`](Question::study) of that plan came to.
    ///
    /// # Panics
    /// If there were no runs.
    pub fn of(plan: Plan, runs: u64, results: &Results) -> Checked {
        let exact = |place| results.at(place).share("winners_1").expect("there were runs");
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

    /// All contend: more rounds are cheaper, and two contenders limit them; that is what `auto` has.
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

    /// One contender has nobody to be told apart from: a first phase would only cost it messages.
    #[test]
    fn a_single_contender_needs_no_first_phase() {
        let plan = Question { contenders: Contenders::Count(1), ..QUESTION }.plan();
        assert_eq!((plan.rounds, plan.mediators.is_empty()), (0, true));
        assert!(plan.messages.total() < 2.0 * plan.quorum as f64 + 1.0);
    }

    /// "The probability of intersection is high", but not one: two quorums lie apart about once in n.
    #[test]
    fn there_are_targets_that_no_plan_reaches() {
        let plan = Question { nodes: 100, target: 0.9999, ..QUESTION }.plan();
        assert!(!plan.reaches && plan.rounds == 0 && plan.success > 0.9, "{plan:?}");
    }

    /// Section 5: dead mediators cost rounds.
    #[test]
    fn dead_mediators_allow_fewer_rounds() {
        let plan = Question { fail: 0.001, ..QUESTION }.plan();
        assert!(plan.reaches && plan.rounds < QUESTION.plan().rounds, "{plan:?}");
        assert!(plan.nobody_alone <= 0.01);
    }
}
