//! The model checker runs the same processes as the simulator: the same schedule gives the same messages.

use std::collections::BTreeMap;

use stateright::Model;
use suffrage_algorithms::bully::Bully;
use suffrage_algorithms::chang_roberts::ChangRoberts;
use suffrage_algorithms::modified_bully::ModifiedBully;
use suffrage_check::{Bounds, Clocks, ElectionModel, ModelState, Rates, Step};
use suffrage_core::{Algorithm, Effect, Message as _, NodeId, Roster, Span};
use suffrage_sim::{Scenario, runner};

/// The next step if every message takes exactly one tick and timers are on time. Messages arrive before timers fire.
fn next_step_on_time<A: Algorithm>(
    model: &ElectionModel<A>,
    state: &ModelState<A>,
    tick: u8,
) -> Option<Step> {
    let arrives = state.envelopes().position(|envelope| envelope.due <= tick).map(Step::Deliver);
    let mut possible = Vec::new();
    model.actions(state, &mut possible);
    let timer = possible.iter().copied().find(|step| matches!(step, Step::Timeout(..)));
    let waits =
        state.envelopes().len() > 0 || state.nodes().any(|node| node.timers.iter().any(Option::is_some));
    arrives.or(timer).or(waits.then_some(Step::Tick))
}

/// The number of messages of each kind in one election that the first process calls, and the leader that each process
/// believes in.
fn run_in_model<A: Algorithm>(nodes: usize) -> (BTreeMap<&'static str, u64>, Vec<Option<NodeId>>) {
    let clocks =
        Clocks::True { tick: Span::UNIT, ticks: 200, drift: 0, rates: Rates::Opposed, synchronous: true };
    let bounds = Bounds { nodes, candidates: nodes, clocks, ..Bounds::usual(&A::CONTRACT, None) };
    let model = ElectionModel::<A>::new(A::Options::default(), bounds);
    let mut state = model.init_states().remove(0);
    let (mut step, mut tick, mut counts) = (Step::Campaign(0), 0, BTreeMap::new());
    loop {
        tick += u8::from(step == Step::Tick);
        let (next, effects) = model.apply(&state, step).expect("every step changes the state");
        for effect in effects {
            if let Effect::Send { message, .. } = effect {
                *counts.entry(A::Message::KINDS[message.kind()].name).or_default() += 1;
            }
        }
        state = next;
        match next_step_on_time(&model, &state, tick) {
            Some(next) => step = next,
            None => return (counts, state.nodes().map(|node| node.belief.leader()).collect()),
        }
    }
}

fn compare<A: Algorithm>() {
    for nodes in 2..=5 {
        let scenario = Scenario { initiators: vec![0], ..Scenario::new(Roster::numbered(nodes)) };
        let outcome = runner(A::CONTRACT.name, &[]).expect("there are no settings to refuse").run(&scenario);
        let (counts, beliefs) = run_in_model::<A>(nodes);
        let simulated = outcome.messages.by_kind.into_iter().chain(outcome.messages.uncounted);
        let simulated: BTreeMap<_, _> = simulated.filter(|&(_, count)| count > 0).collect();
        assert_eq!(counts, simulated, "{} of {nodes}", A::CONTRACT.name);
        assert!(outcome.agreed && beliefs.iter().all(|&leader| leader == outcome.leader), "{beliefs:?}");
    }
}

#[test]
fn processes_send_the_same_messages_as_in_the_simulator() {
    compare::<Bully>();
    compare::<ModifiedBully>();
    compare::<ChangRoberts>();
}
