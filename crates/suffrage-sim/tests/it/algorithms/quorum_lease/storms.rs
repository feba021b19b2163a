//! Storms, and the promises during and after them.

use suffrage_algorithms::quorum_lease::QuorumLease;
use suffrage_sim::invariants::FencedRegister;

use crate::algorithms::quorum_lease::storm_scenarios::{
    STORM_END, electable, leaders, reranked, storm_scenario, time,
};
use crate::algorithms::seeds;

/// The number of delay bounds after the last fault within which a process leads. A lease and the silence after a restart
/// end at the same time (`ttl`). A candidate that lost its place in the queue, or was defeated, returns (another `ttl`).
/// Each dead process in the queue costs a `gap`, and there may be a few duels.
const HEALED: u64 = 200;

/// The invariants of the contract hold in true time, with drifting clocks.
#[test]
fn never_two_leaders_tokens_increase_and_there_is_a_leader_soon_after() {
    let (mut leaderships, mut slowest) = (0, 0.0_f64);
    for seed in 0..seeds() {
        let (mut scenario, options) = storm_scenario(seed);
        if seed % 3 == 0 {
            reranked(&mut scenario);
        }
        let mut world = scenario.world::<QuorumLease>(&options);
        world.run(time(STORM_END));
        let mut waited = 0;
        while electable(&world, &options) && leaders(&world).is_empty() {
            waited += 1;
            assert!(waited <= HEALED, "seed {seed}: nobody leads");
            world.run(time(STORM_END) + scenario.latency.bound() * waited);
        }
        slowest = slowest.max(waited as f64);
        world.run(scenario.horizon());
        world.finish();
        assert_eq!(world.ledger().violations, [], "seed {seed}");
        leaderships += world.ledger().leaderships.len() as u64;
    }
    println!(
        "{leaderships} leaderships in {} storms; a leader at most {slowest} delays after the last",
        seeds()
    );
    assert!(leaderships > 2 * seeds(), "the storms change leaders: {leaderships}");
}

/// In the same storms a register that does not check tokens accepts writes of former leaders.
#[test]
fn a_register_without_fencing_accepts_delayed_writes() {
    let mut taken = 0;
    for seed in 0..200 {
        let (scenario, options) = storm_scenario(seed);
        let mut world = scenario.world::<QuorumLease>(&options);
        world.check(Box::new(FencedRegister::unfenced()));
        world.run(scenario.horizon());
        let violations = &world.ledger().violations;
        assert!(
            violations.iter().all(|it| it.invariant == "unfenced-register"),
            "seed {seed}: {violations:?}"
        );
        taken += usize::from(!violations.is_empty());
    }
    assert!(taken > 100, "only in {taken} of 200");
}
