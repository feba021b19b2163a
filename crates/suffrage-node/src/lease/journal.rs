//! What a node has counted and remembered of its elections: derived from what its engine announces, and no part of
//! the engine's state.

use suffrage_core::{NodeId, Span, Time};
use suffrage_lease::{Body, Message, Name};

use super::output::Event;
use super::status::{ElectionCounters, History, Record};

/// What a node has counted and remembered.
#[derive(Debug)]
pub(super) struct Journal {
    me: NodeId,
    voters: Vec<NodeId>,
    /// When each voter last answered.
    heard: Vec<Option<Time>>,
    pub(super) history: History,
    pub(super) counters: ElectionCounters,
}

/// What is remembered of one election that the node takes part in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notes {
    pub(super) name: Name,
    /// How long a lease is valid by its holder's clock, from the question on.
    pub(super) validity: Span,
    /// Since when what the node knows of the leader has been so.
    pub(super) since: Time,
    /// Since when it has known of no leader, having known one and stood all the while.
    pub(super) leaderless_since: Option<Time>,
}

impl Notes {
    pub(super) fn new(name: Name, validity: Span, now: Time) -> Notes {
        Notes { name, validity, since: now, leaderless_since: None }
    }
}

impl Journal {
    pub(super) fn new(me: NodeId, voters: &[NodeId], history: usize) -> Journal {
        Journal {
            me,
            voters: voters.to_vec(),
            heard: vec![None; voters.len()],
            history: History::new(history),
            counters: ElectionCounters::default(),
        }
    }

    /// Messages have come from a peer. A voter that asks is there, but may be silent, or have lost its vote: only
    /// answers tell that it votes.
    pub(super) fn hear(&mut self, now: Time, from: NodeId, messages: &[Message]) {
        self.counters.messages += messages.len() as u64;
        if messages.iter().any(|message| matches!(message.body, Body::Reply(_)))
            && let Some(place) = self.voters.iter().position(|&voter| voter == from)
        {
            self.heard[place] = Some(now);
        }
    }

    /// How long ago each voter was heard, if ever. The node hears itself if it votes at present.
    pub(super) fn heard(&self, now: Time, own_votes: bool) -> Vec<(NodeId, Option<Span>)> {
        let heard = |(&voter, heard): (&NodeId, &Option<Time>)| match voter == self.me {
            true => (voter, own_votes.then_some(Span::ZERO)),
            false => (voter, heard.map(|heard| now.since(heard))),
        };
        self.voters.iter().zip(&self.heard).map(heard).collect()
    }

    /// Takes note of what has become of an election in which the node stands, or does not.
    pub(super) fn record(&mut self, notes: &mut Notes, at: Time, event: Event, stands: bool) {
        // How long a majority took to answer: the lease counts from the question.
        let took = |valid_until: Time| (at + notes.validity).since(valid_until);
        let leader = match event {
            Event::Led { token, .. } => {
                self.counters.led += 1;
                Some((self.me, token))
            }
            Event::Renewed { valid_until } => {
                self.counters.renewed += 1;
                return self.counters.renewals.add(took(valid_until));
            }
            Event::Follows { leader, token } => {
                self.counters.followed += 1;
                Some((leader, token))
            }
            Event::Lost => {
                self.counters.lost += 1;
                None
            }
            Event::Nobody => None,
        };
        notes.since = at;
        if leader.is_none() {
            // Where nobody asks to lead, nobody has to.
            if stands {
                notes.leaderless_since.get_or_insert(at);
            }
        } else if let Some(lost) = notes.leaderless_since.take() {
            self.counters.failovers.add(at.since(lost));
        }
        self.history.add(Record { name: notes.name, at, leader });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_lease::{Ask, Reply, Request, Token};

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    fn journal() -> Journal {
        Journal::new(NodeId(1), &[1, 2, 3].map(NodeId), 10)
    }

    /// One that is silent after a restart asks, too.
    #[test]
    fn a_voter_is_heard_by_its_answers_and_not_by_its_questions() {
        let (mut journal, name) = (journal(), Name::of("x"));
        let ask = Message { name, body: Body::Ask(Ask::Watch { request: Request(9) }) };
        let claim = Message { name, body: Body::Claim { attribute: 0 } };
        journal.hear(at(0), NodeId(2), &[ask, claim]);
        assert_eq!(journal.heard(at(1), true)[1..], [(NodeId(2), None), (NodeId(3), None)]);
        let reply = Message { name, body: Body::Reply(Reply::Promised { request: Request(9) }) };
        journal.hear(at(1), NodeId(2), &[reply, ask]);
        let two = Some(Span::from_millis(2));
        assert_eq!(
            journal.heard(at(3), true),
            [(NodeId(1), Some(Span::ZERO)), (NodeId(2), two), (NodeId(3), None)]
        );
        assert_eq!(journal.heard(at(3), false)[0], (NodeId(1), None));
        assert_eq!(journal.counters.messages, 4);
    }

    #[test]
    fn a_failover_lasts_from_the_loss_of_one_leader_to_the_next() {
        let mut journal = journal();
        let mut notes = Notes::new(Name::of("x"), Span::from_millis(100), at(0));
        let follows = Event::Follows { leader: NodeId(2), token: Token::after(1) };
        journal.record(&mut notes, at(10), follows, true);
        journal.record(&mut notes, at(20), Event::Nobody, true);
        journal.record(&mut notes, at(25), Event::Nobody, true);
        let led = Event::Led { token: Token::after(2), valid_until: at(130) };
        journal.record(&mut notes, at(35), led, true);
        assert_eq!(journal.counters.failovers.sum(), Span::from_millis(15));
        journal.record(&mut notes, at(70), Event::Renewed { valid_until: at(168) }, true);
        assert_eq!(journal.counters.renewals.sum(), Span::from_millis(2), "asked at 68");
        journal.record(&mut notes, at(80), Event::Lost, false);
        journal.record(&mut notes, at(90), follows, false);
        assert_eq!(journal.counters.failovers.count(), 1, "it did not stand");
        assert_eq!((journal.counters.led, journal.counters.lost, journal.counters.followed), (1, 1, 2));
        assert_eq!(journal.history.of(Name::of("x")).count(), 6);
    }
}
