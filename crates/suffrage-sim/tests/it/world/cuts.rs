//! Cuts in the network.

use crate::world::probe::Action::Send;
use crate::world::probes::ProbeWorld;

#[test]
fn a_cut_drops_messages_on_sending_and_on_arrival_until_it_heals() {
    let mut probes = ProbeWorld::new(2);
    let seen = probes.watch();
    for (at, word) in [(8.5, 1), (9.5, 2), (10.5, 3), (18.5, 4), (20.5, 5)] {
        probes.at(at, 1, Send(2, word));
    }
    probes.cut(10.0, 20.0, &[&[1], &[2]]);
    probes.run_out();
    assert_eq!(probes.log(2), ["9.5 heard 1 from 1", "21.5 heard 5 from 1"]);
    assert_eq!(probes.counts(), [0, 3, 0, 0, 0]);
    let dropped: Vec<String> = seen.borrow().iter().filter(|line| line.contains(": Cut")).cloned().collect();
    let reasons = ["10.5 1 to 2: Cut", "10.5 1 to 2: Cut", "18.5 1 to 2: Cut"];
    assert_eq!(dropped, reasons, "one on arrival, two on sending");
}

#[test]
fn a_message_sent_into_a_cut_is_lost_even_if_the_cut_heals_before_its_arrival() {
    let mut probes = ProbeWorld::new(2);
    probes.cut(10.0, 10.6, &[&[1], &[2]]);
    probes.at(10.5, 1, Send(2, 7));
    probes.run_out();
    assert_eq!(probes.log(2), [""; 0]);
    assert_eq!(probes.counts(), [0, 1, 0, 0, 0]);
}

#[test]
fn a_message_in_flight_passes_a_cut_that_heals_before_its_arrival() {
    let mut probes = ProbeWorld::new(2);
    probes.at(10.0, 1, Send(2, 7));
    probes.cut(10.1, 10.9, &[&[1], &[2]]);
    probes.run_out();
    assert_eq!(probes.log(2), ["11 heard 7 from 1"]);
}

/// Every process sends to every other at 5, while the network is cut as given. Returns the senders that each received
/// from.
fn greetings(cut: impl Fn(&mut ProbeWorld)) -> Vec<Vec<u64>> {
    let mut probes = ProbeWorld::new(5);
    cut(&mut probes);
    for from in 1..=5 {
        (1..=5).filter(|&to| to != from).for_each(|to| probes.at(5.0, from, Send(to, 0)));
    }
    probes.run_out();
    let heard = |line: &String| line.rsplit(' ').next().unwrap().parse().unwrap();
    probes.logs().iter().map(|log| log.iter().map(heard).collect()).collect()
}

#[test]
fn a_cut_separates_its_sides_and_processes_on_no_side_reach_all() {
    let heard = greetings(|probes| probes.cut(1.0, 9.0, &[&[1, 2], &[3, 4]]));
    let both_ways = [vec![2, 5], vec![1, 5], vec![4, 5], vec![3, 5], vec![1, 2, 3, 4]];
    assert_eq!(heard, both_ways);
}

#[test]
fn after_a_one_way_cut_a_side_still_hears_the_sides_after_it() {
    let heard = greetings(|probes| probes.cut_one_way(1.0, 9.0, &[&[1, 2], &[3], &[4]]));
    let one_way = [vec![2, 3, 4, 5], vec![1, 3, 4, 5], vec![4, 5], vec![5], vec![1, 2, 3, 4]];
    assert_eq!(heard, one_way);
}

#[test]
fn cuts_add_up_and_heal_one_by_one() {
    let heard = greetings(|probes| {
        probes.cut(1.0, 9.0, &[&[1, 2], &[3, 4, 5]]);
        probes.cut(2.0, 9.0, &[&[1, 3], &[2, 4, 5]]);
    });
    assert_eq!(heard, [vec![], vec![], vec![], vec![5], vec![4]]);
    let heard = greetings(|probes| {
        probes.cut(1.0, 3.0, &[&[1, 2], &[3, 4, 5]]);
        probes.cut(2.0, 9.0, &[&[1, 3], &[2, 4, 5]]);
    });
    assert_eq!(heard, [vec![3], vec![4, 5], vec![1], vec![2, 5], vec![2, 4]]);
}
