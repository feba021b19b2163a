//! One test per sentence on next-in-line failover: Database Internals, ch. 10, "Next-In-Line Failover".

use super::*;
use Message::{Alive, Election, Proceed};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{TestProcess, elected, to};

fn ids(ids: &[u64]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

fn lead(term: u64, alternatives: &[u64]) -> Message {
    Message::Elected { term: Term(term), alternatives: ids(alternatives) }
}

fn contact(failed: u64) -> Message {
    Message::Contact { failed: Some(NodeId(failed)) }
}

fn process(me: u64) -> TestProcess<NextInLine> {
    TestProcess::new(me, 6, &Options::default())
}

/// A process that knows the alternatives from its start: `--alternatives 5,4`.
fn informed(me: u64) -> TestProcess<NextInLine> {
    TestProcess::new(me, 6, &Options { alternatives: ids(&[5, 4]).into(), ..Options::default() })
}

/// A process that follows 6, whose alternatives are 5 and 4.
fn follower(me: u64) -> TestProcess<NextInLine> {
    let mut follower = process(me);
    assert_eq!(follower.receive(6, lead(1, &[5, 4])).announced(), [elected(6, 1)]);
    follower.advance(10);
    follower
}

/// 1 + 1 + 4 messages, from `--nodes 6 --crashed 6 --initiator 3 --alternatives 5,4`.
#[test]
fn the_example_of_figure_10_2_elects_5() {
    let (mut three, mut five) = (informed(3), informed(5));
    let step = three.campaign();
    assert_eq!(step.sent(), [(5, contact(6))], "a) 3 contacts 5");
    assert_eq!(step.timer_delays(Timer::Alive), Some(3));
    let step = five.receive(3, contact(6));
    let notified = to([1, 2, 3, 4], lead(1, &[4, 3]));
    assert_eq!(step.sent(), [vec![(3, Alive)], notified].concat(), "b) and c)");
    assert_eq!(step.announced(), [elected(5, 1)]);
    let step = three.receive(5, Alive);
    assert_eq!((step.sent(), step.timer_delays(Timer::Elected)), (vec![], Some(6)), "4 is not contacted");
    assert_eq!(three.receive(5, lead(1, &[4, 3])).announced(), [elected(5, 1)]);
}

/// "Each elected leader provides a list of failover nodes."
#[test]
fn a_leader_names_the_best_unsuspected_processes() {
    let mut leader = process(6);
    leader.suspect(5);
    assert_eq!(leader.campaign().sent(), to([1, 2, 3, 4, 5], lead(1, &[4, 3])));
    let mut leader = TestProcess::<NextInLine>::new(2, 2, &Options::default());
    assert_eq!(leader.campaign().sent(), [(1, lead(1, &[1]))]);
    let mut leader = TestProcess::<NextInLine>::new(6, 6, &Options { spares: 0, ..Options::default() });
    assert_eq!(leader.campaign().sent(), to([1, 2, 3, 4, 5], lead(1, &[])));
}

#[test]
fn the_list_of_the_failed_leader_replaces_older_ones() {
    let mut caller = informed(2);
    caller.receive(6, lead(1, &[4, 3]));
    let step = caller.suspect(6);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], vec![(4, contact(6))]));
}

/// "If the process that has detected the leader failure is itself the highest ranked process from the
/// list, it can notify the processes about the new leader right away."
#[test]
fn the_highest_alternative_announces_itself_at_once() {
    assert_eq!(follower(5).suspect(6).sent(), to([1, 2, 3, 4], lead(2, &[4, 3])));
    let mut four = follower(4);
    four.suspect(5);
    assert_eq!(
        four.suspect(6).sent(),
        to([1, 2, 3], lead(2, &[3, 2])),
        "suspected processes get no announcement"
    );
}

#[test]
fn the_next_alternative_is_contacted_if_one_does_not_reply() {
    let mut caller = follower(3);
    caller.suspect(6);
    assert_eq!(caller.expire(Timer::Alive).sent(), [(4, contact(6))], "by the time-out");
    assert!(caller.receive(5, Alive).is_empty(), "too late");
    let mut caller = follower(3);
    caller.suspect(6);
    assert_eq!(caller.suspect(5).sent(), [(4, contact(6))], "by the detector");
    let mut caller = follower(3);
    caller.suspect(5);
    assert_eq!(caller.suspect(6).sent(), [(4, contact(6))], "suspected before");
    let mut four = follower(4);
    four.suspect(6);
    assert_eq!(four.expire(Timer::Alive).sent(), to([1, 2, 3, 5], lead(2, &[3, 2])), "the process itself");
}

#[test]
fn a_complete_election_is_held_when_no_alternative_is_left() {
    let mut caller = follower(3);
    caller.suspect(6);
    caller.expire(Timer::Alive);
    assert_eq!(caller.expire(Timer::Alive).sent(), to([4, 5, 6], Election));
    caller.receive(4, Alive);
    assert_eq!(caller.expire(Timer::Alive).sent(), [(4, Proceed)]);
    assert_eq!(process(4).receive(3, Proceed).sent(), to([1, 2, 3], lead(1, &[3, 2])));

    let mut caller = process(5);
    assert_eq!(caller.campaign().sent(), [(6, Election)], "no alternative was ever named");
    assert_eq!(caller.expire(Timer::Alive).sent(), to([1, 2, 3, 4], lead(1, &[4, 3])));
}

#[test]
fn a_process_that_outranks_the_alternatives_does_not_contact_them() {
    let mut caller = process(5);
    caller.receive(6, lead(1, &[4, 3]));
    caller.advance(10);
    assert_eq!(caller.suspect(6).sent(), to([1, 2, 3, 4], lead(2, &[4, 3])));
    let mut caller = process(4);
    caller.receive(6, lead(1, &[3, 2]));
    assert_eq!(caller.suspect(6).sent(), to([5, 6], Election));
}

#[test]
fn a_missing_announcement_of_a_live_alternative_starts_a_complete_election() {
    let mut caller = follower(3);
    caller.suspect(6);
    caller.receive(5, Alive);
    assert_eq!(caller.expire(Timer::Elected).sent(), to([4, 5, 6], Election));
    let mut caller = follower(3);
    caller.suspect(6);
    caller.receive(5, Alive);
    assert_eq!(caller.suspect(5).sent(), to([4, 5, 6], Election), "the alternative has failed");
}

#[test]
fn an_alternative_also_announces_itself_to_higher_processes_which_object() {
    let step = process(4).receive(3, contact(6));
    let notified = to([1, 2, 3, 5], lead(1, &[3, 2]));
    assert_eq!(step.sent(), [vec![(3, Alive)], notified].concat());
    let mut five = follower(5);
    assert_eq!(five.receive(4, lead(2, &[3, 2])).sent(), [(6, Election)]);
}

#[test]
fn two_callers_cause_one_announcement() {
    let mut five = process(5);
    five.receive(3, contact(6));
    assert_eq!(five.receive(2, contact(6)).sent(), [(2, Alive)]);
    five.advance(3);
    assert_eq!(five.receive(2, contact(6)).sent().len(), 5, "2 seems to have missed the announcement");
}

#[test]
fn a_process_contacted_during_its_own_election_continues_that_election() {
    let mut four = follower(4);
    four.suspect(6);
    assert_eq!(four.receive(3, contact(6)).sent(), [(3, Alive)]);
    assert!(four.receive(3, Proceed).is_empty());
}

#[test]
fn a_leader_replaced_by_a_false_suspicion_can_object() {
    let step = follower(5).receive(3, contact(6));
    let deposed = Message::Deposed { term: Term(2) };
    assert_eq!(step.sent().last(), Some(&(6, deposed.clone())), "5 still believed in 6");
    let step = follower(4).receive(3, contact(5));
    assert_eq!(step.sent()[1..], to([1, 2, 3, 6], lead(2, &[3, 2])), "the announcement goes to 6 anyway");
    let mut leader = process(6);
    leader.campaign();
    assert_eq!(leader.receive(5, deposed).sent(), to([1, 2, 3, 4, 5], lead(3, &[5, 4])));
}

#[test]
fn the_end_of_a_false_suspicion_makes_the_process_await_the_better_leader_and_call() {
    let mut caller = follower(3);
    caller.suspect(6);
    caller.receive(5, Alive);
    assert_eq!(caller.receive(5, lead(2, &[4, 3])).announced(), [elected(5, 2)]);
    assert!(caller.receive(6, lead(3, &[5, 4])).is_empty(), "rejected");
    assert_eq!(caller.restore(6).timer_delays(Timer::Elected), Some(6));
    assert_eq!(caller.expire(Timer::Elected).sent(), to([4, 5, 6], Election));
}

#[test]
fn a_leader_restored_while_an_alternative_is_contacted_is_awaited_instead() {
    let mut caller = follower(3);
    caller.suspect(6);
    assert_eq!(caller.restore(6).timer_delays(Timer::Elected), Some(6));
    assert_eq!(caller.receive(5, lead(2, &[4, 3])).announced(), []);
    assert_eq!(caller.receive(6, lead(3, &[5, 4])).announced(), [elected(6, 3)]);
}

#[test]
fn a_process_restored_during_the_poll_is_asked_too() {
    let mut caller = process(5);
    caller.suspect(6);
    caller.restore(6);
    caller.campaign();
    assert_eq!(caller.suspect(6).announced(), [elected(5, 1)], "no higher process is left");
    let step = caller.restore(6);
    assert_eq!((step.sent(), step.timer_delays(Timer::Alive)), (vec![(6, Election)], Some(3)));
}

#[test]
fn a_leader_announces_itself_to_restored_lower_processes_and_defers_to_restored_higher_ones() {
    let mut leader = process(5);
    leader.suspect(6);
    leader.suspect(2);
    leader.campaign();
    assert_eq!(leader.restore(2).sent(), [(2, lead(1, &[4, 3]))]);
    assert_eq!(leader.restore(6).sent(), [(6, Election)]);
    let step = leader.receive(6, lead(1, &[5, 4]));
    assert_eq!((step.sent(), step.announced()), (vec![(6, Proceed)], vec![elected(6, 1)]));
}

#[test]
fn a_recovering_process_holds_a_complete_election() {
    let mut recovering = TestProcess::<NextInLine>::unstarted(3, 6, &Options::default());
    assert_eq!(recovering.start(Start::Recovered(None)).sent(), to([4, 5, 6], Election));
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_rejected() {
    let mut follower = process(3);
    follower.receive(6, lead(1, &[5, 4]));
    assert_eq!(follower.receive(5, lead(2, &[4])).sent(), to([4, 5, 6], Election));
    assert_eq!(self::follower(3).receive(5, lead(2, &[4])).announced(), [elected(5, 2)]);
}

#[test]
fn with_reaffirm_a_silent_leader_counts_as_failed() {
    let options = Options { reaffirm: Some(5), ..Options::default() };
    let mut follower = TestProcess::<NextInLine>::new(3, 6, &options);
    assert_eq!(follower.receive(6, lead(1, &[5, 4])).timer_delays(Timer::Leader), Some(15));
    let step = follower.expire(Timer::Leader);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], vec![(5, contact(6))]));
    let mut leader = TestProcess::<NextInLine>::new(6, 6, &options);
    leader.campaign();
    assert_eq!(leader.expire(Timer::Reaffirm).sent(), to([1, 2, 3, 4, 5], lead(1, &[5, 4])));
}

#[test]
fn non_members_are_rejected_as_alternatives() {
    let options = |list: &[u64]| Options { alternatives: ids(list).into(), ..Options::default() };
    let roster = Roster::numbered(6);
    assert_eq!(NextInLine::check(&options(&[5, 4]), &roster), Ok(()));
    let refused = NextInLine::check(&options(&[5, 7]), &roster).unwrap_err();
    assert!(refused.name == "alternatives" && refused.reason.contains('7'), "{refused:?}");
}

#[test]
fn a_reelected_leader_is_announced_again() {
    assert_eq!(follower(3).receive(6, lead(2, &[5])).announced(), [elected(6, 2)]);
}
