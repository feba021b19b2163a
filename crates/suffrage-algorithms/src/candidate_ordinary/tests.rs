//! One test per sentence on the candidate/ordinary optimization: Database Internals, ch. 10.

use super::*;
use Message::{Alive, Election};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{TestProcess, elected, to};

fn options(candidates: &[u64]) -> Options {
    let candidates = candidates.iter().copied().map(NodeId).collect();
    Options { candidates: Arc::new(candidates), ..Options::default() }
}

/// A process of figure 10-3: the candidates are 1, 2 and 6.
fn process(me: u64) -> TestProcess<CandidateOrdinary> {
    TestProcess::new(me, 6, &options(&[1, 2, 6]))
}

/// A process of figure 10-3 that follows 6.
fn follower(me: u64) -> TestProcess<CandidateOrdinary> {
    let mut follower = process(me);
    assert_eq!(follower.receive(6, result(6, 1)).announced(), [elected(6, 1)]);
    follower.advance(10);
    follower
}

fn result(leader: u64, term: u64) -> Message {
    Message::Elected { leader: NodeId(leader), term: Term(term) }
}

/// 2 + 2 + 5 messages, leader 2.
#[test]
fn the_example_of_figure_10_3_elects_2() {
    let mut four = follower(4);
    let step = four.suspect(6);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], vec![]), "a) 4 notices the failure");
    assert_eq!(step.timer_delays(Timer::Tiebreaker), Some(12), "two rank above it");
    let step = four.expire(Timer::Tiebreaker);
    assert_eq!(step.sent(), to([1, 2], Election), "the remaining processes from the candidate set");
    assert_eq!(step.timer_delays(Timer::Alive), Some(3));
    for candidate in [1, 2] {
        assert_eq!(process(candidate).receive(4, Election).sent(), [(4, Alive)], "b)");
    }
    assert!(four.receive(1, Alive).is_empty());
    let step = four.receive(2, Alive);
    assert_eq!(step.sent(), to([1, 2, 3, 5, 6], result(2, 2)), "c) 4 notifies all processes");
    assert_eq!(step.announced(), [elected(2, 2)]);
    for other in [1, 2, 3, 5] {
        assert_eq!(process(other).receive(4, result(2, 2)).announced(), [elected(2, 2)]);
    }
}

/// "Only one of the candidate nodes can eventually become a leader."
#[test]
fn ordinary_processes_are_neither_asked_nor_elected() {
    assert!(!process(5).process.may_lead() && process(2).process.may_lead());
    assert!(process(5).receive(4, Election).is_empty());
    assert!(process(5).receive(4, result(5, 1)).is_empty());
    assert!(process(5).receive(4, result(9, 1)).is_empty(), "nor is a non-member");
    assert!(
        CandidateOrdinary::new(NodeId(5), &Options::default()).may_lead(),
        "all are candidates if none are listed"
    );
}

#[test]
fn an_election_of_the_application_skips_the_tiebreaker() {
    let mut caller = process(4);
    assert_eq!(caller.campaign().sent(), to([1, 2, 6], Election));
    caller.receive(2, Alive);
    let step = caller.expire(Timer::Alive);
    assert_eq!(step.sent(), to([1, 2, 3, 5, 6], result(2, 1)));
    assert!(caller.receive(6, Alive).is_empty(), "too late");
}

#[test]
fn a_candidate_asks_only_higher_candidates() {
    let mut caller = process(2);
    assert_eq!(caller.campaign().sent(), [(6, Election)]);
    assert_eq!(caller.expire(Timer::Alive).sent(), to([1, 3, 4, 5, 6], result(2, 1)));
    let step = process(6).campaign();
    assert_eq!(step.sent(), to([1, 2, 3, 4, 5], result(6, 1)), "N - 1 messages");
}

/// "Nodes with higher priorities have a lower δ, and vice versa."
#[test]
fn the_tiebreaker_is_longer_for_lower_ranks() {
    for (me, delays) in [(5, 8), (4, 12), (1, 24)] {
        assert_eq!(follower(me).suspect(6).timer_delays(Timer::Tiebreaker), Some(delays));
    }
    let mut recovering = TestProcess::<CandidateOrdinary>::unstarted(3, 6, &options(&[1, 2, 6]));
    assert_eq!(recovering.start(Start::Recovered(None)).timer_delays(Timer::Tiebreaker), Some(16));
    assert!(follower(4).suspect(2).is_empty(), "only a failure of the leader starts the tiebreaker");
}

#[test]
fn a_process_that_sees_anothers_election_awaits_its_result() {
    let mut candidate = follower(2);
    candidate.suspect(6);
    let step = candidate.receive(4, Election);
    assert_eq!((step.sent(), step.timer_delays(Timer::Elected)), (vec![(4, Alive)], Some(6)));
    assert_eq!(candidate.receive(4, result(2, 2)).announced(), [elected(2, 2)]);
    assert!(
        candidate.receive(5, Election).timer_delays(Timer::Elected).is_none(),
        "no election is due any more"
    );

    let mut candidate = follower(1);
    candidate.suspect(6);
    candidate.receive(4, Election);
    assert_eq!(candidate.expire(Timer::Elected).sent(), [(2, Election)], "no result in time");

    let mut ordinary = follower(3);
    ordinary.suspect(6);
    assert_eq!(ordinary.receive(4, result(2, 2)).announced(), [elected(2, 2)]);
    assert_eq!(
        ordinary.suspect(2).timer_delays(Timer::Tiebreaker),
        Some(16),
        "the former tiebreaker is over"
    );
}

#[test]
fn without_a_live_candidate_the_caller_announces_undecided_and_retries() {
    let mut caller = process(4);
    caller.campaign();
    let step = caller.expire(Timer::Alive);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], vec![]), "although it knew no leader");
    assert_eq!(step.timer_delays(Timer::Tiebreaker), Some(12));
    assert_eq!(caller.expire(Timer::Tiebreaker).sent(), to([1, 2, 6], Election));
    for candidate in [1, 2] {
        assert!(caller.suspect(candidate).is_empty());
    }
    assert_eq!(caller.suspect(6).announced(), [Undecided], "no candidate is left to reply");
    assert_eq!(caller.expire(Timer::Tiebreaker).announced(), [Undecided], "no candidate is left to ask");
}

#[test]
fn a_process_runs_at_most_one_election_at_a_time() {
    let mut caller = process(4);
    caller.campaign();
    assert!(caller.campaign().is_empty());
    let mut candidate = process(2);
    candidate.campaign();
    assert_eq!(candidate.receive(4, Election).sent(), [(4, Alive)]);
    assert_eq!(candidate.receive(6, Alive).announced(), [elected(6, 1)]);
}

#[test]
fn a_candidate_that_replied_and_failed_is_not_elected() {
    let mut caller = process(4);
    caller.campaign();
    caller.receive(6, Alive);
    caller.receive(1, Alive);
    caller.suspect(6);
    assert_eq!(caller.receive(2, Alive).announced(), [elected(2, 1)]);
}

#[test]
fn a_better_candidate_holds_an_election_and_an_ordinary_process_does_not() {
    assert_eq!(process(6).receive(4, result(2, 3)).sent(), to([1, 2, 3, 4, 5], result(6, 4)));
    assert_eq!(process(2).receive(4, result(1, 3)).sent(), [(6, Election)]);
    assert_eq!(process(5).receive(4, result(2, 3)).announced(), [elected(2, 3)]);
}

#[test]
fn an_elected_process_lets_its_former_better_leader_object() {
    let step = follower(2).receive(4, result(2, 2));
    assert_eq!(step.announced(), [elected(2, 2)]);
    assert_eq!(step.sent(), [(6, Message::Deposed { term: Term(2) })]);
    let objection = process(6).receive(2, Message::Deposed { term: Term(2) });
    assert_eq!(objection.announced(), [elected(6, 3)]);
}

#[test]
fn a_process_elected_while_an_election_is_due_asks_its_rivals_first() {
    let mut recovering = TestProcess::<CandidateOrdinary>::unstarted(2, 6, &options(&[1, 2, 6]));
    recovering.start(Start::Recovered(None));
    assert_eq!(recovering.receive(4, result(2, 1)).sent(), [(6, Election)]);
}

#[test]
fn the_election_of_a_suspected_process_is_rejected_and_starts_the_tiebreaker() {
    let mut follower = follower(3);
    follower.suspect(6);
    follower.receive(4, result(2, 2));
    assert!(follower.receive(5, result(6, 3)).is_empty(), "the process has a leader");
    assert_eq!(follower.restore(6).timer_delays(Timer::Tiebreaker), Some(16));
    let mut leaderless = process(3);
    leaderless.suspect(6);
    assert_eq!(leaderless.receive(5, result(6, 1)).timer_delays(Timer::Tiebreaker), Some(16));
}

#[test]
fn a_leader_announces_itself_to_restored_processes_unless_they_are_better_candidates() {
    let mut leader = process(2);
    for peer in [5, 6] {
        leader.suspect(peer);
    }
    leader.campaign();
    assert_eq!(leader.restore(5).sent(), [(5, result(2, 1))]);
    assert_eq!(leader.restore(6).sent(), [(6, Election)]);
    let step = leader.receive(6, Alive);
    assert_eq!(step.sent(), to([1, 3, 4, 5, 6], result(6, 2)));
}

#[test]
fn a_leader_that_defers_forwards_the_announcement() {
    let mut leader = process(2);
    leader.suspect(6);
    leader.campaign();
    leader.restore(6);
    assert_eq!(leader.receive(6, result(6, 1)).sent(), to([1, 3, 4, 5, 6], result(6, 1)));
}

#[test]
fn a_process_restored_during_the_poll_is_asked_too() {
    let mut caller = follower(4);
    caller.suspect(6);
    caller.expire(Timer::Tiebreaker);
    let step = caller.restore(6);
    assert_eq!((step.sent(), step.timer_delays(Timer::Alive)), (vec![(6, Election)], Some(3)));
    caller.receive(1, Alive);
    caller.receive(2, Alive);
    assert_eq!(caller.receive(6, Alive).announced(), [elected(6, 2)]);
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_rejected() {
    let mut follower = process(4);
    follower.receive(6, result(6, 1));
    let step = follower.receive(5, result(2, 2));
    assert_eq!((step.announced(), step.timer_delays(Timer::Tiebreaker)), (vec![], Some(12)));
    assert_eq!(self::follower(4).receive(5, result(2, 2)).announced(), [elected(2, 2)]);
}

#[test]
fn a_change_of_rank_makes_the_leader_or_a_candidate_that_outranks_it_call_an_election() {
    assert_eq!(follower(2).set_attribute(2, 9).announced(), [elected(2, 2)]);
    assert!(follower(5).set_attribute(5, 9).is_empty(), "an ordinary process does not lead");
    let mut leader = process(6);
    leader.campaign();
    assert!(leader.set_attribute(5, 9).is_empty());
    assert_eq!(leader.set_attribute(1, 9).sent(), [(1, Election)]);
}

#[test]
fn with_reaffirm_the_leader_repeats_its_announcement_and_counts_as_failed_if_silent() {
    let options = Options { reaffirm: Some(5), ..options(&[1, 2, 6]) };
    let mut leader = TestProcess::<CandidateOrdinary>::new(2, 6, &options);
    assert_eq!(leader.receive(4, result(2, 1)).timer_delays(Timer::Reaffirm), Some(5));
    assert_eq!(leader.expire(Timer::Reaffirm).sent(), to([1, 3, 4, 5, 6], result(2, 1)));
    let mut follower = TestProcess::<CandidateOrdinary>::new(4, 6, &options);
    assert_eq!(follower.receive(5, result(2, 1)).timer_delays(Timer::Leader), Some(15));
    let step = follower.expire(Timer::Leader);
    assert_eq!((step.announced(), step.timer_delays(Timer::Tiebreaker)), (vec![Undecided], Some(12)));
}

#[test]
fn non_members_are_rejected_as_candidates() {
    let roster = Roster::numbered(6);
    assert_eq!(CandidateOrdinary::check(&options(&[1, 2, 6]), &roster), Ok(()));
    let refused = CandidateOrdinary::check(&options(&[1, 7]), &roster).unwrap_err();
    assert!(refused.name == "candidates" && refused.reason.contains('7'), "{refused:?}");
}

#[test]
fn a_reelected_leader_is_announced_again() {
    assert_eq!(follower(3).receive(6, result(6, 2)).announced(), [elected(6, 2)]);
}
