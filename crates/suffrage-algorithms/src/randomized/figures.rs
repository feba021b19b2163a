//! What a run is measured by.

use super::member::Member;
use super::options::Options;
use super::rounds::Tournament;
use suffrage_core::Figure;

/// What contenders have come to in the last election of a run, counted over all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many processes there are.
    pub processes: usize,
    /// Which election it was.
    pub term: u32,
    /// How many have won.
    pub winners: usize,
    /// How many took part in each round of the first phase: those of round 1 come first.
    pub contenders: Vec<usize>,
    /// How many contended at all.
    pub stood: usize,
    /// How many got into the second phase.
    pub finalists: usize,
    /// How many rounds the winner took, the second phase being one; of several, the most.
    pub rounds: Option<u32>,
    /// How long the winner took, in thousandths of tau; of several, the longest.
    pub time: Option<u32>,
    /// How long anybody was in the second phase, in thousandths of tau.
    pub longest_second_phase: u32,
    /// Over how many edges of an overlay all walks went.
    pub hops: u64,
}

impl Tally {
    /// Counts the processes of a run.
    pub fn of<'a>(members: impl Iterator<Item = &'a Member>) -> Tally {
        let mut tally = Tally::default();
        for member in members {
            tally.processes += 1;
            if member.term() > tally.term {
                // Those before took part in an earlier election only.
                tally = Tally { processes: tally.processes, term: member.term(), ..Tally::default() };
            }
            if member.term() == tally.term {
                tally.take_in(member);
            }
        }
        tally
    }

    fn take_in(&mut self, member: &Member) {
        let standing = member.contender().map(|it| (it.round(), it.is_finalist(), it.hops()));
        let over = member.record().map(|it| (it.round, it.finalist, it.hops));
        let Some((round, finalist, hops)) = standing.or(over) else { return };
        let round = usize::from(round);
        if self.contenders.len() < round {
            self.contenders.resize(round, 0);
        }
        self.contenders[..round].iter_mut().for_each(|contenders| *contenders += 1);
        self.stood += 1;
        self.finalists += usize::from(finalist);
        self.hops += hops;
        let Some(record) = member.record() else { return };
        self.longest_second_phase = self.longest_second_phase.max(record.second_phase);
        if record.won {
            self.winners += 1;
            self.rounds = self.rounds.max(Some(u32::from(record.round) + 1));
            self.time = self.time.max(Some(record.first_phase + record.second_phase));
        }
    }

    /// What a run with these options is measured by.
    pub fn figures(&self, options: &Options) -> Vec<Figure> {
        let in_tau = |thousandths: u32| f64::from(thousandths) / 1e3;
        let mut figures = vec![
            Figure::share("winners_0", self.winners == 0),
            Figure::share("winners_1", self.winners == 1),
            Figure::share("winners_2_or_more", self.winners > 1),
            Figure::amount("contenders", self.stood as f64),
        ];
        // Rounds that nobody came to are there with nobody in them, so that means over runs are right.
        let size = self.processes as u64;
        let planned = Tournament { size, mode: options.mode, rounds: options.rounds }.first_phase();
        for round in 0..self.contenders.len().max(planned.into()) {
            let contenders = self.contenders.get(round).copied().unwrap_or(0);
            figures.push(Figure::amount(format!("contenders_round_{}", round + 1), contenders as f64));
        }
        figures.push(Figure::amount("finalists", self.finalists as f64));
        figures.extend(self.rounds.map(|rounds| Figure::amount("rounds", f64::from(rounds))));
        figures.extend(self.time.map(|time| Figure::amount("time_tau", in_tau(time))));
        figures.push(Figure::amount("longest_second_phase_tau", in_tau(self.longest_second_phase)));
        if self.hops > 0 {
            figures.push(Figure::amount("walk_hops", self.hops as f64));
        }
        figures
    }
}

/// The figures of a run.
pub(crate) fn of<'a>(options: &Options, members: impl Iterator<Item = &'a Member>) -> Vec<Figure> {
    Tally::of(members).figures(options)
}
