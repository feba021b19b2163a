//! One test per sentence on the modified bully algorithm: Database Internals, ch. 10, "Bully Algorithm".

use super::*;
use Message::{Alive, Election, Proceed};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{TestProcess, elected, to};

fn process(me: u64) -> TestProcess<ModifiedBully> {
    TestProcess::new(me, 6, &Options::default())
}

fn lead(term: u64) -> Message {
    Message::Elected { term: Term(term) }
}

/// A process that follows 6.
fn follower(me: u64) -> TestProcess<ModifiedBully> {
    let mut follower = process(me);
    assert_eq!(follower.receive(6, lead(1)).announced(), [elected(6, 1)]);
    follower.advance(10);
    follower
}

/// 3 + 2 + 1 + 4 messages, leader 5.
#[test]
fn the_example_of_figure_10_1_elects_5() {
    let mut three = process(3);
    let step = three.campaign();
    assert_eq!(step.sent(), to([4, 5, 6], Election), "a) 3 starts a new election");
    assert_eq!(step.timer_delays(Timer::Alive), Some(3));
    for higher in [4, 5] {
        let step = process(higher).receive(3, Election);
        assert_eq!(step.sent(), [(3, Alive)], "b) 4 and 5 respond, and hold no elections of their own");
        assert!(three.receive(higher, Alive).is_empty());
    }
    let step = three.expire(Timer::Alive);
    assert_eq!(step.sent(), [(5, Proceed)], "c) 3 notifies the highest-ranked process that responded");
    assert_eq!(step.timer_delays(Timer::Elected), Some(6));
    let step = process(5).receive(3, Proceed);
    assert_eq!(step.sent(), to([1, 2, 3, 4], lead(1)), "d) 5 is elected");
    assert_eq!(step.announced(), [elected(5, 1)]);
    assert_eq!(three.receive(5, lead(1)).announced(), [elected(5, 1)]);
}

/// "If no higher-ranked process responds, it proceeds with step 3."
#[test]
fn a_caller_without_a_reply_leads() {
    let mut caller = process(4);
    caller.campaign();
    assert_eq!(caller.expire(Timer::Alive).sent(), to([1, 2, 3], lead(1)));
}

#[test]
fn a_caller_does_not_await_replies_of_suspected_processes() {
    let mut caller = follower(3);
    assert_eq!(
        caller.suspect(6).sent(),
        to([4, 5, 6], Election),
        "suspected processes are asked all the same"
    );
    caller.receive(4, Alive);
    assert!(caller.receive(6, Alive).is_empty(), "a delayed message of a suspected process");
    assert_eq!(caller.receive(5, Alive).sent(), [(5, Proceed)]);

    let mut caller = process(3);
    caller.campaign();
    caller.receive(4, Alive);
    caller.receive(5, Alive);
    assert_eq!(caller.suspect(6).sent(), [(5, Proceed)], "suspected during the poll");
}

#[test]
fn a_process_that_replied_and_failed_is_not_notified() {
    let mut caller = process(3);
    caller.campaign();
    caller.receive(4, Alive);
    caller.receive(5, Alive);
    caller.suspect(5);
    assert_eq!(caller.expire(Timer::Alive).sent(), [(4, Proceed)]);
}

#[test]
fn a_process_that_knows_it_is_the_best_announces_itself_at_once() {
    assert_eq!(process(6).campaign().sent(), to([1, 2, 3, 4, 5], lead(1)));
    let step = follower(5).suspect(6);
    assert_eq!(step.sent(), to([1, 2, 3, 4], lead(2)), "N - 2 messages");
    assert_eq!(step.announced(), [Undecided, elected(5, 2)]);
}

#[test]
fn a_process_runs_at_most_one_election_at_a_time() {
    let mut caller = process(3);
    caller.campaign();
    assert!(caller.campaign().is_empty());
    for higher in [4, 5, 6] {
        caller.receive(higher, Alive);
    }
    assert!(caller.campaign().is_empty());
    assert!(caller.receive(5, Alive).is_empty(), "a duplicated reply");
    assert_eq!(caller.receive(2, Election).sent(), [(2, Alive)], "elections of others continue");
}

#[test]
fn the_election_starts_again_if_the_notified_process_fails() {
    let mut caller = process(3);
    caller.campaign();
    caller.receive(5, Alive);
    caller.expire(Timer::Alive);
    assert_eq!(caller.expire(Timer::Elected).sent(), to([4, 5, 6], Election), "by the time-out");

    let mut caller = process(4);
    caller.suspect(6);
    caller.campaign();
    assert_eq!(caller.receive(5, Alive).sent(), [(5, Proceed)]);
    assert_eq!(caller.suspect(5).sent(), to([1, 2, 3], lead(1)), "by the detector");
}

#[test]
fn two_callers_cause_one_announcement() {
    let mut best = process(5);
    assert_eq!(best.receive(3, Proceed).sent().len(), 4);
    best.advance(2);
    assert!(best.receive(2, Proceed).is_empty());
    best.advance(1);
    assert_eq!(
        best.receive(2, Proceed).sent(),
        to([1, 2, 3, 4], lead(2)),
        "2 seems to have missed the announcement"
    );
}

#[test]
fn a_process_notified_during_its_own_election_continues_that_election() {
    let mut notified = process(5);
    notified.campaign();
    assert!(notified.receive(3, Proceed).is_empty());
    assert_eq!(notified.receive(6, Alive).sent(), [(6, Proceed)]);
    assert!(notified.receive(3, Proceed).is_empty());
}

#[test]
fn a_leader_replaced_by_a_false_suspicion_can_object() {
    let step = follower(5).receive(3, Proceed);
    let expected = [to([1, 2, 3, 4], lead(2)), vec![(6, Message::Deposed { term: Term(2) })]].concat();
    assert_eq!(step.sent(), expected);
    let mut leader = process(6);
    leader.campaign();
    let step = leader.receive(5, Message::Deposed { term: Term(2) });
    assert_eq!(step.sent(), to([1, 2, 3, 4, 5], lead(3)));
}

#[test]
fn a_recovering_process_holds_an_election() {
    let mut recovering = TestProcess::<ModifiedBully>::unstarted(3, 6, &Options::default());
    assert_eq!(recovering.start(Start::Recovered(None)).sent(), to([4, 5, 6], Election));
}

#[test]
fn the_announcement_of_a_lower_leader_starts_an_election() {
    let step = process(5).receive(4, lead(7));
    assert_eq!((step.sent(), step.announced()), (to([6], Election), vec![]));
    assert!(process(3).receive(4, Election).is_empty(), "a lower process does not reply");
}

#[test]
fn the_announcement_of_a_suspected_process_is_rejected_and_awaited_again_once_it_is_restored() {
    let mut follower = follower(5);
    follower.suspect(6);
    assert!(follower.receive(6, lead(2)).is_empty());

    let mut follower = self::follower(3);
    follower.suspect(6);
    assert_eq!(follower.receive(5, lead(2)).announced(), [elected(5, 2)]);
    assert!(follower.receive(6, lead(3)).is_empty());
    assert_eq!(follower.restore(6).timer_delays(Timer::Elected), Some(6));
    follower.advance(5);
    assert!(
        follower.receive(5, lead(4)).announced().is_empty(),
        "not while a better announcement is awaited"
    );
    assert_eq!(follower.expire(Timer::Elected).sent(), to([4, 5, 6], Election));
}

#[test]
fn a_process_restored_during_the_poll_is_asked_too() {
    let mut caller = follower(4);
    caller.suspect(6);
    let step = caller.restore(6);
    assert_eq!((step.sent(), step.timer_delays(Timer::Alive)), (vec![(6, Election)], Some(3)));
    assert!(caller.receive(5, Alive).is_empty());
    assert_eq!(caller.receive(6, Alive).sent(), [(6, Proceed)]);
}

#[test]
fn a_leader_announces_itself_to_restored_lower_processes_and_asks_restored_higher_ones() {
    let mut leader = process(5);
    leader.suspect(6);
    leader.suspect(2);
    leader.campaign();
    assert_eq!(leader.restore(2).sent(), [(2, lead(1))]);
    assert_eq!(leader.restore(6).sent(), [(6, Election)]);
    let step = leader.receive(6, lead(1));
    assert_eq!(step.sent(), [(6, Proceed)], "the followers of 5 must get the announcement");
    assert_eq!(step.announced(), [elected(6, 1)]);
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_rejected() {
    let mut follower = process(3);
    follower.receive(6, lead(1));
    follower.advance(3);
    assert_eq!(
        follower.receive(5, lead(2)).sent(),
        to([4, 5, 6], Election),
        "the announcement comes too soon"
    );
    assert_eq!(self::follower(3).receive(5, lead(1)).announced(), [], "the term is not greater");
    assert_eq!(self::follower(3).receive(5, lead(2)).announced(), [elected(5, 2)]);
}

#[test]
fn a_change_of_rank_makes_the_leader_or_a_process_that_outranks_it_call_an_election() {
    assert_eq!(follower(3).set_attribute(3, 9).sent(), to([1, 2, 4, 5, 6], lead(2)));
    assert!(follower(3).set_attribute(4, 9).is_empty());
    let mut leader = process(6);
    leader.campaign();
    assert_eq!(leader.set_attribute(6, 0).sent(), to([1, 2, 3, 4, 5], Election));
}

#[test]
fn with_reaffirm_the_leader_repeats_its_announcement_and_its_silence_starts_an_election() {
    let options = Options { reaffirm: Some(5), ..Options::default() };
    let mut leader = TestProcess::<ModifiedBully>::new(6, 6, &options);
    assert_eq!(leader.campaign().timer_delays(Timer::Reaffirm), Some(5));
    assert_eq!(leader.expire(Timer::Reaffirm).sent(), to([1, 2, 3, 4, 5], lead(1)));
    let mut follower = TestProcess::<ModifiedBully>::new(3, 6, &options);
    assert_eq!(follower.receive(6, lead(1)).timer_delays(Timer::Leader), Some(15));
    let step = follower.expire(Timer::Leader);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], to([4, 5, 6], Election)));
}

#[test]
fn a_reelected_leader_is_announced_again() {
    assert_eq!(follower(3).receive(6, lead(2)).announced(), [elected(6, 2)]);
}
