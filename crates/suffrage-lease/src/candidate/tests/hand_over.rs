//! Hand-overs with a stop margin of 8 delays, and leases of 30.

use super::*;

const MARGIN: u64 = 8;

type Input = fn(&mut Candidate, &mut Record, Time);

/// A candidate that leads with token 1 until 30.4, at time 2.
fn leading() -> Harness {
    let mut harness = Harness::with(Timings { stop_margin: Span::UNIT * MARGIN, ..Timings::of_tests() }, 7);
    harness.input(|candidate, fx, now| candidate.contend(fx, now));
    harness.wait(1);
    harness.replies(1..=3, |request| Reply::Promised { request });
    harness.wait(1);
    harness.replies(1..=3, accepted);
    assert!(harness.candidate.lease().is_some());
    harness
}

fn at(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

/// Every cause but the end of the work gives notice, and then the release.
#[test]
fn a_leader_that_hands_over_keeps_its_lease_for_the_stop_margin() {
    let causes: [(Input, Option<NodeId>); 4] = [
        (|candidate, fx, now| candidate.hand_over(fx, now, None), None),
        (|candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(3))), Some(NodeId(3))),
        (|candidate, fx, now| candidate.on_claim(fx, now, NodeId(4), 99), Some(NodeId(4))),
        (|candidate, fx, now| candidate.set_healthy(fx, now, false), None),
    ];
    for (cause, to) in causes {
        let mut harness = leading();
        assert_eq!(harness.input(cause), [Effect::LeadsUntil(at(2 + MARGIN))], "nothing is sent");
        assert_eq!(harness.candidate.lease().map(|lease| lease.valid_until), Some(at(2 + MARGIN)));
        assert_eq!(harness.candidate.next_due(), at(2 + MARGIN));
        harness.wait(MARGIN - 1);
        assert_eq!(harness.input(|candidate, fx, now| candidate.on_due(fx, now)), []);
        let done = harness.due();
        assert_eq!(harness.now, at(2 + MARGIN));
        assert_eq!(done.first(), Some(&Effect::Announced(SteppedDown)), "before any voter learns of it");
        assert_eq!(released(&done), Some((1, to)));
        assert_eq!((harness.candidate.lease(), harness.candidate.pending_hand_over()), (None, None));
    }
}

#[test]
fn the_release_is_sent_when_the_work_has_ended() {
    let mut harness = leading();
    harness.input(|candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(3))));
    harness.wait(2);
    let done = harness.input(|candidate, fx, now| candidate.release(fx, now, None));
    assert_eq!(done.first(), Some(&Effect::Announced(SteppedDown)));
    assert_eq!(released(&done), Some((1, Some(NodeId(3)))), "to the target of the hand-over");
    assert!(harness.candidate.lease().is_none());
}

#[test]
fn a_late_renewal_does_not_lengthen_the_lease_again() {
    let mut harness = leading();
    let renewal = harness.due();
    assert_eq!(asked(&renewal), (vec![], vec![1]));
    harness.wait(1);
    harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None));
    let end = harness.candidate.lease().map(|lease| lease.valid_until);
    assert_eq!(end, Some(harness.now + Span::from_millis(MARGIN)));
    assert_eq!(harness.replies(1..=5, accepted), []);
    assert_eq!(harness.candidate.lease().map(|lease| lease.valid_until), end);
    // Nor does a change of the voters.
    let voters: Arc<[NodeId]> = (1..=3).map(NodeId).collect();
    assert_eq!(harness.input(|candidate, fx, now| candidate.reconfigure(fx, now, &voters)), []);
    assert_eq!(harness.candidate.lease().map(|lease| lease.valid_until), end);
}

#[test]
fn a_second_command_changes_the_target_and_not_the_end() {
    let mut harness = leading();
    harness.input(|candidate, fx, now| candidate.set_healthy(fx, now, false));
    harness.wait(3);
    for input in [
        (|candidate, fx, now| candidate.set_healthy(fx, now, true)) as Input,
        |candidate, fx, now| candidate.hand_over(fx, now, None),
        |candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(2))),
        |candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(3))),
        |candidate, fx, now| candidate.on_claim(fx, now, NodeId(4), 99),
        |candidate, fx, now| candidate.hand_over(fx, now, None),
        |candidate, fx, now| candidate.on_due(fx, now),
    ] {
        assert_eq!(harness.input(input), []);
        assert_eq!(harness.candidate.lease().map(|lease| lease.valid_until), Some(at(2 + MARGIN)));
    }
    assert_eq!(harness.candidate.next_due(), at(2 + MARGIN));
    assert_eq!(released(&harness.due()), Some((1, Some(NodeId(3)))));
}

/// The rest of the lease may be shorter than the margin, if renewals fail.
#[test]
fn a_hand_over_never_lengthens_a_lease() {
    let mut harness = leading();
    let end = harness.candidate.lease().map(|lease| lease.valid_until);
    harness.wait(25);
    harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None));
    assert_eq!(harness.candidate.lease().map(|lease| lease.valid_until), end);
}

/// Voters may have granted the greater token, which the leader has never led with.
#[test]
fn a_greater_token_in_flight_is_released_at_the_end_too() {
    let mut harness = leading();
    harness.due();
    harness.replies([1, 2, 3], rejected);
    harness.replies([1, 2, 3], |request| Reply::Promised { request });
    harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None));
    let done = harness.due();
    let tokens: std::collections::BTreeSet<u64> = done
        .iter()
        .filter_map(|effect| match effect {
            Effect::Asked(_, Ask::Release { token, .. }) => Some(token.number()),
            _ => None,
        })
        .collect();
    assert_eq!(tokens, [1, 41].into());
}

/// A guard process with deadlines of its own may rely on the lease as it was granted.
#[test]
fn a_pinned_lease_expires_if_the_work_does_not_end_within_the_margin() {
    let mut harness = leading();
    harness.input(|candidate, _, _| candidate.set_pinned(true));
    harness.input(|candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(3))));
    let done = harness.due();
    assert_eq!((announced(&done), released(&done)), (vec![SteppedDown], None));
    let mut harness = leading();
    harness.input(|candidate, _, _| candidate.set_pinned(true));
    harness.input(|candidate, fx, now| candidate.hand_over(fx, now, Some(NodeId(3))));
    let done = harness.input(|candidate, fx, now| candidate.release(fx, now, None));
    assert_eq!(released(&done), Some((1, Some(NodeId(3)))), "the work has ended");
}

/// The application may have been paused too, and may need the rest of the margin.
#[test]
fn a_lease_expires_if_the_leader_was_paused_at_the_end_of_the_margin() {
    for (paused, expected) in [(1, Some((1, None))), (2, None)] {
        let mut harness = leading();
        harness.input(|candidate, fx, now| candidate.hand_over(fx, now, None));
        harness.wait(MARGIN + paused);
        let done = harness.input(|candidate, fx, now| candidate.on_due(fx, now));
        assert_eq!((announced(&done), released(&done)), (vec![SteppedDown], expected));
    }
}
