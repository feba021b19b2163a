//! `GET /metrics`: what Prometheus collects, in its text format (version 0.0.4).

use std::fmt::Write as _;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use election::{Span, Time};

use super::{App, Problem, elections, in_time};
use crate::lease::{Durations, Figures, Status};
use crate::transport::Transport as _;
use crate::{Dropped, Snapshot};

/// How many elections are listed one by one: each costs whoever collects.
const MOST_LISTED: usize = 1_000;

pub(super) async fn metrics(State(app): State<App>) -> Result<Response, Problem> {
    let figures = in_time(&app.node, app.node.figures()).await?;
    let elections = elections(&app.node).await?;
    let traffic = app.transport.counters().snapshot();
    let text = text(app.node.clock().now(), &figures, &elections, &traffic);
    Ok(([(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response())
}

fn text(now: Time, figures: &Figures, elections: &[Status], traffic: &Snapshot) -> String {
    let mut page = Page(String::new());
    let listed = &elections[..elections.len().min(MOST_LISTED)];
    if listed.len() < elections.len() {
        page.line(format_args!("# of {} elections, the first {MOST_LISTED} are listed", elections.len()));
    }
    page.gauge("suffrage_elections", "Elections that this node takes part in.");
    page.line(format_args!("suffrage_elections {}", elections.len()));
    page.gauge("suffrage_is_leader", "Whether this node leads the election.");
    for status in listed {
        page.of(status, "suffrage_is_leader", u8::from(status.lease.is_some()));
    }
    page.gauge("suffrage_token", "The fencing token of the leader, as far as this node knows.");
    for status in listed {
        if let Some((_, token)) = status.leader {
            page.of(status, "suffrage_token", token.number());
        }
    }
    page.gauge(
        "suffrage_lease_remaining_seconds",
        "For how much longer this node leads if it does not renew.",
    );
    for status in listed {
        if let Some(lease) = status.lease {
            page.of(status, "suffrage_lease_remaining_seconds", seconds(lease.valid_until.since(now)));
        }
    }
    let transitions = figures.tally.led + figures.tally.followed;
    page.counter(
        "suffrage_leader_transitions_total",
        "Leaders that this node has learned of, itself included.",
    );
    page.line(format_args!("suffrage_leader_transitions_total {transitions}"));
    let help = "From losing sight of a leader to knowing the next.";
    page.histogram("suffrage_failover_seconds", help, &figures.tally.failovers);
    let help = "How long a majority took to grant a renewal.";
    page.histogram("suffrage_renew_seconds", help, &figures.tally.renewals);
    page.counter("suffrage_datagrams_total", "Datagrams sent, and received and found good.");
    page.line(format_args!("suffrage_datagrams_total{{direction=\"sent\"}} {}", traffic.sent));
    page.line(format_args!("suffrage_datagrams_total{{direction=\"received\"}} {}", traffic.received));
    page.counter("suffrage_datagrams_dropped_total", "Datagrams that were dropped.");
    for reason in Dropped::ALL {
        let (name, count) = (reason.name(), traffic.dropped(reason));
        page.line(format_args!("suffrage_datagrams_dropped_total{{reason=\"{name}\"}} {count}"));
    }
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
    use super::*;
    use crate::lease::{Tally, Why};

    fn figures() -> Figures {
        Figures {
            tally: Tally { led: 2, followed: 3, ..Tally::default() },
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
            why: Why::Observes,
        }
    }

    #[test]
    fn labels_are_escaped_and_long_lists_are_cut_with_a_word_about_it() {
        let few = text(Time::ZERO, &figures(), &[status("a\"b\\c")], &Snapshot::default());
        assert!(few.contains(r#"suffrage_is_leader{election="a\"b\\c"} 0"#), "{few}");
        assert!(few.contains("suffrage_leader_transitions_total 5\n") && !few.contains("are listed"));
        let many: Vec<Status> = (0..1_001).map(|number| status(&format!("e{number:04}"))).collect();
        let many = text(Time::ZERO, &figures(), &many, &Snapshot::default());
        assert!(many.contains("# of 1001 elections, the first 1000 are listed"));
        assert!(many.contains("e0999") && !many.contains("e1000"));
        assert!(many.contains("suffrage_elections 1001\n"));
    }
}
