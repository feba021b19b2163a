//! What a voter tells a holder of those who wait.

use super::*;

/// Nodes that do not vote.
const D: NodeId = NodeId(14);
const E: NodeId = NodeId(15);

/// Proposes, and returns whether the voter says that others wait.
fn is_contended(harness: &mut Harness, from: NodeId, number: u64, renewal: bool) -> bool {
    let (request, ttl) = (harness.request(), Span::from_millis(TTL));
    let value = crate::ValueVersion::NONE;
    let ask = Ask::Propose { request, token: token(number), ttl, attribute: 0, renewal, value };
    match harness.answer(name(), from, ask) {
        Some(Reply::Accepted { contended, .. }) => contended,
        other => panic!("{other:?}"),
    }
}

fn enquire(harness: &mut Harness, from: NodeId, standing: Option<Attribute>) {
    let request = harness.request();
    harness.answer(name(), from, Ask::Enquire { request, standing });
}

#[test]
fn a_holder_without_a_vote_hears_of_those_who_wait_when_it_renews() {
    let mut harness = Harness::new();
    harness.prepare(D, 1);
    assert!(!is_contended(&mut harness, D, 1, false), "nobody waits");
    enquire(&mut harness, A, None);
    assert!(!is_contended(&mut harness, D, 1, true), "an observer does not wait");
    enquire(&mut harness, D, Some(0));
    assert!(!is_contended(&mut harness, D, 1, true), "the holder does not wait for itself");
    enquire(&mut harness, A, Some(0));
    assert!(is_contended(&mut harness, D, 1, true));
}

/// A refused request queues its candidate, too.
#[test]
fn a_refused_candidate_waits() {
    let mut harness = Harness::new();
    harness.prepare(D, 1);
    is_contended(&mut harness, D, 1, false);
    let request = harness.request();
    harness.answer(name(), E, Ask::Prepare { request, token: token(2), attribute: 0 });
    assert!(is_contended(&mut harness, D, 1, true));
}

#[test]
fn the_next_holder_hears_of_those_who_wait_when_it_gets_the_lease() {
    let mut harness = Harness::new();
    enquire(&mut harness, D, Some(0));
    enquire(&mut harness, E, Some(0));
    harness.prepare(D, 1);
    assert!(is_contended(&mut harness, D, 1, false), "E waits");
    assert_eq!(harness.release(D, 1, None), [E]);
    harness.prepare(E, 2);
    assert!(!is_contended(&mut harness, E, 2, false), "nobody waits any more");
}

/// Its own voter knows the candidates that wait.
#[test]
fn a_holder_that_votes_hears_of_nobody() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    is_contended(&mut harness, A, 1, false);
    enquire(&mut harness, D, Some(0));
    assert!(!is_contended(&mut harness, A, 1, true));
    assert_eq!(harness.release(A, 1, None), [D]);
    enquire(&mut harness, D, Some(0));
    harness.prepare(A, 2);
    assert!(!is_contended(&mut harness, A, 2, false));
}
