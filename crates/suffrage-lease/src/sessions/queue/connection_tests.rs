//! Clients by connection in a queue.

use super::*;

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

fn with_bug(bug: Option<Bug>) -> SessionQueue {
    SessionQueue::new(SessionConfig { bug, ..SessionConfig::new("1%".parse().unwrap()) })
}

fn hold(queue: &mut SessionQueue, request: u64, session: SessionId) -> Replies {
    let mut replies = Vec::new();
    let arrival = Arrival { request: RequestId(request), received: at(0), new_session: session };
    queue.hold(arrival, (LEASE, None), &mut replies);
    replies
}

fn reconcile(queue: &mut SessionQueue, now: u64, held: Option<NodeLease>) -> (QueueAction, Replies) {
    let mut replies = Vec::new();
    (queue.reconcile(at(now), held, &mut replies), replies)
}

fn told(request: u64, state: ConnectionState) -> (RequestId, SessionOutcome) {
    (RequestId(request), Ok(SessionReply::Connection(state)))
}

fn waiting(request: u64, queue_position: usize) -> (RequestId, SessionOutcome) {
    told(request, ConnectionState::Waiting { queue_position })
}

fn leading(request: u64, session: SessionId, until: u64, hand_over: bool) -> (RequestId, SessionOutcome) {
    told(request, ConnectionState::Leading { session, token: 7, until: at(until), hand_over })
}

fn ended(request: u64, reason: LossReason) -> (RequestId, SessionOutcome) {
    told(request, ConnectionState::Ended(reason))
}

/// A leads by connection 1 with token 7 since 1,000, by a lease of the node until 4,000; B waits by connection 2.
fn led_with(bug: Option<Bug>) -> SessionQueue {
    let mut queue = with_bug(bug);
    assert_eq!(hold(&mut queue, 1, A), []);
    assert_eq!(hold(&mut queue, 2, B), []);
    let (action, replies) = reconcile(&mut queue, 500, None);
    assert_eq!((action, replies), (QueueAction::None, vec![waiting(1, 0), waiting(2, 1)]));
    assert_eq!(reconcile(&mut queue, 1_000, held(7, 4_000)), (QueueAction::Offer(LEASE), vec![]));
    let mut replies = Vec::new();
    queue.grant(at(1_000), held(7, 4_000).unwrap(), &mut replies);
    let beyond = if bug == Some(Bug::DeadlineBeyondLease) { 3_000 } else { 0 };
    assert_eq!(replies, [leading(1, A, 4_000 + beyond, false)]);
    assert_eq!(reconcile(&mut queue, 1_000, held(7, 4_000)), (QueueAction::None, vec![waiting(2, 0)]));
    assert!(queue.is_held_by_connection());
    queue
}

fn led() -> SessionQueue {
    led_with(None)
}

#[test]
fn the_client_is_told_every_renewal_of_the_nodes_lease_and_never_expires() {
    let mut queue = led();
    assert_eq!(queue.next_due(), Time::MAX);
    for until in [5_000, 8_000, 20_000] {
        let told = reconcile(&mut queue, until - 3_000, held(7, until));
        assert_eq!(told, (QueueAction::None, vec![leading(1, A, until, false)]));
        assert_eq!(reconcile(&mut queue, until - 2_999, held(7, until)), (QueueAction::None, vec![]));
    }
}

#[test]
fn the_lease_of_a_dead_holder_is_released_at_once() {
    let mut queue = led();
    queue.on_connection_end(at(1_001), RequestId(1), ConnectionEnd::HolderGone);
    assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)), (QueueAction::Release(None), vec![]));
    assert!(!queue.is_held());
    let mut queue = led_with(Some(Bug::KeepDeadHolder));
    queue.on_connection_end(at(1_001), RequestId(1), ConnectionEnd::HolderGone);
    assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)), (QueueAction::None, vec![]));
}

/// The client may live, and may not have noticed.
#[test]
fn a_broken_connection_keeps_the_lease_until_the_last_deadline() {
    let mut queue = led();
    reconcile(&mut queue, 2_000, held(7, 5_000));
    queue.on_connection_end(at(2_001), RequestId(1), ConnectionEnd::Broken);
    assert_eq!(queue.next_due(), at(5_000));
    // The node renews its lease, and promises nothing more.
    assert_eq!(reconcile(&mut queue, 4_999, held(7, 8_000)), (QueueAction::None, vec![]));
    assert!(!queue.is_held_by_connection());
    assert_eq!(reconcile(&mut queue, 5_000, held(7, 8_000)), (QueueAction::Release(None), vec![]));
    let mut queue = led_with(Some(Bug::ReleaseWhenBroken));
    queue.on_connection_end(at(1_001), RequestId(1), ConnectionEnd::Broken);
    assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)).0, QueueAction::Release(None));
}

/// A process may die after its connection broke. The driver has lost the connection, and waits for the deadline.
#[test]
fn the_end_of_an_unknown_connection_changes_nothing() {
    let mut queue = led();
    for end in [ConnectionEnd::HolderGone, ConnectionEnd::Broken] {
        queue.on_connection_end(at(1_001), RequestId(9), end);
        assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)), (QueueAction::None, vec![]));
    }
    assert!(queue.is_held_by(A));
}

#[test]
fn a_client_that_waits_leaves_the_queue_with_its_connection() {
    for end in [ConnectionEnd::HolderGone, ConnectionEnd::Broken] {
        let mut queue = led();
        hold(&mut queue, 3, SessionId(3));
        assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)).1, [waiting(3, 1)]);
        queue.on_connection_end(at(1_002), RequestId(2), end);
        assert_eq!(reconcile(&mut queue, 1_002, held(7, 4_000)), (QueueAction::None, vec![waiting(3, 0)]));
    }
}

#[test]
fn a_client_that_is_asked_to_hand_over_has_until_its_deadline() {
    let mut queue = led();
    assert_eq!(queue.revoke(at(2_000), Some(NodeId(5))), Some(Span::from_millis(2_000)));
    let told = reconcile(&mut queue, 2_000, held(7, 4_000));
    assert_eq!(told, (QueueAction::None, vec![leading(1, A, 4_000, true)]));
    // Renewals of the node promise nothing more.
    assert_eq!(reconcile(&mut queue, 3_999, held(7, 6_999)), (QueueAction::None, vec![]));
    let over = reconcile(&mut queue, 4_000, held(7, 6_999));
    assert_eq!(over, (QueueAction::Release(Some(NodeId(5))), vec![ended(1, LossReason::HandedOver)]));
    // A client that closes its connection does not keep the others waiting.
    let mut queue = led();
    queue.revoke(at(2_000), Some(NodeId(5)));
    queue.on_connection_end(at(2_001), RequestId(1), ConnectionEnd::HolderGone);
    assert_eq!(reconcile(&mut queue, 2_001, held(7, 4_000)).0, QueueAction::Release(Some(NodeId(5))));
}

#[test]
fn a_client_that_resigns_or_loses_the_lease_is_told_the_end() {
    let mut queue = led();
    assert_eq!(queue.resign(A, None, &mut Vec::new()), Ok(SessionReply::Resigned));
    let resigned = (QueueAction::Release(None), vec![ended(1, LossReason::Resigned)]);
    assert_eq!(reconcile(&mut queue, 1_001, held(7, 4_000)), resigned);
    let mut queue = led();
    let expired = (QueueAction::Release(None), vec![ended(1, LossReason::Expired)]);
    assert_eq!(reconcile(&mut queue, 4_000, None), expired);
    assert!(!queue.is_held());
}

/// The leadership ends with the connection: a request without it must not prolong it.
#[test]
fn a_session_by_connection_cannot_be_renewed() {
    let mut queue = led();
    let renewed = |queue: &mut SessionQueue| queue.renew(at(1_001), A, held(7, 4_000));
    assert_eq!(renewed(&mut queue), Err(SessionError::Expired));
    queue.on_connection_end(at(1_001), RequestId(1), ConnectionEnd::Broken);
    assert_eq!(renewed(&mut queue), Err(SessionError::Expired));
}

#[test]
fn a_stopping_node_refuses_those_that_wait_and_asks_the_holder_to_stop() {
    let mut queue = led();
    let mut replies = Vec::new();
    queue.stop(at(2_000), &mut replies);
    assert_eq!(replies, [(RequestId(2), Err(SessionError::Stopping))]);
    assert_eq!(reconcile(&mut queue, 2_000, held(7, 4_000)).1, [leading(1, A, 4_000, true)]);
    assert_eq!(hold(&mut queue, 3, B), [(RequestId(3), Err(SessionError::Stopping))]);
}

#[test]
fn the_queue_is_bounded() {
    let mut queue = with_bug(None);
    for request in 0..MAX_CLIENTS as u64 {
        assert_eq!(hold(&mut queue, request, SessionId(u128::from(request))), []);
    }
    assert_eq!(hold(&mut queue, 5_000, A), [(RequestId(5_000), Err(SessionError::QueueFull))]);
}

#[test]
fn a_deadline_beyond_the_lease_is_a_deliberate_bug() {
    led_with(Some(Bug::DeadlineBeyondLease));
}
