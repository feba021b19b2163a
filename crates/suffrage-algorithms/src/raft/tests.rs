//! One test per sentence on the election of Raft: Ongaro and Ousterhout 2014, section 5.2, and the extensions in
//! Ongaro's thesis.

use super::*;
use suffrage_core::Announcement::{SteppedDown, Undecided};
use suffrage_core::testing::{Step, TestProcess, elected, to};

fn server(me: u64) -> TestProcess<Raft> {
    TestProcess::new(me, 5, &Options::default())
}

/// Without pre-vote: the server of section 5.2.
fn without_pre_vote(me: u64) -> TestProcess<Raft> {
    TestProcess::new(me, 5, &Options { pre_vote: false, ..Options::default() })
}

fn recovered(me: u64, saved: Option<Saved>) -> TestProcess<Raft> {
    let mut server = TestProcess::unstarted(me, 5, &Options::default());
    server.start(Start::Recovered(saved));
    server
}

fn pre_vote(term: u64) -> Message {
    Message::PreVote { term: Term(term) }
}

fn would_vote(term: u64, granted: bool) -> Message {
    Message::WouldVote { term: Term(term), granted }
}

fn request(term: u64) -> Message {
    Message::RequestVote { term: Term(term), transfer: false }
}

fn for_transfer(term: u64) -> Message {
    Message::RequestVote { term: Term(term), transfer: true }
}

fn vote(term: u64, granted: bool) -> Message {
    Message::Vote { term: Term(term), granted }
}

fn heartbeat(term: u64) -> Message {
    Message::Heartbeat { term: Term(term) }
}

fn reply(term: u64) -> Message {
    Message::HeartbeatReply { term: Term(term) }
}

fn saved(term: u64, vote: Option<u64>) -> Saved {
    Saved { term: Term(term), vote: vote.map(NodeId), voter: true }
}

/// Server `me`, elected for term 1 by 2 and 3.
fn leader(me: u64) -> TestProcess<Raft> {
    let mut leader = without_pre_vote(me);
    leader.expire(Timer::Election);
    leader.receive(2, vote(1, true));
    assert_eq!(leader.receive(3, vote(1, true)).announced(), [elected(me, 1)]);
    leader
}

/// Server 3, which follows 1 in term 1 and has just received its heartbeat.
fn follower() -> TestProcess<Raft> {
    let mut follower = server(3);
    assert_eq!(follower.receive(1, heartbeat(1)).announced(), [elected(1, 1)]);
    follower
}

/// The duration of the election time-out, which must be from 20 to 40 delays.
fn election_timeout(step: &Step<Raft>) -> u64 {
    let delays = step.timer_delays(Timer::Election).expect("the server set its election time-out");
    assert!((20..40).contains(&delays), "{delays}");
    delays
}

/// "When servers start up, they begin as followers."
#[test]
fn servers_begin_as_followers_and_save_their_state() {
    let mut server = TestProcess::<Raft>::unstarted(3, 5, &Options::default());
    let step = server.start(Start::Fresh);
    assert_eq!(server.process.role, Role::Follower);
    assert_eq!((step.sent(), step.announced(), step.saved()), (vec![], vec![], vec![saved(0, None)]));
    election_timeout(&step);
}

/// "A server remains in follower state as long as it receives valid RPCs from a leader or candidate."
#[test]
fn a_heartbeat_or_a_vote_for_a_candidate_restarts_the_time_out() {
    let mut server = server(3);
    assert_eq!(server.receive(1, heartbeat(1)).timer_delays(Timer::Lease), Some(20));
    assert_eq!(server.receive(1, heartbeat(1)).timer_delays(Timer::Lease), Some(20));
    assert!(server.expire(Timer::Lease).timer_delays(Timer::Election).is_some_and(|rest| rest < 20));
    election_timeout(&server.receive(2, request(2)));
    assert!(
        server.receive(4, request(2)).timer_delays(Timer::Election).is_none(),
        "a candidate without its vote"
    );
    assert_eq!(server.process.role, Role::Follower);
}

/// "Leaders send periodic heartbeats […] to all followers in order to maintain their authority."
#[test]
fn leaders_send_heartbeats_periodically() {
    let mut leader = leader(1);
    let step = leader.expire(Timer::Heartbeat);
    assert_eq!(step.sent(), to(2..=5, heartbeat(1)));
    assert_eq!(step.timer_delays(Timer::Heartbeat), Some(5));
}

/// "If a follower receives no communication over a period of time called the election timeout, then it
/// assumes there is no viable leader and begins an election to choose a new leader."
#[test]
fn a_follower_without_heartbeats_begins_an_election() {
    let mut follower = follower();
    follower.expire(Timer::Lease);
    let step = follower.expire(Timer::Election);
    assert_eq!(step.announced(), [Undecided]);
    assert_eq!(step.sent(), to([1, 2, 4, 5], pre_vote(2)));
}

/// "To begin an election, a follower increments its current term and transitions to candidate state. It
/// then votes for itself and issues RequestVote RPCs in parallel to each of the other servers."
#[test]
fn a_candidate_enters_a_new_term_votes_for_itself_and_asks_all_servers() {
    let mut server = without_pre_vote(3);
    let step = server.expire(Timer::Election);
    assert_eq!(step.sent(), to([1, 2, 4, 5], request(1)));
    assert_eq!(step.saved(), [saved(1, Some(3))]);
    assert!(step.saved_before_sending());
    election_timeout(&step);
}

/// "A candidate wins an election if it receives votes from a majority of the servers in the full cluster
/// for the same term."
#[test]
fn a_candidate_needs_votes_of_a_majority_of_the_whole_group_in_the_same_term() {
    let mut candidate = without_pre_vote(1);
    candidate.expire(Timer::Election);
    candidate.expire(Timer::Election);
    assert!(candidate.receive(2, vote(1, true)).is_empty(), "a vote for an earlier term");
    assert!(candidate.receive(3, vote(1, true)).is_empty());
    assert!(candidate.receive(4, vote(2, true)).is_empty(), "two of five");
    assert!(candidate.receive(4, vote(2, true)).is_empty(), "a duplicated vote");
    assert!(candidate.receive(99, vote(2, true)).is_empty(), "the vote of a non-member");
    assert!(candidate.receive(3, vote(2, false)).is_empty());
    assert_eq!(candidate.receive(5, vote(2, true)).announced(), [elected(1, 2)]);
    assert!(candidate.receive(3, vote(2, true)).is_empty(), "a late vote");
}

#[test]
fn a_majority_is_more_than_half() {
    for (count, needed) in [(1, 0), (2, 1), (3, 1), (4, 2), (5, 2), (6, 3), (7, 3)] {
        let options = Options { pre_vote: false, ..Options::default() };
        let mut candidate = TestProcess::<Raft>::new(1, count, &options);
        let mut leads = !candidate.expire(Timer::Election).announced().is_empty();
        let mut votes = 0;
        while !leads {
            votes += 1;
            leads = !candidate.receive(votes + 1, vote(1, true)).announced().is_empty();
        }
        assert_eq!(votes, needed, "of {count}");
    }
}

/// "Each server will vote for at most one candidate in a given term, on a first-come-first-served basis."
/// Figure 2: "Updated on stable storage before responding to RPCs".
#[test]
fn a_server_votes_once_per_term_and_saves_the_vote_before_sending_it() {
    let mut voter = server(3);
    let step = voter.receive(2, request(1));
    assert_eq!((step.sent(), step.saved()), (vec![(2, vote(1, true))], vec![saved(1, Some(2))]));
    assert!(step.saved_before_sending());
    assert_eq!(voter.receive(4, request(1)).sent(), [(4, vote(1, false))]);
    assert_eq!(
        voter.receive(2, request(1)).sent(),
        [(2, vote(1, true))],
        "the first answer may have been lost"
    );
    assert_eq!(voter.receive(4, request(2)).sent(), [(4, vote(2, true))], "a new vote in a new term");
    assert_eq!(voter.receive(2, request(1)).sent(), [(2, vote(2, false))], "an earlier term");
}

#[test]
fn a_vote_survives_a_crash() {
    let mut voter = recovered(3, Some(saved(1, Some(2))));
    assert_eq!(voter.receive(4, request(1)).sent(), [(4, vote(1, false))]);
    assert_eq!(voter.receive(2, request(1)).sent(), [(2, vote(1, true))]);
    let mut candidate = recovered(3, Some(saved(1, Some(3))));
    candidate.expire(Timer::Election);
    assert_eq!(candidate.process.term, Term(1), "pre-votes are requested first");
    candidate.receive(1, would_vote(2, true));
    assert_eq!(candidate.receive(2, would_vote(2, true)).sent(), to([1, 2, 4, 5], request(2)));
}

/// "Once a candidate wins an election, it becomes leader. It then sends heartbeat messages to all of the
/// other servers to establish its authority and prevent new elections."
#[test]
fn a_new_leader_sends_heartbeats_at_once() {
    let mut candidate = without_pre_vote(1);
    candidate.expire(Timer::Election);
    candidate.receive(2, vote(1, true));
    let step = candidate.receive(3, vote(1, true));
    assert_eq!(step.sent(), to(2..=5, heartbeat(1)));
    assert_eq!((step.timer_delays(Timer::Heartbeat), step.timer_delays(Timer::Quorum)), (Some(5), Some(20)));
}

/// "If the leader's term (included in its RPC) is at least as large as the candidate's current term, then
/// the candidate recognizes the leader as legitimate and returns to follower state."
#[test]
fn a_candidate_recognises_a_leader_of_its_term_or_a_later_one() {
    for term in [1, 2] {
        let mut candidate = without_pre_vote(3);
        candidate.expire(Timer::Election);
        let step = candidate.receive(1, heartbeat(term));
        assert_eq!((step.announced(), step.sent()), (vec![elected(1, term)], vec![(1, reply(term))]));
        assert_eq!(candidate.process.role, Role::Follower);
    }
}

/// "If the term in the RPC is smaller than the candidate's current term, then the candidate rejects the
/// RPC and continues in candidate state." The answer makes the old leader step down (5.1).
#[test]
fn a_candidate_rejects_a_leader_of_an_earlier_term() {
    let mut candidate = without_pre_vote(3);
    candidate.receive(1, heartbeat(1));
    candidate.expire(Timer::Lease);
    candidate.expire(Timer::Election);
    let step = candidate.receive(1, heartbeat(1));
    assert_eq!((step.announced(), step.sent()), (vec![], vec![(1, reply(2))]));
    assert!(matches!(candidate.process.role, Role::Candidate(_)));
    let step = leader(1).receive(3, reply(2));
    assert_eq!((step.announced(), step.saved()), (vec![SteppedDown], vec![saved(2, None)]));
}

/// "If many followers become candidates at the same time, votes could be split so that no candidate obtains
/// a majority. When this happens, each candidate will time out and start a new election by incrementing
/// its term and initiating another round of RequestVote RPCs."
#[test]
fn a_split_vote_is_followed_by_another_election() {
    let mut candidate = without_pre_vote(3);
    candidate.expire(Timer::Election);
    candidate.receive(2, vote(1, true));
    candidate.receive(4, vote(1, false));
    candidate.receive(5, vote(1, false));
    let step = candidate.expire(Timer::Election);
    assert_eq!(step.sent(), to([1, 2, 4, 5], request(2)));
    assert!(candidate.receive(1, vote(2, true)).is_empty(), "votes of the earlier term do not count");
}

/// "Election timeouts are chosen randomly from a fixed interval", and "each candidate restarts its
/// randomized election timeout at the start of an election".
#[test]
fn election_time_outs_are_random() {
    let mut recorder = suffrage_core::Recorder::<Raft>::new(7);
    let roster = Roster::numbered(5);
    let mut server = Raft::new(NodeId(3), &Options::default());
    let mut drawn = BTreeSet::new();
    for _ in 0..100 {
        server.on_timer(
            &mut recorder.context(suffrage_core::Time::ZERO, roster.view(2), Span::UNIT),
            Timer::Election,
        );
        drawn.insert(election_timeout(&Step::from_effects(recorder.take())));
    }
    assert!(drawn.len() > 15, "most values of 20 to 39 occur: {drawn:?}");
}

/// "Current terms are exchanged whenever servers communicate; if one server's current term is smaller than
/// the other's, then it updates its current term to the larger value" (5.1).
#[test]
fn a_later_term_is_adopted_and_saved() {
    for message in [heartbeat(7), request(7), vote(7, false), reply(7), would_vote(7, false)] {
        let mut candidate = without_pre_vote(3);
        candidate.expire(Timer::Election);
        let step = candidate.receive(1, message);
        assert_eq!(step.saved().last().expect("the server saved its state").term, Term(7), "{message:?}");
        assert_eq!(candidate.process.role, Role::Follower, "{message:?}");
    }
}

/// Thesis, 9.6: "a candidate only increments its term if it first learns from a majority of the cluster
/// that they would be willing to grant the candidate their votes".
#[test]
fn the_term_does_not_change_without_pre_votes_of_a_majority() {
    let mut server = server(3);
    for _ in 0..10 {
        let step = server.expire(Timer::Election);
        assert_eq!((step.sent(), step.saved()), (to([1, 2, 4, 5], pre_vote(1)), vec![]));
        election_timeout(&step);
    }
    assert!(server.receive(1, would_vote(0, false)).is_empty());
    assert!(server.receive(2, would_vote(1, true)).is_empty());
    let step = server.receive(4, would_vote(1, true));
    assert_eq!((step.sent(), step.saved()), (to([1, 2, 4, 5], request(1)), vec![saved(1, Some(3))]));
    assert!(server.receive(5, would_vote(1, true)).is_empty(), "a pre-vote is not a vote");
    assert_eq!(server.process.role, Role::Candidate(BTreeSet::new()));
}

/// Thesis, 9.6: pre-votes are granted if "the voters have not received heartbeats from a valid leader for at least a
/// baseline election timeout". They change no state and commit the voter to no candidate.
#[test]
fn pre_votes_are_granted_once_the_lease_is_over_and_change_no_state() {
    let mut voter = follower();
    assert_eq!(voter.receive(2, pre_vote(2)).sent(), [(2, would_vote(1, false))]);
    voter.expire(Timer::Lease);
    let before = voter.process.clone();
    for candidate in [2, 4] {
        assert_eq!(voter.receive(candidate, pre_vote(2)).sent(), [(candidate, would_vote(2, true))]);
    }
    assert_eq!(voter.receive(2, pre_vote(1)).sent(), [(2, would_vote(1, false))], "this term has a leader");
    assert_eq!(voter.process, before);
    assert_eq!(leader(1).receive(3, pre_vote(2)).sent(), [(3, would_vote(1, false))]);
}

/// A server that missed a term learns it from the refusal, and asks for the next term.
#[test]
fn a_refusal_with_a_later_term_updates_the_term() {
    let mut server = server(3);
    server.expire(Timer::Election);
    assert_eq!(server.receive(1, would_vote(6, false)).saved(), [saved(6, None)]);
    assert_eq!(server.expire(Timer::Election).sent(), to([1, 2, 4, 5], pre_vote(7)));
}

/// Thesis, 4.2.3: "If a server receives a RequestVote request within the minimum election timeout of
/// hearing from a current leader, it does not update its term or grant its vote."
#[test]
fn a_server_with_a_recent_leader_grants_no_votes() {
    let mut voter = follower();
    let before = voter.process.clone();
    assert_eq!(voter.receive(5, request(9)).sent(), [(5, vote(1, false))]);
    assert_eq!(voter.process, before);
    voter.expire(Timer::Lease);
    let step = voter.receive(5, request(9));
    assert_eq!((step.sent(), step.announced()), (vec![(5, vote(9, true))], vec![Undecided]));
    let mut leader = leader(1);
    assert_eq!(leader.receive(5, request(9)).sent(), [(5, vote(1, false))]);
}

/// Thesis, 6.2: "a leader in Raft steps down if an election timeout elapses without a successful round of
/// heartbeats to a majority of its cluster".
#[test]
fn a_leader_without_answers_of_a_majority_steps_down() {
    let mut leader = leader(1);
    leader.receive(4, reply(1));
    leader.receive(5, reply(1));
    assert_eq!(leader.expire(Timer::Quorum).timer_delays(Timer::Quorum), Some(20));
    leader.receive(4, reply(1));
    leader.receive(4, reply(1));
    leader.receive(99, reply(1));
    leader.receive(5, reply(0));
    let step = leader.expire(Timer::Quorum);
    assert_eq!((step.announced(), step.sent()), (vec![SteppedDown], vec![]));
    election_timeout(&step);
}

/// Thesis, 3.10: "The current leader then sends a TimeoutNow request to the target server", which "starts
/// a new election". Its votes are asked for with "a special flag to indicate this behavior (“I have
/// permission to disrupt the leader—it told me to!”)" (4.2.3).
#[test]
fn a_transfer_hands_leadership_over() {
    let mut leader = leader(1);
    let now = Message::TimeoutNow { term: Term(1) };
    assert_eq!(leader.command(Command::Transfer(NodeId(3))).sent(), [(3, now)]);
    assert!(leader.command(Command::Transfer(NodeId(1))).is_empty());
    let mut target = follower();
    assert!(
        target.receive(2, Message::TimeoutNow { term: Term(0) }).is_empty(),
        "a leader of an earlier term"
    );
    let step = target.receive(1, now);
    assert_eq!((step.sent(), step.saved()), (to([1, 2, 4, 5], for_transfer(2)), vec![saved(2, Some(3))]));
    assert_eq!(leader.receive(3, for_transfer(2)).announced(), [SteppedDown]);
    let mut other = server(4);
    other.receive(1, heartbeat(1));
    assert_eq!(other.receive(3, for_transfer(2)).sent(), [(3, vote(2, true))]);
    assert!(other.command(Command::Transfer(NodeId(3))).is_empty(), "4 does not lead");
}

#[test]
fn a_leader_that_resigns_lets_other_servers_campaign_first() {
    let mut leader = leader(1);
    let step = leader.command(Command::Resign);
    assert_eq!((step.announced(), step.sent()), (vec![SteppedDown], vec![]));
    assert!(step.timer_delays(Timer::Election).is_some_and(|delays| (40..60).contains(&delays)));
    assert!(leader.command(Command::Resign).is_empty());
    assert_eq!(leader.receive(3, pre_vote(2)).sent(), [(3, would_vote(2, true))]);
}

/// A campaign does not replace a healthy leader, and the server that campaigned continues to follow it.
#[test]
fn a_campaign_does_not_replace_a_healthy_leader() {
    let mut follower = follower();
    let step = follower.campaign();
    assert_eq!((step.sent(), step.announced()), (to([1, 2, 4, 5], pre_vote(2)), vec![]));
    assert!(follower.campaign().is_empty(), "one election at a time");
    follower.receive(2, would_vote(1, false));
    assert!(follower.receive(1, heartbeat(1)).announced().is_empty());
    assert_eq!(follower.process.role, Role::Follower);
    assert!(leader(1).campaign().is_empty());
}

/// A server that never voted has saved that. A server without saved state may have voted.
#[test]
fn a_server_that_lost_its_disk_only_follows() {
    let mut server = recovered(3, None);
    assert_eq!(server.receive(2, pre_vote(4)).sent(), [(2, would_vote(0, false))]);
    assert_eq!(server.receive(2, request(4)).sent(), [(2, vote(4, false))]);
    assert!(server.campaign().is_empty());
    assert!(server.expire(Timer::Election).is_empty());
    let step = server.receive(2, heartbeat(4));
    assert_eq!((step.announced(), step.sent()), (vec![elected(2, 4)], vec![(2, reply(4))]));
    assert!(server.receive(2, Message::TimeoutNow { term: Term(4) }).is_empty());
    server.expire(Timer::Lease);
    assert_eq!(server.expire(Timer::Election).announced(), [Undecided]);
    // The same holds after another crash with the new disk kept.
    let mut server = recovered(3, Some(Saved { voter: false, ..saved(4, None) }));
    assert_eq!(server.receive(2, request(5)).sent(), [(2, vote(5, false))]);
    assert!(server.expire(Timer::Election).is_empty());
}

/// The deliberate bug: two votes in one term.
#[test]
fn forget_votes_lets_a_server_vote_twice() {
    let options = Options { forget_votes: true, ..Options::default() };
    let mut voter = TestProcess::<Raft>::unstarted(3, 5, &options);
    assert_eq!(voter.start(Start::Fresh).saved(), []);
    let step = voter.receive(2, request(1));
    assert_eq!((step.sent(), step.saved()), (vec![(2, vote(1, true))], vec![]));
    let mut voter = TestProcess::<Raft>::unstarted(3, 5, &options);
    voter.start(Start::Recovered(None));
    assert_eq!(voter.receive(4, request(1)).sent(), [(4, vote(1, true))]);
}

/// Only a forged message can contain the last term: no server could be elected after it.
#[test]
fn no_server_campaigns_after_the_last_term() {
    let mut server = without_pre_vote(3);
    server.receive(1, heartbeat(u64::MAX));
    server.expire(Timer::Lease);
    assert_eq!(server.expire(Timer::Election).sent(), []);
}

#[test]
fn an_election_time_out_too_short_for_the_heartbeat_is_rejected() {
    let check = |heartbeat, election_timeout| {
        Raft::check(&Options { heartbeat, election_timeout, ..Options::default() }, &Roster::numbered(3))
    };
    assert_eq!(check(5, 8), Ok(()));
    assert_eq!(check(5, 7).unwrap_err().name, "election-timeout");
}
