//! What the paper measures a run by (section 5), and why runs fail.

use std::collections::BTreeMap;

use super::{FinalChoice, Gupta, Options, Phase, Round, bit};
use suffrage_core::{Figure, Member, NodeId};

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

/// What a run has left in a member, for whoever measures it.
impl Gupta {
    /// The latest round it knows of.
    pub fn round(&self) -> Round {
        self.round
    }

    /// Where it is in that.
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// Whom it takes for the leader.
    pub fn leader(&self) -> Option<NodeId> {
        let first = self.first.filter(|_| self.phase == Phase::Elected);
        first.map(|choice| choice.leader)
    }

    /// The first final choice it heard in that round, its own included.
    pub fn first_choice(&self) -> Option<FinalChoice> {
        self.first
    }

    /// Whether it heard of another choice in that round.
    pub fn heard_conflict(&self) -> bool {
        self.conflict
    }

    /// In which rounds of the election it relayed: bit 0 for the first.
    pub fn rounds_relayed(&self) -> u32 {
        self.notes.as_ref().map_or(0, |notes| notes.relayed)
    }

    /// Whether it relayed in that round of the election.
    pub fn relayed_in(&self, round: u8) -> bool {
        self.rounds_relayed() & bit(round) != 0
    }

    /// Whether it multicast its final choice in that round of the election.
    pub fn spoke_in(&self, round: u8) -> bool {
        self.notes.as_ref().is_some_and(|notes| notes.spoke & bit(round) != 0)
    }

    /// The best choice it knew of, if it relayed in that round; the last one is its final choice.
    pub fn preference(&self) -> Option<NodeId> {
        self.notes.as_ref().and_then(|notes| notes.best)
    }

    /// `{Mj}`: whom it exchanged preferences with, or tried to, if it relayed in that round.
    pub fn relays(&self) -> &[NodeId] {
        self.notes.as_ref().map_or(&[], |notes| &notes.relays)
    }
}
