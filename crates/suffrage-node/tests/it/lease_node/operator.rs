//! Reports to the operator: leaders, requests to hand over, and writes that take long.

use suffrage_node::lease::NodeEvent;
use tokio::sync::mpsc::UnboundedReceiver;

use super::*;

/// The events since the last call.
fn events(events: &mut UnboundedReceiver<NodeEvent>) -> Vec<NodeEvent> {
    std::iter::from_fn(|| events.try_recv().ok()).collect()
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

async fn age_of_granted(node: &Node) -> Duration {
    let granted = node.granted().await.unwrap();
    assert_eq!(granted.len(), 1, "{granted:?}");
    granted[0].leader_age
}

/// Observes `x`, and returns the age of its leader.
async fn observe(node: &Node, leader: Leader) -> (Participation, Duration) {
    let observed = node.observe("x").await.unwrap();
    observed.belief().wait_for(|belief| belief.leader == Some(leader)).await.unwrap();
    let age = node.status("x").await.unwrap().unwrap().leader_age;
    (observed, age)
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_a_voter_has_granted_is_told_once_and_keeps_its_age() {
    let (network, clock) = (Network::new(11), TokioClock::new());
    let voters = start(&network, clock);
    let mut told = voters[0].events();
    let candidate = Node::start(network.join(NodeId(4)), clock, MemoryDisk::default(), settings()).unwrap();
    let part = candidate.join("x", config()).await.unwrap();
    let leader = Leader { node: NodeId(4), token: leads(&part).await.token() };
    after(TTL * 5).await;
    let granted = |events: &[NodeEvent]| match events {
        [NodeEvent::GrantChanged { election, leader: Some(known) }] => &**election == "x" && *known == leader,
        _ => false,
    };
    let so_far = events(&mut told);
    assert!(granted(&so_far), "{so_far:?}");
    assert!(age_of_granted(&voters[0]).await >= duration(TTL * 5));
    // The node joins and leaves twice, as for two queries.
    for round in [5, 6] {
        let (observed, age) = observe(&voters[0], leader).await;
        assert!(age >= duration(TTL * round), "{age:?}");
        drop(observed);
        after(TTL).await;
        assert!(age_of_granted(&voters[0]).await >= duration(TTL * (round + 1)));
    }
    assert_eq!(events(&mut told), []);
    let history = voters[0].history(Some("x")).await.unwrap();
    assert!(history.len() == 1 && history[0].leader == Some(leader), "{history:?}");
    assert!(history[0].age >= duration(TTL * 7), "{history:?}");
    let counters = voters[0].metrics().await.unwrap().counters;
    assert_eq!((counters.leaders_granted, counters.leaders_followed), (1, 0));
    // The lease ends while the node takes no part.
    drop(part);
    after(TTL * 2).await;
    let end = events(&mut told);
    assert!(matches!(&end[..], [NodeEvent::GrantChanged { leader: None, .. }]), "{end:?}");
}

/// The node joins before its voter has learned the name of the election from the holder.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_election_had_no_name_is_told_when_the_node_joins() {
    let (network, clock) = (Network::new(12), TokioClock::new());
    let voters = start(&network, clock);
    let mut told = voters[0].events();
    let candidate = Node::start(network.join(NodeId(4)), clock, MemoryDisk::default(), settings()).unwrap();
    let part = candidate.join("x", config()).await.unwrap();
    let leader = Leader { node: NodeId(4), token: leads(&part).await.token() };
    // Before the first renewal.
    let early = Span::from_millis(200);
    after(early).await;
    let unnamed = voters[0].granted().await.unwrap();
    assert!(unnamed.len() == 1 && unnamed[0].name.is_none(), "{unnamed:?}");
    let (observed, age) = observe(&voters[0], leader).await;
    assert!(age >= duration(early), "{age:?}");
    drop(observed);
    after(TTL * 2).await;
    let so_far = events(&mut told);
    let once = match &so_far[..] {
        [NodeEvent::LeaderChanged { leader: known, .. }] => *known == Some(leader),
        _ => false,
    };
    assert!(once, "{so_far:?}");
    assert!(age_of_granted(&voters[0]).await >= duration(early + TTL * 2));
}

#[tokio::test(start_paused = true)]
async fn a_request_to_hand_over_is_told_once_by_both_nodes() {
    let (network, clock) = (Network::new(13), TokioClock::new());
    let voters = start(&network, clock);
    let mut asking = voters[1].events();
    let candidate = Node::start(network.join(NodeId(4)), clock, MemoryDisk::default(), settings()).unwrap();
    let mut asked = candidate.events();
    let slow = CandidateConfig { stop_margin: Span::from_millis(400), ..config() };
    let part = candidate.join("x", slow).await.unwrap();
    let held = leads(&part).await;
    let leader = Leader { node: NodeId(4), token: held.token() };
    after(TTL).await;
    events(&mut asking);
    events(&mut asked);
    assert!(voters[1].move_leader("x", Some(NodeId(9)), None).await.is_err(), "nobody waits there");
    after(Span::from_millis(50)).await;
    assert_eq!((events(&mut asking), events(&mut asked), held.asked_by()), (vec![], vec![], None));
    // Requests are repeated.
    for _ in 0..3 {
        assert_eq!(voters[1].move_leader("x", None, Some(leader.token)).await.unwrap(), Some(leader));
        after(Span::from_millis(50)).await;
    }
    let election = suffrage_lease::ElectionName::new("x").unwrap();
    let requested = NodeEvent::HandOverRequested { election: election.clone(), leader, to: None };
    assert_eq!(events(&mut asking), [requested]);
    assert_eq!(events(&mut asked), [NodeEvent::AskedToHandOver { election, by: NodeId(2), to: None }]);
    assert_eq!((held.asked_by(), held.hands_over()), (Some(NodeId(2)), true));
}

/// The voters that each voter does not hear, as node 1 shows it: its own contacts, and the reports of the others.
async fn deaf(node: &Node) -> Vec<(u64, Vec<u64>)> {
    let overview = node.survey().await.unwrap();
    let own = overview.voters.iter().filter(|contact| !contact.answers()).map(|contact| contact.voter.0);
    let others = overview.reports.iter().map(|report| {
        let unheard = report.contacts.iter().filter(|contact| contact.hears != Some(true));
        (report.voter.0, unheard.map(|contact| contact.voter.0).collect())
    });
    std::iter::once((node.id().0, own.collect())).chain(others).collect()
}

/// Surveys every second, until the node shows this.
async fn shows(node: &Node, wanted: &[(u64, Vec<u64>)]) {
    let shown = async {
        while deaf(node).await != wanted {
            after(TTL).await;
        }
    };
    if tokio::time::timeout(Duration::from_secs(120), shown).await.is_err() {
        panic!("{:?} and not {wanted:?}", deaf(node).await);
    }
}

#[tokio::test(start_paused = true)]
async fn one_node_shows_who_hears_whom() {
    let (network, clock) = (Network::new(14), TokioClock::new());
    let nodes = start(&network, clock);
    let mut observed = Vec::new();
    for node in &nodes {
        observed.push(node.observe("probe").await.unwrap());
    }
    shows(&nodes[0], &[(1, vec![]), (2, vec![]), (3, vec![])]).await;
    // Node 1 hears both others, and cannot know of this cut by itself.
    network.cut(NodeId(3), NodeId(2));
    shows(&nodes[0], &[(1, vec![]), (2, vec![3]), (3, vec![2])]).await;
    network.heal();
    shows(&nodes[0], &[(1, vec![]), (2, vec![]), (3, vec![])]).await;
    // Rates are compared over ten seconds at least.
    after(TTL * 15).await;
    shows(&nodes[0], &[(1, vec![]), (2, vec![]), (3, vec![])]).await;
    let overview = nodes[0].survey().await.unwrap();
    let reported = &overview.reports[0];
    let trip = reported.contacts[0].round_trip.unwrap();
    assert!(trip >= Duration::from_millis(2) && trip <= Duration::from_millis(7), "{trip:?}");
    // All nodes have the same clock.
    let rate = reported.clock.rate.unwrap();
    assert!(rate.difference.abs() <= rate.error && rate.error < 0.001, "{rate:?}");
    // A voter that does not answer has no report.
    nodes[2].abort();
    shows(&nodes[0], &[(1, vec![3]), (2, vec![3])]).await;
}

/// Nobody asks for reports unless somebody shows them, and an answer is sent to those that ask only.
#[tokio::test(start_paused = true)]
async fn without_a_survey_no_voter_reports() {
    let (network, clock) = (Network::new(15), TokioClock::new());
    let nodes = start(&network, clock);
    let _observed = nodes[0].observe("probe").await.unwrap();
    after(TTL * 10).await;
    assert_eq!(nodes[0].overview().await.unwrap().reports, []);
    assert_eq!(nodes[1].overview().await.unwrap().reports, []);
    nodes[0].survey().await.unwrap();
    after(TTL).await;
    assert_eq!(nodes[0].overview().await.unwrap().reports.len(), 2);
    assert_eq!(nodes[1].overview().await.unwrap().reports, []);
    after(TTL * 10).await;
    assert_eq!(nodes[0].overview().await.unwrap().reports, [], "they are too old");
}
