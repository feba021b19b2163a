//! The modified bully algorithm sentence by sentence: Database Internals, ch. 10, "Bully Algorithm".

use super::*;
use Message::{Alive, Election, Proceed};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{Subject, elected, to};

fn process(me: u64) -> Subject<ModifiedBully> {
    Subject::new(me, 6, &Options::default())
}

fn lead(term: u64) -> Message {
    Message::Elected { term: Term(term) }
}

/// A process that follows 6.
fn follower(me: u64) -> Subject<ModifiedBully> {
    let mut follower = process(me);
    assert_eq!(follower.hears(6, lead(1)).announced(), [elected(6, 1)]);
    follower.waits(10);
    follower
}

/// 3 + 2 + 1 + 4 messages, leader 5.
#[test]
fn figure_10_1() {
    let mut three = process(3);
    let done = three.campaigns();
    assert_eq!(done.sent(), to([4, 5, 6], Election), "a) 3 starts a new election");
    assert_eq!(done.awaits(Timer::Alive), Some(3));
    for higher in [4, 5] {
        let done = process(higher).hears(3, Election);
        assert_eq!(done.sent(), [(3, Alive)], "b) 4 and 5 respond, and hold no elections of their own");
        assert!(three.hears(higher, Alive).is_nothing());
    }
    let done = three.runs_out(Timer::Alive);
    assert_eq!(done.sent(), [(5, Proceed)], "c) 3 notifies the highest-ranked process that responded");
    assert_eq!(done.awaits(Timer::Elected), Some(6));
    let done = process(5).hears(3, Proceed);
    assert_eq!(done.sent(), to([1, 2, 3, 4], lead(1)), "d) 5 is elected");
    assert_eq!(done.announced(), [elected(5, 1)]);
    assert_eq!(three.hears(5, lead(1)).announced(), [elected(5, 1)]);
}

/// "If no higher-ranked process responds, it proceeds with step 3."
#[test]
fn without_a_reply_it_leads() {
    let mut caller = process(4);
    caller.campaigns();
    assert_eq!(caller.runs_out(Timer::Alive).sent(), to([1, 2, 3], lead(1)));
}

#[test]
fn it_does_not_wait_for_suspects() {
    let mut caller = follower(3);
    assert_eq!(caller.suspects(6).sent(), to([4, 5, 6], Election), "it asks them all the same");
    caller.hears(4, Alive);
    assert!(caller.hears(6, Alive).is_nothing(), "a late word of the dead");
    assert_eq!(caller.hears(5, Alive).sent(), [(5, Proceed)]);

    let mut caller = process(3);
    caller.campaigns();
    caller.hears(4, Alive);
    caller.hears(5, Alive);
    assert_eq!(caller.suspects(6).sent(), [(5, Proceed)], "suspected on the way");
}

#[test]
fn one_that_replied_and_failed_is_not_notified() {
    let mut caller = process(3);
    caller.campaigns();
    caller.hears(4, Alive);
    caller.hears(5, Alive);
    caller.suspects(5);
    assert_eq!(caller.runs_out(Timer::Alive).sent(), [(4, Proceed)]);
}

#[test]
fn one_that_knows_it_is_the_best_announces_at_once() {
    assert_eq!(process(6).campaigns().sent(), to([1, 2, 3, 4, 5], lead(1)));
    let done = follower(5).suspects(6);
    assert_eq!(done.sent(), to([1, 2, 3, 4], lead(2)), "N - 2 messages");
    assert_eq!(done.announced(), [Undecided, elected(5, 2)]);
}

#[test]
fn at_most_one_election_at_a_time() {
    let mut caller = process(3);
    caller.campaigns();
    assert!(caller.campaigns().is_nothing());
    for higher in [4, 5, 6] {
        caller.hears(higher, Alive);
    }
    assert!(caller.campaigns().is_nothing());
    assert!(caller.hears(5, Alive).is_nothing(), "a doubled reply");
    assert_eq!(caller.hears(2, Election).sent(), [(2, Alive)], "others' elections go on");
}

#[test]
fn if_the_notified_one_dies_the_election_starts_again() {
    let mut caller = process(3);
    caller.campaigns();
    caller.hears(5, Alive);
    caller.runs_out(Timer::Alive);
    assert_eq!(caller.runs_out(Timer::Elected).sent(), to([4, 5, 6], Election), "by the time-out");

    let mut caller = process(4);
    caller.suspects(6);
    caller.campaigns();
    assert_eq!(caller.hears(5, Alive).sent(), [(5, Proceed)]);
    assert_eq!(caller.suspects(5).sent(), to([1, 2, 3], lead(1)), "by the detector");
}

#[test]
fn two_callers_make_one_announcement() {
    let mut best = process(5);
    assert_eq!(best.hears(3, Proceed).sent().len(), 4);
    best.waits(2);
    assert!(best.hears(2, Proceed).is_nothing());
    best.waits(1);
    assert_eq!(best.hears(2, Proceed).sent(), to([1, 2, 3, 4], lead(2)), "2 seems to have missed it");
}

#[test]
fn one_that_is_notified_during_its_own_election_goes_on_with_that() {
    let mut notified = process(5);
    notified.campaigns();
    assert!(notified.hears(3, Proceed).is_nothing());
    assert_eq!(notified.hears(6, Alive).sent(), [(6, Proceed)]);
    assert!(notified.hears(3, Proceed).is_nothing());
}

#[test]
fn a_leader_deposed_by_a_wrong_suspicion_can_object() {
    let done = follower(5).hears(3, Proceed);
    let told = [to([1, 2, 3, 4], lead(2)), vec![(6, Message::Deposed { term: Term(2) })]].concat();
    assert_eq!(done.sent(), told);
    let mut leader = process(6);
    leader.campaigns();
    let done = leader.hears(5, Message::Deposed { term: Term(2) });
    assert_eq!(done.sent(), to([1, 2, 3, 4, 5], lead(3)));
}

#[test]
fn a_recovering_process_holds_an_election() {
    let mut recovering = Subject::<ModifiedBully>::unstarted(3, 6, &Options::default());
    assert_eq!(recovering.starts(Start::Recovered(None)).sent(), to([4, 5, 6], Election));
}

#[test]
fn the_word_of_a_lower_leader_starts_an_election() {
    let done = process(5).hears(4, lead(7));
    assert_eq!((done.sent(), done.announced()), (to([6], Election), vec![]));
    assert!(process(3).hears(4, Election).is_nothing(), "one that ranks below is not asked");
}

#[test]
fn the_late_word_of_a_suspect_is_passed_over_and_awaited_again_once_it_is_restored() {
    let mut follower = follower(5);
    follower.suspects(6);
    assert!(follower.hears(6, lead(2)).is_nothing());

    let mut follower = self::follower(3);
    follower.suspects(6);
    assert_eq!(follower.hears(5, lead(2)).announced(), [elected(5, 2)]);
    assert!(follower.hears(6, lead(3)).is_nothing());
    assert_eq!(follower.restores(6).awaits(Timer::Elected), Some(6));
    follower.waits(5);
    assert!(follower.hears(5, lead(4)).announced().is_empty(), "not while a better one is awaited");
    assert_eq!(follower.runs_out(Timer::Elected).sent(), to([4, 5, 6], Election));
}

#[test]
fn one_that_is_restored_during_the_poll_is_asked_too() {
    let mut caller = follower(4);
    caller.suspects(6);
    let done = caller.restores(6);
    assert_eq!((done.sent(), done.awaits(Timer::Alive)), (vec![(6, Election)], Some(3)));
    assert!(caller.hears(5, Alive).is_nothing());
    assert_eq!(caller.hears(6, Alive).sent(), [(6, Proceed)]);
}

#[test]
fn a_leader_tells_the_restored_that_rank_below_and_asks_those_that_rank_above() {
    let mut leader = process(5);
    leader.suspects(6);
    leader.suspects(2);
    leader.campaigns();
    assert_eq!(leader.restores(2).sent(), [(2, lead(1))]);
    assert_eq!(leader.restores(6).sent(), [(6, Election)]);
    let done = leader.hears(6, lead(1));
    assert_eq!(done.sent(), [(6, Proceed)], "those that 5 had told have to be told");
    assert_eq!(done.announced(), [elected(6, 1)]);
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_not_believed() {
    let mut follower = process(3);
    follower.hears(6, lead(1));
    follower.waits(3);
    assert_eq!(follower.hears(5, lead(2)).sent(), to([4, 5, 6], Election), "it comes too soon");
    assert_eq!(self::follower(3).hears(5, lead(1)).announced(), [], "its term is not later");
    assert_eq!(self::follower(3).hears(5, lead(2)).announced(), [elected(5, 2)]);
}

#[test]
fn a_change_of_rank_is_noticed_by_the_leader_and_by_whoever_outranks_it() {
    assert_eq!(follower(3).ranks(3, 9).sent(), to([1, 2, 4, 5, 6], lead(2)));
    assert!(follower(3).ranks(4, 9).is_nothing());
    let mut leader = process(6);
    leader.campaigns();
    assert_eq!(leader.ranks(6, 0).sent(), to([1, 2, 3, 4, 5], Election));
}

#[test]
fn with_reaffirm_the_leader_repeats_itself_and_its_silence_starts_an_election() {
    let options = Options { reaffirm: Some(5), ..Options::default() };
    let mut leader = Subject::<ModifiedBully>::new(6, 6, &options);
    assert_eq!(leader.campaigns().awaits(Timer::Reaffirm), Some(5));
    assert_eq!(leader.runs_out(Timer::Reaffirm).sent(), to([1, 2, 3, 4, 5], lead(1)));
    let mut follower = Subject::<ModifiedBully>::new(3, 6, &options);
    assert_eq!(follower.hears(6, lead(1)).awaits(Timer::Leader), Some(15));
    let done = follower.runs_out(Timer::Leader);
    assert_eq!((done.announced(), done.sent()), (vec![Undecided], to([4, 5, 6], Election)));
}

#[test]
fn a_leader_elected_again_is_news() {
    assert_eq!(follower(3).hears(6, lead(2)).announced(), [elected(6, 2)]);
}
