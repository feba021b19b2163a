//! A node that hands over and stands again yields to those who wait, whether it votes or not.

use suffrage_algorithms::quorum_lease::{Options, QuorumLease};
use suffrage_core::{NodeId, Roster, Span};
use suffrage_sim::{Latency, Scenario, World};

use crate::algorithms::quorum_lease::storm_scenarios::{leaders, time};

/// The moments at which the node in slot 3 releases and stands again.
const TURNS: std::ops::Range<u64> = 1..40;

/// Five nodes, of which three vote. The node in slot 3, which does not, releases its lease and stands again every 20 units.
/// `others` says whether all others wait.
fn again_and_again(seed: u64, latency: Latency, loss: f64, others: bool) -> World<QuorumLease> {
    let mut scenario = Scenario::new(Roster::numbered(5));
    (scenario.seed, scenario.initiators) = (seed, vec![3]);
    (scenario.latency, scenario.loss) = (latency, loss);
    scenario.until = Some(time(20 * TURNS.end));
    let command = |at, slot, text: &str| (at, slot, text.to_string());
    scenario.commands = TURNS
        .flat_map(|turn| [command(time(20 * turn), 3, "release"), command(time(20 * turn), 3, "stand")])
        .collect();
    if !others {
        scenario.commands.extend([0, 1, 2, 4].map(|slot| command(time(0), slot, "withdraw")));
    }
    scenario.world::<QuorumLease>(&Options { voters: 3, ..Options::default() })
}

/// Delays with which messages overtake each other.
fn uniform() -> Latency {
    Latency::Uniform(Span::UNIT.scale(0.2), Span::UNIT)
}

/// A candidate that waits gets the lease when it is released, although the holder asks for it again at once. If messages are
/// lost or overtake each other, it gets the lease within eleven turns: a holder whose enquiry overtakes its own release finds
/// that it still holds the lease, and contends at once. That is so for holders that vote, too.
#[test]
fn a_holder_without_a_vote_that_leads_again_and_again_lets_others_lead() {
    for seed in 0..200 {
        for (latency, loss, end) in [(Latency::Const(Span::UNIT), 0.0, 39), (uniform(), 0.1, 239)] {
            let mut world = again_and_again(seed, latency, loss, true);
            world.run(time(19));
            assert!(loss > 0.0 || leaders(&world) == [4], "seed {seed}");
            world.run(time(end));
            let led = &world.ledger().leaderships;
            assert!(led.iter().any(|leadership| leadership.leader != NodeId(4)), "seed {seed}, loss {loss}");
            assert_eq!(world.ledger().violations, [], "seed {seed}, loss {loss}");
        }
    }
}

/// An election takes four messages of one unit at most, and a node that yields waits for longer.
#[test]
fn a_holder_without_a_vote_does_not_wait_if_nobody_else_does() {
    for seed in 0..200 {
        let mut world = again_and_again(seed, uniform(), 0.0, false);
        world.run(time(20 * TURNS.end));
        let led = &world.ledger().leaderships;
        assert_eq!(led.len() as u64, TURNS.end, "seed {seed}");
        for (turn, leadership) in led.iter().enumerate().skip(1) {
            let took = leadership.from.since(time(20 * turn as u64));
            assert!(took <= Span::from_millis(4), "seed {seed}: {took}");
        }
        assert_eq!(world.ledger().violations, [], "seed {seed}");
    }
}
