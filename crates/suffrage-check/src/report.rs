//! Searches a model, and reports the result.

use std::time::Duration;

use serde::Serialize;
use stateright::{Checker, HasDiscoveries, Model as _};
use suffrage_core::Algorithm;

use crate::{Bounds, Claim, ElectionModel, ScheduleEvent, schedule, trace};

/// The limits of a search.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// The greatest number of steps from an initial state.
    pub depth: Option<usize>,
    /// About the greatest number of visits; a state that is reached twice counts twice.
    pub states: Option<usize>,
}

/// The progress of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchProgress {
    /// The number of different states found so far.
    pub states: usize,
    /// The number of steps from an initial state to the farthest of them.
    pub depth: usize,
}

/// The result of a search.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct CheckReport {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The bounds of the model.
    pub bounds: Bounds,
    /// The number of different states.
    pub states: usize,
    /// The number of visits; a state that is reached twice counts twice.
    pub visits: usize,
    /// The number of steps from an initial state to the farthest visited state.
    pub depth: usize,
    /// The part of the model that was searched.
    pub extent: Extent,
    /// The result for each claim.
    pub verdicts: Vec<Verdict>,
}

/// The part of a model that was searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Extent {
    /// All states within the bounds.
    Exhausted,
    /// All states within the given number of steps. There are more.
    CutByDepth,
    /// The nearest states, until the number of visits reached its limit.
    CutByStates,
    /// The nearest states, until a claim was violated.
    Stopped,
}

/// The result for one claim.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Verdict {
    /// The claim.
    pub claim: Claim,
    /// The claim as a phrase.
    pub name: &'static str,
    /// The outcome.
    pub outcome: ClaimOutcome,
    /// True if the algorithm's contract promises the claim in every schedule.
    pub promised: bool,
    /// The shortest schedule to a state that shows or violates the claim, one step a line.
    pub schedule: Vec<String>,
    /// The events of that schedule.
    #[serde(skip)]
    pub trace: Vec<ScheduleEvent>,
    /// The reason why the state violates the claim.
    pub explanation: Option<String>,
}

/// The outcome of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClaimOutcome {
    /// The claim held in every visited state.
    Held,
    /// The claim was violated.
    Broken,
    /// Some visited state shows the claim.
    Seen,
    /// No visited state shows the claim: the bounds or the limits of the search are too small.
    Unseen,
}

impl CheckReport {
    /// The first claim that was violated.
    pub fn broken(&self) -> Option<&Verdict> {
        self.verdicts.iter().find(|verdict| verdict.outcome == ClaimOutcome::Broken)
    }

    /// The outcome of this claim.
    pub fn outcome(&self, claim: Claim) -> Option<ClaimOutcome> {
        self.verdicts.iter().find(|verdict| verdict.claim == claim).map(|verdict| verdict.outcome)
    }
}

/// Searches all states of a model, the nearest first, until a claim is violated. Calls `on_progress` every 2 ms.
pub fn check<A: Algorithm>(
    model: ElectionModel<A>,
    limits: Limits,
    on_progress: &mut dyn FnMut(SearchProgress),
) -> CheckReport {
    // In stateright, initial states have depth 1, and states at the greatest depth are not checked.
    let mut builder = model.checker().finish_when(HasDiscoveries::AnyFailures);
    if let Some(depth) = limits.depth {
        builder = builder.target_max_depth(depth + 2);
    }
    if let Some(states) = limits.states {
        builder = builder.target_state_count(states);
    }
    let mut checker = builder.spawn_bfs();
    wait_for(&mut checker, on_progress);
    report(&checker, limits)
}

#[allow(clippy::disallowed_methods, reason = "the polling interval does not change the result")]
fn wait_for<A: Algorithm>(
    checker: &mut impl Checker<ElectionModel<A>>,
    on_progress: &mut dyn FnMut(SearchProgress),
) {
    const POLL_INTERVAL: Duration = Duration::from_millis(2);
    for worker in checker.handles() {
        while !worker.is_finished() {
            std::thread::sleep(POLL_INTERVAL);
            on_progress(SearchProgress {
                states: checker.unique_state_count(),
                depth: steps(checker.max_depth()),
            });
        }
        if let Err(panic) = worker.join() {
            std::panic::resume_unwind(panic);
        }
    }
}

/// The number of steps from an initial state to a state of this depth.
fn steps(depth: usize) -> usize {
    depth.saturating_sub(1)
}

fn report<A: Algorithm>(checker: &impl Checker<ElectionModel<A>>, limits: Limits) -> CheckReport {
    let model = checker.model();
    let discoveries = checker.discoveries();
    let verdict = |&claim: &Claim| {
        let path = discoveries.get(claim.name());
        let (mut lines, mut trace, mut explanation) = (Vec::new(), Vec::new(), None);
        if let Some(path) = path {
            let steps = path.clone().into_vec();
            let taken = steps.iter().filter_map(|(state, step)| Some((state, (*step)?)));
            lines = taken.map(|(state, step)| schedule::line(model, state, step)).collect();
            trace = trace::events(model, &steps);
            explanation = claim.is_safety().then(|| schedule::explain(model, path.last_state(), claim));
        }
        let outcome = match (claim.is_safety(), path.is_some()) {
            (true, false) => ClaimOutcome::Held,
            (true, true) => ClaimOutcome::Broken,
            (false, true) => ClaimOutcome::Seen,
            (false, false) => ClaimOutcome::Unseen,
        };
        let promised = claim.is_promised(&A::CONTRACT);
        Verdict { claim, name: claim.name(), outcome, promised, schedule: lines, trace, explanation }
    };
    let verdicts: Vec<Verdict> = model.claims().iter().map(verdict).collect();
    let (depth, visits) = (steps(checker.max_depth()), checker.state_count());
    let extent = if verdicts.iter().any(|verdict| verdict.outcome == ClaimOutcome::Broken) {
        Extent::Stopped
    } else if limits.states.is_some_and(|most| visits >= most) {
        Extent::CutByStates
    } else if limits.depth.is_some_and(|most| depth > most) {
        Extent::CutByDepth
    } else {
        Extent::Exhausted
    };
    CheckReport {
        algorithm: A::CONTRACT.name,
        bounds: model.bounds().clone(),
        states: checker.unique_state_count(),
        visits,
        depth: limits.depth.map_or(depth, |most| depth.min(most)),
        extent,
        verdicts,
    }
}
