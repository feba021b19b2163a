//! What must hold, each in a file of its own, checked against the truth that no process sees.

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

/// Something that must hold.
pub trait Invariant {
    /// Its name in reports.
    fn name(&self) -> &'static str;

    /// Checked after every change. The error says what does not hold.
    fn on_change(&mut self, facts: &Facts<'_>, change: Change) -> Result<(), String> {
        let _ = (facts, change);
        Ok(())
    }

    /// Checked when the run is over.
    fn at_end(&mut self, facts: &Facts<'_>) -> Result<(), String> {
        let _ = facts;
        Ok(())
    }
}

/// What has just changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The process in this slot said what it believes.
    Announced(usize, Announcement),
    /// The process in this slot died.
    Crashed(usize),
    /// The process in this slot stopped for a while, or goes on.
    Paused(usize),
    /// The process in this slot said until when it leads, or its clock has jumped.
    LeaseOrClock(usize),
    /// Who can reach whom.
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

/// A promise that was broken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Violation {
    /// Which invariant.
    pub invariant: &'static str,
    /// When, in true time units.
    #[serde(serialize_with = "in_units")]
    pub at: Time,
    /// What did not hold.
    pub detail: String,
}

fn in_units<S: serde::Serializer>(time: &Time, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(time.as_units())
}

/// What a contract promises of every run, where these must be there for anybody to be elected. What is
/// promised with a probability no single run can break: it takes many, and the share of those that agree.
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
