//! An observer with real voters.

use super::*;
use crate::membership::{Configuration, DiskId};
use crate::{Boot, Name, Saved, Timings, Token, Voter, VoterEffects, VoterStart, message::Request as Number};
use suffrage_core::{Span, Term};

const ME: NodeId = NodeId(9);

/// The state of a voter that has promised nothing.
fn blank() -> Saved {
    let founding = Configuration::founding([(NodeId(1), String::new())], "1%".parse().unwrap()).unwrap();
    Saved::blank(DiskId(1), founding.into())
}

#[derive(Default)]
struct Record {
    asked: Vec<(NodeId, Ask)>,
    announced: Vec<Announcement>,
    replied: Vec<(NodeId, Reply)>,
}

impl Effects for Record {
    fn ask(&mut self, voter: NodeId, ask: Ask) {
        self.asked.push((voter, ask));
    }
    fn announce(&mut self, announcement: Announcement) {
        self.announced.push(announcement);
    }
}

impl VoterEffects for Record {
    fn save(&mut self, _: &Saved) {}
    fn reply(&mut self, to: NodeId, _: Name, reply: Reply) {
        self.replied.push((to, reply));
    }
}

fn time(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

fn name() -> Name {
    Name::of("an election")
}

fn elected(leader: u64, token: u64) -> Announcement {
    Announcement::Elected { leader: NodeId(leader), term: Term(token) }
}

/// Three voters and an observer, in a network that takes no time.
struct Cluster {
    voters: Vec<Voter>,
    observer: Observer,
    now: Time,
    announced: Vec<Announcement>,
    /// How many messages went from voters to the observer.
    received: usize,
    /// Voters that are partitioned.
    cut: Vec<usize>,
}

impl Cluster {
    fn new() -> Cluster {
        let (timings, mut record) = (Timings::of_tests(), Record::default());
        let voters = (1..=3)
            .map(|_| Voter::start(timings, &mut record, time(0), VoterStart::Blank(blank())))
            .collect();
        let ids = (1..=3).map(NodeId).collect();
        let observer = Observer::new(ids, timings, Request(77), &mut record, time(0));
        let mut cluster =
            Cluster { voters, observer, now: time(0), announced: Vec::new(), received: 0, cut: Vec::new() };
        cluster.carry(record);
        cluster
    }

    /// Delivers the observer's requests to the voters, and their replies to the observer.
    fn carry(&mut self, record: Record) {
        self.announced.extend(record.announced);
        for (voter, ask) in record.asked {
            self.ask(voter.0 as usize - 1, ME, ask);
        }
    }

    fn ask(&mut self, index: usize, from: NodeId, ask: Ask) {
        if !self.cut.contains(&index) {
            let mut record = Record::default();
            self.voters[index].on_ask(&mut record, self.now, (from, Boot(1)), name(), ask);
            self.hear(index, record);
        }
    }

    fn hear(&mut self, index: usize, record: Record) {
        for (_, reply) in record.replied.into_iter().filter(|&(to, _)| to == ME) {
            self.received += 1;
            let mut record = Record::default();
            self.observer.on_reply(&mut record, self.now, NodeId(index as u64 + 1), reply);
            assert!(record.asked.is_empty(), "it is told and does not ask");
            self.announced.extend(record.announced);
        }
    }

    /// A candidate is promised a token and granted a lease by these voters.
    fn elect(&mut self, holder: u64, number: u64, voters: std::ops::Range<usize>) {
        let (from, token, request) = (NodeId(holder), Token::after(number - 1), Number(number));
        let ttl = Span::from_millis(30);
        for index in voters {
            self.ask(index, from, Ask::Prepare { request, token, attribute: 0 });
            let renewal = false;
            self.ask(
                index,
                from,
                Ask::Propose { request, token, ttl, attribute: 0, renewal, value: crate::ValueVersion::NONE },
            );
        }
    }

    /// Advances time, and runs what is due.
    fn wait(&mut self, until: u64) {
        while self.now < time(until) {
            self.now = self.now + Span::from_millis(1);
            for index in 0..3 {
                let mut record = Record::default();
                if !self.cut.contains(&index) {
                    self.voters[index].on_due(&mut record, self.now);
                }
                self.hear(index, record);
            }
            let mut record = Record::default();
            self.observer.on_due(&mut record, self.now);
            self.carry(record);
        }
    }
}

/// "A majority read answers who leads as of now; a subscription tells of changes."
#[test]
fn an_observer_is_notified_of_grants_releases_and_expiry_at_a_majority() {
    let mut cluster = Cluster::new();
    assert_eq!(cluster.announced, []);
    cluster.elect(5, 1, 0..1);
    assert_eq!(cluster.announced, [], "one of three is no majority");
    cluster.elect(5, 1, 1..3);
    assert_eq!(cluster.announced, [elected(5, 1)]);
    for index in 0..3 {
        cluster.ask(index, NodeId(5), Ask::Release { token: Token::after(0), to: None });
    }
    assert_eq!(cluster.announced[1..], [Announcement::Undecided]);
    cluster.elect(6, 2, 0..3);
    assert_eq!(cluster.announced[2..], [elected(6, 2)]);
    cluster.wait(31);
    assert_eq!(cluster.announced[3..], [Announcement::Undecided], "nobody renewed it");
    assert_eq!(cluster.observer.leader(), None);
}

/// A new observer learns the leader from the replies alone.
#[test]
fn a_new_observer_reads_the_leader_from_a_majority() {
    let mut cluster = Cluster::new();
    cluster.elect(5, 1, 1..3);
    let mut record = Record::default();
    let ids = (1..=3).map(NodeId).collect();
    cluster.observer = Observer::new(ids, cluster.observer.timings, Request(5), &mut record, cluster.now);
    cluster.announced.clear();
    cluster.carry(record);
    assert_eq!(cluster.announced, [elected(5, 1)]);
}

/// A renewal does not change the holder: observers are not notified.
#[test]
fn renewals_cost_an_observer_nothing() {
    let mut cluster = Cluster::new();
    cluster.elect(5, 1, 0..3);
    let received = cluster.received;
    for index in 0..3 {
        let (request, token) = (Number(8), Token::after(0));
        let ttl = Span::from_millis(30);
        cluster.ask(
            index,
            NodeId(5),
            Ask::Propose {
                request,
                token,
                ttl,
                attribute: 0,
                renewal: true,
                value: crate::ValueVersion::NONE,
            },
        );
    }
    assert_eq!(cluster.received, received);
}

/// The observer subscribes again before the voters drop it, so that it is notified of a change after any time.
#[test]
fn a_subscription_lasts_while_the_observer_runs_and_no_longer() {
    let mut cluster = Cluster::new();
    cluster.wait(1_000);
    cluster.elect(5, 1, 0..3);
    assert_eq!(cluster.announced, [elected(5, 1)]);
    // The observer stops without a message.
    cluster.observer.next = time(1_000_000);
    cluster.wait(1_300);
    let received = cluster.received;
    cluster.elect(6, 2, 0..3);
    assert_eq!(cluster.received, received, "nobody is told any more");
    cluster.wait(1_400);
    assert!(cluster.voters.iter().all(Voter::is_empty), "and nothing is kept");
}

/// The last reply of a voter that has been silent for long does not count any more.
#[test]
fn replies_of_silent_voters_expire() {
    let mut cluster = Cluster::new();
    cluster.elect(5, 1, 0..3);
    cluster.cut = vec![0, 1];
    cluster.wait(200);
    assert_eq!(cluster.announced, [elected(5, 1), Announcement::Undecided]);
}

/// Notices may overtake each other and the reply to a request. A restarted voter counts its changes from 0 again.
#[test]
fn notices_and_replies_that_were_overtaken_are_ignored() {
    let mut cluster = Cluster::new();
    let grant = |holder: u64, number: u64| {
        Some(Grant {
            token: Token::after(number - 1),
            holder: NodeId(holder),
            boot: Boot(1),
            attribute: 0,
            value: crate::ValueVersion::NONE,
        })
    };
    let request = cluster.observer.request;
    let hear = |cluster: &mut Cluster, reply| {
        let mut record = Record::default();
        for voter in 1..=3 {
            cluster.observer.on_reply(&mut record, time(1), NodeId(voter), reply);
        }
        record.announced
    };
    assert_eq!(hear(&mut cluster, Reply::Changed { number: 2, grant: grant(6, 2) }), [elected(6, 2)]);
    assert_eq!(hear(&mut cluster, Reply::Changed { number: 1, grant: grant(5, 1) }), []);
    assert_eq!(hear(&mut cluster, Reply::Watched { request, number: 0, grant: None }), []);
    assert_eq!(hear(&mut cluster, Reply::Watched { request: Request(1), number: 9, grant: None }), []);
    let mut record = Record::default();
    cluster.observer.watch(&mut record, time(2));
    let request = cluster.observer.request;
    let restarted = Reply::Watched { request, number: 0, grant: None };
    assert_eq!(
        hear(&mut cluster, restarted),
        [Announcement::Undecided],
        "asked after that, it knows of nothing"
    );
    let mut record = Record::default();
    cluster.observer.on_reply(
        &mut record,
        time(3),
        NodeId(7),
        Reply::Changed { number: 5, grant: grant(5, 3) },
    );
    assert_eq!(record.announced, [], "a stranger is no voter");
}
