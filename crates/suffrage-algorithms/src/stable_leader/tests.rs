//! One test per rule of stable leader election: Aguilera et al. 2001, and the additions for recovery.

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
fn starting_a_round_sends_start_to_its_leader_and_starts_the_timer() {
    let mut process = TestProcess::<StableLeader>::unstarted(3, 5, &Options::default());
    let step = process.start(Start::Fresh);
    assert_eq!(step.sent(), to([1], start(0)));
    assert_eq!((step.timer_delays(Timer::Ok), step.announced()), (Some(22), vec![]));
}

/// "The process checks if it is the leader of that round and if so sends (OK, r) to all every δ time."
#[test]
fn the_leader_of_the_round_sends_ok_each_period() {
    let mut first = TestProcess::<StableLeader>::unstarted(1, 5, &Options::default());
    let step = first.start(Start::Fresh);
    assert_eq!((step.sent(), step.timer_delays(Timer::Period)), (to([2, 3, 4, 5], ok(0, false)), Some(5)));
    for odd in [true, false, true] {
        let step = first.expire(Timer::Period);
        assert_eq!((step.sent(), step.timer_delays(Timer::Period)), (to([2, 3, 4, 5], ok(0, odd)), Some(5)));
    }
}

/// "When a process receives an (OK, k) for the current round (r = k), the process restarts its timer", and after two
/// it accepts the leader. The leader counts its own.
#[test]
fn a_leader_is_accepted_after_two_oks() {
    let mut follower = process(3);
    let step = follower.receive(1, ok(0, false));
    assert_eq!((step.timer_delays(Timer::Ok), step.announced()), (Some(22), vec![]));
    assert_eq!(follower.receive(1, ok(0, false)).announced(), [], "a duplicate does not count as two");
    assert_eq!(follower.receive(1, ok(0, true)).announced(), [elected(1, 0)]);
    assert_eq!(follower.receive(1, ok(0, false)).announced(), [], "no change");
    leader();
}

/// "If the process does not receive (OK, r) for more than 2δ time, it times out on round r and starts round
/// r + 1."
#[test]
fn a_missing_ok_starts_the_next_round() {
    let mut follower = follower();
    let step = follower.expire(Timer::Ok);
    assert_eq!((step.sent(), step.announced()), (to([2], start(1)), vec![Undecided]));
    let step = follower.expire(Timer::Ok);
    assert_eq!(step.sent(), to([1, 2, 4, 5], ok(2, false)), "this process leads the round");
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

/// A process in a lower round is told the current round. No other state changes: it does not matter how that process
/// fell behind.
#[test]
fn messages_of_lower_rounds_are_answered_with_the_current_round() {
    let mut ahead = follower();
    ahead.receive(5, ok(4, false));
    ahead.receive(5, ok(4, true));
    for message in [ok(0, true), start(0)] {
        let step = ahead.receive(1, message);
        assert_eq!((step.sent(), step.announced()), (to([1], start(4)), vec![]));
        assert_eq!(step.timer_delays(Timer::Ok), None, "the message is no sign of life of 5");
    }
    assert!(leader().receive(3, start(0)).is_empty(), "a process in the same round gets no answer");
}

/// A recovered process starts at round 0, with its disk or without, and follows the leader as soon as it learns the
/// round.
#[test]
fn a_recovered_process_follows_the_current_round() {
    for saved in [None, Some(())] {
        let mut recovered = TestProcess::<StableLeader>::unstarted(3, 5, &Options::default());
        assert_eq!(recovered.start(Start::Recovered(saved)).sent(), to([1], start(0)));
        assert_eq!(recovered.receive(1, start(8)).sent(), to([4], start(8)));
        recovered.receive(4, ok(8, true));
        assert_eq!(recovered.receive(4, ok(8, false)).announced(), [elected(4, 8)]);
    }
}

#[test]
fn suspicions_skip_rounds_but_never_start_them() {
    let mut follower = follower();
    for suspect in [1, 2] {
        assert!(follower.suspect(suspect).is_empty());
    }
    assert_eq!(
        follower.expire(Timer::Ok).sent(),
        to([1, 2, 4, 5], ok(2, false)),
        "round 1 of the suspected 2 is skipped"
    );
    let mut alone = process(3);
    for suspect in [1, 2, 4, 5] {
        alone.suspect(suspect);
    }
    alone.restore(2);
    assert_eq!(alone.expire(Timer::Ok).sent(), to([2], start(1)));
}

#[test]
fn campaign_is_ignored_and_the_leader_can_resign_or_transfer() {
    assert!(follower().campaign().is_empty());
    assert!(follower().command(Command::Resign).is_empty(), "3 does not lead");
    assert!(follower().command(Command::Transfer(NodeId(2))).is_empty());
    let step = leader().command(Command::Resign);
    assert_eq!((step.sent(), step.announced()), (to([2], start(1)), vec![SteppedDown]));
    assert_eq!(leader().command(Command::Transfer(NodeId(4))).sent(), to([4], start(3)));
    for target in [1, 99] {
        assert!(leader().command(Command::Transfer(NodeId(target))).is_empty());
    }
}

#[test]
fn forged_messages_do_not_break_the_rounds() {
    assert!(follower().receive(2, ok(7, true)).is_empty(), "3 leads round 7, not 2");
    let mut follower = follower();
    let last = u64::MAX;
    let leader = last % 5 + 1;
    assert_eq!(follower.receive(2, start(last)).sent(), to([leader], start(last)));
    assert_eq!(follower.expire(Timer::Ok).sent(), to([leader], start(last)), "there is no round after it");
}

#[test]
fn a_time_out_that_would_replace_healthy_leaders_is_rejected() {
    let group = Roster::numbered(5);
    let timeout = |timeout| StableLeader::check(&Options { period: 5, timeout }, &group);
    assert_eq!(timeout(7), Ok(()));
    assert_eq!(timeout(6).unwrap_err().name, "timeout");
}
