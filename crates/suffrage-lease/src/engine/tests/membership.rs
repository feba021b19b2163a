//! Changes of the configuration, attacked. The test is the network: it decides which messages arrive, and when.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::membership::{Ballot, Change, ChangeProgress, Configuration, ImpossibleChange, MembershipMessage};

/// A message in flight: from, to, content.
type Flight = (u64, u64, Message);

struct World(BTreeMap<u64, Harness>);

fn config(voters: &[u64], can_vote: bool) -> EngineConfig {
    EngineConfig { can_vote, ..EngineConfig::new(voters.iter().copied().map(NodeId)) }
}

impl World {
    /// Founders of a cluster, each with a disk.
    fn founded(voters: &[u64]) -> World {
        let mut world = World(BTreeMap::new());
        for &id in voters {
            world.life(id, config(voters, true), Start::Fresh, 1);
        }
        world
    }

    /// Starts a node. Each life has random numbers of its own.
    fn life(&mut self, id: u64, config: EngineConfig, start: Start<Saved>, life: u64) {
        let (me, now) = (NodeId(id), at(0));
        let rng = Rng::new(1_000 * life + id);
        let record = Record::new(now, rng);
        let mut harness = Harness { engine: Engine::new(me, config).unwrap(), record };
        harness.input(now, |engine, cx| engine.on_start(cx, start));
        self.0.insert(id, harness);
    }

    fn at(&mut self, id: u64) -> &mut Harness {
        self.0.get_mut(&id).unwrap()
    }

    /// A node without a disk, which has heard of its cluster.
    fn coordinator(&mut self, id: u64, voters: &[u64]) {
        self.life(id, config(voters, false), Start::Fresh, 1);
        self.at(id).join(at(0), "y");
        self.at(id).fire_timer(at(0));
        self.run(at(0), |_, _, _| true);
        assert!(self.0[&id].engine.is_configuration_certain());
    }

    fn configuration(&self, id: u64) -> &Configuration {
        self.0[&id].engine.configuration()
    }

    fn change(&mut self, now: Time, id: u64, change: Change) {
        self.at(id).input(now, |engine, cx| _ = engine.start_change(cx, change));
    }

    /// What all nodes have sent since this was last called.
    fn sent(&mut self) -> Vec<Flight> {
        let sent = |(&id, harness): (&u64, &mut Harness)| {
            harness.sent().into_iter().map(move |(to, message)| (id, to.0, message)).collect::<Vec<_>>()
        };
        self.0.iter_mut().flat_map(sent).collect()
    }

    fn arrive(&mut self, now: Time, (from, to, message): Flight) {
        if let Some(harness) = self.0.get_mut(&to) {
            harness.input(now, |engine, cx| engine.on_message(cx, NodeId(from), message));
        }
    }

    /// Delivers messages until none is left. Those that `arrives` refuses are returned.
    fn run(&mut self, now: Time, arrives: impl Fn(u64, u64, &Body) -> bool) -> Vec<Flight> {
        let mut lost = Vec::new();
        loop {
            let sent = self.sent();
            if sent.is_empty() {
                return lost;
            }
            for (from, to, message) in sent {
                match arrives(from, to, &message.body) {
                    true => self.arrive(now, (from, to, message)),
                    false => lost.push((from, to, message)),
                }
            }
        }
    }

    fn leads(&self, now: Time, id: u64) -> Option<u64> {
        let engine = &self.0[&id].engine;
        let lease = engine.lease(now, engine.index_of(Name::of("x"))?)?;
        Some(lease.token.number())
    }
}

fn membership(body: &Body) -> Option<&MembershipMessage> {
    match body {
        Body::Membership(message) => Some(message),
        _ => None,
    }
}

fn is_accept(body: &Body) -> bool {
    matches!(membership(body), Some(MembershipMessage::Accept(..)))
}

fn is_accepted(body: &Body) -> bool {
    matches!(membership(body), Some(MembershipMessage::Accepted(_)))
}

fn is_install(body: &Body) -> bool {
    matches!(membership(body), Some(MembershipMessage::Install(_)))
}

fn prepared(sent: &[Flight]) -> Option<Ballot> {
    sent.iter().find_map(|(_, _, message)| match membership(&message.body) {
        Some(MembershipMessage::Prepare(ballot)) => Some(*ballot),
        _ => None,
    })
}

/// An operator runs `voters replace`: two commands, one after the other, at one node.
#[test]
fn two_changes_of_one_process_never_use_the_same_ballot() {
    let mut world = World::founded(&[1, 2, 3]);
    world.change(at(0), 1, Change::Adopt { without: BTreeSet::new() });
    world.run(at(0), |_, _, _| true);
    world.change(at(10), 1, Change::Remove(NodeId(3)));
    let first = prepared(&world.sent());
    world.change(at(20), 1, Change::Remove(NodeId(2)));
    let second = prepared(&world.sent());
    assert!(first.is_some() && second.is_some());
    assert_ne!(first, second);
}

/// Node 9 coordinates the removal of 3; only 2 has accepted when an operator gives up, and removes 2 instead. The answer
/// of 2 to the first question arrives in the second.
#[test]
fn a_version_has_one_configuration_although_a_coordinator_begins_again() {
    let mut world = World::founded(&[1, 2, 3]);
    world.coordinator(9, &[1, 2, 3]);
    world.change(at(0), 9, Change::Adopt { without: BTreeSet::new() });
    world.run(at(0), |_, _, _| true);
    assert!([1, 2, 3, 9].iter().all(|&id| world.configuration(id).version() == 1));

    world.change(at(10), 9, Change::Remove(NodeId(3)));
    // `Accept` reaches 2 alone, and its answer is late.
    let late = world.run(at(10), |_, to, body| !(is_accept(body) && to != 2 || is_accepted(body)));
    let late = late.into_iter().find(|(_, _, message)| is_accepted(&message.body)).unwrap();
    assert_eq!(late.0, 2);

    // The second change: 2 hears nothing of it, and of 1 and 3 only 1 accepts.
    world.change(at(20), 9, Change::Remove(NodeId(2)));
    world.run(at(20), |_, to, body| to != 2 && !(is_accept(body) && to == 3));
    world.arrive(at(30), late);
    // Whatever was chosen is installed at 9 and 1.
    world.run(at(30), |_, to, _| [1, 9].contains(&to));

    // Another coordinator finds what 2 has accepted, and completes it.
    world.change(at(40), 2, Change::Remove(NodeId(3)));
    for millis in (40..2_000).step_by(20) {
        world.at(2).fire_timer(at(millis));
        world.run(at(millis), |from, to, _| from + to == 5);
    }
    assert_eq!(world.configuration(2).version(), 2);
    let (one, two) = (world.configuration(1), world.configuration(2));
    assert!(one.version() < 2 || two.version() < 2 || one.stamp() == two.stamp(), "{one:?}\n{two:?}");
}

/// `voters add`, later `voters remove` at one node. An answer to the first change arrives in the second.
#[test]
fn an_answer_of_an_older_version_does_not_count() {
    let mut world = World::founded(&[1, 2, 3]);
    world.coordinator(9, &[1, 2, 3]);
    // Version 1. The answer of 3 is late.
    world.change(at(0), 9, Change::Adopt { without: BTreeSet::new() });
    let late = world.run(at(0), |from, _, body| !(from == 3 && is_accepted(body)));
    let late = late.into_iter().next().expect("an answer");
    assert!([1, 2, 3, 9].iter().all(|&id| world.configuration(id).version() == 1));
    // Version 2: only 1 accepts.
    world.change(at(10), 9, Change::Remove(NodeId(3)));
    world.run(at(10), |_, to, body| !(is_accept(body) && to != 1));
    assert_eq!(world.configuration(9).version(), 1);
    world.arrive(at(20), late);
    assert_eq!(world.configuration(9).version(), 1, "one of three has accepted version 2");
}

/// Voter 2 of version 0 has lost its disk. Its operator does what `suffrage voters --help` says: an empty data folder, and
/// the present voters without itself.
#[test]
fn a_blank_node_that_finds_its_cluster_at_version_0_does_not_vote() {
    let mut world = World::founded(&[1, 2, 3]);
    world.at(1).stand(at(0), "x");
    // Voter 3 hears nothing.
    world.run(at(0), |from, to, _| from != 3 && to != 3);
    assert_eq!(world.leads(at(10), 1), Some(1));

    world.life(2, config(&[1, 3], true), Start::Fresh, 2);
    world.at(2).join(at(20), "x");
    world.at(2).fire_timer(at(20));
    world.at(2).fire_timer(at(200));
    // 1 is cut off from now on.
    let open = |from: u64, to: u64, _: &Body| from != 1 && to != 1;
    world.run(at(200), open);
    world.at(3).stand(at(300), "x");
    world.run(at(300), open);
    let leaders = [1, 2, 3].map(|id| world.leads(at(310), id));
    assert!(leaders.iter().flatten().count() <= 1, "tokens of leaders at one moment: {leaders:?}");
    assert!(!world.0[&2].engine.may_vote());
}

/// Version 0, 1, 2 → … → 4 has moved on; only removed voter 3 was down all the time, with its disk. Blank 1 and 2 find it.
#[test]
fn a_voter_that_slept_through_all_changes_does_not_found_the_cluster_again() {
    let mut world = World::founded(&[1, 2, 3]);
    let sleeper = world.0.remove(&3).unwrap();
    let voters = [1, 2];
    world.life(4, config(&voters, true), Start::Fresh, 1);
    world.change(at(0), 1, Change::Remove(NodeId(3)));
    world.run(at(0), |_, _, _| true);
    // The coordinator waits for a round: 3 might answer.
    world.at(1).fire_timer(at(80));
    world.run(at(80), |_, _, _| true);
    world.change(at(80), 1, Change::Add(NodeId(4), String::new()));
    world.run(at(80), |_, _, _| true);
    for id in [2, 1] {
        world.change(at(80), 4, Change::Remove(NodeId(id)));
        world.run(at(80), |_, _, _| true);
    }
    let ids: Vec<u64> = world.configuration(4).ids().iter().map(|id| id.0).collect();
    assert_eq!(ids, [4], "{:?}", world.configuration(4));
    world.at(4).stand(at(100), "x");
    assert!(world.leads(at(100), 4).is_some());
    // Both machines are used again, as candidates; their operator lists what he remembers of the cluster.
    world.life(1, config(&[2, 3], true), Start::Fresh, 2);
    world.0.remove(&2);
    world.0.insert(3, sleeper);
    world.at(1).join(at(110), "x");
    world.at(1).fire_timer(at(110));
    world.at(1).fire_timer(at(300));
    world.run(at(300), |from, to, _| from != 4 && to != 4);
    world.at(3).stand(at(400), "x");
    world.run(at(400), |from, to, _| from != 4 && to != 4);
    let leaders = [1, 3, 4].map(|id| world.leads(at(410), id));
    assert!(leaders.iter().flatten().count() <= 1, "tokens of leaders at one moment: {leaders:?}");
}

/// Voter 3 of version 0 has lost its disk and knows it. Version 1 must not name its new disk: that would replace a voter in
/// one step.
#[test]
fn version_1_gives_no_vote_to_a_voter_that_lost_its_disk() {
    let mut world = World::founded(&[1, 2, 3]);
    world.at(1).stand(at(0), "x");
    world.run(at(0), |from, to, _| from != 2 && to != 2);
    assert_eq!(world.leads(at(10), 1), Some(1));

    world.life(3, config(&[1, 2, 3], true), Start::Recovered(None), 2);
    assert!(!world.0[&3].engine.may_vote());
    world.change(at(20), 2, Change::Adopt { without: BTreeSet::new() });
    // 1 takes part in the choice, and is cut off then.
    let open = |_, to, body: &Body| to != 1 || membership(body).is_some() && !is_install(body);
    world.run(at(20), |from, to, body| (from != 1 || membership(body).is_some()) && open(from, to, body));
    world.at(2).stand(at(100), "x");
    world.run(at(100), |from, to, _| from != 1 && to != 1);
    let leaders = [1, 2, 3].map(|id| world.leads(at(110), id));
    assert!(leaders.iter().flatten().count() <= 1, "tokens of leaders at one moment: {leaders:?}");
}

/// A newcomer that knows one seed of three coordinates a change before it has found its cluster. It must not count a
/// majority of its guess.
#[test]
fn a_coordinator_that_guesses_its_cluster_installs_nothing_that_was_not_chosen() {
    let mut world = World::founded(&[1, 2, 3]);
    world.coordinator(8, &[1, 2, 3]);
    world.change(at(0), 8, Change::Adopt { without: BTreeSet::new() });
    // Voter 1 alone accepts.
    world.run(at(0), |_, to, body| !(is_accept(body) && to != 1));
    world.at(8).input(at(1), |engine, cx| engine.stop_change(cx));

    world.life(9, config(&[1], true), Start::Fresh, 1);
    world.change(at(10), 9, Change::Add(NodeId(9), String::new()));
    for millis in (10..5_000).step_by(50) {
        world.at(9).fire_timer(at(millis));
        world.run(at(millis), |from, to, _| [1, 9].contains(&from) && [1, 9].contains(&to));
    }
    assert_eq!(world.configuration(1).version(), 0, "one voter of three has accepted version 1");
}

/// A newcomer with another bound on drift refuses every configuration of the cluster. It must not be added: the voters
/// that are left may be no majority.
#[test]
fn a_newcomer_that_cannot_install_is_not_added() {
    let mut world = World::founded(&[1]);
    let other = EngineConfig { drift: "2%".parse().unwrap(), ..config(&[1], true) };
    world.life(4, other, Start::Fresh, 1);
    world.change(at(0), 1, Change::Add(NodeId(4), String::new()));
    world.run(at(0), |_, _, _| true);
    let progress = world.0[&1].engine.change(at(1)).map(|(_, progress)| progress);
    assert!(matches!(progress, Some(ChangeProgress::Impossible(_))), "{progress:?}");
    world.at(1).stand(at(10), "x");
    world.run(at(10), |_, _, _| true);
    assert!(world.leads(at(20), 1).is_some(), "the cluster has no majority any more");
}

/// A newcomer whose list is not that of the founding hears of its cluster by any message of a later version.
#[test]
fn a_newcomer_asks_for_the_configuration_of_whoever_speaks_to_it() {
    let mut world = World::founded(&[1, 2]);
    world.change(at(0), 1, Change::Adopt { without: BTreeSet::new() });
    world.run(at(0), |_, _, _| true);
    world.life(9, config(&[2], true), Start::Fresh, 1);
    world.change(at(10), 1, Change::Add(NodeId(9), String::new()));
    // `Install` does not reach the newcomer.
    world.run(at(10), |_, to, body| !(to == 9 && is_install(body)));
    assert_eq!((world.configuration(1).version(), world.configuration(9).version()), (2, 0));
    assert!(!world.0[&9].engine.may_vote());
    world.at(1).stand(at(20), "x");
    world.run(at(20), |_, to, body| !(to == 9 && is_install(body)));
    assert_eq!(world.configuration(9).version(), 2);
    assert!(world.0[&9].engine.may_vote());
}

#[test]
fn a_cluster_that_is_founded_anew_continues_the_tokens() {
    let mut world = World(BTreeMap::new());
    for id in [1, 2, 3] {
        world.life(id, EngineConfig { tokens_above: 7_000, ..config(&[1, 2, 3], true) }, Start::Fresh, 1);
    }
    world.at(1).stand(at(0), "x");
    for millis in (0..200).step_by(10) {
        world.at(1).fire_timer(at(millis));
        world.run(at(millis), |_, _, _| true);
    }
    assert!(world.leads(at(200), 1).is_some_and(|token| token > 7_000), "{:?}", world.leads(at(200), 1));
    let above = EngineConfig { tokens_above: u64::MAX, ..config(&[1], true) };
    assert!(matches!(above.check(), Err(InvalidConfig::TokensAbove(_))));
}

/// Two of five founders are gone for good. The operator names them.
#[test]
fn a_cluster_adopts_its_first_version_without_voters_that_are_gone() {
    let mut world = World::founded(&[1, 2, 3, 4, 5]);
    world.0.retain(|id, _| *id < 4);
    let gone: BTreeSet<NodeId> = [4, 5].map(NodeId).into();
    world.change(at(0), 1, Change::Adopt { without: BTreeSet::new() });
    world.run(at(0), |_, _, _| true);
    assert_eq!(world.configuration(1).version(), 0, "all must answer");
    world.change(at(10), 1, Change::Adopt { without: gone });
    world.run(at(10), |_, _, _| true);
    for id in [4, 5] {
        world.change(at(20), 2, Change::Remove(NodeId(id)));
        world.run(at(20), |_, _, _| true);
    }
    let ids: Vec<u64> = world.configuration(3).ids().iter().map(|id| id.0).collect();
    assert_eq!(ids, [1, 2, 3]);
}

/// A voter that has another address, or lost its disk, is removed first.
#[test]
fn a_voter_is_not_added_twice() {
    let mut world = World::founded(&[1, 2]);
    world.change(at(0), 1, Change::Add(NodeId(2), "elsewhere:1".to_string()));
    world.run(at(0), |_, _, _| true);
    let progress = world.0[&1].engine.change(at(1)).map(|(_, progress)| progress);
    let listed = ChangeProgress::Impossible(ImpossibleChange::Listed(NodeId(2)));
    assert_eq!(progress, Some(listed));
    world.change(at(10), 1, Change::Add(NodeId(2), String::new()));
    let progress = world.0[&1].engine.change(at(11)).map(|(_, progress)| progress);
    assert_eq!(progress, Some(ChangeProgress::Made), "it is as wanted");
}

/// Both voters of version 0 are alive, and one is to be removed. The coordinator is the other: it answers itself at once.
#[test]
fn one_of_two_living_founders_is_removed() {
    let mut world = World::founded(&[1, 2]);
    world.change(at(0), 1, Change::Remove(NodeId(2)));
    for millis in (0..5_000).step_by(20) {
        world.at(1).fire_timer(at(millis));
        world.run(at(millis), |_, _, _| true);
    }
    let progress = world.0[&1].engine.change(at(5_000)).map(|(_, progress)| progress);
    assert_eq!(progress, Some(ChangeProgress::Made));
    assert_eq!(world.configuration(1).ids()[..], [NodeId(1)]);
}

/// A voter that is to be removed votes until it is: otherwise the first step costs the cluster a voter that is alive.
#[test]
fn a_living_founder_votes_until_it_is_removed() {
    let mut world = World::founded(&[1, 2, 3]);
    world.change(at(0), 1, Change::Remove(NodeId(3)));
    // Version 1 is chosen, and version 2 is not: the operator stops the change, or the coordinator stops.
    for millis in (0..1_000).step_by(20) {
        if world.configuration(1).version() == 0 {
            world.at(1).fire_timer(at(millis));
        }
        world.run(at(millis), |_, _, body| {
            let base = |ballot: &Ballot| ballot.counter > 1;
            !matches!(membership(body), Some(MembershipMessage::Prepare(ballot)) if base(ballot))
        });
    }
    assert_eq!(world.configuration(3).version(), 1);
    // Voter 2 dies. 1 and 3 were a majority before the command.
    world.0.remove(&2);
    assert!(world.0[&3].engine.may_vote(), "{:?}", world.configuration(3));
}

/// One datagram is lost. That is no reason to call a change impossible.
#[test]
fn a_lost_datagram_does_not_make_a_change_impossible() {
    let mut world = World::founded(&[1, 2, 3]);
    world.change(at(0), 1, Change::Adopt { without: BTreeSet::new() });
    world.run(at(0), |_, _, _| true);
    world.change(at(10), 1, Change::Remove(NodeId(3)));
    let prepare = |body: &Body| matches!(membership(body), Some(MembershipMessage::Prepare(_)));
    world.run(at(10), |_, to, body| !(to == 2 && prepare(body)));
    for millis in (20..5_000).step_by(20) {
        world.at(1).fire_timer(at(millis));
        world.run(at(millis), |_, _, _| true);
    }
    let progress = world.0[&1].engine.change(at(5_000)).map(|(_, progress)| progress);
    assert_eq!(progress, Some(ChangeProgress::Made));
}

/// Voter 2 has restarted and is silent: it refuses for a while. The change has to wait for it, and is possible.
#[test]
fn a_voter_that_is_not_drained_yet_does_not_make_a_change_impossible() {
    let mut world = World::founded(&[1, 2, 3]);
    world.change(at(0), 1, Change::Adopt { without: BTreeSet::new() });
    world.run(at(0), |_, _, _| true);
    world.at(1).stand(at(0), "x");
    world.run(at(0), |_, _, _| true);
    let saved = world.at(2).record.saved.clone();
    world.life(2, config(&[1, 2, 3], true), Start::Recovered(saved), 2);
    assert!(!world.0[&2].engine.is_voting(at(10)));
    world.change(at(10), 1, Change::Remove(NodeId(3)));
    for millis in (10..20_000).step_by(20) {
        world.at(1).fire_timer(at(millis));
        world.run(at(millis), |_, _, _| true);
    }
    let progress = world.0[&1].engine.change(at(20_000)).map(|(_, progress)| progress);
    assert_eq!(progress, Some(ChangeProgress::Made));
}

/// Makes a change while messages take this long, and saves that long, in milliseconds. Returns its progress in the end.
fn change_slowly(message: u64, save: u64) -> Option<ChangeProgress> {
    let mut world = World::founded(&[1, 2, 3]);
    world.0.values_mut().for_each(|harness| harness.record.slow_disk = true);
    world.change(at(0), 1, Change::Remove(NodeId(3)));
    let mut in_flight: Vec<(u64, Flight)> = Vec::new();
    let mut saving: BTreeMap<u64, u64> = BTreeMap::new();
    for now in 0..60_000 {
        for (&id, harness) in &mut world.0 {
            if harness.record.saves.writing().is_some() && now >= *saving.entry(id).or_insert(now + save) {
                saving.remove(&id);
                harness.end_save(at(now));
            }
            harness.fire_timer(at(now));
        }
        for flight in in_flight.extract_if(.., |(due, _)| *due <= now).collect::<Vec<_>>() {
            world.arrive(at(now), flight.1);
        }
        in_flight.extend(world.sent().into_iter().map(|flight| (now + message, flight)));
    }
    world.0[&1].engine.change(at(60_000)).map(|(_, progress)| progress)
}

/// Voters on other continents answer later than after three of the configured delays, and so do slow disks.
#[test]
fn a_change_is_made_however_late_voters_answer() {
    for (message, save) in [(1, 1), (75, 1), (150, 1), (1, 100), (1, 500), (75, 300)] {
        assert_eq!(change_slowly(message, save), Some(ChangeProgress::Made), "{message} ms, saves {save} ms");
    }
}

/// A cluster that an earlier version of this program founded may have such a list.
#[test]
fn a_founding_list_that_fits_into_no_datagram_is_never_adopted() {
    let voters: Vec<u64> = (1..=42).collect();
    let mut world = World::founded(&voters);
    world.change(at(0), 1, Change::Adopt { without: BTreeSet::new() });
    let progress = world.0[&1].engine.change(at(0)).map(|(_, progress)| progress);
    assert_eq!(progress, Some(ChangeProgress::Impossible(ImpossibleChange::TooLong)));
    assert!(world.sent().is_empty(), "nobody is asked");
}

/// A node of an older version asks for the newer one, but not with every message that it gets.
#[test]
fn a_node_that_is_behind_asks_each_sender_once_per_delay() {
    let mut world = World::founded(&[1, 2, 3]);
    let newer = Stamp { version: 5, ..world.configuration(1).stamp() };
    let delay = world.0[&1].engine.config().delay;
    let enquire = Body::Ask(Ask::Enquire { request: Request(9), standing: None });
    let header = Header { boot: Boot(5), stamp: newer };
    let message = Message { header, name: Name::of("x"), body: enquire };
    let asked = |world: &mut World| {
        let sent = world.sent().into_iter();
        let behind = |body: &Body| matches!(membership(body), Some(MembershipMessage::Behind));
        sent.filter(|(_, _, message)| behind(&message.body)).map(|(_, to, _)| to).collect::<Vec<_>>()
    };
    for _ in 0..100 {
        world.arrive(at(1), (2, 1, message.clone()));
        world.arrive(at(1), (3, 1, message.clone()));
    }
    assert_eq!(asked(&mut world), [2, 3]);
    world.arrive(at(1) + delay, (2, 1, message));
    assert_eq!(asked(&mut world), [2], "the first request may be lost");
}
