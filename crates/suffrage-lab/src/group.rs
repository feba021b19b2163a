//! `suffrage-lab group`: large groups in the simulator, measured and tortured.

use std::ops::Range;

use clap::{ArgMatches, Args, Command, FromArgMatches as _, Subcommand};
use serde::Serialize;
use suffrage_core::Span;
use suffrage_group::Bug;
use suffrage_sim::groups::{GroupTrial, torture_group};

use crate::args;
use crate::parallel::{self, Progress};
use crate::torture::seeds;
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Large groups in the simulator: gossip membership, and a leader that the members believe in.

This is not the quorum lease: two members can lead at the same time, for example on the two sides of a partition. \
docs/groups.md has the contract.

`measure` forms a group from one seed and measures it against the goals of the project. `torture` runs small groups \
under crashes, restarts, pauses, partitions, loss and commands, and checks that they become one group with one leader \
again.";

const EXAMPLES: &str = "Examples:
  suffrage-lab group measure --members 60 --runs 4
      formation, cost, detection, partition and churn of a small group
  suffrage-lab group measure --members 60 --runs 4 --json
      the same for programs
  suffrage-lab group torture --seeds 0..20
      random faults, after which there must be one group with one leader
  suffrage-lab group torture --seeds 0..300 --bug never-refute --expect-violation
      finds a deliberate bug

Exit codes: 0 the group was measured; all promises were kept, or with --expect-violation one was broken. 1 otherwise.
2 the command line is wrong.";

/// The bytes that the wire adds to a message (`suffrage_net::group_seal`).
const SEAL: usize = suffrage_net::group_seal::OVERHEAD;

#[derive(Subcommand, Debug)]
enum Action {
    /// Measures a group against the goals of the project
    Measure(Measure),
    /// Runs groups under random faults and checks their promises
    Torture(Torture),
}

#[derive(Args, Debug)]
struct Measure {
    /// The number of members
    #[arg(long, value_name = "N", default_value = "200", value_parser = members)]
    members: usize,
    /// The number of deaths of members, and of leaders
    #[arg(long, value_name = "R", default_value = "20", value_parser = runs)]
    runs: u64,
    /// The simulated minutes of each observation of an idle group
    #[arg(long, value_name = "M", default_value = "1", value_parser = minutes)]
    minutes: u64,
    /// The seed of the first run
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = args::seed)]
    seed: u64,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = args::jobs)]
    jobs: Option<usize>,
    /// Prints the results as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Torture {
    /// The seeds: from A on, up to but not including B
    #[arg(long, value_name = "A..B", default_value = "0..1000", value_parser = seeds)]
    seeds: Range<u64>,
    /// A deliberate bug of the members
    #[arg(long, value_name = "BUG", value_parser = bug)]
    bug: Option<Bug>,
    /// Succeeds if a promise is broken
    #[arg(long)]
    expect_violation: bool,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = args::jobs)]
    jobs: Option<usize>,
}

fn members(text: &str) -> Result<usize, String> {
    args::number(text, "members", 3, 20_000)
}

fn runs(text: &str) -> Result<u64, String> {
    args::number(text, "runs", 1, 10_000)
}

fn minutes(text: &str) -> Result<u64, String> {
    args::number(text, "minutes", 1, 60)
}

fn bug(text: &str) -> Result<Bug, String> {
    let names: Vec<&str> = Bug::ALL.iter().map(|(name, _)| *name).collect();
    let found = Bug::ALL.iter().find(|(name, _)| *name == text).map(|(_, bug)| *bug);
    found.ok_or_else(|| format!("`{text}` is not a bug; bugs: {}", names.join(", ")))
}

pub(crate) fn command() -> Command {
    Action::augment_subcommands(Command::new("group"))
        .about("Measures and tortures large groups: gossip membership and a leader that members believe in")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
        .subcommand_required(true)
        .disable_help_subcommand(true)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<u8, Error> {
    match Action::from_arg_matches(matches)? {
        Action::Measure(measure) => measure.execute(console),
        Action::Torture(torture) => torture.execute(console),
    }
}

/// A figure beside its goal.
#[derive(Debug, Serialize)]
struct Row {
    what: &'static str,
    /// `None` if the event did not happen within two simulated minutes.
    value: Option<f64>,
    unit: &'static str,
    /// The greatest value that meets the goal.
    goal: Option<f64>,
    met: Option<bool>,
}

fn row(what: &'static str, value: Option<f64>, unit: &'static str, goal: impl Into<Option<f64>>) -> Row {
    let goal = goal.into();
    let met = goal.map(|goal: f64| value.is_some_and(|value| value <= goal));
    Row { what, value, unit, goal, met }
}

/// The value below which this share of the values is. A missing value is greater than all others.
fn quantile(mut values: Vec<Option<f64>>, share: f64) -> Option<f64> {
    values.sort_by(|one, other| one.unwrap_or(f64::MAX).total_cmp(&other.unwrap_or(f64::MAX)));
    let index = (values.len() as f64 * share).ceil() as usize;
    values.get(index.max(1) - 1).copied().flatten()
}

impl Measure {
    fn execute(self, console: &mut Console<'_>) -> Result<u8, Error> {
        let progress = Progress::new(6 + 4 * self.runs, console.err_is_terminal);
        let rows = self.rows(&progress);
        drop(progress);
        let output = if self.json {
            text::json(&serde_json::json!({
                "members": self.members, "runs": self.runs, "seed": self.seed, "figures": rows,
            }))
        } else {
            self.table(&rows)
        };
        console.out.write_all(output.as_bytes())?;
        Ok(0)
    }

    fn trial(&self, seed: u64) -> GroupTrial {
        GroupTrial { seal: SEAL, ..GroupTrial::new(self.members, seed) }
    }

    fn rows(&self, progress: &Progress) -> Vec<Row> {
        let trial = self.trial(self.seed);
        let seconds = |seconds: u64| Span::from_millis(seconds * 1_000);
        let idle_for = seconds(60 * self.minutes);
        // The parts of a run are independent of each other: each forms a group of its own.
        let one = |part: u64| -> Vec<Row> {
            match part {
                0 => {
                    let formed = trial.formation();
                    vec![
                        row("formed: half have the whole list", formed.half, "s", 5.0),
                        row("formed: 99% have it", formed.most, "s", 15.0),
                        row("formed: all have it, and one leader", formed.leader, "s", 30.0),
                        row("sent until then by a member", Some(formed.bytes / 1_000.0), "KB", 100.0),
                    ]
                }
                1 => {
                    let idle = trial.idle(idle_for);
                    vec![
                        row("idle: sent by a member", Some(idle.bytes_per_second), "B/s", 300.0),
                        row("idle: datagrams of a member", Some(idle.packets_per_second), "1/s", 2.5),
                        row("idle: wrong deaths", Some(idle.false_deaths as f64), "", 0.0),
                    ]
                }
                2 => {
                    let idle = GroupTrial { loss: 0.05, ..trial.clone() }.idle(idle_for);
                    let each = idle.suspicions_per_second / self.members as f64;
                    vec![
                        row("5% loss: sent by a member", Some(idle.bytes_per_second), "B/s", None),
                        row("5% loss: suspicions known to a member", Some(each), "1/s", None),
                        row("5% loss: wrong deaths", Some(idle.false_deaths as f64), "", 0.0),
                    ]
                }
                3 => {
                    let healed = trial.partition(seconds(60)).one_group;
                    vec![row("halves apart for 60 s, healed: one list, one leader", healed, "s", 15.0)]
                }
                4 => {
                    let mass = trial.mass_death();
                    vec![
                        row("10% killed with the leader: next leader", mass.leader, "s", 10.0),
                        row("10% killed with the leader: one list", mass.list, "s", 60.0),
                    ]
                }
                _ => {
                    let churn = trial.churn(seconds(60));
                    vec![
                        row("churn 1%/s: worst error of N", Some(100.0 * churn.worst_error), "%", 15.0),
                        row(
                            "churn 1%/s: members without the leader",
                            Some(100.0 * (1.0 - churn.leader_share)),
                            "%",
                            None,
                        ),
                        row("after churn: one list, one leader", churn.settled, "s", 60.0),
                    ]
                }
            }
        };
        let mut parts = parallel::map(0..6, self.jobs, progress, one);
        let later = parts.split_off(3);
        let mut rows: Vec<Row> = parts.into_iter().flatten().collect();
        rows.extend(self.deaths(progress));
        rows.extend(later.into_iter().flatten());
        rows
    }

    fn deaths(&self, progress: &Progress) -> Vec<Row> {
        let runs = self.seed..self.seed.saturating_add(self.runs);
        // Every second member is cut off in place of killed.
        let deaths =
            parallel::map(runs.clone(), self.jobs, progress, |seed| self.trial(seed).death(seed % 2 == 1));
        let leaders = parallel::map(runs, self.jobs, progress, |seed| {
            self.trial(seed).leader_death(seed % 2 == 1).agreed
        });
        vec![
            row(
                "a member's death: half know",
                quantile(deaths.iter().map(|death| death.half).collect(), 0.5),
                "s",
                6.0,
            ),
            row(
                "a member's death: 99% know, the slowest",
                quantile(deaths.iter().map(|death| death.most).collect(), 1.0),
                "s",
                8.0,
            ),
            row("the leader's death: 99% agree, median", quantile(leaders.clone(), 0.5), "s", 3.0),
            row("the leader's death: 99% agree, 99th percentile", quantile(leaders, 0.99), "s", 5.0),
        ]
    }

    fn table(&self, rows: &[Row]) -> String {
        let cells = rows.iter().map(|row| {
            let unit = |value: f64| format!("{} {}", text::number((value * 100.0).round() / 100.0), row.unit);
            let met = row.met.map_or("", |met| if met { "met" } else { "MISSED" });
            vec![
                row.what.to_string(),
                row.value.map_or("never".to_string(), unit).trim().to_string(),
                row.goal.map_or("-".to_string(), unit).trim().to_string(),
                met.to_string(),
            ]
        });
        let mut table = vec![["", "measured", "at most", ""].map(str::to_string).to_vec()];
        table.extend(cells);
        format!(
            "A simulated group of {} members; {} deaths of members and of leaders, half of them killed and half cut off.\n\
             Bytes count messages with a seal of {SEAL} bytes, without UDP and IP. This is not the quorum lease: two can \
             lead.\n\n{}",
            self.members,
            self.runs,
            text::columns(&table)
        )
    }
}

impl Torture {
    fn execute(self, console: &mut Console<'_>) -> Result<u8, Error> {
        let progress = Progress::new(self.seeds.end - self.seeds.start, console.err_is_terminal);
        let mut broken = Vec::new();
        let run = |seed| torture_group(seed, self.bug);
        parallel::for_each(self.seeds.clone(), self.jobs, &progress, run, |seed, violation| {
            broken.extend(violation.map(|violation| (seed, violation)));
        });
        drop(progress);
        let count = self.seeds.end - self.seeds.start;
        writeln!(console.out, "{count} groups under torture, {} with a broken promise", broken.len())?;
        for (seed, violation) in broken.iter().take(5) {
            writeln!(console.out, "seed {seed}: BROKEN {violation}")?;
            let bug = Bug::ALL.iter().find(|(_, bug)| Some(*bug) == self.bug);
            let bug = bug.map_or(String::new(), |(name, _)| format!(" --bug {name}"));
            writeln!(console.out, "  replay: suffrage-lab group torture --seeds {seed}..{}{bug}", seed + 1)?;
        }
        Ok(u8::from(broken.is_empty() == self.expect_violation))
    }
}
