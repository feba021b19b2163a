//! A broker whose node leads when the test says so.

use super::*;
use crate::sessions::{ClientValue, LeaseRequest, SessionId};

const TTL: Span = Span::from_millis(3_000);
const LEASE: LeaseRequest = LeaseRequest { ttl: TTL, rank: 5 };

/// A node without voters: the test decides when it leads. Records the calls of the broker.
#[derive(Default)]
struct Fake {
    now: Time,
    held: BTreeMap<Name, NodeLease>,
    joined: BTreeMap<Name, CandidateConfig>,
    refuses: bool,
    value: Option<Value>,
    calls: Vec<String>,
}

impl LeaseControl for Fake {
    fn lease(&self, name: Name) -> Option<NodeLease> {
        self.held.get(&name).copied().filter(|held| self.now < held.until)
    }
    fn join(&mut self, name: &str, config: CandidateConfig) -> bool {
        if self.refuses {
            return false;
        }
        let before = self.joined.insert(Name::of(name), config);
        assert_eq!(before, None, "a node joins an election once");
        self.calls.push(format!("join {name} {}", config.ttl));
        true
    }
    fn campaign(&mut self, name: Name) {
        assert!(self.joined.contains_key(&name));
        self.calls.push("campaign".into());
    }
    fn set_rank(&mut self, _: Name, rank: Attribute) {
        self.calls.push(format!("rank {rank}"));
    }
    fn set_value(&mut self, _: Name, value: Option<&Value>) {
        if self.value.as_ref() != value {
            self.value = value.cloned();
            self.calls.push(format!("value {}", value.map_or("none", Value::as_str)));
        }
    }
    fn withdraw(&mut self, name: Name) {
        self.held.remove(&name);
        self.calls.push("withdraw".into());
    }
    fn transfer(&mut self, name: Name, to: NodeId) {
        self.held.remove(&name);
        self.calls.push(format!("transfer {to}"));
    }
    fn pin(&mut self, name: Name) -> Option<NodeLease> {
        self.calls.push("pin".into());
        self.lease(name)
    }
    fn leave(&mut self, name: Name) {
        self.held.remove(&name);
        self.joined.remove(&name).expect("it has joined");
        self.calls.push("leave".into());
    }
}

struct Test {
    broker: SessionBroker,
    fake: Fake,
    requests: u64,
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

impl Test {
    fn new() -> Test {
        let broker = SessionBroker::new(SessionConfig::new("1%".parse().unwrap()));
        Test { broker, fake: Fake::default(), requests: 0 }
    }

    /// A request that gets the next number, which is the number of its session, too.
    fn request(&mut self, millis: u64, request: SessionRequest) -> RequestId {
        self.requests += 1;
        self.fake.now = at(millis);
        let number = RequestId(self.requests);
        let arrival =
            Arrival { request: number, received: at(millis), new_session: SessionId(self.requests.into()) };
        self.broker.on_request(at(millis), arrival, "x", request, &mut self.fake);
        number
    }

    fn campaign(&mut self, millis: u64, session: Option<u128>, ttl: Span) -> RequestId {
        let lease = LeaseRequest { ttl, ..LEASE };
        let wait = Span::from_millis(10_000);
        self.request(
            millis,
            SessionRequest::Campaign(CampaignRequest {
                session: session.map(SessionId),
                lease,
                wait,
                value: None,
            }),
        )
    }

    /// The node comes to lead.
    fn lead(&mut self, millis: u64, token: u64, until: u64) {
        self.fake.now = at(millis);
        self.fake.held.insert(Name::of("x"), NodeLease { token, until: at(until) });
        self.broker.on_lease_change(at(millis), Name::of("x"), &mut self.fake);
    }

    fn due(&mut self, millis: u64) {
        self.fake.now = at(millis);
        self.broker.on_due(at(millis), &mut self.fake);
    }

    /// The broker's calls since the last time.
    fn calls(&mut self) -> String {
        std::mem::take(&mut self.fake.calls).join(", ")
    }

    /// The replies since the last time: request, and a word.
    fn replies(&mut self) -> Vec<(u64, String)> {
        let word = |outcome: SessionOutcome| match outcome {
            Ok(SessionReply::Leading { token, .. }) => format!("leading {token}"),
            Ok(SessionReply::Waiting { queue_position, .. }) => format!("waiting {queue_position}"),
            Ok(SessionReply::YourTurn { waited, .. }) => format!("turn after {waited}"),
            Ok(SessionReply::Revoking { within }) => format!("revoking {within}"),
            Ok(other) => format!("{other:?}").to_lowercase(),
            Err(error) => format!("{error:?}").to_lowercase(),
        };
        self.broker.take_replies().into_iter().map(|(request, outcome)| (request.0, word(outcome))).collect()
    }

    fn expect(&mut self, calls: &str, replies: &[(u64, &str)]) {
        let replies: Vec<_> = replies.iter().map(|&(request, word)| (request, word.to_string())).collect();
        assert_eq!((self.calls().as_str(), self.replies()), (calls, replies));
    }
}

#[test]
fn clients_lead_one_after_the_other_each_by_a_lease_of_its_own() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.expect("join x 3000, rank 5, campaign", &[]);
    test.campaign(10, None, TTL);
    test.expect("rank 5, campaign", &[]);
    test.lead(100, 7, 3_000);
    test.expect("pin", &[(1, "leading 7")]);
    assert!(test.broker.is_held(Name::of("x")));
    test.request(200, SessionRequest::Resign { session: SessionId(1), to: None });
    // The node campaigns again only after it has released.
    test.expect("withdraw, rank 5, campaign", &[(3, "resigned")]);
    // The second client has waited: its lease begins with another request. Nobody is promised anything before.
    test.lead(400, 8, 3_400);
    test.expect("", &[(2, "turn after 390")]);
    assert!(!test.broker.is_held(Name::of("x")));
    test.campaign(410, Some(2), TTL);
    test.expect("pin", &[(4, "leading 8")]);
    test.request(500, SessionRequest::Renew { session: SessionId(1) });
    test.request(500, SessionRequest::Renew { session: SessionId(2) });
    test.expect("", &[(5, "expired"), (6, "leading 8")]);
}

#[test]
fn an_election_without_clients_is_left_after_a_while_and_forgotten() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.lead(100, 7, 3_000);
    test.request(200, SessionRequest::Resign { session: SessionId(1), to: None });
    test.calls();
    assert_eq!(test.broker.next_due(), Some(at(60_200)));
    test.due(60_199);
    assert_eq!(test.broker.len(), 1);
    test.due(60_200);
    assert_eq!(test.calls().rsplit(", ").next(), Some("leave"));
    assert!(test.broker.is_empty() && test.broker.next_due().is_none());
    // A refused request creates no entry.
    test.request(60_300, SessionRequest::Renew { session: SessionId(1) });
    test.request(60_300, SessionRequest::Revoke { to: None });
    assert!(test.broker.is_empty());
}

/// A waiting client keeps the election open however long it waits.
#[test]
fn an_election_with_clients_is_not_left() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    for step in 1..20 {
        test.due(step * 10_000);
        test.campaign(step * 10_000, Some(1), TTL);
    }
    assert!(!test.calls().contains("leave"));
    assert_eq!(test.broker.len(), 1);
}

#[test]
fn a_lease_of_another_length_is_asked_for_anew() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.campaign(0, None, TTL * 2);
    test.calls();
    // The first client hangs up, and the node leads before it knows.
    test.lead(100, 7, 3_000);
    test.broker.on_reply_undelivered(at(101), Name::of("x"), RequestId(1), &mut test.fake);
    test.expect("pin, withdraw, leave, join x 6000, rank 5, campaign", &[(1, "leading 7")]);
    // A client that waits is not told its turn by a lease of another length.
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.campaign(0, None, TTL * 2);
    test.calls();
    test.lead(1_000, 7, 3_000);
    test.broker.on_reply_undelivered(at(1_001), Name::of("x"), RequestId(1), &mut test.fake);
    test.expect("withdraw, leave, join x 6000, rank 5, campaign", &[(1, "turn after 1000")]);
}

#[test]
fn a_revoked_client_is_told_and_keeps_what_it_was_promised() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.lead(100, 7, 3_000);
    test.expect("join x 3000, rank 5, campaign, pin", &[(1, "leading 7")]);
    test.request(200, SessionRequest::Revoke { to: Some(NodeId(2)) });
    test.request(300, SessionRequest::Renew { session: SessionId(1) });
    test.expect("", &[(2, "revoking 2800"), (3, "revoked")]);
    test.fake.held.insert(Name::of("x"), NodeLease { token: 7, until: at(9_000) });
    test.due(2_999);
    test.expect("", &[]);
    test.due(3_000);
    test.expect("transfer 2, withdraw", &[]);
}

#[test]
fn a_lease_that_no_client_knows_of_is_released_at_once_when_an_operator_wants_it() {
    let mut test = Test::new();
    let wait = Span::ZERO;
    test.request(
        0,
        SessionRequest::Campaign(CampaignRequest { session: None, lease: LEASE, wait, value: None }),
    );
    test.lead(100, 7, 3_000);
    test.expect("join x 3000, rank 5, campaign", &[(1, "waiting 0")]);
    test.request(200, SessionRequest::Revoke { to: Some(NodeId(2)) });
    test.expect("transfer 2, rank 5, campaign", &[(2, "revoking 0")]);
    test.request(300, SessionRequest::Revoke { to: Some(NodeId(2)) });
    test.expect("rank 5, campaign", &[(3, "notleading")]);
}

#[test]
fn a_broker_stops_when_nobody_leads_any_more() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.lead(100, 7, 3_000);
    test.campaign(200, None, TTL);
    test.calls();
    test.replies();
    test.broker.stop(at(300), &mut test.fake);
    test.expect("", &[(2, "stopping")]);
    assert!(test.broker.is_stopping() && !test.broker.is_stopped());
    test.campaign(400, None, TTL);
    test.expect("", &[(3, "stopping")]);
    test.due(3_000);
    test.expect("withdraw, withdraw, leave", &[]);
    assert!(test.broker.is_stopped());
    test.campaign(3_100, None, TTL);
    test.expect("", &[(4, "stopping")]);
}

/// The value of the first client that waits is that of the node when it campaigns, and of the client that leads while it
/// leads.
#[test]
fn the_node_has_the_value_of_the_client_that_leads() {
    let mut test = Test::new();
    let client_value = |order, text| ClientValue { order, value: Value::new(text).ok() };
    let wait = Span::from_millis(10_000);
    let campaign = |value| {
        SessionRequest::Campaign(CampaignRequest { session: None, lease: LEASE, wait, value: Some(value) })
    };
    test.request(0, campaign(client_value(0, "a")));
    test.expect("join x 3000, rank 5, value a, campaign", &[]);
    test.request(10, campaign(client_value(0, "b")));
    test.lead(100, 7, 3_000);
    test.calls();
    test.replies();
    let (first, second) = (SessionId(1), SessionId(2));
    test.request(200, SessionRequest::SetValue { session: first, value: client_value(2, "aa") });
    test.expect("value aa", &[(3, "valueset")]);
    test.request(210, SessionRequest::SetValue { session: first, value: client_value(1, "old") });
    test.expect("", &[(4, "valueset")]);
    test.request(220, SessionRequest::SetValue { session: second, value: client_value(1, "bb") });
    test.expect("", &[(5, "valueset")]);
    test.request(230, SessionRequest::SetValue { session: SessionId(77), value: client_value(1, "no") });
    test.expect("", &[(6, "expired")]);
    test.request(300, SessionRequest::Resign { session: first, to: None });
    test.expect("withdraw, rank 5, value bb, campaign", &[(7, "resigned")]);
}

#[test]
fn a_node_that_cannot_join_says_so() {
    let mut test = Test::new();
    test.fake.refuses = true;
    test.campaign(0, None, TTL);
    test.expect("", &[(1, "cannotjoin")]);
    assert!(test.broker.is_empty());
}

#[test]
fn elections_are_limited() {
    let mut test = Test::new();
    for number in 0..MAX_ELECTIONS {
        let text = number.to_string();
        let lease = SessionRequest::Campaign(CampaignRequest {
            session: None,
            lease: LEASE,
            wait: Span::ZERO,
            value: None,
        });
        let arrival = Arrival { request: RequestId(0), received: at(0), new_session: SessionId(0) };
        test.broker.on_request(at(0), arrival, &text, lease, &mut test.fake);
    }
    test.replies();
    test.campaign(0, None, TTL);
    assert_eq!(test.replies(), [(1, "toomanyelections".to_string())]);
}

/// A lease is for one client: its rank is the rank of that client, and candidates of other nodes can have the lease before the
/// node holds it for the next one.
#[test]
fn a_client_that_does_not_take_its_turn_costs_one_turn_and_its_lease_goes_to_no_other_client() {
    for resigns in [false, true] {
        let mut test = Test::new();
        let best = LeaseRequest { rank: 9, ..LEASE };
        let wait = Span::from_millis(10_000);
        let campaign = CampaignRequest { session: None, lease: best, wait, value: None };
        test.request(0, SessionRequest::Campaign(campaign));
        test.campaign(0, None, TTL);
        test.expect("join x 3000, rank 9, campaign, rank 9, campaign", &[]);
        test.lead(1_000, 7, 4_000);
        test.expect("", &[(1, "turn after 1000")]);
        let mut replies = vec![];
        if resigns {
            test.request(1_500, SessionRequest::Resign { session: SessionId(1), to: None });
            replies.push((3, "resigned"));
        } else {
            test.due(2_000);
        }
        test.expect("withdraw, rank 5, campaign", &replies);
        test.lead(2_100, 8, 5_100);
        test.expect("", &[(2, "turn after 2100")]);
        test.campaign(2_200, Some(2), TTL);
        test.expect("pin", &[(test.requests, "leading 8")]);
    }
}

/// A node that is slow answers late, and not because it waits for the lease: another turn would come as late.
#[test]
fn a_client_that_takes_its_turn_at_a_slow_node_leads() {
    let mut test = Test::new();
    test.campaign(0, None, TTL);
    test.lead(5_000, 7, 8_000);
    test.expect("join x 3000, rank 5, campaign", &[(1, "turn after 5000")]);
    // Each request is half a second old when the node handles it: more than an eighth of the ttl.
    for number in 2..6 {
        let now = 5_000 + number * 500;
        test.fake.now = at(now);
        test.fake.held.insert(Name::of("x"), NodeLease { token: 7, until: at(now + 3_000) });
        let arrival =
            Arrival { request: RequestId(number), received: at(now - 500), new_session: SessionId(99) };
        let campaign = CampaignRequest {
            session: Some(SessionId(1)),
            lease: LEASE,
            wait: Span::from_millis(10_000),
            value: None,
        };
        test.broker.on_request(at(now), arrival, "x", SessionRequest::Campaign(campaign), &mut test.fake);
        let replies = test.replies();
        assert_eq!(replies, [(number, "leading 7".to_string())], "request {number}");
    }
}
