//! Metrics of a run.

use super::member::Member;
use super::options::Options;
use super::rounds::Tournament;
use suffrage_core::Figure;

/// The summary of the last election of a run, counted over all processes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RunSummary {
    /// The number of processes.
    pub processes: usize,
    /// The election.
    pub term: u32,
    /// The number of winners.
    pub winners: usize,
    /// The number of contenders in each round of the first phase, from round 1.
    pub contenders: Vec<usize>,
    /// The number of all contenders.
    pub all_contenders: usize,
    /// The number of contenders in the second phase.
    pub finalists: usize,
    /// The number of rounds of the winner, with the second phase as one; of several winners, the maximum.
    pub rounds: Option<u32>,
    /// The time of the winner, in thousandths of tau; of several winners, the maximum.
    pub time: Option<u32>,
    /// The longest time of a contender in the second phase, in thousandths of tau.
    pub longest_second_phase: u32,
    /// The number of overlay edges of all walks.
    pub hops: u64,
}

impl RunSummary {
    /// Summarises the final states of a run.
    pub fn of<'a>(members: impl Iterator<Item = &'a Member>) -> RunSummary {
        let mut summary = RunSummary::default();
        for member in members {
            summary.processes += 1;
            if member.term() > summary.term {
                // The processes before took part only in an earlier election.
                summary =
                    RunSummary { processes: summary.processes, term: member.term(), ..RunSummary::default() };
            }
            if member.term() == summary.term {
                summary.add(member);
            }
        }
        summary
    }

    fn add(&mut self, member: &Member) {
        let current = member.contender().map(|it| (it.round(), it.is_finalist(), it.hops()));
        let finished = member.record().map(|it| (it.round, it.finalist, it.hops));
        let Some((round, finalist, hops)) = current.or(finished) else { return };
        let round = usize::from(round);
        if self.contenders.len() < round {
            self.contenders.resize(round, 0);
        }
        self.contenders[..round].iter_mut().for_each(|contenders| *contenders += 1);
        self.all_contenders += 1;
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

    /// The metrics of a run with these options.
    pub fn figures(&self, options: &Options) -> Vec<Figure> {
        let in_tau = |thousandths: u32| f64::from(thousandths) / 1e3;
        let mut figures = vec![
            Figure::share("winners_0", self.winners == 0),
            Figure::share("winners_1", self.winners == 1),
            Figure::share("winners_2_or_more", self.winners > 1),
            Figure::amount("contenders", self.all_contenders as f64),
        ];
        // Rounds without contenders are reported as 0, so that means over runs are correct.
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

/// The metrics of a run.
pub(crate) fn of<'a>(options: &Options, members: impl Iterator<Item = &'a Member>) -> Vec<Figure> {
    RunSummary::of(members).figures(options)
}
