//! An observer among real voters: told who leads as of now, and of every change.

use super::*;
use crate::{Name, Options, Saved, Token, Voter, VoterEffects, message::Request as Number};
use suffrage_core::{Span, Start, Term};

const ME: NodeId = NodeId(9);

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
    fn save(&mut self, _: Saved) {}
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
struct Booth {
    voters: Vec<Voter>,
    observer: Observer,
    now: Time,
    announced: Vec<Announcement>,
    /// How many messages went from voters to the observer.
    heard: usize,
    /// Voters that nothing reaches.
    cut: Vec<usize>,
}

impl Booth {
    fn new() -> Booth {
        let (timings, mut record) = (Options::default().timings(Span::UNIT), Record::default());
        let voters = (1..=3).map(|_| Voter::start(timings, &mut record, time(0), Start::Fresh)).collect();
        let ids = (1..=3).map(NodeId).collect();
        let observer = Observer::new(ids, timings, Request(77), &mut record, time(0));
        let mut booth =
            Booth { voters, observer, now: time(0), announced: Vec::new(), heard: 0, cut: Vec::new() };
        booth.carry(record);
        booth
    }

    /// Carries what the observer asks to the voters, and what they answer back.
    fn carry(&mut self, record: Record) {
        self.announced.extend(record.announced);
        for (voter, ask) in record.asked {
            self.ask(voter.0 as usize - 1, ME, ask);
        }
    }

    fn ask(&mut self, place: usize, from: NodeId, ask: Ask) {
        if !self.cut.contains(&place) {
            let mut record = Record::default();
            self.voters[place].on_ask(&mut record, self.now, from, name(), ask);
            self.hear(place, record);
        }
    }

    fn hear(&mut self, place: usize, record: Record) {
        for (_, reply) in record.replied.into_iter().filter(|&(to, _)| to == ME) {
            self.heard += 1;
            let mut record = Record::default();
            self.observer.on_reply(&mut record, self.now, NodeId(place as u64 + 1), reply);
            assert!(record.asked.is_empty(), "it is told and does not ask");
            self.announced.extend(record.announced);
        }
    }

    /// A candidate is promised a token and granted a lease by these voters.
    fn elect(&mut self, holder: u64, number: u64, places: std::ops::Range<usize>) {
        let (from, token, request) = (NodeId(holder), Token::after(number - 1), Number(number));
        let ttl = Span::from_millis(30);
        for place in places {
            self.ask(place, from, Ask::Prepare { request, token, attribute: 0 });
            let renewal = false;
            self.ask(place, from, Ask::Propose { request, token, ttl, attribute: 0, renewal });
        }
    }

    /// Lets time pass, and has everybody do what is due.
    fn wait(&mut self, until: u64) {
        while self.now < time(until) {
            self.now = self.now + Span::from_millis(1);
            for place in 0..3 {
                let mut record = Record::default();
                if !self.cut.contains(&place) {
                    self.voters[place].on_due(&mut record, self.now);
                }
                self.hear(place, record);
            }
            let mut record = Record::default();
            self.observer.on_due(&mut record, self.now);
            self.carry(record);
        }
    }
}

/// "A majority read answers who leads as of now; a subscription tells of changes."
#[test]
fn it_is_told_when_a_majority_has_granted_released_and_let_expire() {
    let mut booth = Booth::new();
    assert_eq!(booth.announced, []);
    booth.elect(5, 1, 0..1);
    assert_eq!(booth.announced, [], "one of three is no majority");
    booth.elect(5, 1, 1..3);
    assert_eq!(booth.announced, [elected(5, 1)]);
    for place in 0..3 {
        booth.ask(place, NodeId(5), Ask::Release { token: Token::after(0), to: None });
    }
    assert_eq!(booth.announced[1..], [Announcement::Undecided]);
    booth.elect(6, 2, 0..3);
    assert_eq!(booth.announced[2..], [elected(6, 2)]);
    booth.wait(31);
    assert_eq!(booth.announced[3..], [Announcement::Undecided], "nobody renewed it");
    assert_eq!(booth.observer.leader(), None);
}

/// One that comes later is told what is, by the answers alone.
#[test]
fn one_that_comes_later_reads_from_a_majority_who_leads() {
    let mut booth = Booth::new();
    booth.elect(5, 1, 1..3);
    let mut record = Record::default();
    let ids = (1..=3).map(NodeId).collect();
    booth.observer = Observer::new(ids, booth.observer.timings, Request(5), &mut record, booth.now);
    booth.announced.clear();
    booth.carry(record);
    assert_eq!(booth.announced, [elected(5, 1)]);
}

/// Renewals are no news: nobody is told of them.
#[test]
fn renewals_cost_an_observer_nothing() {
    let mut booth = Booth::new();
    booth.elect(5, 1, 0..3);
    let heard = booth.heard;
    for place in 0..3 {
        let (request, token) = (Number(8), Token::after(0));
        let ttl = Span::from_millis(30);
        booth.ask(place, NodeId(5), Ask::Propose { request, token, ttl, attribute: 0, renewal: true });
    }
    assert_eq!(booth.heard, heard);
}

/// It asks anew before the voters forget it, and so a change is told after any time.
#[test]
fn a_subscription_lasts_as_long_as_it_is_wanted_and_no_longer() {
    let mut booth = Booth::new();
    booth.wait(1_000);
    booth.elect(5, 1, 0..3);
    assert_eq!(booth.announced, [elected(5, 1)]);
    // The observer goes away without a word.
    booth.observer.next = time(1_000_000);
    booth.wait(1_300);
    let heard = booth.heard;
    booth.elect(6, 2, 0..3);
    assert_eq!(booth.heard, heard, "nobody is told any more");
    booth.wait(1_400);
    assert!(booth.voters.iter().all(Voter::is_empty), "and nothing is kept");
}

/// What a voter said that has been silent for long is not believed any more.
#[test]
fn silent_voters_are_no_witnesses() {
    let mut booth = Booth::new();
    booth.elect(5, 1, 0..3);
    booth.cut = vec![0, 1];
    booth.wait(200);
    assert_eq!(booth.announced, [elected(5, 1), Announcement::Undecided]);
}

/// Notices may overtake each other, and the answer to a question; a voter that restarts counts anew.
#[test]
fn what_was_overtaken_is_not_believed() {
    let mut booth = Booth::new();
    let grant = |holder: u64, number: u64| {
        Some(Grant { token: Token::after(number - 1), holder: NodeId(holder), attribute: 0 })
    };
    let request = booth.observer.request;
    let hear = |booth: &mut Booth, reply| {
        let mut record = Record::default();
        for voter in 1..=3 {
            booth.observer.on_reply(&mut record, time(1), NodeId(voter), reply);
        }
        record.announced
    };
    assert_eq!(hear(&mut booth, Reply::Changed { number: 2, grant: grant(6, 2) }), [elected(6, 2)]);
    assert_eq!(hear(&mut booth, Reply::Changed { number: 1, grant: grant(5, 1) }), []);
    assert_eq!(hear(&mut booth, Reply::Watched { request, number: 0, grant: None }), []);
    assert_eq!(hear(&mut booth, Reply::Watched { request: Request(1), number: 9, grant: None }), []);
    let mut record = Record::default();
    booth.observer.watch(&mut record, time(2));
    let request = booth.observer.request;
    let restarted = Reply::Watched { request, number: 0, grant: None };
    assert_eq!(
        hear(&mut booth, restarted),
        [Announcement::Undecided],
        "asked after that, it knows of nothing"
    );
    let mut record = Record::default();
    booth.observer.on_reply(
        &mut record,
        time(3),
        NodeId(7),
        Reply::Changed { number: 5, grant: grant(5, 3) },
    );
    assert_eq!(record.announced, [], "a stranger is no voter");
}
