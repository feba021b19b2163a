//! `suffrage-lab reproduce`: repeats the experiments of a paper and checks its claims.

use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use suffrage_papers::report::{Claim, Exhibit, Provenance, Report, Verdict, page};
use suffrage_papers::reproduction::Reproduction;
use suffrage_papers::study::{MAX_RUNS, Results, Study};
use suffrage_papers::{gupta2000, ramanathan2007};

use crate::args;
use crate::parallel::{self, Progress};
use suffrage_cli::Error;
use suffrage_cli::{Console, text};

const ABOUT: &str = "Repeats the experiments of a paper and says which of its claims held.

Writes one page with plots and tables, and each plot as SVG and CSV. The measured protocol is the one that \
`suffrage-lab simulate` runs. Results depend only on --runs and --seed, and not on --jobs.";

const GUPTA2000: &str = "Gupta, van Renesse, Birman: \"A Probabilistically Correct Leader Election Protocol \
for Large Groups\" (DISC 2000).

Figure 4 (the bounds of Theorem 1 and measured rounds), Figure 5 a-i (success, rounds and messages over loss, \
group size and views), measurements of Theorems 2 to 5, messages over N up to a million, and interpretations of \
what the paper leaves open.";

const GUPTA2000_EXAMPLES: &str = "Examples:
  suffrage-lab reproduce gupta2000
      all figures, with 5000 runs per point; the page is reproduction/gupta2000/index.html
  suffrage-lab reproduce gupta2000 --runs 1000
      the number of runs of the paper
  suffrage-lab reproduce gupta2000 --figure 4 --out /tmp/figures
      one figure

Exit codes: 0 the experiments ran, whether or not the claims held; 1 a file could not be written; 2 the
command line is wrong.";

const RAMANATHAN2007: &str = "Ramanathan, Ferreira, Jagannathan, Grama, Szpankowski: \"Randomized Leader \
Election\" (Distributed Computing, 2007).

Table 1 (messages over n, compared with PQ, gupta and a ring), Figure 9 (messages over the share of contenders, \
with a power-law overlay), section 7.2 (how often exactly one wins, with the printed and with repaired tables), \
measurements of Lemma 1 and Theorems 1 to 12, up to a million processes, and the savings of reusing mediators.";

const RAMANATHAN2007_EXAMPLES: &str = "Examples:
  suffrage-lab reproduce ramanathan2007 --quick
      a tenth of the processes; the page is reproduction/ramanathan2007/index.html
  suffrage-lab reproduce ramanathan2007
      as in the paper: 50,000 processes, and 10,000 runs of section 7.2
  suffrage-lab reproduce ramanathan2007 --runs 1000 --out /tmp/pages
      a tenth of the runs
  suffrage-lab reproduce ramanathan2007 --figure 9
      100 elections of 50,000 processes each, of which up to half contend

Exit codes: 0 the experiments ran, whether or not the claims held; 1 a file could not be written; 2 the
command line is wrong.";

const ALL: &str = "All papers, each in its folder, and one page with all of them.

The files of a paper are the same as those of `suffrage-lab reproduce PAPER`.";

const ALL_EXAMPLES: &str = "Examples:
  suffrage-lab reproduce all --quick --runs 500
      a quick overview, in minutes
  suffrage-lab reproduce all --out /tmp/pages
      all papers; the page is /tmp/pages/index.html

Exit codes: 0 the experiments ran, whether or not the claims held; 1 a file could not be written; 2 the
command line is wrong.";

/// The default number of runs of each point of gupta2000.
const GUPTA2000_RUNS: u64 = 5000;
/// The default number of runs of section 7.2 of ramanathan2007, as in the paper. Other points have fewer.
const RAMANATHAN2007_RUNS: u64 = 10_000;

/// The number of processes with --quick.
const QUICK_NODES: usize = 5000;

/// The default folder of the pages.
const OUT: &str = "reproduction";

#[derive(Args, Debug)]
struct Flags {
    /// The number of runs of each point; slow points have fewer, as their tables say [default: 5000; for
    /// ramanathan2007, 10000]
    #[arg(long, value_name = "R", value_parser = runs)]
    runs: Option<u64>,
    /// The seed of the first run
    #[arg(long, value_name = "SEED", default_value = "0", value_parser = args::seed)]
    seed: u64,
    /// The folder of the pages, with a subfolder for each paper
    #[arg(long, value_name = "DIR", default_value = OUT)]
    out: PathBuf,
    /// The number of parallel runs; results do not depend on it [default: one per core]
    #[arg(long, value_name = "J", value_parser = args::jobs)]
    jobs: Option<usize>,
    /// Prints the results as JSON in addition to writing the files
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
struct Gupta2000 {
    /// Only this figure, 4 or 5 [default: both, the theorems and the interpretations]
    #[arg(long, value_name = "4|5", value_parser = figure)]
    figure: Option<u8>,
    #[command(flatten)]
    flags: Flags,
}

#[derive(Args, Debug)]
struct Ramanathan2007 {
    /// Only figure 9, the only measured figure [default: the whole paper]
    #[arg(long, value_name = "9", value_parser = only_figure)]
    figure: Option<u8>,
    #[command(flatten)]
    sized: SizedFlags,
}

#[derive(Args, Debug)]
struct SizedFlags {
    /// The number of processes in section 7 of ramanathan2007; measurements over n have up to twenty times as
    /// many
    #[arg(long, value_name = "N", default_value = "50000", value_parser = nodes)]
    nodes: usize,
    /// The same as --nodes 5000
    #[arg(long, conflicts_with = "nodes")]
    quick: bool,
    #[command(flatten)]
    flags: Flags,
}

fn runs(text: &str) -> Result<u64, String> {
    args::number(text, "runs", 1, MAX_RUNS)
}

fn nodes(text: &str) -> Result<usize, String> {
    args::number(text, "processes", 50, 500_000)
}

fn figure(text: &str) -> Result<u8, String> {
    match text {
        "4" => Ok(4),
        "5" => Ok(5),
        _ => Err(format!("figure `{text}` is not measured; choose 4 or 5")),
    }
}

fn only_figure(text: &str) -> Result<u8, String> {
    match text {
        "9" => Ok(9),
        _ => Err(format!("figure `{text}` is not measured; choose 9")),
    }
}

pub(crate) fn command() -> Command {
    let gupta2000 = Gupta2000::augment_args(Command::new("gupta2000"))
        .about("A probabilistically correct leader election protocol for large groups (DISC 2000)")
        .long_about(GUPTA2000)
        .after_help(GUPTA2000_EXAMPLES);
    let ramanathan2007 = Ramanathan2007::augment_args(Command::new("ramanathan2007"))
        .about("Randomized leader election (Distributed Computing, 2007)")
        .long_about(RAMANATHAN2007)
        .after_help(RAMANATHAN2007_EXAMPLES);
    let all = SizedFlags::augment_args(Command::new("all"))
        .about("All papers, and one page with all of them")
        .long_about(ALL)
        .after_help(ALL_EXAMPLES);
    Command::new("reproduce")
        .about("Repeats the experiments of a paper, and says which claims held")
        .long_about(ABOUT)
        .subcommand_required(true)
        .subcommand_value_name("PAPER")
        .subcommand_help_heading("Papers")
        .disable_help_subcommand(true)
        .subcommands([gupta2000, ramanathan2007, all])
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    match matches.subcommand() {
        Some(("gupta2000", matches)) => {
            let Gupta2000 { figure, flags } = Gupta2000::from_arg_matches(matches)?;
            let paper = flags.gupta2000(figure);
            flags.reproduce(&[paper], console)
        }
        Some(("ramanathan2007", matches)) => {
            let Ramanathan2007 { figure, sized } = Ramanathan2007::from_arg_matches(matches)?;
            let (paper, flags) = (sized.ramanathan2007(figure), &sized.flags);
            flags.reproduce(&[paper], console)
        }
        Some(("all", matches)) => {
            let sized = SizedFlags::from_arg_matches(matches)?;
            let flags = &sized.flags;
            let papers = [flags.gupta2000(None), sized.ramanathan2007(None)];
            flags.reproduce(&papers, console)
        }
        _ => unreachable!("clap demands a paper"),
    }
}

/// The experiments of a paper, and the command that runs them.
struct PaperRun {
    paper: Reproduction,
    provenance: Provenance,
}

impl Flags {
    fn paper_run(&self, paper: Reproduction, option: &str, runs: u64) -> PaperRun {
        let seed = self.seed;
        let command = format!("suffrage-lab reproduce {}{option} --runs {runs} --seed {seed}", paper.name);
        PaperRun { paper, provenance: Provenance { command, runs, seed, version: env!("CARGO_PKG_VERSION") } }
    }

    fn gupta2000(&self, figure: Option<u8>) -> PaperRun {
        let runs = self.runs.unwrap_or(GUPTA2000_RUNS);
        let option = figure.map_or(String::new(), |figure| format!(" --figure {figure}"));
        let request = gupta2000::Request { figure, runs, seed: self.seed };
        self.paper_run(gupta2000::reproduction(request), &option, runs)
    }

    fn reproduce(&self, papers: &[PaperRun], console: &mut Console<'_>) -> Result<(), Error> {
        // An error is reported now and not after minutes of work.
        for PaperRun { paper, .. } in papers {
            let folder = self.out.join(paper.name);
            fs::create_dir_all(&folder).map_err(|error| Error::File(folder, error))?;
        }
        let mut reports = Vec::new();
        for PaperRun { paper, provenance } in papers {
            let results = measure(&paper.study, self.jobs, console.err_is_terminal);
            let report = paper.report(&results, provenance.clone());
            let folder = self.out.join(report.name);
            write(&folder, &report)?;
            if !self.json {
                console.out.write_all(summary(&report, &folder).as_bytes())?;
            }
            reports.push(report);
        }
        let text = match reports.as_slice() {
            [report] if self.json => text::json(report),
            [_] => String::new(),
            several => {
                let path = self.out.join("index.html");
                let whole = page(&several.iter().collect::<Vec<_>>());
                fs::write(&path, whole).map_err(|error| Error::File(path.clone(), error))?;
                match self.json {
                    true => text::json(&reports),
                    false => format!("\nPage of all papers: {}\n", path.display()),
                }
            }
        };
        Ok(console.out.write_all(text.as_bytes())?)
    }
}

impl SizedFlags {
    fn ramanathan2007(&self, figure: Option<u8>) -> PaperRun {
        let runs = self.flags.runs.unwrap_or(RAMANATHAN2007_RUNS);
        let nodes = if self.quick { QUICK_NODES } else { self.nodes };
        let request = ramanathan2007::Request::sized(nodes, runs, self.flags.seed);
        let (paper, option) = match figure {
            None => (ramanathan2007::reproduction(request), format!(" --nodes {nodes}")),
            Some(figure) => {
                (ramanathan2007::figure_9(request), format!(" --figure {figure} --nodes {nodes}"))
            }
        };
        self.flags.paper_run(paper, &option, runs)
    }
}

/// Makes the runs of a study in parallel.
pub(crate) fn measure(study: &Study, jobs: Option<usize>, show_progress: bool) -> Results {
    let progress = Progress::new(study.runs(), show_progress);
    let mut results = study.results();
    let run = |number| {
        progress.set_name(&study.points()[study.point_of(number)].name);
        study.run(number)
    };
    parallel::for_each(0..study.runs(), jobs, &progress, run, |number, figures| {
        study.record(&mut results, number, figures);
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

/// The text for a terminal: each claim with its verdict.
fn summary(report: &Report, folder: &Path) -> String {
    let mut text = format!("{}\n{}\n", report.title, report.source);
    for exhibit in &report.exhibits {
        text += &exhibit_text(exhibit);
    }
    let counts: Vec<String> = [Verdict::Held, Verdict::DidNotHold, Verdict::Unclear]
        .into_iter()
        .filter(|&verdict| report.count(verdict) > 0)
        .map(|verdict| format!("{} {}", report.count(verdict), verdict.label()))
        .collect();
    let page = folder.join("index.html");
    format!("{text}\nClaims of the paper: {}. Page: {}\n", counts.join(", "), page.display())
}

fn exhibit_text(exhibit: &Exhibit) -> String {
    let mut text = format!("\n{}\n  {}\n", exhibit.title, text::wrap(&exhibit.setting, 96, 2));
    for Claim { location, statement, verdict, measured } in &exhibit.claims {
        let location = if location.is_empty() { String::new() } else { format!(" ({location})") };
        let statement = text::wrap(&format!("{statement}{location}"), 82, 16);
        text +=
            &format!("  {:<13} {statement}\n{:16}{}\n", verdict.label(), "", text::wrap(measured, 82, 16));
    }
    for table in &exhibit.tables {
        // Only the page has intervals: they make the tables too wide for a terminal.
        let brief = |cells: &Vec<String>| cells.iter().map(|cell| without_interval(cell)).collect();
        let rows: Vec<Vec<String>> = std::iter::once(&table.head).chain(&table.rows).map(brief).collect();
        text += &format!("\n{}", text::columns(&rows));
    }
    text
}

/// A cell without its interval.
fn without_interval(cell: &str) -> String {
    cell.split_once(" (").map_or(cell, |(mean, _)| mean).to_string()
}
