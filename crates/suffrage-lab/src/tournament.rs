//! The additional JSON of randomized elections: messages by phase and contenders by round.

use std::collections::BTreeMap;

use serde::Serialize;
use suffrage_algorithms::randomized::Message;
use suffrage_core::{Figure, Value};
use suffrage_sim::{Estimate, Outcome};

use crate::sweep::Summary;

/// A result, with the tournament if the algorithm is one.
#[derive(Serialize)]
pub(crate) struct WithTournament<'a, R: Serialize, V: Serialize> {
    #[serde(flatten)]
    result: &'a R,
    #[serde(flatten)]
    tournament: Option<Tournament<V>>,
}

/// The tournament of one run, or the means of many runs.
#[derive(Serialize)]
struct Tournament<V: Serialize> {
    winners: Winners,
    messages_by_phase: BTreeMap<&'static str, BTreeMap<&'static str, V>>,
    contenders_by_round: Vec<V>,
    /// The rounds of the winner. None without a winner.
    rounds: Option<V>,
    time_tau: Option<V>,
}

/// The number of runs with each number of winners.
#[derive(Serialize)]
struct Winners {
    #[serde(rename = "0")]
    none: u64,
    #[serde(rename = "1")]
    one: u64,
    #[serde(rename = "2_or_more")]
    more: u64,
}

impl<V: Serialize> Tournament<V> {
    /// None for other algorithms, which do not have these figures.
    fn of(
        figure: impl Fn(&str) -> Option<V>,
        runs_with: impl Fn(&str) -> Option<u64>,
        messages: impl IntoIterator<Item = (&'static str, V)>,
    ) -> Option<Tournament<V>> {
        let winners = Winners {
            none: runs_with("winners_0")?,
            one: runs_with("winners_1")?,
            more: runs_with("winners_2_or_more")?,
        };
        let mut messages_by_phase = BTreeMap::<_, BTreeMap<_, _>>::new();
        for (kind, count) in messages {
            if let Some(phase) = Message::phase(kind) {
                messages_by_phase.entry(phase).or_default().insert(kind, count);
            }
        }
        let rounds = (1..).map_while(|round| figure(&format!("contenders_round_{round}")));
        Some(Tournament {
            winners,
            messages_by_phase,
            contenders_by_round: rounds.collect(),
            rounds: figure("rounds"),
            time_tau: figure("time_tau"),
        })
    }
}

/// The result of one run.
pub(crate) fn of_run(outcome: &Outcome) -> WithTournament<'_, Outcome, f64> {
    let value = |name: &str| outcome.figures.iter().find(|figure| figure.name == name);
    let amount = |name: &str| match value(name)? {
        Figure { value: Value::Amount(amount), .. } => Some(*amount),
        Figure { value: Value::Share(_), .. } => None,
    };
    let runs_with = |name: &str| match value(name)? {
        Figure { value: Value::Share(held), .. } => Some(u64::from(*held)),
        Figure { value: Value::Amount(_), .. } => None,
    };
    let messages = outcome.messages.by_kind.iter().chain(&outcome.messages.uncounted);
    let messages = messages.map(|&(kind, count)| (kind, count as f64));
    WithTournament { result: outcome, tournament: Tournament::of(amount, runs_with, messages) }
}

/// The result of many runs.
pub(crate) fn of_runs(summary: &Summary) -> WithTournament<'_, Summary, Estimate> {
    let mean = |name: &str| summary.figures.iter().find(|(known, _)| known == name).map(|(_, mean)| *mean);
    let runs_with = |name: &str| mean(name).map(|share| (share.mean * summary.runs as f64).round() as u64);
    let messages = summary.by_kind.iter().chain(&summary.uncounted).copied();
    WithTournament { result: summary, tournament: Tournament::of(mean, runs_with, messages) }
}
