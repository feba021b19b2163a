//! What a voter tells a holder of those who wait.

use super::*;

/// Nodes that do not vote.
const D: NodeId = NodeId(14);
const E: NodeId = NodeId(15);

fn propose(harness: &mut Harness, from: NodeId, number: u64, renewal: bool) -> Vec<(NodeId, Reply)> {
    let (request, ttl) = (harness.request(), Span::from_millis(TTL));
    let value = crate::ValueVersion::NONE;
    let ask = Ask::Propose { request, token: token(number), ttl, attribute: 0, renewal, value };
    harness.ask_about(name(), from, ask)
}

fn enquire(harness: &mut Harness, from: NodeId, standing: Option<Attribute>) -> Vec<(NodeId, Reply)> {
    let request = harness.request();
    harness.ask_about(name(), from, Ask::Enquire { request, standing })
}

/// The nodes that are told that others wait.
fn told(replied: &[(NodeId, Reply)]) -> Vec<NodeId> {
    let contended = |(to, reply): &(NodeId, Reply)| matches!(reply, Reply::Contended).then_some(*to);
    replied.iter().filter_map(contended).collect()
}

#[test]
fn a_holder_without_a_vote_hears_of_the_first_that_waits() {
    let mut harness = Harness::new();
    harness.prepare(D, 1);
    assert_eq!(told(&propose(&mut harness, D, 1, false)), [], "nobody waits");
    assert_eq!(told(&enquire(&mut harness, A, None)), [], "an observer does not wait");
    assert_eq!(told(&enquire(&mut harness, D, Some(0))), [], "the holder does not wait for itself");
    assert_eq!(told(&enquire(&mut harness, A, Some(0))), [D]);
    assert_eq!(told(&enquire(&mut harness, A, Some(0))), [], "once");
    assert_eq!(told(&enquire(&mut harness, E, Some(0))), [], "for all that wait");
    assert_eq!(told(&propose(&mut harness, D, 1, true)), [], "a renewal is no new lease");
}

/// A refused request queues its candidate, too.
#[test]
fn a_refused_candidate_waits() {
    let mut harness = Harness::new();
    harness.prepare(D, 1);
    propose(&mut harness, D, 1, false);
    let request = harness.request();
    let refused = Ask::Prepare { request, token: token(2), attribute: 0 };
    assert_eq!(told(&harness.ask_about(name(), E, refused)), [D]);
}

#[test]
fn the_next_holder_hears_of_those_who_wait_when_it_gets_the_lease() {
    let mut harness = Harness::new();
    enquire(&mut harness, D, Some(0));
    enquire(&mut harness, E, Some(0));
    harness.prepare(D, 1);
    let replied = propose(&mut harness, D, 1, false);
    assert_eq!(told(&replied), [D], "E waits");
    assert!(matches!(replied[..], [_, (D, Reply::Accepted { .. })]), "{replied:?}");
    assert_eq!(harness.release(D, 1, None), [E]);
    harness.prepare(E, 2);
    assert_eq!(told(&propose(&mut harness, E, 2, false)), [], "nobody waits any more");
}

/// Its own voter knows the candidates that wait.
#[test]
fn a_holder_that_votes_hears_of_nobody() {
    let mut harness = Harness::new();
    harness.prepare(A, 1);
    propose(&mut harness, A, 1, false);
    assert_eq!(told(&enquire(&mut harness, D, Some(0))), []);
    assert_eq!(harness.release(A, 1, None), [D]);
    enquire(&mut harness, D, Some(0));
    harness.prepare(A, 2);
    assert_eq!(told(&propose(&mut harness, A, 2, false)), []);
}
