//! Stable leader election rule by rule: Aguilera et al. 2001, and what recovery adds.

use super::*;
use suffrage_core::Announcement::{SteppedDown, Undecided};
use suffrage_core::testing::{TestProcess, elected, to};

/// Process `me` of five, started: in round 0, which 1 leads.
fn process(me: u64) -> TestProcess<StableLeader> {
    let mut process = TestProcess::unstarted(me, 5, &Options::default());
    process.start(Start::Fresh);
    process
}

fn start(round: u64) -> Message {
    Message::Start { round: Term(round) }
}

fn ok(round: u64, odd: bool) -> Message {
    Message::Ok { round: Term(round), odd }
}

/// Process 3, which follows 1 in round 0.
fn follower() -> TestProcess<StableLeader> {
    let mut follower = process(3);
    follower.receive(1, ok(0, false));
    assert_eq!(follower.receive(1, ok(0, true)).announced(), [elected(1, 0)]);
    follower
}

/// Process 1, which leads round 0.
fn leader() -> TestProcess<StableLeader> {
    let mut leader = process(1);
    assert_eq!(leader.expire(Timer::Period).announced(), [elected(1, 0)]);
    leader
}

/// "To start a round k, a process (1) sends (START, k) to a specially designated process, called the
/// leader of round k; this is just process k mod n […] and (4) starts a timer".
#[test]
fn to_start_a_round_is_to_tell_its_leader_and_to_wait() {
    let mut process = TestProcess::<StableLeader>::unstarted(3, 5, &Options::default());
    let step = process.start(Start::Fresh);
    assert_eq!(step.sent(), to([1], start(0)));
    assert_eq!((step.timer_delays(Timer::Ok), step.announced()), (Some(22), vec![]));
}

/// "The process checks if it is the leader of that round and if so sends (OK, r) to all every δ time."
#[test]
fn the_leader_of_the_round_says_ok_each_period() {
    let mut first = TestProcess::<StableLeader>::unstarted(1, 5, &Options::default());
    let step = first.start(Start::Fresh);
    assert_eq!((step.sent(), step.timer_delays(Timer::Period)), (to([2, 3, 4, 5], ok(0, false)), Some(5)));
    for odd in [true, false, true] {
        let step = first.expire(Timer::Period);
        assert_eq!((step.sent(), step.timer_delays(Timer::Period)), (to([2, 3, 4, 5], ok(0, odd)), Some(5)));
    }
}

/// "When a process receives an (OK, k) for the current round (r = k), the process restarts its timer", and
/// after two it believes in the leader; the leader hears its own.
#[test]
fn a_leader_is_believed_in_after_two_oks() {
    let mut follower = process(3);
    let step = follower.receive(1, ok(0, false));
    assert_eq!((step.timer_delays(Timer::Ok), step.announced()), (Some(22), vec![]));
    assert_eq!(follower.receive(1, ok(0, false)).announced(), [], "a doubled one is not two");
    assert_eq!(follower.receive(1, ok(0, true)).announced(), [elected(1, 0)]);
    assert_eq!(follower.receive(1, ok(0, false)).announced(), [], "no news");
    leader();
}

/// "If the process does not receive (OK, r) for more than 2δ time, it times out on round r and starts round
/// r + 1."
#[test]
fn silence_starts_the_next_round() {
    let mut follower = follower();
    let step = follower.expire(Timer::Ok);
    assert_eq!((step.sent(), step.announced()), (to([2], start(1)), vec![Undecided]));
    let step = follower.expire(Timer::Ok);
    assert_eq!(step.sent(), to([1, 2, 4, 5], ok(2, false)), "it leads the round itself");
    assert_eq!(step.announced(), []);
    assert_eq!(follower.expire(Timer::Period).announced(), [elected(3, 2)]);
}

/// "If a process receives (OK, k) or (START, k) from a higher round (k > r), the process starts that round."
#[test]
fn higher_rounds_win() {
    let mut follower = follower();
    let step = follower.receive(5, ok(4, false));
    assert_eq!((step.sent(), step.announced()), (to([5], start(4)), vec![Undecided]));
    assert_eq!(follower.receive(5, ok(4, true)).announced(), [elected(5, 4)]);
    let step = follower.receive(4, start(12));
    assert_eq!((step.sent(), step.announced()), (to([1, 2, 4, 5], ok(12, false)), vec![Undecided]));
    let step = leader().receive(2, start(1));
    assert_eq!((step.sent(), step.announced()), (to([2], start(1)), vec![SteppedDown]));
}

/// One that is behind is told the round, and nothing else changes: it does not matter how it got there.
#[test]
fn lower_rounds_are_answered_with_the_round() {
    let mut ahead = follower();
    ahead.receive(5, ok(4, false));
    ahead.receive(5, ok(4, true));
    for message in [ok(0, true), start(0)] {
        let step = ahead.receive(1, message);
        assert_eq!((step.sent(), step.announced()), (to([1], start(4)), vec![]));
        assert_eq!(step.timer_delays(Timer::Ok), None, "it is no sign of life of 5");
    }
    assert!(leader().receive(3, start(0)).is_empty(), "who is in the round needs not be told");
}

/// A process that recovers begins at round 0, with its disk or without, and follows as soon as it is told.
#[test]
fn one_that_recovers_disturbs_nobody() {
    for saved in [None, Some(())] {
        let mut back = TestProcess::<StableLeader>::unstarted(3, 5, &Options::default());
        assert_eq!(back.start(Start::Recovered(saved)).sent(), to([1], start(0)));
        assert_eq!(back.receive(1, start(8)).sent(), to([4], start(8)));
        back.receive(4, ok(8, true));
        assert_eq!(back.receive(4, ok(8, false)).announced(), [elected(4, 8)]);
    }
}

#[test]
fn suspicions_decide_where_to_go_and_never_when() {
    let mut follower = follower();
    for suspect in [1, 2] {
        assert!(follower.suspect(suspect).is_empty());
    }
    assert_eq!(follower.expire(Timer::Ok).sent(), to([1, 2, 4, 5], ok(2, false)), "past 2 and round 1");
    let mut alone = process(3);
    for suspect in [1, 2, 4, 5] {
        alone.suspect(suspect);
    }
    alone.restore(2);
    assert_eq!(alone.expire(Timer::Ok).sent(), to([2], start(1)));
}

#[test]
fn nobody_can_call_an_election_and_the_leader_can_go() {
    assert!(follower().campaign().is_empty());
    assert!(follower().command(Command::Resign).is_empty(), "it does not lead");
    assert!(follower().command(Command::Transfer(NodeId(2))).is_empty());
    let step = leader().command(Command::Resign);
    assert_eq!((step.sent(), step.announced()), (to([2], start(1)), vec![SteppedDown]));
    assert_eq!(leader().command(Command::Transfer(NodeId(4))).sent(), to([4], start(3)));
    for nobody in [1, 99] {
        assert!(leader().command(Command::Transfer(NodeId(nobody))).is_empty());
    }
}

#[test]
fn a_forgery_does_no_harm() {
    assert!(follower().receive(2, ok(7, true)).is_empty(), "3 leads round 7, not 2");
    let mut follower = follower();
    let last = u64::MAX;
    let leader = last % 5 + 1;
    assert_eq!(follower.receive(2, start(last)).sent(), to([leader], start(last)));
    assert_eq!(follower.expire(Timer::Ok).sent(), to([leader], start(last)), "there is none after it");
}

#[test]
fn a_time_out_that_would_unseat_healthy_leaders_is_refused() {
    let group = Roster::numbered(5);
    let timeout = |timeout| StableLeader::check(&Options { period: 5, timeout }, &group);
    assert_eq!(timeout(7), Ok(()));
    assert_eq!(timeout(6).unwrap_err().name, "timeout");
}
