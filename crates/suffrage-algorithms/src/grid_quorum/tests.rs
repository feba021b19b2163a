//! Tests of Maekawa's algorithm step by step, and of its extension to elections.

use super::*;
use suffrage_core::Announcement::{SteppedDown, Undecided};
use suffrage_core::testing::{TestProcess, elected, to};

/// A process of the grid 1 2 3 / 4 5 6 / 7 8 9.
fn process(me: u64) -> TestProcess<GridQuorum> {
    TestProcess::new(me, 9, &Options::default())
}

fn request(term: u64) -> Message {
    Message::Request { term: Term(term) }
}

fn locked(term: u64, grant: u64) -> Message {
    Message::Locked { term: Term(term), grant }
}

fn failed(term: u64) -> Message {
    Message::Failed { term: Term(term) }
}

fn inquire(term: u64, grant: u64) -> Message {
    Message::Inquire { term: Term(term), grant }
}

fn relinquish(term: u64, grant: u64) -> Message {
    Message::Relinquish { term: Term(term), grant }
}

fn release(term: u64, grant: Option<u64>) -> Message {
    Message::Release { term: Term(term), grant }
}

fn claim(term: u64) -> Message {
    Message::Elected { term: Term(term) }
}

fn stand(term: u64) -> Message {
    Message::Stand { term: Term(term) }
}

fn outdated(refused: u64, term: u64, leader: Option<(u64, u64)>) -> Message {
    let elected = leader.map(|(leader, term)| (NodeId(leader), Term(term)));
    Message::Outdated { refused: Term(refused), term: Term(term), elected }
}

fn saved(term: u64, holder: Option<u64>, grant: u64) -> Saved {
    Saved { term: Term(term), holder: holder.map(NodeId), grant, leader_term: Term(0), voter: true }
}

/// Process 5, a candidate of term 1 with the locks of these voters.
fn candidate(voters: &[u64]) -> TestProcess<GridQuorum> {
    let mut candidate = process(5);
    candidate.campaign();
    for &voter in voters {
        assert!(candidate.receive(voter, locked(1, 1)).is_empty());
    }
    candidate
}

/// "Node i sends a REQUEST message to every member of S_i", which locks itself if it is one of them.
#[test]
fn a_candidate_asks_its_row_and_column() {
    let step = process(5).campaign();
    assert_eq!(step.sent(), to([2, 4, 6, 8], request(1)));
    assert_eq!(step.saved(), [saved(1, None, 0), saved(1, Some(5), 1)]);
    assert_eq!(step.timer_delays(Timer::Answers), Some(8));
    assert!(step.timer_delays(Timer::Patience).is_some_and(|patience| (40..80).contains(&patience)));
}

/// "When all members of S_i are locked", it enters: here, the candidate is elected, and announces itself to all.
#[test]
fn a_candidate_with_all_locks_is_elected() {
    let mut candidate = candidate(&[2, 4, 6]);
    assert!(candidate.receive(6, locked(1, 1)).is_empty(), "a duplicated lock");
    assert!(candidate.receive(3, failed(1)).is_empty(), "not one of its voters");
    let step = candidate.receive(8, locked(1, 1));
    assert_eq!(
        (step.sent(), step.announced()),
        (to([1, 2, 3, 4, 6, 7, 8, 9], claim(1)), vec![elected(5, 1)])
    );
    assert!(candidate.receive(8, inquire(1, 1)).is_empty(), "a winner keeps its locks");
    assert_eq!(candidate.receive(4, request(1)).sent(), [(4, outdated(1, 1, Some((5, 1))))]);
}

/// "If it is not locked, it locks itself for the request and returns LOCKED." The lock is saved before it is
/// granted.
#[test]
fn a_voter_locks_itself_for_one_candidate_at_a_time() {
    let mut voter = process(6);
    let step = voter.receive(5, request(1));
    assert_eq!(step.sent(), [(5, locked(1, 1))]);
    assert_eq!(step.saved().last(), Some(&saved(1, Some(5), 1)));
    assert!(step.saved_before_sending());
    assert_eq!(
        voter.receive(5, request(1)).sent(),
        [(5, locked(1, 1))],
        "the first answer may have been lost"
    );
    assert_eq!(voter.receive(4, request(1)).sent(), [(4, failed(1))], "a worse candidate");
}

/// "An INQUIRE message is sent to the node whose request has locked" it, if the new request precedes all others;
/// otherwise FAILED is returned. The former first candidate gets FAILED too (Sanders).
#[test]
fn a_better_request_makes_the_voter_inquire() {
    let mut voter = process(6);
    voter.receive(4, request(1));
    assert_eq!(voter.receive(5, request(1)).sent(), [(4, inquire(1, 1))]);
    let pending = Message::Pending { term: Term(1) };
    assert_eq!(voter.receive(5, request(1)).sent(), [(4, inquire(1, 1)), (5, pending)], "a repeated request");
    assert_eq!(voter.receive(9, request(1)).sent(), [(4, inquire(1, 1)), (5, failed(1))]);
    assert_eq!(voter.receive(3, request(1)).sent(), [(3, failed(1))]);
    let step = voter.receive(4, relinquish(1, 1));
    assert_eq!((step.sent(), step.saved()), (vec![(9, locked(1, 2))], vec![saved(1, Some(9), 2)]));
    assert!(voter.receive(4, relinquish(1, 1)).is_empty(), "a duplicated relinquishment");
    assert_eq!(
        voter.receive(9, release(1, Some(2))).sent(),
        [(5, locked(1, 3))],
        "the best waiting candidate"
    );
    assert!(voter.receive(9, relinquish(1, 2)).is_empty(), "an earlier grant");
    assert_eq!(
        voter.receive(5, relinquish(1, 3)).sent(),
        [(5, locked(1, 4))],
        "the better candidate has released"
    );
    assert!(voter.receive(5, relinquish(1, 3)).is_empty(), "the grant before this one");
}

/// "If node i has received a FAILED message […] it returns a RELINQUISH message"; the candidate defers that while it
/// may still win.
#[test]
fn a_candidate_relinquishes_once_it_knows_that_it_cannot_win() {
    let mut waiting = candidate(&[2, 4]);
    assert!(waiting.receive(2, inquire(1, 1)).is_empty(), "the candidate may still win");
    assert_eq!(waiting.receive(6, failed(1)).sent(), [(2, relinquish(1, 1))]);
    assert_eq!(waiting.receive(4, inquire(1, 1)).sent(), [(4, relinquish(1, 1))]);
    assert_eq!(
        waiting.receive(4, locked(1, 1)).sent(),
        [(4, relinquish(1, 1))],
        "a duplicate of a returned lock"
    );
    assert_eq!(
        waiting.receive(4, inquire(1, 1)).sent(),
        [(4, relinquish(1, 1))],
        "the first answer was lost"
    );
    for (voter, grant) in [(2, 3), (4, 3), (6, 2)] {
        assert!(waiting.receive(voter, locked(1, grant)).is_empty());
    }
    assert_eq!(waiting.receive(8, locked(1, 1)).announced(), [elected(5, 1)], "all locks are granted");
}

/// An inquiry that overtakes its lock implies the lock.
#[test]
fn an_inquiry_may_arrive_before_its_lock() {
    let mut early = candidate(&[2, 4]);
    assert!(early.receive(6, inquire(1, 1)).is_empty());
    assert_eq!(early.receive(8, failed(1)).sent(), [(6, relinquish(1, 1))]);
    assert_eq!(early.receive(6, locked(1, 1)).sent(), [(6, relinquish(1, 1))]);
}

/// "An arbitrarily selected single row and column": another one if a member is suspected or does not answer.
#[test]
fn a_column_with_a_dead_member_is_replaced() {
    let mut caller = candidate(&[4]);
    let step = caller.suspect(8);
    // Row 4 5 6 stays; member 5 of column 2 5 8 is also in the row.
    assert_eq!(
        step.sent(),
        [vec![(2, release(1, None)), (8, release(1, None))], to([3, 9], request(1))].concat()
    );
    let mut caller = candidate(&[4, 6, 8]);
    assert_eq!(caller.expire(Timer::Answers).sent(), [(2, request(1))], "one repeated request");
    let step = caller.expire(Timer::Answers);
    assert_eq!(
        step.sent(),
        [vec![(2, release(1, None)), (8, release(1, Some(1)))], to([3, 9], request(1))].concat()
    );
    assert_eq!(caller.receive(8, locked(1, 1)).sent(), [(8, release(1, Some(1)))], "the lock was returned");
}

#[test]
fn without_an_available_quorum_a_candidate_waits_in_its_term() {
    let mut caller = process(5);
    for dead in [1, 5, 9].into_iter().filter(|&id| id != 5).chain([4]) {
        caller.suspect(dead);
    }
    let step = caller.campaign();
    assert_eq!((step.sent(), step.saved()), (vec![], vec![]));
    assert!(step.timer_delays(Timer::Patience).is_some());
    caller.restore(4);
    assert_eq!(caller.expire(Timer::Patience).sent(), to([2, 4, 6, 8], request(1)));
}

/// A candidate joins a term without a leader, also a later one. After a term that is over it takes the next.
#[test]
fn candidates_join_the_same_term() {
    let mut joins = process(6);
    joins.receive(5, request(3));
    let inquiry = (5, inquire(3, 1));
    assert_eq!(
        joins.campaign().sent(),
        [to([3, 4, 5], request(3)), vec![inquiry], to([9], request(3))].concat()
    );
    assert_eq!(candidate(&[2]).receive(4, outdated(1, 7, None)).sent(), to([2, 4, 6, 8], request(7)));
    assert_eq!(candidate(&[2]).receive(4, outdated(1, 1, None)).sent(), to([2, 4, 6, 8], request(2)));
    assert!(candidate(&[2]).receive(4, outdated(0, 1, None)).is_empty(), "a refusal of an earlier request");
    let mut overtaken = candidate(&[2]);
    let sent = overtaken.receive(8, request(4)).sent();
    assert_eq!(sent, [vec![(8, locked(4, 1))], to([2, 4, 6, 8], request(4))].concat());
    assert_eq!(
        overtaken.expire(Timer::Patience).sent(),
        to([2, 4, 6, 8], request(5)),
        "the candidate times out"
    );
}

#[test]
fn the_announcement_of_a_leader_ends_a_candidacy() {
    let mut loser = candidate(&[2]);
    let step = loser.receive(9, claim(1));
    assert_eq!((step.announced(), step.sent()), (vec![elected(9, 1)], vec![]));
    assert!(loser.receive(4, locked(1, 1)).is_empty());
    assert!(loser.receive(9, claim(1)).announced().is_empty());
    assert_eq!(loser.receive(3, request(1)).sent(), [(3, outdated(1, 1, Some((9, 1))))]);
    // A leader of an earlier term: the candidate releases its locks.
    let mut loser = process(5);
    loser.receive(8, request(4));
    loser.campaign();
    loser.receive(2, locked(4, 1));
    let step = loser.receive(9, claim(3));
    let released =
        [(2, release(4, Some(1))), (4, release(4, None)), (6, release(4, None)), (8, release(4, None))];
    assert_eq!((step.announced(), step.sent()), (vec![elected(9, 3)], released.to_vec()));
    assert!(loser.receive(7, claim(2)).announced().is_empty(), "a leader of an earlier term");
    assert_eq!(loser.receive(7, claim(2)).sent(), [(7, outdated(2, 4, Some((9, 3))))]);
    assert_eq!(loser.receive(7, claim(6)).announced(), [elected(7, 6)]);
}

#[test]
fn a_failed_leader_triggers_an_election_and_a_restored_one_is_asked() {
    let mut follower = process(5);
    follower.receive(9, claim(1));
    assert!(follower.suspect(1).is_empty());
    let step = follower.suspect(9);
    assert_eq!((step.announced(), step.sent()), (vec![Undecided], to([2, 4, 6, 8], request(2))));
    assert!(follower.receive(9, claim(1)).is_empty(), "a delayed message of a suspected process");
    assert_eq!(follower.restore(9).sent(), [(9, Message::Ask)]);
    assert_eq!(follower.receive(9, claim(1)).announced(), [elected(9, 1)]);
}

#[test]
fn a_leader_announces_itself_to_processes_that_ask_or_are_restored() {
    let mut leader = candidate(&[2, 4, 6]);
    leader.receive(8, locked(1, 1));
    assert_eq!(leader.receive(3, Message::Ask).sent(), [(3, claim(1))]);
    leader.suspect(7);
    assert_eq!(leader.restore(7).sent(), [(7, claim(1))]);
    assert_eq!(process(4).receive(3, Message::Ask).sent(), []);
}

/// The process may have won the term of its lock and lost that state: it campaigns in a later term.
#[test]
fn a_recovered_process_keeps_its_lock_and_asks_before_it_campaigns() {
    let mut recovered = TestProcess::<GridQuorum>::unstarted(5, 9, &Options::default());
    let step = recovered.start(Start::Recovered(Some(saved(3, Some(4), 2))));
    assert_eq!(step.sent(), to([1, 2, 3, 4, 6, 7, 8, 9], Message::Ask));
    assert!(recovered.receive(2, locked(3, 1)).is_empty());
    assert_eq!(recovered.receive(4, request(3)).sent(), [(4, locked(3, 2))]);
    assert_eq!(recovered.receive(2, request(3)).sent(), [(2, failed(3))]);
    assert_eq!(recovered.expire(Timer::Patience).sent(), to([2, 4, 6, 8], request(4)));
}

/// Suppose a leader of term 5 recovers and follows a leader of term 4, which has just received term 5 and follows
/// it: there would be no leader.
#[test]
fn a_recovered_process_follows_no_leader_of_an_earlier_term_than_it_saved() {
    let mut leader = candidate(&[2, 4, 6]);
    assert_eq!(leader.receive(8, locked(1, 1)).saved().last().map(|saved| saved.leader_term), Some(Term(1)));
    let mut recovered = TestProcess::<GridQuorum>::unstarted(9, 9, &Options::default());
    recovered.start(Start::Recovered(Some(Saved { leader_term: Term(5), ..saved(6, None, 1) })));
    assert!(recovered.receive(7, claim(4)).is_empty());
    assert_eq!(recovered.receive(7, claim(5)).announced(), [elected(7, 5)]);
}

#[test]
fn a_process_that_lost_its_disk_only_follows() {
    for kept in [None, Some(Saved { voter: false, ..saved(3, None, 0) })] {
        let mut recovered = TestProcess::<GridQuorum>::unstarted(5, 9, &Options::default());
        recovered.start(Start::Recovered(kept));
        assert!(recovered.receive(2, request(9)).is_empty());
        assert!(recovered.expire(Timer::Patience).sent().is_empty());
        assert_eq!(recovered.receive(2, claim(9)).announced(), [elected(2, 9)]);
        assert!(recovered.campaign().is_empty(), "the process keeps its leader");
        assert!(recovered.receive(2, stand(9)).is_empty());
        assert_eq!(recovered.suspect(2).announced(), [Undecided]);
    }
}

/// The deliberate bug: no state is saved, and a restarted process votes and campaigns like a new one.
#[test]
fn forget_locks_lets_a_voter_grant_two_locks_in_a_term() {
    let options = Options { forget_locks: true, ..Options::default() };
    let mut forgetful = TestProcess::<GridQuorum>::unstarted(6, 9, &options);
    assert_eq!(forgetful.start(Start::Fresh).saved(), []);
    let step = forgetful.receive(4, request(1));
    assert_eq!((step.sent(), step.saved()), (vec![(4, locked(1, 1))], vec![]));
    let mut recovered = TestProcess::<GridQuorum>::unstarted(6, 9, &options);
    recovered.start(Start::Recovered(None));
    assert_eq!(recovered.receive(5, request(1)).sent(), [(5, locked(1, 1))]);
}

/// Process 5, elected in term 1.
fn leader() -> TestProcess<GridQuorum> {
    let mut leader = candidate(&[2, 4, 6]);
    assert_eq!(leader.receive(8, locked(1, 1)).announced(), [elected(5, 1)]);
    leader
}

#[test]
fn a_leader_that_steps_down_asks_its_successor_to_campaign() {
    for (command, successor) in [(Command::Resign, 9), (Command::Transfer(NodeId(3)), 3)] {
        let mut leader = leader();
        let step = leader.command(command);
        assert_eq!((step.announced(), step.sent()), (vec![SteppedDown], vec![(successor, stand(1))]));
        assert!(step.timer_delays(Timer::Patience).is_some());
        assert!(leader.command(command).is_empty());
    }
    let mut leader = leader();
    leader.suspect(9);
    assert_eq!(leader.command(Command::Resign).sent(), [(8, stand(1))]);
}

/// Leadership is not transferred to a process that cannot take over: the group would lose its leader without need.
#[test]
fn leadership_is_not_transferred_to_non_members_suspected_processes_or_itself() {
    let mut leader = leader();
    leader.suspect(3);
    for target in [77, 3, 5] {
        assert!(leader.command(Command::Transfer(NodeId(target))).is_empty(), "{target}");
    }
    assert_eq!(leader.receive(2, Message::Ask).sent(), [(2, claim(1))]);
}

/// A late or duplicated `Stand` refers to a leader that was replaced since.
#[test]
fn stand_starts_a_candidacy_unless_there_has_been_another_leader_since() {
    let mut follower = process(3);
    follower.receive(5, claim(1));
    assert_eq!(follower.receive(5, stand(1)).sent(), to([1, 2, 6, 9], request(2)));
    assert!(follower.receive(5, stand(1)).is_empty(), "the process campaigns already");
    [1, 2, 6, 9].into_iter().for_each(|voter| drop(follower.receive(voter, locked(2, 1))));
    follower.command(Command::Transfer(NodeId(7)));
    assert!(follower.receive(5, stand(1)).is_empty(), "the process has led since");
    assert_eq!(follower.receive(7, claim(3)).announced(), [elected(7, 3)]);
    assert!(follower.receive(5, stand(2)).is_empty(), "7 has led since");
    let mut late = process(3);
    assert_eq!(late.receive(5, stand(4)).announced(), [], "the process did not know 5");
    assert!(late.expire(Timer::Answers).sent().contains(&(2, request(1))));
}

/// Only a forged message can contain the last term.
#[test]
fn no_process_campaigns_after_the_last_term() {
    let mut process = process(5);
    process.receive(2, claim(u64::MAX));
    assert_eq!(process.campaign().sent(), []);
}
