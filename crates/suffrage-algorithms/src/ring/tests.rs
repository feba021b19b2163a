//! Tests of the common part of the ring algorithms, with the tokens of Chang and Roberts.

use super::testing::*;
use super::{Message, Options, Repair, Timer};
use crate::chang_roberts::{ChangRoberts, Election};
use suffrage_core::{Algorithm, Announcement, Attribute, Effect, NodeId, Rank, Span, Term};

const RING: &[u64] = &[1, 2, 3, 4, 5, 6];

fn rank(id: u64) -> Rank {
    Rank { attribute: id as Attribute, id: NodeId(id) }
}

fn election(hop: u32, term: u64, initiator: u64, best: u64) -> Message<Election> {
    Message::Election { hop, run: run(term, initiator), token: Election { best: rank(best) } }
}

fn process(me: u64) -> RingProcess<Election> {
    RingProcess::new(RING, me, Options::default())
}

/// A process without acknowledgements.
fn without_acks(me: u64, repair: &str) -> RingProcess<Election> {
    RingProcess::new(RING, me, options::<Election>(repair))
}

fn hop(message: &Message<Election>) -> u32 {
    message.hop().expect("the message requires an acknowledgement")
}

/// The addressee of the first message, and its hop.
fn first_hop(effects: &[Effect<ChangRoberts>]) -> (u64, u32) {
    let (to, message) = &sent(effects)[0];
    (*to, hop(message))
}

mod hops {
    use super::*;

    /// "If this node is unavailable, the process skips the unreachable node and attempts to contact
    /// the nodes after it in the ring, until eventually one of them responds" (10.5).
    #[test]
    fn unresponsive_successors_are_skipped_one_by_one() {
        let mut process = process(3);
        let first = process.campaign();
        assert_eq!((first_hop(&first).0, timer(&first, Timer::Hop)), (4, Some(3)));
        let second = process.expire(Timer::Hop, DELAY * 3);
        assert_eq!((first_hop(&second).0, timer(&second, Timer::Hop)), (5, Some(3)));
        let third = process.expire(Timer::Hop, DELAY * 3);
        let (to, hop) = first_hop(&third);
        assert_eq!(to, 6);
        let step = process.receive(6, Message::Ack { hop });
        assert_eq!(step, [Effect::CancelTimer { timer: Timer::Hop }]);
    }

    /// The next message starts at the true successor again: that process may be alive after all.
    #[test]
    fn a_skipped_successor_is_tried_again_with_the_next_message() {
        let mut process = process(3);
        process.campaign();
        process.expire(Timer::Hop, DELAY * 3);
        assert_eq!(sent(&process.receive(2, election(9, 2, 2, 6)))[1].0, 4);
    }

    #[test]
    fn suspected_successors_are_skipped_and_their_outstanding_messages_are_resent_at_once() {
        let mut process = process(3);
        process.suspect(5);
        assert_eq!(first_hop(&process.campaign()).0, 4);
        assert_eq!(first_hop(&process.suspect(4)).0, 6, "4 and 5 are suspected");
    }

    #[test]
    fn only_the_matching_acknowledgement_counts() {
        let mut process = process(3);
        let (_, hop) = first_hop(&process.campaign());
        for (from, hop) in [(4, hop + 1), (5, hop)] {
            assert_eq!(process.receive(from, Message::Ack { hop }), []);
        }
        assert_eq!(first_hop(&process.expire(Timer::Hop, DELAY * 3)).0, 5);
    }

    #[test]
    fn each_of_several_messages_awaits_its_own_acknowledgement() {
        let mut process = process(3);
        let (_, first) = first_hop(&process.campaign());
        process.now = process.now + DELAY;
        let second = process.receive(2, election(7, 2, 2, 6));
        assert_eq!(timer(&second, Timer::Hop), None, "the first is due first");
        let mut other = process.clone();
        let rest = process.receive(4, Message::Ack { hop: first });
        assert_eq!(timer(&rest, Timer::Hop), Some(3));
        assert_eq!(first_hop(&process.expire(Timer::Hop, DELAY * 3)).0, 5);
        let overdue = other.expire(Timer::Hop, DELAY * 2);
        assert_eq!((first_hop(&overdue), sent(&overdue).len()), ((5, first), 1));
        assert_eq!(timer(&overdue, Timer::Hop), Some(1));
    }

    /// An acknowledgement may be lost; the message is then sent again.
    #[test]
    fn duplicates_are_acknowledged_but_not_passed_on() {
        let mut process = process(3);
        let first = process.receive(2, election(7, 1, 2, 6));
        assert_eq!(first[0], send(2, Message::Ack { hop: 7 }));
        assert_eq!(sent(&first).len(), 2);
        assert_eq!(process.receive(2, election(8, 1, 2, 6)), [send(2, Message::Ack { hop: 8 })]);
    }

    #[test]
    fn without_acknowledgements_there_are_no_timers() {
        let mut process = without_acks(3, "detector");
        assert_eq!(process.campaign(), [send(4, election(0, 1, 3, 3))]);
        assert_eq!(process.receive(2, election(0, 1, 5, 6)), [send(4, election(0, 1, 5, 6))]);
    }

    /// A message of a process to itself takes a delay like any other.
    #[test]
    fn a_ring_of_one_elects_itself() {
        let mut single = RingProcess::<Election>::new(&[7], 7, Options::default());
        let call = single.campaign();
        assert_eq!((sent(&call), timer(&call, Timer::Hop)), (vec![], Some(1)));
        assert!(single.expire(Timer::Hop, DELAY).contains(&announce_leader(7, 1)));
        let back = single.expire(Timer::Hop, DELAY);
        assert!(sent(&back).is_empty() && timer(&back, Timer::Hop).is_none());
    }

    #[test]
    fn a_message_that_no_process_acknowledges_returns_to_its_sender() {
        let mut process = RingProcess::<Election>::new(&[1, 2, 3], 1, Options::default());
        process.campaign();
        process.expire(Timer::Hop, DELAY * 3);
        process.expire(Timer::Hop, DELAY * 3);
        assert!(process.expire(Timer::Hop, DELAY).contains(&announce_leader(1, 1)));
    }
}

mod runs {
    use super::*;

    #[test]
    fn a_new_election_has_a_term_above_all_observed_terms() {
        let mut process = without_acks(3, "none");
        process.receive(2, elected(run(7, 6), 0, 6));
        assert_eq!(sent(&process.campaign()), [(4, election(0, 8, 3, 3))]);
    }

    /// "A process can call for at most one election at a time."
    #[test]
    fn a_process_that_awaits_an_outcome_calls_no_election() {
        let mut process = without_acks(3, "none");
        process.campaign();
        assert_eq!(process.campaign(), []);
        process.receive(2, elected(run(1, 3), 0, 6));
        assert_ne!(process.campaign(), []);
    }

    #[test]
    fn the_first_process_that_sees_an_outdated_run_replies_outdated() {
        let mut process = without_acks(4, "both");
        process.receive(3, elected(run(5, 6), 0, 6));
        let reply = process.receive(3, election(0, 1, 3, 3));
        assert_eq!(reply, [send(3, Message::Outdated { run: run(1, 3), term: Term(5) })]);
        // The term is the same and the run is over: the initiator has missed the greater run.
        let reply = process.receive(3, election(0, 5, 3, 3));
        assert_eq!(reply, [send(3, Message::Outdated { run: run(5, 3), term: Term(5) })]);
        // This very run is over: a duplicate.
        assert_eq!(process.receive(3, election(0, 5, 6, 6)), []);
    }

    /// Otherwise the reply to each run would outdate the next one.
    #[test]
    fn an_outdated_run_is_dropped_while_a_greater_one_is_in_progress() {
        let mut process = without_acks(4, "both");
        process.receive(3, election(0, 5, 6, 6));
        assert_eq!(process.receive(3, election(0, 1, 3, 3)), []);
        assert_eq!(process.receive(3, elected(run(1, 3), 0, 6)), []);
    }

    /// "When a crashed process reboots, it holds an election" (unimore); the process has lost its term.
    #[test]
    fn a_recovering_process_calls_an_election_and_again_with_a_greater_term_after_outdated() {
        let mut process = without_acks(3, "none");
        assert_eq!(process.recover(), [send(4, election(0, 1, 3, 3))]);
        let outdated = |initiator, term| Message::Outdated { run: run(1, initiator), term: Term(term) };
        assert_eq!(process.receive(4, outdated(2, 5)), [], "the process does not await that run");
        assert_eq!(process.receive(4, outdated(3, 5)), [send(4, election(0, 6, 3, 3))]);
        assert_eq!(process.receive(4, outdated(3, 5)), [], "a late duplicate");
    }

    #[test]
    fn a_single_process_does_not_reply_outdated_to_its_own_token() {
        let mut process = RingProcess::<Election>::new(&[1, 2], 1, Options::default());
        process.suspect(2);
        process.campaign();
        process.restore(2);
        process.receive(2, elected(run(5, 2), 0, 2));
        assert_eq!(sent(&process.expire(Timer::Hop, DELAY)), []);
    }

    #[test]
    fn a_process_with_an_outdated_outcome_calls_an_election() {
        let mut process = without_acks(3, "none");
        process.receive(2, elected(run(2, 6), 0, 6));
        let same_term = Message::Outdated { run: run(2, 6), term: Term(2) };
        assert_eq!(process.receive(4, same_term), [], "a reply to a duplicate of the election");
        let later = Message::Outdated { run: run(2, 6), term: Term(9) };
        assert_eq!(process.receive(4, later), [send(4, election(0, 10, 3, 3))]);
    }
}

mod outcomes {
    use super::*;

    /// "… sets its variable elected to the id of the message. Forwards the message unless it is the
    /// new coordinator."
    #[test]
    fn an_outcome_is_accepted_and_passed_on_once() {
        let mut process = without_acks(3, "none");
        let message = elected(run(1, 6), 0, 6);
        assert_eq!(process.receive(2, message), [announce_leader(6, 1), send(4, message)]);
        assert_eq!(process.receive(2, message), []);
        let round = elected(run(1, 6), 1, 6);
        assert_eq!(process.receive(2, round), [send(4, round)], "the next round is passed on");
    }

    #[test]
    fn a_process_that_outranks_the_leader_calls_an_election() {
        let mut process = without_acks(5, "none");
        assert_eq!(process.receive(4, elected(run(3, 1), 0, 4)), [send(6, election(0, 4, 5, 5))]);
    }

    #[test]
    fn a_process_whose_rank_rises_above_the_leader_calls_an_election() {
        let mut process = without_acks(3, "none");
        process.receive(2, elected(run(1, 1), 0, 6));
        assert_eq!(process.set_attribute(4, 9), []);
        let mine = Rank { attribute: 10, id: NodeId(3) };
        let call = Message::Election { hop: 0, run: run(2, 3), token: Election { best: mine } };
        assert_eq!(process.set_attribute(3, 10), [send(4, call)]);
    }

    /// An outdated outcome is answered to its sender.
    #[test]
    fn of_two_outcomes_the_greater_run_wins() {
        let mut process = without_acks(3, "none");
        process.receive(2, elected(run(4, 5), 0, 6));
        let reply = process.receive(2, elected(run(3, 6), 8, 5));
        assert_eq!(reply, [send(2, Message::Outdated { run: run(3, 6), term: Term(4) })]);
        assert_eq!(process.receive(2, elected(run(4, 1), 0, 6)), [], "a lower run with the same leader");
        for outcome in [elected(run(4, 1), 0, 5), elected(run(4, 1), 1, 6)] {
            let mut process = process.clone();
            assert_eq!(process.receive(2, outcome), [send(4, election(0, 5, 3, 3))]);
        }
    }

    #[test]
    fn an_outcome_with_a_suspected_leader_is_passed_on_but_not_accepted() {
        let mut process = without_acks(3, "predecessor");
        process.receive(2, elected(run(1, 1), 0, 5));
        process.suspect(6);
        let effects = process.receive(2, elected(run(2, 1), 0, 6));
        assert!(
            effects.contains(&Effect::Announce(Announcement::Undecided)),
            "the former leader is superseded"
        );
        assert_eq!(sent(&effects), [(4, elected(run(2, 1), 0, 6))]);
        assert_eq!(sent(&process.expire(Timer::Outcome, DELAY * 18)), [(4, election(0, 3, 3, 3))]);
    }

    #[test]
    fn the_end_of_a_suspicion_without_a_leader_starts_an_election() {
        let mut process = without_acks(3, "predecessor");
        process.suspect(6);
        process.receive(2, elected(run(2, 1), 0, 6));
        assert_eq!(sent(&process.restore(6)), [(4, election(0, 3, 3, 3))]);
    }

    /// The leader repeats its announcement until it returns.
    #[test]
    fn an_outcome_that_does_not_return_circulates_again() {
        let mut process = without_acks(6, "both");
        process.campaign();
        let lead = process.receive(5, election(0, 1, 6, 6));
        assert_eq!(
            (sent(&lead), timer(&lead, Timer::Outcome)),
            (vec![(1, elected(run(1, 6), 0, 6))], Some(7))
        );
        let again = process.expire(Timer::Outcome, DELAY * 7);
        assert_eq!(sent(&again), [(1, elected(run(1, 6), 1, 6))]);
        let again = process.suspect(3);
        assert_eq!(sent(&again), [(1, elected(run(1, 6), 2, 6))], "the outcome may be lost with 3");
        assert_eq!(process.receive(5, elected(run(1, 6), 1, 6)), [], "not the latest round");
        assert_eq!(
            process.receive(5, elected(run(1, 6), 2, 6)),
            [Effect::CancelTimer { timer: Timer::Outcome }]
        );
        assert_eq!(process.suspect(2), []);
    }
}

mod detector {
    use super::*;

    #[test]
    fn a_suspected_leader_is_cleared_and_an_election_is_called() {
        let mut process = without_acks(3, "none");
        process.receive(2, elected(run(1, 1), 0, 6));
        let effects = process.suspect(6);
        assert_eq!(effects, [Effect::Announce(Announcement::Undecided), send(4, election(0, 2, 3, 3))]);
    }

    #[test]
    fn a_leader_circulates_its_outcome_once_for_several_restored_processes() {
        let mut process = without_acks(6, "none");
        process.suspect(2);
        process.suspect(3);
        process.campaign();
        process.receive(5, election(0, 1, 6, 6));
        for peer in [2, 3] {
            assert_eq!(process.restore(peer), [Effect::SetTimer { timer: Timer::Reaffirm, after: DELAY }]);
        }
        assert_eq!(process.expire(Timer::Reaffirm, DELAY), [send(1, elected(run(1, 6), 1, 6))]);
    }

    #[test]
    fn a_leader_calls_an_election_if_a_restored_process_outranks_it() {
        let mut process = without_acks(5, "none");
        process.suspect(6);
        process.campaign();
        process.receive(4, election(0, 1, 5, 5));
        assert_eq!(process.restore(6), [send(6, election(0, 2, 5, 5))]);
    }

    #[test]
    fn a_new_neighbour_gets_the_outcome() {
        let mut process = without_acks(3, "none");
        for peer in [1, 2, 4] {
            process.suspect(peer);
        }
        process.receive(6, elected(run(1, 6), 0, 6));
        let outcome_to = |to| [send(to, elected(run(1, 6), 0, 6))];
        assert_eq!(process.restore(4), outcome_to(4));
        assert_eq!(process.restore(2), outcome_to(2));
        assert_eq!(process.restore(1), [], "2 is between");
        assert_eq!(process.suspect(4), outcome_to(5));
        assert_eq!(process.suspect(1), []);
    }

    #[test]
    fn a_process_without_a_leader_calls_an_election_when_a_peer_is_restored() {
        let mut process = without_acks(3, "none");
        process.suspect(1);
        assert_eq!(process.restore(1), [send(4, election(0, 1, 3, 3))]);
    }
}

mod reaffirmation {
    use super::*;

    fn process(me: u64) -> RingProcess<Election> {
        let repair = Repair { timeouts: false, detector: false };
        RingProcess::new(RING, me, Options { hop_timeout: None, reaffirm: Some(10), repair })
    }

    #[test]
    fn a_leader_circulates_its_outcome_every_period() {
        let mut leader = process(6);
        leader.campaign();
        assert_eq!(timer(&leader.receive(5, election(0, 1, 6, 6)), Timer::Reaffirm), Some(10));
        for round in 1..3 {
            let effects = leader.expire(Timer::Reaffirm, DELAY * 10);
            assert_eq!(sent(&effects), [(1, elected(run(1, 6), round, 6))]);
            assert_eq!(timer(&effects, Timer::Reaffirm), Some(10));
        }
    }

    /// The time-out is three periods and one circulation.
    #[test]
    fn a_follower_that_misses_the_leader_calls_an_election() {
        let mut follower = process(3);
        assert_eq!(timer(&follower.start(), Timer::Leader), Some(36));
        assert_eq!(timer(&follower.receive(2, elected(run(1, 6), 0, 6)), Timer::Leader), Some(36));
        let effects = follower.expire(Timer::Leader, DELAY * 36);
        assert!(effects.contains(&Effect::Announce(Announcement::Undecided)));
        assert_eq!(sent(&effects), [(4, election(0, 2, 3, 3))]);
        assert_eq!(timer(&effects, Timer::Leader), Some(48), "a run takes three circulations");
        assert_eq!(sent(&follower.expire(Timer::Leader, DELAY * 48)), [(4, election(0, 3, 3, 3))]);
    }

    #[test]
    fn a_leader_does_not_reaffirm_during_an_election() {
        let mut leader = process(6);
        leader.campaign();
        let lead = leader.receive(5, election(0, 1, 6, 6));
        assert!(lead.contains(&Effect::CancelTimer { timer: Timer::Leader }));
        assert_eq!(timer(&leader.receive(5, election(0, 2, 5, 5)), Timer::Leader), Some(48));
        assert_eq!(leader.expire(Timer::Reaffirm, Span::ZERO), []);
    }

    #[test]
    fn a_superseded_leader_stops_reaffirming() {
        let mut leader = process(5);
        leader.campaign();
        leader.receive(4, election(0, 1, 5, 5));
        let superseded = leader.receive(4, elected(run(2, 6), 0, 6));
        assert!(superseded.contains(&Effect::CancelTimer { timer: Timer::Reaffirm }));
        assert_eq!(leader.expire(Timer::Reaffirm, Span::ZERO), []);
    }
}

#[test]
fn repairs_parse_by_name_and_unknown_names_are_rejected() {
    let parameter = ChangRoberts::PARAMETERS.iter().find(|parameter| parameter.name == "repair").unwrap();
    for (index, name) in parameter.value.split('|').enumerate() {
        let mut options = Options::default();
        (parameter.set)(&mut options, name).unwrap();
        assert_eq!((options.repair, (parameter.show)(&options)), (Repair::ALL[index], name.to_string()));
    }
    let error = (parameter.set)(&mut Options::default(), "timeout").unwrap_err();
    assert!(error.contains("`timeout` is none of both, predecessor, detector, none"), "{error}");
}
