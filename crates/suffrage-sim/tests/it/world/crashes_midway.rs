//! Crashes in the middle of an input, and messages that are late or slow.

use suffrage_core::Roster;
use suffrage_sim::CrashPoint::{self, AfterSave, BeforeSave, Effects};
use suffrage_sim::{Detector, Fault, Latency};

use crate::world::probe::Action::{Multicast, Save, Send, SendSaveSend};
use crate::world::probes::{CHANCE_ONE, ProbeWorld, span, time};

fn crash_midway(probes: &mut ProbeWorld, at: f64, slot: usize, point: CrashPoint) {
    probes.schedule_fault(at, Fault::CrashMidway { slot, point });
}

/// Process 1 sends, saves and sends, and crashes at this point. Returns the logs of 2 and of the recovered 1.
fn send_save_send(point: CrashPoint) -> (Vec<String>, Vec<String>) {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    probes.at(1.0, 1, Save(5));
    crash_midway(&mut probes, 2.0, 0, point);
    probes.at(3.0, 1, SendSaveSend(2, 7));
    probes.recover(6.0, 1, true);
    probes.run_out();
    assert!(seen.borrow().contains(&"3 1 crashed".to_string()), "{point}: {:?}", seen.borrow());
    (probes.log(2).to_vec(), probes.log(1).to_vec())
}

#[test]
fn effects_before_the_point_happen_and_those_after_it_do_not() {
    let heard = |words: &[u64]| words.iter().map(|word| format!("4 heard {word} from 1")).collect();
    let found = |value| vec![format!("6 recovered with {value}, ranks 1")];
    assert_eq!(send_save_send(Effects(0)), (heard(&[]), found(5)));
    assert_eq!(send_save_send(Effects(1)), (heard(&[7]), found(5)));
    assert_eq!(send_save_send(Effects(2)), (heard(&[7]), found(7)));
    assert_eq!(send_save_send(BeforeSave), (heard(&[7]), found(5)));
    assert_eq!(send_save_send(AfterSave), (heard(&[7]), found(7)));
}

#[test]
fn effects_are_counted_over_several_inputs_and_saves_are_waited_for() {
    for (point, end) in [(Effects(4), "5 1 crashed"), (Effects(2), "3 1 crashed"), (AfterSave, "3 1 crashed")]
    {
        let mut probes = ProbeWorld::new(2);
        let seen = probes.watch();
        crash_midway(&mut probes, 0.5, 0, point);
        probes.at(1.0, 1, Send(2, 1));
        probes.at(3.0, 1, SendSaveSend(2, 2));
        probes.at(5.0, 1, Send(2, 4));
        probes.run_out();
        let crashes: Vec<String> =
            seen.borrow().iter().filter(|line| line.ends_with("crashed")).cloned().collect();
        assert_eq!(crashes, [end], "{point}");
    }
}

/// A process without effects does not reach its crash point.
#[test]
fn a_pending_crash_is_cancelled() {
    let live = |call_off: Option<Fault>| {
        let mut probes = ProbeWorld::new(2);
        crash_midway(&mut probes, 1.0, 0, BeforeSave);
        probes.at(2.0, 2, Send(1, 7));
        call_off.into_iter().for_each(|fault| probes.schedule_fault(4.0, fault));
        probes.at(5.0, 1, Save(3));
        probes.run_out();
        probes.world.facts().is_up(0)
    };
    assert!(!live(None));
    assert!(live(Some(Fault::HealAll)));
    assert!(live(Some(Fault::Recover { slot: 0, disk: true })));
    let mut probes = ProbeWorld::new(2);
    crash_midway(&mut probes, 1.0, 0, BeforeSave);
    probes.crash(2.0, 1);
    probes.recover(3.0, 1, true);
    probes.at(4.0, 1, Save(3));
    probes.run_out();
    assert!(probes.world.facts().is_up(0), "the crash at 2 cancels the pending one");
}

#[test]
fn a_crash_can_be_pending_for_a_dead_process() {
    let mut probes = ProbeWorld::new(3);
    probes.crash(1.0, 1);
    crash_midway(&mut probes, 2.0, 0, BeforeSave);
    probes.recover(3.0, 1, true);
    probes.at(4.0, 2, Save(3));
    probes.run(4.5);
    assert!(probes.world.facts().is_up(0) && probes.world.facts().is_up(1));
    probes.at(5.0, 1, Save(3));
    probes.run_out();
    assert!(!probes.world.facts().is_up(0) && probes.world.facts().is_up(1));
}

#[test]
fn a_crash_of_a_dead_process_cancels_its_pending_crash() {
    let mut probes = ProbeWorld::new(1);
    probes.crash(1.0, 1);
    crash_midway(&mut probes, 2.0, 0, BeforeSave);
    probes.crash(3.0, 1);
    probes.recover(4.0, 1, true);
    probes.at(5.0, 1, Save(3));
    probes.run_out();
    assert!(probes.world.facts().is_up(0));
}

#[test]
fn deferred_events_are_lost_when_a_process_crashes_while_handling_them() {
    let mut probes = ProbeWorld::new(2);
    probes.pause(1.0, 10.0, 1);
    crash_midway(&mut probes, 1.0, 0, BeforeSave);
    probes.at(2.0, 2, Send(1, 1));
    probes.at(4.0, 1, Save(7));
    probes.at(5.0, 2, Send(1, 2));
    probes.run(9.0);
    assert_eq!(probes.counts(), [0; 5]);
    probes.recover(12.0, 1, true);
    probes.run_out();
    assert_eq!(probes.counts(), [0, 0, 1, 0, 0], "the second message");
    assert_eq!(probes.log(1), ["12 recovered with nothing, ranks 1"]);
}

#[test]
fn a_crash_in_the_middle_is_detected_like_any_other() {
    let mut probes = ProbeWorld::detected(2, Detector::Ideal { delay: span(2.0) });
    crash_midway(&mut probes, 1.0, 0, AfterSave);
    probes.at(3.0, 1, SendSaveSend(2, 7));
    probes.run_out();
    assert_eq!(probes.log(2), ["4 heard 7 from 1", "5 suspects 1"]);
}

#[test]
fn slow_messages_take_the_factor_as_long_until_it_ends() {
    for latency in [Latency::Const(span(1.0)), CHANCE_ONE] {
        let mut probes = ProbeWorld::with(Roster::numbered(3), 1, latency);
        probes.schedule_fault(2.0, Fault::Slow(20.0));
        probes.schedule_fault(4.0, Fault::Slow(1.0));
        probes.at(1.0, 1, Send(2, 1));
        probes.at(3.0, 1, Multicast(2));
        probes.at(5.0, 1, Send(2, 3));
        probes.run_out();
        assert_eq!(probes.log(2), ["2 heard 1 from 1", "6 heard 3 from 1", "23 heard 2 from 1"]);
        assert_eq!(probes.log(3), ["23 heard 2 from 1"]);
        assert_eq!(probes.world.process(0).delay_bound, span(1.0), "the assumed delay bound stays");
    }
}

#[test]
fn late_messages_have_an_additional_delay_until_heal_all() {
    let mut probes = ProbeWorld::with(Roster::numbered(2), 1, Latency::Const(span(1.0)));
    probes.schedule_fault(1.0, Fault::Late { probability: 1.0, max_delay: span(100.0) });
    probes.schedule_fault(50.0, Fault::HealAll);
    (2..42).for_each(|at| probes.at(f64::from(at), 1, Send(2, at as u64)));
    probes.at(60.0, 1, Send(2, 60));
    probes.run_out();
    let times = &probes.world.process(1).times;
    assert_eq!(times.len(), 41, "late messages are not lost");
    assert!(times.contains(&time(61.0)) && times.iter().all(|&at| at <= time(41.0 + 101.0)));
    assert!(times.iter().filter(|&&at| at > time(50.0)).count() > 10, "messages in flight stay late");
}
