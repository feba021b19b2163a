//! The result of a run.

use std::collections::BTreeSet;

use serde::{Serialize, Serializer};
use suffrage_core::{Algorithm, Figure, Kind, Member, NodeId, Time, Value};

use crate::{AgreementPeriod, Facts, Ledger, Traffic, Violation, World};

/// The result of a run. Times are in time units.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// The number of processes, dead or alive.
    pub nodes: usize,
    /// The seed of the run.
    pub seed: u64,
    /// The leader that all live processes believe in, if they agree.
    pub leader: Option<NodeId>,
    /// True if all live processes believe in the same live leader.
    pub agreed: bool,
    /// The leaders that live processes believe in.
    pub leaders: BTreeSet<NodeId>,
    /// The number of live processes that believe in no leader.
    pub undecided: usize,
    /// The messages.
    pub messages: Messages,
    /// The time of the last counted message that was handled, or of the last announcement.
    pub time: f64,
    /// The time of the last change of a belief, including a change of the term only.
    pub decided: f64,
    /// The time since which all live processes have believed in this leader; none if they do not agree.
    pub settled: Option<f64>,
    /// True if the event queue was empty when the run ended.
    pub quiet: bool,
    /// The number of leaderships that began.
    #[serde(rename = "leaderships")]
    pub leaderships: usize,
    /// The time for which no process believed itself the leader, up to the run's horizon.
    pub leaderless: f64,
    /// The time for which more than one process did, up to the run's horizon.
    pub split: f64,
    /// Suspicions of processes whose messages could arrive.
    pub wrong_suspicions: u64,
    /// Inputs handled.
    pub events: u64,
    /// The fingerprint of all events, in order.
    #[serde(serialize_with = "as_hex")]
    pub trace_hash: u64,
    /// Violations of the contract's promises.
    pub violations: Vec<Violation>,
    /// The periods in which all live processes believed in the same live leader.
    #[serde(skip)]
    pub agreements: Vec<AgreementPeriod>,
    /// The measurements from [`Scenario::window`](crate::Scenario::window) on, if it is set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// The algorithm's own measurements.
    #[serde(serialize_with = "as_values", skip_serializing_if = "Vec::is_empty")]
    pub figures: Vec<Figure>,
}

/// The measurements from a moment to the run's horizon.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Window {
    /// The moment.
    pub from: f64,
    /// The horizon.
    pub to: f64,
    /// The traffic before the window.
    pub before: Traffic,
    /// The traffic in the window.
    pub sent: Traffic,
    /// The time for which no process believed itself the leader.
    pub leaderless: f64,
    /// The time for which more than one process did.
    pub split: f64,
    /// The time for which all live processes believed in the same live leader.
    pub agreement: f64,
    /// Suspicions of processes whose messages could arrive.
    pub wrong_suspicions: u64,
    /// The number of leaderships that began.
    #[serde(rename = "leaderships")]
    pub leaderships: usize,
}

/// The counts of the ledger at the start of a window.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WindowStart {
    from: Time,
    sent: Traffic,
    wrong_suspicions: u64,
    leaderships: usize,
}

impl WindowStart {
    /// The ledger at the first moment of a window.
    pub(crate) fn of(ledger: &Ledger, from: Time) -> WindowStart {
        WindowStart {
            from,
            sent: ledger.traffic(),
            wrong_suspicions: ledger.wrong_suspicions,
            leaderships: ledger.leaderships.len(),
        }
    }

    pub(crate) fn window(self, ledger: &Ledger, horizon: Time) -> Window {
        let (from, to) = (self.from.as_units(), horizon.as_units());
        let leaderships = ledger.leaderships.iter().map(|period| (period.from, period.to));
        let agreements = ledger.agreements.iter().map(|agreement| (agreement.from, agreement.to));
        let [leaderless, _, split] = coverage(leaderships, from, to);
        Window {
            from,
            to,
            before: self.sent,
            sent: ledger.traffic() - self.sent,
            leaderless,
            split,
            agreement: coverage(agreements, from, to)[1],
            wrong_suspicions: ledger.wrong_suspicions - self.wrong_suspicions,
            leaderships: ledger.leaderships.len() - self.leaderships,
        }
    }
}

/// The messages of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// Counted messages, without multicasts.
    pub total: u64,
    /// Counted messages by kind, without multicasts.
    #[serde(serialize_with = "as_map")]
    pub by_kind: Vec<(&'static str, u64)>,
    /// Messages that the source leaves out of its count, by kind. A multicast counts once.
    #[serde(serialize_with = "as_map")]
    pub uncounted: Vec<(&'static str, u64)>,
    /// Counted multicasts, each once.
    pub multicasts: u64,
    /// All messages; a multicast counts once for each addressee.
    pub sent: u64,
    /// The bytes of all messages to each addressee in the wire format, if bytes were counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Messages that never arrived.
    pub undelivered: u64,
}

impl Messages {
    /// The number of messages of a kind.
    pub fn of(&self, kind: &str) -> u64 {
        self.by_kind
            .iter()
            .chain(&self.uncounted)
            .find(|(name, _)| *name == kind)
            .map_or(0, |(_, count)| *count)
    }
}

impl Outcome {
    /// The result of a run of this algorithm, which sends these kinds of messages. A world that has fallen quiet keeps
    /// its state up to the horizon.
    pub(crate) fn of(
        algorithm: &'static str,
        kinds: &'static [Kind],
        facts: &Facts<'_>,
        weighed: bool,
        horizon: Time,
    ) -> Outcome {
        let (roster, ledger) = (facts.roster(), facts.ledger);
        let believed: BTreeSet<Option<NodeId>> =
            facts.up().map(|slot| facts.belief(slot).map(|belief| belief.leader)).collect();
        let common = if believed.len() == 1 { believed.iter().next().copied().flatten() } else { None };
        let leader = common.filter(|&leader| roster.slot(leader).is_some_and(|slot| facts.is_up(slot)));
        let kinds = kinds.iter().zip(ledger.sent.iter().zip(&ledger.multicasts));
        let kinds_of = |counted| kinds.clone().filter(move |(kind, _)| kind.counted == counted);
        let leaderships = ledger.leaderships.iter().map(|period| (period.from, period.to));
        let [leaderless, _, split] = coverage(leaderships, 0.0, horizon.as_units());
        let settled = ledger.agreements.last().filter(|agreement| agreement.to.is_none());
        Outcome {
            algorithm,
            nodes: roster.len(),
            seed: 0,
            leader,
            agreed: leader.is_some(),
            undecided: facts.up().filter(|&slot| facts.belief(slot).is_none()).count(),
            leaders: believed.into_iter().flatten().collect(),
            messages: Messages {
                sent: ledger.traffic().messages,
                bytes: weighed.then_some(ledger.bytes),
                total: kinds_of(true).map(|(_, (sent, _))| sent).sum(),
                by_kind: kinds_of(true).map(|(kind, (sent, _))| (kind.name, *sent)).collect(),
                uncounted: kinds_of(false).map(|(kind, (sent, all))| (kind.name, sent + all)).collect(),
                multicasts: kinds_of(true).map(|(_, (_, all))| all).sum(),
                undelivered: ledger.lost + ledger.cut + ledger.dead + ledger.unknown_receiver,
            },
            time: ledger.active.as_units(),
            decided: ledger.decided.as_units(),
            settled: settled.map(|agreement| agreement.from.as_units()),
            quiet: false,
            leaderships: ledger.leaderships.len(),
            leaderless,
            split,
            wrong_suspicions: ledger.wrong_suspicions,
            events: ledger.events,
            trace_hash: ledger.trace_hash(),
            violations: ledger.violations.clone(),
            agreements: ledger.agreements.clone(),
            window: None,
            figures: Vec::new(),
        }
    }
}

pub(crate) fn figures<A: Algorithm>(world: &World<A>, options: &A::Options) -> Vec<Figure> {
    A::figures(options, &mut members(world))
}

/// The promise of this algorithm that is broken at the end of a run: see [`Algorithm::broken_promise`].
pub(crate) fn broken_promise<A: Algorithm>(world: &World<A>, options: &A::Options) -> Option<String> {
    let (facts, roster) = (world.facts(), world.roster());
    let connected = |a, b| match (roster.slot(a), roster.slot(b)) {
        (Some(a), Some(b)) => facts.connected(a, b),
        _ => false,
    };
    A::broken_promise(options, &mut members(world), world.environment.state.delay_bound, &connected)
}

fn members<A: Algorithm>(world: &World<A>) -> impl Iterator<Item = Member<'_, A>> {
    let facts = world.facts();
    (0..world.roster().len()).map(move |slot| Member {
        id: world.roster().id(slot),
        up: facts.is_up(slot),
        leader: facts.belief(slot).map(|belief| belief.leader),
        process: world.process(slot),
    })
}

/// The time between two moments that is covered by no span, by one, and by several. A span without an end is open.
fn coverage(spans: impl Iterator<Item = (Time, Option<Time>)>, from: f64, to: f64) -> [f64; 3] {
    let mut turns: Vec<(f64, i32)> = vec![(to, 0)];
    for (begin, end) in spans {
        turns.push((begin.as_units().clamp(from, to), 1));
        turns.push((end.map_or(to, |end| end.as_units()).clamp(from, to), -1));
    }
    turns.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    let (mut lengths, mut spans, mut since) = ([0.0; 3], 0, from);
    for (at, change) in turns {
        lengths[spans.clamp(0, 2) as usize] += at - since;
        spans += change;
        since = at;
    }
    lengths
}

fn as_hex<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{hash:016x}"))
}

fn as_map<S: Serializer>(counts: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().copied())
}

fn as_values<S: Serializer>(figures: &[Figure], serializer: S) -> Result<S::Ok, S::Error> {
    #[derive(Serialize)]
    #[serde(untagged)]
    enum Number {
        Share(bool),
        Amount(f64),
    }
    serializer.collect_map(figures.iter().map(|Figure { name, value }| match *value {
        Value::Share(held) => (name, Number::Share(held)),
        Value::Amount(amount) => (name, Number::Amount(amount)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_and_with_several_leaders() {
        let time = |units: u64| units.to_string().parse::<Time>().unwrap();
        let spans = |spans: &[(u64, Option<u64>)], from, to| {
            coverage(spans.iter().map(|&(begin, end)| (time(begin), end.map(time))), from, to)
        };
        assert_eq!(spans(&[], 0.0, 5.0), [5.0, 0.0, 0.0]);
        let some = [(1, Some(3)), (2, Some(4)), (7, None)];
        assert_eq!(spans(&some, 0.0, 10.0), [1.0 + 3.0, 1.0 + 1.0 + 3.0, 1.0]);
        assert_eq!(spans(&some, 2.5, 10.0), [3.0, 1.0 + 3.0, 0.5], "time before the window does not count");
        assert_eq!(spans(&some, 8.0, 10.0), [0.0, 2.0, 0.0]);
        assert_eq!(spans(&[(0, None), (0, None), (0, None)], 0.0, 2.0), [0.0, 0.0, 2.0]);
    }
}
