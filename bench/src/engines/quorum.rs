//! The same measurements of our own quorum lease: three processes of `suffrage node`.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::time::{Duration, Instant};

use super::measure::{HELD, HELD_TTL, Load};
use super::{NAMES, Plan};
use crate::cluster::Cluster;
use crate::measure::held::HeldElections;
use crate::measure::{acquire, failover, handover};
use crate::times::Times;

/// The figures of the quorum lease.
#[derive(Debug, Default)]
pub(crate) struct Quorum {
    pub(crate) handover: Option<Times>,
    /// Acquisitions per second, by the number of names.
    pub(crate) acquired: BTreeMap<usize, f64>,
    /// Fail-overs, by the ttl.
    pub(crate) failovers: BTreeMap<Duration, Times>,
    pub(crate) held: Option<Load>,
}

impl Quorum {
    /// Measures one part. Fail-overs depend on the ttl, and are measured later.
    pub(crate) async fn measure(&mut self, part: &str, plan: &Plan) -> Result<(), String> {
        match part {
            "handover" => {
                let cluster = Cluster::start().await?;
                self.handover = Some(handover::library(&cluster, plan.handovers).await?);
            }
            "acquire" => {
                for names in NAMES {
                    let (cluster, node) = Cluster::embedded().await?;
                    let effort = acquire::Effort { names, span: plan.span };
                    self.acquired.insert(names, acquire::library(&node, effort).await?);
                    node.stop().await;
                    drop(cluster);
                }
            }
            "held" => self.held = Some(held(plan.observed).await?),
            _ => {}
        }
        Ok(())
    }

    /// Measures fail-overs at this ttl, unless that was done.
    pub(crate) async fn measure_failover(&mut self, ttl: Duration, kills: usize) -> Result<(), String> {
        if let Entry::Vacant(entry) = self.failovers.entry(ttl) {
            let effort = failover::Effort { clusters: 1, kills };
            entry.insert(failover::suffrage(ttl, effort).await?);
        }
        Ok(())
    }
}

async fn held(observed: Duration) -> Result<Load, String> {
    let cluster = Cluster::start().await?;
    let idle = cluster.usage().cpu;
    tokio::time::sleep(observed).await;
    let idle = (cluster.usage().cpu - idle) / observed.as_secs_f64();
    let mut held = HeldElections::new(&cluster, 400, HELD_TTL).await?;
    held.hold(HELD).await?;
    tokio::time::sleep(HELD_TTL / 3).await;
    let (start, before) = (Instant::now(), held.messages_sent().await?);
    let cost = held.cost(observed).await;
    let (sent, seconds) = (held.messages_sent().await? - before, start.elapsed().as_secs_f64());
    held.release().await;
    Ok(Load { requests: sent as f64 / seconds / HELD as f64, cpu: (cost.cpu - idle).max(0.0) })
}
