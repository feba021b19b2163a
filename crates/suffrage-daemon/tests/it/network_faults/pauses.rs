//! A leader that is paused with its guard and supervisor for longer than its lease, as on a suspended machine. It then
//! continues and writes.

use std::fs;

use rustix::process::Signal;

use crate::network_faults::history::{Deed, Wrong};
use crate::network_faults::support::{Cluster, signal, until};

fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let parent = stat.rsplit_once(") ").and_then(|(_, tail)| tail.split(' ').nth(1)?.parse().ok());
    parent.unwrap()
}

#[test]
fn a_paused_leader_is_rejected_with_fencing_and_overwrites_without() {
    let cluster = Cluster::with_writers(5, 7);
    let first = cluster.leader_after(0);
    assert_eq!(cluster.verify_trusting(), Ok(()));
    // Pauses the command, its guard and the supervisor, in this order, so that none can stop another.
    let writer = cluster.writer(first);
    let guard = parent(writer);
    let supervisor = cluster.candidates[first.host - 1].as_ref().unwrap().id();
    assert_eq!(parent(guard), supervisor);
    for pid in [supervisor, guard, writer] {
        signal(pid, Signal::STOP);
    }
    let second = cluster.leader_after(first.token);
    assert_ne!(second.host, first.host);
    cluster.writes_on(second, 5);
    // The command is the first to continue.
    signal(writer, Signal::CONT);
    let wrong =
        until("a stale write is taken where tokens are not checked", || cluster.verify_trusting().err());
    match wrong {
        Wrong::Deposed { event, greatest } => {
            assert_eq!((event.token, greatest), (first.token, second.token));
            assert!(matches!(event.deed, Deed::Write(_)));
        }
        other => panic!("{other}"),
    }
    println!("without tokens: {wrong}");
    // The write is refused, and the command ends.
    until("the stale write is refused where they are", || (cluster.refusals(first.token) > 0).then_some(()));
    cluster.writes_on(second, 5);
    cluster.verify_fenced();
    // The supervisor learns of the loss, and campaigns again.
    for pid in [guard, supervisor] {
        signal(pid, Signal::CONT);
    }
    cluster.agreed_on(second);
    signal(cluster.candidates[second.host - 1].as_ref().unwrap().id(), Signal::TERM);
    cluster.leader_after(second.token);
    cluster.verify_fenced();
}
