//! One test per sentence on LE-A: Ramanathan et al. 2007, section 8, on Schooler et al. 2002.

use super::*;
use suffrage_core::Announcement::{SteppedDown, Undecided};
use suffrage_core::Term;
use suffrage_core::testing::{TestProcess, elected};

fn announce(term: u64) -> Message {
    Message::Announce { term: Term(term) }
}

/// Process `me` of five, which has just announced itself.
fn process(me: u64) -> TestProcess<Announce> {
    let mut process = TestProcess::unstarted(me, 5, &AnnouncementTiming::default());
    process.start(Start::Fresh);
    process
}

/// Process 3, which leads.
fn leader() -> TestProcess<Announce> {
    let mut leader = process(3);
    assert_eq!(leader.expire(Timer::Listen).announced(), [elected(3, 1)]);
    leader
}

/// Process 3, which follows 4.
fn follower() -> TestProcess<Announce> {
    let mut follower = process(3);
    follower.receive(4, announce(1));
    assert_eq!(follower.expire(Timer::Listen).announced(), [elected(4, 1)]);
    follower
}

/// "A process initially announces itself as the leader to the group and listen[s] for announcements of the other
/// members of the group". A recovered process does so, too.
#[test]
fn a_process_announces_itself_and_listens() {
    for start in [Start::Fresh, Start::Recovered(None)] {
        let mut process = TestProcess::<Announce>::unstarted(3, 5, &AnnouncementTiming::default());
        let step = process.start(start);
        assert_eq!((step.multicast(), step.sent()), (vec![announce(1)], vec![]));
        assert_eq!((step.timer_delays(Timer::Listen), step.announced()), (Some(3), vec![]));
    }
}

/// "The process with the greatest identifier is selected as leader."
#[test]
fn the_best_announced_process_leads() {
    let mut process = process(3);
    for (from, term) in [(4, 1), (2, 1), (5, 2), (4, 1)] {
        let step = process.receive(from, announce(term));
        assert_eq!((step.multicast(), step.announced()), (vec![], vec![]));
    }
    let step = process.expire(Timer::Listen);
    assert_eq!((step.announced(), step.timer_delays(Timer::Silence)), (vec![elected(5, 2)], Some(35)));
}

/// The best member need not listen, and does not answer announcements that arrive meanwhile.
#[test]
fn a_process_without_better_members_leads_at_once() {
    let mut best = TestProcess::<Announce>::unstarted(5, 5, &AnnouncementTiming::default());
    let step = best.start(Start::Fresh);
    assert_eq!((step.multicast(), step.announced()), (vec![announce(1)], vec![elected(5, 1)]));
    assert!(best.receive(4, announce(1)).is_empty());
    assert!(best.expire(Timer::Listen).is_empty());
    assert_eq!(best.receive(4, announce(1)).multicast(), [announce(1)]);
}

/// "On receiving an announcement, a process decides locally if the current leader must be changed based on
/// the process identifier received in the announcement."
#[test]
fn an_announcement_of_a_better_process_changes_the_leader() {
    let mut follower = follower();
    assert!(follower.receive(2, announce(7)).is_empty());
    assert_eq!(follower.receive(5, announce(1)).announced(), [elected(5, 1)]);
    assert!(follower.receive(4, announce(1)).is_empty());
    let step = leader().receive(4, announce(1));
    assert_eq!((step.multicast(), step.announced()), (vec![], vec![elected(4, 1)]));
}

/// A leader repeats its announcement each period, and at once when a worse process announces itself, unless its own
/// announcement is still on its way.
#[test]
fn a_leader_repeats_its_announcement() {
    let mut leader = leader();
    let step = leader.expire(Timer::Period);
    assert_eq!((step.multicast(), step.timer_delays(Timer::Period)), (vec![announce(1)], Some(10)));
    assert!(leader.receive(2, announce(1)).is_empty(), "the repeated announcement is on its way to 2");
    assert!(leader.expire(Timer::Listen).is_empty());
    assert_eq!(leader.receive(2, announce(1)).multicast(), [announce(1)]);
    assert!(leader.receive(1, announce(1)).is_empty());
}

/// A follower announces itself if it misses its leader for a time-out, suspects it, or gets the command to campaign.
#[test]
fn a_follower_without_a_leader_announces_itself() {
    assert_eq!(follower().receive(4, announce(1)).timer_delays(Timer::Silence), Some(35));
    for input in 0..3 {
        let mut follower = follower();
        let step = match input {
            0 => follower.expire(Timer::Silence),
            1 => follower.suspect(4),
            _ => follower.campaign(),
        };
        assert_eq!((step.multicast(), step.announced()), (vec![announce(2)], vec![Undecided]), "{input}");
        follower.receive(4, announce(1));
        assert_eq!(follower.expire(Timer::Listen).announced(), [elected(4, 1)], "the former leader is alive");
    }
    assert!(follower().suspect(5).is_empty(), "5 does not lead");
    assert!(process(3).campaign().is_empty(), "an election is in progress");
    assert_eq!(leader().campaign().multicast(), [announce(1)]);
}

#[test]
fn a_process_that_outranks_the_leader_after_a_rank_change_announces_itself() {
    let mut follower = follower();
    assert!(follower.set_attribute(5, 0).is_empty());
    assert_eq!(follower.set_attribute(4, 0).multicast(), [announce(2)]);
    let mut listener = process(3);
    listener.receive(4, announce(1));
    assert_eq!(listener.set_attribute(3, 9).multicast(), [announce(2)]);
    assert!(leader().set_attribute(3, 0).is_empty(), "the process that is better now announces itself");
}

#[test]
fn a_leader_that_follows_a_better_one_stops_its_own_announcements() {
    let mut leader = leader();
    leader.expire(Timer::Period);
    leader.receive(5, announce(1));
    assert_eq!(leader.expire(Timer::Silence).announced(), [Undecided]);
    assert_eq!(leader.expire(Timer::Listen).announced(), [elected(3, 2)]);
    assert!(
        !leader.receive(5, announce(1)).announced().contains(&SteppedDown),
        "the process has another leader"
    );
}

#[test]
fn a_timing_that_replaces_a_healthy_leader_is_rejected() {
    let check =
        |period, timeout| Announce::check(&AnnouncementTiming { period, timeout }, &Roster::numbered(5));
    assert_eq!(check(4, 6), Ok(()));
    assert_eq!(check(3, 60).unwrap_err().name, "period");
    assert_eq!(check(10, 11).unwrap_err().name, "timeout");
}
