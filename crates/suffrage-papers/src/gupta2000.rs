//! Gupta, van Renesse, Birman: "A Probabilistically Correct Leader Election Protocol for Large Groups", DISC 2000.
//!
//! [`bounds`] and [`timeouts`] are the paper's mathematics. [`reproduction`] repeats the paper's experiments and adds
//! tests of its theorems. [`planner`] finds a strategy for a network.

pub mod bounds;
mod figure4;
mod figure5;
mod interpretations;
pub mod planner;
mod scale;
mod theorem2;
mod theorem3;
pub mod timeouts;

use suffrage_algorithms::gupta::Options;
use suffrage_core::{Roster, Span};
use suffrage_sim::{Estimate, Ranking, Scenario};

use crate::reproduction::{Exhibitor, Reproduction};
use crate::study::{Measured, Study};
use crate::trial::Trial;
use bounds::Setting;

/// A request for a reproduction.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// The figure to reproduce; `None` for all figures and the theorems.
    pub figure: Option<u8>,
    /// The number of runs of each point.
    pub runs: u64,
    /// The seed of the first run.
    pub seed: u64,
}

/// The paper's experiments.
pub fn reproduction(request: Request) -> Reproduction {
    let mut study = Study::new(request.seed);
    let mut exhibitors: Vec<Box<dyn Exhibitor>> = Vec::new();
    let wanted = |figure| request.figure.is_none_or(|only| only == figure);
    if wanted(4) {
        exhibitors.push(Box::new(figure4::Figure4::of(&mut study, request.runs)));
    }
    if request.figure.is_none() {
        exhibitors.push(Box::new(theorem2::Theorem2::of(&mut study, request.runs)));
        exhibitors.push(Box::new(theorem3::Theorem3::of(&mut study, request.runs)));
    }
    if wanted(5) {
        for row in figure5::ROWS {
            exhibitors.push(Box::new(figure5::Figure5::of(row, &mut study, request.runs)));
        }
    }
    if request.figure.is_none() {
        exhibitors.push(Box::new(scale::Scale::of(&mut study, request.runs)));
        exhibitors.push(Box::new(interpretations::Interpretations::of(&mut study, request.runs)));
    }
    Reproduction {
        name: "gupta2000",
        title: "A Probabilistically Correct Leader Election Protocol for Large Groups",
        source: "Indranil Gupta, Robbert van Renesse, Kenneth P. Birman; DISC 2000",
        introduction: [
            "A multicast starts an election. A hash selects about K members, for any size of the group. These \
             relay members exchange the best candidates they know and multicast the result. A member that \
             receives no result, or two different ones, calls the next round, with a larger K.",
            "All measurements use the protocol code of this program, in a simulated network in which a message \
             takes one time unit. The text of the paper has the axes of its Figure 5 and descriptions of the \
             curves, but not their values. No parameter was tuned to match an axis.",
        ]
        .map(str::to_string)
        .to_vec(),
        study,
        exhibitors,
    }
}

/// A trial of the protocol: one initiating multicast, the lowest id preferred (section 5). Members fail within the
/// first round, as `p_fail` is defined.
pub fn trial(setting: &Setting, strategy: Strategy) -> Trial {
    let nodes = setting.nodes as usize;
    let scenario = Scenario {
        ranking: Ranking::LowestId,
        view_prob: setting.view_prob,
        loss: setting.ucast_loss,
        multicast_loss: Some(setting.mcast_loss),
        fail: setting.fail,
        fail_within: if setting.fail > 0.0 { round_span(strategy.first_k, nodes) } else { Span::ZERO },
        // The initiator is not the preferred member: that member would then certainly learn of its election.
        initiators: vec![nodes - 1],
        ..Scenario::new(Roster::numbered(nodes))
    };
    let trial = Trial::new("gupta", scenario);
    let trial = trial.set("first-k", strategy.first_k).set("growth", strategy.growth);
    let trial = trial.set("max-rounds", strategy.max_rounds);
    if strategy.ends_with_all { trial } else { trial.set("last-k", "growth") }
}

/// The mean of a figure. Weak success is a share of the members, so its interval is clipped to 0..=1.
fn mean(at: &Measured, figure: &str) -> Option<Estimate> {
    let mean = at.mean(figure)?;
    Some(if figure == "weak" { mean.clamp(0.0, 1.0) } else { mean })
}

/// The duration of a first round, with a message delay of one time unit.
fn round_span(first_k: u32, nodes: usize) -> Span {
    let options = Options { first_k, ..Options::default() };
    Span::UNIT * (options.time_out_1(options.k(1, nodes)) + options.objection_timeout())
}

/// The K of each round, and the number of rounds (section 3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Strategy {
    /// K in the first round.
    pub first_k: u32,
    /// The factor of K from one round to the next.
    pub growth: u32,
    /// The maximum number of rounds.
    pub max_rounds: u8,
    /// True if all members take part in the last round, unless it is the first.
    pub ends_with_all: bool,
}

impl Strategy {
    /// The strategy of section 5: K is 7, 14, 28, 56, and then all members.
    pub const SECTION_5: Strategy = Strategy { first_k: 7, growth: 2, max_rounds: 5, ends_with_all: true };

    /// A single round.
    pub fn one_round(k: u32) -> Strategy {
        Strategy { first_k: k, growth: 2, max_rounds: 1, ends_with_all: false }
    }

    /// K in each round, for a group of `nodes` members.
    pub fn ks(&self, nodes: f64) -> Vec<f64> {
        let k = |round: u8| match self.ends_with_all && round > 1 && round == self.max_rounds {
            true => nodes,
            false => {
                (f64::from(self.first_k) * libm::pow(self.growth.into(), f64::from(round - 1))).min(nodes)
            }
        };
        (1..=self.max_rounds).map(k).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "1) K_init = 7; 2) for l <= 4, the value of K in round l is twice the value used in round l - 1; and
    /// at l = 5, K = N; and finally 3) the election protocol aborts after 5 rounds."
    #[test]
    fn the_strategy_of_section_5() {
        assert_eq!(Strategy::SECTION_5.ks(2000.0), [7.0, 14.0, 28.0, 56.0, 2000.0]);
        assert_eq!(Strategy::SECTION_5.ks(20.0), [7.0, 14.0, 20.0, 20.0, 20.0]);
        assert_eq!(Strategy::one_round(40).ks(1e6), [40.0]);
        let options = Options::default();
        let ks: Vec<f64> = (1..=5).map(|round| options.k(round, 2000) as f64).collect();
        assert_eq!(ks, Strategy::SECTION_5.ks(2000.0), "the default of the protocol");
    }
}
