//! `GET /voters` and `POST /voters`: the voters of the cluster, and changes of them.

use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};
use suffrage_core::NodeId;
use suffrage_node::lease::membership::{Change, ChangeProgress, VoterEntry};
use suffrage_node::lease::{
    ClockComparison, MembershipStatus, Node, NodeOverview, ReportedContact, VoterReport,
};
use suffrage_node::resolver::check_address;

use super::exchange::{Answer, Request, json};
use super::{App, Problem, in_time};

/// The change that the body of a request asks for. None to stop the change that this node coordinates.
fn parsed(request: &Request) -> Result<Option<Change>, Problem> {
    let refused = |error: String| Problem::new(StatusCode::BAD_REQUEST, error);
    let missing = |key: &str| refused(format!("{key}: is missing"));
    let (kind, mut members) = request.members()?.only("add, remove, adopt or stop")?;
    let (change, expected) = match kind.as_str() {
        "add" => {
            let id = members.id("id")?.ok_or_else(|| missing("id"))?;
            let address = members.text("address")?.ok_or_else(|| missing("address"))?;
            check_address(&address).map_err(|reason| refused(format!("address: {reason}")))?;
            (Some(Change::Add(NodeId(id), address)), "expected are id and address")
        }
        "remove" => {
            let id = members.id("id")?.ok_or_else(|| missing("id"))?;
            (Some(Change::Remove(NodeId(id))), "expected is id")
        }
        // The first versioned configuration of a cluster that still runs with its founding list. `without` names voters
        // that need not answer, and that do not vote from then on.
        "adopt" => {
            let without = members.ids("without")?.into_iter().map(NodeId).collect();
            (Some(Change::Adopt { without }), "expected is without")
        }
        "stop" => (None, "`stop` has no members"),
        other => {
            return Err(refused(format!(
                "{other}: is unknown; expected is one of add, remove, adopt and stop"
            )));
        }
    };
    members.end(expected)?;
    Ok(change)
}

/// `GET /voters`
pub(super) async fn voters(app: &App, _: Request) -> Answer {
    let membership = in_time(&app.node, app.node.membership()).await?;
    body(app, &membership).await
}

/// `POST /voters`
pub(super) async fn change(app: &App, request: Request) -> Answer {
    request.check_operator()?;
    let change = parsed(&request)?;
    match change {
        Some(change) => {
            in_time(&app.node, app.node.change_voters(change.clone())).await?;
            // The addresses of voters are those of the configuration.
            if let Change::Add(id, address) = change
                && app.node.configuration().borrow().voter(id).is_none()
            {
                app.peers.set(id, &address);
            }
        }
        None => app.node.stop_change(),
    }
    let membership = in_time(&app.node, app.node.membership()).await?;
    if let Some((_, ChangeProgress::Impossible(reason))) = &membership.change {
        return Err(Problem::new(StatusCode::CONFLICT, reason.to_string()).because("impossible"));
    }
    body(app, &membership).await
}

async fn body(app: &App, membership: &MembershipStatus) -> Answer {
    let overview = in_time(&app.node, app.node.survey()).await?;
    Ok(json(StatusCode::OK, &describe(&app.node, membership, &overview)))
}

fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// The voters that a voter hears, as it has reported to this node.
fn hears(report: &VoterReport) -> Vec<Value> {
    let contact = |contact: &ReportedContact| {
        json!({
            "id": contact.voter.0,
            "answers": contact.hears,
            "round_trip_ms": contact.round_trip.map(millis),
        })
    };
    report.contacts.iter().map(contact).collect()
}

/// The clocks of a voter beside those of this node. Both clocks may differ from true time by the drift bound.
fn clock(drift: f64, clock: &ClockComparison) -> Value {
    let beyond_drift = clock.rate.map(|rate| rate.difference.abs() - rate.error > 2.0 * drift);
    json!({
        "wall_offset_ms": clock.wall_offset * 1e3,
        "wall_error_ms": clock.wall_error * 1e3,
        "rate_ppm": clock.rate.map(|rate| rate.difference * 1e6),
        "rate_error_ppm": clock.rate.map(|rate| rate.error * 1e6),
        "beyond_drift": beyond_drift,
    })
}

/// The JSON object of the voters, as this node knows them.
pub(super) fn describe(node: &Node, membership: &MembershipStatus, overview: &NodeOverview) -> Value {
    let configuration = &membership.configuration;
    let voter = |voter: &VoterEntry| {
        let contact = overview.voters.iter().find(|contact| contact.voter == voter.id);
        let reply_age = contact.and_then(|contact| contact.reply_age).map(|age| age.as_millis() as u64);
        let round_trip = contact.and_then(|contact| contact.round_trip).map(millis);
        let report = overview.reports.iter().find(|report| report.voter == voter.id);
        let not_voting = contact.filter(|contact| contact.not_voting.is_some()).map(ToString::to_string);
        json!({
            "id": voter.id.0,
            "address": voter.address,
            "disk": voter.disk.map(|disk| disk.to_string()),
            "answers": contact.is_some_and(|contact| contact.answers()),
            "reply_age_ms": reply_age,
            "round_trip_ms": round_trip,
            "not_voting": not_voting,
            "hears": report.map(hears),
            "clock": report.map(|report| clock(node.settings().drift.fraction(), &report.clock)),
        })
    };
    let change = membership.change.as_ref().map(|(change, progress)| {
        let (change, text) = (change.to_string(), progress.to_string());
        json!({ "change": change, "state": progress.code(), "progress": text })
    });
    let mismatches: Vec<Value> = membership
        .mismatches
        .iter()
        .map(|(node, mismatch)| json!({ "node": node.0, "reason": mismatch.to_string() }))
        .collect();
    json!({
        "node": node.id().0,
        "cluster": configuration.cluster().to_string(),
        "version": configuration.version(),
        "certain": membership.certain,
        "voters": configuration.voters().iter().map(voter).collect::<Vec<_>>(),
        "drained_in_ms": membership.drained_in.map(|left| left.as_millis() as u64),
        "change": change,
        "mismatches": mismatches,
    })
}
