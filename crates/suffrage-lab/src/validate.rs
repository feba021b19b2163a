//! `suffrage-lab validate`: computes the worst cases of timings, and simulates the same timings.

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use suffrage_cli::validate::{self, Arguments, Percentiles, Simulated};
use suffrage_cli::{Console, Error};
use suffrage_core::Span;
use suffrage_lease::Budget;
use suffrage_sim::measure::{Failover, FailoverCause, FailoverTrial};
use suffrage_sim::{Latency, quantiles};

use crate::args::{MAX_ALL_TO_ALL_NODES, check_seeds, jobs, seed, stored_runs};
use crate::parallel::{self, Progress};

const ABOUT: &str = "Computes the worst cases of the timings of a quorum lease, and simulates them.

The calculation is that of `suffrage validate`. With --simulate, the simulator runs the state machine of production \
with these timings: the leader crashes or releases its lease at random times, messages take up to half of --rtt, and \
clocks drift within the bound. A simulated millisecond is a millisecond.";

const EXAMPLES: &str = "Examples:
  suffrage-lab validate --ttl 3s --renew 1s --rtt 5ms --simulate --runs 10000
      percentiles and the worst case

Exit codes: 0 the timings work, 1 they break a rule, or a run had no leader, or output could not be written, \
2 the command line is wrong.";

/// The flags of the simulation.
#[derive(Args, Debug)]
struct SimulationArguments {
    /// Also simulates the timings
    #[arg(long)]
    simulate: bool,
    /// The number of simulated processes, including the voters; all are candidates [default: two more
    /// than voters]
    #[arg(long, value_name = "N", requires = "simulate", value_parser = nodes)]
    nodes: Option<usize>,
    /// The number of simulated crashes, and of simulated releases, with seeds from SEED on
    #[arg(long, value_name = "R", default_value = "1000", value_parser = stored_runs)]
    runs: u64,
    /// The seed of all random choices
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed)]
    seed: u64,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    jobs: Option<usize>,
}

fn nodes(text: &str) -> Result<usize, String> {
    suffrage_cli::text::number_within(text, "processes", 2, MAX_ALL_TO_ALL_NODES)
}

pub(crate) fn command() -> Command {
    SimulationArguments::augment_args(validate::command()).long_about(ABOUT).after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let simulation = SimulationArguments::from_arg_matches(matches)?;
    simulation.check(&Arguments::from_arg_matches(matches)?)?;
    let show_progress = console.err_is_terminal;
    validate::execute(matches, console, |arguments, budget| {
        simulation.simulate.then(|| simulation.run(arguments, budget, show_progress))
    })
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

fn percentiles(failovers: &[Failover]) -> Percentiles {
    let times: Vec<f64> = failovers.iter().filter_map(|failover| failover.leaderless).map(seconds).collect();
    let of = quantiles(&times, [0.5, 0.9, 0.99, 1.0]);
    let [p50, p90, p99, max] = of.map_or([None; 4], |of| of.map(Some));
    Percentiles { runs: times.len(), p50, p90, p99, max }
}

impl SimulationArguments {
    fn check(&self, arguments: &Arguments) -> Result<(), Error> {
        check_seeds(self.seed, self.runs)?;
        // The crashed process may be a voter, and the others must still have a majority.
        let least = if arguments.voters > 2 { arguments.voters } else { arguments.voters + 2 };
        if self.members(arguments) < least {
            let reason = format!("--voters {} needs at least {least} processes", arguments.voters);
            return Err(Error::flag("nodes", reason));
        }
        Ok(())
    }

    fn members(&self, arguments: &Arguments) -> usize {
        self.nodes.unwrap_or(arguments.voters + 2)
    }

    fn run(&self, arguments: &Arguments, budget: &Budget, show_progress: bool) -> Simulated {
        let progress = Progress::new(self.runs * 2, show_progress);
        let trial = FailoverTrial {
            timings: arguments.timings(),
            voters: arguments.voters,
            members: self.members(arguments),
            latency: Latency::Uniform(Span::ZERO, arguments.rtt.scale(0.5)),
            drift: arguments.drift.fraction(),
            seed: 0,
        };
        let seeds = self.seed..self.seed + self.runs;
        let [crashes, releases] = [FailoverCause::Crash, FailoverCause::Release].map(|ending| {
            let run = |seed| FailoverTrial { seed, ..trial.clone() }.run(ending);
            parallel::map(seeds.clone(), self.jobs, &progress, run)
        });
        let beyond = |failovers: &[Failover], bound: Span| {
            failovers.iter().filter(|failover| failover.leaderless.is_none_or(|took| took > bound)).count()
        };
        let all = || crashes.iter().chain(&releases);
        Simulated {
            nodes: self.members(arguments),
            runs: self.runs,
            seed: self.seed,
            crash: percentiles(&crashes),
            release: percentiles(&releases),
            beyond: beyond(&crashes, budget.crash) + beyond(&releases, budget.release),
            leaderless: all().filter(|failover| failover.leaderless.is_none()).count(),
        }
    }
}
