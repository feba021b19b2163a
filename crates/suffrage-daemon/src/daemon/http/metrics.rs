//! `GET /metrics`: what Prometheus collects, in its text format (version 0.0.4).

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use suffrage_core::{Span, Time};

use super::health::SILENCE;
use super::{App, Problem, elections, in_time};
use suffrage_net::transport::Transport as _;
use suffrage_net::{Dropped, Snapshot};
use suffrage_node::lease::{Durations, Node, NodeMetrics, Status};

/// How many elections are listed one by one: each costs whoever collects.
const MOST_LISTED: usize = 1_000;

/// What is told of a node.
struct Seen {
    /// Whether it cannot save its state.
    failing: bool,
    /// When its certificate ends, in seconds since 1970.
    certificate_end: Option<u64>,
    traffic: Snapshot,
    /// None of a node that stands still.
    figures: Option<(NodeMetrics, Vec<Status>)>,
}

/// What a node answers about itself.
async fn figures(node: &Node) -> Result<(NodeMetrics, Vec<Status>), Problem> {
    Ok((in_time(node, node.metrics()).await?, elections(node).await?))
}

pub(super) async fn metrics(State(app): State<App>) -> Response {
    // One that stands still is the one to hear of: it tells what it can.
    let figures = figures(&app.node).await.ok();
    let seen = Seen {
        failing: app.node.state().borrow().storage_failure().is_some(),
        certificate_end: app.credentials.borrow().certificate.as_ref().map(|it| it.end()),
        traffic: app.transport.counters().snapshot(),
        figures,
    };
    let text = text(app.node.clock().now(), &seen);
    ([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response()
}

fn text(now: Time, seen: &Seen) -> String {
    let mut page = Page(String::new());
    page.gauge("suffrage_build_info", "Which version this is.");
    page.line(format_args!("suffrage_build_info{{version=\"{}\"}} 1", env!("CARGO_PKG_VERSION")));
    page.gauge("suffrage_up", "Whether this node comes round to things; if not, only this much is told.");
    page.line(format_args!("suffrage_up {}", u8::from(seen.figures.is_some())));
    page.gauge(
        "suffrage_storage_failing",
        "Whether this node stands still because it cannot save its state.",
    );
    page.line(format_args!("suffrage_storage_failing {}", u8::from(seen.failing)));
    if let Some(end) = seen.certificate_end {
        let name = "suffrage_http_certificate_expiration_timestamp_seconds";
        page.gauge(name, "When the certificate of HTTP runs out, in seconds since 1970.");
        page.line(format_args!("{name} {end}"));
    }
    if let Some((figures, elections)) = &seen.figures {
        page.cluster(figures);
        page.elections(now, elections);
        page.changes(figures);
    }
    page.traffic(&seen.traffic);
    page.0
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

struct Page(String);

impl Page {
    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        writeln!(self.0, "{line}").expect("a string takes everything");
    }

    fn gauge(&mut self, name: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} gauge"));
    }

    fn counter(&mut self, name: &str, help: &str) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} counter"));
    }

    fn of(&mut self, status: &Status, name: &str, value: impl std::fmt::Display) {
        self.line(format_args!("{name}{{election=\"{}\"}} {value}", escaped(&status.name)));
    }

    fn cluster(&mut self, figures: &NodeMetrics) {
        let heard = figures.heard.iter().filter(|(_, ago)| ago.is_some_and(|ago| ago < SILENCE)).count();
        self.gauge("suffrage_voters", "Voters of the cluster.");
        self.line(format_args!("suffrage_voters {}", figures.heard.len()));
        self.gauge("suffrage_voters_heard", "Voters that this node has heard lately, itself included.");
        self.line(format_args!("suffrage_voters_heard {heard}"));
    }

    /// Of what is only asked about and led by nobody, be it by a slip of the pen, nothing is told: it would look like
    /// an election that has lost its leader.
    fn elections(&mut self, now: Time, elections: &[Status]) {
        let real = |status: &&Status| status.stands || status.leader.is_some();
        let elections: Vec<&Status> = elections.iter().filter(real).collect();
        let listed = &elections[..elections.len().min(MOST_LISTED)];
        if listed.len() < elections.len() {
            self.line(format_args!("# of {} elections, the first {MOST_LISTED} are listed", elections.len()));
        }
        self.gauge("suffrage_elections", "Elections that this node takes part in.");
        self.line(format_args!("suffrage_elections {}", elections.len()));
        let led = elections.iter().filter(|status| status.lease.is_some()).count();
        self.gauge("suffrage_elections_led", "Elections that this node leads.");
        self.line(format_args!("suffrage_elections_led {led}"));
        self.gauge("suffrage_is_leader", "Whether this node leads the election.");
        for status in listed {
            self.of(status, "suffrage_is_leader", u8::from(status.lease.is_some()));
        }
        self.gauge("suffrage_token", "The fencing token of the leader, as far as this node knows.");
        for status in listed {
            if let Some((_, token)) = status.leader {
                self.of(status, "suffrage_token", token.number());
            }
        }
        let name = "suffrage_lease_remaining_seconds";
        self.gauge(name, "For how much longer this node leads if it does not renew.");
        for status in listed {
            if let Some(lease) = status.lease {
                self.of(status, name, seconds(lease.valid_until.since(now)));
            }
        }
    }

    fn changes(&mut self, figures: &NodeMetrics) {
        let counters = &figures.counters;
        let name = "suffrage_leader_transitions_total";
        self.counter(name, "Leaders that this node has learned of, itself included.");
        self.line(format_args!("{name} {}", counters.led + counters.followed));
        let name = "suffrage_leaderships_lost_total";
        self.counter(name, "How often this node ceased to lead, by its own will or not.");
        self.line(format_args!("{name} {}", counters.lost));
        let help = "From losing sight of a leader to knowing the next.";
        self.histogram("suffrage_failover_seconds", help, &counters.failovers);
        let help = "How long a majority took to grant a renewal.";
        self.histogram("suffrage_renew_seconds", help, &counters.renewals);
    }

    fn traffic(&mut self, traffic: &Snapshot) {
        self.counter("suffrage_datagrams_total", "Datagrams sent, and received and found good.");
        self.line(format_args!("suffrage_datagrams_total{{direction=\"sent\"}} {}", traffic.sent));
        self.line(format_args!("suffrage_datagrams_total{{direction=\"received\"}} {}", traffic.received));
        self.counter("suffrage_datagrams_dropped_total", "Datagrams that were dropped.");
        for reason in Dropped::ALL {
            let (name, count) = (reason.name(), traffic.dropped(reason));
            self.line(format_args!("suffrage_datagrams_dropped_total{{reason=\"{name}\"}} {count}"));
        }
    }

    fn histogram(&mut self, name: &str, help: &str, durations: &Durations) {
        self.line(format_args!("# HELP {name} {help}\n# TYPE {name} histogram"));
        for (bound, count) in durations.within() {
            self.line(format_args!("{name}_bucket{{le=\"{bound}\"}} {count}"));
        }
        self.line(format_args!("{name}_bucket{{le=\"+Inf\"}} {}", durations.count()));
        self.line(format_args!("{name}_sum {}", seconds(durations.sum())));
        self.line(format_args!("{name}_count {}", durations.count()));
    }
}

/// As the format wants the value of a label.
fn escaped(label: &str) -> String {
    label.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::pin::pin;
    use std::task::Poll;

    use super::*;
    use crate::daemon::http::health::STALE;
    use crate::daemon::http::health::tests::{Disk, app};
    use suffrage_node::clock::ManualClock;
    use suffrage_node::lease::{ElectionCounters, Why};

    fn figures() -> NodeMetrics {
        NodeMetrics {
            counters: ElectionCounters { led: 2, followed: 3, ..ElectionCounters::default() },
            elections: 0,
            heard: Vec::new(),
            voter: None,
            round_trip: Span::ZERO,
            messages_sent: 0,
        }
    }

    fn status(name: &str) -> Status {
        Status {
            name: name.to_string(),
            leader: None,
            since: Time::ZERO,
            lease: None,
            attribute: 0,
            stands: true,
            queue: Vec::new(),
            why: Why::Waits,
        }
    }

    fn page(elections: Vec<Status>) -> String {
        let figures = Some((figures(), elections));
        let seen = Seen { failing: false, certificate_end: None, traffic: Snapshot::default(), figures };
        text(Time::ZERO, &seen)
    }

    #[test]
    fn labels_are_escaped_and_long_lists_are_cut_with_a_word_about_it() {
        let few = page(vec![status("a\"b\\c")]);
        assert!(few.contains(r#"suffrage_is_leader{election="a\"b\\c"} 0"#), "{few}");
        assert!(few.contains("suffrage_leader_transitions_total 5\n") && !few.contains("are listed"));
        assert!(!few.contains("certificate"));
        let many = page((0..1_001).map(|number| status(&format!("e{number:04}"))).collect());
        assert!(many.contains("# of 1001 elections, the first 1000 are listed"));
        assert!(many.contains("e0999") && !many.contains("e1000"));
        assert!(many.contains("suffrage_elections 1001\n"));
    }

    /// Whoever sets an alert by the document gets one.
    #[test]
    fn the_document_for_operators_names_only_figures_that_there_are() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/operations.md");
        let document = std::fs::read_to_string(document).unwrap();
        let seen = Seen {
            failing: false,
            certificate_end: Some(1),
            traffic: Snapshot::default(),
            figures: Some((figures(), vec![status("x")])),
        };
        let page = text(Time::ZERO, &seen);
        let words = document.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let names: Vec<&str> = words.filter(|word| word.starts_with("suffrage_")).collect();
        assert!(names.len() > 8, "{names:?}");
        for name in names {
            assert!(page.contains(&format!("# TYPE {} ", name.trim_end_matches("_bucket"))), "{name}");
        }
    }

    #[test]
    fn a_node_that_stands_still_tells_what_it_can() {
        let (failing, certificate_end) = (true, Some(4_102_444_800));
        let seen = Seen { failing, certificate_end, traffic: Snapshot::default(), figures: None };
        let told = text(Time::ZERO, &seen);
        assert!(told.contains("suffrage_up 0\n") && told.contains("suffrage_storage_failing 1\n"), "{told}");
        assert!(told.contains("certificate_expiration_timestamp_seconds 4102444800\n"), "{told}");
        assert!(told.contains("suffrage_datagrams_total") && !told.contains("suffrage_elections"), "{told}");
    }

    /// It answers once, and stands still before it is asked for more.
    #[tokio::test]
    async fn a_node_that_begins_to_stand_still_meanwhile_tells_what_it_can() {
        let clock = ManualClock::new();
        let app = app(&clock, Disk::Good, 1).await;
        app.node.metrics().await.unwrap();
        let mut told = pin!(metrics(State(app.clone())));
        assert!(poll_fn(|context| Poll::Ready(told.as_mut().poll(context))).await.is_pending());
        // The node answers in order: the question before this one has been answered as well.
        app.node.metrics().await.unwrap();
        // Nothing else comes round between this and that: there is one thread.
        clock.advance(STALE);
        let told = told.await;
        assert_eq!(told.status(), 200);
        let told = axum::body::to_bytes(told.into_body(), 100_000).await.unwrap();
        let told = str::from_utf8(&told).unwrap();
        assert!(told.contains("suffrage_up 0\n") && told.contains("suffrage_datagrams_total"), "{told}");
    }
}
