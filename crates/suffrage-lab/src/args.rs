//! The flags of `suffrage-lab simulate`: the flags of a scenario, which the grammar of the simulator defines, and
//! the flags of the program.

use std::path::PathBuf;

use clap::builder::ArgPredicate;
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args};
use suffrage_core::{NodeId, Time};
use suffrage_sim::grammar::{self, Arity, Flag, FlagError, Spec};
pub(crate) use suffrage_sim::grammar::{drift, number, probability, seed};

use crate::picture::{PictureOptions, Theme};
use crate::trace::TraceFormat;
use suffrage_cli::Error;

/// The most processes of a command in which all processes may send to all: more would take hours.
pub(crate) const MAX_ALL_TO_ALL_NODES: usize = 1_000;

/// The flags of a scenario, under their headings.
pub(crate) fn scenario_flags() -> impl Iterator<Item = Arg> {
    let of_section = |section: &'static grammar::Section| {
        section.flags.iter().map(|flag| scenario_flag(flag).help_heading(section.heading))
    };
    grammar::SECTIONS.iter().flat_map(of_section)
}

fn scenario_flag(flag: &'static Flag) -> Arg {
    let default = flag.default_value().map_or(String::new(), |value| format!(" [default: {value}]"));
    let argument = Arg::new(flag.name)
        .long(flag.name)
        .help(format!("{}{default}", flag.help))
        .conflicts_with_all(flag.conflicts)
        .requires_ifs(flag.requires.map(|other| (ArgPredicate::IsPresent, other)));
    if flag.arity == Arity::Switch {
        return argument.action(ArgAction::SetTrue);
    }
    let argument = argument
        .value_name(flag.value)
        .value_parser(|value: &str| flag.check(value).map(|()| value.to_string()));
    match flag.arity {
        Arity::Switch | Arity::One => argument,
        Arity::List => argument.action(ArgAction::Append).num_args(1..).value_delimiter(','),
        Arity::Repeat => argument.action(ArgAction::Append).num_args(1..),
    }
}

/// Converts an error of the grammar to an error about a flag of the command line.
pub(crate) fn flag_error(FlagError { flag, reason }: FlagError) -> Error {
    Error::flag(&flag, reason)
}

/// The help text of a scenario flag, for another command with the same flag.
pub(crate) fn help(name: &str) -> &'static str {
    grammar::flag(name).expect("the grammar has the flag").help
}

/// The scenario that the flags specify.
pub(crate) fn spec(matches: &ArgMatches) -> Result<Spec, Error> {
    let mut spec = Spec::default();
    let given = |flag: &&Flag| matches.value_source(flag.name) == Some(ValueSource::CommandLine);
    for flag in grammar::flags().filter(given) {
        match flag.arity {
            Arity::Switch => spec.set(flag.name, "").map_err(flag_error)?,
            Arity::One | Arity::List | Arity::Repeat => {
                let mut values = matches.get_many::<String>(flag.name).into_iter().flatten();
                values.try_for_each(|value| spec.set(flag.name, value)).map_err(flag_error)?;
            }
        }
    }
    Ok(spec)
}

/// The flags of every algorithm in addition to the flags of a scenario.
#[derive(Args, Debug)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) runs: RunArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Runs")]
pub(crate) struct RunArgs {
    /// Makes R runs with seeds from SEED on, and prints means with 95% intervals; an interval needs at
    /// least two runs
    #[arg(long, value_name = "R", value_parser = runs)]
    pub(crate) runs: Option<u64>,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = jobs)]
    pub(crate) jobs: Option<usize>,
}

#[derive(Args, Debug)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Prints the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Draws the run as a space-time diagram, for at most 16 processes
    #[arg(long)]
    pub(crate) diagram: bool,
    /// Writes every event of the run to a file; - prints the events instead of the report
    #[arg(long, value_name = "FILE")]
    pub(crate) trace: Option<PathBuf>,
    /// The format of the trace
    #[arg(long, value_name = "FORMAT", value_enum, default_value = "jsonl", requires = "trace")]
    pub(crate) format: TraceFormat,
    /// Adds the vector clock of its process to each event of a trace of JSON lines
    #[arg(long, requires = "trace")]
    pub(crate) vector_clocks: bool,
    /// Writes the run as a page to play, step and zoom, in one file that needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) picture: PictureArgs,
    /// Exits with 1 if a promise of the algorithm's contract was broken
    #[arg(long)]
    pub(crate) strict: bool,
}

/// The flags of a picture.
#[derive(Args, Debug)]
pub(crate) struct PictureArgs {
    /// Draws the run as a picture for papers and slides
    #[arg(long, value_name = "FILE")]
    pub(crate) svg: Option<PathBuf>,
    /// The time at which the picture begins [default: 0]
    #[arg(long, value_name = "TIME", requires = "svg")]
    from: Option<Time>,
    /// The time at which the picture ends [default: the end of the run]
    #[arg(long, value_name = "TIME", requires = "svg")]
    to: Option<Time>,
    /// Draws only these processes, and the messages between them
    #[arg(long, value_name = "IDS", value_delimiter = ',', requires = "svg")]
    only: Vec<u64>,
    /// Leaves out messages that only keep a leader alive, or repeat while nothing happens
    #[arg(long, requires = "svg")]
    fold_heartbeats: bool,
    /// The theme of the picture
    #[arg(long, value_enum, default_value = "paper", requires = "svg")]
    theme: Theme,
}

impl PictureArgs {
    /// The options of the picture.
    pub(crate) fn options(&self) -> Result<PictureOptions, Error> {
        let PictureArgs { from, to, fold_heartbeats, theme, .. } = *self;
        if let (Some(from), Some(to)) = (from, to)
            && from >= to
        {
            return Err(Error::flag("to", "must be after --from"));
        }
        let only = self.only.iter().copied().map(NodeId).collect();
        Ok(PictureOptions { from, to, only, fold_heartbeats, theme })
    }
}

/// Parses a number of processes of which each may send to all others: at least two.
pub(crate) fn two_or_more_nodes(text: &str) -> Result<usize, String> {
    number(text, "processes", 2, MAX_ALL_TO_ALL_NODES)
}

fn runs(text: &str) -> Result<u64, String> {
    number(text, "runs", 1, 1_000_000_000)
}

/// Parses a number of runs whose results are all stored, which medians need.
pub(crate) fn stored_runs(text: &str) -> Result<u64, String> {
    number(text, "runs", 1, 1_000_000)
}

pub(crate) fn jobs(text: &str) -> Result<usize, String> {
    number(text, "jobs", 1, 1024)
}

/// Checks that there are enough seeds after the first one.
pub(crate) fn check_seeds(first: u64, runs: u64) -> Result<(), Error> {
    match first.checked_add(runs) {
        Some(_) => Ok(()),
        None => Err(Error::flag("seed", "there are not enough seeds after it; lower --seed or --runs")),
    }
}
