//! The candidate/ordinary optimization sentence by sentence: Database Internals, ch. 10.

use super::*;
use Message::{Alive, Election};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{Subject, elected, to};

fn options(candidates: &[u64]) -> Options {
    let candidates = candidates.iter().copied().map(NodeId).collect();
    Options { candidates: Arc::new(candidates), ..Options::default() }
}

/// A process of figure 10-3: the candidates are 1, 2 and 6.
fn process(me: u64) -> Subject<CandidateOrdinary> {
    Subject::new(me, 6, &options(&[1, 2, 6]))
}

/// A process of figure 10-3 that follows 6.
fn follower(me: u64) -> Subject<CandidateOrdinary> {
    let mut follower = process(me);
    assert_eq!(follower.hears(6, result(6, 1)).announced(), [elected(6, 1)]);
    follower.waits(10);
    follower
}

fn result(leader: u64, term: u64) -> Message {
    Message::Elected { leader: NodeId(leader), term: Term(term) }
}

/// 2 + 2 + 5 messages, leader 2.
#[test]
fn figure_10_3() {
    let mut four = follower(4);
    let done = four.suspects(6);
    assert_eq!((done.announced(), done.sent()), (vec![Undecided], vec![]), "a) 4 notices the failure");
    assert_eq!(done.awaits(Timer::Tiebreaker), Some(12), "two rank above it");
    let done = four.runs_out(Timer::Tiebreaker);
    assert_eq!(done.sent(), to([1, 2], Election), "the remaining processes from the candidate set");
    assert_eq!(done.awaits(Timer::Alive), Some(3));
    for candidate in [1, 2] {
        assert_eq!(process(candidate).hears(4, Election).sent(), [(4, Alive)], "b)");
    }
    assert!(four.hears(1, Alive).is_nothing());
    let done = four.hears(2, Alive);
    assert_eq!(done.sent(), to([1, 2, 3, 5, 6], result(2, 2)), "c) 4 notifies all processes");
    assert_eq!(done.announced(), [elected(2, 2)]);
    for other in [1, 2, 3, 5] {
        assert_eq!(process(other).hears(4, result(2, 2)).announced(), [elected(2, 2)]);
    }
}

/// "Only one of the candidate nodes can eventually become a leader."
#[test]
fn ordinary_processes_are_neither_asked_nor_elected() {
    assert!(!process(5).process.may_lead() && process(2).process.may_lead());
    assert!(process(5).hears(4, Election).is_nothing());
    assert!(process(5).hears(4, result(5, 1)).is_nothing());
    assert!(process(5).hears(4, result(9, 1)).is_nothing(), "nor are strangers");
    assert!(CandidateOrdinary::new(NodeId(5), &Options::default()).may_lead(), "unless none are listed");
}

#[test]
fn the_application_does_not_wait_for_the_tiebreaker() {
    let mut caller = process(4);
    assert_eq!(caller.campaigns().sent(), to([1, 2, 6], Election));
    caller.hears(2, Alive);
    let done = caller.runs_out(Timer::Alive);
    assert_eq!(done.sent(), to([1, 2, 3, 5, 6], result(2, 1)));
    assert!(caller.hears(6, Alive).is_nothing(), "too late");
}

#[test]
fn a_candidate_asks_only_those_that_rank_above_it() {
    let mut caller = process(2);
    assert_eq!(caller.campaigns().sent(), [(6, Election)]);
    assert_eq!(caller.runs_out(Timer::Alive).sent(), to([1, 3, 4, 5, 6], result(2, 1)));
    let done = process(6).campaigns();
    assert_eq!(done.sent(), to([1, 2, 3, 4, 5], result(6, 1)), "N - 1 messages");
}

/// "Nodes with higher priorities have a lower δ, and vice versa."
#[test]
fn the_tiebreaker_grows_with_the_rank() {
    for (me, delays) in [(5, 8), (4, 12), (1, 24)] {
        assert_eq!(follower(me).suspects(6).awaits(Timer::Tiebreaker), Some(delays));
    }
    let mut recovering = Subject::<CandidateOrdinary>::unstarted(3, 6, &options(&[1, 2, 6]));
    assert_eq!(recovering.starts(Start::Recovered(None)).awaits(Timer::Tiebreaker), Some(16));
    assert!(follower(4).suspects(2).is_nothing(), "nothing is due if another than the leader fails");
}

#[test]
fn one_that_sees_anothers_election_stands_back() {
    let mut candidate = follower(2);
    candidate.suspects(6);
    let done = candidate.hears(4, Election);
    assert_eq!((done.sent(), done.awaits(Timer::Elected)), (vec![(4, Alive)], Some(6)));
    assert_eq!(candidate.hears(4, result(2, 2)).announced(), [elected(2, 2)]);
    assert!(candidate.hears(5, Election).awaits(Timer::Elected).is_none(), "nothing is due any more");

    let mut candidate = follower(1);
    candidate.suspects(6);
    candidate.hears(4, Election);
    assert_eq!(candidate.runs_out(Timer::Elected).sent(), [(2, Election)], "no result in time");

    let mut ordinary = follower(3);
    ordinary.suspects(6);
    assert_eq!(ordinary.hears(4, result(2, 2)).announced(), [elected(2, 2)]);
    assert_eq!(ordinary.suspects(2).awaits(Timer::Tiebreaker), Some(16), "the former one is over");
}

#[test]
fn if_no_candidate_is_alive_it_says_so_and_tries_again() {
    let mut caller = process(4);
    caller.campaigns();
    let done = caller.runs_out(Timer::Alive);
    assert_eq!((done.announced(), done.sent()), (vec![Undecided], vec![]), "though it knew no leader");
    assert_eq!(done.awaits(Timer::Tiebreaker), Some(12));
    assert_eq!(caller.runs_out(Timer::Tiebreaker).sent(), to([1, 2, 6], Election));
    for candidate in [1, 2] {
        assert!(caller.suspects(candidate).is_nothing());
    }
    assert_eq!(caller.suspects(6).announced(), [Undecided], "nobody is left to reply");
    assert_eq!(caller.runs_out(Timer::Tiebreaker).announced(), [Undecided], "nor to ask");
}

#[test]
fn at_most_one_election_at_a_time() {
    let mut caller = process(4);
    caller.campaigns();
    assert!(caller.campaigns().is_nothing());
    let mut candidate = process(2);
    candidate.campaigns();
    assert_eq!(candidate.hears(4, Election).sent(), [(4, Alive)]);
    assert_eq!(candidate.hears(6, Alive).announced(), [elected(6, 1)]);
}

#[test]
fn a_candidate_that_replied_and_failed_is_not_elected() {
    let mut caller = process(4);
    caller.campaigns();
    caller.hears(6, Alive);
    caller.hears(1, Alive);
    caller.suspects(6);
    assert_eq!(caller.hears(2, Alive).announced(), [elected(2, 1)]);
}

#[test]
fn a_better_candidate_holds_an_election_and_an_ordinary_process_does_not() {
    assert_eq!(process(6).hears(4, result(2, 3)).sent(), to([1, 2, 3, 4, 5], result(6, 4)));
    assert_eq!(process(2).hears(4, result(1, 3)).sent(), [(6, Election)]);
    assert_eq!(process(5).hears(4, result(2, 3)).announced(), [elected(2, 3)]);
}

#[test]
fn one_elected_while_it_believes_in_a_better_one_lets_that_one_object() {
    let done = follower(2).hears(4, result(2, 2));
    assert_eq!(done.announced(), [elected(2, 2)]);
    assert_eq!(done.sent(), [(6, Message::Deposed { term: Term(2) })]);
    let objection = process(6).hears(2, Message::Deposed { term: Term(2) });
    assert_eq!(objection.announced(), [elected(6, 3)]);
}

#[test]
fn one_elected_while_something_is_due_asks_its_rivals_first() {
    let mut recovering = Subject::<CandidateOrdinary>::unstarted(2, 6, &options(&[1, 2, 6]));
    recovering.starts(Start::Recovered(None));
    assert_eq!(recovering.hears(4, result(2, 1)).sent(), [(6, Election)]);
}

#[test]
fn the_election_of_a_suspect_is_passed_over_and_something_is_done_about_it() {
    let mut follower = follower(3);
    follower.suspects(6);
    follower.hears(4, result(2, 2));
    assert!(follower.hears(5, result(6, 3)).is_nothing(), "it has a leader");
    assert_eq!(follower.restores(6).awaits(Timer::Tiebreaker), Some(16));
    let mut leaderless = process(3);
    leaderless.suspects(6);
    assert_eq!(leaderless.hears(5, result(6, 1)).awaits(Timer::Tiebreaker), Some(16));
}

#[test]
fn a_leader_tells_the_restored_unless_one_is_a_better_candidate() {
    let mut leader = process(2);
    for peer in [5, 6] {
        leader.suspects(peer);
    }
    leader.campaigns();
    assert_eq!(leader.restores(5).sent(), [(5, result(2, 1))]);
    assert_eq!(leader.restores(6).sent(), [(6, Election)]);
    let done = leader.hears(6, Alive);
    assert_eq!(done.sent(), to([1, 3, 4, 5, 6], result(6, 2)));
}

#[test]
fn a_leader_that_gives_way_passes_on_the_news() {
    let mut leader = process(2);
    leader.suspects(6);
    leader.campaigns();
    leader.restores(6);
    assert_eq!(leader.hears(6, result(6, 1)).sent(), to([1, 3, 4, 5, 6], result(6, 1)));
}

#[test]
fn one_that_is_restored_during_the_poll_is_asked_too() {
    let mut caller = follower(4);
    caller.suspects(6);
    caller.runs_out(Timer::Tiebreaker);
    let done = caller.restores(6);
    assert_eq!((done.sent(), done.awaits(Timer::Alive)), (vec![(6, Election)], Some(3)));
    caller.hears(1, Alive);
    caller.hears(2, Alive);
    assert_eq!(caller.hears(6, Alive).announced(), [elected(6, 2)]);
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_not_believed() {
    let mut follower = process(4);
    follower.hears(6, result(6, 1));
    let done = follower.hears(5, result(2, 2));
    assert_eq!((done.announced(), done.awaits(Timer::Tiebreaker)), (vec![], Some(12)));
    assert_eq!(self::follower(4).hears(5, result(2, 2)).announced(), [elected(2, 2)]);
}

#[test]
fn a_change_of_rank_is_noticed_by_the_leader_and_by_the_candidate_that_outranks_it() {
    assert_eq!(follower(2).ranks(2, 9).announced(), [elected(2, 2)]);
    assert!(follower(5).ranks(5, 9).is_nothing(), "an ordinary process does not lead");
    let mut leader = process(6);
    leader.campaigns();
    assert!(leader.ranks(5, 9).is_nothing());
    assert_eq!(leader.ranks(1, 9).sent(), [(1, Election)]);
}

#[test]
fn with_reaffirm_the_elected_repeats_the_announcement_and_its_silence_is_a_failure() {
    let options = Options { reaffirm: Some(5), ..options(&[1, 2, 6]) };
    let mut leader = Subject::<CandidateOrdinary>::new(2, 6, &options);
    assert_eq!(leader.hears(4, result(2, 1)).awaits(Timer::Reaffirm), Some(5));
    assert_eq!(leader.runs_out(Timer::Reaffirm).sent(), to([1, 3, 4, 5, 6], result(2, 1)));
    let mut follower = Subject::<CandidateOrdinary>::new(4, 6, &options);
    assert_eq!(follower.hears(5, result(2, 1)).awaits(Timer::Leader), Some(15));
    let done = follower.runs_out(Timer::Leader);
    assert_eq!((done.announced(), done.awaits(Timer::Tiebreaker)), (vec![Undecided], Some(12)));
}

#[test]
fn strangers_are_no_candidates() {
    let roster = Roster::numbered(6);
    assert_eq!(CandidateOrdinary::check(&options(&[1, 2, 6]), &roster), Ok(()));
    let refused = CandidateOrdinary::check(&options(&[1, 7]), &roster).unwrap_err();
    assert!(refused.name == "candidates" && refused.reason.contains('7'), "{refused:?}");
}

#[test]
fn a_leader_elected_again_is_news() {
    assert_eq!(follower(3).hears(6, result(6, 2)).announced(), [elected(6, 2)]);
}
