//! The metrics of a run in the paper (section 5), and the causes of failed runs.

use std::collections::BTreeMap;

use super::{FinalChoice, Gupta, Options, Phase, Round, bit};
use suffrage_core::{Figure, Member, NodeId};

/// The result of a run, as the paper classifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All live members know the same live leader: "strong" success.
    Success,
    /// Two live members know different leaders.
    Split,
    /// Some live member knows no leader, and no two live members know different leaders.
    Undecided,
    /// All know the same leader, which is dead.
    DeadLeader,
}

/// The summary of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunSummary {
    /// The result of the run.
    pub ending: Ending,
    /// "The majority fraction of the non-faulty group members that agree on one leader", dead or alive.
    pub weak: f64,
    /// The last round of the last election that any member took part in.
    pub rounds: u8,
    /// The number of relay members, summed over the rounds of that election.
    pub relay_members: u64,
    /// The number of relay members in its first round.
    pub first_relay_members: u64,
}

impl RunSummary {
    /// Summarises the final states of a group.
    pub fn of(members: &mut dyn Iterator<Item = Member<'_, Gupta>>) -> RunSummary {
        let mut followers_by_leader: BTreeMap<NodeId, (u64, bool)> = BTreeMap::new();
        let (mut live, mut undecided) = (0u64, 0u64);
        let (mut last, mut relayed, mut first) = (Round::default(), 0, 0);
        for Member { id, up, leader, process } in members {
            let round = process.round();
            if round.election > last.election {
                (relayed, first) = (0, 0);
            }
            last = last.max(round);
            if round.election == last.election {
                relayed += u64::from(process.rounds_relayed().count_ones());
                first += u64::from(process.relayed_in(1));
            }
            if !up {
                continue;
            }
            live += 1;
            match leader {
                None => undecided += 1,
                Some(leader) => {
                    let (followers, leads) = followers_by_leader.entry(leader).or_default();
                    *followers += 1;
                    *leads |= leader == id;
                }
            }
        }
        let most = followers_by_leader.values().map(|(followers, _)| *followers).max().unwrap_or(0);
        let ending = match (followers_by_leader.len(), undecided) {
            (1, 0) if followers_by_leader.values().all(|(_, leads)| *leads) => Ending::Success,
            (0 | 1, 1..) | (0, 0) => Ending::Undecided,
            (1, 0) => Ending::DeadLeader,
            _ => Ending::Split,
        };
        RunSummary {
            ending,
            weak: if live == 0 { 0.0 } else { most as f64 / live as f64 },
            rounds: last.number,
            relay_members: relayed,
            first_relay_members: first,
        }
    }

    pub(super) fn figures(&self, options: &Options) -> Vec<Figure> {
        vec![
            Figure::share("strong", self.ending == Ending::Success),
            Figure::amount("weak", self.weak),
            Figure::amount("rounds", f64::from(self.rounds)),
            Figure::amount("relay_members", self.relay_members as f64),
            Figure::amount("first_relay_members", self.first_relay_members as f64),
            Figure::share("reached_last_round", self.rounds >= options.max_rounds),
            Figure::share("failed_dead_leader", self.ending == Ending::DeadLeader),
            Figure::share("failed_undecided", self.ending == Ending::Undecided),
            Figure::share("failed_split", self.ending == Ending::Split),
        ]
    }
}

/// The final state of a member, for measurements.
impl Gupta {
    /// The latest round that the member knows.
    pub fn round(&self) -> Round {
        self.round
    }

    /// The phase of the member in that round.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The leader that the member believes in.
    pub fn leader(&self) -> Option<NodeId> {
        let first = self.first.filter(|_| self.phase == Phase::Elected);
        first.map(|choice| choice.leader)
    }

    /// The first final choice that the member received in that round, its own included.
    pub fn first_choice(&self) -> Option<FinalChoice> {
        self.first
    }

    /// Returns whether the member received different choices in that round.
    pub fn has_conflict(&self) -> bool {
        self.conflict
    }

    /// The rounds of the election in which the member relayed: bit 0 for the first.
    pub fn rounds_relayed(&self) -> u32 {
        self.rare.as_ref().map_or(0, |rare| rare.relayed)
    }

    /// Returns whether the member relayed in that round of the election.
    pub fn relayed_in(&self, round: u8) -> bool {
        self.rounds_relayed() & bit(round) != 0
    }

    /// Returns whether the member multicast its final choice in that round of the election.
    pub fn sent_choice_in(&self, round: u8) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.sent_choice & bit(round) != 0)
    }

    /// The best choice that the member knew, if it relayed in that round; the last one is its final choice.
    pub fn preference(&self) -> Option<NodeId> {
        self.rare.as_ref().and_then(|rare| rare.best)
    }

    /// `{Mj}`: the members that it exchanged preferences with, or tried to, if it relayed in that round.
    pub fn relays(&self) -> &[NodeId] {
        self.rare.as_ref().map_or(&[], |rare| &rare.relays)
    }
}
