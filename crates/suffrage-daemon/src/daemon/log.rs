//! What is logged, besides what those who do something say about it. Never a key, a token or a session.

use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{error, info, warn};

use suffrage_net::transport::Transport as _;
use suffrage_net::transport::udp::Udp;
use suffrage_net::{Dropped, Snapshot};
use suffrage_node::config::{Config, LogFormat, LogLevel};
use suffrage_node::lease::{LeaderChange, Node, NodeState};
use tokio::sync::mpsc;

/// Datagrams that were refused are summed up over so long: who sends rubbish does not fill the disk.
const SUMMARY: Duration = Duration::from_secs(10);

/// Logs to standard error from now on, as is usual for services.
pub(super) fn start(config: &Config) {
    let level = match config.log {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // An error means that the process logs already, and where to.
    _ = match config.log_format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Logs every change of leaders that the node learns of, until the node stops.
pub(super) async fn leaders(mut changes: mpsc::UnboundedReceiver<LeaderChange>) {
    while let Some(LeaderChange { election, leader }) = changes.recv().await {
        let election: &str = &election;
        match leader {
            _ if election == super::PULSE => {}
            Some((leader, token)) => info!(election, leader = leader.0, token = token.number(), "a leader"),
            None => info!(election, "no leader"),
        }
    }
}

/// Logs that the node stands still because it cannot save, and that it does not any more.
pub(super) async fn troubles(node: Node) {
    let mut state = node.state();
    // Whoever waits here does not keep the node alive.
    drop(node);
    let mut before = None;
    loop {
        let now = state.borrow_and_update().clone();
        let failure = now.storage_failure().map(str::to_string);
        if failure != before {
            match &failure {
                Some(failure) => error!("this node stands still until it can save its state: {failure}"),
                None => info!("the state is saved: this node goes on"),
            }
            before = failure;
        }
        if now.is_stopped() || state.changed().await.is_err() {
            return;
        }
    }
}

/// Warns of a voter that does not vote any more. It is asked only once its disk has answered.
pub(super) async fn disenfranchised(node: Node) {
    if let Ok(metrics) = node.metrics().await
        && metrics.voter.is_some_and(|voter| !voter.votes)
    {
        warn!(
            "this node has lost the state of its votes, and votes no more: it must come back with another id"
        );
    }
}

/// Logs how many datagrams were refused, and why, if any were.
pub(super) async fn refusals(node: Node, transport: Arc<Udp>) {
    let mut state = node.state();
    drop(node);
    let mut before = transport.counters().snapshot();
    loop {
        tokio::select! {
            () = tokio::time::sleep(SUMMARY) => {}
            _ = state.wait_for(NodeState::is_stopped) => return,
        }
        let now = transport.counters().snapshot();
        if let Some(summary) = summary(&before, &now) {
            warn!("datagrams dropped in {} s: {summary}", SUMMARY.as_secs());
        }
        before = now;
    }
}

fn summary(before: &Snapshot, now: &Snapshot) -> Option<String> {
    let more = |reason: Dropped| now.dropped(reason) - before.dropped(reason);
    let reasons = Dropped::ALL.into_iter().filter(|reason| more(*reason) > 0);
    let reasons: Vec<String> = reasons.map(|it| format!("{} {}{}", more(it), it.name(), hint(it))).collect();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// What an operator would look for.
fn hint(reason: Dropped) -> &'static str {
    match reason {
        Dropped::Unauthenticated => " (another key?)",
        Dropped::Stale => " (are there two nodes of one id?)",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_net::Counters;

    #[test]
    fn what_was_dropped_is_summed_up_by_reason() {
        let counters = Counters::default();
        counters.count_drop(Dropped::Malformed);
        let before = counters.snapshot();
        assert_eq!(summary(&before, &before), None);
        counters.count_drop(Dropped::Malformed);
        (0..3).for_each(|_| counters.count_drop(Dropped::Replayed));
        assert_eq!(summary(&before, &counters.snapshot()).unwrap(), "1 malformed, 3 replayed");
        counters.count_drop(Dropped::Stale);
        let summary = summary(&before, &counters.snapshot()).unwrap();
        assert!(summary.contains("1 stale (are there two nodes of one id?)"), "{summary}");
    }
}
