//! What a node can tell of its elections: who leads, and why not this node.

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::{ElectionState, Engine, Stage};

use super::journal::{Journal, Notes};
use super::status::{Status, VoterStatus, Why};

/// What the node knows of an election.
pub(super) fn status(
    now: Time,
    engine: &Engine,
    journal: &Journal,
    election: &ElectionState,
    notes: &Notes,
) -> Status {
    let lease = election.lease(now);
    let other = election.leader().map(|grant| (grant.holder, grant.token));
    let queue = engine.voter().into_iter().flat_map(|voter| voter.waiters(notes.name));
    Status {
        name: election.name().to_string(),
        leader: lease.map(|lease| (engine.me(), lease.token)).or(other),
        since: notes.since,
        lease,
        attribute: election.attribute(),
        stands: election.stands(),
        queue: queue.map(|(candidate, _)| candidate).collect(),
        why: why(now, engine, journal, election, notes),
    }
}

fn why(now: Time, engine: &Engine, journal: &Journal, election: &ElectionState, notes: &Notes) -> Why {
    let silent = silent_voters(now, engine, journal, election.patience());
    let voters = engine.config().voters.len();
    let majority = voters / 2 + 1;
    match (election.lease(now), election.leader(), election.stage()) {
        (Some(lease), ..) => Why::Leads(lease.valid_until.since(now)),
        _ if !election.is_healthy() => Why::Unhealthy,
        // A node that has just begun to look has not been answered yet.
        _ if !election.stands() && now.since(notes.since) < election.patience() => Why::Observes,
        _ if voters - silent.len() < majority => Why::NoMajority { silent, majority },
        _ if !election.stands() => Why::Observes,
        (_, Some(grant), _) => Why::Follows(grant.holder),
        _ if now < election.yields_until() => Why::StandsBack(election.yields_until().since(now)),
        (_, _, Stage::Preparing | Stage::Proposing) => Why::Contends,
        _ => Why::Waits,
    }
}

/// The voters that have not answered for that long.
fn silent_voters(
    now: Time,
    engine: &Engine,
    journal: &Journal,
    patience: Span,
) -> Vec<(NodeId, Option<Span>)> {
    let mut voters = journal.heard(now, engine.votes(now));
    voters.retain(|(_, heard)| heard.is_none_or(|ago| ago > patience));
    voters
}

/// How the node is as a voter, if it is one.
pub(super) fn voter_status(now: Time, engine: &Engine) -> Option<VoterStatus> {
    let voter = engine.voter()?;
    let (votes, silence) = (voter.votes(), voter.silent_until().since(now));
    Some(VoterStatus { votes, silence, elections: voter.len() })
}
