//! `suffrage-lab gallery`: one page with every algorithm, to teach from.

mod entries;
#[cfg(test)]
mod facts;

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{ArgMatches, Args, Command, FromArgMatches as _};
use serde_json::Value;
use suffrage_algorithms::catalog::CONTRACTS;
use suffrage_core::Contract;
use suffrage_web::{GALLERY_PAGE, GALLERY_STYLE};

use crate::parallel::Stopwatch;
use crate::player::{self, Encoder, Page, escape};
use crate::trace::Sink as _;
use crate::{algorithms, check, output_file, trace};
use entries::{Breaks, By, ENTRIES, Entry};
use suffrage_cli::{Console, Error, text};

const ABOUT: &str = "Writes one page with every algorithm: how it works, its figure as a run to play, its contract, what breaks \
it, and its row in the comparison.

The page is one file that needs nothing else. Every algorithm that allows two leaders is shown with two: by the shortest \
schedule of the model checker where it covers the algorithm, and by runs of the simulator.";

const EXAMPLES: &str = "Examples:
  suffrage-lab gallery
      writes gallery.html
  suffrage-lab gallery --html index.html

Exit codes: 0 the page was written, 1 it cannot be written, 2 the command line is wrong.";

#[derive(Args, Debug)]
struct Flags {
    /// The file of the page
    #[arg(long, value_name = "FILE", default_value = "gallery.html")]
    html: PathBuf,
}

pub(crate) fn command() -> Command {
    Flags::augment_args(Command::new("gallery"))
        .about("Writes one page with every algorithm, to teach from")
        .long_about(ABOUT)
        .after_help(EXAMPLES)
}

pub(crate) fn execute(matches: &ArgMatches, console: &mut Console<'_>) -> Result<(), Error> {
    let Flags { html } = Flags::from_arg_matches(matches)?;
    let mut stopwatch = Stopwatch::start(console.err_is_terminal);
    let comparison = Comparison::measure()?;
    let (mut articles, mut data, mut links) = (String::new(), String::new(), String::new());
    for contract in CONTRACTS {
        stopwatch.update(|| format!("runs of {}", contract.name));
        let entry = ENTRIES.iter().find(|entry| entry.name == contract.name);
        let entry = entry.unwrap_or_else(|| panic!("{} is not in the gallery", contract.name));
        let _ = writeln!(links, "<li><a href=\"#{0}\">{0}</a></li>", contract.name);
        articles += &article(contract, entry, &comparison, &mut data)?;
    }
    drop(stopwatch);
    let count = CONTRACTS.len();
    let body = format!(
        "<a class=\"skip\" href=\"#{}\">To the first algorithm</a>\n<header class=\"bar\"><h1>Leader election: the gallery</h1>\
         <div class=\"end\"><button type=\"button\" id=\"theme\" class=\"quiet\"></button></div></header>\n\
         <main class=\"gallery\">\n<p class=\"intro\">{count} algorithms, each as a run to play, with its contract, what \
         breaks it, and how it compares. Every run is repeated by the command beside it.</p>\n\
         <nav aria-label=\"Algorithms\"><ul>\n{links}</ul></nav>\n{articles}</main>\n{data}",
        CONTRACTS[0].name
    );
    let title = "Leader election: the gallery";
    let page = Page { title, styles: &[GALLERY_STYLE], modules: &[GALLERY_PAGE], body: &body };
    output_file::write(&html, &page.html())?;
    Ok(writeln!(console.out, "{}", html.display())?)
}

/// The output of a command of this program.
fn output(words: &str) -> Result<Vec<u8>, Error> {
    let line: Vec<OsString> =
        std::iter::once("suffrage-lab").chain(words.split_whitespace()).map(OsString::from).collect();
    let (mut out, mut err) = (Vec::new(), Vec::new());
    match crate::run(line, &mut Console::plain(&mut out, &mut err)) {
        0 => Ok(out),
        _ => Err(Error::Failed(format!("{words}: {}", String::from_utf8_lossy(&err)))),
    }
}

/// A run of the simulator for the player.
fn simulated(words: &str) -> Result<Encoder, Error> {
    let recorded = output(&format!("simulate {words} --trace -"))?;
    let mut encoder = Encoder::new(words, "");
    trace::read(recorded.as_slice(), &mut encoder).map_err(Error::Failed)?;
    encoder.close()?;
    Ok(encoder)
}

/// The shortest schedule of the model checker that breaks a promise.
fn counterexample(words: &str) -> Result<Encoder, Error> {
    check::counterexample(words)?.ok_or_else(|| Error::Failed(format!("check {words}: nothing is broken")))
}

fn article(
    contract: &Contract,
    entry: &Entry,
    comparison: &Comparison,
    data: &mut String,
) -> Result<String, Error> {
    let name = contract.name;
    let mut run = |kind: &str, run: &Encoder| {
        let id = format!("{name}-{kind}");
        *data += &player::data_element(&id, run);
        format!("<div class=\"place\" data-shows=\"{id}\"></div>\n")
    };
    let figure = run("figure", &simulated(entry.figure)?);
    let mut broken = String::new();
    for (index, Breaks { by, words, note, .. }) in entry.breaks.iter().enumerate() {
        let (command, encoder) = match by {
            By::Check => ("check", counterexample(words)?),
            By::Simulate => ("simulate", simulated(words)?),
        };
        let kind = if index == 0 { "breaks".to_string() } else { format!("breaks-{}", index + 1) };
        let _ = write!(
            broken,
            "<p>{}</p>\n<pre class=\"command\" tabindex=\"0\">suffrage-lab {command} {}</pre>\n{}",
            escape(note),
            escape(words),
            run(&kind, &encoder)
        );
    }
    let facts: String = algorithms::facts(contract)
        .into_iter()
        .map(|(name, fact)| format!("<dt>{name}</dt><dd>{}</dd>\n", escape(&fact)))
        .collect();
    let not_promised = algorithms::not_promised(contract);
    let limits = match not_promised.is_empty() {
        true => String::new(),
        false => format!("<p>Not promised: {}.</p>\n", escape(&not_promised)),
    };
    Ok(format!(
        "<article id=\"{name}\" aria-labelledby=\"{name}-title\">\n<h2 id=\"{name}-title\">{name}</h2>\n\
         <p class=\"summary\">{}</p>\n<p>{}</p>\n\
         <h3>{}</h3>\n<p>{}</p>\n<pre class=\"command\" tabindex=\"0\">suffrage-lab simulate {}</pre>\n{figure}\
         <h3>Contract</h3>\n<dl class=\"contract\">\n{facts}</dl>\n{limits}\
         <h3>What breaks it</h3>\n{broken}\
         <h3>In comparison</h3>\n{}</article>\n",
        escape(contract.summary),
        escape(entry.how),
        "The figure",
        escape(entry.figure_note),
        escape(entry.figure),
        comparison.table(name)
    ))
}

/// The measurements of all algorithms in two scenarios.
struct Comparison(Value);

impl Comparison {
    const COMMAND: &'static str = "compare --scenario leader-crash,partition-heal --runs 20 --json";

    fn measure() -> Result<Comparison, Error> {
        let json = output(Self::COMMAND)?;
        serde_json::from_slice(&json).map(Comparison).map_err(|error| Error::Failed(error.to_string()))
    }

    /// The row of an algorithm in each scenario, below the row of the best value.
    fn table(&self, name: &str) -> String {
        let mut rows = String::new();
        for scenario in self.0["scenarios"].as_array().into_iter().flatten() {
            let all = scenario["algorithms"].as_array().into_iter().flatten();
            let Some(own) = all.into_iter().find(|row| row["algorithm"] == name) else { continue };
            let value =
                |path: &str| own.pointer(path).and_then(Value::as_f64).map_or("never".into(), text::number);
            let _ = writeln!(
                rows,
                "<tr><th scope=\"row\">{}</th><td>{}%</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td></tr>",
                escape(scenario["name"].as_str().unwrap_or_default()),
                text::number(
                    (own.pointer("/agreed/mean").and_then(Value::as_f64).unwrap_or(0.0) * 1000.0).round()
                        / 10.0
                ),
                value("/time_to_leader/median"),
                value("/leaderless/mean"),
                value("/split/mean"),
                value("/messages/mean")
            );
        }
        format!(
            "<div class=\"wide\" tabindex=\"0\" role=\"region\" aria-label=\"Comparison of {name}\"><table><thead><tr>\
             <th scope=\"col\">scenario</th><th scope=\"col\">runs that agree</th>\
             <th scope=\"col\">median time to a leader</th><th scope=\"col\">time without a leader</th>\
             <th scope=\"col\">time with several</th><th scope=\"col\">messages</th></tr></thead><tbody>\n{rows}</tbody>\
             </table></div>\n<p class=\"small muted\">Nine processes, 20 runs, times in time units: suffrage-lab {}</p>\n",
            Self::COMMAND.trim_end_matches(" --json")
        )
    }
}
