//! The reports of a node, from the state of its engine and its journal.

use std::sync::Arc;
use std::time::Duration;

use suffrage_core::{Span, Time};
use suffrage_lease::{ElectionState, Engine, Mismatch, Name, Stage};

use super::journal::{Journal, Notes};
use super::output::Absence;
use super::status::{
    GrantedElection, Leader, LeaderValue, ListedElection, MembershipStatus, MismatchedNode, NotVoting,
    Status, VoterContact, VoterStatus, Why,
};
use super::witness::Witness;

/// A span of the node's clock as a duration of the standard library.
pub(super) fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

/// The status of an election.
pub(super) fn status(
    now: Time,
    engine: &Engine,
    journal: &Journal,
    election: &ElectionState,
    (notes, mismatches): (&Notes, Vec<MismatchedNode>),
) -> Status {
    let lease = election.lease(now);
    let own = lease.map(|lease| Leader { node: engine.me(), token: lease.token });
    let other = election.leader().map(Leader::of);
    let name = notes.name;
    let leader = own.or(other);
    let token = leader.map(|leader| leader.token);
    let queue = engine.voter().into_iter().flat_map(|voter| voter.waiters(notes.name));
    Status {
        name: election.name().to_string(),
        leader,
        value: token.and_then(|token| engine.value(name, token)).map(LeaderValue::new),
        value_pending: token.is_some_and(|token| engine.is_value_pending(name, token)),
        leader_age: duration(now.since(notes.since)),
        lease_remaining: lease.map(|lease| duration(lease.valid_until.since(now))),
        grant_remaining: grant_remaining(now, engine, notes.name),
        rank: election.attribute(),
        candidate: election.stands(),
        queue: queue.map(|(candidate, _)| candidate).collect(),
        why: why(now, engine, journal, election),
        mismatches,
        slow_save: None,
    }
}

/// The time until the lease ends that the node's voter has granted.
fn grant_remaining(now: Time, engine: &Engine, name: Name) -> Option<Duration> {
    let (_, expires) = engine.voter()?.grant(now, name)?;
    Some(duration(expires.since(now)))
}

/// The elections that the node's voter has granted and that the node takes no part in.
pub(super) fn granted(now: Time, engine: &Engine, journal: &Journal) -> Vec<GrantedElection> {
    engine.granted(now).map(|granted| granted_election(now, engine, journal, granted)).collect()
}

/// An election that the node's voter has granted and that the node takes no part in.
pub(super) fn granted_election(
    now: Time,
    engine: &Engine,
    journal: &Journal,
    granted: suffrage_lease::GrantedElection,
) -> GrantedElection {
    let waiting = engine.voter().into_iter().flat_map(|voter| voter.live_waiters(now, granted.name));
    let leader = granted.grant.map(|(grant, _)| Leader::of(grant));
    // The engine counts from the moment at which the node left the election.
    let since = leader.and_then(|leader| journal.known_since(granted.name, leader));
    GrantedElection {
        name: granted.text.map(|text| text.to_string()),
        hash: granted.name.to_string(),
        leader,
        value: granted.value.as_ref().map(|(version, value)| LeaderValue::new((*version, value))),
        leader_age: duration(now.since(since.unwrap_or(granted.since))),
        grant_remaining: granted.grant.map(|(_, expires)| duration(expires.since(now))),
        queue: waiting.collect(),
    }
}

/// All elections that the node takes part in or that its voter has granted.
pub(super) fn list(now: Time, engine: &Engine) -> Vec<ListedElection> {
    let joined = engine.elections().map(|(_, election)| {
        let own = election.lease(now).map(|_| engine.me());
        let leader = own.or(election.leader().map(|grant| grant.holder));
        let name = election.name();
        ListedElection { name: Some(name.clone()), hash: name.hash(), leader }
    });
    let granted = engine.granted(now).map(|granted| ListedElection {
        name: granted.text,
        hash: granted.name,
        leader: granted.grant.map(|(grant, _)| grant.holder),
    });
    joined.chain(granted).collect()
}

/// The reason why the node's own voter does not vote, if the node is a voter of the cluster and does not.
pub(super) fn own_absence(now: Time, engine: &Engine) -> Option<Absence> {
    engine.configuration().voter(engine.me())?;
    match engine.voter() {
        None => Some(Absence::LostState),
        Some(voter) => {
            Some(voter.silent_until().since(now)).filter(|left| !left.is_zero()).map(Absence::Silent)
        }
    }
}

/// The last reply of each voter, and why it does not vote.
pub(super) fn contacts(
    now: Time,
    engine: &Engine,
    journal: &Journal,
    silent_after: Span,
) -> Vec<VoterContact> {
    let mut contacts = journal.contacts(now, own_absence(now, engine), silent_after);
    for (node, _) in engine.mismatches() {
        for contact in contacts.iter_mut().filter(|contact| contact.voter == node) {
            contact.not_voting = Some(NotVoting::Mismatched);
        }
    }
    contacts
}

fn why(now: Time, engine: &Engine, journal: &Journal, election: &ElectionState) -> Why {
    let silent = silent_voters(now, engine, journal, election.unresponsive_after());
    let voters = engine.configuration().voters().len();
    let majority = voters / 2 + 1;
    let too_long = election.granted_at_most().unwrap_or(Span::ZERO);
    match (election.lease(now), election.leader(), election.stage()) {
        (Some(lease), ..) => {
            let remaining = duration(lease.valid_until.since(now));
            match election.hand_over() {
                Some(begun) => Why::HandingOver { remaining, to: begun.to },
                None => Why::Leading { remaining },
            }
        }
        // Without a majority no node can lead, whatever else holds.
        _ if voters - silent.len() < majority => Why::NoMajority { silent, majority },
        _ if !election.is_healthy() => Why::Unhealthy,
        _ if !election.stands() => Why::NotCandidate,
        _ if !too_long.is_zero() => Why::TtlTooLong { longest: duration(too_long) },
        (_, Some(grant), _) => Why::Following { leader: grant.holder },
        _ if now < election.yield_until() => {
            Why::Yielding { remaining: duration(election.yield_until().since(now)) }
        }
        (_, _, stage) => match journal.refusal(now, election.name().hash(), election.unresponsive_after()) {
            Some(refusal) => Why::Refused { refusal },
            None if matches!(stage, Stage::Preparing | Stage::Proposing) => Why::Campaigning,
            None => Why::Waiting,
        },
    }
}

/// The nodes whose messages change nothing at this node.
pub(super) fn mismatches(engine: &Engine, witness: &Witness) -> Vec<MismatchedNode> {
    let report = |(node, mismatch): (_, Mismatch)| MismatchedNode { node, reason: mismatch.to_string() };
    let outdated = |node| MismatchedNode {
        node,
        reason: "its data folder was restored from an older copy, and it has forgotten promises".to_string(),
    };
    engine.mismatches().map(report).chain(witness.outdated().map(outdated)).collect()
}

/// The voters that leave requests without replies.
fn silent_voters(
    now: Time,
    engine: &Engine,
    journal: &Journal,
    unresponsive_after: Span,
) -> Vec<VoterContact> {
    let mut voters = contacts(now, engine, journal, unresponsive_after);
    voters.retain(|contact| contact.silent);
    voters
}

/// The state of the node as a voter, if it is one.
pub(super) fn voter_status(now: Time, engine: &Engine) -> Option<VoterStatus> {
    engine.configuration().voter(engine.me())?;
    let voter = engine.voter_state()?;
    Some(VoterStatus {
        votes: engine.voter().is_some(),
        silence_remaining: duration(voter.silent_until().since(now)),
        elections: voter.len(),
    })
}

/// The configuration of the cluster, as this node knows it.
pub(super) fn membership(now: Time, engine: &Engine) -> MembershipStatus {
    MembershipStatus {
        configuration: Arc::clone(engine.configuration()),
        certain: engine.is_configuration_certain(),
        drained_in: engine.voter().map(|voter| duration(voter.drained_at().since(now))),
        disk: engine.voter_state().map(|voter| voter.saved().disk),
        change: engine.change(now).map(|(change, progress)| (change.clone(), progress)),
        mismatches: engine.mismatches().collect(),
    }
}
