//! Clients in a queue, with requests at various moments.

use super::*;
use crate::Drift;

const A: SessionId = SessionId(1);
const B: SessionId = SessionId(2);
const TTL: Span = Span::from_millis(3_000);
const LEASE: LeaseRequest = LeaseRequest { ttl: TTL, rank: 0 };

type Replies = Vec<(RequestId, SessionOutcome)>;

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn held(token: u64, until: u64) -> Option<NodeLease> {
    Some(NodeLease { token, until: at(until) })
}

fn queue() -> SessionQueue {
    SessionQueue::new(SessionConfig::new("1%".parse().unwrap()))
}

/// What a client is told if that much is left: less the drift, and a sixteenth of the ttl.
fn valid(millis: u64) -> Span {
    "1%".parse::<Drift>().unwrap().validity(Span::from_millis(millis)) - Span::from_nanos(TTL.as_nanos() / 16)
}

/// The client had waited for `waited` milliseconds when it came to lead.
fn leading(session: SessionId, token: u64, valid_for: Span, waited: u64) -> SessionOutcome {
    Ok(SessionReply::Leading { session, token, valid_for, waited: Span::from_millis(waited) })
}

fn waiting(session: SessionId, queue_position: usize) -> SessionOutcome {
    Ok(SessionReply::Waiting { session, queue_position, retry_before: TTL })
}

/// Request number `request` of a client that has no session, which will be `session`.
fn enter(queue: &mut SessionQueue, now: u64, request: u64, session: SessionId, wait: u64) {
    assert_eq!(try_enter(queue, now, request, session, wait), []);
}

fn try_enter(queue: &mut SessionQueue, now: u64, request: u64, session: SessionId, wait: u64) -> Replies {
    let arrival = Arrival { request: RequestId(request), received: at(now), new_session: session };
    let campaign =
        CampaignRequest { session: None, lease: LEASE, wait: Span::from_millis(wait), value: None };
    let mut replies = Vec::new();
    queue.campaign(at(now), arrival, campaign, None, &mut replies);
    replies
}

/// Request number `request` of a client that has a session.
fn ask_again(queue: &mut SessionQueue, now: u64, request: u64, session: SessionId, wait: u64) -> Replies {
    let arrival = Arrival { request: RequestId(request), received: at(now), new_session: SessionId(99) };
    let campaign =
        CampaignRequest { session: Some(session), lease: LEASE, wait: Span::from_millis(wait), value: None };
    let mut replies = Vec::new();
    queue.campaign(at(now), arrival, campaign, None, &mut replies);
    replies
}

fn reconcile(queue: &mut SessionQueue, now: u64, held: Option<NodeLease>) -> (QueueAction, Replies) {
    let mut replies = Vec::new();
    (queue.reconcile(at(now), held, &mut replies), replies)
}

/// Asserts that there is nothing to do and no reply.
fn assert_idle(queue: &mut SessionQueue, now: u64, held: Option<NodeLease>) {
    assert_eq!(reconcile(queue, now, held), (QueueAction::None, vec![]));
}

fn grant(queue: &mut SessionQueue, now: u64, held: Option<NodeLease>) -> Replies {
    assert_eq!(reconcile(queue, now, held), (QueueAction::Offer(LEASE), vec![]));
    let mut replies = Vec::new();
    queue.grant(at(now), held.unwrap(), &mut replies);
    replies
}

/// A leads with token 7 since 1,000, by a lease of the node until 4,000; its request came at 900.
fn led() -> SessionQueue {
    let mut queue = queue();
    enter(&mut queue, 900, 1, A, 10_000);
    assert_idle(&mut queue, 900, None);
    // The end is at 4,000, as seen from 1,000.
    let replies = grant(&mut queue, 1_000, held(7, 4_000));
    assert_eq!(replies, [(RequestId(1), leading(A, 7, valid(3_000), 100))]);
    queue
}

/// The derivation in the text of the module, with numbers: over all drifts of both clocks within the bound, the
/// client has ceased to lead before the node's clock shows the end of its lease and of the session.
#[test]
fn no_client_outlives_the_nodes_lease_nor_its_session_whatever_the_clocks() {
    for bound in [0.0, 0.0001, 0.01, 0.1] {
        let drift = Drift::millionths((bound * 1e6) as u32).unwrap();
        for (wait, network, left) in [(0, 0, 3_000), (0, 40, 2_000), (30_000, 5, 3_000), (2_000, 900, 100)] {
            for (node, client) in [(-1.0, -1.0), (-1.0, 1.0), (1.0, -1.0), (1.0, 1.0), (0.0, 0.0)] {
                let (node, client) = (1.0 + node * bound, 1.0 + client * bound);
                // By true time: sent at 0, received after `network`, granted after `wait`.
                let shown = |truth: f64| Time::from_nanos((truth * node * 1e6) as u64);
                let (received, granted) = (shown(network as f64), shown((network + wait) as f64));
                let mut queue = SessionQueue::new(SessionConfig::new(drift));
                let arrival = Arrival { request: RequestId(1), received, new_session: A };
                let mut replies = Vec::new();
                let wait = Span::from_millis(99_999);
                let campaign = CampaignRequest { session: None, lease: LEASE, wait, value: None };
                queue.campaign(received, arrival, campaign, None, &mut replies);
                let end = granted + Span::from_millis(left);
                queue.grant(granted, NodeLease { token: 1, until: end }, &mut replies);
                let Ok(SessionReply::Leading { valid_for, .. }) = replies[0].1 else { panic!("it leads") };
                let client_ends = valid_for.as_nanos() as f64 / client;
                let node_ends = end.min(granted + TTL).as_nanos() as f64 / node;
                assert!(client_ends <= node_ends, "{bound} {wait} {network} {left} {node} {client}");
            }
        }
    }
}

/// A lease that a client could count from before its wait would be over when it is told: it is told its turn first.
#[test]
fn a_client_that_has_waited_is_told_its_turn_and_leads_by_a_second_request() {
    let turn = |session, waited| {
        let (retry_before, waited) = (Span::from_millis(1_000), Span::from_millis(waited));
        Ok(SessionReply::YourTurn { session, retry_before, waited })
    };
    let mut queue = queue();
    enter(&mut queue, 0, 1, A, 30_000);
    enter(&mut queue, 0, 2, B, 30_000);
    let mut replies = Vec::new();
    assert!(!queue.tell_turn(at(375), &mut replies), "an eighth of the ttl is no wait");
    assert!(queue.tell_turn(at(5_000), &mut replies));
    assert_eq!(std::mem::take(&mut replies), [(RequestId(1), turn(A, 5_000))]);
    // The node keeps its lease for A, which leads by its second request. It has not waited.
    assert_idle(&mut queue, 5_999, held(7, 9_000));
    assert_eq!(ask_again(&mut queue, 5_999, 3, A, 30_000), []);
    assert!(!queue.tell_turn(at(5_999), &mut replies));
    let replies = grant(&mut queue, 5_999, held(7, 9_000));
    let Ok(SessionReply::Leading { valid_for, waited, .. }) = replies[0].1 else { panic!("{replies:?}") };
    assert_eq!((valid_for, waited), (valid(3_000), Span::from_millis(5_999)));
}

#[test]
fn a_turn_that_nobody_takes_passes_to_the_next_client_with_another_lease() {
    for known in [false, true] {
        let mut queue = queue();
        enter(&mut queue, 0, 1, A, if known { 10 } else { 30_000 });
        enter(&mut queue, 0, 2, B, 30_000);
        if known {
            reconcile(&mut queue, 10, None);
            assert_eq!(ask_again(&mut queue, 20, 5, A, 30_000), []);
        }
        let mut replies = Vec::new();
        assert!(queue.tell_turn(at(5_000), &mut replies));
        // A client that does not know its session cannot come back.
        queue.on_reply_undelivered(at(5_000), replies[0].0);
        if known {
            assert_idle(&mut queue, 5_999, held(7, 8_000));
            assert_eq!(queue.next_due(), at(6_000));
        }
        let now = if known { 6_000 } else { 5_000 };
        if !known {
            // The node has not reconciled since it holds the lease: it is for B.
            assert_eq!(reconcile(&mut queue, now, held(7, 8_000)).0, QueueAction::Offer(LEASE));
        } else {
            assert_eq!(reconcile(&mut queue, now, held(7, 8_000)).0, QueueAction::Release(None));
            assert_idle(&mut queue, now, None);
            assert_eq!(reconcile(&mut queue, now, held(8, 9_000)).0, QueueAction::Offer(LEASE));
        }
        replies.clear();
        assert!(queue.tell_turn(at(now), &mut replies));
        assert_eq!(replies[0].0, RequestId(2));
        let late = ask_again(&mut queue, 6_001, 3, A, 30_000);
        assert_eq!(late, [(RequestId(3), Err(SessionError::Expired))]);
        assert_eq!(ask_again(&mut queue, 6_001, 4, B, 30_000), []);
        let lease = if known { held(8, 9_000) } else { held(7, 8_000) };
        assert_eq!(grant(&mut queue, 6_001, lease)[0].0, RequestId(4));
    }
}

/// The node's lease may end while a client has its turn: the client waits on, and has its turn again.
#[test]
fn a_turn_without_a_lease_is_a_place_in_the_queue() {
    let mut queue = queue();
    enter(&mut queue, 0, 1, A, 30_000);
    let mut replies = Vec::new();
    assert!(queue.tell_turn(at(5_000), &mut replies));
    assert_eq!(ask_again(&mut queue, 5_100, 2, A, 30_000), []);
    assert_idle(&mut queue, 5_100, None);
    assert_eq!(queue.wanted(), Some(LEASE));
    assert!(queue.tell_turn(at(6_000), &mut replies));
    assert_eq!((replies.len(), replies[1].0), (2, RequestId(2)));
}

#[test]
fn a_lease_is_renewed_from_the_reply_on() {
    let mut queue = led();
    let renewed = queue.renew(at(2_600), A, held(7, 5_000));
    assert_eq!(renewed, leading(A, 7, valid(2_400), 100));
    // The session ends before the node's lease does.
    let renewed = queue.renew(at(2_600), A, held(8, 9_000));
    assert_eq!(renewed, leading(A, 8, valid(3_000), 100));
    assert_eq!(queue.renew(at(2_600), B, held(8, 9_000)), Err(SessionError::Expired));
    let leaderless = queue.renew(at(2_600), A, None);
    assert_eq!(leaderless, Err(SessionError::Expired), "the node does not lead");
}

#[test]
fn a_session_that_is_not_renewed_ends_and_the_next_client_needs_another_lease() {
    let mut queue = led();
    enter(&mut queue, 1_500, 2, B, 60_000);
    assert_idle(&mut queue, 3_999, held(7, 6_000));
    assert_eq!((queue.next_due(), queue.wanted()), (at(4_000), None));
    assert_eq!(queue.renew(at(4_000), A, held(7, 6_000)), Err(SessionError::Expired));
    assert_eq!(reconcile(&mut queue, 4_000, held(7, 6_000)).0, QueueAction::Release(None));
    assert_eq!(queue.wanted(), Some(LEASE), "the node campaigns again, for B");
    assert_idle(&mut queue, 4_001, None);
    assert_eq!(
        grant(&mut queue, 4_100, held(8, 7_000)),
        [(RequestId(2), leading(B, 8, valid(2_900), 2_600))]
    );
}

#[test]
fn the_lease_of_a_client_that_resigns_is_released_at_once() {
    let mut queue = led();
    assert_eq!(queue.resign(A, Some(NodeId(2)), &mut Vec::new()), Ok(SessionReply::Resigned));
    assert_eq!(queue.renew(at(1_001), A, held(7, 4_000)), Err(SessionError::Expired));
    assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)).0, QueueAction::Release(Some(NodeId(2))));
    assert!(queue.is_empty());
    assert_eq!(queue.resign(A, None, &mut Vec::new()), Err(SessionError::Expired));
}

#[test]
fn a_waiting_client_that_resigns_leaves_the_queue() {
    let mut queue = queue();
    enter(&mut queue, 0, 1, A, 1_000);
    let mut replies = Vec::new();
    assert_eq!(queue.resign(A, None, &mut replies), Ok(SessionReply::Resigned));
    assert_eq!(replies, [(RequestId(1), Ok(SessionReply::Superseded))]);
    assert!(queue.is_empty());
}

#[test]
fn a_promise_is_kept_when_an_operator_revokes() {
    let mut queue = led();
    assert_eq!(queue.revoke(at(1_500), Some(NodeId(3))), Some(Span::from_millis(2_500)));
    assert_eq!(queue.renew(at(2_000), A, held(7, 5_000)), Err(SessionError::Revoked));
    assert_idle(&mut queue, 3_999, held(7, 6_000));
    let mut patient = led();
    patient.revoke(at(1_500), Some(NodeId(3)));
    let over = QueueAction::Release(Some(NodeId(3)));
    assert_eq!(reconcile(&mut patient, 4_000, held(7, 6_000)).0, over);
    // Or when the client has resigned.
    queue.resign(A, None, &mut Vec::new()).unwrap();
    assert_eq!(reconcile(&mut queue, 3_999, held(7, 6_000)).0, over);
    assert_eq!(queue.revoke(at(4_000), None), None);
}

#[test]
fn a_place_in_the_queue_is_kept_for_a_while() {
    let mut queue = queue();
    enter(&mut queue, 0, 1, A, 1_000);
    enter(&mut queue, 0, 2, B, 60_000);
    assert_eq!(reconcile(&mut queue, 1_000, None), (QueueAction::None, vec![(RequestId(1), waiting(A, 0))]));
    // The node leads while A is away: A is expected back.
    assert_idle(&mut queue, 2_000, held(5, 4_900));
    assert_eq!(ask_again(&mut queue, 2_500, 3, A, 3_000), []);
    assert_eq!(grant(&mut queue, 2_500, held(5, 4_900))[0].0, RequestId(3));
    // A hung up in the meantime, and never comes back.
    queue.on_reply_undelivered(at(2_500), RequestId(3));
    assert_idle(&mut queue, 5_499, held(5, 7_000));
    // The lease was for A: other nodes have their chance before B.
    assert_eq!(reconcile(&mut queue, 5_500, held(5, 7_000)).0, QueueAction::Release(None));
    assert_idle(&mut queue, 5_500, None);
    assert_eq!(grant(&mut queue, 5_500, held(6, 8_000))[0].0, RequestId(2));
    let again = ask_again(&mut queue, 5_600, 4, A, 3_000);
    assert_eq!(again, [(RequestId(4), Err(SessionError::Expired))]);
}

#[test]
fn no_client_starts_to_lead_while_the_node_stops() {
    let mut queue = led();
    enter(&mut queue, 1_100, 2, B, 60_000);
    let mut replies = Vec::new();
    queue.stop(at(1_200), &mut replies);
    assert_eq!(replies, [(RequestId(2), Err(SessionError::Stopping))]);
    let late = try_enter(&mut queue, 1_300, 3, SessionId(3), 3_000);
    assert_eq!(late, [(RequestId(3), Err(SessionError::Stopping))]);
    assert!(queue.is_held());
    assert_eq!(reconcile(&mut queue, 4_000, held(7, 6_000)).0, QueueAction::Release(None));
    assert!(queue.is_empty());
}

#[test]
fn a_queue_has_a_limit() {
    let mut queue = queue();
    for session in 0..MAX_CLIENTS as u64 {
        enter(&mut queue, 0, session, SessionId(session.into()), 1_000);
    }
    let more = try_enter(&mut queue, 0, 9_999, SessionId(9_999), 3_000);
    assert_eq!(more, [(RequestId(9_999), Err(SessionError::QueueFull))]);
}

/// A reply in flight may still renew a lease that is over by the clock. The lease must not be offered again with the
/// same token.
#[test]
fn a_lease_that_has_run_out_is_released_and_not_offered_again() {
    let mut queue = led();
    enter(&mut queue, 1_100, 2, B, 60_000);
    assert_eq!(reconcile(&mut queue, 4_100, None).0, QueueAction::Release(None));
    assert_idle(&mut queue, 4_100, None);
    assert!(!queue.is_held() && queue.wanted().is_some(), "the node campaigns for B");
}

#[test]
fn a_client_without_any_reply_cannot_come_back_and_loses_its_place() {
    // The first reply, Leading or Waiting, does not reach the client; or the client hangs up before.
    for how in ["leads", "waits", "hangs up"] {
        let mut queue = queue();
        enter(&mut queue, 0, 1, A, 1_000);
        match how {
            "leads" => {
                grant(&mut queue, 500, held(5, 4_000));
                queue.on_reply_undelivered(at(500), RequestId(1));
            }
            "waits" => {
                reconcile(&mut queue, 1_000, None);
                queue.on_reply_undelivered(at(1_000), RequestId(1));
            }
            _ => {
                queue.on_hang_up(at(500), RequestId(1));
                reconcile(&mut queue, 500, None);
            }
        }
        assert!(queue.is_empty(), "{how}");
    }
}

/// A client that hangs up may have read the reply before: no other client gets its lease.
#[test]
fn a_hang_up_after_the_reply_changes_nothing() {
    let mut queue = led();
    queue.on_hang_up(at(1_001), RequestId(1));
    assert_idle(&mut queue, 1_001, held(7, 4_000));
    assert!(queue.is_held_by(A));
    // Nor does a reply that was not delivered, if a later one was.
    queue.renew(at(1_100), A, held(7, 4_000)).unwrap();
    queue.on_reply_undelivered(at(1_101), RequestId(1));
    assert!(queue.is_held_by(A));
}

/// A client that asks again and again, and does not wait for an answer, gets the lease that the node holds.
#[test]
fn a_client_that_does_not_wait_leads_if_the_node_does() {
    let mut queue = queue();
    enter(&mut queue, 0, 1, A, 0);
    assert_eq!(reconcile(&mut queue, 0, None), (QueueAction::None, vec![(RequestId(1), waiting(A, 0))]));
    assert_idle(&mut queue, 100, held(5, 3_000));
    assert_eq!(ask_again(&mut queue, 200, 2, A, 0), []);
    assert_eq!(grant(&mut queue, 200, held(5, 3_000))[0].0, RequestId(2));
}

#[test]
fn the_later_of_two_requests_of_a_session_is_answered() {
    let mut queue = queue();
    enter(&mut queue, 0, 1, A, 0);
    reconcile(&mut queue, 0, None);
    assert_eq!(ask_again(&mut queue, 1, 2, A, 1_000), []);
    let replies = ask_again(&mut queue, 2, 3, A, 1_000);
    assert_eq!(replies, [(RequestId(2), Ok(SessionReply::Superseded))]);
    assert_eq!(grant(&mut queue, 3, held(5, 3_000))[0].0, RequestId(3));
}

/// The operator was told that the node hands over. A client that has not read that it leads does not change that.
#[test]
fn a_revoked_lease_is_handed_over_also_if_its_client_has_not_read_that_it_leads() {
    for known in [false, true] {
        let mut queue = queue();
        enter(&mut queue, 0, 1, A, if known { 10 } else { 1_000 });
        if known {
            reconcile(&mut queue, 10, None);
            assert_eq!(ask_again(&mut queue, 20, 2, A, 1_000), []);
        }
        let request = grant(&mut queue, 100, held(7, 3_000))[0].0;
        assert!(queue.revoke(at(200), Some(NodeId(3))).is_some());
        queue.on_reply_undelivered(at(300), request);
        assert_eq!(reconcile(&mut queue, 300, held(7, 3_000)).0, QueueAction::Release(Some(NodeId(3))));
        assert_idle(&mut queue, 300, None);
        assert!(!queue.is_held());
        assert_eq!(queue.wanted(), known.then_some(LEASE), "a client that knows its session keeps its place");
    }
}
