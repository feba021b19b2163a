//! The log of a daemon. It never contains keys, tokens or session ids.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tracing::level_filters::LevelFilter;
use tracing::{error, info, warn};

use suffrage_core::NodeId;
use suffrage_net::transport::Transport as _;
use suffrage_net::transport::udp::Udp;
use suffrage_net::{Dropped, Snapshot};
use suffrage_node::config::{Config, LogFormat, LogLevel};
use suffrage_node::lease::membership::Configuration;
use suffrage_node::lease::{Leader, MismatchedNode, Node, NodeEvent, NodeState, VoterContact};
use suffrage_node::resolver::Lookup;
use tokio::sync::{mpsc, watch};

use super::live::Changes;

/// The interval of the summary of dropped datagrams: one line per interval, whatever the rate.
const SUMMARY: Duration = Duration::from_secs(10);
/// The interval at which the contact with the voters is read.
const CONTACTS: Duration = Duration::from_secs(1);

/// Starts the log, to standard error.
pub(super) fn start(config: &Config) {
    let level = match config.log {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
    };
    let log = tracing_subscriber::fmt().with_max_level(level).with_writer(std::io::stderr).with_target(false);
    // An error means that the process has a subscriber already.
    _ = match config.log_format {
        LogFormat::Text => log.with_ansi(false).try_init(),
        LogFormat::Json => log.json().flatten_event(true).try_init(),
    };
}

/// Logs every change of leaders that the node learns of, requests to hand over, and why voters refuse its candidates, until
/// the node stops. Changes of leaders also go to the open pages.
pub(super) async fn events(mut events: mpsc::UnboundedReceiver<NodeEvent>, changes: Changes) {
    while let Some(event) = events.recv().await {
        changes.send(&event);
        match event {
            NodeEvent::LeaderChanged { election, .. } if &*election == super::PROBE_ELECTION => {}
            NodeEvent::LeaderChanged { election, leader } => {
                let election: &str = &election;
                match leader {
                    Some(Leader { node, token }) => {
                        info!(election, leader = node.0, token = token.number(), "new leader")
                    }
                    None => info!(election, "no leader"),
                }
            }
            NodeEvent::GrantChanged { election, leader } => {
                let election: &str = &election;
                match leader {
                    Some(Leader { node, token }) => {
                        let token = token.number();
                        info!(election, leader = node.0, token, "this voter has granted the lease");
                    }
                    None => info!(election, "the lease that this voter granted has ended"),
                }
            }
            NodeEvent::HandOverRequested { election, leader, to } => {
                let (election, leader): (&str, u64) = (&election, leader.node.0);
                match to {
                    Some(to) => info!(election, leader, to = to.0, "asks the leader to hand over to a node"),
                    None => info!(election, leader, "asks the leader to hand over to the next candidate"),
                }
            }
            NodeEvent::AskedToHandOver { election, by, to } => {
                let election: &str = &election;
                match to {
                    Some(to) => info!(election, by = by.0, to = to.0, "is asked to hand over to a node"),
                    None => info!(election, by = by.0, "is asked to hand over to the next candidate"),
                }
            }
            NodeEvent::Refused { election, refusal } => {
                info!(election = &*election, "the campaign of this node is refused: {refusal}");
            }
            _ => {}
        }
    }
}

/// Logs every configuration of the cluster that the node learns of, until the node stops.
pub(super) async fn configurations(mut configurations: watch::Receiver<Arc<Configuration>>) {
    while configurations.changed().await.is_ok() {
        let configuration = Arc::clone(&configurations.borrow_and_update());
        let voters: Vec<String> = configuration.voters().iter().map(|voter| voter.id.to_string()).collect();
        let (cluster, version) = (configuration.cluster(), configuration.version());
        info!(%cluster, version, voters = voters.join(", "), "configuration of the cluster");
    }
}

/// Logs when a voter becomes silent and when it answers again, when the majority of voters is lost and regained, and each
/// node whose messages are ignored.
pub(super) async fn voters(node: Node) {
    let mut state = node.state();
    let (mut silent, mut mismatches) = (BTreeSet::new(), BTreeSet::new());
    loop {
        tokio::select! {
            () = tokio::time::sleep(CONTACTS) => {}
            _ = state.wait_for(NodeState::is_stopped) => return,
        }
        // A node that is suspended answers later. A node that has stopped ends this loop.
        let Ok(metrics) = node.metrics().await else { continue };
        let known = std::mem::replace(&mut mismatches, metrics.mismatches.iter().cloned().collect());
        for MismatchedNode { node, reason, .. } in mismatches.difference(&known) {
            error!(node = node.0, "the messages of node {node} are ignored: {reason}");
        }
        for change in contact_changes(node.id(), &mut silent, &metrics.voters) {
            match change {
                ContactChange::Lost(text) => warn!("{text}"),
                ContactChange::Regained(text) => info!("{text}"),
            }
        }
    }
}

/// A change of the contact with the voters.
#[derive(Debug, PartialEq, Eq)]
enum ContactChange {
    Lost(String),
    Regained(String),
}

/// The changes since the last call. `silent` has the voters that were silent then. The node's own voter counts for the
/// majority, and has log lines of its own elsewhere.
fn contact_changes(
    me: NodeId,
    silent: &mut BTreeSet<NodeId>,
    contacts: &[VoterContact],
) -> Vec<ContactChange> {
    use ContactChange::{Lost, Regained};
    let majority = contacts.len() / 2 + 1;
    let mut changes = Vec::new();
    // Voters may have been removed.
    silent.retain(|voter| contacts.iter().any(|contact| contact.voter == *voter));
    let had_majority = contacts.len() - silent.len() >= majority;
    for contact in contacts {
        let (voter, other) = (contact.voter, contact.voter != me);
        let changed = if contact.silent { silent.insert(voter) } else { silent.remove(&voter) };
        match contact.silent {
            true if changed && other => {
                changes.push(Lost(format!("voter {voter} does not answer: {contact}")));
            }
            false if changed && other => changes.push(Regained(format!("voter {voter} answers again"))),
            _ => {}
        }
    }
    let has_majority = contacts.len() - silent.len() >= majority;
    match (had_majority, has_majority) {
        (true, false) => {
            let ids: Vec<String> = silent.iter().map(NodeId::to_string).collect();
            changes.push(Lost(format!(
                "no majority of voters answers: no node can begin to lead; silent voters: {}; {majority} of {} must answer",
                ids.join(", "),
                contacts.len()
            )));
        }
        (false, true) => changes.push(Regained("a majority of voters answers again".to_string())),
        _ => {}
    }
    changes
}

/// Logs when the node is suspended because it cannot save, and when it continues.
pub(super) async fn storage_failures(node: Node) {
    let mut state = node.state();
    // This task does not keep the node running.
    drop(node);
    let mut before = None;
    loop {
        let now = state.borrow_and_update().clone();
        let failure = now.storage_failure().map(str::to_string);
        if failure != before {
            match &failure {
                Some(failure) => error!("this node is suspended until it can save its state: {failure}"),
                None => info!("the state is saved: this node continues"),
            }
            before = failure;
        }
        if now.is_stopped() || state.changed().await.is_err() {
            return;
        }
    }
}

/// Warns if this voter has lost its saved state. The node answers when its disk has.
pub(super) async fn warn_cannot_vote(node: Node) {
    if let Ok(overview) = node.overview().await
        && overview.voter.is_some_and(|voter| !voter.votes)
    {
        let id = node.id();
        warn!(
            "this voter has lost its saved state and does not vote: `suffrage voters remove {id}`, then `suffrage voters \
             add {id}=ADDRESS`"
        );
    }
}

/// Logs a change of the address of a voter.
pub(super) fn resolved(voter: NodeId, name: &str, lookup: &Lookup) {
    match lookup {
        Ok(address) => info!(voter = voter.0, name, %address, "address of a voter resolved"),
        Err(error) => {
            warn!(voter = voter.0, name, "cannot resolve the address of a voter, retrying: {error}")
        }
    }
}

/// Logs a summary of the dropped datagrams of a node by reason, if there are any.
pub(super) async fn dropped_datagrams(node: Node, transport: Arc<Udp>) {
    let mut state = node.state();
    drop(node);
    let read = || {
        let counters = transport.counters();
        std::future::ready(Some((counters.snapshot(), counters.stale_sender())))
    };
    tokio::select! {
        () = summarize_drops(read) => {}
        _ = state.wait_for(NodeState::is_stopped) => {}
    }
}

/// Logs a summary of dropped datagrams periodically, until there are no counters any more.
pub(super) async fn summarize_drops<F: Future<Output = Option<(Snapshot, Option<NodeId>)>>>(
    read: impl Fn() -> F,
) {
    let Some((mut before, _)) = read().await else { return };
    loop {
        tokio::time::sleep(SUMMARY).await;
        let Some((now, stale)) = read().await else { return };
        if let Some(summary) = summary(&before, &now, stale) {
            warn!("datagrams dropped in {} s: {summary}", SUMMARY.as_secs());
        }
        before = now;
    }
}

fn summary(before: &Snapshot, now: &Snapshot, stale: Option<NodeId>) -> Option<String> {
    let more = |reason: Dropped| now.dropped(reason) - before.dropped(reason);
    let reasons = Dropped::ALL.into_iter().filter(|reason| more(*reason) > 0);
    let text = |it| format!("{} {}{}", more(it), it.name(), hint(it, stale));
    let reasons: Vec<String> = reasons.map(text).collect();
    (!reasons.is_empty()).then(|| reasons.join(", "))
}

/// The likely cause, for the operator.
fn hint(reason: Dropped, stale: Option<NodeId>) -> String {
    match (reason, stale) {
        (Dropped::Unauthenticated, _) => " (another key?)".to_string(),
        (Dropped::Stale, Some(id)) => format!(" (do two processes have the id {id}?)"),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use suffrage_net::Counters;

    #[test]
    fn voters_and_majorities_lost_and_regained_are_logged_once_per_change() {
        use ContactChange::{Lost, Regained};
        let contact = |voter, silent| VoterContact {
            voter: NodeId(voter),
            reply_age: (voter != 3).then_some(Duration::from_millis(4_000)),
            silent,
            not_voting: None,
            round_trip: None,
        };
        let contacts = |two, three| [contact(1, false), contact(2, two), contact(3, three)];
        let mut silent = BTreeSet::new();
        let mut changes = |two, three| contact_changes(NodeId(1), &mut silent, &contacts(two, three));
        assert_eq!(changes(false, false), []);
        let lost = "voter 3 does not answer: voter 3 has never answered";
        assert_eq!(changes(false, true), [Lost(lost.to_string())]);
        assert_eq!(changes(false, true), [], "once");
        let lost = [
            "voter 2 does not answer: voter 2 last answered 4s ago",
            "no majority of voters answers: no node can \
                     begin to lead; silent voters: 2, 3; 2 of 3 must answer",
        ];
        assert_eq!(changes(true, true), lost.map(|text| Lost(text.to_string())));
        assert_eq!(changes(true, true), []);
        let back = ["voter 2 answers again", "voter 3 answers again", "a majority of voters answers again"];
        assert_eq!(changes(false, false), back.map(|text| Regained(text.to_string())));
        changes(true, true);
        // Both silent voters are removed from the cluster.
        let alone = contact_changes(NodeId(1), &mut silent, &[contact(1, false)]);
        assert_eq!((alone.len(), silent.len()), (0, 0), "{alone:?}");
    }

    #[test]
    fn dropped_datagrams_are_summed_by_reason() {
        let counters = Counters::default();
        counters.count_drop(Dropped::Malformed);
        let before = counters.snapshot();
        assert_eq!(summary(&before, &before, None), None);
        counters.count_drop(Dropped::Malformed);
        (0..3).for_each(|_| counters.count_drop(Dropped::Replayed));
        assert_eq!(summary(&before, &counters.snapshot(), None).unwrap(), "1 malformed, 3 replayed");
        counters.count_drop(Dropped::Stale);
        let summary = summary(&before, &counters.snapshot(), Some(NodeId(3))).unwrap();
        assert!(summary.contains("1 stale (do two processes have the id 3?)"), "{summary}");
    }
}
