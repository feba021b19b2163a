//! Exact costs in messages and delays.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{Algorithm, Attribute, Command, Message as _, NodeId, Process, Roster, Span};
use suffrage_sim::{Fault, Ranking, Scenario, World};

use crate::algorithms::quorum_lease::storm_scenarios::{leaders, time};
use crate::algorithms::seeds;

/// The number of messages of this kind.
fn sent(world: &World<QuorumLease>, kind: &str) -> u64 {
    let kinds = <QuorumLease as Process>::Message::KINDS;
    world.ledger().sent(kinds.iter().position(|it| it.name == kind).expect("there is such a kind"))
}

/// The number of counted messages: all but renewals and enquiries.
fn counted(world: &World<QuorumLease>) -> u64 {
    let kinds = <QuorumLease as Process>::Message::KINDS;
    (0..kinds.len()).filter(|&kind| kinds[kind].counted).map(|kind| world.ledger().sent(kind)).sum()
}

/// `members` processes, of which the first `voters` vote; the one in slot `caller` campaigns.
fn called(members: usize, voters: usize, caller: usize) -> (Scenario, Options) {
    let mut scenario = Scenario::new(Roster::numbered(members));
    scenario.initiators = vec![caller];
    scenario.until = Some(time(1_000));
    (scenario, Options { voters, ..Options::default() })
}

/// Prepare, Promised, Propose, Accepted: 4V messages and 4 delays, or 4(V - 1) by a voter.
#[test]
fn to_be_elected_takes_four_messages_a_voter_and_four_delays() {
    for voters in 1..=7 {
        for (caller, others) in [(0, voters - 1), (8, voters)] {
            let (scenario, options) = called(9, voters, caller);
            let mut world = scenario.world::<QuorumLease>(&options);
            world.run(time(11));
            for kind in ["Prepare", "Promised", "Propose", "Accepted"] {
                assert_eq!(sent(&world, kind), others as u64, "{kind}");
            }
            assert_eq!(counted(&world), 4 * others as u64, "{voters} {caller}");
            let since = if others == 0 { 0 } else { 4 };
            assert_eq!(world.ledger().leaderships[0].from, time(since), "{voters} {caller}");
            if voters == 5 {
                let cost = QuorumLease::CONTRACT.messages;
                let formula = if caller == 0 { cost.best } else { cost.worst };
                assert_eq!(counted(&world), (formula.of)(9));
                assert_eq!((QuorumLease::CONTRACT.time.best.of)(9), 4);
            }
        }
    }
}

/// 2V messages each, every `renew`; in a hundred of them nothing else is sent that counts.
#[test]
fn a_renewal_takes_two_messages_a_voter_and_nothing_else_happens() {
    for (caller, others) in [(0, 4), (8, 5)] {
        let (mut scenario, options) = called(9, 5, caller);
        scenario.until = Some(time(1_005));
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(1_005));
        // Noted at 2, renewed at 12, 22, …, 1002.
        assert_eq!((sent(&world, "Renew"), sent(&world, "Renewed")), (100 * others, 100 * others));
        let stated = stated("a renewal", 9);
        assert_eq!(2 * others, if caller == 0 { *stated.start() } else { *stated.end() });
        assert_eq!(counted(&world), 4 * others);
        assert_eq!(world.ledger().leaderships.len(), 1);
    }
}

/// Release, Vacant, and to be elected: 6V messages and 6 delays, "constant per handover, not linear", for 1,000
/// candidates of one name as for 10; likewise where the leader dies, but for the release.
#[test]
fn a_handover_takes_six_messages_a_voter_however_many_wait() {
    for members in [10, 100, 1_000] {
        let (mut scenario, options) = called(members, 5, members - 1);
        scenario.commands = vec![(time(200), members - 1, Command::Resign.to_string())];
        scenario.plan = vec![(time(300), Fault::Crash(members - 2))];
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(199));
        assert_eq!((counted(&world), leaders(&world)), (4 * 5, vec![members as u64]), "{members}");
        world.run(time(299));
        assert_eq!(
            (counted(&world), leaders(&world)),
            (4 * 5 + 6 * 5, vec![members as u64 - 1]),
            "{members}"
        );
        assert_eq!(world.ledger().leaderships[1].from, time(206), "{members}");
        world.run(time(399));
        assert_eq!(counted(&world), 4 * 5 + 6 * 5 + 5 * 5, "{members}");
        assert_eq!(leaders(&world), [members as u64], "it stood back for a while, and is the best again");
        let (died, next) = (time(300), world.ledger().leaderships[2].from);
        assert!(next.since(died) <= Span::from_millis(30 + 1 + 5), "a ttl, and five messages: {next}");
        assert_eq!(world.ledger().violations, []);
    }
}

/// The cost of an operation in a group of this size, by the contract.
fn stated(what: &str, members: usize) -> std::ops::RangeInclusive<u64> {
    let upkeep = QuorumLease::CONTRACT.upkeep.iter().find(|expense| expense.operation == what);
    let messages = upkeep.expect("the contract speaks of it").messages;
    (messages.best.of)(members as u64)..=(messages.worst.of)(members as u64)
}

/// The number of messages of a handover from `leader` to `next`.
fn succession(members: usize, what: &str, leader: usize, next: usize) -> u64 {
    let (mut scenario, options) = called(members, 5, leader);
    // The successor is the best of all, and so the first in every queue.
    scenario.ranking = Ranking::Listed(vec![(NodeId(next as u64 + 1), 1_000)]);
    let at = time(200);
    match what {
        "a handover by release" => scenario.commands = vec![(at, leader, Command::Resign.to_string())],
        "a handover by transfer" => {
            scenario.ranking = Ranking::LowestId;
            scenario.commands = vec![(at, leader, Command::Transfer(NodeId(next as u64 + 1)).to_string())];
        }
        // The leader is paused for so long that its lease expires.
        _ => scenario.plan = vec![(at, Fault::Pause(leader, time(280)))],
    }
    let mut world = scenario.world::<QuorumLease>(&options);
    world.run(time(199));
    assert_eq!(leaders(&world), [leader as u64 + 1]);
    let before = counted(&world);
    world.run(time(260));
    assert_eq!(leaders(&world), [next as u64 + 1], "{members} {what} {leader} {next}");
    assert_eq!(world.ledger().violations, []);
    counted(&world) - before
}

/// Every handover between any two members costs what the contract says, and both ends of that occur.
#[test]
fn handovers_cost_what_the_contract_says() {
    for members in 2..=9 {
        for what in ["a handover by release", "a handover by transfer", "a handover by expiry"] {
            let pairs = (0..members).flat_map(|leader| (0..members).map(move |next| (leader, next)));
            let pairs = pairs.filter(|(leader, next)| leader != next);
            let voter = |slot: usize| u64::from(slot < 5);
            let costs: Vec<u64> = pairs
                .filter(|&(leader, _)| what != "a handover by expiry" || leader >= 5)
                .map(|(leader, next)| {
                    let cost = succession(members, what, leader, next);
                    let released = u64::from(what != "a handover by expiry");
                    let voters = members.min(5) as u64;
                    let expected = released * (voters - voter(leader)) + 5 * (voters - voter(next));
                    assert_eq!(cost, expected, "{members} {what} {leader} {next}");
                    cost
                })
                .collect();
            let stated = stated(what, members);
            assert!(costs.iter().all(|cost| stated.contains(cost)), "{members} {what} {costs:?} {stated:?}");
            // The lease of a paused leader expires; here, of one that does not vote.
            if what != "a handover by expiry" || members >= 7 {
                let ends = (costs.iter().min(), costs.iter().max());
                assert_eq!(ends, (Some(stated.start()), Some(stated.end())), "{members} {what}");
            }
        }
    }
}

/// A thousand processes start at once without a command: voters wake one after the other, and only one contends.
#[test]
fn a_cold_start_of_a_thousand_is_no_herd() {
    for seed in 0..20 {
        let mut scenario = Scenario::new(Roster::numbered(1_000));
        scenario.seed = seed;
        scenario.ranking = Ranking::Random;
        let mut world = scenario.world::<QuorumLease>(&Options::default());
        world.run(time(40));
        assert_eq!(leaders(&world).len(), 1, "seed {seed}");
        assert!(counted(&world) <= 100, "seed {seed}: {}", counted(&world));
    }
}

/// "Duels end by randomised back-off in a bounded expected number of rounds": all call at once, and again and
/// again. The mean of 2,000 runs is known to a tenth of a delay, so the bound has a large margin.
#[test]
fn duels_end_soon() {
    let (mut total, mut worst) = (0.0, 0.0_f64);
    for seed in 0..2_000 {
        let mut scenario = Scenario::new(Roster::numbered(5));
        scenario.seed = seed;
        scenario.initiators = (0..5).collect();
        scenario.until = Some(time(400));
        let mut world = scenario.world::<QuorumLease>(&Options::default());
        world.run(time(400));
        let took = world.ledger().leaderships[0].from.as_units();
        assert_eq!(world.ledger().leaderships.len(), 1, "seed {seed}");
        (total, worst) = (total + took, worst.max(took));
    }
    println!("five that call at once: {} delays on average, {worst} at most", total / 2_000.0);
    assert!(total / 2_000.0 < 40.0 && worst < 150.0, "{total} {worst}");
}

/// The leader names its successor. If the successor is dead, the best other candidate is next after a gap.
#[test]
fn a_transfer_is_quick_and_so_is_its_fall_back() {
    for (dead, next, after) in [(false, 7, 6), (true, 9, 12)] {
        let (mut scenario, options) = called(9, 3, 3);
        if dead {
            scenario.plan = vec![(time(99), Fault::Crash(6))];
        }
        scenario.commands = vec![(time(100), 3, Command::Transfer(NodeId(7)).to_string())];
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(150));
        let period = world.ledger().leaderships[1];
        assert_eq!((period.leader.0, period.from), (next, time(100 + after)));
        assert_eq!(world.ledger().violations, []);
    }
}

/// "Hysteresis, so that a flapping favourite does not cause flapping." 9 is the best and comes and goes: as long
/// as it does not stay for the fail-back delay it never leads, and when it does it gets it once.
#[test]
fn a_favourite_that_comes_and_goes_does_not_lead_until_it_stays() {
    for seed in 0..seeds() / 10 {
        let (mut scenario, options) = called(9, 3, 7);
        scenario.seed = seed;
        let options = Options { failback: Some(100), ..options };
        scenario.crashed = vec![8];
        for cycle in 0..6 {
            let back = time(50 + 100 * cycle);
            scenario.plan.push((back, Fault::Recover { slot: 8, disk: true }));
            if cycle < 5 {
                scenario.plan.push((back + Span::from_millis(80), Fault::Crash(8)));
            }
        }
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(550 + 99));
        assert_eq!((leaders(&world), world.ledger().leaderships.len()), (vec![8], 1), "seed {seed}");
        world.run(time(550 + 100 + 60));
        assert_eq!((leaders(&world), world.ledger().leaderships.len()), (vec![9], 2), "seed {seed}");
        world.run(time(1_000));
        assert_eq!((leaders(&world), world.ledger().leaderships.len()), (vec![9], 2), "seed {seed}");
        assert_eq!(world.ledger().violations, [], "seed {seed}");
    }
}

/// Without `failback`, and among candidates of equal rank, nobody claims another's lease.
#[test]
fn nobody_is_asked_to_hand_over_without_need() {
    let equal = Ranking::Listed((1..=9).map(|id| (NodeId(id), 7 as Attribute)).collect());
    for (ranking, failback) in [(Ranking::Id, None), (equal, Some(50))] {
        let (mut scenario, options) = called(9, 3, 0);
        scenario.ranking = ranking;
        let mut world = scenario.world::<QuorumLease>(&Options { failback, ..options });
        world.run(time(1_000));
        assert_eq!((leaders(&world), world.ledger().leaderships.len()), (vec![1], 1));
        assert_eq!(sent(&world, "Claim"), 0);
    }
}

/// "No starvation within a rank": whoever leads lets go again and again, and of six that are as good as each other
/// nobody is left out. Voters keep them in the order in which they came, and who has led goes to the end; so each
/// leads once in six leaderships, and twice six leave room for voters whose queues began in different orders.
#[test]
fn among_equals_everybody_gets_a_turn() {
    for seed in 0..seeds() / 20 {
        let mut scenario = Scenario::new(Roster::numbered(9));
        scenario.seed = seed;
        scenario.ranking = Ranking::Listed((1..=9).map(|id| (NodeId(id), 7 as Attribute)).collect());
        scenario.until = Some(time(6_000));
        scenario.commands = (1..60)
            .flat_map(|turn| (3..9).map(move |slot| (time(100 * turn), slot, Command::Resign.to_string())))
            .collect();
        let options = Options { voters: 3, candidates: Some(6), ..Options::default() };
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(6_000));
        let leaderships: Vec<u64> = world.ledger().leaderships.iter().map(|period| period.leader.0).collect();
        assert!(leaderships.len() >= 55, "seed {seed}: {leaderships:?}");
        for (place, turns) in leaderships.windows(12).enumerate() {
            let missing: Vec<u64> = (4..=9).filter(|id| !turns.contains(id)).collect();
            assert_eq!(missing, [0; 0], "seed {seed}: left out from period {place} on, {turns:?}");
        }
    }
}
