//! One test per sentence on LE-S: Ramanathan et al. 2007, section 8, on Schooler et al. 2002. The tests of LE-A
//! cover the common part.

use super::*;
use suffrage_core::Announcement::Undecided;
use suffrage_core::Term;
use suffrage_core::testing::{Step, TestProcess, elected};

fn announce(term: u64) -> Message {
    Message::Announce { term: Term(term) }
}

/// Process `me` of five, started, and the effects of the start.
fn start(me: u64, wake: Wake) -> (TestProcess<Suppress>, Step<Suppress>) {
    let mut process = TestProcess::unstarted(me, 5, &Options { wake, ..Default::default() });
    let step = process.start(Start::Fresh);
    (process, step)
}

/// "Processes wait for a random time before sending their leader announcements."
#[test]
fn a_process_waits_before_it_announces_itself() {
    let (mut process, step) = start(3, Wake::Random);
    assert_eq!(step.multicast(), []);
    assert!(step.timer_delays(Timer::Wake).is_some_and(|wait| wait < 10));
    assert_eq!(step.timer_delays(Timer::Listen), Some(13), "all processes have announced themselves by then");
    let step = process.expire(Timer::Wake);
    assert_eq!((step.multicast(), step.announced()), (vec![announce(1)], vec![]));
    assert_eq!(process.expire(Timer::Listen).announced(), [elected(3, 1)]);
}

/// The algorithm "suppresses unnecessary leadership announcements": a process that has received a better
/// announcement sends none.
#[test]
fn a_better_announcement_suppresses_the_own_one() {
    let (mut process, _) = start(3, Wake::Random);
    process.receive(4, announce(1));
    assert!(process.expire(Timer::Wake).is_empty());
    assert_eq!(process.expire(Timer::Listen).announced(), [elected(4, 1)]);
}

#[test]
fn a_worse_announcement_does_not_suppress_the_own_one() {
    let (mut process, _) = start(3, Wake::Random);
    assert!(process.receive(2, announce(1)).is_empty());
    assert_eq!(process.expire(Timer::Wake).multicast(), [announce(1)]);
}

/// "Making the suppression wake-up timer value the actual id": a better process wakes earlier, by more than a round
/// trip.
#[test]
fn by_rank_better_processes_wake_earlier() {
    let (_, step) = start(5, Wake::Rank);
    assert_eq!((step.multicast(), step.announced()), (vec![announce(1)], vec![elected(5, 1)]));
    for (me, wait) in [(4, 3), (3, 6), (2, 9), (1, 12)] {
        let (mut process, step) = start(me, Wake::Rank);
        assert_eq!((step.multicast(), step.timer_delays(Timer::Wake)), (vec![], Some(wait)));
        assert_eq!(step.timer_delays(Timer::Listen), Some(wait + 3));
        assert_eq!(
            process.receive(5, announce(1)).timer_delays(Timer::Listen),
            Some(3),
            "better processes announce themselves first"
        );
        assert_eq!(process.expire(Timer::Listen).announced(), [elected(5, 1)]);
    }
}

/// The wait by rank leaves out a failed leader.
#[test]
fn by_rank_the_second_best_takes_over_at_once_from_a_failed_leader() {
    for suspicion in [false, true] {
        let (mut second, _) = start(4, Wake::Rank);
        second.receive(5, announce(1));
        second.expire(Timer::Listen);
        let step = if suspicion { second.suspect(5) } else { second.expire(Timer::Silence) };
        assert_eq!((step.multicast(), step.announced()), (vec![announce(2)], vec![Undecided]));
    }
}

/// A process whose rank rises above the best announcement waits for its turn again.
#[test]
fn a_process_that_outranks_the_best_announcement_announces_itself() {
    let (mut process, _) = start(3, Wake::Random);
    process.receive(4, announce(1));
    assert!(process.set_attribute(3, 9).timer_delays(Timer::Wake).is_some());
    assert_eq!(process.expire(Timer::Wake).multicast(), [announce(2)]);
}

#[test]
fn a_campaign_begins_an_election_unless_one_is_in_progress() {
    let (mut process, _) = start(3, Wake::Rank);
    assert!(process.campaign().is_empty());
    process.receive(4, announce(1));
    process.expire(Timer::Listen);
    let step = process.campaign();
    assert_eq!((step.announced(), step.timer_delays(Timer::Wake)), (vec![Undecided], Some(6)));
    let (mut best, _) = start(5, Wake::Rank);
    assert!(best.campaign().is_empty(), "the process has just announced itself");
    best.expire(Timer::Listen);
    assert_eq!(best.campaign().multicast(), [announce(1)]);
}
