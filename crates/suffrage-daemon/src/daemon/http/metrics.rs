//! `GET /metrics`: metrics in the text format of Prometheus (version 0.0.4).

use std::fmt::Write as _;
use std::time::Duration;

use hyper::StatusCode;

use super::exchange::{Answer, Request, Response, response};
use super::health::reachable_voters;
use super::{App, Problem, elections, granted, in_time};
use suffrage_net::transport::Transport as _;
use suffrage_net::{Dropped, Snapshot};
use suffrage_node::lease::{DurationHistogram, GrantedElection, Node, NodeMetrics, Status};

/// The most elections with series of their own: each series costs the collector.
const MOST_LISTED: usize = 1_000;

/// The values of one page.
struct Sample {
    /// Whether the node cannot save its state.
    storage_failing: bool,
    /// The time since the write to the disk began that is under way.
    save_pending: Duration,
    /// The end of the certificate, in seconds since 1970.
    certificate_end: Option<u64>,
    traffic: Snapshot,
    /// None if the node is suspended or stuck.
    node: Option<NodeSample>,
}

struct NodeSample {
    metrics: NodeMetrics,
    elections: Vec<Status>,
    /// The elections that the node knows only as a voter.
    granted: Vec<GrantedElection>,
}

/// The metrics and the elections of the node.
async fn sample_node(node: &Node) -> Result<NodeSample, Problem> {
    let metrics = in_time(node, node.metrics()).await?;
    Ok(NodeSample { metrics, elections: elections(node).await?, granted: granted(node).await? })
}

pub(super) async fn metrics(app: &App, _: Request) -> Answer {
    // A node that does not answer still has metrics: its operator needs them most.
    let node = sample_node(&app.node).await.ok();
    let sample = Sample {
        storage_failing: app.node.state().borrow().storage_failure().is_some(),
        save_pending: app.node.save_pending().unwrap_or_default(),
        certificate_end: app.credentials.borrow().certificate.as_ref().map(|it| it.end()),
        traffic: app.transport.counters().snapshot(),
        node,
    };
    Ok(page(&sample))
}

/// The metrics of a node that waits for space on its disk to start.
pub(super) fn suspended(certificate_end: Option<u64>) -> Response {
    let (save_pending, traffic) = (Duration::ZERO, Snapshot::default());
    page(&Sample { storage_failing: true, save_pending, certificate_end, traffic, node: None })
}

fn page(sample: &Sample) -> Response {
    exposition(text(sample))
}

/// The response with this page.
pub(super) fn exposition(text: String) -> Response {
    response(StatusCode::OK, "text/plain; version=0.0.4; charset=utf-8", text.into())
}

fn text(sample: &Sample) -> String {
    let mut page = Page::new();
    page.gauge("suffrage_up", "Whether this node answers; if it does not, most metrics are missing.");
    page.line(format_args!("suffrage_up {}", u8::from(sample.node.is_some())));
    page.gauge(
        "suffrage_storage_failing",
        "Whether this node is suspended because it cannot save its state.",
    );
    page.line(format_args!("suffrage_storage_failing {}", u8::from(sample.storage_failing)));
    let name = "suffrage_save_pending_seconds";
    page.gauge(name, "The time since the write to the disk began that is under way, or 0.");
    page.line(format_args!("{name} {}", sample.save_pending.as_secs_f64()));
    page.certificate(sample.certificate_end);
    if let Some(NodeSample { metrics, elections, granted }) = &sample.node {
        page.cluster(metrics);
        page.elections(elections, granted);
        page.granted(metrics);
        page.changes(metrics);
    }
    page.traffic(&sample.traffic);
    page.0
}

/// An election with series of its own.
struct Listed<'a> {
    name: &'a str,
    token: Option<u64>,
    lease_remaining: Option<Duration>,
    grant_remaining: Option<Duration>,
}

impl<'a> From<&'a Status> for Listed<'a> {
    fn from(status: &'a Status) -> Listed<'a> {
        let token = status.leader.map(|leader| leader.token.number());
        let (lease_remaining, grant_remaining) = (status.lease_remaining, status.grant_remaining);
        Listed { name: &status.name, token, lease_remaining, grant_remaining }
    }
}

impl<'a> Listed<'a> {
    fn of_granted(granted: &'a GrantedElection) -> Option<Listed<'a>> {
        let token = granted.leader.map(|leader| leader.token.number());
        let grant_remaining = granted.grant_remaining;
        Some(Listed { name: granted.name.as_deref()?, token, lease_remaining: None, grant_remaining })
    }
}

/// A page of metrics.
pub(super) struct Page(pub(super) String);

impl Page {
    /// A page that begins with the version of the program.
    pub(super) fn new() -> Page {
        let mut page = Page(String::new());
        page.gauge("suffrage_build_info", "The version of the program.");
        page.line(format_args!("suffrage_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
        page
    }

    /// The end of the HTTP certificate, in seconds since 1970, if there is a certificate.
    pub(super) fn certificate(&mut self, end: Option<u64>) {
        let Some(end) = end else { return };
        let name = "suffrage_http_certificate_expiration_timestamp_seconds";
        self.gauge(name, "The end of validity of the HTTP certificate, in seconds since 1970.");
        self.line(format_args!("{name} {end}"));
    }

    pub(super) fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("writing to a string cannot fail");
    }

    pub(super) fn gauge(&mut self, name: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} gauge"));
    }

    pub(super) fn counter(&mut self, name: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} counter"));
    }

    fn of(&mut self, election: &Listed<'_>, name: &str, value: impl std::fmt::Display) {
        self.line(format_args!("{name}{{election=\"{}\"}} {value}", escaped(election.name)));
    }

    fn cluster(&mut self, metrics: &NodeMetrics) {
        self.gauge("suffrage_voters", "Voters of the cluster.");
        self.line(format_args!("suffrage_voters {}", metrics.voters.len()));
        let name = "suffrage_configuration_version";
        self.gauge(name, "The version of the cluster's configuration, as this node knows it.");
        self.line(format_args!("{name} {}", metrics.version));
        let name = "suffrage_mismatched_nodes";
        self.gauge(
            name,
            "Nodes of another cluster, and ids that two processes have: this node ignores their messages.",
        );
        self.line(format_args!("{name} {}", metrics.mismatches.len()));
        let name = "suffrage_mismatched_messages_total";
        self.counter(name, "Messages that this node has ignored for such a reason.");
        self.line(format_args!("{name} {}", metrics.mismatched_messages));
        let name = "suffrage_voters_reachable";
        self.gauge(name, "Voters that have answered this node lately, including the node itself.");
        self.line(format_args!("{name} {}", reachable_voters(&metrics.voters)));
    }

    /// Skips elections that are only observed and have no leader, such as mistyped names: they would look like elections
    /// that have lost their leader. Elections that the node knows only as a voter come last, without those whose name it
    /// does not know.
    fn elections(&mut self, elections: &[Status], granted: &[GrantedElection]) {
        let real = |status: &&Status| status.candidate || status.leader.is_some();
        let elections: Vec<&Status> = elections.iter().filter(real).collect();
        let joined = elections.iter().map(|status| Listed::from(*status));
        let all: Vec<Listed<'_>> = joined.chain(granted.iter().filter_map(Listed::of_granted)).collect();
        let listed = &all[..all.len().min(MOST_LISTED)];
        if listed.len() < all.len() {
            self.line(format_args!("# of {} elections, the first {MOST_LISTED} are listed", all.len()));
        }
        self.gauge("suffrage_elections", "Elections that this node takes part in.");
        self.line(format_args!("suffrage_elections {}", elections.len()));
        let led = elections.iter().filter(|status| status.leads()).count();
        self.gauge("suffrage_elections_led", "Elections that this node leads.");
        self.line(format_args!("suffrage_elections_led {led}"));
        self.gauge("suffrage_is_leader", "Whether this node leads the election.");
        for election in listed {
            self.of(election, "suffrage_is_leader", u8::from(election.lease_remaining.is_some()));
        }
        self.gauge("suffrage_token", "The fencing token of the leader, as this node knows it.");
        for election in listed {
            if let Some(token) = election.token {
                self.of(election, "suffrage_token", token);
            }
        }
        let name = "suffrage_lease_remaining_seconds";
        self.gauge(name, "The time until the lease of this node ends unless it is renewed.");
        for election in listed {
            if let Some(remaining) = election.lease_remaining {
                self.of(election, name, remaining.as_secs_f64());
            }
        }
        let name = "suffrage_grant_remaining_seconds";
        self.gauge(
            name,
            "The time until the lease ends that this node, as a voter, has granted to any node.",
        );
        for election in listed {
            if let Some(remaining) = election.grant_remaining {
                self.of(election, name, remaining.as_secs_f64());
            }
        }
    }

    fn granted(&mut self, metrics: &NodeMetrics) {
        let name = "suffrage_granted_elections";
        self.gauge(name, "Elections whose lease this node, as a voter, has granted to any node.");
        self.line(format_args!("{name} {}", metrics.granted));
    }

    fn changes(&mut self, metrics: &NodeMetrics) {
        let counters = &metrics.counters;
        let name = "suffrage_leader_transitions_total";
        self.counter(name, "Leaders that this node has learned of, including the node itself.");
        let learned = counters.leaderships_started + counters.leaders_followed + counters.leaders_granted;
        self.line(format_args!("{name} {learned}"));
        let name = "suffrage_leaderships_lost_total";
        self.counter(name, "Leaderships of this node that ended, by release or by expiry.");
        self.line(format_args!("{name} {}", counters.leaderships_ended));
        let help = "Time from the loss of one leader until the next leader is known.";
        self.histogram("suffrage_failover_seconds", help, &counters.failover_seconds);
        let help = "Time that a majority took to grant a renewal.";
        self.histogram("suffrage_renew_seconds", help, &counters.renewal_seconds);
    }

    pub(super) fn traffic(&mut self, traffic: &Snapshot) {
        self.counter("suffrage_datagrams_total", "Datagrams sent, and datagrams received and accepted.");
        self.line(format_args!("suffrage_datagrams_total{{direction=\"sent\"}} {}", traffic.sent));
        self.line(format_args!("suffrage_datagrams_total{{direction=\"received\"}} {}", traffic.received));
        let name = "suffrage_datagram_bytes_total";
        self.counter(name, "Bytes of these datagrams, without the headers of UDP and IP.");
        self.line(format_args!("{name}{{direction=\"sent\"}} {}", traffic.sent_bytes));
        self.line(format_args!("{name}{{direction=\"received\"}} {}", traffic.received_bytes));
        self.counter("suffrage_datagrams_dropped_total", "Datagrams dropped, by reason.");
        for reason in Dropped::ALL {
            let (name, count) = (reason.name(), traffic.dropped(reason));
            self.line(format_args!("suffrage_datagrams_dropped_total{{reason=\"{name}\"}} {count}"));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, durations: &DurationHistogram) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} histogram"));
        for (bound, count) in durations.cumulative() {
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"));
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {}", durations.count()));
        self.line(format_args!("{name}_sum {}", durations.sum().as_secs_f64()));
        self.line(format_args!("{name}_count {}", durations.count()));
    }
}

/// The escaped value of a label.
pub(super) fn escaped(label: &str) -> String {
    label.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::super::exchange::Body;
    use super::*;
    use crate::daemon::http::health::STALE;
    use crate::daemon::http::health::tests::{Disk, app};
    use suffrage_node::clock::ManualClock;

    fn sample(elections: Vec<Status>) -> Sample {
        let mut metrics = NodeMetrics::default();
        (metrics.counters.leaderships_started, metrics.counters.leaders_followed) = (2, 2);
        metrics.counters.leaders_granted = 1;
        let (traffic, node) = (Snapshot::default(), NodeSample { metrics, elections, granted: Vec::new() });
        let node = Some(node);
        let save_pending = Duration::from_millis(1_500);
        Sample { storage_failing: false, save_pending, certificate_end: None, traffic, node }
    }

    fn page(elections: Vec<Status>) -> String {
        text(&sample(elections))
    }

    #[test]
    fn labels_are_escaped_and_long_lists_are_truncated_with_a_comment() {
        let few = page(vec![Status::new("a\"b\\c")]);
        assert!(few.contains(r#"suffrage_is_leader{election="a\"b\\c"} 0"#), "{few}");
        assert!(few.contains("suffrage_leader_transitions_total 5\n") && !few.contains("are listed"));
        assert!(!few.contains("certificate"));
        let many = page((0..1_001).map(|number| Status::new(format!("e{number:04}"))).collect());
        assert!(many.contains("# of 1001 elections, the first 1000 are listed"));
        assert!(many.contains("e0999") && !many.contains("e1000"));
        assert!(many.contains("suffrage_elections 1001\n"));
    }

    /// Alerts copied from the document work.
    #[test]
    fn the_document_for_operators_names_only_metrics_that_exist() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let document = std::fs::read_to_string(document).unwrap();
        let page = text(&Sample { certificate_end: Some(1), ..sample(vec![Status::new("x")]) });
        let words = document.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let names: Vec<&str> = words.filter(|word| word.starts_with("suffrage_")).collect();
        assert!(names.len() > 8, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("# TYPE {} ", name.trim_end_matches("_bucket"))), "{name}");
        }
    }

    #[test]
    fn a_suspended_node_has_the_metrics_that_need_no_answer() {
        let (storage_failing, certificate_end) = (true, Some(4_102_444_800));
        let (save_pending, traffic) = (Duration::from_millis(1_500), Snapshot::default());
        let sample = Sample { storage_failing, save_pending, certificate_end, traffic, node: None };
        let page = text(&sample);
        assert!(page.contains("suffrage_up 0\n") && page.contains("suffrage_storage_failing 1\n"), "{page}");
        assert!(page.contains("suffrage_save_pending_seconds 1.5\n"), "{page}");
        assert!(page.contains("certificate_expiration_timestamp_seconds 4102444800\n"), "{page}");
        assert!(page.contains("suffrage_datagrams_total") && !page.contains("suffrage_elections"), "{page}");
    }

    /// The node answers the first query and is stuck before the second.
    #[tokio::test]
    async fn a_node_that_gets_stuck_between_two_queries_has_the_metrics_that_need_no_answer() {
        let clock = ManualClock::new();
        let app = app(&clock, Disk::Good, 1).await;
        app.node.metrics().await.unwrap();
        let mut page = pin!(metrics(&app, Request::default()));
        assert!(poll_fn(|context| Poll::Ready(page.as_mut().poll(context))).await.is_pending());
        // The node answers in order: the question before this one has been answered as well.
        app.node.metrics().await.unwrap();
        // The runtime has one thread: no other task runs before the clock advances.
        clock.advance(STALE);
        let page = page.await.unwrap();
        assert_eq!(page.status(), 200);
        let Body::Whole(Some(page)) = page.into_body() else { panic!("a whole body") };
        let page = str::from_utf8(&page).unwrap();
        assert!(page.contains("suffrage_up 0\n") && page.contains("suffrage_datagrams_total"), "{page}");
    }
}
