//! Looks at a whole universe, and tells what was found.

use std::time::Duration;

use serde::Serialize;
use stateright::{Checker, HasDiscoveries, Model as _};
use suffrage_core::Algorithm;

use crate::{Bounds, Claim, Universe, schedule};

/// How far to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// No farther than so many steps from the beginning.
    pub depth: Option<usize>,
    /// At about so many states, counted whenever one is come by.
    pub states: Option<usize>,
}

/// How far the search has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tally {
    /// How many states are known.
    pub states: usize,
    /// How many steps they are away.
    pub depth: usize,
}

/// What came of looking at a universe.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// How large the universe is.
    pub bounds: Bounds,
    /// How many different states are known.
    pub states: usize,
    /// How often a state was come by, known or not.
    pub visits: usize,
    /// How many steps the farthest state that was looked at is away from the beginning.
    pub depth: usize,
    /// How much was looked at.
    pub extent: Extent,
    /// What became of each claim.
    pub verdicts: Vec<Verdict>,
}

/// How much of a universe was looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// All that the bounds allow.
    Exhausted,
    /// All within the given number of steps; there is more.
    CutByDepth,
    /// The nearest, until there were too many.
    CutByStates,
    /// The nearest, until a claim was found to be broken.
    Stopped,
}

/// What became of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Verdict {
    /// Which.
    pub claim: Claim,
    /// In words.
    pub name: &'static str,
    /// What became of it.
    pub outcome: Outcome,
    /// Whether the algorithm's contract promises it, whatever happens.
    pub promised: bool,
    /// For what was seen or broken: the shortest way there, one step a line.
    pub schedule: Vec<String>,
    /// For what was broken: in what way.
    pub moral: Option<String>,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    /// Held in every state that was looked at.
    Held,
    /// Did not.
    Broken,
    /// Was seen.
    Seen,
    /// Was not: the universe is too small for it, or was not looked at far enough.
    Unseen,
}

impl Report {
    /// The first claim that must always hold and did not.
    pub fn broken(&self) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.outcome == Outcome::Broken)
    }

    /// What became of this claim.
    pub fn outcome(&self, claim: Claim) -> Option<Outcome> {
        self.verdicts.iter().find(|verdict| verdict.claim == claim).map(|verdict| verdict.outcome)
    }
}

/// Looks at all worlds of a universe, the nearest first, until a claim is broken, and tells now and then how far
/// it has come.
pub fn check<A: Algorithm>(universe: Universe<A>, limits: Limits, tell: &mut dyn FnMut(Tally)) -> Report {
    // Of stateright's depths, the beginning's is one, and the greatest is not looked at any more.
    let mut builder = universe.checker().finish_when(HasDiscoveries::AnyFailures);
    if let Some(depth) = limits.depth {
        builder = builder.target_max_depth(depth + 2);
    }
    if let Some(states) = limits.states {
        builder = builder.target_state_count(states);
    }
    let mut checker = builder.spawn_bfs();
    watch(&mut checker, tell);
    report(&checker, limits)
}

#[allow(clippy::disallowed_methods, reason = "when one looks is of no consequence to what is found")]
fn watch<A: Algorithm>(checker: &mut impl Checker<Universe<A>>, tell: &mut dyn FnMut(Tally)) {
    const MOMENT: Duration = Duration::from_millis(2);
    for worker in checker.handles() {
        while !worker.is_finished() {
            std::thread::sleep(MOMENT);
            tell(Tally { states: checker.unique_state_count(), depth: steps(checker.max_depth()) });
        }
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// How many steps away a state is that is this deep.
fn steps(depth: usize) -> usize {
    depth.saturating_sub(1)
}

fn report<A: Algorithm>(checker: &impl Checker<Universe<A>>, limits: Limits) -> Report {
    let universe = checker.model();
    let discoveries = checker.discoveries();
    let verdict = |&claim: &Claim| {
        let path = discoveries.get(claim.name());
        let (mut lines, mut moral) = (Vec::new(), None);
        if let Some(path) = path {
            let steps = path.clone().into_vec();
            let taken = steps.iter().filter_map(|(world, step)| Some((world, (*step)?)));
            lines = taken.map(|(world, step)| schedule::line(universe, world, step)).collect();
            moral = claim.is_safety().then(|| schedule::moral(universe, path.last_state(), claim));
        }
        let outcome = match (claim.is_safety(), path.is_some()) {
            (true, false) => Outcome::Held,
            (true, true) => Outcome::Broken,
            (false, true) => Outcome::Seen,
            (false, false) => Outcome::Unseen,
        };
        let promised = claim.is_promised(&A::CONTRACT);
        Verdict { claim, name: claim.name(), outcome, promised, schedule: lines, moral }
    };
    let verdicts: Vec<Verdict> = universe.claims().iter().map(verdict).collect();
    let (depth, visits) = (steps(checker.max_depth()), checker.state_count());
    let extent = if verdicts.iter().any(|verdict| verdict.outcome == Outcome::Broken) {
        Extent::Stopped
    } else if limits.states.is_some_and(|most| visits >= most) {
        Extent::CutByStates
    } else if limits.depth.is_some_and(|most| depth > most) {
        Extent::CutByDepth
    } else {
        Extent::Exhausted
    };
    Report {
        algorithm: A::CONTRACT.name,
        bounds: universe.bounds().clone(),
        states: checker.unique_state_count(),
        visits,
        depth: limits.depth.map_or(depth, |most| depth.min(most)),
        extent,
        verdicts,
    }
}
