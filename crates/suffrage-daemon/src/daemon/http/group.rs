//! The endpoints of a member of a large group.
//!
//! - `GET /status`, `GET /members`, `GET /observe` and `GET /metrics` say what this member believes. Another member can
//!   believe something else, and two can lead: docs/groups.md.
//! - `POST /rank` changes the rank, and `POST /resign` ends the leadership of this member.
//! - `/leader`, `/liveness` and `/readiness` are health checks, which need no token.
//!
//! An id has 63 bits. Ids are texts in JSON, because many programs read numbers with 53 bits only.

use hyper::{Method, StatusCode};
use serde_json::{Value, json};
use suffrage_core::NodeId;
use suffrage_node::group::{GroupLeader, GroupMember, GroupPeer, GroupStatus};
use tokio::sync::mpsc;
use tokio::time::timeout;

use super::exchange::{Answer, Request, json, stream};
use super::health::code;
use super::metrics::{Page, escaped, exposition};
use super::{CredentialsInUse, PATIENCE, Problem, Route, check, closed, handler, observe};
use crate::daemon::group::CONTRACT;

/// The members of a page, unless the client sets another limit, and at most.
const PAGE: usize = 1_000;
const LARGEST_PAGE: usize = 10_000;

/// Where the endpoints are listed.
pub(super) const LIST: &str = "a member of a group has /status, /members, /observe, /metrics, /rank, /resign, /leader, \
                               /liveness and /readiness";

/// The state of the handlers of a member.
pub(in crate::daemon) struct GroupApp {
    pub(in crate::daemon) name: String,
    pub(in crate::daemon) member: GroupMember,
    pub(in crate::daemon) credentials: CredentialsInUse,
}

/// All endpoints of a member.
pub(super) static ROUTES: &[Route<GroupApp>] = &[
    closed!("/status", GET status),
    closed!("/members", GET members),
    closed!("/observe", GET observe),
    closed!("/metrics", GET metrics),
    closed!("/rank", POST change_rank),
    closed!("/resign", POST resign),
    check!("/leader", leader),
    check!("/liveness", liveness),
    check!("/readiness", readiness),
];

/// The answer of the member, within [`PATIENCE`]. None if the member has left.
async fn in_time<T>(answer: impl Future<Output = Option<T>>) -> Result<T, Problem> {
    let unavailable = |error| Problem::new(StatusCode::SERVICE_UNAVAILABLE, error);
    match timeout(PATIENCE, answer).await {
        Ok(Some(answer)) => Ok(answer),
        Ok(None) => Err(unavailable("this member is stopping and has left the group: use another member")),
        Err(_) => Err(unavailable("this member is stuck and does not answer: restart it")),
    }
}

fn describe_leader(leader: Option<GroupLeader>) -> Value {
    leader.map_or(
        Value::Null,
        |GroupLeader { id, term, address }| json!({ "id": id.to_string(), "address": address, "term": term }),
    )
}

/// The member and the leader that it believes in.
fn describe(app: &GroupApp) -> Value {
    let leader = app.member.leader();
    json!({
        "group": app.name,
        "member": app.member.id().to_string(),
        "address": app.member.address(),
        "leads": leader.is_some_and(|leader| leader.id == app.member.id()),
        "leader": describe_leader(leader),
    })
}

/// `GET /status`
async fn status(app: &GroupApp, _: Request) -> Answer {
    let GroupStatus { members, suspected, dead, rank, stands, digest, counters, traffic } =
        in_time(app.member.status()).await?;
    let mut body = describe(app);
    body["members"] = json!(members);
    body["suspected"] = json!(suspected);
    body["dead"] = json!(dead);
    body["rank"] = json!(rank);
    body["stands"] = json!(stands);
    body["digest"] = json!(digest.map(|byte| format!("{byte:02x}")).concat());
    body["counters"] = json!(counters);
    body["datagrams"] = json!({
        "sent": traffic.sent, "sent_bytes": traffic.sent_bytes,
        "received": traffic.received, "received_bytes": traffic.received_bytes,
        "dropped": traffic.all_dropped(),
    });
    body["program"] = json!(env!("CARGO_PKG_VERSION"));
    body["contract"] = json!(CONTRACT);
    Ok(json(StatusCode::OK, &body))
}

/// `GET /members?from=ID&limit=N`: the members in order of id, from this id on.
async fn members(app: &GroupApp, request: Request) -> Answer {
    let wrong = |key: &str, text: &str, wanted: &str| {
        Problem::new(StatusCode::BAD_REQUEST, format!("{key}: `{text}` is not {wanted}"))
    };
    let from = match request.parameter("from")? {
        Some(text) => text.parse().map_err(|_| wrong("from", &text, "the id of a member"))?,
        None => 0,
    };
    let limit = match request.parameter("limit")? {
        Some(text) => {
            let limit = text.parse().ok().filter(|limit| (1..=LARGEST_PAGE).contains(limit));
            limit.ok_or_else(|| wrong("limit", &text, &format!("a number from 1 to {LARGEST_PAGE}")))?
        }
        None => PAGE,
    };
    let all = in_time(async { Some(app.member.members().await).filter(|all| !all.is_empty()) }).await?;
    Ok(json(StatusCode::OK, &page(&app.name, &all, from, limit)))
}

/// The members from this id on. `next` is the first id of the next page.
fn page(group: &str, all: &[GroupPeer], from: u64, limit: usize) -> Value {
    let rest = &all[all.partition_point(|peer| peer.id < NodeId(from))..];
    let (listed, after) = rest.split_at(limit.min(rest.len()));
    let describe = |peer: &GroupPeer| {
        let &GroupPeer { id, address, rank, stands, suspected } = peer;
        json!({
            "id": id.to_string(), "address": address, "rank": rank, "stands": stands, "suspected": suspected,
        })
    };
    json!({
        "group": group,
        "count": all.len(),
        "members": listed.iter().map(describe).collect::<Vec<_>>(),
        "next": after.first().map(|peer| peer.id.to_string()),
    })
}

/// `GET /observe`: the leader and its changes, as server-sent events.
async fn observe(app: &GroupApp, request: Request) -> Answer {
    observe::check_room(request.overflow)?;
    let (events, body) = mpsc::channel(1);
    let (group, me) = (app.name.clone(), app.member.id());
    let describe = move |leader: &Option<GroupLeader>| {
        let body = json!({
            "group": group,
            "member": me.to_string(),
            "leads": leader.is_some_and(|leader| leader.id == me),
            "leader": describe_leader(*leader),
        });
        format!("event: leader\ndata: {body}\n\n")
    };
    // A stream does not keep the member in the group.
    suffrage_node::spawn(observe::tell(app.member.watch(), events, describe));
    Ok(stream("text/event-stream", "no-cache", body))
}

/// `POST /rank` with `{"rank": 5}`
async fn change_rank(app: &GroupApp, request: Request) -> Answer {
    request.check_operator()?;
    let mut body = request.members()?;
    let rank = body.integer("rank")?;
    body.end("expected is `rank`")?;
    let Some(rank) = rank else {
        return Err(Problem::new(StatusCode::UNPROCESSABLE_ENTITY, "rank: is missing: set it to an integer"));
    };
    app.member.set_rank(rank).await;
    // The member handles requests in order: its next answer has the rank.
    let status = in_time(app.member.status()).await?;
    Ok(json(StatusCode::OK, &json!({ "group": app.name, "rank": status.rank })))
}

/// `POST /resign` with `{}`
async fn resign(app: &GroupApp, request: Request) -> Answer {
    request.check_operator()?;
    request.members()?.end("the body is {}")?;
    if !app.member.leads() {
        let error = "this member does not lead: send the request to the leader";
        return Err(Problem::new(StatusCode::CONFLICT, error).because("not_leader"));
    }
    app.member.resign().await;
    in_time(app.member.status()).await?;
    Ok(json(StatusCode::OK, &describe(app)))
}

/// `/leader`: 200 if this member believes that it leads, 503 otherwise.
async fn leader(app: &GroupApp, _: Request) -> Answer {
    let (leader, leads) = (app.member.leader(), app.member.leads());
    let body = json!({
        "leads": leads,
        "leader": leader.map(|leader| leader.id.to_string()),
        "term": leader.map(|leader| leader.term),
    });
    Ok(json(code(leads), &body))
}

/// `/liveness`: 503 if the member is stuck and must be restarted.
async fn liveness(app: &GroupApp, _: Request) -> Answer {
    let alive = in_time(app.member.status()).await.is_ok();
    Ok(json(code(alive), &json!({ "alive": alive })))
}

/// `/readiness`: 200 if the member answers and believes in a leader.
async fn readiness(app: &GroupApp, _: Request) -> Answer {
    in_time(app.member.status()).await?;
    let ready = app.member.leader().is_some();
    Ok(json(code(ready), &json!({ "ready": ready })))
}

/// `GET /metrics`
async fn metrics(app: &GroupApp, _: Request) -> Answer {
    let mut page = Page::new();
    page.certificate(app.credentials.borrow().certificate.as_ref().map(|it| it.end()));
    // A member that does not answer still has metrics.
    let status = in_time(app.member.status()).await.ok();
    page.group(&app.name, app.member.leader(), app.member.leads(), status.as_ref());
    Ok(exposition(page.0))
}

impl Page {
    fn group(&mut self, group: &str, leader: Option<GroupLeader>, leads: bool, status: Option<&GroupStatus>) {
        let label = format!("{{group=\"{}\"}}", escaped(group));
        self.gauge("suffrage_up", "Whether this member answers; if it does not, most metrics are missing.");
        self.line(format_args!("suffrage_up {}", u8::from(status.is_some())));
        let mut gauges = vec![
            ("is_leader", "Whether this member believes that it leads. Two members can.", u64::from(leads)),
            ("has_leader", "Whether this member believes in a leader.", u64::from(leader.is_some())),
            ("term", "The term of the leader, or 0.", leader.map_or(0, |leader| leader.term)),
        ];
        let mut counters = Vec::new();
        if let Some(status) = status {
            let events = &status.counters;
            gauges.extend([
                (
                    "members",
                    "Members that this member believes alive, itself included.",
                    status.members as u64,
                ),
                ("suspected_members", "Members that are suspected.", status.suspected as u64),
                ("dead_members", "Members that are remembered as dead.", status.dead as u64),
            ]);
            counters.extend([
                ("leader_changes", "Changes of the leader: a high rate is flapping.", events.leader_changes),
                (
                    "suspicions",
                    "Members that this member suspected, by itself or by news.",
                    events.suspicions,
                ),
                (
                    "deaths_declared",
                    "Members that this member declared dead by itself.",
                    events.deaths_declared,
                ),
                ("revivals", "Members that came back from the dead.", events.revivals),
                ("refutations", "Refutations of suspicions and deaths of this member.", events.refutations),
                ("conflicts", "Records of another member with the id of this one.", events.conflicts),
                ("comparisons", "Comparisons of lists that this member began.", events.compares),
                ("list_changes", "Changes of the list of members.", events.changes),
                ("stalls", "Times at which this member found that it had been suspended.", events.stalls),
            ]);
        }
        for (name, help, value) in gauges {
            let name = format!("suffrage_group_{name}");
            self.gauge(&name, help);
            self.line(format_args!("{name}{label} {value}"));
        }
        for (name, help, value) in counters {
            let name = format!("suffrage_group_{name}_total");
            self.counter(&name, help);
            self.line(format_args!("{name}{label} {value}"));
        }
        if let Some(status) = status {
            self.traffic(&status.traffic);
        }
    }
}

#[cfg(test)]
mod tests {
    use suffrage_net::Snapshot;
    use suffrage_node::group::GroupCounters;

    use super::*;

    #[test]
    fn a_long_list_is_read_in_pages() {
        let address = "127.0.0.1:7500".parse().unwrap();
        let peer = |id| GroupPeer { id: NodeId(id), address, rank: 0, stands: true, suspected: false };
        let all: Vec<GroupPeer> = (1..=2_500).map(|number| peer(number * 7)).collect();
        let (mut from, mut seen) = (0, Vec::new());
        loop {
            let page = page("telemetry", &all, from, PAGE);
            assert_eq!(page["count"], 2_500);
            let listed = page["members"].as_array().unwrap();
            assert!(listed.len() <= PAGE);
            seen.extend(listed.iter().map(|member| member["id"].as_str().unwrap().parse::<u64>().unwrap()));
            match page["next"].as_str() {
                Some(next) => from = next.parse().unwrap(),
                None => break,
            }
        }
        assert_eq!(seen, all.iter().map(|peer| peer.id.0).collect::<Vec<_>>());
        let beyond = page("telemetry", &all, u64::MAX, PAGE);
        assert_eq!((beyond["members"].as_array().unwrap().len(), &beyond["next"]), (0, &Value::Null));
    }

    /// Alerts copied from the document work.
    #[test]
    fn the_document_names_only_metrics_that_exist() {
        let document = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/groups.md");
        let document = std::fs::read_to_string(document).unwrap();
        let status = GroupStatus {
            members: 3,
            suspected: 0,
            dead: 0,
            rank: 0,
            stands: true,
            digest: [0; 4],
            counters: GroupCounters::default(),
            traffic: Snapshot::default(),
        };
        let mut page = Page::new();
        page.group("a\"b", None, false, Some(&status));
        assert!(page.0.contains("suffrage_group_members{group=\"a\\\"b\"} 3\n"), "{}", page.0);
        let words = document.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
        let names: Vec<&str> =
            words.filter(|word| word.starts_with("suffrage_") && word.len() > 16).collect();
        assert!(names.len() > 5, "{names:?}");
        for name in names {
            assert!(page.0.contains(&format!("# TYPE {name} ")), "{name}");
        }
    }
}
