//! The invitation algorithm in a simulated world: the figures of the book, the costs, and that after all faults every
//! component ends as one group.

use std::cell::RefCell;
use std::rc::Rc;

use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::invitation::{First, Invitation, Options};
use suffrage_core::{Algorithm, Command, NodeId, Rng, Roster, Span, Time};
use suffrage_sim::{
    Cut, Detector, Fault, Latency, Observer, Outcome, Ranking, Scenario, Storm, TraceEvent, storm,
};

use crate::algorithms::seeds;

fn at(units: u64) -> Time {
    Time::ZERO + Span::from_millis(units)
}

const SUCCESSOR: First = First::Successor;

/// A group of `nodes` processes that all start alone.
fn alone(nodes: usize) -> Scenario {
    let mut scenario = Scenario::new(Roster::numbered(nodes));
    scenario.until = Some(at(1_000));
    scenario
}

/// The run until beliefs have settled: what comes after is upkeep.
fn settle<A: Algorithm>(scenario: &Scenario, options: &A::Options) -> Outcome {
    let settled = scenario.run::<A>(options).decided;
    let until = Some(Time::ZERO + Span::from_units(settled));
    let outcome = Scenario { until, ..scenario.clone() }.run::<A>(options);
    assert_eq!(outcome.violations, [], "seed {}", scenario.seed);
    outcome
}

/// A counted message: time of sending, kind, sender and receiver.
type Sent = (Time, &'static str, u64, u64);

/// Records the counted messages.
#[derive(Clone, Default)]
struct SentMessages(Rc<RefCell<Vec<Sent>>>);

impl SentMessages {
    /// Senders and receivers of messages of this kind, from that time on.
    fn of(&self, kind: &str, from: Time) -> Vec<(u64, u64)> {
        let sent = self.0.borrow();
        let wanted = sent.iter().filter(|(at, name, ..)| *at >= from && *name == kind);
        wanted.map(|&(_, _, from, to)| (from, to)).collect()
    }

    fn count(&self) -> u64 {
        self.0.borrow().len() as u64
    }
}

impl Observer for SentMessages {
    fn observe(&mut self, at: Time, event: TraceEvent<'_>) {
        if let TraceEvent::Sent { from, to, message, .. } = event
            && message.counted
        {
            self.0.borrow_mut().push((at, message.kind, from.0, to.0));
        }
    }
}

/// Runs a scenario with commands. Returns the leader that all follow in the end, and the messages.
fn command(
    scenario: &Scenario,
    options: &Options,
    commands: &[(Time, usize, Command)],
) -> (u64, SentMessages) {
    let mut world = scenario.world::<Invitation>(options);
    let post = SentMessages::default();
    world.set_observer(Box::new(post.clone()));
    commands.iter().for_each(|&(when, slot, command)| world.command(when, slot, command));
    world.run(scenario.horizon());
    world.finish();
    assert_eq!(world.ledger().violations, []);
    (world.facts().belief(0).expect("it leads at least itself").leader.0, post)
}

/// Figure 10-4: "1 invites 2 to join its group, and 3 invites 4"; then "1, the leader of the first group,
/// contacts 3, the leader of the other group. Remaining group members (4, in this case) are notified".
#[test]
fn figure_10_4_takes_ten() {
    let mut scenario = alone(4);
    scenario.ranking = Ranking::LowestId;
    scenario.initiators = vec![0, 2];
    let options = Options { first: SUCCESSOR, ..Options::default() };
    let (leader, post) = command(&scenario, &options, &[]);
    assert_eq!((leader, post.count()), (1, 10));
    assert_eq!(post.of("Invitation", at(0)), [(1, 2), (3, 4), (1, 3)]);
    assert_eq!(post.of("Accept", at(0)), [(2, 1), (4, 3), (3, 1)]);
    assert_eq!(post.of("Ready", at(0)), [(1, 2), (3, 4), (1, 3)]);
    assert_eq!(post.of("Merged", at(0)), [(3, 4)]);
}

/// The figure continued for every power of two: groups of equal size merge in pairs. Commands decide which leaders look
/// for others first; no leader looks by itself.
#[test]
fn merging_in_pairs_takes_two_for_each_and_half_of_n_log_n() {
    for doublings in 1..=7 {
        let n = 1 << doublings;
        let mut scenario = alone(n);
        scenario.ranking = Ranking::LowestId;
        let options = Options { first: SUCCESSOR, look: 100_000, ..Options::default() };
        let pairs = |round| (0..n).step_by(2_usize << round).map(move |slot| (at(10 * round), slot));
        let looks: Vec<_> = (0..doublings).flat_map(pairs).collect();
        let looks: Vec<_> = looks.into_iter().map(|(when, slot)| (when, slot, Command::Campaign)).collect();
        let (leader, post) = command(&scenario, &options, &looks);
        let n = n as u64;
        assert_eq!((leader, post.count()), (1, 2 * (n - 1) + n / 2 * doublings), "{n}");
    }
}

/// A process that outranks all others invites them at once: three messages for each, and no notifications.
#[test]
fn gathering_the_others_takes_three_for_each_in_three_message_times() {
    let cost = Invitation::CONTRACT;
    for n in 2..=50 {
        let mut scenario = alone(n as usize);
        scenario.initiators = vec![n as usize - 1];
        let options = Options { fanout: n as usize, ..Options::default() };
        let outcome = settle::<Invitation>(&scenario, &options);
        assert_eq!((outcome.messages.total, outcome.messages.of("Merged")), ((cost.messages.best.of)(n), 0));
        assert_eq!(outcome.time, (cost.time.best.of)(n) as f64);
        assert_eq!(outcome.leader, Some(NodeId(n)));
    }
}

/// The contract's worst case is the most that was seen, also where ranks rise along the ring, so that
/// leaders that look at their successors run after each other.
#[test]
fn no_start_from_alone_costs_more_than_the_contract_says() {
    let cost = Invitation::CONTRACT;
    for n in (2..=40).chain([64, 100, 200]) {
        for seed in 0..12 {
            let mut scenario = alone(n as usize);
            scenario.seed = seed;
            scenario.ranking = [Ranking::Id, Ranking::LowestId, Ranking::Random][seed as usize % 3].clone();
            scenario.initiators = if seed % 2 == 0 { vec![] } else { (0..n as usize).collect() };
            let first = if seed % 4 < 2 { First::Anybody } else { SUCCESSOR };
            let outcome = settle::<Invitation>(&scenario, &Options { first, ..Options::default() });
            let (total, time) = (outcome.messages.total, outcome.time);
            assert!(total >= (cost.messages.best.of)(n), "{n} seed {seed}: {total}");
            assert!(total <= (cost.messages.worst.of)(n), "{n} seed {seed}: {total}");
            assert!(time <= (cost.time.worst.of)(n) as f64, "{n} seed {seed}: {time}");
        }
    }
}

/// The count of messages beside that of bully, in which everybody calls (or the worst does, which is the
/// same). `cargo run -p suffrage-sim --example invitation_versus_bully` prints it for other sizes too.
#[test]
fn a_thousand_that_start_alone_end_in_one_group() {
    for seed in 0..5 {
        let mut scenario = alone(1_000);
        scenario.seed = seed;
        scenario.ranking = Ranking::Random;
        let outcome = settle::<Invitation>(&scenario, &Options::default());
        assert!(outcome.agreed, "seed {seed}");
        scenario.initiators = (0..1_000).collect();
        let bully = settle::<Bully>(&scenario, &Default::default());
        let (invitation, bully) = (outcome.messages.total, bully.messages.total);
        println!("seed {seed}: invitation {invitation}, bully {bully}");
        // Half of the bound; 7,500 to 8,500 are usual.
        assert!(invitation < 20_000 && bully == 999_999, "seed {seed}: {invitation} {bully}");
    }
}

/// "This way only the processes from the smaller group have to be notified": a partition, a leader in
/// each part, and their merger.
#[test]
fn after_a_partition_only_the_smaller_group_is_told() {
    let healed = at(200);
    for seed in 0..100 {
        let mut scenario = alone(7);
        scenario.seed = seed;
        let cut = Cut::new(7, &[vec![0, 1, 2], vec![3, 4, 5, 6]], false);
        scenario.plan = vec![(at(60), Fault::Cut(0, cut)), (healed, Fault::Heal(0))];
        let mut split = scenario.clone();
        split.until = Some(at(199));
        let parts = split.run::<Invitation>(&Options::default()).leaders;
        let [small, large] = parts.iter().map(|leader| leader.0).collect::<Vec<_>>()[..] else {
            panic!("seed {seed}: two parts with a leader each: {parts:?}")
        };
        assert!(small <= 3 && large > 3, "seed {seed}");
        let (leader, post) = command(&scenario, &Options::default(), &[]);
        assert_eq!(leader, large, "seed {seed}: the larger group's leader stays");
        let mut told = post.of("Merged", healed);
        told.sort_unstable();
        let others: Vec<_> = (1..=3).filter(|&id| id != small).map(|id| (small, id)).collect();
        assert_eq!(told, others, "seed {seed}");
        assert_eq!(post.of("Ready", healed), [(large, small)], "seed {seed}");
    }
}

/// The leader of the larger group keeps it, whatever the rank of the other leader.
#[test]
fn a_leader_that_fails_leaves_its_followers_to_gather_again() {
    let mut scenario = alone(5);
    let leader = scenario.run::<Invitation>(&Options::default()).leader.expect("they agree");
    let slot = leader.0 as usize - 1;
    scenario.plan = vec![(at(100), Fault::Crash(slot)), (at(300), Fault::Recover { slot, disk: false })];
    scenario.until = Some(at(299));
    let gathered = scenario.run::<Invitation>(&Options::default());
    assert_ne!(gathered.leader.expect("the others agree"), leader);
    assert!(gathered.decided < 100.0 + 24.0 + 8.0 + 60.0, "{}", gathered.decided);
    scenario.until = Some(at(500));
    let back = scenario.run::<Invitation>(&Options::default());
    assert_eq!((back.leader, back.violations), (gathered.leader, vec![]));
}

#[test]
fn a_leader_can_hand_its_group_over() {
    let scenario = alone(5);
    let leader = scenario.run::<Invitation>(&Options::default()).leader.expect("they agree").0;
    for heir in 1..=5 {
        let transfer = (at(200), leader as usize - 1, Command::Transfer(NodeId(heir)));
        let (successor, post) = command(&scenario, &Options::default(), &[transfer]);
        assert_eq!(successor, heir);
        let told = if heir == leader { 0 } else { 3 };
        assert_eq!(post.of("Merged", at(200)).len(), told);
    }
    let best = if leader == 5 { 4 } else { 5 };
    let resign = (at(200), leader as usize - 1, Command::Resign);
    assert_eq!(command(&scenario, &Options::default(), &[resign]).0, best);
    let (nobody, alone) = (Command::Resign, alone(1));
    assert_eq!(command(&alone, &Options::default(), &[(at(5), 0, nobody)]).0, 1);
}

const STORM: u64 = 300;
const CALM: u64 = 200;

/// A storm with faults of all kinds, and commands at any time.
fn storm_scenario(seed: u64) -> (Scenario, Vec<(Time, usize, Command)>) {
    let members = 2 + (seed % 8) as usize;
    let rng = &mut Rng::new(seed);
    let mut order: Vec<NodeId> = (1..=members as u64).map(NodeId).collect();
    rng.shuffle(&mut order);
    let mut scenario = Scenario::new(Roster::listed(order).expect("ids are unique"));
    scenario.seed = seed;
    scenario.ranking = if rng.chance(0.5) { Ranking::Id } else { Ranking::Random };
    scenario.drift = if rng.chance(0.5) { 0.0 } else { 0.05 };
    scenario.latency = match seed % 3 {
        0 => Latency::Const(Span::UNIT),
        1 => Latency::Uniform(Span::ZERO, Span::UNIT),
        _ => Latency::Exponential(Span::from_units(0.3)),
    };
    // The assumed bound, whatever the distribution: longer delays are late messages.
    scenario.delay_bound = Some(Span::UNIT);
    scenario.detector = match rng.below(3) {
        0 => Detector::None,
        1 => Detector::Ideal { delay: Span::from_millis(3) },
        _ => Detector::Parametric { delay: Span::from_millis(3), false_rate: 0.01 },
    };
    let lossy = rng.chance(0.7);
    let config = Storm { members, from: at(0), to: at(STORM), lossy, shortest_cut: Span::ZERO };
    scenario.plan = storm(seed, config);
    for _ in 0..rng.below(3) {
        let rank = Fault::Rank(rng.below(members as u64) as usize, rng.bits() as i64);
        scenario.plan.push((at(rng.below(STORM)), rank));
    }
    scenario.until = Some(at(STORM + CALM));
    let command = |rng: &mut Rng| {
        let (when, slot) = (at(rng.below(STORM)), rng.below(members as u64) as usize);
        let command = match rng.below(4) {
            0 => Command::Resign,
            1 => Command::Transfer(NodeId(1 + rng.below(members as u64))),
            _ => Command::Campaign,
        };
        (when, slot, command)
    };
    let commands = (0..rng.below(8)).map(|_| command(rng)).collect();
    (scenario, commands)
}

/// The bound that the algorithm's file states: 200 message delays for at most nine processes.
#[test]
fn after_any_storm_each_component_is_one_group() {
    let (mut failures, mut longest) = (Vec::new(), 0.0_f64);
    for seed in 0..seeds() {
        let (scenario, commands) = storm_scenario(seed);
        let mut world = scenario.world::<Invitation>(&Options::default());
        commands.into_iter().for_each(|(when, slot, command)| world.command(when, slot, command));
        world.run(scenario.horizon());
        world.finish();
        longest = longest.max(world.ledger().decided.as_units() - STORM as f64);
        if let Some(violation) = world.ledger().violations.first() {
            failures.push(format!("seed {seed}: {violation:?}"));
        }
    }
    println!("the longest merging took {longest} message delays after the storm");
    assert!(failures.is_empty(), "{} of them:\n{}", failures.len(), failures.join("\n"));
}
