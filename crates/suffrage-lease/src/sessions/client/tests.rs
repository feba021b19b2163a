//! A client, with replies at various moments.

use super::*;

const TTL: Span = Span::from_millis(3_000);
const LEASE: LeaseRequest = LeaseRequest { ttl: TTL, rank: 0 };
const WAIT: Span = Span::from_millis(10_000);
const SESSION: SessionId = SessionId(7);

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

struct Test {
    client: SessionClient,
    actions: Vec<ClientAction>,
}

impl Test {
    fn new() -> Test {
        let timeout = Span::from_millis(100);
        let config = ClientConfig { lease: LEASE, wait: WAIT, timeout, nodes: 3, bug: None };
        let mut test = Test { client: SessionClient::new(config, 1, 0), actions: Vec::new() };
        test.client.campaign(at(0), &mut test.actions);
        test
    }

    fn reply(&mut self, now: u64, number: u64, outcome: SessionOutcome) {
        self.client.on_reply(at(now), number, outcome, &mut self.actions);
    }

    fn leading(&mut self, now: u64, number: u64, token: u64, valid_for: u64) {
        let valid_for = Span::from_millis(valid_for);
        self.reply(
            now,
            number,
            Ok(SessionReply::Leading { session: SESSION, token, valid_for, waited: Span::ZERO }),
        );
    }

    fn due(&mut self, now: u64) {
        self.client.on_due(at(now), &mut self.actions);
    }

    fn actions(&mut self) -> Vec<ClientAction> {
        std::mem::take(&mut self.actions)
    }

    /// Leads with token 5 until 3,000: its request 0 was sent at 0, and answered at 1,000.
    fn led() -> Test {
        let mut test = Test::new();
        test.leading(1_000, 0, 5, 3_000);
        assert_eq!(test.actions().last(), Some(&lead(5, 3_000)));
        test
    }
}

fn lead(token: u64, until: u64) -> ClientAction {
    ClientAction::Lead(ClientLease { token, until: at(until) })
}

fn campaign(node: usize, number: u64, session: Option<SessionId>) -> ClientAction {
    ClientAction::Send {
        node,
        number,
        request: SessionRequest::Campaign(CampaignRequest { session, lease: LEASE, wait: WAIT, value: None }),
    }
}

fn resign(number: u64) -> ClientAction {
    let request = SessionRequest::Resign { session: SESSION, to: None };
    ClientAction::Send { node: 1, number, request }
}

fn renew(number: u64) -> ClientAction {
    ClientAction::Send { node: 1, number, request: SessionRequest::Renew { session: SESSION } }
}

#[test]
fn validity_counts_from_just_before_the_request() {
    let mut test = Test::led();
    assert_eq!(test.client.lease(), Some(ClientLease { token: 5, until: at(3_000) }));
    // The rest of the lease is 2,000: the client renews after a third of that, and again if nobody answers.
    assert_eq!(test.client.next_due(), Time::from_nanos(1_666_666_666));
    test.due(1_700);
    test.due(1_800);
    assert_eq!(test.actions(), [renew(1), renew(2)]);
    test.leading(1_900, 2, 5, 3_000);
    assert_eq!(test.actions(), [lead(5, 4_800)]);
    // The earlier reply was overtaken, and does not shorten the lease.
    test.leading(1_950, 1, 5, 3_000);
    assert_eq!(test.actions(), [lead(5, 4_800)]);
    test.leading(1_960, 1, 5, 9_000);
    assert_eq!(test.actions(), [], "a reply that comes twice is read once");
}

#[test]
fn a_client_with_slow_round_trips_renews_earlier() {
    let mut test = Test::led();
    test.due(1_700);
    test.leading(2_600, 1, 5, 3_000);
    // The lease is over at 4,700. Two more round trips of 900 fit, if the client renews by 2,900.
    assert_eq!(test.client.next_due(), at(2_900));
    test.due(2_900);
    test.leading(4_000, 2, 5, 3_000);
    assert_eq!(test.client.next_due(), at(4_000), "two of 1,100 do not fit into the rest of 1,900: at once");
}

/// The reply to the first of many renewals comes first, however many were sent since.
#[test]
fn the_oldest_request_in_flight_is_not_forgotten() {
    let mut test = Test::led();
    for now in (1_700..2_900).step_by(100) {
        test.due(now);
    }
    test.leading(2_900, 1, 5, 3_000);
    assert_eq!(test.actions().last(), Some(&lead(5, 4_700)));
}

/// A reply that takes longer than a ttl comes too late to lead by: the client does not wait for it.
#[test]
fn reply_timeout_grows_up_to_a_ttl() {
    let mut test = Test::new();
    for _ in 0..20 {
        let due = test.client.next_due();
        test.client.on_due(due, &mut test.actions);
        assert!(test.client.next_due().since(due) <= WAIT + TTL);
    }
    assert_eq!(test.client.reply_timeout, TTL);
}

#[test]
fn a_client_stops_leading_at_the_end_of_the_validity() {
    let mut test = Test::led();
    test.due(2_900);
    test.actions();
    test.leading(3_000, 1, 5, 3_000);
    let expected = [
        ClientAction::StepDown,
        ClientAction::HangUp { node: 1, number: 1 },
        resign(2),
        campaign(1, 3, None),
    ];
    assert_eq!(test.actions(), expected);
    assert_eq!(test.client.lease(), None);
}

#[test]
fn a_client_that_resigns_steps_down_first_and_believes_no_earlier_reply() {
    let mut test = Test::led();
    test.due(1_700);
    test.actions();
    test.client.resign(at(1_750), None, None, &mut test.actions);
    assert_eq!(
        test.actions(),
        [ClientAction::StepDown, ClientAction::HangUp { node: 1, number: 1 }, resign(2)]
    );
    test.leading(1_800, 1, 5, 3_000);
    assert_eq!((test.actions(), test.client.lease()), (vec![], None));
    // The client repeats the request until it gets a reply, or until the session has expired anyway.
    test.due(1_850);
    assert_eq!(test.actions(), [resign(2)], "with the same number: a reply to either counts");
    test.reply(1_900, 2, Ok(SessionReply::Resigned));
    assert_eq!(test.client.next_due(), Time::MAX);
    assert!(!test.client.is_active());
}

#[test]
fn a_resignation_is_not_repeated_forever() {
    let mut test = Test::led();
    test.client.resign(at(1_000), None, None, &mut test.actions);
    for now in (1_100..7_000).step_by(100) {
        test.due(now);
    }
    assert_eq!(test.actions().len(), 61, "it steps down, and repeats the request for two ttl");
    test.due(7_000);
    assert_eq!((test.actions(), test.client.next_due()), (vec![], Time::MAX));
}

#[test]
fn a_waiting_client_asks_again_at_once_and_keeps_its_session() {
    let mut test = Test::new();
    let retry_before = TTL;
    test.reply(9_000, 0, Ok(SessionReply::Waiting { session: SESSION, queue_position: 2, retry_before }));
    assert_eq!(test.actions(), [campaign(1, 0, None), campaign(1, 1, Some(SESSION))]);
    // A node that answers at once is asked again after a while.
    test.reply(9_010, 1, Ok(SessionReply::Waiting { session: SESSION, queue_position: 2, retry_before }));
    assert_eq!((test.actions(), test.client.next_due()), (vec![], at(9_100)));
    test.due(9_100);
    assert_eq!(test.actions(), [campaign(1, 2, Some(SESSION))]);
}

#[test]
fn a_silent_node_is_asked_again_and_then_another() {
    let mut test = Test::new();
    test.due(10_100);
    // The client waits twice as long the second time.
    test.due(20_299);
    test.due(20_300);
    let hang_up = |number| ClientAction::HangUp { node: 1, number };
    let expected = [campaign(1, 0, None), hang_up(0), campaign(1, 1, None), hang_up(1), campaign(2, 2, None)];
    assert_eq!(test.actions(), expected);
    // The node replies after all, too late.
    test.leading(20_400, 1, 5, 30_000);
    assert_eq!(test.client.lease(), None);
}

#[test]
fn a_revoked_client_stops_and_yields_to_others() {
    let mut test = Test::led();
    test.due(1_700);
    test.actions();
    test.reply(1_800, 1, Err(SessionError::Revoked));
    assert_eq!(test.actions(), [ClientAction::StepDown, resign(2)]);
    test.reply(1_850, 2, Ok(SessionReply::Resigned));
    assert_eq!(test.client.next_due(), at(4_800));
}

#[test]
fn a_client_switches_from_a_stopping_node_and_campaigns_again_at_one_that_lost_its_session() {
    let mut test = Test::new();
    test.actions();
    test.reply(50, 0, Err(SessionError::Stopping));
    test.due(150);
    assert_eq!(test.actions(), [campaign(2, 1, None)]);
    let mut test = Test::led();
    test.due(1_700);
    test.actions();
    test.reply(1_800, 1, Err(SessionError::Expired));
    test.due(1_900);
    assert_eq!(test.actions(), [ClientAction::StepDown, campaign(1, 2, None)]);
}

#[test]
fn a_client_switches_nodes_only_while_it_does_not_lead() {
    let mut test = Test::led();
    test.client.switch_node(at(1_100), &mut test.actions);
    assert_eq!(test.actions(), []);
    let mut test = Test::new();
    test.actions();
    test.client.switch_node(at(10), &mut test.actions);
    assert_eq!(test.actions(), [ClientAction::HangUp { node: 1, number: 0 }, campaign(2, 1, None)]);
}

/// The reply took longer than the lease: the client never led, but its session holds the lease.
#[test]
fn a_lease_that_is_over_when_the_reply_comes_is_renewed_and_not_used() {
    let mut test = Test::new();
    test.actions();
    test.leading(3_000, 0, 5, 3_000);
    assert_eq!(test.actions(), [campaign(1, 1, Some(SESSION))]);
}
