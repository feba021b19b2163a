//! `suffrage reproduce`: a paper's experiments again, and whether its claims hold.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use papers::gupta2000;
use papers::report::{Claim, Exhibit, Made, Report, Verdict};
use papers::reproduction::Reproduction;
use papers::study::{MOST_RUNS, Results, Study};

use crate::error::Error;
use crate::parallel::{self, Progress};
use crate::{Console, args, simulate, words};

const ABOUT: &str = "Makes a paper's experiments again and says which of its claims held.

Writes one page with plots and tables, and each plot as SVG and CSV beside it. The protocol that is measured \
is the one that `suffrage simulate` runs. Results are decided by --runs and --seed, and do not depend on \
--jobs.";

const GUPTA2000: &str = "Gupta, van Renesse, Birman: \"A Probabilistically Correct Leader Election Protocol \
for Large Groups\" (DISC 2000).

Figure 4 (the bounds of Theorem 1, beside measured rounds), Figure 5 a-i (success, rounds and messages over \
loss, group size and views), Theorems 2 to 5 by measurement, messages over N up to a million, and readings \
of what the paper leaves open.";

const GUPTA2000_EXAMPLES: &str = "Examples:
  suffrage reproduce gupta2000
      everything, with 5000 runs a point; the page is reproduction/gupta2000/index.html
  suffrage reproduce gupta2000 --runs 1000
      as many runs as in the paper
  suffrage reproduce gupta2000 --figure 4 --out /tmp/figures
      one of its figures

Exit codes: 0 it ran, whatever became of the claims; 1 a file could not be written; 2 the command line is
wrong.";

/// Where pages go, unless --out says otherwise.
const OUT: &str = "reproduction";

#[derive(Args, Debug)]
struct Flags {
    /// How many runs of each point; a few that are slow have fewer, as their tables say
    #[arg(long, value_name = "R", default_value = "5000", value_parser = runs)]
    runs: u64,
    /// The seed of the first run
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = args::seed)]
    seed: u64,
    /// The folder for the pages, in which each paper has its own
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    /// How many runs go on at a time; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = args::jobs)]
    jobs: Option<usize>,
    /// Prints the results as JSON; files are written all the same
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Gupta2000 {
    /// One of the paper's figures, 4 or 5 [default: both, the theorems and the readings]
    #[arg(long, value_name = "4|5", value_parser = figure)]
    figure: Option<u8>,
    #[command(flatten)]
    flags: Flags,
}

fn runs(text: &str) -> Result<u64, String> {
    args::number(text, "runs", 1, MOST_RUNS)
}

fn figure(text: &str) -> Result<u8, String> {
    match text {
        "4" => Ok(4),
        "5" => Ok(5),
        _ => Err(format!("there is no figure `{text}` to be measured; it is 4 or 5")),
    }
}

pub(crate) fn command() -> Command {
    let gupta2000 = Gupta2000::augment_args(Command::new("gupta2000"))
        .about("A probabilistically correct leader election protocol for large groups (DISC 2000)")
        .long_about(GUPTA2000)
        .after_help(GUPTA2000_EXAMPLES);
    Command::new("reproduce")
        .about("Makes a paper's experiments again, and says which claims held")
        .long_about(ABOUT)
        .subcommand_required(true)
        .subcommand_value_name("PAPER")
        .subcommand_help_heading("Papers")
        .disable_help_subcommand(true)
        .subcommand(gupta2000)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    match matches.subcommand() {
        Some(("gupta2000", matches)) => {
            let Gupta2000 { figure, flags } = Gupta2000::from_arg_matches(matches)?;
            let request = gupta2000::Request { figure, runs: flags.runs, seed: flags.seed };
            let option = figure.map_or(String::new(), |figure| format!(" --figure {figure}"));
            flags.reproduce(&gupta2000::reproduction(request), &option, console)
        }
        _ => unreachable!("clap demands a paper"),
    }
}

impl Flags {
    fn reproduce(&self, paper: &Reproduction, option: &str, console: &mut Console<'_>) -> Result<(), Error> {
        // Better now than after minutes of work.
        let folder = self.out.join(paper.name);
        fs::create_dir_all(&folder).map_err(|error| Error::File(folder.clone(), error))?;
        let results = measure(&paper.study, self.jobs, console.err_is_terminal);
        let command =
            format!("suffrage reproduce {}{option} --runs {} --seed {}", paper.name, self.runs, self.seed);
        let version = env!("CARGO_PKG_VERSION");
        let report = paper.report(&results, Made { command, runs: self.runs, seed: self.seed, version });
        write(&folder, &report)?;
        let text = match self.json {
            true => simulate::json(&report),
            false => summary(&report, &folder),
        };
        Ok(console.out.write_all(text.as_bytes())?)
    }
}

/// Makes the runs of a study on all cores.
pub(crate) fn measure(study: &Study, jobs: Option<usize>, watched: bool) -> Results {
    let progress = Progress::new(study.runs(), watched);
    let mut results = study.results();
    let run = |number| {
        progress.name(&study.points()[study.point_of(number)].name);
        study.run(number)
    };
    parallel::for_each(0..study.runs(), jobs, &progress, run, |number, figures| {
        study.take_in(&mut results, number, figures);
    });
    results
}

fn write(folder: &Path, report: &Report) -> Result<(), Error> {
    for file in report.files() {
        let path = folder.join(&file.name);
        fs::write(&path, file.text).map_err(|error| Error::File(path, error))?;
    }
    Ok(())
}

/// What a terminal shows: each claim, and whether it held.
fn summary(report: &Report, folder: &Path) -> String {
    let mut text = format!("{}\n{}\n", report.title, report.source);
    for exhibit in &report.exhibits {
        text += &told(exhibit);
    }
    let counts: Vec<String> = [Verdict::Held, Verdict::DidNotHold, Verdict::Unclear]
        .into_iter()
        .filter(|&verdict| report.count(verdict) > 0)
        .map(|verdict| format!("{} {}", report.count(verdict), verdict.words()))
        .collect();
    let page = folder.join("index.html");
    format!("{text}\nOf the paper's claims, {}. All of it is on {}\n", counts.join(", "), page.display())
}

fn told(exhibit: &Exhibit) -> String {
    let mut text = format!("\n{}\n  {}\n", exhibit.title, words::wrap(&exhibit.setting, 96, 2));
    for Claim { place, says, verdict, found } in &exhibit.claims {
        let place = if place.is_empty() { String::new() } else { format!(" ({place})") };
        let says = words::wrap(&format!("{says}{place}"), 82, 16);
        text += &format!("  {:<13} {says}\n{:16}{}\n", verdict.words(), "", words::wrap(found, 82, 16));
    }
    for table in &exhibit.tables {
        // Wider ones are for the page: means without intervals are enough here.
        let brief = |cells: &Vec<String>| cells.iter().map(|cell| brief(cell)).collect();
        let rows: Vec<Vec<String>> = std::iter::once(&table.head).chain(&table.rows).map(brief).collect();
        text += &format!("\n{}", words::columns(&rows));
    }
    text
}

/// A cell without its interval.
fn brief(cell: &str) -> String {
    cell.split_once(" (").map_or(cell, |(mean, _)| mean).to_string()
}
