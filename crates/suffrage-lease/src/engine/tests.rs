//! The host alone: what it says to itself, how it shares datagrams, when it wants to be called.

use suffrage_lease::{Grant, MEMORY, Request, Token};

use super::*;
use crate::lease::{SEAT_MEMORY, Why};

const ME: NodeId = NodeId(1);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// A host, and everybody else's part played by hand.
struct Stand {
    host: Host,
    out: Output,
}

impl Stand {
    fn new(voters: u64) -> Stand {
        Stand::of(ME, voters)
    }

    fn of(me: NodeId, voters: u64) -> Stand {
        let settings = Settings::new((1..=voters).map(NodeId));
        let mut out = Output::new(settings.datagram);
        let host = Host::start(me, settings, Start::Fresh, 7 + me.0, at(0), &mut out).unwrap();
        Stand { host, out }
    }

    fn join(&mut self, now: Time, text: &str) -> Seat {
        self.host.join(now, text, Terms::default(), &mut self.out).unwrap()
    }

    fn stand(&mut self, now: Time, text: &str) -> Seat {
        let seat = self.join(now, text);
        self.host.stand(now, seat, &mut self.out);
        seat
    }

    fn sent(&mut self) -> Vec<(NodeId, Vec<Message>)> {
        let mut sent = Vec::new();
        self.out.mail.drain(|to, datagram| sent.push((to, outbox::decode(datagram).unwrap())));
        sent
    }

    fn events(&mut self) -> Vec<(Seat, Event)> {
        std::mem::take(&mut self.out.events)
    }

    /// The other voters agree to everything, at once, until nothing more is said.
    fn all_agree(&mut self, now: Time) {
        loop {
            let sent = self.sent();
            if sent.is_empty() {
                return;
            }
            for (to, messages) in sent {
                let replies = messages.into_iter().filter_map(|message| {
                    let reply = match message.body {
                        Body::Ask(Ask::Prepare { request, .. }) => Reply::Promised { request },
                        Body::Ask(Ask::Propose { request, renewal, .. }) => {
                            Reply::Accepted { request, renewal }
                        }
                        _ => return None,
                    };
                    Some(Message { name: message.name, body: Body::Reply(reply) })
                });
                self.host.on_messages(now, to, replies.collect::<Vec<_>>(), &mut self.out);
            }
        }
    }

    /// Does what is due up to then, with others that agree. How many datagrams that took.
    fn run(&mut self, until: Time) -> usize {
        let mut datagrams = 0;
        while let Some(due) = self.host.next_due().filter(|due| *due <= until) {
            self.host.on_due(due, &mut self.out);
            self.out.mail.drain(|_, _| datagrams += 1);
        }
        datagrams
    }
}

/// What a candidate says to the voter of its own node is no message.
#[test]
fn the_only_voter_elects_itself_without_a_datagram() {
    let mut alone = Stand::new(1);
    assert!(alone.out.save.take().is_some(), "that it exists");
    let seat = alone.stand(at(0), "x");
    assert!(alone.out.save.is_some_and(|saved| saved.ceiling >= 1));
    let events = alone.events();
    let &[(at_seat, Event::Led { token, valid_until, .. })] = &events[..] else { panic!("{events:?}") };
    assert_eq!((at_seat, token.number()), (seat, 1));
    assert!(valid_until > at(2_900) && valid_until < at(3_000));
    assert!(alone.sent().is_empty());
    alone.host.withdraw(at(1), seat, &mut alone.out);
    assert_eq!(alone.events(), [(seat, Event::Lost)]);
    assert!(alone.sent().is_empty());
}

#[test]
fn a_name_is_taken_once_and_free_again_after_leaving() {
    let mut host = Stand::new(1);
    let seat = host.stand(at(0), "x");
    assert_eq!(host.host.join(at(0), "x", Terms::default(), &mut host.out), Err(Refused::Taken));
    assert!(matches!(host.host.join(at(0), "", Terms::default(), &mut host.out), Err(Refused::Unfit(_))));
    host.events();
    host.host.leave(at(1), seat, &mut host.out);
    assert_eq!(host.events(), [(seat, Event::Lost)], "it handed over first");
    assert!(host.host.is_empty());
    let again = host.stand(at(2), "x");
    assert!(matches!(host.events()[..], [(_, Event::Led { token, .. })] if token.number() == 2));
    assert_eq!(again, seat, "the place is used again");
}

/// A thousand names that were led at different moments renew in few datagrams, and not one comes late.
#[test]
fn renewals_share_datagrams_and_come_early_enough() {
    let mut stand = Stand::new(3);
    for number in 0..1_000 {
        let now = at(number);
        stand.run(now);
        stand.stand(now, &number.to_string());
        stand.all_agree(now);
    }
    let led = |stand: &mut Stand| {
        let events = stand.events();
        events.iter().filter(|(_, event)| matches!(event, Event::Led { .. })).count()
    };
    assert_eq!(led(&mut stand), 1_000);
    let (from, until) = (at(2_000), at(3_000));
    let (mut datagrams, mut renewed) = (0, 0);
    while let Some(due) = stand.host.next_due().filter(|due| *due <= until) {
        stand.host.on_due(due, &mut stand.out);
        let sent = stand.sent();
        if due >= from {
            datagrams += sent.len();
            renewed += sent.iter().map(|(_, messages)| messages.len()).sum::<usize>();
        }
        for (to, messages) in sent {
            let replies = messages.into_iter().map(|message| {
                let Body::Ask(Ask::Propose { request, renewal: true, .. }) = message.body else {
                    panic!("{message:?}")
                };
                Message { name: message.name, body: Body::Reply(Reply::Accepted { request, renewal: true }) }
            });
            stand.host.on_messages(due, to, replies.collect::<Vec<_>>(), &mut stand.out);
        }
        for (_, event) in stand.events() {
            let Event::Renewed { valid_until, .. } = event else { panic!("{event:?}") };
            assert!(valid_until > due + Span::from_millis(2_900));
        }
    }
    // In the 983 to 1,000 ms between two renewals, 1,000 names make 2,000 messages to two peers.
    assert!((1_900..2_200).contains(&renewed), "{renewed}");
    assert!(datagrams < 200, "{datagrams} datagrams for {renewed} messages");
}

#[test]
fn one_that_hands_over_and_stands_again_lets_others_go_first() {
    let mut stand = Stand::new(3);
    let seat = stand.stand(at(0), "x");
    stand.all_agree(at(0));
    stand.events();
    let waits = Body::Ask(Ask::Enquire { request: Request(9), standing: Some(0) });
    let waits = Message { name: Name::of("x"), body: waits };
    stand.host.on_messages(at(9), NodeId(8), [waits], &mut stand.out);
    stand.sent();
    stand.host.yield_turn(at(10), seat, &mut stand.out);
    assert_eq!(stand.events(), [(seat, Event::Lost)]);
    let kinds = |sent: Vec<(NodeId, Vec<Message>)>| -> Vec<Body> {
        sent.into_iter().flat_map(|(_, messages)| messages).map(|message| message.body).collect()
    };
    let handed_over =
        |body: &Body| matches!(body, Body::Ask(Ask::Release { .. }) | Body::Reply(Reply::Vacant { .. }));
    assert!(kinds(stand.sent()).iter().all(handed_over));
    stand.host.on_due(at(10), &mut stand.out);
    let queued = kinds(stand.sent());
    let queues = |body: &Body| matches!(body, Body::Ask(Ask::Enquire { standing: Some(_), .. }));
    assert!(!queued.is_empty() && queued.iter().all(queues), "{queued:?}");
    let due = stand.host.next_due().unwrap();
    assert!(due >= at(10) + LEAST_COURTESY);
    stand.host.on_due(due, &mut stand.out);
    let prepares = |body: &Body| matches!(body, Body::Ask(Ask::Prepare { .. }));
    assert!(kinds(stand.sent()).iter().all(prepares));
}

/// Its own voter would know of anybody who waits.
#[test]
fn one_that_nobody_waits_behind_stands_again_at_once() {
    let mut stand = Stand::new(3);
    let seat = stand.stand(at(0), "x");
    stand.all_agree(at(0));
    stand.events();
    stand.host.yield_turn(at(10), seat, &mut stand.out);
    stand.all_agree(at(10));
    assert!(matches!(stand.events()[..], [(_, Event::Lost), (_, Event::Led { .. })]));
}

#[test]
fn it_knows_why_it_does_not_lead() {
    let mut stand = Stand::new(3);
    let seat = stand.join(at(0), "x");
    let why = |stand: &Stand, now| stand.host.status(now, seat).unwrap().why;
    assert_eq!(why(&stand, at(0)), Why::Observes);
    stand.host.stand(at(0), seat, &mut stand.out);
    let Why::NoMajority { silent, majority: 2 } = why(&stand, at(1)) else { panic!("nobody answered") };
    assert_eq!(silent, [(NodeId(2), None), (NodeId(3), None)]);
    stand.all_agree(at(5));
    assert!(matches!(why(&stand, at(5)), Why::Leads(_)));
    assert_eq!(stand.host.history().of(Name::of("x")).count(), 1);
    stand.host.resign(at(6), seat, &mut stand.out);
    assert_eq!(why(&stand, at(6)), Why::StandsBack(Span::from_millis(3_000)));
    stand.host.set_healthy(at(7), seat, false, &mut stand.out);
    assert_eq!(why(&stand, at(7)), Why::Unhealthy);
    assert_eq!(stand.host.history().of(Name::of("x")).count(), 2, "led, lost");
}

/// DESIGN, "100,000 held": what each of them takes. A held election's share at the voter is computed where it
/// is kept; a seat's is that of its parts.
#[test]
fn an_election_takes_little_memory() {
    const { assert!(MEMORY < 200, "at a voter") };
    const { assert!(SEAT_MEMORY < 500, "at the candidate's node") };
}

#[test]
fn a_voter_answers_for_names_it_takes_no_part_in_and_others_are_not_heard() {
    let mut stand = Stand::new(3);
    let ask = |name: &str| {
        let body = Body::Ask(Ask::Enquire { request: Request(9), standing: None });
        Message { name: Name::of(name), body }
    };
    stand.host.on_messages(at(0), NodeId(8), [ask("x"), ask("y")], &mut stand.out);
    let sent = stand.sent();
    assert_eq!(sent.len(), 1, "both answers in one datagram");
    assert_eq!((sent[0].0, sent[0].1.len()), (NodeId(8), 2));
    stand.host.on_messages(at(0), ME, [ask("x")], &mut stand.out);
    assert!(stand.sent().is_empty(), "whoever says to be this node is not");
    stand.out.save = None;
    assert!(stand.host.on_datagram(at(0), NodeId(8), b"nonsense", &mut stand.out).is_err());
    assert!(stand.out.is_empty());
}

/// One that is silent after a restart asks, too.
#[test]
fn a_voter_is_heard_by_its_answers_and_not_by_its_questions() {
    let mut stand = Stand::new(3);
    let name = Name::of("x");
    let others = |stand: &Stand, now| stand.host.heard(now)[1..].to_vec();
    let ask = Message { name, body: Body::Ask(Ask::Watch { request: Request(9) }) };
    let claim = Message { name, body: Body::Claim { attribute: 0 } };
    stand.host.on_messages(at(0), NodeId(2), [ask, claim], &mut stand.out);
    assert_eq!(others(&stand, at(1)), [(NodeId(2), None), (NodeId(3), None)]);
    let reply = Message { name, body: Body::Reply(Reply::Promised { request: Request(9) }) };
    stand.host.on_messages(at(1), NodeId(2), [reply, ask], &mut stand.out);
    assert_eq!(others(&stand, at(3)), [(NodeId(2), Some(Span::from_millis(2))), (NodeId(3), None)]);
}

/// Nodes 1 and 2, which stand for what 3 led until it died with its voter. Timers take as long as it takes to be called.
struct Bereft {
    name: String,
    nodes: [Stand; 2],
    /// How long messages take, in milliseconds.
    latency: u64,
    /// When each arrives, where, from whom, and what it says.
    under_way: Vec<(u64, usize, NodeId, Vec<Message>)>,
    /// Who prepared, and when, in milliseconds.
    prepared: Vec<(usize, u64)>,
}

impl Bereft {
    const TTL: u64 = 200;

    /// Each waits in its own voter's queue before the other.
    fn new(name: &str) -> Bereft {
        Bereft::waiting(name, false)
    }

    /// Each waits in the other's voter's queue first, as it can be after both have restarted: then each voter wakes the
    /// other's candidate, and knows only its own to wait.
    fn crossed(name: &str) -> Bereft {
        Bereft { latency: 5, ..Bereft::waiting(name, true) }
    }

    fn waiting(name: &str, crossed: bool) -> Bereft {
        let mut nodes = [NodeId(1), NodeId(2)].map(|id| Stand::of(id, 3));
        let (token, ttl, attribute) = (Token::after(0), Span::from_millis(Bereft::TTL), 0);
        let prepare = Ask::Prepare { request: Request(1), token, attribute };
        let propose = Ask::Propose { request: Request(2), token, ttl, attribute, renewal: false };
        for node in &mut nodes {
            let led = [prepare, propose].map(|ask| Message { name: Name::of(name), body: Body::Ask(ask) });
            node.host.on_messages(at(0), NodeId(3), led, &mut node.out);
            if crossed {
                let body = Body::Ask(Ask::Enquire { request: Request(3), standing: Some(attribute) });
                let rival = NodeId(3 - node.host.me.0);
                node.host.on_messages(at(0), rival, [Message { name: Name::of(name), body }], &mut node.out);
            }
            node.sent();
            let terms = Terms { ttl, ..Terms::default() };
            let seat = node.host.join(at(1), name, terms, &mut node.out).unwrap();
            node.host.stand(at(1), seat, &mut node.out);
        }
        Bereft { name: name.to_string(), nodes, latency: 1, under_way: Vec::new(), prepared: Vec::new() }
    }

    /// Until one of them leads: which, and when. Each is called when something is due, unless it is late.
    fn run(&mut self, is_late: impl Fn(usize, u64) -> bool) -> (usize, u64) {
        for millis in 1..1_000 {
            let arrive = self.under_way.extract_if(.., |(when, ..)| *when == millis).collect::<Vec<_>>();
            for (_, to, from, messages) in arrive {
                let Stand { host, out } = &mut self.nodes[to];
                host.on_messages(at(millis), from, messages, out);
            }
            for place in 0..2 {
                let node = &mut self.nodes[place];
                if millis == Bereft::TTL {
                    // Neither is ahead of the other because it contended in vain more often.
                    let (seat, now) = (node.host.names[&Name::of(&self.name)], at(millis));
                    let reply = Reply::Rejected { request: Request(0), promised: 50 };
                    node.host.put(now, seat, &mut node.out, |it, office| {
                        it.candidate.on_reply(office, now, NodeId(3), reply);
                    });
                }
                while !is_late(place, millis) && node.host.next_due().is_some_and(|due| due <= at(millis)) {
                    node.host.on_due(at(millis), &mut node.out);
                }
                for (to, messages) in node.sent() {
                    let prepares = |message: &Message| matches!(message.body, Body::Ask(Ask::Prepare { .. }));
                    if messages.iter().any(prepares) && millis > Bereft::TTL && to != NodeId(3) {
                        self.prepared.push((place, millis));
                    }
                    if to != NodeId(3) {
                        let from = NodeId(place as u64 + 1);
                        self.under_way.push((millis + self.latency, 1 - place, from, messages));
                    }
                }
                if node.events().iter().any(|(_, event)| matches!(event, Event::Led { .. })) {
                    return (place, millis);
                }
            }
        }
        panic!("nobody leads after a second")
    }
}

/// Both are woken, are late until the same moment, and then contend at once. Neither can win without the other's voter.
/// The voters would wake the next after six delays, 150 ms.
#[test]
fn a_duel_after_a_death_is_over_before_voters_wake_anybody() {
    let mut duels = 0;
    for number in 0..100 {
        let mut bereft = Bereft::new(&format!("x{number}"));
        let (_, led) = bereft.run(|_, millis| (201..212).contains(&millis));
        duels += usize::from(bereft.prepared.iter().filter(|(_, millis)| *millis == 212).count() == 2);
        // A round of a tenth of the lease until both have lost, a moment for the one that goes first, two round trips.
        assert!(led < 245, "{number}: {led} ms: {:?}", bereft.prepared);
    }
    assert!(duels > 50, "{duels} of 100 were duels");
}

/// Neither finds the other in its own voter's queue, and both take themselves for the first. They learn better when they
/// meet: only one of them tries again at once.
#[test]
fn of_two_that_both_seem_to_come_first_only_one_does_so_twice() {
    let mut duels = 0;
    for number in 0..100 {
        let mut bereft = Bereft::crossed(&format!("x{number}"));
        let (leader, led) = bereft.run(|_, _| false);
        let rivals = bereft.prepared.iter().filter(|(place, _)| *place != leader).count();
        duels += rivals;
        assert!(rivals <= 1, "{number}: {led} ms: {:?}", bereft.prepared);
        assert!(led < 300, "{number}: {led} ms: {:?}", bereft.prepared);
    }
    assert!(duels > 50, "{duels} of 100 were duels");
}

/// A node that has just restarted votes for nobody, and its voter knows nobody to lead. It is told by others, and asks
/// them for nothing a second time.
#[test]
fn one_whose_voter_is_silent_believes_others_that_somebody_leads() {
    let settings = Settings::new([1, 2, 3].map(NodeId));
    let saved = Saved { ceiling: 1_000, longest: Span::from_millis(30_000), voter: true };
    let mut out = Output::new(settings.datagram);
    let host = Host::start(ME, settings, Start::Recovered(Some(saved)), 7, at(0), &mut out).unwrap();
    let mut stand = Stand { host, out };
    let seat = stand.host.join(at(0), "x", Terms::default(), &mut stand.out).unwrap();
    stand.host.stand(at(0), seat, &mut stand.out);
    let grant = Grant { token: Token::after(2_000), holder: NodeId(2), attribute: 0 };
    let (mut prepared, mut enquired) = (0, None);
    for millis in 0..200 {
        while stand.host.next_due().is_some_and(|due| due <= at(millis)) {
            stand.host.on_due(at(millis), &mut stand.out);
        }
        for (to, messages) in stand.sent() {
            for Message { name, body } in messages {
                let Body::Ask(ask) = body else { continue };
                let answer = match ask {
                    Ask::Prepare { request, .. } => {
                        prepared += usize::from(to == NodeId(2));
                        Reply::Held { request, grant, remaining: Span::from_millis(2_000) }
                    }
                    Ask::Enquire { request, .. } => {
                        enquired.get_or_insert(millis);
                        Reply::Status { request, promised: 2_001, grant: Some(grant) }
                    }
                    _ => continue,
                };
                let answer = Message { name, body: Body::Reply(answer) };
                stand.host.on_messages(at(millis), to, [answer], &mut stand.out);
            }
        }
    }
    assert_eq!(prepared, 1, "whoever leads is not asked for it again and again");
    assert!(enquired.is_some_and(|when| when < 30), "{enquired:?}: it soon knows who leads");
}

/// One is late, be it the one that goes first or not, and hears of the other before it contends.
#[test]
fn who_hears_that_another_contends_lets_it_finish() {
    for number in 0..100 {
        for late in 0..2 {
            let mut bereft = Bereft::new(&format!("x{number}"));
            let (leader, led) = bereft.run(|place, millis| place == late && (199..207).contains(&millis));
            assert!(led < 215, "{number}: {led} ms: {:?}", bereft.prepared);
            assert!(bereft.prepared.iter().all(|(place, _)| *place == leader), "{:?}", bereft.prepared);
        }
    }
}

#[test]
fn an_observer_says_that_too_few_voters_answer_once_it_has_asked_for_a_while() {
    let mut stand = Stand::new(3);
    let seat = stand.join(at(0), "x");
    let why = |stand: &Stand, now| stand.host.status(now, seat).unwrap().why;
    assert_eq!(why(&stand, at(5_999)), Why::Observes);
    assert!(matches!(why(&stand, at(6_000)), Why::NoMajority { majority: 2, .. }));
    stand.all_agree(at(6_000));
}

/// There is nearly always something to be told about another seat.
#[test]
fn seats_are_used_again_though_there_is_always_something_to_be_told() {
    let mut stand = Stand::new(1);
    let mut most = 0;
    for turn in 0..100 {
        let seat = stand.stand(at(turn), "x");
        stand.host.leave(at(turn), seat, &mut stand.out);
        let other = stand.stand(at(turn), "y");
        assert!(!stand.out.events.is_empty(), "it has led, and lost");
        assert_ne!(seat, other, "or news of x would be taken for news of y");
        stand.events();
        stand.host.leave(at(turn), other, &mut stand.out);
        most = most.max(stand.host.seats.len());
    }
    assert!(most <= 4, "{most}");
}
