//! What came of a run.

use std::collections::BTreeSet;

use election::{Algorithm, Message as _, NodeId, Time};
use serde::{Serialize, Serializer};

use crate::{End, Reign, Violation, World};

/// What came of a run. Times are in time units.
#[derive(Clone, Debug, Serialize)]
pub struct Outcome {
    /// The algorithm's name.
    pub algorithm: &'static str,
    /// How many processes there were, dead or alive.
    pub nodes: usize,
    /// What decided the run.
    pub seed: u64,
    /// The leader that all live processes believe in, if they agree.
    pub leader: Option<NodeId>,
    /// Whether all live processes believe in the same leader, and it lives.
    pub agreed: bool,
    /// The leaders that live processes believe in.
    pub leaders: BTreeSet<NodeId>,
    /// How many live processes believe in no leader.
    pub undecided: usize,
    /// What was sent.
    pub messages: Messages,
    /// When the last message that counts was handled, or the last announcement made.
    pub time: f64,
    /// When the last belief changed.
    pub decided: f64,
    /// Whether nothing was left to happen when the run ended.
    pub quiet: bool,
    /// How often somebody began to lead.
    pub reigns: usize,
    /// For how long nobody believed to lead, up to the run's horizon.
    pub leaderless: f64,
    /// For how long more than one did, up to the run's horizon.
    pub split: f64,
    /// Suspicions of processes that could be heard.
    pub wrong_suspicions: u64,
    /// Inputs handled.
    pub events: u64,
    /// The fingerprint of everything that happened.
    #[serde(serialize_with = "as_hex")]
    pub trace_hash: u64,
    /// Promises of the contract that were broken.
    pub violations: Vec<Violation>,
}

/// What was sent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Messages {
    /// Messages that count, to one addressee each.
    pub total: u64,
    /// The same by kind.
    #[serde(serialize_with = "as_map")]
    pub by_kind: Vec<(&'static str, u64)>,
    /// Messages that the source leaves out of its count, by kind. One to everybody counts once.
    #[serde(serialize_with = "as_map")]
    pub apart: Vec<(&'static str, u64)>,
    /// Messages to everybody that count, each once.
    pub multicasts: u64,
    /// Messages that never arrived.
    pub undelivered: u64,
}

impl Messages {
    /// How many of a kind were sent.
    pub fn of(&self, kind: &str) -> u64 {
        self.by_kind.iter().chain(&self.apart).find(|(name, _)| *name == kind).map_or(0, |(_, count)| *count)
    }
}

impl Outcome {
    /// The horizon is how long a world that has fallen quiet stays as it is.
    pub(crate) fn of<A: Algorithm>(world: &World<A>, seed: u64, end: End, horizon: Time) -> Outcome {
        let (facts, ledger) = (world.facts(), world.ledger());
        let believed: BTreeSet<Option<NodeId>> =
            facts.up().map(|slot| facts.belief(slot).map(|belief| belief.leader)).collect();
        let common = if believed.len() == 1 { believed.iter().next().copied().flatten() } else { None };
        let leader =
            common.filter(|&leader| world.roster().slot(leader).is_some_and(|slot| facts.is_up(slot)));
        let kinds = A::Message::KINDS.iter().zip(ledger.sent.iter().zip(&ledger.multicasts));
        let kinds_of = |counted| kinds.clone().filter(move |(kind, _)| kind.counted == counted);
        let (leaderless, split) = coverage(&ledger.reigns, horizon.as_units());
        Outcome {
            algorithm: A::CONTRACT.name,
            nodes: world.roster().len(),
            seed,
            leader,
            agreed: leader.is_some(),
            undecided: facts.up().filter(|&slot| facts.belief(slot).is_none()).count(),
            leaders: believed.into_iter().flatten().collect(),
            messages: Messages {
                total: kinds_of(true).map(|(_, (sent, _))| sent).sum(),
                by_kind: kinds_of(true).map(|(kind, (sent, _))| (kind.name, *sent)).collect(),
                apart: kinds_of(false).map(|(kind, (sent, all))| (kind.name, sent + all)).collect(),
                multicasts: kinds_of(true).map(|(_, (_, all))| all).sum(),
                undelivered: ledger.lost + ledger.cut + ledger.dead + ledger.strange,
            },
            time: ledger.active.as_units(),
            decided: ledger.decided.as_units(),
            quiet: end == End::Quiet,
            reigns: ledger.reigns.len(),
            leaderless,
            split,
            wrong_suspicions: ledger.wrong_suspicions,
            events: ledger.events,
            trace_hash: ledger.trace_hash(),
            violations: ledger.violations.clone(),
        }
    }
}

/// For how long there was no reign, and for how long more than one, up to `end`.
fn coverage(reigns: &[Reign], end: f64) -> (f64, f64) {
    let mut turns: Vec<(f64, i32)> = Vec::with_capacity(2 * reigns.len() + 1);
    for reign in reigns {
        turns.push((reign.from.as_units(), 1));
        turns.push((reign.to.map_or(end, |to| to.as_units()), -1));
    }
    turns.push((end, 0));
    turns.sort_by(|a, b| a.partial_cmp(b).expect("times are numbers"));
    let (mut none, mut several, mut leaders, mut since) = (0.0, 0.0, 0, 0.0);
    for (at, change) in turns {
        match leaders {
            0 => none += at - since,
            1 => {}
            _ => several += at - since,
        }
        leaders += change;
        since = at;
    }
    (none, several)
}

fn as_hex<S: Serializer>(hash: &u64, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{hash:016x}"))
}

fn as_map<S: Serializer>(counts: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(counts.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_and_with_several_leaders() {
        let reign = |from: u64, to: Option<u64>| Reign {
            leader: NodeId(1),
            from: from.to_string().parse().unwrap(),
            to: to.map(|to| to.to_string().parse().unwrap()),
        };
        assert_eq!(coverage(&[], 5.0), (5.0, 0.0));
        assert_eq!(coverage(&[reign(1, Some(3)), reign(2, Some(4)), reign(7, None)], 10.0), (1.0 + 3.0, 1.0));
    }
}
