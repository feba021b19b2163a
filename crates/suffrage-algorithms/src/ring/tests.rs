//! What the ring algorithms share, tried with the tokens of Chang and Roberts.

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

fn process(me: u64) -> One<Election> {
    One::new(RING, me, Options::default())
}

/// No acknowledgements.
fn plain(me: u64, repair: &str) -> One<Election> {
    One::new(RING, me, options::<Election>(repair))
}

fn hop(message: &Message<Election>) -> u32 {
    message.hop().expect("it is to be acknowledged")
}

/// Whom the first message went to, and its hop.
fn tried(effects: &[Effect<ChangRoberts>]) -> (u64, u32) {
    let (to, message) = &sent(effects)[0];
    (*to, hop(message))
}

mod hops {
    use super::*;

    /// "If this node is unavailable, the process skips the unreachable node and attempts to contact
    /// the nodes after it in the ring, until eventually one of them responds" (10.5).
    #[test]
    fn silent_successors_are_skipped_one_by_one() {
        let mut process = process(3);
        let first = process.campaign();
        assert_eq!((tried(&first).0, timer(&first, Timer::Hop)), (4, Some(3)));
        let second = process.run_out(Timer::Hop, DELAY * 3);
        assert_eq!((tried(&second).0, timer(&second, Timer::Hop)), (5, Some(3)));
        let third = process.run_out(Timer::Hop, DELAY * 3);
        let (to, hop) = tried(&third);
        assert_eq!(to, 6);
        let done = process.hear(6, Message::Ack { hop });
        assert_eq!(done, [Effect::CancelTimer { timer: Timer::Hop }]);
    }

    /// The next message starts at the true successor again: it may be alive after all.
    #[test]
    fn who_was_skipped_once_is_tried_again() {
        let mut process = process(3);
        process.campaign();
        process.run_out(Timer::Hop, DELAY * 3);
        assert_eq!(sent(&process.hear(2, election(9, 2, 2, 6)))[1].0, 4);
    }

    #[test]
    fn suspects_are_not_tried_and_what_was_on_its_way_to_them_goes_on_at_once() {
        let mut process = process(3);
        process.suspect(5);
        assert_eq!(tried(&process.campaign()).0, 4);
        assert_eq!(tried(&process.suspect(4)).0, 6, "4 and 5 are suspects");
    }

    #[test]
    fn only_the_right_acknowledgement_counts() {
        let mut process = process(3);
        let (_, hop) = tried(&process.campaign());
        for (from, hop) in [(4, hop + 1), (5, hop)] {
            assert_eq!(process.hear(from, Message::Ack { hop }), []);
        }
        assert_eq!(tried(&process.run_out(Timer::Hop, DELAY * 3)).0, 5);
    }

    #[test]
    fn several_messages_wait_each_for_its_own_acknowledgement() {
        let mut process = process(3);
        let (_, first) = tried(&process.campaign());
        process.now = process.now + DELAY;
        let second = process.hear(2, election(7, 2, 2, 6));
        assert_eq!(timer(&second, Timer::Hop), None, "the first is due first");
        let mut other = process.clone();
        let rest = process.hear(4, Message::Ack { hop: first });
        assert_eq!(timer(&rest, Timer::Hop), Some(3));
        assert_eq!(tried(&process.run_out(Timer::Hop, DELAY * 3)).0, 5);
        let overdue = other.run_out(Timer::Hop, DELAY * 2);
        assert_eq!((tried(&overdue), sent(&overdue).len()), ((5, first), 1));
        assert_eq!(timer(&overdue, Timer::Hop), Some(1));
    }

    /// An acknowledgement may be lost, and the message comes again.
    #[test]
    fn duplicates_are_acknowledged_and_not_passed_on() {
        let mut process = process(3);
        let first = process.hear(2, election(7, 1, 2, 6));
        assert_eq!(first[0], send(2, Message::Ack { hop: 7 }));
        assert_eq!(sent(&first).len(), 2);
        assert_eq!(process.hear(2, election(8, 1, 2, 6)), [send(2, Message::Ack { hop: 8 })]);
    }

    #[test]
    fn without_acknowledgements_there_are_no_timers() {
        let mut process = plain(3, "detector");
        assert_eq!(process.campaign(), [send(4, election(0, 1, 3, 3))]);
        assert_eq!(process.hear(2, election(0, 1, 5, 6)), [send(4, election(0, 1, 5, 6))]);
    }

    /// A message to oneself takes a delay like any other.
    #[test]
    fn a_ring_of_one_elects_itself() {
        let mut lonely = One::<Election>::new(&[7], 7, Options::default());
        let call = lonely.campaign();
        assert_eq!((sent(&call), timer(&call, Timer::Hop)), (vec![], Some(1)));
        assert!(lonely.run_out(Timer::Hop, DELAY).contains(&believe(7, 1)));
        let back = lonely.run_out(Timer::Hop, DELAY);
        assert!(sent(&back).is_empty() && timer(&back, Timer::Hop).is_none());
    }

    #[test]
    fn nobody_answers_and_the_message_comes_to_oneself() {
        let mut process = One::<Election>::new(&[1, 2, 3], 1, Options::default());
        process.campaign();
        process.run_out(Timer::Hop, DELAY * 3);
        process.run_out(Timer::Hop, DELAY * 3);
        assert!(process.run_out(Timer::Hop, DELAY).contains(&believe(1, 1)));
    }
}

mod runs {
    use super::*;

    #[test]
    fn a_new_election_has_a_term_above_all_heard_of() {
        let mut process = plain(3, "none");
        process.hear(2, elected(run(7, 6), 0, 6));
        assert_eq!(sent(&process.campaign()), [(4, election(0, 8, 3, 3))]);
    }

    /// "A process can call for at most one election at a time."
    #[test]
    fn who_waits_for_an_outcome_calls_no_election() {
        let mut process = plain(3, "none");
        process.campaign();
        assert_eq!(process.campaign(), []);
        process.hear(2, elected(run(1, 3), 0, 6));
        assert_ne!(process.campaign(), []);
    }

    #[test]
    fn a_run_of_the_past_is_refused_by_the_first_to_see_it() {
        let mut process = plain(4, "both");
        process.hear(3, elected(run(5, 6), 0, 6));
        let refusal = process.hear(3, election(0, 1, 3, 3));
        assert_eq!(refusal, [send(3, Message::Outdated { run: run(1, 3), term: Term(5) })]);
        // Of the same term, and over: the initiator has missed the greater run.
        let refusal = process.hear(3, election(0, 5, 3, 3));
        assert_eq!(refusal, [send(3, Message::Outdated { run: run(5, 3), term: Term(5) })]);
        // Over, and this very run: a duplicate.
        assert_eq!(process.hear(3, election(0, 5, 6, 6)), []);
    }

    /// Or else the answer to every run would be one that overtakes the next.
    #[test]
    fn a_run_of_the_past_is_dropped_while_a_greater_one_is_under_way() {
        let mut process = plain(4, "both");
        process.hear(3, election(0, 5, 6, 6));
        assert_eq!(process.hear(3, election(0, 1, 3, 3)), []);
        assert_eq!(process.hear(3, elected(run(1, 3), 0, 6)), []);
    }

    /// "When a crashed process reboots, it holds an election" (unimore), having forgotten the term.
    #[test]
    fn a_recovering_process_calls_an_election_and_again_when_told_the_term() {
        let mut process = plain(3, "none");
        assert_eq!(process.recover(), [send(4, election(0, 1, 3, 3))]);
        let outdated = |initiator, term| Message::Outdated { run: run(1, initiator), term: Term(term) };
        assert_eq!(process.hear(4, outdated(2, 5)), [], "that is not what it waits for");
        assert_eq!(process.hear(4, outdated(3, 5)), [send(4, election(0, 6, 3, 3))]);
        assert_eq!(process.hear(4, outdated(3, 5)), [], "a late duplicate");
    }

    #[test]
    fn a_lonely_process_does_not_refuse_its_own_token() {
        let mut process = One::<Election>::new(&[1, 2], 1, Options::default());
        process.suspect(2);
        process.campaign();
        process.restore(2);
        process.hear(2, elected(run(5, 2), 0, 2));
        assert_eq!(sent(&process.run_out(Timer::Hop, DELAY)), []);
    }

    #[test]
    fn who_believes_in_an_outcome_of_the_past_calls_an_election() {
        let mut process = plain(3, "none");
        process.hear(2, elected(run(2, 6), 0, 6));
        let same_term = Message::Outdated { run: run(2, 6), term: Term(2) };
        assert_eq!(process.hear(4, same_term), [], "an answer to a duplicate of the election");
        let later = Message::Outdated { run: run(2, 6), term: Term(9) };
        assert_eq!(process.hear(4, later), [send(4, election(0, 10, 3, 3))]);
    }
}

mod outcomes {
    use super::*;

    /// "… sets its variable elected to the id of the message. Forwards the message unless it is the
    /// new coordinator."
    #[test]
    fn an_outcome_is_believed_and_passed_on_once() {
        let mut process = plain(3, "none");
        let message = elected(run(1, 6), 0, 6);
        assert_eq!(process.hear(2, message), [believe(6, 1), send(4, message)]);
        assert_eq!(process.hear(2, message), []);
        let round = elected(run(1, 6), 1, 6);
        assert_eq!(process.hear(2, round), [send(4, round)], "the next round is passed on");
    }

    #[test]
    fn whoever_outranks_the_leader_calls_an_election() {
        let mut process = plain(5, "none");
        assert_eq!(process.hear(4, elected(run(3, 1), 0, 4)), [send(6, election(0, 4, 5, 5))]);
    }

    #[test]
    fn a_rank_that_rises_above_the_leaders_calls_an_election() {
        let mut process = plain(3, "none");
        process.hear(2, elected(run(1, 1), 0, 6));
        assert_eq!(process.rank_changes(4, 9), []);
        let mine = Rank { attribute: 10, id: NodeId(3) };
        let call = Message::Election { hop: 0, run: run(2, 3), token: Election { best: mine } };
        assert_eq!(process.rank_changes(3, 10), [send(4, call)]);
    }

    /// An outcome of the past goes back to the one that believes in it.
    #[test]
    fn of_two_outcomes_the_greater_stands() {
        let mut process = plain(3, "none");
        process.hear(2, elected(run(4, 5), 0, 6));
        let refusal = process.hear(2, elected(run(3, 6), 8, 5));
        assert_eq!(refusal, [send(2, Message::Outdated { run: run(3, 6), term: Term(4) })]);
        assert_eq!(process.hear(2, elected(run(4, 1), 0, 6)), [], "a lower run that agrees");
        for outcome in [elected(run(4, 1), 0, 5), elected(run(4, 1), 1, 6)] {
            let mut process = process.clone();
            assert_eq!(process.hear(2, outcome), [send(4, election(0, 5, 3, 3))]);
        }
    }

    #[test]
    fn a_suspect_is_not_believed_in_but_others_may() {
        let mut process = plain(3, "predecessor");
        process.hear(2, elected(run(1, 1), 0, 5));
        process.suspect(6);
        let effects = process.hear(2, elected(run(2, 1), 0, 6));
        assert!(effects.contains(&Effect::Announce(Announcement::Undecided)), "the old one is superseded");
        assert_eq!(sent(&effects), [(4, elected(run(2, 1), 0, 6))]);
        assert_eq!(sent(&process.run_out(Timer::Outcome, DELAY * 18)), [(4, election(0, 3, 3, 3))]);
    }

    #[test]
    fn a_suspect_that_turns_out_alive_is_asked_again() {
        let mut process = plain(3, "predecessor");
        process.suspect(6);
        process.hear(2, elected(run(2, 1), 0, 6));
        assert_eq!(sent(&process.restore(6)), [(4, election(0, 3, 3, 3))]);
    }

    /// The leader sees to it that its announcement gets round.
    #[test]
    fn an_outcome_that_does_not_come_back_goes_round_again() {
        let mut process = plain(6, "both");
        process.campaign();
        let lead = process.hear(5, election(0, 1, 6, 6));
        assert_eq!(
            (sent(&lead), timer(&lead, Timer::Outcome)),
            (vec![(1, elected(run(1, 6), 0, 6))], Some(7))
        );
        let again = process.run_out(Timer::Outcome, DELAY * 7);
        assert_eq!(sent(&again), [(1, elected(run(1, 6), 1, 6))]);
        let again = process.suspect(3);
        assert_eq!(sent(&again), [(1, elected(run(1, 6), 2, 6))], "it may have died with 3");
        assert_eq!(process.hear(5, elected(run(1, 6), 1, 6)), [], "not the last one sent");
        assert_eq!(
            process.hear(5, elected(run(1, 6), 2, 6)),
            [Effect::CancelTimer { timer: Timer::Outcome }]
        );
        assert_eq!(process.suspect(2), []);
    }
}

mod detector {
    use super::*;

    #[test]
    fn a_dead_leader_is_forgotten_and_an_election_called() {
        let mut process = plain(3, "none");
        process.hear(2, elected(run(1, 1), 0, 6));
        let effects = process.suspect(6);
        assert_eq!(effects, [Effect::Announce(Announcement::Undecided), send(4, election(0, 2, 3, 3))]);
    }

    #[test]
    fn a_leader_announces_itself_to_those_that_come_back_once_for_all() {
        let mut process = plain(6, "none");
        process.suspect(2);
        process.suspect(3);
        process.campaign();
        process.hear(5, election(0, 1, 6, 6));
        for peer in [2, 3] {
            assert_eq!(process.restore(peer), [Effect::SetTimer { timer: Timer::Reaffirm, after: DELAY }]);
        }
        assert_eq!(process.run_out(Timer::Reaffirm, DELAY), [send(1, elected(run(1, 6), 1, 6))]);
    }

    #[test]
    fn a_leader_that_is_outranked_by_one_that_comes_back_calls_an_election() {
        let mut process = plain(5, "none");
        process.suspect(6);
        process.campaign();
        process.hear(4, election(0, 1, 5, 5));
        assert_eq!(process.restore(6), [send(6, election(0, 2, 5, 5))]);
    }

    #[test]
    fn a_new_neighbour_is_told_who_leads() {
        let mut process = plain(3, "none");
        for peer in [1, 2, 4] {
            process.suspect(peer);
        }
        process.hear(6, elected(run(1, 6), 0, 6));
        let told = |to| [send(to, elected(run(1, 6), 0, 6))];
        assert_eq!(process.restore(4), told(4));
        assert_eq!(process.restore(2), told(2));
        assert_eq!(process.restore(1), [], "2 is between");
        assert_eq!(process.suspect(4), told(5));
        assert_eq!(process.suspect(1), []);
    }

    #[test]
    fn who_knows_of_no_leader_calls_an_election_when_somebody_comes_back() {
        let mut process = plain(3, "none");
        process.suspect(1);
        assert_eq!(process.restore(1), [send(4, election(0, 1, 3, 3))]);
    }
}

mod reaffirmation {
    use super::*;

    fn process(me: u64) -> One<Election> {
        let repair = Repair { timeouts: false, detector: false };
        One::new(RING, me, Options { hop_timeout: None, reaffirm: Some(10), repair })
    }

    #[test]
    fn a_leader_goes_round_every_period() {
        let mut leader = process(6);
        leader.campaign();
        assert_eq!(timer(&leader.hear(5, election(0, 1, 6, 6)), Timer::Reaffirm), Some(10));
        for round in 1..3 {
            let effects = leader.run_out(Timer::Reaffirm, DELAY * 10);
            assert_eq!(sent(&effects), [(1, elected(run(1, 6), round, 6))]);
            assert_eq!(timer(&effects, Timer::Reaffirm), Some(10));
        }
    }

    /// Three periods and a trip round the ring.
    #[test]
    fn a_follower_that_hears_nothing_calls_an_election() {
        let mut follower = process(3);
        assert_eq!(timer(&follower.start(), Timer::Leader), Some(36));
        assert_eq!(timer(&follower.hear(2, elected(run(1, 6), 0, 6)), Timer::Leader), Some(36));
        let effects = follower.run_out(Timer::Leader, DELAY * 36);
        assert!(effects.contains(&Effect::Announce(Announcement::Undecided)));
        assert_eq!(sent(&effects), [(4, election(0, 2, 3, 3))]);
        assert_eq!(timer(&effects, Timer::Leader), Some(48), "a run takes three trips");
        assert_eq!(sent(&follower.run_out(Timer::Leader, DELAY * 48)), [(4, election(0, 3, 3, 3))]);
    }

    #[test]
    fn a_leader_expects_nothing_and_says_nothing_while_an_election_is_under_way() {
        let mut leader = process(6);
        leader.campaign();
        let lead = leader.hear(5, election(0, 1, 6, 6));
        assert!(lead.contains(&Effect::CancelTimer { timer: Timer::Leader }));
        assert_eq!(timer(&leader.hear(5, election(0, 2, 5, 5)), Timer::Leader), Some(48));
        assert_eq!(leader.run_out(Timer::Reaffirm, Span::ZERO), []);
    }

    #[test]
    fn a_deposed_leader_falls_silent() {
        let mut leader = process(5);
        leader.campaign();
        leader.hear(4, election(0, 1, 5, 5));
        let deposed = leader.hear(4, elected(run(2, 6), 0, 6));
        assert!(deposed.contains(&Effect::CancelTimer { timer: Timer::Reaffirm }));
        assert_eq!(leader.run_out(Timer::Reaffirm, Span::ZERO), []);
    }
}

#[test]
fn repairs_are_read_and_refused_by_name() {
    let parameter = ChangRoberts::PARAMETERS.iter().find(|parameter| parameter.name == "repair").unwrap();
    for (place, name) in parameter.value.split('|').enumerate() {
        let mut options = Options::default();
        (parameter.set)(&mut options, name).unwrap();
        assert_eq!((options.repair, (parameter.show)(&options)), (Repair::ALL[place], name.to_string()));
    }
    let error = (parameter.set)(&mut Options::default(), "timeout").unwrap_err();
    assert!(error.contains("`timeout` is none of both, predecessor, detector, none"), "{error}");
}
