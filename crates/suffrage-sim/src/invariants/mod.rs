//! The invariants, one a file, checked against the true state, which no process sees.

mod agreement;
mod at_most_one_leader;
mod best_leads;
mod fenced_register;
mod lease_outlives_crash;
mod one_leader_per_term;
mod stability;
mod termination;
mod token_increases;

pub use agreement::Agreement;
pub use at_most_one_leader::AtMostOneLeader;
pub use best_leads::BestLeads;
pub use fenced_register::FencedRegister;
pub use lease_outlives_crash::LeaseOutlivesCrash;
pub use one_leader_per_term::OneLeaderPerTerm;
pub use stability::Stability;
pub use termination::Termination;
pub use token_increases::TokenIncreases;

use serde::Serialize;
use suffrage_core::{Announcement, Choice, Contract, Electorate, NodeId, Safety, Term, Time};

use crate::Facts;

/// An invariant.
pub trait Invariant {
    /// The name in reports.
    fn name(&self) -> &'static str;

    /// Checks the invariant after a change. The error says what is violated.
    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        let _ = (facts, change);
        Ok(())
    }

    /// Checks the invariant at the end of the run.
    fn at_end(&mut self, facts: &Facts<'_>) -> Result<(), String> {
        let _ = facts;
        Ok(())
    }
}

/// A change of the true state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The process in this slot announced its belief.
    Announced(usize, Announcement),
    /// The process in this slot crashed.
    Crashed(usize),
    /// The process in this slot was paused, or resumed.
    Paused(usize),
    /// The process in this slot announced the end of its lease, or its clock jumped.
    LeaseOrClock(usize),
    /// A cut began, or healed.
    Connectivity,
}

impl Change {
    /// The process that has just announced itself the leader, and its term.
    fn new_leader(self, facts: &Facts<'_>) -> Option<(NodeId, Term)> {
        match self {
            Change::Announced(slot, Announcement::Elected { leader, term })
                if leader == facts.roster().id(slot) =>
            {
                Some((leader, term))
            }
            _ => None,
        }
    }
}

/// A violation of an invariant.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// The invariant's name.
    pub invariant: &'static str,
    /// The true time, in time units.
    #[serde(serialize_with = "in_units")]
    pub at: Time,
    /// The detail.
    pub detail: String,
}

fn in_units<S: serde::Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_units())
}

/// The invariants that a contract promises for every run, with this electorate. A promise with a probability has none:
/// no single run violates it.
pub fn of_contract(contract: &Contract, electorate: Electorate) -> Vec<Box<dyn Invariant>> {
    if !contract.is_certain() {
        return Vec::new();
    }
    let mut invariants: Vec<Box<dyn Invariant>> =
        vec![Box::new(Agreement), Box::new(Termination::of(electorate))];
    if contract.choice == Choice::Best {
        invariants.push(Box::new(BestLeads));
    }
    match contract.safety {
        Safety::AtMostOne => {
            invariants.push(Box::new(AtMostOneLeader::anywhere()));
            invariants.push(Box::new(TokenIncreases::default()));
            invariants.push(Box::new(FencedRegister::fenced()));
        }
        Safety::AtMostOnePerComponent => invariants.push(Box::new(AtMostOneLeader::per_component())),
        Safety::AtMostOnePerTerm => invariants.push(Box::new(OneLeaderPerTerm::default())),
        Safety::Eventual | Safety::WithHighProbability => {}
    }
    invariants
}
