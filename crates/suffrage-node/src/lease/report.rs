//! What can be asked of a host: none of it changes anything.

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::{Name, Stage};

use super::Host;
use crate::lease::seat::{Candidacy, Seat};
use crate::lease::status::{History, Status, Tally, VoterStatus, Why};

impl Host {
    /// Its part in the election of this name.
    pub fn seat(&self, name: Name) -> Option<Seat> {
        self.names.get(&name).copied()
    }

    /// How many elections it takes part in.
    pub fn len(&self) -> usize {
        self.names.len()
    }

    /// Whether it takes part in none.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    /// What it knows of an election.
    pub fn status(&self, now: Time, seat: Seat) -> Option<Status> {
        let candidacy = self.candidacy(seat)?;
        let candidate = &candidacy.candidate;
        let lease = candidate.lease().filter(|lease| now < lease.valid_until);
        let other = candidate.leader().map(|grant| (grant.holder, grant.token));
        let queue = self.voter.iter().flat_map(|voter| voter.waiters(candidacy.name));
        Some(Status {
            name: candidacy.text.to_string(),
            leader: lease.map(|lease| (self.me, lease.token)).or(other),
            since: candidacy.since,
            lease,
            attribute: candidate.attribute(),
            stands: candidacy.standing,
            queue: queue.map(|(who, _)| who).collect(),
            why: self.why(now, candidacy),
        })
    }

    fn why(&self, now: Time, candidacy: &Candidacy) -> Why {
        let candidate = &candidacy.candidate;
        let lease = candidate.lease().filter(|lease| now < lease.valid_until);
        let silent = self.silent_voters(now, candidacy.patience());
        let majority = self.settings.voters.len() / 2 + 1;
        match (lease, candidate.leader(), candidate.stage()) {
            (Some(lease), ..) => Why::Leads(lease.valid_until.since(now)),
            _ if !candidacy.healthy => Why::Unhealthy,
            // One that has just begun to look has not been answered yet.
            _ if !candidacy.standing && now.since(candidacy.since) < candidacy.patience() => Why::Observes,
            _ if self.settings.voters.len() - silent.len() < majority => Why::NoMajority { silent, majority },
            _ if !candidacy.standing => Why::Observes,
            (_, Some(grant), _) => Why::Follows(grant.holder),
            _ if now < candidate.stands_back_until() => {
                Why::StandsBack(candidate.stands_back_until().since(now))
            }
            (_, _, Stage::Preparing | Stage::Proposing) => Why::Contends,
            _ => Why::Waits,
        }
    }

    /// The voters that have not answered for that long.
    fn silent_voters(&self, now: Time, patience: Span) -> Vec<(NodeId, Option<Span>)> {
        let mut voters = self.heard(now);
        voters.retain(|(_, heard)| heard.is_none_or(|ago| ago > patience));
        voters
    }

    /// How long ago each voter was heard, if ever. The node hears itself if it votes at present.
    pub fn heard(&self, now: Time) -> Vec<(NodeId, Option<Span>)> {
        let own_votes = self.voter.as_ref().is_some_and(|voter| voter.votes() && now >= voter.silent_until());
        let heard = |(&voter, heard): (&NodeId, &Option<Time>)| match voter == self.me {
            true => (voter, own_votes.then_some(Span::ZERO)),
            false => (voter, heard.map(|heard| now.since(heard))),
        };
        self.settings.voters.iter().zip(&self.heard).map(heard).collect()
    }

    /// How it is as a voter, if it is one.
    pub fn voter_status(&self, now: Time) -> Option<VoterStatus> {
        let voter = self.voter.as_ref()?;
        let (votes, silence) = (voter.votes(), voter.silent_until().since(now));
        Some(VoterStatus { votes, silence, elections: voter.len() })
    }

    /// Every election it takes part in.
    pub fn seats(&self) -> impl Iterator<Item = (Seat, &str)> {
        let seats = self.names.values();
        seats.filter_map(|&seat| Some((seat, &*self.seats[seat.index()].as_ref()?.text)))
    }

    /// The changes of leaders that it learned of.
    pub fn history(&self) -> &History {
        &self.history
    }

    /// What it has counted.
    pub fn tally(&self) -> Tally {
        self.tally
    }

    /// How long voters have lately taken to answer.
    pub fn round_trip(&self) -> Span {
        self.round_trip
    }
}
