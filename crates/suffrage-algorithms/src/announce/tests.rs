//! LE-A sentence by sentence: Ramanathan et al. 2007, section 8, on Schooler et al. 2002.

use super::*;
use suffrage_core::Announcement::{SteppedDown, Undecided};
use suffrage_core::Term;
use suffrage_core::testing::{Subject, elected};

fn announce(term: u64) -> Message {
    Message::Announce { term: Term(term) }
}

/// Process `me` of five, which has just announced itself.
fn process(me: u64) -> Subject<Announce> {
    let mut process = Subject::unstarted(me, 5, &Pace::default());
    process.starts(Start::Fresh);
    process
}

/// Process 3, which leads.
fn leader() -> Subject<Announce> {
    let mut leader = process(3);
    assert_eq!(leader.runs_out(Timer::Listen).announced(), [elected(3, 1)]);
    leader
}

/// Process 3, which follows 4.
fn follower() -> Subject<Announce> {
    let mut follower = process(3);
    follower.hears(4, announce(1));
    assert_eq!(follower.runs_out(Timer::Listen).announced(), [elected(4, 1)]);
    follower
}

/// "A process initially announces itself as the leader to the group and listen[s] for announcements of the
/// other members of the group"; one that recovers does too.
#[test]
fn a_process_announces_itself_and_listens() {
    for start in [Start::Fresh, Start::Recovered(None)] {
        let mut process = Subject::<Announce>::unstarted(3, 5, &Pace::default());
        let done = process.starts(start);
        assert_eq!((done.multicast(), done.sent()), (vec![announce(1)], vec![]));
        assert_eq!((done.awaits(Timer::Listen), done.announced()), (Some(3), vec![]));
    }
}

/// "The process with the greatest identifier is selected as leader."
#[test]
fn the_best_heard_leads() {
    let mut process = process(3);
    for (from, term) in [(4, 1), (2, 1), (5, 2), (4, 1)] {
        let done = process.hears(from, announce(term));
        assert_eq!((done.multicast(), done.announced()), (vec![], vec![]));
    }
    let done = process.runs_out(Timer::Listen);
    assert_eq!((done.announced(), done.awaits(Timer::Silence)), (vec![elected(5, 2)], Some(35)));
}

/// The best there is need not listen, and does not answer those that announce themselves meanwhile.
#[test]
fn one_that_knows_nobody_better_leads_at_once() {
    let mut best = Subject::<Announce>::unstarted(5, 5, &Pace::default());
    let done = best.starts(Start::Fresh);
    assert_eq!((done.multicast(), done.announced()), (vec![announce(1)], vec![elected(5, 1)]));
    assert!(best.hears(4, announce(1)).is_nothing());
    assert!(best.runs_out(Timer::Listen).is_nothing());
    assert_eq!(best.hears(4, announce(1)).multicast(), [announce(1)]);
}

/// "On receiving an announcement, a process decides locally if the current leader must be changed based on
/// the process identifier received in the announcement."
#[test]
fn an_announcement_changes_the_leader_if_it_is_of_a_better_one() {
    let mut follower = follower();
    assert!(follower.hears(2, announce(7)).is_nothing());
    assert_eq!(follower.hears(5, announce(1)).announced(), [elected(5, 1)]);
    assert!(follower.hears(4, announce(1)).is_nothing());
    let done = leader().hears(4, announce(1));
    assert_eq!((done.multicast(), done.announced()), (vec![], vec![elected(4, 1)]));
}

/// A leader repeats itself each period, and at once to one that does not know it, but not when that is on
/// its way.
#[test]
fn a_leader_repeats_its_announcement() {
    let mut leader = leader();
    let done = leader.runs_out(Timer::Period);
    assert_eq!((done.multicast(), done.awaits(Timer::Period)), (vec![announce(1)], Some(10)));
    assert!(leader.hears(2, announce(1)).is_nothing(), "2 is about to hear of it");
    assert!(leader.runs_out(Timer::Listen).is_nothing());
    assert_eq!(leader.hears(2, announce(1)).multicast(), [announce(1)]);
    assert!(leader.hears(1, announce(1)).is_nothing());
}

/// A follower that misses its leader for a time-out, or suspects it, or is told to, stands itself.
#[test]
fn without_a_leader_it_stands() {
    assert_eq!(follower().hears(4, announce(1)).awaits(Timer::Silence), Some(35));
    for input in 0..3 {
        let mut follower = follower();
        let done = match input {
            0 => follower.runs_out(Timer::Silence),
            1 => follower.suspects(4),
            _ => follower.campaigns(),
        };
        assert_eq!((done.multicast(), done.announced()), (vec![announce(2)], vec![Undecided]), "{input}");
        follower.hears(4, announce(1));
        assert_eq!(follower.runs_out(Timer::Listen).announced(), [elected(4, 1)], "it is there after all");
    }
    assert!(follower().suspects(5).is_nothing(), "5 does not lead");
    assert!(process(3).campaigns().is_nothing(), "an election is under way");
    assert_eq!(leader().campaigns().multicast(), [announce(1)]);
}

#[test]
fn ranks_that_change_make_the_better_one_stand() {
    let mut follower = follower();
    assert!(follower.ranks(5, 0).is_nothing());
    assert_eq!(follower.ranks(4, 0).multicast(), [announce(2)]);
    let mut listener = process(3);
    listener.hears(4, announce(1));
    assert_eq!(listener.ranks(3, 9).multicast(), [announce(2)]);
    assert!(leader().ranks(3, 0).is_nothing(), "whoever is better now will say so");
}

#[test]
fn a_leader_that_meets_a_better_one_is_not_heard_of_again() {
    let mut leader = leader();
    leader.runs_out(Timer::Period);
    leader.hears(5, announce(1));
    assert_eq!(leader.runs_out(Timer::Silence).announced(), [Undecided]);
    assert_eq!(leader.runs_out(Timer::Listen).announced(), [elected(3, 2)]);
    assert!(!leader.hears(5, announce(1)).announced().contains(&SteppedDown), "it knows another");
}

#[test]
fn a_pace_that_a_healthy_leader_cannot_keep_is_refused() {
    let check = |period, timeout| Announce::check(&Pace { period, timeout }, &Roster::numbered(5));
    assert_eq!(check(4, 6), Ok(()));
    assert_eq!(check(3, 60).unwrap_err().name, "period");
    assert_eq!(check(10, 11).unwrap_err().name, "timeout");
}
