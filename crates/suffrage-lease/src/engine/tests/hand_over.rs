//! Hand-overs of an engine: notice, release, leaving, and requests of other nodes.

use super::*;

const MARGIN: Span = Span::from_millis(500);

/// An engine that leads `x` alone, with a stop margin.
fn leading() -> (Harness, ElectionIndex) {
    let mut harness = Harness::new(1);
    let config = CandidateConfig { stop_margin: MARGIN, ..CandidateConfig::default() };
    harness.command(at(0), "x", Action::Join(Some(config)));
    harness.command(at(0), "x", Action::Stand { once: false });
    let index = harness.index("x").unwrap();
    assert!(harness.engine.lease(at(0), index).is_some());
    (harness, index)
}

fn end(harness: &Harness, now: Time, index: ElectionIndex) -> Option<Time> {
    harness.engine.lease(now, index).map(|lease| lease.valid_until)
}

#[test]
fn every_hand_over_gives_notice_and_a_release_gives_none() {
    let actions = [Action::Resign, Action::Transfer(NodeId(7)), Action::Health(false), Action::Withdraw];
    for action in actions {
        let (mut harness, index) = leading();
        harness.command(at(10), "x", action);
        assert_eq!(end(&harness, at(10), index), Some(at(10) + MARGIN), "{action}");
        assert!(harness.engine.election(index).unwrap().hand_over().is_some());
        assert_eq!(harness.record.due, Some(at(510)));
        assert!(harness.fire_timer(at(510)));
        assert_eq!(end(&harness, at(510), index), None, "{action}");
        let (mut harness, index) = leading();
        harness.command(at(10), "x", action);
        harness.command(at(20), "x", Action::Release(None));
        assert_eq!(end(&harness, at(20), index), None, "{action}");
    }
}

/// A node that does not vote, and leads `x`.
fn leading_without_a_vote() -> (Harness, ElectionIndex) {
    let mut harness = Harness::of(NodeId(9), EngineConfig::new((1..=3).map(NodeId)), Start::Fresh);
    let index = harness.leads(at(0), "x");
    (harness, index)
}

/// Releases at 10 ms and stands again. True if the node contends at once.
fn contends_again(harness: &mut Harness) -> bool {
    harness.sent();
    harness.command(at(10), "x", Action::Release(None));
    harness.command(at(10), "x", Action::Stand { once: false });
    harness.bodies().iter().any(|body| matches!(body, Body::Ask(Ask::Prepare { .. })))
}

#[test]
fn a_node_without_a_vote_stands_again_at_once_unless_a_voter_says_that_others_wait() {
    let accepted = Reply::Accepted { request: Request(0), renewal: true, contended: true };
    let contended = || [about(Name::of("x"), Body::Reply(accepted))];
    let (mut harness, _) = leading_without_a_vote();
    assert!(contends_again(&mut harness));
    let (mut harness, _) = leading_without_a_vote();
    harness.receive(at(9), NodeId(7), contended());
    assert!(contends_again(&mut harness), "node 7 does not vote");
    let (mut harness, index) = leading_without_a_vote();
    harness.receive(at(9), NodeId(2), contended());
    assert!(!contends_again(&mut harness));
    let due = harness.engine.election(index).unwrap().campaign_at.unwrap();
    assert!(due >= at(10) + MIN_YIELD, "{due:?}");
    harness.fire_timer(due);
    harness.all_agree(due);
    assert!(harness.engine.lease(due, index).is_some());
    let later = due + Span::from_millis(1);
    harness.command(later, "x", Action::Release(None));
    harness.command(later, "x", Action::Stand { once: false });
    harness.all_agree(later);
    assert!(harness.engine.lease(later, index).is_some(), "it has yielded once");
}

/// It may have lost its disk. Other voters take it for one that knows who waits, and tell it nothing.
#[test]
fn a_node_of_the_voters_that_does_not_vote_yields_always() {
    let (mut harness, _) = {
        let config = EngineConfig::new((1..=3).map(NodeId));
        let mut harness = Harness::of(ME, config, Start::Recovered(None));
        let index = harness.leads(at(0), "x");
        (harness, index)
    };
    assert!(harness.engine.voter().is_none());
    assert!(!contends_again(&mut harness));
}

#[test]
fn a_node_leaves_when_it_has_handed_over_and_may_join_again_meanwhile() {
    let (mut harness, index) = leading();
    harness.command(at(10), "x", Action::Leave);
    assert_eq!(end(&harness, at(10), index), Some(at(510)), "the work may go on");
    assert!(harness.engine.election(index).unwrap().is_leaving());
    assert!(harness.fire_timer(at(510)));
    assert_eq!(harness.index("x"), None);
    for ends in [false, true] {
        let (mut harness, index) = leading();
        harness.command(at(10), "x", Action::Leave);
        let config = CandidateConfig { attribute: 9, standing: true, ..CandidateConfig::default() };
        harness.command(at(20), "x", Action::Join(Some(config)));
        assert_eq!(harness.engine.election(index).unwrap().attribute(), 0);
        if ends {
            harness.command(at(30), "x", Action::Release(None));
        } else {
            assert!(harness.fire_timer(at(510)));
        }
        let state = harness.engine.election(harness.index("x").unwrap()).unwrap();
        assert_eq!((state.attribute(), state.is_leaving(), state.stands()), (9, false, true));
    }
}

#[test]
fn a_node_that_was_told_to_hand_over_stands_again_after_it_has_yielded() {
    let (mut harness, index) = leading();
    harness.command(at(10), "x", Action::Health(false));
    harness.command(at(20), "x", Action::Health(true));
    assert_eq!(end(&harness, at(20), index), Some(at(510)), "the hand-over goes on");
    let token =
        |harness: &Harness| harness.engine.lease(harness.record.now, index).map(|lease| lease.token.number());
    assert_eq!(token(&harness), Some(1));
    while token(&harness) != Some(2) {
        let due = harness.record.due.unwrap();
        assert!(due < at(1_000), "nobody else waits: {due:?}");
        harness.fire_timer(due);
    }
}

#[test]
fn a_request_of_another_node_counts_only_for_its_token() {
    let (mut harness, index) = leading();
    let request = |token, to| about(Name::of("x"), Body::HandOver { token: Token::after(token), to });
    harness.receive(at(10), NodeId(5), [request(1, None), request(0, Some(NodeId(7)))]);
    assert_eq!(harness.engine.take_hand_over_requests(), [(index, Some(NodeId(7)))]);
    harness.receive(
        at(10),
        NodeId(5),
        [about(Name::of("y"), Body::HandOver { token: Token::after(0), to: None })],
    );
    assert_eq!(harness.engine.take_hand_over_requests(), []);
}

#[test]
fn a_voter_passes_a_request_on_to_the_holder() {
    let mut harness = Harness::new(1);
    let name = Name::of("x");
    let (request, token, attribute) = (Request(1), Token::after(4), 0);
    let ttl = Span::from_millis(3_000);
    let prepare = Ask::Prepare { request, token, attribute };
    let propose =
        Ask::Propose { request, token, ttl, attribute, renewal: false, value: crate::ValueVersion::NONE };
    harness.receive(at(1), NodeId(8), [prepare, propose].map(|ask| about(name, Body::Ask(ask))));
    harness.record.sent.clear();
    harness.command(at(2), "x", Action::Move(Some(NodeId(6))));
    let sent: Vec<(NodeId, Body)> =
        harness.record.sent.drain(..).map(|(to, message)| (to, message.body)).collect();
    assert_eq!(sent, [(NodeId(8), Body::HandOver { token, to: Some(NodeId(6)) })]);
    harness.command(at(2), "y", Action::Move(None));
    assert!(harness.record.sent.is_empty(), "nobody leads y");
}

/// The claim names the next leader. A node that stands for one leadership at a time, as for clients and for `lead`, stands
/// again at once.
#[test]
fn a_node_that_has_handed_over_to_a_claimant_yields_to_it() {
    for votes in [true, false] {
        let me = if votes { ME } else { NodeId(9) };
        let mut harness = Harness::of(me, EngineConfig::new((1..=3).map(NodeId)), Start::Fresh);
        let index = harness.join(at(0), "x");
        harness.command(at(0), "x", Action::Stand { once: true });
        harness.all_agree(at(0));
        assert!(harness.engine.lease(at(0), index).is_some());
        harness.receive(at(10), NodeId(3), [about(Name::of("x"), Body::Claim { attribute: 9 })]);
        assert!(harness.engine.lease(at(10), index).is_none());
        let released = harness.bodies();
        let to_claimant = |body: &Body| matches!(body, Body::Ask(Ask::Release { to: Some(NodeId(3)), .. }));
        assert!(released.iter().any(to_claimant), "{released:?}");
        harness.command(at(10), "x", Action::Stand { once: true });
        let sent = harness.bodies();
        let contends = sent.iter().any(|body| matches!(body, Body::Ask(Ask::Prepare { .. })));
        assert!(!contends, "votes: {votes}");
    }
}
