//! The counts and beliefs of a run.

use suffrage_core::{NodeId, Term, Time};
use suffrage_sim::{Belief, End, LeadershipPeriod};

use crate::world::probe::Action::{Follow, Send, SendUncounted, Set, StepDown, Undecide};
use crate::world::probe::Alarm;
use crate::world::probes::{ProbeWorld, time};

fn belief(leader: u64, term: u64) -> Option<Belief> {
    Some(Belief { leader: NodeId(leader), term: Term(term) })
}

fn period(leader: u64, from: f64, to: Option<f64>) -> LeadershipPeriod {
    LeadershipPeriod { leader: NodeId(leader), from: time(from), to: to.map(time) }
}

#[test]
fn the_latest_announcement_is_the_belief_of_a_process() {
    let mut probes = ProbeWorld::new(3);
    probes.run(0.5);
    assert_eq!(probes.world.ledger().belief(0), None);
    probes.at(1.0, 1, Follow(2, 1));
    probes.at(2.0, 1, Follow(3, 2));
    probes.at(1.0, 2, Follow(2, 1));
    probes.at(3.0, 2, StepDown);
    probes.at(1.0, 3, Follow(2, 1));
    probes.at(3.0, 3, Undecide);
    probes.run(2.5);
    let beliefs = |probes: &ProbeWorld| [0, 1, 2].map(|slot| probes.world.ledger().belief(slot));
    assert_eq!(beliefs(&probes), [belief(3, 2), belief(2, 1), belief(2, 1)]);
    probes.run_out();
    assert_eq!(beliefs(&probes), [belief(3, 2), None, None]);
}

#[test]
fn a_leadership_lasts_while_a_process_believes_in_itself() {
    let mut probes = ProbeWorld::new(4);
    probes.at(1.0, 1, Follow(1, 1));
    probes.at(2.0, 1, Follow(1, 1));
    probes.at(3.0, 1, Follow(1, 2));
    probes.at(5.0, 1, Follow(2, 3));
    probes.at(4.0, 2, Follow(2, 3));
    probes.at(6.0, 2, StepDown);
    probes.at(8.0, 2, Follow(2, 4));
    probes.at(9.0, 2, Undecide);
    probes.at(7.0, 3, Follow(3, 9));
    probes.at(7.0, 4, Follow(3, 9));
    probes.run_out();
    let leaderships = [
        period(1, 1.0, Some(5.0)),
        period(2, 4.0, Some(6.0)),
        period(3, 7.0, None),
        period(2, 8.0, Some(9.0)),
    ];
    assert_eq!(probes.world.ledger().leaderships, leaderships);
}

#[test]
fn a_crash_ends_leadership_and_belief_and_a_recovery_does_not_restore_them() {
    let mut probes = ProbeWorld::new(2);
    probes.at(1.0, 1, Follow(1, 1));
    probes.at(1.0, 2, Follow(1, 1));
    probes.crash(5.0, 1);
    probes.crash(6.0, 2);
    probes.recover(8.0, 1, true);
    probes.run_out();
    let ledger = probes.world.ledger();
    assert_eq!(ledger.leaderships, [period(1, 1.0, Some(5.0))]);
    assert_eq!((ledger.belief(0), ledger.belief(1)), (None, None));
    assert_eq!(ledger.decided, time(1.0), "a crash is no decision");
    probes.at(20.0, 1, Follow(1, 2));
    probes.run_out();
    assert_eq!(probes.world.ledger().leaderships[1..], [period(1, 20.0, None)]);
}

#[test]
fn decided_is_when_a_belief_last_changed_and_active_when_one_was_last_announced() {
    let mut probes = ProbeWorld::new(2);
    let times = |probes: &ProbeWorld| (probes.world.ledger().decided, probes.world.ledger().active);
    probes.run(0.5);
    assert_eq!(times(&probes), (Time::ZERO, Time::ZERO));
    for (at, action, decided) in [
        (1.0, Undecide, 0.0),
        (2.0, Follow(2, 1), 2.0),
        (3.0, Follow(2, 1), 2.0),
        (4.0, Follow(2, 2), 4.0),
        (5.0, Undecide, 5.0),
        (6.0, StepDown, 5.0),
    ] {
        probes.at(at, 1, action);
        probes.run(at);
        assert_eq!(times(&probes), (time(decided), time(at)), "{action:?}");
    }
}

#[test]
fn counted_messages_keep_a_run_active_and_uncounted_ones_and_timers_do_not() {
    let mut probes = ProbeWorld::new(2);
    probes.at(1.0, 1, Send(2, 7));
    probes.at(5.0, 1, SendUncounted(2, 7));
    probes.at(5.0, 2, Set(Alarm(0), 5.0));
    probes.at(20.0, 1, Send(3, 7));
    probes.run_out();
    assert_eq!(probes.log(2), ["2 heard 7 from 1", "6 overheard 7 from 1", "10 alarm 0"]);
    assert_eq!(probes.world.ledger().active, time(2.0), "messages to unknown receivers do not either");
    assert_eq!(probes.world.ledger().decided, Time::ZERO);
}

#[test]
fn every_input_counts_as_an_event() {
    let mut probes = ProbeWorld::new(2);
    probes.at(1.0, 1, Send(2, 7));
    probes.at(1.0, 1, Send(2, 8));
    probes.at(5.0, 2, Set(Alarm(0), 5.0));
    probes.at(6.0, 2, Set(Alarm(0), 5.0));
    probes.run_out();
    assert_eq!(probes.world.ledger().events, 4 + 2 + 1, "commands, messages, and one of two timers");
}

#[test]
fn a_run_ends_quiet_without_events_and_otherwise_at_the_time_limit() {
    let mut probes = ProbeWorld::new(2);
    probes.at(5.0, 1, Send(2, 7));
    assert_eq!(probes.run(5.5), End::TimeUp);
    assert_eq!(probes.world.now(), time(5.5));
    assert_eq!(probes.log(2), [""; 0]);
    assert_eq!(probes.run(6.0), End::Quiet, "the last moment is included");
    assert_eq!(probes.log(2).len(), 1);
    assert_eq!(probes.run(100.0), End::Quiet);
    assert_eq!(probes.world.now(), time(6.0), "the time of the last event");
}
