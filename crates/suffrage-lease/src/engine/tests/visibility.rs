//! What operators are told: elections that the voter granted to other nodes, and refusals.

use super::*;
use crate::engine::grants::GRANT_NOTE_MEMORY;

const HOLDER: NodeId = NodeId(8);
const TTL: Span = Span::from_millis(3_000);

/// The text of an election's name, and its holder with the token.
type Known = (Option<String>, Option<(NodeId, u64)>);

fn prepare(token: u64) -> Body {
    Body::Ask(Ask::Prepare { request: Request(token), token: Token::after(token - 1), attribute: 0 })
}

fn propose(token: u64, renewal: bool) -> Body {
    let (request, token) = (Request(token), Token::after(token - 1));
    Body::Ask(Ask::Propose {
        request,
        token,
        ttl: TTL,
        attribute: 0,
        renewal,
        value: crate::ValueVersion::NONE,
    })
}

fn text(name: &str) -> Body {
    Body::NameText(election(name))
}

impl Harness {
    /// The holder sends about the election `x`. Returns the replies.
    fn hold(
        &mut self,
        now: Time,
        from: NodeId,
        bodies: impl IntoIterator<Item = Body>,
    ) -> Vec<(NodeId, Body)> {
        self.sent();
        self.receive(now, from, bodies.into_iter().map(|body| about(Name::of("x"), body)));
        self.sent().into_iter().map(|(to, message)| (to, message.body)).collect()
    }

    /// The election `x` as the voter knows it: text, holder and token.
    fn granted(&self, now: Time) -> Option<Known> {
        let mut all = self.engine.granted(now);
        let found = all.next()?;
        assert!(all.next().is_none() && found.name == Name::of("x"));
        let grant = found.grant.map(|(grant, _)| (grant.holder, grant.token.number()));
        Some((found.text.map(|text| text.to_string()), grant))
    }

    fn changes(&mut self) -> Vec<(String, Option<u64>)> {
        let change = |report| match report {
            Report::ValueChanged(election) => panic!("{} has no value", &*election),
            Report::Granted(change) => {
                (change.election.to_string(), change.grant.map(|grant| grant.token.number()))
            }
            Report::Refused(refusal) => panic!("{refusal:?}"),
        };
        self.engine.take_reports().into_iter().map(change).collect()
    }
}

fn queries(replies: &[(NodeId, Body)]) -> usize {
    replies.iter().filter(|(to, body)| *to == HOLDER && *body == Body::NameQuery).count()
}

#[test]
fn a_voter_lists_what_it_has_granted_and_asks_the_holder_for_the_name() {
    let mut harness = Harness::new(3);
    assert_eq!(queries(&harness.hold(at(0), HOLDER, [prepare(1)])), 0, "nothing is granted yet");
    assert_eq!(harness.granted(at(0)), None);
    assert_eq!(queries(&harness.hold(at(1), HOLDER, [propose(1, false)])), 0, "the lease may be short");
    assert_eq!(harness.granted(at(1)), Some((None, Some((HOLDER, 1)))), "without its name");
    assert_eq!(harness.changes(), []);
    assert_eq!(queries(&harness.hold(at(900), HOLDER, [propose(1, true)])), 1);
    // The query or the text was lost.
    assert_eq!(queries(&harness.hold(at(1_000), HOLDER, [propose(1, true)])), 1);
    harness.hold(at(1_001), HOLDER, [text("y")]);
    assert_eq!(harness.granted(at(1_001)), Some((None, Some((HOLDER, 1)))), "that is another name");
    harness.hold(at(1_002), HOLDER, [text("x")]);
    let named = Some("x".to_string());
    assert_eq!(harness.granted(at(1_002)), Some((named.clone(), Some((HOLDER, 1)))));
    assert_eq!(harness.engine.granted(at(1_002)).next().unwrap().since, at(1));
    assert_eq!(harness.changes(), [("x".to_string(), Some(1))]);
    harness.hold(at(1_003), HOLDER, [text("x")]);
    assert_eq!(harness.changes(), [], "it is known");
    assert_eq!(queries(&harness.hold(at(2_000), HOLDER, [propose(1, true)])), 0, "it is known");
    assert_eq!(harness.changes(), [], "a renewal is no change");
    // The holder releases while another candidate waits: the name stays, without a holder.
    let waits = Body::Ask(Ask::Enquire { request: Request(5), standing: Some(0) });
    harness.hold(at(2_001), NodeId(9), [waits.clone()]);
    harness.hold(at(2_002), HOLDER, [Body::Ask(Ask::Release { token: Token::after(0), to: None })]);
    assert_eq!(harness.changes(), [("x".to_string(), None)]);
    harness.hold(at(2_003), NodeId(9), [waits]);
    assert_eq!(harness.granted(at(2_003)), Some((named, None)));
    let replies = harness.hold(at(2_004), NodeId(9), [prepare(2), propose(2, false)]);
    assert!(replies.iter().all(|(_, body)| *body != Body::NameQuery), "{replies:?}");
    assert_eq!(harness.changes(), [("x".to_string(), Some(2))]);
}

/// The first grant of a voter waits for its disk.
#[test]
fn a_voter_lists_what_it_has_granted_when_its_disk_had_the_state() {
    let mut harness = Harness::new(3);
    harness.record.slow_disk = true;
    harness.hold(at(0), HOLDER, [prepare(1)]);
    harness.end_saves(at(1));
    assert_eq!(queries(&harness.hold(at(2), HOLDER, [propose(1, false)])), 0, "nothing is granted yet");
    assert_eq!(harness.granted(at(2)), None);
    harness.end_saves(at(3));
    assert_eq!(harness.granted(at(3)), Some((None, Some((HOLDER, 1)))));
    assert_eq!(queries(&harness.hold(at(3), HOLDER, [propose(1, true)])), 1);
    harness.hold(at(4), HOLDER, [text("x")]);
    assert_eq!(harness.changes(), [("x".to_string(), Some(1))]);
}

/// A text is stored while the voter knows the election, and nobody can make it store another.
#[test]
fn a_voter_stores_the_names_of_granted_elections_only_and_forgets_them() {
    let mut harness = Harness::new(3);
    harness.hold(at(0), HOLDER, [text("x"), prepare(1), text("x")]);
    assert!(harness.engine.grants.notes.is_empty());
    harness.hold(at(0), HOLDER, [propose(1, false), text("x")]);
    assert_eq!(harness.engine.grants.notes.len(), 1);
    let mut reports = Vec::new();
    for millis in (0..10_000).step_by(10) {
        while harness.fire_timer(at(millis)) {
            reports.extend(harness.changes());
        }
    }
    assert_eq!(reports, [("x".to_string(), None)], "the grant has expired");
    assert!(harness.engine.grants.notes.is_empty() && harness.granted(at(10_000)).is_none());
    // A short text is part of the note. With the entries of the voter itself, less than twice as much.
    const { assert!(GRANT_NOTE_MEMORY < 115 && GRANT_NOTE_MEMORY + VOTER_MEMORY < 320) };
}

/// A node that has joined knows the name and the leader itself.
#[test]
fn an_election_is_listed_by_the_voter_or_by_the_participation_not_by_both() {
    let mut harness = Harness::new(3);
    harness.join(at(0), "x");
    let replies = harness.hold(at(0), HOLDER, [prepare(1), propose(1, false), propose(1, true)]);
    assert_eq!((queries(&replies), harness.granted(at(0)), harness.changes()), (0, None, vec![]));
    harness.command(at(1), "x", Action::Leave);
    assert_eq!(harness.granted(at(1)), Some((Some("x".to_string()), Some((HOLDER, 1)))), "without a query");
    harness.join(at(2), "x");
    assert_eq!(harness.granted(at(2)), None);
    assert!(harness.engine.grants.notes.is_empty());
}

#[test]
fn a_holder_tells_the_name_of_elections_that_it_has_joined() {
    let mut harness = Harness::new(3);
    harness.leads(at(0), "x");
    let query = |name| about(Name::of(name), Body::NameQuery);
    harness.receive(at(1), NodeId(2), [query("x"), query("y")]);
    assert_eq!(harness.bodies(), [text("x")]);
}

#[test]
fn refusals_of_a_campaign_are_reported() {
    let mut harness = Harness::new(3);
    harness.stand(at(0), "x");
    let request = harness.sent().into_iter().find_map(|(_, message)| match message.body {
        Body::Ask(Ask::Prepare { request, .. }) => Some(request),
        _ => None,
    });
    let reply = Reply::Rejected { request: request.unwrap(), promised: 7 };
    harness.receive(at(1), NodeId(2), [about(Name::of("x"), Body::Reply(reply))]);
    let refusal = Refusal { election: election("x"), voter: NodeId(2), reply };
    assert_eq!(harness.engine.take_reports(), [Report::Refused(refusal)]);
    // Whoever does not take the reports loses them with the next input.
    harness.receive(at(2), NodeId(2), [about(Name::of("x"), Body::Reply(reply))]);
    harness.input(at(3), |engine, cx| engine.on_timer(cx, Timer));
    assert_eq!(harness.engine.take_reports(), []);
}

/// Voters that grant shorter leases only: the candidate enquires, and campaigns when they grant longer ones.
#[test]
fn a_candidate_whose_lease_is_too_long_enquires_until_voters_grant_it() {
    let mut harness = Harness::of(HOLDER, EngineConfig::new([1, 2, 3].map(NodeId)), Start::Fresh);
    harness.stand(at(0), "x");
    let (mut campaigns, mut enquiries) = (Vec::new(), Vec::new());
    for millis in 0..40_000 {
        while harness.fire_timer(at(millis)) {}
        let short = Span::from_millis(2_000);
        // The operator raises the limits of voters 1 and 2.
        let limit = |voter: NodeId| if voter < NodeId(3) && millis >= 20_000 { TTL } else { short };
        for (to, Message { name, body, .. }) in harness.sent() {
            let Body::Ask(ask) = body else { continue };
            let reply = match ask {
                Ask::Prepare { request, .. } => {
                    campaigns.push(millis);
                    Reply::Promised { request }
                }
                Ask::Propose { request, ttl, .. } if ttl > limit(to) => {
                    Reply::TooLong { request, longest: limit(to) }
                }
                Ask::Propose { request, renewal, .. } => {
                    Reply::Accepted { request, renewal, contended: false }
                }
                Ask::Enquire { request, standing } => {
                    enquiries.push((millis, standing.is_some()));
                    if standing.is_some() && to == NodeId(1) {
                        let vacant = Body::Reply(Reply::Vacant { promised: 1 });
                        harness.receive(at(millis), to, [about(name, vacant)]);
                    }
                    Reply::Status { request, promised: 1, grant: None, longest: limit(to) }
                }
                _ => continue,
            };
            harness.receive(at(millis), to, [about(name, Body::Reply(reply))]);
        }
        let index = harness.index("x").unwrap();
        if millis == 10_000 {
            assert_eq!(harness.engine.election(index).unwrap().granted_at_most(), Some(short));
            // A wake-up and a command change nothing.
            let vacant = Body::Reply(Reply::Vacant { promised: 1 });
            harness.receive(at(millis), NodeId(1), [about(Name::of("x"), vacant)]);
            harness.command(at(millis), "x", Action::Campaign);
        }
        assert!(millis >= 20_000 || harness.engine.lease(at(millis), index).is_none());
    }
    assert!(harness.engine.lease(at(39_999), harness.index("x").unwrap()).is_some());
    let early = campaigns.iter().filter(|millis| **millis < 20_000).count();
    assert!(early <= 3, "one campaign, at three voters: {campaigns:?}");
    assert_eq!(campaigns.len(), early + 3, "one more when a majority grants its lease");
    let waiting = enquiries.iter().filter(|(millis, standing)| (1_000..20_000).contains(millis) && !standing);
    assert!((6..60).contains(&waiting.count()), "{enquiries:?}");
}
