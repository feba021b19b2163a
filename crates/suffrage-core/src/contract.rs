//! Assumptions, promises and costs of an algorithm, as data.
//!
//! The README's table, `suffrage-lab algorithms`, the invariant checker and the tests of exact counts all read the
//! contracts. These facts are kept in no other place.

use serde::Serialize;

use crate::Grid;

/// The assumptions, promises and costs of an algorithm.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contract {
    /// The name on the command line.
    pub name: &'static str,
    /// One sentence for a reader who does not know the algorithm.
    pub summary: &'static str,
    /// The publication that the algorithm comes from.
    pub source: &'static str,
    /// The communication pattern.
    pub topology: Topology,
    /// The assumptions about time.
    pub synchrony: Synchrony,
    /// The knowledge that a process needs before the start.
    pub knowledge: &'static str,
    /// The faults that the algorithm tolerates, and the settings that help with other faults.
    pub tolerates: &'static str,
    /// The source of suspicions of the leader.
    pub detection: Detection,
    /// The members that must be alive and connected for an election to succeed.
    pub electorate: Electorate,
    /// True if the promises rest on persistent state that survives a crash.
    pub needs_disk: bool,
    /// True if the algorithm retries failed elections until a leader is elected. If not, a failed election ends
    /// without a leader until the next election is called.
    pub retries: bool,
    /// The settings for networks that lose messages: parameters and their values.
    pub under_loss: &'static [(&'static str, &'static str)],
    /// The bound on the number of leaders.
    pub safety: Safety,
    /// The choice among the live processes.
    pub choice: Choice,
    /// True if the algorithm supports `Resign` and `Transfer`. The leader of an algorithm without that support is
    /// displaced by a lower rank.
    pub handover: bool,
    /// The number of messages of one election without failures during it.
    pub messages: Cost,
    /// The duration of one election without failures during it, in message delays.
    pub time: Cost,
    /// The costs of other operations, once there is a leader.
    pub upkeep: &'static [Expense],
}

/// The message cost of an operation, without failures during it.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expense {
    /// The operation.
    pub operation: &'static str,
    /// The number of messages.
    pub messages: Cost,
}

impl Contract {
    /// Returns whether the promises hold in every run. Otherwise the promises hold with high probability: a single
    /// run cannot refute them, only a count over many runs can.
    pub fn is_certain(&self) -> bool {
        self.safety != Safety::WithHighProbability
    }
}

/// A communication pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Every process sends to every other process.
    Complete,
    /// Each process sends to its successor.
    Ring,
    /// Each process sends to all processes at once.
    Multicast,
}

/// The source of suspicions of the leader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detection {
    /// A failure detector in front of the algorithm, or the application if there is no detector.
    Detector,
    /// The algorithm's own time-outs.
    Timeout,
}

/// The members that must be alive and connected to each other for an election to succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Electorate {
    /// At least one member.
    Anybody,
    /// More than half of the group.
    Majority,
    /// More than half of the voters. The first so many members are the voters, or all members if there are fewer.
    Voters(usize),
    /// All members of one row and of one column of the group's [`Grid`].
    Grid,
}

impl Electorate {
    /// The number of voters in a group of `members` members. The voters are the first members.
    pub fn voters(self, members: usize) -> usize {
        match self {
            Electorate::Voters(voters) => voters.min(members),
            Electorate::Anybody | Electorate::Majority | Electorate::Grid => members,
        }
    }

    /// Returns whether the members that are `present`, by slot, can elect a leader.
    pub fn is_quorum(self, present: &[bool]) -> bool {
        let count = present.iter().filter(|&&present| present).count();
        match self {
            Electorate::Anybody => count > 0,
            Electorate::Majority => count > present.len() / 2,
            Electorate::Voters(voters) => {
                let voters = &present[..voters.min(present.len())];
                voters.iter().filter(|&&present| present).count() > voters.len() / 2
            }
            Electorate::Grid => {
                count > 0 && Grid::of(present.len()).available(0, |slot| present[slot]).is_some()
            }
        }
    }
}

/// The default bound on clock drift, as a fraction.
pub const DRIFT_BOUND: f64 = 0.01;

/// Assumptions about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Synchrony {
    /// Delays have a known bound. While a delay exceeds the bound, the promises do not hold.
    Synchronous,
    /// Delays are bounded from some unknown moment on. Safety never depends on the bound.
    PartiallySynchronous,
    /// Delays are as in the partially synchronous model. Clocks need not agree, but their rates differ from true
    /// time by at most a known fraction, [`DRIFT_BOUND`] unless set otherwise, and clocks do not jump. Safety rests
    /// on the clock rates and on no assumption about delays.
    BoundedDrift,
    /// No assumption.
    Asynchronous,
}

/// The bound on the number of leaders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Safety {
    /// Never two leaders at once, whatever happens. The term of each leader is greater than the terms of all leaders
    /// before it. A leader can therefore use its term as a fencing token: resources reject smaller terms.
    AtMostOne,
    /// Never two leaders at once among processes that can reach each other.
    AtMostOnePerComponent,
    /// Never two leaders in one term, whatever happens. A leader of an earlier term may believe for a while longer
    /// that it leads.
    AtMostOnePerTerm,
    /// One leader, with a known probability.
    WithHighProbability,
    /// One leader in each component some time after faults stop; possibly several before that.
    Eventual,
}

/// The choice of the elected process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Choice {
    /// The best-ranked live process that may lead.
    Best,
    /// Any live process that may lead.
    Any,
}

/// A cost from its best to its worst case.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Cost {
    /// The best case.
    pub best: Formula,
    /// The worst case.
    pub worst: Formula,
}

/// A formula to read and to evaluate.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(into = "&'static str")]
pub struct Formula {
    /// The formula in mathematical notation.
    pub text: &'static str,
    /// The formula as a function of the number of processes.
    pub of: fn(u64) -> u64,
}

impl From<Formula> for &'static str {
    fn from(formula: Formula) -> &'static str {
        formula.text
    }
}
