//! A network that loses, delays, reorders and duplicates messages.

use std::thread;
use std::time::{Duration, Instant};

use suffrage_testbed::LinkConditions;

use crate::network_faults::support::{Cluster, TTL};

const MS: Duration = Duration::from_millis(1);

#[test]
fn with_loss_and_delay_an_isolated_leader_is_succeeded() {
    let cluster = Cluster::with_writers(5, 5);
    let conditions = LinkConditions { loss: 0.15, delay: 5 * MS, jitter: 20 * MS, duplication: 0.1 };
    cluster.network.set_conditions_everywhere(conditions);
    // TCP to the registers has no faults: it would add 200 ms per loss.
    for host in cluster.hosts() {
        let milder = LinkConditions { loss: 0.02, ..conditions };
        cluster.network.set_conditions(host, cluster.size + 1, milder);
        cluster.network.set_conditions(cluster.size + 1, host, milder);
    }
    cluster.leader_after(0);
    let before = cluster.number();
    thread::sleep(TTL * 3);
    let written = cluster.number() - before;
    println!("{written} writes in {:?} on a bad network", TTL * 3);
    assert!(written >= 10, "{written}: somebody leads nearly all the time");
    let leader = cluster.leader_after(0);
    let (few, many) = cluster.sides(leader, 1);
    cluster.network.cut(&few, &many);
    let cut = Instant::now();
    let next = cluster.leader_after(leader.token);
    println!("{:.1?} from the cut until another writes, on a bad network", cut.elapsed());
    assert!(many.contains(&next.host), "{next:?} leads, and cannot reach more than {few:?}");
    cluster.network.heal();
    let last = cluster.settled();
    cluster.writes_on(last, 20);
    // A delayed write may arrive after the lease of its writer: fencing handles that.
    cluster.verify_fenced();
    let tally = cluster.network.tally();
    assert!(tally.lost > 50 && tally.doubled > 50 && tally.cut > 10, "{tally:?}");
}
