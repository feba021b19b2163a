//! What the paper measures a run by (section 5), and why runs fail.

use std::collections::BTreeMap;

use super::{Gupta, Options};
use crate::{Figure, Member, NodeId};

/// How a run ended, for the paper's purposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// All live members know the same live leader: "strong" success.
    Success,
    /// Two live members know different leaders.
    Split,
    /// Some live member knows no leader, and the others no two.
    Undecided,
    /// All know the same leader, which is dead.
    DeadLeader,
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tally {
    /// How it ended.
    pub ending: Ending,
    /// "The majority fraction of the non-faulty group members that agree on one leader", dead or alive.
    pub weak: f64,
    /// The last round of the last election that anybody took part in.
    pub rounds: u8,
    /// How many members relayed, added up over the rounds of that election.
    pub relay_members: u64,
    /// How many members relayed in its first round.
    pub first_relay_members: u64,
}

impl Tally {
    /// Takes stock of a group.
    pub fn of(members: &mut dyn Iterator<Item = Member<'_, Gupta>>) -> Tally {
        let mut followings: BTreeMap<NodeId, (u64, bool)> = BTreeMap::new();
        let (mut live, mut undecided) = (0u64, 0u64);
        let (mut last, mut relayed, mut first) = (super::Round::default(), 0, 0);
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
                    let (followers, leads) = followings.entry(leader).or_default();
                    *followers += 1;
                    *leads |= leader == id;
                }
            }
        }
        let most = followings.values().map(|(followers, _)| *followers).max().unwrap_or(0);
        let ending = match (followings.len(), undecided) {
            (1, 0) if followings.values().all(|(_, leads)| *leads) => Ending::Success,
            (0 | 1, 1..) | (0, 0) => Ending::Undecided,
            (1, 0) => Ending::DeadLeader,
            _ => Ending::Split,
        };
        Tally {
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
