//! The counters and the history of a node: derived from the announcements of its engine, and no part of the engine's
//! state.

use std::collections::BTreeMap;
use std::time::Duration;

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::{Body, ElectionName, GrantChange, Message, Name, Refusal as EngineRefusal, Reply};

use super::output::{Absence, Event};
use super::report::duration;
use super::status::{
    ElectionCounters, History, Leader, LeaderRecord, NotVoting, Refusal, RefusalReason, VoterContact,
};

/// The counters and the history of a node.
#[derive(Debug)]
pub(super) struct Journal {
    me: NodeId,
    voters: Vec<NodeId>,
    /// The replies of each voter.
    contacts: Vec<Contact>,
    pub(super) history: History,
    pub(super) counters: ElectionCounters,
    /// The last refusal of each election that this node does not lead.
    refusals: BTreeMap<Name, LastRefusal>,
    /// The leader of each election that the node takes part in, or took part in since its voter granted the lease, if it
    /// knows one. The engine knows the leaders of other granted elections: a voter grants many.
    known: BTreeMap<Name, KnownLeader>,
}

/// The leader of an election, as the node knows it.
#[derive(Clone, Copy, Debug)]
struct KnownLeader {
    leader: Leader,
    since: Time,
    /// Whether the operator knows of it.
    told: bool,
}

/// The greatest number of elections whose last refusal is stored.
const MAX_REFUSALS: usize = 1_000;

/// The number of rejected tokens in a row that are news for the operator: more than one campaign of three voters has.
const PROMISED_NEWS: u32 = 4;

/// The last refusal of an election, and how often in a row voters have refused for this reason.
#[derive(Clone, Copy, Debug)]
struct LastRefusal {
    refusal: Refusal,
    at: Time,
    times: u32,
}

/// The replies of one voter.
#[derive(Clone, Copy, Debug, Default)]
struct Contact {
    /// The time of the last reply.
    replied: Option<Time>,
    /// The time of the first request since then.
    asked: Option<Time>,
    /// The number of requests since then.
    unanswered: u32,
    /// The smoothed time from a request to its reply. None before the first.
    round_trip: Option<Span>,
    /// The reason why the voter does not vote, and until when that holds. It is as the voter has said since its last
    /// reply.
    absence: Option<(Absence, Time)>,
}

impl Contact {
    /// The round trip with the reply that has come now, smoothed as TCP does. If several requests are open, nobody knows
    /// which of them the reply is to, and the sample does not count.
    fn measured(&self, now: Time) -> Option<Span> {
        let sample = self.asked.filter(|_| self.unanswered == 1).map(|asked| now.since(asked).as_nanos());
        match (self.round_trip, sample) {
            (Some(before), Some(sample)) => {
                let before = before.as_nanos();
                Some(Span::from_nanos(before - before / 8 + sample / 8))
            }
            (before, sample) => before.or(sample.map(Span::from_nanos)),
        }
    }
}

/// The number of requests in a row without a reply from which a voter counts as silent. Fewer may be lost.
const SILENT_REQUESTS: u32 = 3;
/// The time since the first of these requests from which a voter counts as silent. Replies may take long.
pub(super) const SILENT_AFTER: Span = Span::from_millis(3_000);

/// The time for which a voter that has lost its state counts as silent, after it has said so.
const LOST_STATE: Span = Span::from_millis(5_000);

/// The notes on one election that the node takes part in.
#[derive(Clone, Debug)]
pub(super) struct Notes {
    pub(super) election: ElectionName,
    /// The hash of the election's name.
    pub(super) name: Name,
    /// The validity of a lease by its holder's clock, from the request on.
    pub(super) validity: Span,
    /// The time at which the known leader last changed.
    pub(super) since: Time,
    /// The time at which the last leader was lost. None if a leader is known, or if the node was not a candidate all
    /// the time since.
    pub(super) leaderless_since: Option<Time>,
}

impl Notes {
    pub(super) fn new(election: ElectionName, validity: Span, now: Time) -> Notes {
        Notes { name: election.hash(), election, validity, since: now, leaderless_since: None }
    }
}

impl Journal {
    pub(super) fn new(me: NodeId, voters: &[NodeId], history: usize) -> Journal {
        Journal {
            me,
            voters: voters.to_vec(),
            contacts: vec![Contact::default(); voters.len()],
            history: History::new(history),
            counters: ElectionCounters::default(),
            refusals: BTreeMap::new(),
            known: BTreeMap::new(),
        }
    }

    /// The voters of the cluster have changed.
    pub(super) fn set_voters(&mut self, voters: &[NodeId]) {
        let contact = |voter: &NodeId| {
            let index = self.voters.iter().position(|known| known == voter);
            index.map_or_else(Contact::default, |index| self.contacts[index])
        };
        self.contacts = voters.iter().map(contact).collect();
        self.voters = voters.to_vec();
    }

    /// Counts messages of a peer. Only replies show that a voter votes: a voter that is silent after a restart, or
    /// that has lost its saved state, still sends requests.
    pub(super) fn on_messages(&mut self, now: Time, from: NodeId, messages: &[Message]) {
        self.counters.messages_received += messages.len() as u64;
        if messages.iter().any(|message| matches!(message.body, Body::Reply(_)))
            && let Some(index) = self.voters.iter().position(|&voter| voter == from)
        {
            let round_trip = self.contacts[index].measured(now);
            self.contacts[index] = Contact { replied: Some(now), round_trip, ..Contact::default() };
        }
    }

    /// A voter has said that it does not vote.
    pub(super) fn on_absence(&mut self, now: Time, voter: NodeId, absence: Absence) {
        if let Some(index) = self.voters.iter().position(|&other| other == voter) {
            self.contacts[index].absence = Some((absence, now + absence.span()));
        }
    }

    /// Records a lease that this node's voter has granted at this time, in an election that the node takes no part in.
    /// Returns whether that is news for the operator.
    pub(super) fn record_grant(&mut self, at: Time, change: &GrantChange) -> bool {
        let (name, leader) = (change.election.hash(), change.grant.map(Leader::of));
        let known = self.known.get(&name).filter(|known| Some(known.leader) == leader).copied();
        if known.is_some_and(|known| known.told) {
            return false;
        }
        // The engine knows the leader from now on.
        self.known.remove(&name);
        self.counters.leaders_granted += u64::from(leader.is_some());
        let at = known.map_or(at, |known| known.since);
        self.history.add(LeaderRecord { election: change.election.clone(), at, leader });
        true
    }

    /// Records the leader of an election from this time on. Returns the time since which the node knows of it, and whether
    /// the operator does not.
    fn learn(&mut self, name: Name, leader: Option<Leader>, at: Time) -> (Time, bool) {
        let Some(leader) = leader else {
            self.known.remove(&name);
            return (at, true);
        };
        match self.known.get_mut(&name).filter(|known| known.leader == leader) {
            Some(known) => (known.since, !std::mem::replace(&mut known.told, true)),
            None => {
                self.known.insert(name, KnownLeader { leader, since: at, told: true });
                (at, true)
            }
        }
    }

    /// Notes since when this node's voter has granted a lease, because the node is about to join the election: the engine
    /// forgets it when the node joins. The operator was told if the voter knew the name of the election.
    pub(super) fn note_grant(&mut self, name: Name, leader: Leader, since: Time, told: bool) {
        if self.known_since(name, leader).is_none() {
            self.known.insert(name, KnownLeader { leader, since, told });
        }
    }

    /// Forgets the leader of an election that the node takes no part in, unless its voter has granted the lease to this
    /// leader and the operator knows of it.
    pub(super) fn forget_leader(&mut self, name: Name, granted: Option<Leader>) {
        if self.known.get(&name).is_some_and(|known| !known.told || Some(known.leader) != granted) {
            self.known.remove(&name);
        }
    }

    /// The time since which the node knows that this is the leader.
    pub(super) fn known_since(&self, name: Name, leader: Leader) -> Option<Time> {
        self.known.get(&name).filter(|known| known.leader == leader).map(|known| known.since)
    }

    /// Records a refusal. Returns it if it is news for the operator: the reason differs from that of the last refusal.
    /// A few rejected tokens are no news, because a candidate learns the greatest token in this way.
    pub(super) fn record_refusal(&mut self, at: Time, refused: &EngineRefusal) -> Option<Refusal> {
        let reason = match refused.reply {
            Reply::Held { grant, remaining, .. } => {
                RefusalReason::Held { holder: grant.holder, remaining: duration(remaining) }
            }
            Reply::Rejected { promised, .. } => RefusalReason::Promised { token: promised },
            Reply::TooLong { longest, .. } => RefusalReason::TooLong { longest: duration(longest) },
            _ => return None,
        };
        let (name, refusal) = (refused.election.hash(), Refusal { voter: refused.voter, reason });
        let known = self.refusals.get(&name);
        if known.is_none() && self.refusals.len() >= MAX_REFUSALS {
            return None;
        }
        let same = known.filter(|known| is_same_reason(&known.refusal.reason, &reason));
        let times = same.map_or(1, |known| known.times.saturating_add(1));
        self.refusals.insert(name, LastRefusal { refusal, at, times });
        let first_news = if matches!(reason, RefusalReason::Promised { .. }) { PROMISED_NEWS } else { 1 };
        (times == first_news).then_some(refusal)
    }

    /// The node leads the election, or has left it.
    pub(super) fn forget_refusal(&mut self, name: Name) {
        self.refusals.remove(&name);
    }

    /// The last refusal of an election, if it is younger than this.
    pub(super) fn refusal(&self, now: Time, name: Name, youngest: Span) -> Option<Refusal> {
        let LastRefusal { mut refusal, at, .. } = *self.refusals.get(&name)?;
        let age = now.since(at);
        if let RefusalReason::Held { remaining, .. } = &mut refusal.reason {
            *remaining = remaining.checked_sub(duration(age))?;
        }
        (age <= youngest).then_some(refusal)
    }

    /// Counts a request to a voter.
    pub(super) fn on_asked(&mut self, voter: NodeId, at: Time) {
        if let Some(index) = self.voters.iter().position(|&other| other == voter) {
            let contact = &mut self.contacts[index];
            contact.asked.get_or_insert(at);
            contact.unanswered = contact.unanswered.saturating_add(1);
        }
    }

    /// The last reply of each voter. The node itself counts as replying now unless its own voter is absent. A voter is
    /// silent if it has said so, or if it has left several requests in a row without a reply, for this time or
    /// [`SILENT_AFTER`], whichever is shorter.
    pub(super) fn contacts(
        &self,
        now: Time,
        own_absence: Option<Absence>,
        silent_after: Span,
    ) -> Vec<VoterContact> {
        let silent_after = silent_after.min(SILENT_AFTER);
        let contact = |(&voter, contact): (&NodeId, &Contact)| {
            if voter == self.me {
                let reply_age = own_absence.is_none().then_some(Duration::ZERO);
                let not_voting = own_absence.map(|absence| not_voting(absence, absence.span()));
                let (silent, round_trip) = (own_absence.is_some(), None);
                return VoterContact { voter, reply_age, silent, not_voting, round_trip };
            }
            let reply_age = contact.replied.map(|at| duration(now.since(at)));
            let long = contact.asked.is_some_and(|asked| now.since(asked) >= silent_after);
            let absence = contact.absence.filter(|(_, until)| now < *until);
            let silent = absence.is_some() || long && contact.unanswered >= SILENT_REQUESTS;
            let not_voting = absence.map(|(absence, until)| not_voting(absence, until.since(now)));
            let round_trip = contact.round_trip.map(duration);
            VoterContact { voter, reply_age, silent, not_voting, round_trip }
        };
        self.voters.iter().zip(&self.contacts).map(contact).collect()
    }

    /// Records an event of an election in which the node is a candidate or is not. Returns whether it is news for the
    /// operator: the node's voter may have granted the lease of a leader before the node joined.
    pub(super) fn record(&mut self, notes: &mut Notes, at: Time, event: Event, candidate: bool) -> bool {
        let leader = match event {
            Event::Led { token, .. } => {
                self.counters.leaderships_started += 1;
                Some(Leader { node: self.me, token })
            }
            Event::Renewed { valid_until } => {
                self.counters.renewals += 1;
                // A lease is valid from the request on, so that its end tells when the request was sent.
                let took = (at + notes.validity).since(valid_until);
                self.counters.renewal_seconds.record(duration(took));
                return false;
            }
            Event::Follows { leader, token } => Some(Leader { node: leader, token }),
            Event::Lost => {
                self.counters.leaderships_ended += 1;
                None
            }
            Event::Nobody => None,
        };
        let (since, news) = self.learn(notes.name, leader, at);
        notes.since = since;
        if !news {
            return false;
        }
        self.counters.leaders_followed += u64::from(matches!(event, Event::Follows { .. }));
        if leader.is_none() {
            // Without a candidate, the lack of a leader is no failover.
            if candidate {
                notes.leaderless_since.get_or_insert(at);
            }
        } else if let Some(lost) = notes.leaderless_since.take() {
            self.counters.failover_seconds.record(duration(at.since(lost)));
        }
        self.history.add(LeaderRecord { election: notes.election.clone(), at: since, leader });
        true
    }
}

impl Absence {
    /// The time for which the notice holds.
    fn span(self) -> Span {
        match self {
            Absence::Silent(span) => span,
            Absence::LostState => LOST_STATE,
        }
    }
}

fn not_voting(absence: Absence, remaining: Span) -> NotVoting {
    match absence {
        Absence::Silent(_) => NotVoting::Restarted { remaining: duration(remaining) },
        Absence::LostState => NotVoting::LostState,
    }
}

/// Whether two refusals have the same reason for an operator.
fn is_same_reason(one: &RefusalReason, other: &RefusalReason) -> bool {
    match (one, other) {
        (RefusalReason::Held { holder: one, .. }, RefusalReason::Held { holder: other, .. }) => one == other,
        _ => std::mem::discriminant(one) == std::mem::discriminant(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_lease::membership::Configuration;
    use suffrage_lease::{Ask, Boot, Grant, Header, Request, Token};

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn journal() -> Journal {
        Journal::new(NodeId(1), &[1, 2, 3].map(NodeId), 10)
    }

    fn header() -> Header {
        let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
        Header { boot: Boot(1), stamp: founding.stamp() }
    }

    /// A voter that is silent after a restart sends requests, too.
    #[test]
    fn only_replies_count_as_contact_with_a_voter() {
        let (mut journal, name, header) = (journal(), Name::of("x"), header());
        let ask = Message { header, name, body: Body::Ask(Ask::Watch { request: Request(9) }) };
        let claim = Message { header, name, body: Body::Claim { attribute: 0 } };
        let ages = |journal: &Journal, now, own: bool| -> Vec<Option<Duration>> {
            let absence = (!own).then_some(Absence::LostState);
            journal.contacts(now, absence, SILENT_AFTER).iter().map(|contact| contact.reply_age).collect()
        };
        journal.on_messages(at(0), NodeId(2), &[ask.clone(), claim]);
        assert_eq!(ages(&journal, at(1), true)[1..], [None, None]);
        let reply = Message { header, name, body: Body::Reply(Reply::Promised { request: Request(9) }) };
        journal.on_messages(at(1), NodeId(2), &[reply, ask]);
        let two = Some(Duration::from_millis(2));
        assert_eq!(ages(&journal, at(3), true), [Some(Duration::ZERO), two, None]);
        assert_eq!(ages(&journal, at(3), false)[0], None);
        assert_eq!(journal.counters.messages_received, 4);
        journal.set_voters(&[NodeId(2), NodeId(4)]);
        assert_eq!(ages(&journal, at(3), true), [two, None], "a voter that stays keeps its time");
    }

    /// Single requests and replies may be lost, and replies may take long.
    #[test]
    fn a_voter_is_silent_after_several_requests_and_some_time_without_a_reply() {
        let (mut journal, name) = (journal(), Name::of("x"));
        let silent = |journal: &Journal, now| -> Vec<u64> {
            let contacts = journal.contacts(now, None, Span::from_millis(20_000));
            contacts.iter().filter(|contact| contact.silent).map(|contact| contact.voter.0).collect()
        };
        assert_eq!(silent(&journal, at(60_000)), [0; 0], "nobody was asked");
        for time in [60_000, 60_100, 60_200] {
            journal.on_asked(NodeId(2), at(time));
        }
        journal.on_asked(NodeId(3), at(60_000));
        journal.on_asked(NodeId(3), at(62_999));
        assert_eq!(silent(&journal, at(62_999)), [0; 0], "too soon");
        assert_eq!(silent(&journal, at(63_000)), [2], "3 was asked only twice");
        let reply =
            Message { header: header(), name, body: Body::Reply(Reply::Promised { request: Request(9) }) };
        journal.on_messages(at(63_001), NodeId(2), &[reply]);
        journal.on_asked(NodeId(3), at(63_001));
        assert_eq!(silent(&journal, at(63_001)), [3]);
        let absence = Some(Absence::Silent(Span::from_millis(5)));
        let own = journal.contacts(at(0), absence, SILENT_AFTER)[0];
        assert!(own.silent, "the node itself does not vote");
        assert!(own.to_string().contains("silent for another 5ms"), "{own}");
    }

    #[test]
    fn the_round_trip_of_a_voter_is_smoothed_and_counts_only_if_one_request_is_open() {
        let (mut journal, name) = (journal(), Name::of("x"));
        let mut trip = |asked: &[u64], replied: u64| {
            asked.iter().for_each(|time| journal.on_asked(NodeId(2), at(*time)));
            let body = Body::Reply(Reply::Promised { request: Request(9) });
            journal.on_messages(at(replied), NodeId(2), &[Message { header: header(), name, body }]);
            let contacts = journal.contacts(at(replied), None, SILENT_AFTER);
            assert_eq!(contacts[0].round_trip, None, "the node itself");
            contacts[1].round_trip
        };
        assert_eq!(trip(&[], 10), None, "a reply to a request of an earlier process");
        assert_eq!(trip(&[20], 28), Some(Duration::from_millis(8)));
        assert_eq!(trip(&[40], 56), Some(Duration::from_millis(9)), "an eighth of 16 ms");
        assert_eq!(trip(&[100, 200], 208), Some(Duration::from_millis(9)), "to which request?");
        assert_eq!(trip(&[], 209), Some(Duration::from_millis(9)));
    }

    #[test]
    fn a_voter_that_says_that_it_does_not_vote_is_silent_until_then_or_until_it_replies() {
        let (mut journal, name) = (journal(), Name::of("x"));
        let absent = |journal: &Journal, now| -> Vec<Option<NotVoting>> {
            let contacts = journal.contacts(now, None, SILENT_AFTER);
            assert!(contacts.iter().all(|contact| contact.silent == contact.not_voting.is_some()));
            contacts.iter().map(|contact| contact.not_voting).collect()
        };
        journal.on_absence(at(0), NodeId(2), Absence::Silent(Span::from_millis(100)));
        journal.on_absence(at(0), NodeId(3), Absence::LostState);
        journal.on_absence(at(0), NodeId(9), Absence::LostState);
        let restarted = NotVoting::Restarted { remaining: Duration::from_millis(60) };
        assert_eq!(absent(&journal, at(40)), [None, Some(restarted), Some(NotVoting::LostState)]);
        assert_eq!(absent(&journal, at(100)), [None, None, Some(NotVoting::LostState)]);
        let reply = Body::Reply(Reply::Promised { request: Request(9) });
        journal.on_messages(at(101), NodeId(3), &[Message { header: header(), name, body: reply }]);
        assert_eq!(absent(&journal, at(101)), [None, None, None]);
    }

    #[test]
    fn a_refusal_is_news_when_its_reason_changes() {
        let mut journal = journal();
        let election = ElectionName::new("x").unwrap();
        let (request, remaining) = (Request(9), Span::from_millis(50));
        let mut news = |voter, reply| {
            let refused = EngineRefusal { election: election.clone(), voter: NodeId(voter), reply };
            journal.record_refusal(at(10), &refused).map(|refusal| refusal.to_string())
        };
        let held = |holder| {
            let grant = Grant {
                token: Token::after(1),
                holder: NodeId(holder),
                boot: Boot(1),
                attribute: 0,
                value: suffrage_lease::ValueVersion::NONE,
            };
            Reply::Held { request, grant, remaining }
        };
        let text = |holder| Some(format!("voter 2 has granted the lease to node {holder} for another 50ms"));
        assert_eq!(news(2, held(7)), text(7));
        assert_eq!((news(3, held(7)), news(2, held(7))), (None, None), "once");
        assert_eq!(news(2, held(8)), text(8));
        let rejected = Reply::Rejected { request, promised: 5 };
        assert_eq!([1, 2, 3].map(|voter| news(voter, rejected)), [None, None, None], "one campaign");
        assert!(news(1, rejected).is_some_and(|text| text.contains("promised token 5")));
        let long = news(3, Reply::TooLong { request, longest: Span::from_millis(2_000) }).unwrap();
        assert!(long.contains("voter 3 grants leases of at most 2s"), "{long}");
        let (name, all) = (election.hash(), Span::from_millis(1_000));
        assert!(journal.refusal(at(20), name, all).is_some());
        assert_eq!(journal.refusal(at(1_011), name, all), None, "it is too old");
        journal.forget_refusal(name);
        assert_eq!(journal.refusal(at(20), name, all), None);
    }

    #[test]
    fn a_leader_that_the_voter_knew_is_no_change() {
        let mut journal = journal();
        let election = ElectionName::new("x").unwrap();
        let token = Token::after(1);
        let grant = Grant {
            token,
            holder: NodeId(2),
            boot: Boot(1),
            attribute: 0,
            value: suffrage_lease::ValueVersion::NONE,
        };
        journal.record_grant(at(1), &GrantChange { election: election.clone(), grant: Some(grant) });
        assert!(journal.known.is_empty(), "a granted election costs no memory here");
        journal.note_grant(election.hash(), Leader::of(grant), at(1), true);
        let mut notes = Notes::new(election.clone(), Span::from_millis(100), at(5));
        let follows = Event::Follows { leader: NodeId(2), token };
        journal.record(&mut notes, at(10), follows, true);
        let changes = |journal: &Journal| {
            (journal.history.entries(at(90), None).len(), journal.counters.leaders_followed)
        };
        assert_eq!(changes(&journal), (1, 0));
        journal.record(&mut notes, at(20), Event::Nobody, true);
        journal.record(&mut notes, at(30), follows, true);
        assert_eq!(changes(&journal), (3, 1));
        let mut other = Notes::new(election, Span::from_millis(100), at(40));
        journal.record(
            &mut other,
            at(50),
            Event::Follows { leader: NodeId(3), token: Token::after(2) },
            true,
        );
        assert_eq!(changes(&journal), (4, 2));
    }

    #[test]
    fn a_failover_lasts_from_the_loss_of_one_leader_to_the_next() {
        let mut journal = journal();
        let election = ElectionName::new("x").unwrap();
        let mut notes = Notes::new(election.clone(), Span::from_millis(100), at(0));
        let follows = Event::Follows { leader: NodeId(2), token: Token::after(1) };
        journal.record(&mut notes, at(10), follows, true);
        journal.record(&mut notes, at(20), Event::Nobody, true);
        journal.record(&mut notes, at(25), Event::Nobody, true);
        let led = Event::Led { token: Token::after(2), valid_until: at(130) };
        journal.record(&mut notes, at(35), led, true);
        assert_eq!(journal.counters.failover_seconds.sum(), Duration::from_millis(15));
        journal.record(&mut notes, at(70), Event::Renewed { valid_until: at(168) }, true);
        assert_eq!(journal.counters.renewal_seconds.sum(), Duration::from_millis(2), "requested at 68");
        journal.record(&mut notes, at(80), Event::Lost, false);
        journal.record(&mut notes, at(90), follows, false);
        let counters = &journal.counters;
        assert_eq!(counters.failover_seconds.count(), 1, "the node was no candidate");
        let changes = (counters.leaderships_started, counters.leaderships_ended, counters.leaders_followed);
        assert_eq!(changes, (1, 1, 2));
        assert_eq!(journal.history.entries(at(90), Some(election.hash())).len(), 6);
    }
}
