//! Clients in line, with times as one likes.

use super::*;

const A: Session = Session(1);
const B: Session = Session(2);
const TTL: Span = Span::from_millis(3_000);
const WISH: Wish = Wish { ttl: TTL, rank: 0 };

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

fn lease(token: u64, until: u64) -> Option<Held> {
    Some(Held { token, until: at(until) })
}

fn line() -> Line {
    Line::new("1%".parse().unwrap())
}

/// The line has settled without anything to do or to say.
fn rests(line: &mut Line, now: u64, lease: Option<Held>) {
    let mut answers = Vec::new();
    assert_eq!((line.settle(at(now), lease, &mut answers), answers), (Step::Rest, vec![]));
}

fn enter(line: &mut Line, now: u64, session: Session, wait: u64) {
    line.campaign(at(now), at(now), (session, false), WISH, Span::from_millis(wait)).unwrap();
}

/// A leads with token 7 since 1,000, by a lease of the node until 4,000; it asked at 500.
fn led() -> Line {
    let mut line = line();
    enter(&mut line, 500, A, 10_000);
    rests(&mut line, 500, None);
    assert_eq!(line.settle(at(1_000), lease(7, 4_000), &mut Vec::new()), Step::Offer(WISH));
    let (session, answer) = line.grant(at(1_000), lease(7, 4_000).unwrap()).unwrap();
    // The end is at 4,000, as seen from 500.
    assert_eq!((session, answer), (A, Answer::Leads { token: 7, valid_for: valid(3_500) }));
    line
}

fn valid(millis: u64) -> Span {
    "1%".parse::<Drift>().unwrap().validity(Span::from_millis(millis))
}

/// The derivation at the top of the module, with numbers: over all drifts of both clocks within the bound, the
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
                let mut line = Line::new(drift);
                line.campaign(received, received, (A, false), WISH, Span::from_millis(99_999)).unwrap();
                let end = granted + Span::from_millis(left);
                let (_, answer) = line.grant(granted, Held { token: 1, until: end }).unwrap();
                let Answer::Leads { valid_for, .. } = answer else { panic!("it leads") };
                let client_ends = valid_for.as_nanos() as f64 / client;
                let node_ends = end.min(granted + TTL).as_nanos() as f64 / node;
                assert!(client_ends <= node_ends, "{bound} {wait} {network} {left} {node} {client}");
            }
        }
    }
}

#[test]
fn waiting_costs_no_more_than_a_quarter_of_a_lease() {
    for (drift, ttl) in [("0%", 3_000), ("1%", 200), ("1%", 3_000), ("10%", 1_000)] {
        let drift: Drift = drift.parse().unwrap();
        let (ttl, wait) = (Span::from_millis(ttl), longest_wait(drift, Span::from_millis(ttl)));
        let left = drift.validity(wait + ttl).as_nanos() as f64 - wait.as_nanos() as f64;
        assert!(left >= 0.55 * ttl.as_nanos() as f64, "{drift} {ttl}: {left}");
        assert!(wait <= LONGEST_WAIT);
    }
}

#[test]
fn a_lease_is_renewed_from_the_moment_it_was_asked_for() {
    let mut line = led();
    let renewed = line.renew(at(2_600), at(2_500), A, lease(7, 5_000));
    assert_eq!(renewed, Ok(Answer::Leads { token: 7, valid_for: valid(2_500) }));
    // The session ends before the node's lease does.
    let renewed = line.renew(at(2_600), at(2_500), A, lease(8, 9_000));
    assert_eq!(renewed, Ok(Answer::Leads { token: 8, valid_for: valid(3_100) }));
    assert_eq!(line.renew(at(2_600), at(2_600), B, lease(8, 9_000)), Err(Refusal::Lost));
    assert_eq!(line.renew(at(2_600), at(2_600), A, None), Err(Refusal::Lost), "the node does not lead");
}

#[test]
fn a_session_that_is_not_renewed_ends_and_the_next_must_have_another_lease() {
    let mut line = led();
    enter(&mut line, 1_500, B, 60_000);
    rests(&mut line, 3_999, lease(7, 6_000));
    assert_eq!((line.next_due(), line.wish()), (at(4_000), None));
    assert_eq!(line.settle(at(4_000), lease(7, 6_000), &mut Vec::new()), Step::Release(None));
    assert_eq!(line.renew(at(4_000), at(3_999), A, lease(7, 6_000)), Err(Refusal::Lost));
    assert_eq!(line.wish(), Some(WISH), "it asks again, for B");
    rests(&mut line, 4_001, None);
    assert_eq!(line.settle(at(4_100), lease(8, 7_000), &mut Vec::new()), Step::Offer(WISH));
    assert_eq!(line.grant(at(4_100), lease(8, 7_000).unwrap()).unwrap().0, B);
}

#[test]
fn who_resigns_is_followed_at_once() {
    let mut line = led();
    line.resign(A, Some(NodeId(2))).unwrap();
    assert_eq!(line.renew(at(1_001), at(1_001), A, lease(7, 4_000)), Err(Refusal::Lost));
    assert_eq!(line.settle(at(1_001), lease(7, 4_000), &mut Vec::new()), Step::Release(Some(NodeId(2))));
    assert!(line.is_empty());
    assert_eq!(line.resign(A, None), Err(Refusal::Lost));
}

#[test]
fn what_is_promised_is_kept_when_an_operator_wants_it_back() {
    let mut line = led();
    assert_eq!(line.recall(at(1_500), Some(NodeId(3))), Some(Span::from_millis(2_500)));
    assert_eq!(line.renew(at(2_000), at(2_000), A, lease(7, 5_000)), Err(Refusal::Recalled));
    rests(&mut line, 3_999, lease(7, 6_000));
    let mut patient = led();
    patient.recall(at(1_500), Some(NodeId(3)));
    let over = Step::Release(Some(NodeId(3)));
    assert_eq!(patient.settle(at(4_000), lease(7, 6_000), &mut Vec::new()), over);
    // Or when the client has given it up.
    line.resign(A, None).unwrap();
    assert_eq!(line.settle(at(4_000), lease(7, 6_000), &mut Vec::new()), over);
    assert_eq!(line.recall(at(4_000), None), None);
}

#[test]
fn a_place_in_line_is_kept_for_a_while() {
    let mut line = line();
    enter(&mut line, 0, A, 1_000);
    enter(&mut line, 0, B, 60_000);
    let mut answers = Vec::new();
    assert_eq!(line.settle(at(1_000), None, &mut answers), Step::Rest);
    assert_eq!(answers, [(A, Answer::Waits { place: 0, keep: TTL })]);
    // The node leads while A is away: it is expected back.
    rests(&mut line, 2_000, lease(5, 4_900));
    line.campaign(at(2_500), at(2_500), (A, true), WISH, TTL).unwrap();
    assert_eq!(line.settle(at(2_500), lease(5, 4_900), &mut Vec::new()), Step::Offer(WISH));
    assert_eq!(line.grant(at(2_500), lease(5, 4_900).unwrap()).unwrap().0, A);
    // It had hung up in the meantime, and never comes back.
    line.undelivered(at(2_500), WISH);
    rests(&mut line, 5_499, lease(5, 7_000));
    assert_eq!(line.settle(at(5_500), lease(5, 7_000), &mut Vec::new()), Step::Offer(WISH));
    assert_eq!(line.grant(at(5_500), lease(5, 7_000).unwrap()).unwrap().0, B, "and was never told the token");
    let again = line.campaign(at(5_600), at(5_600), (A, true), WISH, TTL);
    assert_eq!(again, Err(Refusal::Lost));
}

#[test]
fn nobody_comes_to_lead_while_the_daemon_stops() {
    let mut line = led();
    enter(&mut line, 1_100, B, 60_000);
    let mut answers = Vec::new();
    line.stop(at(1_200), &mut answers);
    assert_eq!(answers, [(B, Answer::Stopping)]);
    let late = line.campaign(at(1_300), at(1_300), (Session(3), false), WISH, TTL);
    assert_eq!(late, Err(Refusal::Stopping));
    assert!(line.is_held());
    assert_eq!(line.settle(at(4_000), lease(7, 6_000), &mut Vec::new()), Step::Release(None));
    assert!(line.is_empty());
}

#[test]
fn a_line_has_an_end() {
    let mut line = line();
    for session in 0..MOST_CLIENTS as u128 {
        enter(&mut line, 0, Session(session), 1_000);
    }
    let more = line.campaign(at(0), at(0), (Session(9_999), false), WISH, TTL);
    assert_eq!(more, Err(Refusal::Full));
}

#[test]
fn sessions_are_read_as_they_are_written() {
    let session = Session(0xfeed);
    assert_eq!(session.to_string().parse(), Ok(session));
    for bad in ["", "feed", "+000000000000000000000000000feed", &"0".repeat(33), &"é".repeat(16)] {
        assert!(bad.parse::<Session>().is_err(), "{bad}");
    }
}

/// What is only late by the clock may still be renewed by a word under way: it must not come back with the same token.
#[test]
fn a_lease_that_has_run_out_is_handed_over_and_not_offered_again() {
    let mut line = led();
    enter(&mut line, 1_100, B, 60_000);
    let mut answers = Vec::new();
    assert_eq!(line.settle(at(4_100), None, &mut answers), Step::Release(None));
    rests(&mut line, 4_100, None);
    assert!(!line.is_held() && line.wish().is_some(), "and B is stood for");
}

#[test]
fn who_has_never_been_answered_cannot_come_back_and_has_no_place() {
    // Its first answer does not reach it, be it that it leads or that it waits.
    for leads in [true, false] {
        let mut line = line();
        enter(&mut line, 0, A, 1_000);
        if leads {
            line.grant(at(500), lease(5, 4_000).unwrap()).unwrap();
            line.undelivered(at(500), WISH);
        } else {
            line.settle(at(1_000), None, &mut Vec::new());
            line.unheard(A);
        }
        assert!(line.is_empty(), "{leads}");
    }
}

/// One that asks again and again, and waits for no answer, is given what the node holds for it.
#[test]
fn who_does_not_wait_leads_if_the_node_does() {
    let mut line = line();
    enter(&mut line, 0, A, 0);
    let mut answers = Vec::new();
    assert_eq!(line.settle(at(0), None, &mut answers), Step::Rest);
    assert_eq!(answers, [(A, Answer::Waits { place: 0, keep: TTL })]);
    rests(&mut line, 100, lease(5, 3_000));
    line.campaign(at(200), at(200), (A, true), WISH, Span::ZERO).unwrap();
    assert_eq!(line.settle(at(200), lease(5, 3_000), &mut Vec::new()), Step::Offer(WISH));
    assert_eq!(line.grant(at(200), lease(5, 3_000).unwrap()).unwrap().0, A);
}
