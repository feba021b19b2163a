//! LE-S sentence by sentence: Ramanathan et al. 2007, section 8, on Schooler et al. 2002. What it shares
//! with LE-A is tested there.

use super::*;
use suffrage_core::Announcement::Undecided;
use suffrage_core::Term;
use suffrage_core::testing::{Done, Subject, elected};

fn announce(term: u64) -> Message {
    Message::Announce { term: Term(term) }
}

/// Process `me` of five, started, and what it did.
fn start(me: u64, wake: Wake) -> (Subject<Suppress>, Done<Suppress>) {
    let mut process = Subject::unstarted(me, 5, &Options { wake, ..Default::default() });
    let done = process.starts(Start::Fresh);
    (process, done)
}

/// "Processes wait for a random time before sending their leader announcements."
#[test]
fn a_process_waits_before_it_announces_itself() {
    let (mut process, done) = start(3, Wake::Random);
    assert_eq!(done.multicast(), []);
    assert!(done.awaits(Timer::Wake).is_some_and(|wait| wait < 10));
    assert_eq!(done.awaits(Timer::Listen), Some(13), "all have spoken by then");
    let done = process.runs_out(Timer::Wake);
    assert_eq!((done.multicast(), done.announced()), (vec![announce(1)], vec![]));
    assert_eq!(process.runs_out(Timer::Listen).announced(), [elected(3, 1)]);
}

/// It "suppresses unnecessary leadership announcements": one that has heard a better one is silent.
#[test]
fn a_better_announcement_suppresses_its_own() {
    let (mut process, _) = start(3, Wake::Random);
    process.hears(4, announce(1));
    assert!(process.runs_out(Timer::Wake).is_nothing());
    assert_eq!(process.runs_out(Timer::Listen).announced(), [elected(4, 1)]);
}

#[test]
fn a_worse_announcement_does_not() {
    let (mut process, _) = start(3, Wake::Random);
    assert!(process.hears(2, announce(1)).is_nothing());
    assert_eq!(process.runs_out(Timer::Wake).multicast(), [announce(1)]);
}

/// "Making the suppression wake-up timer value the actual id": who is better wakes earlier, by more than a
/// round trip.
#[test]
fn by_rank_the_better_wake_earlier() {
    let (_, done) = start(5, Wake::Rank);
    assert_eq!((done.multicast(), done.announced()), (vec![announce(1)], vec![elected(5, 1)]));
    for (me, wait) in [(4, 3), (3, 6), (2, 9), (1, 12)] {
        let (mut process, done) = start(me, Wake::Rank);
        assert_eq!((done.multicast(), done.awaits(Timer::Wake)), (vec![], Some(wait)));
        assert_eq!(done.awaits(Timer::Listen), Some(wait + 3));
        assert_eq!(process.hears(5, announce(1)).awaits(Timer::Listen), Some(3), "the better come first");
        assert_eq!(process.runs_out(Timer::Listen).announced(), [elected(5, 1)]);
    }
}

/// A leader that is lost is not waited for.
#[test]
fn by_rank_the_second_best_takes_over_at_once() {
    for suspicion in [false, true] {
        let (mut second, _) = start(4, Wake::Rank);
        second.hears(5, announce(1));
        second.runs_out(Timer::Listen);
        let done = if suspicion { second.suspects(5) } else { second.runs_out(Timer::Silence) };
        assert_eq!((done.multicast(), done.announced()), (vec![announce(2)], vec![Undecided]));
    }
}

/// A rank that rises above the best heard has the process wait for its turn again.
#[test]
fn ranks_that_change_are_respected() {
    let (mut process, _) = start(3, Wake::Random);
    process.hears(4, announce(1));
    assert!(process.ranks(3, 9).awaits(Timer::Wake).is_some());
    assert_eq!(process.runs_out(Timer::Wake).multicast(), [announce(2)]);
}

#[test]
fn a_campaign_begins_an_election_unless_there_is_one() {
    let (mut process, _) = start(3, Wake::Rank);
    assert!(process.campaigns().is_nothing());
    process.hears(4, announce(1));
    process.runs_out(Timer::Listen);
    let done = process.campaigns();
    assert_eq!((done.announced(), done.awaits(Timer::Wake)), (vec![Undecided], Some(6)));
    let (mut best, _) = start(5, Wake::Rank);
    assert!(best.campaigns().is_nothing(), "it is announcing itself");
    best.runs_out(Timer::Listen);
    assert_eq!(best.campaigns().multicast(), [announce(1)]);
}
