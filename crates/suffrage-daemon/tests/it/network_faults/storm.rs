//! Random faults in sequence; then the network heals, and a leader must be elected.

use std::time::Duration;
use std::{env, thread};

use suffrage_core::Rng;
use suffrage_testbed::LinkConditions;

use crate::network_faults::support::Cluster;

const MS: Duration = Duration::from_millis(1);
const FAULTS: usize = 12;

/// Applies a random fault. In every second case the network heals before.
fn strike(cluster: &mut Cluster, rng: &mut Rng) -> String {
    if rng.chance(0.5) {
        cluster.network.heal();
    }
    let mut hosts = cluster.hosts();
    rng.shuffle(&mut hosts);
    let others = hosts.split_off(1 + rng.below(2) as usize);
    let few = hosts;
    match rng.below(7) {
        0 | 1 => {
            cluster.network.cut(&few, &others);
            format!("{few:?} are cut off")
        }
        2 => {
            cluster.network.cut_one_way(&few, &others);
            format!("{few:?} are not heard")
        }
        3 => {
            cluster.network.cut_one_way(&others, &few);
            format!("{few:?} do not hear")
        }
        4 => {
            let loss = rng.unit() * 0.3;
            let conditions = LinkConditions { loss, delay: 2 * MS, jitter: 60 * MS, duplication: 0.2 };
            cluster.network.set_conditions_everywhere(conditions);
            format!("the network is bad, {loss:.2} is lost")
        }
        5 => {
            let host = few[0];
            cluster.kill_node(host);
            cluster.start_node(host, &[]);
            format!("voter {host} is killed, and comes back")
        }
        _ => {
            // The guard of the writer stops its remaining processes.
            let host = cluster.last_leader().map_or(few[0], |leader| leader.host);
            cluster.candidates[host - 1] = None;
            cluster.candidates[host - 1] = Some(cluster.run(host, &cluster.keys(host)));
            format!("{host}'s candidate is killed, and comes back")
        }
    }
}

#[test]
fn under_random_faults_no_write_is_lost_and_a_leader_is_elected_afterwards() {
    let seed = env::var("SUFFRAGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(6);
    println!("SUFFRAGE_SEED={seed}");
    let mut cluster = Cluster::with_writers(5, seed);
    let mut rng = Rng::new(seed);
    let first = cluster.leader_after(0);
    for _ in 0..FAULTS {
        println!("{}", strike(&mut cluster, &mut rng));
        thread::sleep(500 * MS + (1_000 * MS).mul_f64(rng.unit()));
        cluster.verify_fenced();
    }
    let before = cluster.last_leader().map_or(0, |leader| leader.token);
    cluster.network.heal();
    let mut last = cluster.settled();
    // A leader from before may have lost its majority before the network healed. The next leader must stay.
    if last.token <= before && !cluster.keeps_writing(last, 20) {
        cluster.leader_after(last.token);
        last = cluster.settled();
    }
    assert!(last.token >= first.token);
    cluster.writes_on(last, 20);
    cluster.verify_fenced();
    println!("where tokens are not checked: {:?}", cluster.verify_trusting());
}
