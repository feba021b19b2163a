//! The bully algorithm sentence by sentence: cs425 slides 32-43 and unimore.

use super::*;
use Message::{Answer, Election};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{Subject, elected, to};

fn process(me: u64) -> Subject<Bully> {
    Subject::new(me, 6, &Options::default())
}

fn coordinator(term: u64) -> Message {
    Message::Coordinator { term: Term(term) }
}

/// Process 3, which follows 6.
fn follower() -> Subject<Bully> {
    let mut follower = process(3);
    assert_eq!(follower.hears(6, coordinator(1)).announced(), [elected(6, 1)]);
    follower.waits(10);
    follower
}

/// "Sends it to only processes that have a higher id than itself" (slide 33).
#[test]
fn election_goes_to_higher_processes_only() {
    let done = process(3).campaigns();
    assert_eq!(done.sent(), to([4, 5, 6], Election));
    assert_eq!(done.awaits(Timer::Answer), Some(3));
    assert_eq!(done.announced(), []);
}

/// "When a process finds the coordinator has failed (via the failure detector)" (slide 32).
#[test]
fn the_failure_of_the_coordinator_starts_an_election_and_no_other_does() {
    let mut follower = follower();
    assert!(follower.suspects(5).is_nothing());
    let done = follower.suspects(6);
    assert_eq!((done.announced(), done.sent()), (vec![Undecided], to([4, 5, 6], Election)));
}

/// "If it knows its id is the highest, it elects itself as coordinator, then sends a Coordinator
/// message to all processes with lower identifiers" (slide 32). Best case: N - 2 messages.
#[test]
fn the_highest_announces_at_once() {
    assert_eq!(process(6).campaigns().sent(), to([1, 2, 3, 4, 5], coordinator(1)));
    let mut second = process(5);
    second.hears(6, coordinator(1));
    let done = second.suspects(6);
    assert_eq!(done.sent(), to([1, 2, 3, 4], coordinator(2)));
    assert_eq!(done.announced(), [Undecided, elected(5, 2)]);
}

/// "If receives no answer within timeout, calls itself leader and sends Coordinator message to all
/// lower id processes" (slide 33).
#[test]
fn without_an_answer_it_leads() {
    let mut caller = process(5);
    caller.campaigns();
    let done = caller.runs_out(Timer::Answer);
    assert_eq!(done.sent(), to([1, 2, 3, 4], coordinator(1)));
    assert_eq!(done.announced(), [elected(5, 1)]);
}

/// "If an answer received however, […] wait for coordinator message. If none received after another
/// timeout, start a new election run" (slide 33).
#[test]
fn answered_but_without_a_coordinator_it_calls_again() {
    let mut caller = process(3);
    caller.campaigns();
    assert_eq!(caller.hears(5, Answer).awaits(Timer::Coordinator), Some(6));
    assert!(caller.hears(4, Answer).is_nothing(), "one answer is enough");
    assert!(caller.hears(6, Answer).is_nothing());
    assert_eq!(caller.runs_out(Timer::Coordinator).sent(), to([4, 5, 6], Election));
}

#[test]
fn a_coordinator_that_ranks_below_one_that_answered_is_not_believed_unless_that_one_fails() {
    let mut caller = process(3);
    caller.campaigns();
    caller.hears(4, Answer);
    caller.hears(5, Answer);
    assert!(caller.hears(4, coordinator(1)).is_nothing());
    caller.suspects(5);
    assert_eq!(caller.hears(4, coordinator(1)).announced(), [elected(4, 1)]);
}

#[test]
fn the_coordinator_ends_the_election() {
    let mut caller = process(3);
    caller.campaigns();
    caller.hears(5, Answer);
    assert_eq!(caller.hears(5, coordinator(1)).announced(), [elected(5, 1)]);
    assert!(caller.hears(4, Answer).is_nothing(), "a late answer");
    assert!(caller.hears(5, coordinator(1)).announced().is_empty(), "a doubled announcement");
}

/// "A process that receives an Election message replies with OK message, and starts its own leader
/// election protocol (unless it has already done so)" (slide 33).
#[test]
fn a_higher_process_answers_and_holds_an_election_but_one_at_a_time() {
    let mut asked = process(4);
    let replied = |to: u64| (to, Answer);
    assert_eq!(asked.hears(3, Election).sent(), [vec![replied(3)], to([5, 6], Election)].concat());
    assert_eq!(asked.hears(2, Election).sent(), [replied(2)]);
    assert!(asked.hears(5, Election).is_nothing(), "a lower one is not asked, and does not answer");
    assert!(asked.campaigns().is_nothing());
}

#[test]
fn a_leader_that_has_just_announced_itself_only_answers() {
    let mut leader = process(6);
    leader.campaigns();
    leader.waits(2);
    assert_eq!(leader.hears(3, Election).sent(), [(3, Answer)]);
    leader.waits(1);
    assert_eq!(
        leader.hears(3, Election).sent(),
        [vec![(3, Answer)], to([1, 2, 3, 4, 5], coordinator(2))].concat()
    );
}

/// The same of a process that has just heard the coordinator: messages overtake each other, and were
/// it to call, every late `Election` would start the whole election again.
#[test]
fn a_follower_that_has_just_heard_its_leader_only_answers() {
    let mut follower = process(3);
    follower.hears(6, coordinator(1));
    follower.waits(2);
    assert_eq!(follower.hears(1, Election).sent(), [(1, Answer)]);
    follower.waits(1);
    assert_eq!(follower.hears(1, Election).sent(), [vec![(1, Answer)], to([4, 5, 6], Election)].concat());
}

/// "When a crashed process reboots, it holds an election" (unimore).
#[test]
fn a_recovering_process_holds_an_election() {
    let mut recovering = Subject::<Bully>::unstarted(3, 6, &Options::default());
    assert_eq!(recovering.starts(Start::Recovered(None)).sent(), to([4, 5, 6], Election));
    let mut best = Subject::<Bully>::unstarted(6, 6, &Options::default());
    assert_eq!(best.starts(Start::Recovered(None)).sent(), to([1, 2, 3, 4, 5], coordinator(1)));
}

#[test]
fn the_word_of_a_lower_coordinator_starts_an_election() {
    let done = process(5).hears(4, coordinator(7));
    assert_eq!((done.sent(), done.announced()), (to([6], Election), vec![]));
}

#[test]
fn a_later_term_follows_all_that_were_heard_of() {
    let mut best = process(6);
    assert_eq!(best.hears(4, coordinator(7)).announced(), [elected(6, 8)]);
}

#[test]
fn while_it_waits_it_leads_as_soon_as_nobody_above_is_left() {
    let mut caller = process(4);
    caller.campaigns();
    assert!(caller.suspects(6).is_nothing());
    assert_eq!(caller.suspects(5).sent(), to([1, 2, 3], coordinator(1)));
}

#[test]
fn the_late_word_of_a_suspect_is_passed_over_and_awaited_again_once_it_is_restored() {
    let mut follower = follower();
    follower.suspects(6);
    follower.hears(5, coordinator(2));
    assert!(follower.hears(6, coordinator(3)).is_nothing());
    assert_eq!(follower.restores(6).awaits(Timer::Coordinator), Some(6));
    assert_eq!(follower.runs_out(Timer::Coordinator).sent(), to([4, 5, 6], Election));
}

#[test]
fn a_leader_tells_the_restored_that_rank_below_and_asks_those_that_rank_above() {
    let mut leader = process(5);
    for peer in [6, 2] {
        leader.suspects(peer);
    }
    leader.campaigns();
    assert_eq!(leader.restores(2).sent(), [(2, coordinator(1))]);
    assert_eq!(leader.restores(6).sent(), [(6, Election)]);
}

#[test]
fn a_leader_that_gives_way_asks_its_successor_to_announce_itself() {
    let mut leader = process(5);
    leader.suspects(6);
    leader.campaigns();
    leader.restores(6);
    let done = leader.hears(6, coordinator(1));
    assert_eq!((done.sent(), done.announced()), (vec![(6, Election)], vec![elected(6, 1)]));
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_not_believed() {
    let mut follower = process(3);
    follower.hears(6, coordinator(1));
    follower.waits(3);
    let done = follower.hears(5, coordinator(2));
    assert_eq!((done.sent(), done.announced()), (to([4, 5, 6], Election), vec![]), "it comes too soon");

    let mut follower = process(3);
    follower.hears(6, coordinator(1));
    follower.suspects(6);
    let done = follower.hears(5, coordinator(2));
    assert_eq!(done.announced(), [elected(5, 2)], "unless the better one has failed since");

    let mut follower = self::follower();
    assert_eq!(follower.hears(5, coordinator(1)).announced(), [], "its term is not later");
    let mut follower = self::follower();
    assert_eq!(follower.hears(5, coordinator(2)).announced(), [elected(5, 2)]);
}

#[test]
fn a_change_of_rank_is_noticed_by_the_leader_and_by_whoever_outranks_it() {
    assert_eq!(follower().ranks(3, 9).sent(), to([1, 2, 4, 5, 6], coordinator(2)));
    assert!(follower().ranks(4, 9).is_nothing());
    let mut leader = process(6);
    leader.campaigns();
    assert_eq!(leader.ranks(6, 0).sent(), to([1, 2, 3, 4, 5], Election));
}

#[test]
fn with_reaffirm_the_leader_repeats_itself_and_its_silence_starts_an_election() {
    let options = Options { reaffirm: Some(5), ..Options::default() };
    let mut leader = Subject::<Bully>::new(6, 6, &options);
    assert_eq!(leader.campaigns().awaits(Timer::Reaffirm), Some(5));
    let done = leader.runs_out(Timer::Reaffirm);
    assert_eq!((done.sent(), done.announced()), (to([1, 2, 3, 4, 5], coordinator(1)), vec![]));
    assert_eq!(done.awaits(Timer::Reaffirm), Some(5));

    let mut follower = Subject::<Bully>::unstarted(3, 6, &options);
    assert_eq!(follower.starts(Start::Fresh).awaits(Timer::Leader), Some(15));
    assert_eq!(follower.hears(6, coordinator(1)).awaits(Timer::Leader), Some(15));
    let done = follower.runs_out(Timer::Leader);
    assert_eq!((done.announced(), done.sent()), (vec![Undecided], to([4, 5, 6], Election)));
}

#[test]
fn a_leader_elected_again_is_news() {
    assert_eq!(follower().hears(6, coordinator(2)).announced(), [elected(6, 2)]);
}
