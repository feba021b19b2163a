//! `suffrage-lab plan`: the strategy with which an election reaches a target probability of success.

use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches as _, ValueEnum};
use serde::Serialize;
use suffrage_core::Span;
use suffrage_papers::gupta2000::Strategy;
use suffrage_papers::gupta2000::bounds::Setting;
use suffrage_papers::gupta2000::planner::{ByBound, BySimulation, Reach, Search, by_bound};
use suffrage_papers::gupta2000::timeouts::{Delays, TimeOuts};
use suffrage_papers::report::{interval, number};
use suffrage_papers::study::MAX_RUNS;
use suffrage_sim::Contenders;

use std::str::FromStr as _;

use crate::{args, plan_randomized, reproduce};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Plans a probabilistic election for a network: that of Gupta et al. (2000), or with \
--algorithm randomized that of Ramanathan et al. (2007).

For gupta, it finds the smallest first K with which an election succeeds with probability --target: all live \
members know the same live leader. It plans a single round, and up to --max-rounds rounds with K doubling from \
round to round. Each plan is made twice: by the bounds of the paper (Theorems 1 and 2), which hold for certain but \
are pessimistic, and by simulation, which is an estimate. It also prints the time-outs of section 3.2.

For randomized, it finds the number of rounds with the fewest messages with which exactly one contender wins with \
probability --target, for any number of contenders. The plan is calculated and checked by simulation. The output \
also says which of the two algorithms is cheaper.";

const EXAMPLES: &str = "Examples:
  suffrage-lab plan --nodes 5000 --ucast-loss 0.001 --mcast-loss 0.001 --view-prob 0.5 --target 0.99
      a good network
  suffrage-lab plan --nodes 2000 --ucast-loss 0.1 --mcast-loss 0.1 --fail 0.001 --view-prob 0.3 --target 0.95
      a bad one
  suffrage-lab plan --nodes 1000000 --ucast-loss 0.01 --mcast-loss 0.001 --ucast-delay 20 --mcast-delay 500
      a large group, with time-outs for its delays
  suffrage-lab plan --algorithm randomized --nodes 50000 --contenders 0.01 --target 0.99
      rounds and mediators of the randomized election, compared with gupta

Exit codes: 0 a plan reaches the target (gupta: by simulation; randomized: by calculation), 1 none does, or
output could not be written, 2 the command line is wrong.";

#[derive(Args, Debug)]
pub(crate) struct Flags {
    /// The algorithm to plan
    #[arg(long, value_name = "ALGORITHM", default_value = "gupta")]
    algorithm: PlannedAlgorithm,
    /// The number of members
    #[arg(long, value_name = "N", value_parser = nodes)]
    pub(crate) nodes: usize,
    /// randomized only: the contenders for the count of messages, as a share like 0.01 or a number like 500
    #[arg(long, value_name = "SHARE|N", default_value = "1.0", value_parser = Contenders::from_str)]
    pub(crate) contenders: Contenders,
    /// randomized only: with or without a common clock
    #[arg(long, value_name = "MODE", default_value = "async")]
    pub(crate) mode: Clock,
    /// The probability that a unicast is lost
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = args::probability)]
    ucast_loss: f64,
    /// The probability that a member misses a multicast
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = args::probability)]
    mcast_loss: f64,
    /// The probability that a member crashes during a round
    #[arg(long, value_name = "PROBABILITY", default_value = "0", value_parser = args::probability)]
    pub(crate) fail: f64,
    /// The probability that a member knows another member
    #[arg(long, value_name = "PROBABILITY", default_value = "1", value_parser = args::probability)]
    view_prob: f64,
    /// The target probability that an election succeeds
    #[arg(long, value_name = "PROBABILITY", default_value = "0.999", value_parser = target)]
    pub(crate) target: f64,
    /// The most rounds of an election
    #[arg(long, value_name = "ROUNDS", default_value = "4", value_parser = rounds)]
    pub(crate) max_rounds: u8,
    /// The longest delay of a unicast, processing included, in time units (milliseconds)
    #[arg(long, value_name = "SPAN", default_value = "1", value_parser = Span::from_str)]
    ucast_delay: Span,
    /// The longest delay of a multicast; for a bimodal multicast, the time for which a message is kept for
    /// retransmission
    #[arg(long, value_name = "SPAN", default_value = "2", value_parser = Span::from_str)]
    mcast_delay: Span,
    /// The longest time that a member needs to find the relay members in its view
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = Span::from_str)]
    compute_delay: Span,
    /// The most runs of a strategy; fewer if fewer settle the question
    #[arg(long, value_name = "R", default_value = "5000", value_parser = runs)]
    pub(crate) runs: u64,
    /// The most simulated members; message counts do not depend on the size of the group
    #[arg(long, value_name = "N", default_value = "2000", value_parser = nodes)]
    pub(crate) simulated_nodes: usize,
    /// The seed of the first run
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = args::seed)]
    pub(crate) seed: u64,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = args::jobs)]
    pub(crate) jobs: Option<usize>,
    /// Prints the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// The algorithms that can be planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum PlannedAlgorithm {
    Gupta,
    Randomized,
}

/// The model of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Clock {
    Sync,
    Async,
}

/// The flags that apply to gupta only.
const GUPTA_FLAGS: [&str; 7] =
    ["ucast_loss", "mcast_loss", "view_prob", "max_rounds", "ucast_delay", "mcast_delay", "compute_delay"];
/// The flags that apply to randomized only.
const RANDOMIZED_FLAGS: [&str; 2] = ["contenders", "mode"];

fn nodes(text: &str) -> Result<usize, String> {
    args::number(text, "members", 2, 10_000_000)
}

fn rounds(text: &str) -> Result<u8, String> {
    args::number(text, "rounds", 1, 5)
}

fn runs(text: &str) -> Result<u64, String> {
    args::number(text, "runs", 100, MAX_RUNS)
}

fn target(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(target) if 0.0 < target && target < 1.0 => Ok(target),
        _ => Err(format!("`{text}` is not a probability above 0 and below 1")),
    }
}

pub(crate) fn command() -> Command {
    Flags::augment_args(Command::new("plan"))
        .about("Plans a probabilistic election: the smallest K, or the rounds, for a target probability of success")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

/// The plans for one setting.
#[derive(Debug, Serialize)]
struct Plan {
    setting: Setting,
    target: f64,
    /// The number of simulated members.
    simulated_nodes: usize,
    /// One plan with a single round, and one with several.
    plans: Vec<RoundsPlan>,
}

/// A plan with at most this many rounds.
#[derive(Debug, Serialize)]
struct RoundsPlan {
    max_rounds: u8,
    by_bound: ByBound,
    /// The bound for the strategy that simulation found.
    bound_of_simulated: Option<f64>,
    by_simulation: Option<BySimulation>,
    /// K and the time-outs of each round of the simulated strategy.
    time_outs: Vec<(f64, TimeOuts)>,
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    let flags = Flags::from_arg_matches(matches)?;
    let foreign: &[&str] = match flags.algorithm {
        PlannedAlgorithm::Gupta => &RANDOMIZED_FLAGS,
        PlannedAlgorithm::Randomized => &GUPTA_FLAGS,
    };
    let given = |flag: &&&str| matches.value_source(flag) == Some(ValueSource::CommandLine);
    if let Some(flag) = foreign.iter().find(given) {
        let reason = match flags.algorithm {
            PlannedAlgorithm::Gupta => {
                "applies only to randomized; leave it out or add --algorithm randomized"
            }
            PlannedAlgorithm::Randomized => "applies only to gupta; leave it out or set --algorithm gupta",
        };
        return Err(Error::flag(&flag.replace('_', "-"), reason));
    }
    if flags.algorithm == PlannedAlgorithm::Randomized {
        return plan_randomized::execute(&flags, console);
    }
    let plan = flags.plan(console.err_is_terminal);
    let reached = plan.plans.iter().filter_map(|plan| plan.by_simulation.as_ref());
    let reached = reached.into_iter().any(|found| matches!(found.reaches, Reach::Yes | Reach::Likely));
    let text = if flags.json { text::json(&plan) } else { plan.text() };
    console.out.write_all(text.as_bytes())?;
    Ok(u8::from(!reached))
}

impl Flags {
    fn setting(&self) -> Setting {
        Setting {
            nodes: self.nodes as f64,
            view_prob: self.view_prob,
            ucast_loss: self.ucast_loss,
            mcast_loss: self.mcast_loss,
            fail: self.fail,
        }
    }

    fn plan(&self, show_progress: bool) -> Plan {
        let rounds = if self.max_rounds == 1 { vec![1] } else { vec![1, self.max_rounds] };
        Plan {
            setting: self.setting(),
            target: self.target,
            simulated_nodes: self.nodes.min(self.simulated_nodes),
            plans: rounds.into_iter().map(|rounds| self.plan_rounds(rounds, show_progress)).collect(),
        }
    }

    fn plan_rounds(&self, max_rounds: u8, show_progress: bool) -> RoundsPlan {
        let setting = self.setting();
        let by_bound = by_bound(&setting, self.target, max_rounds);
        let simulated = Setting { nodes: self.nodes.min(self.simulated_nodes) as f64, ..setting };
        let mut search = Search::new(simulated, self.target, max_rounds, self.runs, self.seed);
        while let Some(study) = search.next() {
            search.record(&reproduce::measure(&study, self.jobs, show_progress));
        }
        let by_simulation = search.answer();
        let strategy = by_simulation.as_ref().map_or(by_bound.strategy, |found| found.strategy);
        let ks = strategy.ks(setting.nodes);
        let delays = Delays { ucast: self.ucast_delay, mcast: self.mcast_delay, compute: self.compute_delay };
        RoundsPlan {
            max_rounds,
            bound_of_simulated: by_simulation.as_ref().map(|_| setting.strategy(&ks)),
            by_bound,
            by_simulation,
            time_outs: ks.iter().map(|&k| (k, delays.time_outs(k))).collect(),
        }
    }
}

impl Plan {
    fn text(&self) -> String {
        let Setting { nodes, view_prob, ucast_loss, mcast_loss, fail } = self.setting;
        let mut text = format!(
            "{nodes} members; a member knows another with probability {view_prob}. Loss: {ucast_loss} of unicasts, \
             {mcast_loss} of multicasts.\n{fail} of members crash in a round. Target: success in {} of elections.\n",
            self.target
        );
        for rounds in &self.plans {
            text += &rounds.text(self.target);
        }
        if self.simulated_nodes < nodes as usize {
            text += &format!(
                "\n{} members were simulated. Messages do not depend on the size of the group, and success hardly. \
                 To simulate\nall members, add --simulated-nodes {nodes}.\n",
                self.simulated_nodes
            );
        }
        if fail > 0.0 && fail >= 1.0 - self.target {
            text += &format!(
                "\nIn up to {fail} of elections the elected leader crashes, and the protocol does not detect it. So no \
                 K\nreaches {} for certain. A failure detector that calls the next election would help.\n",
                self.target
            );
        }
        text
    }
}

impl RoundsPlan {
    fn text(&self, target: f64) -> String {
        let heading = match self.max_rounds {
            1 => "With one round".to_string(),
            rounds => format!("With up to {rounds} rounds, K doubling from round to round"),
        };
        let bound = &self.by_bound;
        let mut text = format!("\n{heading}\n  by the bound       ");
        text += &match bound.reaches {
            true => format!(
                "first K = {}: success at least {}; up to {} unicasts and {} multicasts in the first round\n",
                bound.strategy.first_k,
                number(bound.success),
                number(bound.most_unicasts),
                number(bound.most_multicasts)
            ),
            false => format!(
                "no first K reaches {target}; the best, K = {}, guarantees only {}\n",
                bound.strategy.first_k,
                number(bound.success)
            ),
        };
        let Some(found) = &self.by_simulation else {
            return text + "  by simulation      the group is too small for any K\n";
        };
        let (prefix, advice) = match found.reaches {
            Reach::Yes => ("", ""),
            Reach::Likely => ("", "; raise --runs to be sure"),
            Reach::Unlikely => {
                ("probably no K reaches the target; the best is ", "; raise --runs to be sure")
            }
            Reach::No => ("no K reaches the target; the best is ", ""),
        };
        text += &format!(
            "  by simulation      {prefix}first K = {}: success {} in {} runs{advice}\n",
            found.strategy.first_k,
            interval(found.success),
            found.runs
        );
        let mean = |name: &str| found.figures.mean(name).map_or("-".to_string(), interval);
        for name in ["unicasts", "multicasts", "rounds"] {
            text += &format!("    {name:<16} {}\n", mean(name));
        }
        text += &failures(found);
        if let Some(bound) = self.bound_of_simulated {
            text += &format!(
                "  difference         for K = {} the bound guarantees only {}: it counts a round with a lost \
                 unicast as failed\n",
                found.strategy.first_k,
                number(bound)
            );
        }
        text + &time_outs(&found.strategy, &self.time_outs)
    }
}

fn failures(found: &BySimulation) -> String {
    let causes = [
        ("failed_dead_leader", "the leader had crashed"),
        ("failed_undecided", "a member knew no leader"),
        ("failed_split", "there were two leaders"),
    ];
    let parts = causes.into_iter().filter_map(|(name, cause)| {
        let share = found.figures.mean(name)?.mean;
        (share > 0.0).then(|| format!("{cause} in {}", number(share)))
    });
    let parts: Vec<String> = parts.collect();
    if parts.is_empty() { String::new() } else { format!("    failures         {}\n", parts.join(", ")) }
}

fn time_outs(strategy: &Strategy, rounds: &[(f64, TimeOuts)]) -> String {
    let heading = ["round", "K", "Time_Out_1", "Time_Out_2", "Time_Out_3", "whole round"];
    let mut rows = vec![heading.map(str::to_string).to_vec()];
    for (index, (k, time_outs)) in rounds.iter().enumerate() {
        let TimeOuts { time_out_1, time_out_2, time_out_3, round } = *time_outs;
        let mut row = vec![format!("{}", index + 1)];
        row.extend([*k, time_out_1, time_out_2, time_out_3, round].map(text::number));
        rows.push(row);
    }
    format!(
        "  time-outs of section 3.2 for first K = {}, in time units\n{}",
        strategy.first_k,
        text::columns(&rows)
    )
}
