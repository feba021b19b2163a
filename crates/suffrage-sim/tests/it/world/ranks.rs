//! Ranks that change, and commands.

use suffrage_core::{Command, Quality};
use suffrage_sim::Fault;

use crate::world::probes::{ProbeWorld, time};

#[test]
fn a_change_of_rank_reaches_all_processes_at_once() {
    let mut probes = ProbeWorld::new(3);
    let seen = probes.watch();
    probes.schedule_fault(5.0, Fault::Rank(0, 99));
    probes.schedule_fault(6.0, Fault::Rank(0, -99));
    probes.run_out();
    assert_eq!(probes.logs(), [["5 sees 1 as the best", "6 sees 3 as the best"]; 3]);
    assert_eq!(*seen.borrow(), ["5 1 ranks 99", "6 1 ranks -99"]);
    assert_eq!(probes.world.roster().rank(suffrage_core::NodeId(1)).unwrap().attribute, -99);
}

#[test]
fn a_recovered_process_sees_a_rank_that_changed_while_it_was_dead() {
    let mut probes = ProbeWorld::new(2);
    probes.crash(4.0, 1);
    probes.schedule_fault(5.0, Fault::Rank(0, 99));
    probes.recover(6.0, 1, true);
    probes.run_out();
    assert_eq!(probes.log(1), ["6 recovered with nothing, ranks 99"]);
}

#[test]
fn if_failures_count_each_recovery_lowers_the_rank_and_a_crash_does_not() {
    let mut probes = ProbeWorld::new(3);
    probes.world.count_failures();
    for crash in [10.0, 20.0] {
        probes.crash(crash, 3);
        probes.recover(crash + 5.0, 3, true);
    }
    let quality = |priority, failures| Quality { priority, failures }.attribute();
    let rank =
        |probes: &ProbeWorld, id| probes.world.roster().rank(suffrage_core::NodeId(id)).unwrap().attribute;
    probes.run(12.0);
    assert_eq!(rank(&probes, 3), quality(3, 0));
    assert_eq!(probes.log(1), [""; 0]);
    probes.run(16.0);
    assert_eq!(rank(&probes, 3), quality(3, 1));
    assert_eq!(probes.log(1), ["15 sees 2 as the best"]);
    let recovered = format!("15 recovered with nothing, ranks {}", quality(3, 1));
    assert_eq!(probes.log(3), [recovered], "the start is its first input");
    probes.run_out();
    assert_eq!(rank(&probes, 3), quality(3, 2));
    assert_eq!((rank(&probes, 1), rank(&probes, 2)), (quality(1, 0), quality(2, 0)));
}

#[test]
fn if_failures_do_not_count_a_recovery_keeps_the_rank() {
    let mut probes = ProbeWorld::new(2);
    probes.crash(10.0, 2);
    probes.recover(15.0, 2, true);
    probes.run_out();
    assert_eq!(probes.log(2), ["15 recovered with nothing, ranks 2"]);
    assert_eq!(probes.log(1), [""; 0]);
}

#[test]
fn a_command_reaches_its_process_at_its_time() {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    probes.world.command(time(5.0), 1, Command::Campaign);
    probes.world.command(time(3.0), 1, Command::Resign);
    probes.world.command(time(0.0), 0, Command::Campaign);
    probes.run_out();
    assert_eq!(probes.log(2), ["3 is told Resign", "5 is told Campaign"]);
    assert_eq!(probes.log(1), ["0 is told Campaign"], "after its start");
    assert_eq!(*seen.borrow(), ["0 1 commanded", "3 2 commanded", "5 2 commanded"]);
}
