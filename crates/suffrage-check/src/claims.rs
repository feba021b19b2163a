//! The claims that a search checks.

use serde::Serialize;
use suffrage_core::{Algorithm, Choice, Contract, Electorate, Safety};

use crate::{Bounds, ElectionModel, ModelState};

/// A claim about a model: that a condition holds in every state, or that it holds in some state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// At no true time do two processes believe that they lead.
    AtMostOneLeader,
    /// Each new leader has a greater token than all leaders before.
    TokensIncrease,
    /// A leader keeps its token while its lease lasts: no other candidate can end it. Claimed only where it holds: if a
    /// lease needs the grant of every voter, no voter restarts, and there are no other commands: a change of the voters
    /// may raise the token.
    TokenIsKept,
    /// No two processes ever lead in the same term.
    OneLeaderPerTerm,
    /// When no message is in flight and no timer is set, all processes believe in the best one. Claimed only if no
    /// message is lost, no process crashes or gets a command of [`Bounds::commands`], and no timer fires early: the model is synchronous, or no timer fires at
    /// all.
    QuietMeansAgreed,
    /// Some state has a leader. So the other claims do not hold merely because nobody leads.
    SomebodyLeads,
    /// In some state, a second process has led after the first.
    LeaderChanges,
    /// In some state, a process has begun to lead after all commands of [`Bounds::commands`] had been given. Claimed only
    /// if there are such commands.
    LedAfterCommands,
    /// In some state, no message is in flight and no timer is set.
    FallsQuiet,
}

impl Claim {
    /// All claims.
    pub const ALL: [Claim; 9] = [
        Claim::AtMostOneLeader,
        Claim::TokensIncrease,
        Claim::TokenIsKept,
        Claim::OneLeaderPerTerm,
        Claim::QuietMeansAgreed,
        Claim::SomebodyLeads,
        Claim::LeaderChanges,
        Claim::LedAfterCommands,
        Claim::FallsQuiet,
    ];

    /// The claims about an algorithm with this contract, within these bounds. [`Claim::AtMostOneLeader`] is checked even
    /// if the contract does not promise it.
    pub(crate) fn of(contract: &Contract, electorate: Electorate, bounds: &Bounds) -> Vec<Claim> {
        let mut claims = match contract.safety {
            Safety::AtMostOne => {
                vec![
                    Claim::AtMostOneLeader,
                    Claim::TokensIncrease,
                    Claim::SomebodyLeads,
                    Claim::LeaderChanges,
                ]
            }
            Safety::AtMostOnePerTerm => {
                vec![Claim::OneLeaderPerTerm, Claim::SomebodyLeads, Claim::LeaderChanges]
            }
            Safety::AtMostOnePerComponent | Safety::WithHighProbability | Safety::Eventual => {
                vec![Claim::AtMostOneLeader, Claim::SomebodyLeads]
            }
        };
        let commanded = !bounds.before.is_empty() || !bounds.commands.is_empty();
        if !bounds.commands.is_empty() {
            claims.push(Claim::LedAfterCommands);
        }
        let lives = bounds.restarts == 0 && bounds.wipes == 0;
        let unanimous = matches!(electorate, Electorate::Voters(..=2));
        if contract.safety == Safety::AtMostOne && unanimous && lives && !commanded {
            claims.push(Claim::TokenIsKept);
        }
        let on_time = bounds.clocks.is_synchronous() || bounds.timers == 0;
        if contract.choice == Choice::Best && bounds.losses == 0 && lives && on_time && !commanded {
            claims.extend([Claim::QuietMeansAgreed, Claim::FallsQuiet]);
        }
        claims.sort_by_key(|&claim| claim as usize);
        claims
    }

    /// The claim as a phrase for reports.
    pub fn name(self) -> &'static str {
        match self {
            Claim::AtMostOneLeader => "never two leaders at once",
            Claim::TokensIncrease => "every leader's token is greater than all before",
            Claim::TokenIsKept => "a leader keeps its token while its lease lasts",
            Claim::OneLeaderPerTerm => "never two leaders in one term",
            Claim::QuietMeansAgreed => "once the system is quiet, all believe in the best process",
            Claim::SomebodyLeads => "some process leads",
            Claim::LeaderChanges => "leadership passes from one process to another",
            Claim::LedAfterCommands => "a process is elected after all commands",
            Claim::FallsQuiet => "the system falls quiet",
        }
    }

    /// True if the claim must hold in every state, not only in some state.
    pub fn is_safety(self) -> bool {
        !matches!(
            self,
            Claim::SomebodyLeads | Claim::LeaderChanges | Claim::LedAfterCommands | Claim::FallsQuiet
        )
    }

    /// True if a contract promises the claim in every schedule.
    pub fn is_promised(self, contract: &Contract) -> bool {
        self != Claim::AtMostOneLeader || contract.safety == Safety::AtMostOne
    }

    /// True if the claim's condition holds in this state.
    pub fn holds<A: Algorithm>(self, model: &ElectionModel<A>, state: &ModelState<A>) -> bool {
        match self {
            Claim::AtMostOneLeader => model.leaders(state).take(2).count() < 2,
            Claim::TokensIncrease => !state.history().token_not_increased,
            Claim::TokenIsKept => !state.history().token_replaced,
            Claim::OneLeaderPerTerm => !state.history().two_leaders_in_a_term,
            Claim::QuietMeansAgreed => !is_quiet(model, state) || is_agreed(model, state),
            Claim::SomebodyLeads => model.leaders(state).next().is_some(),
            Claim::LeaderChanges => state.history().leader_changed,
            Claim::LedAfterCommands => state.history().led_after_commands,
            Claim::FallsQuiet => is_quiet(model, state),
        }
    }
}

/// True if an election was called, no message is in flight, and no timer is set.
fn is_quiet<A: Algorithm>(model: &ElectionModel<A>, state: &ModelState<A>) -> bool {
    let bounds = model.bounds();
    let candidates = state.nodes().skip(bounds.nodes - bounds.candidates);
    let called = candidates.map(|node| node.campaigns).any(|left| left < bounds.campaigns) || bounds.elected;
    called
        && state.envelopes().len() == 0
        && state.nodes().all(|node| node.timers.iter().all(Option::is_none))
}

fn is_agreed<A: Algorithm>(model: &ElectionModel<A>, state: &ModelState<A>) -> bool {
    let eligible = state.nodes().zip(model.roster().iter()).filter(|(node, _)| node.process.may_lead());
    let best = eligible.map(|(_, id)| id).max_by_key(|&id| model.roster().rank(id));
    state.nodes().all(|node| node.belief.leader() == best)
}
