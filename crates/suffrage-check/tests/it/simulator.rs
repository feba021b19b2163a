//! The same processes as in the simulator: on the same schedule, they do the same.

use std::collections::BTreeMap;

use stateright::Model;
use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_algorithms::modified_bully::ModifiedBully;
use suffrage_check::{Bounds, Clocks, Rates, Step, Universe, World};
use suffrage_core::{Algorithm, Effect, Message as _, NodeId, Roster, Span};
use suffrage_sim::{Scenario, runner};

/// What comes next where every message takes exactly a tick and timers are on time: what is due arrives first.
fn prompt<A: Algorithm>(universe: &Universe<A>, world: &World<A>, tick: u8) -> Option<Step> {
    let arrives = world.letters().position(|letter| letter.due <= tick).map(Step::Deliver);
    let mut possible = Vec::new();
    universe.actions(world, &mut possible);
    let timer = possible.iter().copied().find(|step| matches!(step, Step::RunOut(..)));
    let waits =
        world.letters().len() > 0 || world.nodes().any(|node| node.timers.iter().any(Option::is_some));
    arrives.or(timer).or(waits.then_some(Step::Tick))
}

/// How many messages of each kind one election takes, called by the first, and in whom each process believes.
fn checked<A: Algorithm>(nodes: usize) -> (BTreeMap<&'static str, u64>, Vec<Option<NodeId>>) {
    let clocks =
        Clocks::True { tick: Span::UNIT, ticks: 200, drift: 0, rates: Rates::Opposed, synchronous: true };
    let bounds = Bounds { nodes, candidates: nodes, clocks, ..Bounds::usual(&A::CONTRACT, None) };
    let universe = Universe::<A>::new(A::Options::default(), bounds);
    let mut world = universe.init_states().remove(0);
    let (mut step, mut tick, mut counts) = (Step::Campaign(0), 0, BTreeMap::new());
    loop {
        tick += u8::from(step == Step::Tick);
        let (next, effects) = universe.take(&world, step).expect("something comes of every step");
        for effect in effects {
            if let Effect::Send { message, .. } = effect {
                *counts.entry(A::Message::KINDS[message.kind()].name).or_default() += 1;
            }
        }
        world = next;
        match prompt(&universe, &world, tick) {
            Some(next) => step = next,
            None => return (counts, world.nodes().map(|node| node.belief.leader()).collect()),
        }
    }
}

fn compare<A: Algorithm>() {
    for nodes in 2..=5 {
        let scenario = Scenario { initiators: vec![0], ..Scenario::new(Roster::numbered(nodes)) };
        let outcome = runner(A::CONTRACT.name, &[]).expect("nothing is set").run(&scenario);
        let (counts, beliefs) = checked::<A>(nodes);
        let simulated = outcome.messages.by_kind.into_iter().chain(outcome.messages.apart);
        let simulated: BTreeMap<_, _> = simulated.filter(|&(_, count)| count > 0).collect();
        assert_eq!(counts, simulated, "{} of {nodes}", A::CONTRACT.name);
        assert!(outcome.agreed && beliefs.iter().all(|&leader| leader == outcome.leader), "{beliefs:?}");
    }
}

#[test]
fn processes_do_here_what_they_do_in_the_simulator() {
    compare::<Bully>();
    compare::<ModifiedBully>();
    compare::<ChangRoberts>();
}
