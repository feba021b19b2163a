//! Members of a world: the elections that they join, their options, and the numbers of elections.

use super::*;
use suffrage_core::testing::{TestProcess, elected};
use suffrage_core::{Announcement, Command as Common, Effect, Recorder};
use suffrage_lease::{Ask, Body, Boot, Header, Message, Name, Reply, Request};

fn subject(me: u64, count: usize) -> TestProcess<QuorumLease> {
    TestProcess::new(me, count, &Options::default())
}

/// A node's messages to itself are not sent, and take no time.
#[test]
fn the_only_voter_elects_itself_at_once() {
    let mut alone = subject(1, 1);
    let done = alone.campaign();
    assert_eq!((done.sent(), done.announced()), (vec![], vec![elected(1, 1)]));
    assert!(done.saved().iter().any(|saved| saved.ceiling >= 1), "the promise was saved");
    assert!(alone.process.lease(Time::ZERO).is_some());
    assert_eq!(alone.process.lease(Time::ZERO + Span::from_millis(30)), None, "by its clock it is over");
    let done = alone.command(Common::Resign);
    assert_eq!(done.announced(), [Announcement::SteppedDown]);
    assert_eq!(alone.process.lease(Time::ZERO), None);
}

#[test]
fn members_save_their_state_when_they_start_and_only_voters_answer() {
    for (me, voter) in [(5, true), (6, false)] {
        let mut subject = TestProcess::<QuorumLease>::unstarted(me, 9, &Options::default());
        assert!(!subject.start(Start::Fresh).saved().is_empty(), "its disk has an identity");
        let engine = subject.process.engine().unwrap();
        let header = Header { boot: Boot(1), stamp: engine.configuration().stamp() };
        let body = Body::Ask(Ask::Enquire { request: Request(1), standing: None });
        let message = Message { header, name: Name::of("x"), body };
        assert_eq!(
            !subject.receive(1, message.into()).sent().is_empty(),
            voter,
            "voters answer for every name"
        );
    }
}

#[test]
fn replies_about_another_election_are_ignored() {
    let mut candidate = subject(9, 9);
    let sent = candidate.campaign().sent();
    let MemberMessage::Node(Message { header, name: own, body }) = sent[0].1.clone() else {
        panic!("no node")
    };
    let Body::Ask(Ask::Prepare { request, .. }) = body else { panic!("it prepares") };
    let promise = |name| Message { header, name, body: Body::Reply(Reply::Promised { request }) }.into();
    for voter in 1..=5 {
        assert!(candidate.receive(voter, promise(Name::of("x"))).is_empty());
    }
    candidate.receive(1, promise(own));
    candidate.receive(2, promise(own));
    assert_eq!(candidate.receive(3, promise(own)).sent().len(), 5, "it proposes");
}

#[test]
fn an_unhealthy_application_makes_the_leader_step_down() {
    let roster = Roster::numbered(1);
    let mut recorder = Recorder::<QuorumLease>::new(0);
    let mut process = QuorumLease::new(NodeId(1), &Options::default());
    process.on_start(&mut recorder.context(Time::ZERO, roster.view(0), Span::UNIT), Start::Fresh);
    process
        .on_command(&mut recorder.context(Time::ZERO, roster.view(0), Span::UNIT), Common::Campaign.into());
    let led = |effects: &[Effect<QuorumLease>]| {
        let led = effects.iter().position(|effect| matches!(effect, Effect::LeadUntil(_)));
        let announced = effects.iter().position(|effect| *effect == Effect::Announce(elected(1, 1)));
        led.is_some() && led < announced
    };
    assert!(led(&recorder.take()), "the end of the lease comes before the announcement");
    let unhealthy = Action::Health(false).in_all();
    process.on_command(&mut recorder.context(Time::ZERO, roster.view(0), Span::UNIT), unhealthy);
    assert!(recorder.take().contains(&Effect::Announce(Announcement::SteppedDown)));
}

#[test]
fn timings_that_cannot_keep_a_lease_are_refused() {
    let roster = Roster::numbered(5);
    let check = |ttl, renew, drift: &str| {
        let drift = drift.parse().unwrap();
        let options = Options { ttl, renew: Some(renew), drift, ..Options::default() };
        QuorumLease::check(&options, &roster).map_err(|error| error.name)
    };
    assert_eq!(check(30, 10, "1%"), Ok(()));
    assert_eq!(check(30, 2, "1%"), Err("renew"));
    assert_eq!(check(13, 10, "1%"), Err("ttl"));
    assert_eq!(check(30, 10, "45%"), Err("ttl"));
}

/// Elections keep their numbers, whichever index the engine gives them.
#[test]
fn elections_keep_their_numbers_when_a_member_leaves_and_joins() {
    let options = Options { names: 2, voters: 1, ..Options::default() };
    let mut member = QuorumLease::new(NodeId(1), &options);
    let (roster, mut recorder) = (Roster::numbered(1), Recorder::<QuorumLease>::new(0));
    member.on_start(&mut recorder.context(Time::ZERO, roster.view(0), Span::UNIT), Start::Fresh);
    let mut command = |text: &str, member: &mut QuorumLease| {
        let command = text.parse().unwrap();
        member.on_command(&mut recorder.context(Time::ZERO, roster.view(0), Span::UNIT), command);
        [0, 1].map(|election| member.lease_of(election, Time::ZERO).map(|lease| lease.token.number()))
    };
    assert_eq!(command("campaign", &mut member), [Some(1), Some(1)]);
    assert_eq!(command("leave", &mut member), [None, None]);
    assert_eq!(command("join in 2", &mut member), [None, None]);
    assert_eq!(command("join in 1", &mut member), [None, None]);
    assert_eq!(command("join in 3", &mut member), [None, None], "there is none");
    let numbers = member.node().unwrap().numbers.clone();
    assert_eq!(command("campaign in 2", &mut member), [None, Some(2)], "{numbers:?}");
    assert_eq!(command("campaign in 1", &mut member), [Some(2), Some(2)], "{numbers:?}");
}
