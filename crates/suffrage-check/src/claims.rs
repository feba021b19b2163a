//! What is claimed of a universe, one claim at a time.

use serde::Serialize;
use suffrage_core::{Algorithm, Choice, Contract, Electorate, Safety};

use crate::{Bounds, Universe, World};

/// Something claimed of a universe: that it holds in every world, or that there is a world in which it does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Claim {
    /// At no true moment are there two that may believe that they lead.
    AtMostOneLeader,
    /// Whoever begins to lead has a greater token than everybody before.
    TokensIncrease,
    /// One that leads keeps its token as long as its lease lasts: no other candidate can take that from it.
    /// Claimed only where it is so: if a lease takes every voter's word, and none of them restarts.
    TokenIsKept,
    /// No two ever lead in the same term.
    OneLeaderPerTerm,
    /// When nothing is in flight and nobody waits for anything, everybody believes in the best. Claimed only
    /// where nothing is lost, nobody crashes, and no timer runs out before its time: the world is synchronous,
    /// or no timer runs out at all.
    QuietMeansAgreed,
    /// There is a world with a leader: what holds in all of them does not hold for want of one.
    SomebodyLeads,
    /// There is a world in which one has led after another.
    ChangesHands,
    /// There is a world in which nothing is in flight any more and nobody waits for anything.
    FallsQuiet,
}

impl Claim {
    /// All of them.
    pub const ALL: [Claim; 8] = [
        Claim::AtMostOneLeader,
        Claim::TokensIncrease,
        Claim::TokenIsKept,
        Claim::OneLeaderPerTerm,
        Claim::QuietMeansAgreed,
        Claim::SomebodyLeads,
        Claim::ChangesHands,
        Claim::FallsQuiet,
    ];

    /// What is claimed of an algorithm with this contract, within these bounds. Of one that promises nothing
    /// about the number of leaders, it is asked all the same.
    pub(crate) fn of(contract: &Contract, electorate: Electorate, bounds: &Bounds) -> Vec<Claim> {
        let mut claims = match contract.safety {
            Safety::AtMostOne => {
                vec![Claim::AtMostOneLeader, Claim::TokensIncrease, Claim::SomebodyLeads, Claim::ChangesHands]
            }
            Safety::AtMostOnePerTerm => {
                vec![Claim::OneLeaderPerTerm, Claim::SomebodyLeads, Claim::ChangesHands]
            }
            Safety::AtMostOnePerComponent | Safety::WithHighProbability | Safety::Eventual => {
                vec![Claim::AtMostOneLeader, Claim::SomebodyLeads]
            }
        };
        let lives = bounds.restarts == 0 && bounds.wipes == 0;
        let unanimous = matches!(electorate, Electorate::Voters(..=2));
        if contract.safety == Safety::AtMostOne && unanimous && lives {
            claims.push(Claim::TokenIsKept);
        }
        let on_time = bounds.clocks.is_synchronous() || bounds.timers == 0;
        if contract.choice == Choice::Best && bounds.losses == 0 && lives && on_time {
            claims.extend([Claim::QuietMeansAgreed, Claim::FallsQuiet]);
        }
        claims.sort_by_key(|&claim| claim as usize);
        claims
    }

    /// As people are told.
    pub fn name(self) -> &'static str {
        match self {
            Claim::AtMostOneLeader => "never two leaders at once",
            Claim::TokensIncrease => "every leader's token is greater than all before",
            Claim::TokenIsKept => "a leader keeps its token while its lease lasts",
            Claim::OneLeaderPerTerm => "never two leaders in one term",
            Claim::QuietMeansAgreed => "once it is quiet, all believe in the best",
            Claim::SomebodyLeads => "somebody leads",
            Claim::ChangesHands => "one leads after another",
            Claim::FallsQuiet => "it falls quiet",
        }
    }

    /// Whether it must hold in every world, not just in one.
    pub fn is_safety(self) -> bool {
        !matches!(self, Claim::SomebodyLeads | Claim::ChangesHands | Claim::FallsQuiet)
    }

    /// Whether a contract promises it whatever happens.
    pub fn is_promised(self, contract: &Contract) -> bool {
        self != Claim::AtMostOneLeader || contract.safety == Safety::AtMostOne
    }

    /// Whether it holds in this world.
    pub fn holds<A: Algorithm>(self, universe: &Universe<A>, world: &World<A>) -> bool {
        match self {
            Claim::AtMostOneLeader => universe.leaders(world).take(2).count() < 2,
            Claim::TokensIncrease => !world.history().token_fell,
            Claim::TokenIsKept => !world.history().token_swapped,
            Claim::OneLeaderPerTerm => !world.history().term_shared,
            Claim::QuietMeansAgreed => !is_quiet(universe, world) || is_agreed(universe, world),
            Claim::SomebodyLeads => universe.leaders(world).next().is_some(),
            Claim::ChangesHands => world.history().changed_hands,
            Claim::FallsQuiet => is_quiet(universe, world),
        }
    }
}

/// Whether an election was called, nothing is in flight, and nobody waits for anything.
fn is_quiet<A: Algorithm>(universe: &Universe<A>, world: &World<A>) -> bool {
    let bounds = universe.bounds();
    let candidates = world.nodes().skip(bounds.nodes - bounds.candidates);
    let called = candidates.map(|node| node.campaigns).any(|left| left < bounds.campaigns) || bounds.elected;
    called && world.letters().len() == 0 && world.nodes().all(|node| node.timers.iter().all(Option::is_none))
}

fn is_agreed<A: Algorithm>(universe: &Universe<A>, world: &World<A>) -> bool {
    let eligible = world.nodes().zip(universe.roster().iter()).filter(|(node, _)| node.process.may_lead());
    let best = eligible.map(|(_, id)| id).max_by_key(|&id| universe.roster().rank(id));
    world.nodes().all(|node| node.belief.leader() == best)
}
