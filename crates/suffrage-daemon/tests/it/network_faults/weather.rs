//! A network that loses, delays, reorders and doubles what is said.

use std::thread;
use std::time::{Duration, Instant};

use suffrage_testbed::Weather;

use crate::network_faults::support::{Cluster, TTL};

const MS: Duration = Duration::from_millis(1);

#[test]
fn in_bad_weather_somebody_leads_and_is_succeeded_when_it_is_cut_off() {
    let cluster = Cluster::with_writers(5, 5);
    let weather = Weather { loss: 0.15, delay: 5 * MS, jitter: 20 * MS, duplication: 0.1 };
    cluster.network.set_weather_everywhere(weather);
    // TCP makes a fifth of a second out of every loss, and how it does that is not the question.
    for host in cluster.hosts() {
        let milder = Weather { loss: 0.02, ..weather };
        cluster.network.set_weather(host, cluster.size + 1, milder);
        cluster.network.set_weather(cluster.size + 1, host, milder);
    }
    cluster.leader_after(0);
    let before = cluster.number();
    thread::sleep(TTL * 3);
    let written = cluster.number() - before;
    println!("{written} writes in {:?} of bad weather", TTL * 3);
    assert!(written >= 10, "{written}: somebody leads nearly all the time");
    let leader = cluster.leader_after(0);
    let (few, many) = cluster.sides(leader, 1);
    cluster.network.cut(&few, &many);
    let cut = Instant::now();
    let next = cluster.leader_after(leader.token);
    println!("{:.1?} from the cut until another writes, in bad weather", cut.elapsed());
    assert!(many.contains(&next.host), "{next:?} leads, and cannot reach more than {few:?}");
    cluster.network.heal();
    let last = cluster.settled();
    cluster.writes_on(last, 20);
    // A write that was on its way for long may come after its writer's lease: that is what tokens are for.
    cluster.verify_fenced();
    let tally = cluster.network.tally();
    assert!(tally.lost > 50 && tally.doubled > 50 && tally.cut > 10, "{tally:?}");
}
