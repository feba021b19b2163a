//! `suffrage-lab validate`: the calculator of timings, with a simulation of the same timings beside it.

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use suffrage_cli::validate::{self, Arguments, Percentiles, Simulated};
use suffrage_cli::{Console, Error};
use suffrage_core::Span;
use suffrage_lease::Budget;
use suffrage_sim::measure::{Failover, FailoverCause, FailoverTrial};
use suffrage_sim::{Latency, quantiles};

use crate::args::{MOST_TALKATIVE, check_seeds, jobs, kept_runs, seed};
use crate::parallel::{self, Progress};

const ABOUT: &str = "Says what the timings of a quorum lease are worth.

The calculation is that of `suffrage validate`. With --simulate the same timings are run through the simulator, with \
the state machine that runs in production: the leader crashes, or releases its lease, at random moments, messages \
take any time up to half of --rtt, and clocks drift within the bound. A simulated millisecond is a millisecond.";

const EXAMPLES: &str = "Examples:
  suffrage-lab validate --ttl 3s --renew 1s --rtt 5ms --simulate --runs 10000
      percentiles beside the worst case

Exit codes: 0 the timings work, 1 they break a rule, or nobody came to lead in a run, or output could not \
be written, 2 the command line is wrong.";

/// What is simulated.
#[derive(Args, Debug)]
struct SimulationArguments {
    /// Runs the timings through the simulator, too
    #[arg(long)]
    simulate: bool,
    /// How many processes are simulated, voters among them; all of them stand [default: the voters
    /// and two more]
    #[arg(long, value_name = "N", requires = "simulate", value_parser = nodes)]
    nodes: Option<usize>,
    /// How many crashes and how many releases are simulated, with seeds from SEED on
    #[arg(long, value_name = "R", default_value = "1000", value_parser = kept_runs)]
    runs: u64,
    /// Decides everything that is left to chance
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = seed)]
    seed: u64,
    /// How many runs go on at a time; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    jobs: Option<usize>,
}

fn nodes(text: &str) -> Result<usize, String> {
    suffrage_cli::text::number_within(text, "processes", 2, MOST_TALKATIVE)
}

pub(crate) fn command() -> Command {
    SimulationArguments::augment_args(validate::command()).long_about(ABOUT).after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let simulation = SimulationArguments::from_arg_matches(matches)?;
    simulation.check(&Arguments::from_arg_matches(matches)?)?;
    let watched = console.err_is_terminal;
    validate::execute(matches, console, |arguments, budget| {
        simulation.simulate.then(|| simulation.run(arguments, budget, watched))
    })
}

fn seconds(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e9
}

fn percentiles(failovers: &[Failover]) -> Percentiles {
    let times: Vec<f64> = failovers.iter().filter_map(|it| it.leaderless).map(seconds).collect();
    let of = quantiles(&times, [0.5, 0.9, 0.99, 1.0]);
    let [p50, p90, p99, max] = of.map_or([None; 4], |of| of.map(Some));
    Percentiles { runs: times.len(), p50, p90, p99, max }
}

impl SimulationArguments {
    fn check(&self, arguments: &Arguments) -> Result<(), Error> {
        check_seeds(self.seed, self.runs)?;
        // The process that crashes may be a voter, and the others must be able to elect.
        let least = if arguments.voters > 2 { arguments.voters } else { arguments.voters + 2 };
        if self.members(arguments) < least {
            let reason = format!("with --voters {} it takes {least} processes at least", arguments.voters);
            return Err(Error::flag("nodes", reason));
        }
        Ok(())
    }

    fn members(&self, arguments: &Arguments) -> usize {
        self.nodes.unwrap_or(arguments.voters + 2)
    }

    fn run(&self, arguments: &Arguments, budget: &Budget, watched: bool) -> Simulated {
        let progress = Progress::new(self.runs * 2, watched);
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
