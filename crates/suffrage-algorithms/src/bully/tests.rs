//! One test per sentence on the bully algorithm: cs425 slides 32-43 and unimore.

use super::*;
use Message::{Answer, Election};
use suffrage_core::Announcement::Undecided;
use suffrage_core::testing::{TestProcess, elected, to};

fn process(me: u64) -> TestProcess<Bully> {
    TestProcess::new(me, 6, &Options::default())
}

fn coordinator(term: u64) -> Message {
    Message::Coordinator { term: Term(term) }
}

/// Process 3, which follows 6.
fn follower() -> TestProcess<Bully> {
    let mut follower = process(3);
    assert_eq!(follower.receive(6, coordinator(1)).announced(), [elected(6, 1)]);
    follower.advance(10);
    follower
}

/// "Sends it to only processes that have a higher id than itself" (slide 33).
#[test]
fn election_goes_to_higher_processes_only() {
    let step = process(3).campaign();
    assert_eq!(step.sent(), to([4, 5, 6], Election));
    assert_eq!(step.timer_delays(Timer::Answer), Some(3));
    assert_eq!(step.announced(), []);
}

/// "When a process finds the coordinator has failed (via the failure detector)" (slide 32).
#[test]
fn only_the_failure_of_the_coordinator_starts_an_election() {
    let mut follower = follower();
    assert!(follower.suspect(5).is_empty());
    let step = follower.suspect(6);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], to([4, 5, 6], Election)));
}

/// "If it knows its id is the highest, it elects itself as coordinator, then sends a Coordinator
/// message to all processes with lower identifiers" (slide 32). Best case: N - 2 messages.
#[test]
fn the_highest_process_announces_itself_at_once() {
    assert_eq!(process(6).campaign().sent(), to([1, 2, 3, 4, 5], coordinator(1)));
    let mut second = process(5);
    second.receive(6, coordinator(1));
    let step = second.suspect(6);
    assert_eq!(step.sent(), to([1, 2, 3, 4], coordinator(2)));
    assert_eq!(step.announced(), [Undecided, elected(5, 2)]);
}

/// "If receives no answer within timeout, calls itself leader and sends Coordinator message to all
/// lower id processes" (slide 33).
#[test]
fn a_caller_without_an_answer_leads() {
    let mut caller = process(5);
    caller.campaign();
    let step = caller.expire(Timer::Answer);
    assert_eq!(step.sent(), to([1, 2, 3, 4], coordinator(1)));
    assert_eq!(step.announced(), [elected(5, 1)]);
}

/// "If an answer received however, […] wait for coordinator message. If none received after another
/// timeout, start a new election run" (slide 33).
#[test]
fn a_caller_that_is_answered_but_gets_no_coordinator_calls_again() {
    let mut caller = process(3);
    caller.campaign();
    assert_eq!(caller.receive(5, Answer).timer_delays(Timer::Coordinator), Some(6));
    assert!(caller.receive(4, Answer).is_empty(), "one answer is enough");
    assert!(caller.receive(6, Answer).is_empty());
    assert_eq!(caller.expire(Timer::Coordinator).sent(), to([4, 5, 6], Election));
}

#[test]
fn a_coordinator_below_an_answering_process_is_rejected_until_that_process_fails() {
    let mut caller = process(3);
    caller.campaign();
    caller.receive(4, Answer);
    caller.receive(5, Answer);
    assert!(caller.receive(4, coordinator(1)).is_empty());
    caller.suspect(5);
    assert_eq!(caller.receive(4, coordinator(1)).announced(), [elected(4, 1)]);
}

#[test]
fn the_coordinator_ends_the_election() {
    let mut caller = process(3);
    caller.campaign();
    caller.receive(5, Answer);
    assert_eq!(caller.receive(5, coordinator(1)).announced(), [elected(5, 1)]);
    assert!(caller.receive(4, Answer).is_empty(), "a late answer");
    assert!(caller.receive(5, coordinator(1)).announced().is_empty(), "a duplicated announcement");
}

/// "A process that receives an Election message replies with OK message, and starts its own leader
/// election protocol (unless it has already done so)" (slide 33).
#[test]
fn a_higher_process_answers_and_holds_one_election_at_a_time() {
    let mut asked = process(4);
    let answer_to = |to: u64| (to, Answer);
    assert_eq!(asked.receive(3, Election).sent(), [vec![answer_to(3)], to([5, 6], Election)].concat());
    assert_eq!(asked.receive(2, Election).sent(), [answer_to(2)]);
    assert!(asked.receive(5, Election).is_empty(), "a lower process does not answer");
    assert!(asked.campaign().is_empty());
}

#[test]
fn a_leader_that_has_just_announced_itself_answers_without_an_election() {
    let mut leader = process(6);
    leader.campaign();
    leader.advance(2);
    assert_eq!(leader.receive(3, Election).sent(), [(3, Answer)]);
    leader.advance(1);
    assert_eq!(
        leader.receive(3, Election).sent(),
        [vec![(3, Answer)], to([1, 2, 3, 4, 5], coordinator(2))].concat()
    );
}

/// The same holds for a process that has just received the announcement. Messages are reordered: if the process
/// called an election, every late `Election` would start the whole election again.
#[test]
fn a_follower_of_a_just_announced_leader_answers_without_an_election() {
    let mut follower = process(3);
    follower.receive(6, coordinator(1));
    follower.advance(2);
    assert_eq!(follower.receive(1, Election).sent(), [(1, Answer)]);
    follower.advance(1);
    assert_eq!(follower.receive(1, Election).sent(), [vec![(1, Answer)], to([4, 5, 6], Election)].concat());
}

/// "When a crashed process reboots, it holds an election" (unimore).
#[test]
fn a_recovering_process_holds_an_election() {
    let mut recovering = TestProcess::<Bully>::unstarted(3, 6, &Options::default());
    assert_eq!(recovering.start(Start::Recovered(None)).sent(), to([4, 5, 6], Election));
    let mut best = TestProcess::<Bully>::unstarted(6, 6, &Options::default());
    assert_eq!(best.start(Start::Recovered(None)).sent(), to([1, 2, 3, 4, 5], coordinator(1)));
}

#[test]
fn the_announcement_of_a_lower_coordinator_starts_an_election() {
    let step = process(5).receive(4, coordinator(7));
    assert_eq!((step.sent(), step.announced()), (to([6], Election), vec![]));
}

#[test]
fn a_new_leader_uses_a_term_above_all_observed_terms() {
    let mut best = process(6);
    assert_eq!(best.receive(4, coordinator(7)).announced(), [elected(6, 8)]);
}

#[test]
fn a_waiting_caller_leads_as_soon_as_all_higher_processes_are_suspected() {
    let mut caller = process(4);
    caller.campaign();
    assert!(caller.suspect(6).is_empty());
    assert_eq!(caller.suspect(5).sent(), to([1, 2, 3], coordinator(1)));
}

#[test]
fn the_announcement_of_a_suspected_process_is_rejected_and_awaited_again_once_it_is_restored() {
    let mut follower = follower();
    follower.suspect(6);
    follower.receive(5, coordinator(2));
    assert!(follower.receive(6, coordinator(3)).is_empty());
    assert_eq!(follower.restore(6).timer_delays(Timer::Coordinator), Some(6));
    assert_eq!(follower.expire(Timer::Coordinator).sent(), to([4, 5, 6], Election));
}

#[test]
fn a_leader_announces_itself_to_restored_lower_processes_and_asks_restored_higher_ones() {
    let mut leader = process(5);
    for peer in [6, 2] {
        leader.suspect(peer);
    }
    leader.campaign();
    assert_eq!(leader.restore(2).sent(), [(2, coordinator(1))]);
    assert_eq!(leader.restore(6).sent(), [(6, Election)]);
}

#[test]
fn a_leader_that_defers_asks_its_successor_to_announce_itself() {
    let mut leader = process(5);
    leader.suspect(6);
    leader.campaign();
    leader.restore(6);
    let step = leader.receive(6, coordinator(1));
    assert_eq!((step.sent(), step.announced()), (vec![(6, Election)], vec![elected(6, 1)]));
}

#[test]
fn an_announcement_that_a_better_one_may_have_overtaken_is_rejected() {
    let mut follower = process(3);
    follower.receive(6, coordinator(1));
    follower.advance(3);
    let step = follower.receive(5, coordinator(2));
    assert_eq!(
        (step.sent(), step.announced()),
        (to([4, 5, 6], Election), vec![]),
        "the announcement comes too soon"
    );

    let mut follower = process(3);
    follower.receive(6, coordinator(1));
    follower.suspect(6);
    let step = follower.receive(5, coordinator(2));
    assert_eq!(step.announced(), [elected(5, 2)], "the better leader has failed since");

    let mut follower = self::follower();
    assert_eq!(follower.receive(5, coordinator(1)).announced(), [], "the term is not greater");
    let mut follower = self::follower();
    assert_eq!(follower.receive(5, coordinator(2)).announced(), [elected(5, 2)]);
}

#[test]
fn a_change_of_rank_makes_the_leader_or_a_process_that_outranks_it_call_an_election() {
    assert_eq!(follower().set_attribute(3, 9).sent(), to([1, 2, 4, 5, 6], coordinator(2)));
    assert!(follower().set_attribute(4, 9).is_empty());
    let mut leader = process(6);
    leader.campaign();
    assert_eq!(leader.set_attribute(6, 0).sent(), to([1, 2, 3, 4, 5], Election));
}

#[test]
fn with_reaffirm_the_leader_repeats_its_announcement_and_its_silence_starts_an_election() {
    let options = Options { reaffirm: Some(5), ..Options::default() };
    let mut leader = TestProcess::<Bully>::new(6, 6, &options);
    assert_eq!(leader.campaign().timer_delays(Timer::Reaffirm), Some(5));
    let step = leader.expire(Timer::Reaffirm);
    assert_eq!((step.sent(), step.announced()), (to([1, 2, 3, 4, 5], coordinator(1)), vec![]));
    assert_eq!(step.timer_delays(Timer::Reaffirm), Some(5));

    let mut follower = TestProcess::<Bully>::unstarted(3, 6, &options);
    assert_eq!(follower.start(Start::Fresh).timer_delays(Timer::Leader), Some(15));
    assert_eq!(follower.receive(6, coordinator(1)).timer_delays(Timer::Leader), Some(15));
    let step = follower.expire(Timer::Leader);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], to([4, 5, 6], Election)));
}

#[test]
fn a_reelected_leader_is_announced_again() {
    assert_eq!(follower().receive(6, coordinator(2)).announced(), [elected(6, 2)]);
}
