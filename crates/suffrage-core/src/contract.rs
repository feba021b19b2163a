//! What an algorithm assumes, promises and costs, as data.
//!
//! The README's table, `suffrage-lab algorithms`, the invariant checker and the tests of exact counts
//! all read the contracts; there is no second place where these facts are kept.

use serde::Serialize;

use crate::Grid;

/// What an algorithm assumes, promises and costs.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Contract {
    /// Its name on the command line.
    pub name: &'static str,
    /// One sentence for someone who has never heard of it.
    pub summary: &'static str,
    /// Where it comes from.
    pub source: &'static str,
    /// Who sends to whom.
    pub topology: Topology,
    /// What it assumes about time.
    pub synchrony: Synchrony,
    /// What a process must know beforehand.
    pub knowledge: &'static str,
    /// Which faults it lives through, and what helps it through the others.
    pub tolerates: &'static str,
    /// How a process learns that the leader has failed.
    pub detection: Detection,
    /// Who must be alive and able to talk for anybody to be elected.
    pub electorate: Electorate,
    /// Whether its promises need that a process which comes back finds what it had saved.
    pub needs_disk: bool,
    /// Whether it goes on until somebody leads. If not, an election that fails is left at that until the next is
    /// called.
    pub persists: bool,
    /// What to set where messages are lost: parameters and their values.
    pub under_loss: &'static [(&'static str, &'static str)],
    /// How many leaders there can be, and when.
    pub safety: Safety,
    /// Which of the live processes is elected.
    pub choice: Choice,
    /// Whether it understands `Resign` and `Transfer`. One that does not is told to let go by
    /// lowering its rank.
    pub handover: bool,
    /// Messages of one election without failures on the way.
    pub messages: Cost,
    /// Time of one election without failures on the way, in message delays.
    pub time: Cost,
    /// What else has a price, once somebody leads.
    pub upkeep: &'static [Expense],
}

/// What something costs in messages, without failures on the way.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Expense {
    /// What it is.
    pub what: &'static str,
    /// Its messages.
    pub messages: Cost,
}

impl Contract {
    /// Whether what it promises is promised for every run. Otherwise it is for most, and a single run cannot
    /// break the promise: many are counted.
    pub fn is_certain(&self) -> bool {
        self.safety != Safety::WithHighProbability
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Topology {
    /// Anybody to anybody.
    Complete,
    /// Each to its successor.
    Ring,
    /// Each to everybody at once.
    Multicast,
}

/// How a process learns that the leader has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Detection {
    /// A failure detector in front of the algorithm says so; without one, the application does.
    Detector,
    /// The algorithm's own time-outs do.
    Timeout,
}

/// Who must be alive and able to talk to each other for anybody to be elected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Electorate {
    /// Whoever is there.
    Anybody,
    /// More than half of the group.
    Majority,
    /// More than half of the voters, which are the first so many members, or all if there are fewer.
    Voters(usize),
    /// All of a row and all of a column of the group's [`Grid`].
    Grid,
}

impl Electorate {
    /// How many of a group of so many vote: the first so many.
    pub fn voters(self, members: usize) -> usize {
        match self {
            Electorate::Voters(voters) => voters.min(members),
            Electorate::Anybody | Electorate::Majority | Electorate::Grid => members,
        }
    }

    /// Whether those of a group that are `present`, by slot, can elect a leader.
    pub fn suffices(self, present: &[bool]) -> bool {
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

/// How much clocks may run fast or slow, as a fraction, where nothing else is set.
pub const DRIFT_BOUND: f64 = 0.01;

/// What is assumed about time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Synchrony {
    /// Delays have a known bound; when it is exceeded, promises lapse until it holds again.
    Synchronous,
    /// Delays are bounded from some unknown moment on; safety never depends on it.
    PartiallySynchronous,
    /// Delays as in the partially synchronous model; and clocks need not agree, but run at rates that
    /// differ from true time by no more than a known fraction, [`DRIFT_BOUND`] unless set otherwise, and
    /// do not jump. Safety rests on that, and on nothing about delays.
    BoundedDrift,
    /// Nothing.
    Asynchronous,
}

/// How many leaders there can be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Safety {
    /// Never two at once, whatever happens; and each leader's term is greater than those of all before it,
    /// so that it can be shown to what is led, which refuses the others: a fencing token.
    AtMostOne,
    /// Never two at once among processes that can reach each other.
    AtMostOnePerComponent,
    /// Never two in one term, whatever happens; one of an earlier term may believe in itself for a
    /// while longer.
    AtMostOnePerTerm,
    /// One, with a known probability.
    WithHighProbability,
    /// One in each component some time after faults stop; several before that.
    Eventual,
}

/// Which process is elected.
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
    /// As people write it.
    pub text: &'static str,
    /// As a function of the number of processes.
    pub of: fn(u64) -> u64,
}

impl From<Formula> for &'static str {
    fn from(formula: Formula) -> &'static str {
        formula.text
    }
}
