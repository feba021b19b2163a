//! The measurements, of suffrage and of etcd.

pub(crate) mod acquire;
pub(crate) mod connections;
pub(crate) mod failover;
pub(crate) mod handover;
pub(crate) mod held;
pub(crate) mod kill;

use std::time::Duration;

use tokio::task::JoinSet;

use crate::etcd::{Client, Renewals};

/// Waits for all tasks. Returns the first error.
pub(crate) async fn all<T: 'static>(mut tasks: JoinSet<Result<T, String>>) -> Result<Vec<T>, String> {
    let mut results = Vec::new();
    while let Some(result) = tasks.join_next().await {
        results.push(result.map_err(|error| error.to_string())??);
    }
    Ok(results)
}

/// A lease of etcd that is renewed every third of its ttl. Dropping it stops the renewals, like the kill of its client.
pub(crate) struct KeptLease {
    pub(crate) id: i64,
    renewing: tokio::task::JoinHandle<()>,
}

impl KeptLease {
    pub(crate) async fn grant(client: &Client, seconds: i64) -> Result<KeptLease, String> {
        let (id, seconds) = client.grant(seconds).await?;
        let (mut renewals, mut renewed): (Renewals, _) = client.keep_alive().await?;
        let third = Duration::from_secs(seconds as u64) / 3;
        let renewing = tokio::spawn(async move {
            let mut tick = tokio::time::interval(third);
            loop {
                tokio::select! {
                    _ = tick.tick() => if renewals.send([id]).is_err() { return },
                    answer = renewed.next() => if !matches!(answer, Ok(Some(_))) { return },
                }
            }
        });
        Ok(KeptLease { id, renewing })
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.renewing.abort();
    }
}
