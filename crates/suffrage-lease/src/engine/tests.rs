//! The engine alone: its loopback, its timer, and when it campaigns.

mod hand_over;
mod membership;
mod storm;
mod values;
mod visibility;

use suffrage_core::{Announcement, Effects, Rng, Roster, SaveQueue};

use super::*;
use crate::membership::{ClusterId, DiskId, Stamp};
use crate::message::{Boot, Grant, Header, Request, Token};
use crate::voter::VOTER_MEMORY;

const ME: NodeId = NodeId(1);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn election(name: &str) -> ElectionName {
    ElectionName::new(name).unwrap()
}

/// A message of another node, whose stamp [`Harness::receive`] sets to that of the engine.
fn about(name: Name, body: Body) -> Message {
    let stamp = Stamp { cluster: ClusterId::default(), version: 0, digest: 0 };
    Message { header: Header { boot: Boot(5), stamp }, name, body }
}

/// An announcement of an engine about one election.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum News {
    Said(Announcement),
    LeadsUntil(Time),
}

/// Records the effects of an engine.
struct Record {
    now: Time,
    rng: Rng,
    sent: Vec<(NodeId, Message)>,
    news: Vec<(usize, News)>,
    saved: Option<Saved>,
    /// Whether the disk is slow.
    slow_disk: bool,
    /// The saves of a slow disk.
    saves: SaveQueue<Saved>,
    due: Option<Time>,
}

impl Record {
    fn new(now: Time, rng: Rng) -> Record {
        Record {
            now,
            rng,
            sent: Vec::new(),
            news: Vec::new(),
            saved: None,
            slow_disk: false,
            saves: SaveQueue::default(),
            due: None,
        }
    }
}

impl Effects<Engine> for Record {
    fn rng(&mut self) -> &mut Rng {
        &mut self.rng
    }
    fn send(&mut self, to: NodeId, message: Message) {
        self.sent.push((to, message));
    }
    fn multicast(&mut self, _: Message) {
        unreachable!("an engine sends to each voter by itself");
    }
    fn set_timer(&mut self, _: Timer, after: Span) {
        self.due = Some(self.now + after);
    }
    fn cancel_timer(&mut self, _: Timer) {
        self.due = None;
    }
    fn save(&mut self, saved: Saved) {
        self.saved = Some(saved);
    }
    fn begin_save(&mut self, saved: Saved) -> bool {
        let slow = self.slow_disk || self.saves.writing().is_some();
        if slow {
            self.saves.begin(saved);
        } else {
            self.saved = Some(saved);
        }
        !slow
    }
    fn announce(&mut self, _: Announcement) {
        unreachable!("every election has an index");
    }
    fn lead_until(&mut self, _: Time) {
        unreachable!("every election has an index");
    }
    fn announce_in(&mut self, index: usize, announcement: Announcement) {
        self.news.push((index, News::Said(announcement)));
    }
    fn lead_until_in(&mut self, index: usize, end: Time) {
        self.news.push((index, News::LeadsUntil(end)));
    }
    fn suspect(&mut self, _: NodeId) {}
    fn restore(&mut self, _: NodeId) {}
}

/// An engine. The test plays all other nodes.
struct Harness {
    engine: Engine,
    record: Record,
}

impl Harness {
    fn new(voters: u64) -> Harness {
        Harness::of(ME, EngineConfig::new((1..=voters).map(NodeId)), Start::Fresh)
    }

    fn of(me: NodeId, config: EngineConfig, start: Start<Saved>) -> Harness {
        let record = Record::new(at(0), Rng::new(7 + me.0));
        let mut harness = Harness { engine: Engine::new(me, config).unwrap(), record };
        harness.input(at(0), |engine, cx| engine.on_start(cx, start));
        harness
    }

    fn input(&mut self, now: Time, input: impl FnOnce(&mut Engine, &mut Context<'_, Engine>)) {
        let roster = Roster::listed(vec![self.engine.me()]).unwrap();
        let delay = self.engine.config().delay;
        self.record.now = now;
        input(&mut self.engine, &mut Context::new(now, roster.view(0), delay, &mut self.record));
    }

    /// A slow disk ends the save that is under way. False if there is none.
    fn end_save(&mut self, now: Time) -> bool {
        let Some(saved) = self.record.saves.end() else { return false };
        self.record.saved = Some(saved.clone());
        self.input(now, |engine, cx| engine.on_saved(cx, saved));
        true
    }

    /// A slow disk ends all saves.
    fn end_saves(&mut self, now: Time) {
        while self.end_save(now) {}
    }

    fn command(&mut self, now: Time, name: &str, action: Action) {
        let command = action.in_election(election(name));
        self.input(now, |engine, cx| engine.on_command(cx, command));
    }

    fn index(&self, name: &str) -> Option<ElectionIndex> {
        self.engine.index_of(Name::of(name))
    }

    fn join(&mut self, now: Time, name: &str) -> ElectionIndex {
        self.command(now, name, Action::Join(None));
        self.index(name).expect("it has joined")
    }

    fn stand(&mut self, now: Time, name: &str) -> ElectionIndex {
        let index = self.join(now, name);
        self.command(now, name, Action::Stand { once: false });
        index
    }

    fn receive(&mut self, now: Time, from: NodeId, messages: impl IntoIterator<Item = Message>) {
        let stamp = self.engine.configuration().stamp();
        for message in messages {
            let message = Message { header: Header { stamp, ..message.header }, ..message };
            self.input(now, |engine, cx| engine.on_message(cx, from, message));
        }
    }

    /// Fires the timer if it is due. True if it was.
    fn fire_timer(&mut self, now: Time) -> bool {
        let due = self.record.due.take_if(|due| *due <= now).is_some();
        if due {
            self.input(now, |engine, cx| engine.on_timer(cx, Timer));
        }
        due
    }

    fn sent(&mut self) -> Vec<(NodeId, Message)> {
        std::mem::take(&mut self.record.sent)
    }

    fn bodies(&mut self) -> Vec<Body> {
        self.sent().into_iter().map(|(_, message)| message.body).collect()
    }

    fn news(&mut self) -> Vec<(usize, News)> {
        std::mem::take(&mut self.record.news)
    }

    /// The announcements, without the ends of leases.
    fn said(&mut self) -> Vec<(usize, Announcement)> {
        let said = |(index, news)| match news {
            News::Said(announcement) => Some((index, announcement)),
            News::LeadsUntil(_) => None,
        };
        self.news().into_iter().filter_map(said).collect()
    }

    /// The other voters agree to every request at once, until no more messages are sent.
    fn all_agree(&mut self, now: Time) {
        loop {
            let sent = self.sent();
            if sent.is_empty() {
                return;
            }
            for (to, message) in sent {
                let reply = match message.body {
                    Body::Ask(Ask::Prepare { request, .. }) => Reply::Promised { request },
                    Body::Ask(Ask::Propose { request, renewal, .. }) => {
                        Reply::Accepted { request, renewal, contended: false }
                    }
                    _ => continue,
                };
                self.receive(now, to, [about(message.name, Body::Reply(reply))]);
            }
        }
    }

    /// Makes the node lead this election.
    fn leads(&mut self, now: Time, name: &str) -> ElectionIndex {
        let index = self.stand(now, name);
        self.all_agree(now);
        assert!(self.engine.lease(now, index).is_some());
        self.news();
        index
    }
}

fn elected(index: ElectionIndex, leader: NodeId, term: u64) -> (usize, Announcement) {
    (index.index(), Announcement::Elected { leader, term: suffrage_core::Term(term) })
}

fn stepped_down(index: ElectionIndex) -> (usize, Announcement) {
    (index.index(), Announcement::SteppedDown)
}

/// Messages of a candidate to the voter of its own node are not sent.
#[test]
fn the_only_voter_elects_itself_without_a_message() {
    let mut harness = Harness::new(1);
    assert!(harness.record.saved.take().is_some(), "that it exists");
    let index = harness.stand(at(0), "x");
    assert!(harness.record.saved.as_ref().is_some_and(|saved| saved.ceiling >= 1));
    let news = harness.news();
    let &[(_, News::LeadsUntil(end)), (_, News::Said(said))] = &news[..] else { panic!("{news:?}") };
    assert_eq!((index.index(), said), elected(index, ME, 1));
    assert!(end > at(2_900) && end < at(3_000));
    assert_eq!(harness.engine.lease(at(1), index).map(|lease| lease.valid_until), Some(end));
    assert_eq!(harness.engine.lease(end, index), None, "by its clock it is over");
    assert!(harness.sent().is_empty());
    harness.command(at(1), "x", Action::Withdraw);
    assert_eq!(harness.said(), [stepped_down(index)]);
    assert!(harness.sent().is_empty());
}

#[test]
fn a_name_is_joined_once_and_free_again_after_leaving() {
    let mut harness = Harness::new(1);
    let index = harness.stand(at(0), "x");
    assert_eq!(harness.engine.check_join(&election("x"), None), Err(JoinError::AlreadyJoined));
    let long = CandidateConfig { ttl: Span::from_millis(70_000), ..CandidateConfig::default() };
    assert!(matches!(harness.engine.check_join(&election("y"), Some(&long)), Err(JoinError::Invalid(_))));
    harness.command(at(0), "y", Action::Join(Some(long)));
    assert_eq!(harness.index("y"), None, "a join that cannot work changes nothing");
    harness.news();
    harness.command(at(1), "x", Action::Leave);
    assert_eq!(harness.said(), [stepped_down(index)], "it handed over first");
    assert!(harness.engine.is_empty());
    let again = harness.stand(at(2), "x");
    assert_eq!(harness.said(), [elected(again, ME, 2)]);
    assert_eq!(again, index, "the index is used again");
}

/// A thousand leases that began at different moments are renewed at few moments, and none too late.
#[test]
fn renewals_come_together_and_early_enough() {
    let mut harness = Harness::new(3);
    for number in 0..1_000 {
        while let Some(due) = harness.record.due.filter(|due| *due <= at(number)) {
            harness.fire_timer(due);
            harness.sent();
        }
        harness.stand(at(number), &number.to_string());
        harness.all_agree(at(number));
    }
    let led = harness.said().iter().filter(|(_, said)| said.leader() == Some(ME)).count();
    assert_eq!(led, 1_000);
    let (from, until) = (at(2_000), at(3_000));
    let (mut moments, mut renewed) = (0, 0);
    while let Some(due) = harness.record.due.filter(|due| *due <= until) {
        harness.fire_timer(due);
        let sent = harness.sent();
        if due >= from {
            moments += 1;
            renewed += sent.len();
        }
        for (to, message) in sent {
            let Body::Ask(Ask::Propose { request, renewal: true, .. }) = message.body else {
                panic!("{message:?}")
            };
            let reply = Reply::Accepted { request, renewal: true, contended: false };
            harness.receive(due, to, [about(message.name, Body::Reply(reply))]);
        }
        for (_, news) in harness.news() {
            let News::LeadsUntil(end) = news else { panic!("{news:?}") };
            assert!(end > due + Span::from_millis(2_900));
        }
    }
    // In the 983 to 1,000 ms between two renewals, 1,000 names make 2,000 messages to two peers.
    assert!((1_900..2_200).contains(&renewed), "{renewed}");
    assert!(moments < 100, "{moments} moments for {renewed} messages");
}

fn waiting(name: &str) -> Message {
    let body = Body::Ask(Ask::Enquire { request: Request(9), standing: Some(0) });
    about(Name::of(name), body)
}

#[test]
fn a_node_that_hands_over_and_stands_again_yields_to_others() {
    let mut harness = Harness::new(3);
    let index = harness.leads(at(0), "x");
    harness.receive(at(9), NodeId(8), [waiting("x")]);
    harness.sent();
    harness.command(at(10), "x", Action::Withdraw);
    harness.command(at(10), "x", Action::Stand { once: false });
    assert_eq!(harness.said(), [stepped_down(index)]);
    let handed_over =
        |body: &Body| matches!(body, Body::Ask(Ask::Release { .. }) | Body::Reply(Reply::Vacant { .. }));
    assert!(harness.bodies().iter().all(handed_over));
    assert!(harness.fire_timer(at(10)));
    let queued = harness.bodies();
    let queues = |body: &Body| matches!(body, Body::Ask(Ask::Enquire { standing: Some(_), .. }));
    assert!(!queued.is_empty() && queued.iter().all(queues), "{queued:?}");
    let due = harness.record.due.unwrap();
    assert!(due >= at(10) + MIN_YIELD);
    harness.fire_timer(due);
    let prepares = |body: &Body| matches!(body, Body::Ask(Ask::Prepare { .. }));
    assert!(harness.bodies().iter().all(prepares));
}

/// The node's own voter would have queued any waiting candidate.
#[test]
fn a_node_without_waiting_rivals_stands_again_at_once() {
    let mut harness = Harness::new(3);
    let index = harness.leads(at(0), "x");
    harness.command(at(10), "x", Action::Withdraw);
    harness.command(at(10), "x", Action::Stand { once: false });
    harness.all_agree(at(10));
    assert_eq!(harness.said(), [stepped_down(index), elected(index, ME, 2)]);
}

#[test]
fn a_node_that_resigned_yields_for_a_lease_even_if_told_to_campaign() {
    let mut harness = Harness::new(3);
    let index = harness.leads(at(0), "x");
    harness.command(at(6), "x", Action::Resign);
    assert_eq!(harness.said(), [stepped_down(index)]);
    assert_eq!(harness.engine.election(index).unwrap().yield_until(), at(3_006));
    harness.sent();
    harness.command(at(7), "x", Action::Campaign);
    while let Some(due) = harness.record.due.filter(|due| *due < at(3_006)) {
        harness.fire_timer(due);
        let prepares = |body: &Body| matches!(body, Body::Ask(Ask::Prepare { .. }));
        assert!(!harness.bodies().iter().any(prepares), "at {due}");
    }
    harness.fire_timer(at(3_006));
    harness.all_agree(at(3_006));
    assert_eq!(harness.said(), [elected(index, ME, 2)]);
}

#[test]
fn a_node_that_stands_once_does_not_stand_again() {
    let mut harness = Harness::new(1);
    let index = harness.join(at(0), "x");
    harness.command(at(0), "x", Action::Stand { once: true });
    harness.command(at(0), "x", Action::Stand { once: true });
    assert_eq!(harness.said(), [elected(index, ME, 1)]);
    harness.command(at(1), "x", Action::Resign);
    assert!(!harness.engine.election(index).unwrap().stands());
    assert_eq!(harness.said(), [stepped_down(index)]);
    // A node that stands permanently still stands after it has led.
    harness.command(at(2), "x", Action::Stand { once: false });
    harness.command(at(2), "x", Action::Stand { once: true });
    harness.command(at(2), "x", Action::Campaign);
    while harness.engine.lease(harness.record.now, index).is_none() {
        let due = harness.record.due.unwrap();
        harness.fire_timer(due);
    }
    harness.command(harness.record.now, "x", Action::Resign);
    assert!(harness.engine.election(index).unwrap().stands());
}

#[test]
fn a_pinned_lease_is_kept_from_claims_until_it_is_released() {
    let mut harness = Harness::new(3);
    let index = harness.leads(at(0), "x");
    let claim = about(Name::of("x"), Body::Claim { attribute: 9 });
    harness.command(at(1), "x", Action::Pin(true));
    harness.receive(at(2), NodeId(2), [claim.clone()]);
    assert!(harness.engine.lease(at(2), index).is_some() && harness.said().is_empty());
    harness.command(at(3), "x", Action::Pin(false));
    harness.receive(at(4), NodeId(2), [claim]);
    assert_eq!(harness.said(), [stepped_down(index)]);
    // A node without a lease cannot pin, and a later lease is not pinned.
    harness.command(at(5), "x", Action::Pin(true));
    assert!(!harness.engine.election(index).unwrap().is_pinned());
    harness.command(at(6), "x", Action::Withdraw);
    harness.leads(at(4_000), "y");
    harness.command(at(4_000), "y", Action::Pin(true));
    harness.command(at(4_001), "y", Action::Resign);
    assert!(!harness.engine.election(harness.index("y").unwrap()).unwrap().is_pinned());
}

/// The memory of each of many held elections, at the voter and at the candidate's node.
#[test]
fn an_election_takes_little_memory() {
    const { assert!(VOTER_MEMORY < 210, "at a voter") };
    const { assert!(ELECTION_MEMORY < 635, "at the candidate's node, with a short name") };
}

#[test]
fn a_voter_replies_for_elections_that_its_node_has_not_joined_and_ignores_forged_senders() {
    let mut harness = Harness::new(3);
    let ask = |name: &str| {
        let body = Body::Ask(Ask::Enquire { request: Request(9), standing: None });
        about(Name::of(name), body)
    };
    harness.receive(at(0), NodeId(8), [ask("x"), ask("y")]);
    assert!(harness.sent().iter().map(|(to, _)| *to).eq([NodeId(8); 2]));
    harness.receive(at(0), ME, [ask("x")]);
    assert!(harness.sent().is_empty(), "a sender that claims to be this node is not");
}

/// Nodes 1 and 2 stand in an election that node 3 led until it died with its voter. A timer fires when the test runs
/// the node.
struct Leaderless {
    name: String,
    nodes: [Harness; 2],
    /// The message delay, in milliseconds.
    latency: u64,
    /// The messages in flight: arrival time in milliseconds, receiver, sender, message.
    in_flight: Vec<(u64, usize, NodeId, Message)>,
    /// The nodes that prepared, and when, in milliseconds.
    prepared: Vec<(usize, u64)>,
}

impl Leaderless {
    const TTL: u64 = 200;

    /// Each node is first in the queue of its own voter.
    fn new(name: &str) -> Leaderless {
        Leaderless::waiting(name, false)
    }

    /// Each node is first in the queue of the other's voter, as after a restart of both. Then each voter wakes the
    /// other node's candidate, and its queue has only its own.
    fn crossed(name: &str) -> Leaderless {
        Leaderless { latency: 5, ..Leaderless::waiting(name, true) }
    }

    fn waiting(name: &str, crossed: bool) -> Leaderless {
        let voters = EngineConfig::new((1..=3).map(NodeId));
        let mut nodes = [NodeId(1), NodeId(2)].map(|id| Harness::of(id, voters.clone(), Start::Fresh));
        let (token, ttl, attribute) = (Token::after(0), Span::from_millis(Leaderless::TTL), 0);
        let prepare = Ask::Prepare { request: Request(1), token, attribute };
        let propose = Ask::Propose {
            request: Request(2),
            token,
            ttl,
            attribute,
            renewal: false,
            value: crate::ValueVersion::NONE,
        };
        for node in &mut nodes {
            let led = [prepare, propose].map(|ask| about(Name::of(name), Body::Ask(ask)));
            node.receive(at(0), NodeId(3), led);
            if crossed {
                let body = Body::Ask(Ask::Enquire { request: Request(3), standing: Some(attribute) });
                let rival = NodeId(3 - node.engine.me().0);
                node.receive(at(0), rival, [about(Name::of(name), body)]);
            }
            node.sent();
            let config = CandidateConfig { ttl, ..CandidateConfig::default() };
            node.command(at(1), name, Action::Join(Some(config)));
            node.command(at(1), name, Action::Stand { once: false });
        }
        Leaderless { name: name.to_string(), nodes, latency: 1, in_flight: Vec::new(), prepared: Vec::new() }
    }

    /// Runs until one node leads. Returns the node and the time in milliseconds. Timers fire when due, unless
    /// `is_late`.
    fn run(&mut self, is_late: impl Fn(usize, u64) -> bool) -> (usize, u64) {
        for millis in 1..1_000 {
            let arrive = self.in_flight.extract_if(.., |(when, ..)| *when == millis).collect::<Vec<_>>();
            for (_, to, from, message) in arrive {
                self.nodes[to].receive(at(millis), from, [message]);
            }
            for index in 0..2 {
                let node = &mut self.nodes[index];
                if millis == Leaderless::TTL {
                    // Both nodes learn of the same greatest token, so neither has an advantage from earlier defeats.
                    let reply = Reply::Rejected { request: Request(0), promised: 50 };
                    let message = about(Name::of(&self.name), Body::Reply(reply));
                    node.receive(at(millis), NodeId(3), [message]);
                }
                while !is_late(index, millis) && node.fire_timer(at(millis)) {}
                let mut prepares = false;
                for (to, message) in node.sent() {
                    if to != NodeId(3) {
                        prepares |= matches!(message.body, Body::Ask(Ask::Prepare { .. }));
                        let from = NodeId(index as u64 + 1);
                        self.in_flight.push((millis + self.latency, 1 - index, from, message));
                    }
                }
                if prepares && millis > Leaderless::TTL {
                    self.prepared.push((index, millis));
                }
                let me = node.engine.me();
                if node.said().iter().any(|(_, said)| said.leader() == Some(me)) {
                    return (index, millis);
                }
            }
        }
        panic!("nobody leads after a second")
    }
}

/// Both nodes are woken, are late until the same moment, and then contend simultaneously. Neither can win without the
/// other's voter. The voters would wake the next candidate after six delays, 150 ms.
#[test]
fn a_split_vote_after_a_death_is_over_before_voters_wake_the_next_candidate() {
    let mut split_votes = 0;
    for number in 0..100 {
        let mut leaderless = Leaderless::new(&format!("x{number}"));
        let (_, led) = leaderless.run(|_, millis| (201..212).contains(&millis));
        split_votes +=
            usize::from(leaderless.prepared.iter().filter(|(_, millis)| *millis == 212).count() == 2);
        // A round of a tenth of the lease until both are defeated, the pause of the node with priority, two round
        // trips.
        assert!(led < 245, "{number}: {led} ms: {:?}", leaderless.prepared);
    }
    assert!(split_votes > 50, "{split_votes} of 100 were split votes");
}

/// Neither node finds the other in its own voter's queue, so both seem to have priority. After they have got each
/// other's `Prepare`, only one of them retries at once.
#[test]
fn of_two_candidates_that_both_seem_to_have_priority_only_one_retries_at_once() {
    let mut split_votes = 0;
    for number in 0..100 {
        let mut leaderless = Leaderless::crossed(&format!("x{number}"));
        let (leader, led) = leaderless.run(|_, _| false);
        let rivals = leaderless.prepared.iter().filter(|(index, _)| *index != leader).count();
        split_votes += rivals;
        assert!(rivals <= 1, "{number}: {led} ms: {:?}", leaderless.prepared);
        assert!(led < 300, "{number}: {led} ms: {:?}", leaderless.prepared);
    }
    assert!(split_votes > 50, "{split_votes} of 100 were split votes");
}

/// The voter of a node that has just restarted is silent, and knows no grant. The node learns from the `Held` of other
/// voters that another node leads, and does not retry.
#[test]
fn a_node_whose_voter_is_silent_does_not_retry_after_held() {
    let config = EngineConfig::new([1, 2, 3].map(NodeId));
    let founding = Arc::new(config.founding().unwrap());
    let longest = Span::from_millis(30_000);
    let saved = Saved { ceiling: 1_000, longest, ..Saved::blank(DiskId(1), founding) };
    let mut harness = Harness::of(ME, config, Start::Recovered(Some(saved)));
    harness.stand(at(0), "x");
    let grant = Grant {
        token: Token::after(2_000),
        holder: NodeId(2),
        boot: Boot(5),
        attribute: 0,
        value: crate::ValueVersion::NONE,
    };
    let (mut prepared, mut enquired) = (0, None);
    for millis in 0..200 {
        while harness.fire_timer(at(millis)) {}
        for (to, Message { name, body, .. }) in harness.sent() {
            let Body::Ask(ask) = body else { continue };
            let answer = match ask {
                Ask::Prepare { request, .. } => {
                    prepared += usize::from(to == NodeId(2));
                    Reply::Held { request, grant, remaining: Span::from_millis(2_000) }
                }
                Ask::Enquire { request, .. } => {
                    enquired.get_or_insert(millis);
                    let longest = Span::from_millis(60_000);
                    Reply::Status { request, promised: 2_001, grant: Some(grant), longest }
                }
                _ => continue,
            };
            harness.receive(at(millis), to, [about(name, Body::Reply(answer))]);
        }
    }
    assert_eq!(prepared, 1, "whoever leads is not asked for it again and again");
    assert!(enquired.is_some_and(|when| when < 30), "{enquired:?}: it soon knows who leads");
}

/// One node is late, with or without priority, and gets the rival's `Prepare` before it contends.
#[test]
fn a_candidate_that_hears_of_a_rival_lets_it_finish() {
    for number in 0..100 {
        for late in 0..2 {
            let mut leaderless = Leaderless::new(&format!("x{number}"));
            let (leader, led) = leaderless.run(|index, millis| index == late && (199..207).contains(&millis));
            assert!(led < 215, "{number}: {led} ms: {:?}", leaderless.prepared);
            let prepared = &leaderless.prepared;
            assert!(prepared.iter().all(|(index, _)| *index == leader), "{prepared:?}");
        }
    }
}

/// A command to every election does the same as one command to each.
#[test]
fn a_command_without_a_name_is_for_every_election() {
    let mut harness = Harness::new(1);
    let [one, two] = ["x", "y"].map(|name| harness.stand(at(0), name));
    harness.news();
    harness.input(at(1), |engine, cx| engine.on_command(cx, Action::Resign.in_all()));
    let mut said = harness.said();
    said.sort_by_key(|(index, _)| *index);
    assert_eq!(said, [stepped_down(one), stepped_down(two)]);
}
