//! What was measured, as tables.

use std::fmt::Write as _;

use suffrage_sim::Estimate;

use super::measure::Row;
use super::{Comparison, Table};
use suffrage_cli::text;

/// What the columns are called, and what they mean.
const COLUMNS: &[(&str, &str)] = &[
    ("AGREED", "runs at whose end all live processes believe in the same live leader"),
    (
        "MEDIAN",
        "time to a new leader: until all live processes agree on a live leader, be it not for long. The median \
         over the runs in which they did",
    ),
    (
        "P99",
        "the same; the shortest time that at least 99 of 100 of these runs did not exceed. With fewer than \
         100 runs, the longest",
    ),
    (
        "SETTLED",
        "time until all live processes agree on the leader of the end and do so without a break from then \
         on: the median over the runs that agreed at the end. Where messages are lost all the time, it tells when \
         agreement was last interrupted",
    ),
    ("ACCORD", "in how much of the time all live processes agree on a live leader"),
    ("LEADERLESS", "for how long nobody believes to lead"),
    ("SPLIT", "for how long more than one does"),
    (
        "WRONG",
        "suspicions of processes that could be heard; - for algorithms that have time-outs of their own and \
         no detector",
    ),
    ("TO NEW", "messages sent from the first trouble until there was a new leader"),
    (
        "MESSAGES",
        "messages sent until the run is over, those that the sources leave out of their counts included; one \
         to everybody counts once for each addressee",
    ),
    ("BYTES", "the contents of all those messages in the wire format, postcard"),
];

/// The figures of a row, in the order of the columns.
fn cells(row: &Row, runs: u64) -> Vec<String> {
    let maybe = |value: Option<f64>| value.map_or("-".to_string(), figure);
    let (first, last) = (row.time_to_first_accord, row.time_to_leader);
    vec![
        format!("{}/{runs}", row.settled_runs),
        maybe(first.map(|times| times.median)),
        maybe(first.map(|times| times.p99)),
        maybe(last.map(|times| times.median)),
        format!("{:.1}%", 100.0 * row.accord.mean),
        figure(row.leaderless.mean),
        figure(row.split.mean),
        maybe(row.wrong_suspicions.map(|wrong| wrong.mean)),
        maybe(row.sent_to_first_accord.map(|sent| sent.messages.mean)),
        figure(row.messages.mean),
        figure(row.bytes.mean),
    ]
}

/// A figure with as many decimals as are of interest.
fn figure(value: f64) -> String {
    if value >= 999.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn opening(comparison: &Comparison) -> String {
    let Comparison { nodes, runs, seed, detector, .. } = comparison;
    let seeds = match runs {
        1 => format!("1 run of each (seed {seed})"),
        _ => format!("{runs} runs of each (seeds {seed} to {})", seed + (runs - 1)),
    };
    format!("{nodes} processes, {seeds}, detector {detector} for those that need one")
}

fn story(table: &Table) -> String {
    format!("{} Time counts from {}.", table.story, table.clock)
}

/// What was set about algorithms for the trial's sake.
fn settings(table: &Table) -> Option<String> {
    let set = table.algorithms.iter().filter(|row| !row.settings.is_empty()).map(|row| {
        let flags = row.settings.iter().map(|(name, value)| format!(" --{name} {value}"));
        format!("{}{}", row.algorithm, flags.collect::<String>())
    });
    let set: Vec<String> = set.collect();
    (!set.is_empty()).then(|| format!("Set as their contracts say for that: {}.", set.join(", ")))
}

/// Who broke a promise of its contract, and how often.
fn broken(table: &Table) -> Vec<String> {
    let broken = table.algorithms.iter().filter_map(|row| Some((row, row.violations?)));
    let broken = broken.filter(|(_, share)| share.mean > 0.0);
    let sentence = |(row, share): (&Row, Estimate)| {
        format!("{} broke a promise of its contract in {:.1}% of its runs", row.algorithm, 100.0 * share.mean)
    };
    broken.map(sentence).collect()
}

/// The last words: what is counted, and in what.
fn unit(comparison: &Comparison) -> String {
    let lasts = comparison.scenarios.first().map_or(0.0, |table| table.lasts);
    format!(
        "Times are in time units; a message takes half to one. What is no median and no P99 is the mean over \
         all runs, from the first trouble to the end of the run, {} time units after the moment from which \
         time counts.",
        text::number(lasts)
    )
}

pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = format!("{}\n", opening(comparison));
    for table in &comparison.scenarios {
        let _ = write!(text, "\n{}\n  {}\n", table.name, text::wrap(&story(table), 96, 2));
        if let Some(settings) = settings(table) {
            let _ = writeln!(text, "  {}", text::wrap(&settings, 96, 2));
        }
        text += &format!("\n{}\n", aligned(table, comparison.runs));
        for broken in broken(table) {
            let _ = writeln!(text, "  BROKEN  {broken}");
        }
        let _ = writeln!(text, "  again   {}", table.replay);
    }
    text += "\n";
    for (name, meaning) in COLUMNS {
        let _ = writeln!(text, "{name:<11} {}", text::wrap(meaning, 88, 12));
    }
    let _ = writeln!(text, "\n{}", text::wrap(&unit(comparison), 100, 0));
    text += "One run alone: --algorithms NAME --runs 1 --seed SEED; --json has the `suffrage-lab simulate` line \
             to look at it.\n";
    text
}

/// Names to the left, figures to the right.
fn aligned(table: &Table, runs: u64) -> String {
    let named = |name: &str, cells: Vec<String>| [vec![name.to_string()], cells].concat();
    let mut rows = vec![named("ALGORITHM", COLUMNS.iter().map(|(name, _)| name.to_string()).collect())];
    rows.extend(table.algorithms.iter().map(|row| named(row.algorithm, cells(row, runs))));
    text::columns(&rows)
}

pub(super) fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("{}.\n", opening(comparison));
    for table in &comparison.scenarios {
        let _ = write!(text, "\n## {}\n\n{}", table.name, story(table));
        let _ =
            writeln!(text, "{}\n", settings(table).map_or(String::new(), |settings| format!(" {settings}")));
        let heads = COLUMNS.iter().map(|(name, _)| name.to_lowercase());
        let _ = writeln!(text, "| algorithm | {} |", heads.collect::<Vec<_>>().join(" | "));
        let _ = writeln!(text, "|---|{}", "---:|".repeat(COLUMNS.len()));
        for row in &table.algorithms {
            let _ = writeln!(text, "| `{}` | {} |", row.algorithm, cells(row, comparison.runs).join(" | "));
        }
        for broken in broken(table) {
            let _ = writeln!(text, "\n**BROKEN**: {broken}.");
        }
    }
    text += "\n## Columns\n\n";
    for (name, meaning) in COLUMNS {
        let _ = writeln!(text, "- {}: {}.", name.to_lowercase(), lowercase(meaning));
    }
    let _ = writeln!(text, "\n{}", unit(comparison));
    text
}

/// A meaning that names other columns, as Markdown names them.
fn lowercase(meaning: &str) -> String {
    COLUMNS.iter().fold(meaning.to_string(), |text, (name, _)| text.replace(name, &name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_as_many_digits_as_are_of_interest() {
        for (value, shown) in
            [(0.0, "0.0"), (3.25, "3.2"), (999.94, "999.9"), (999.96, "1000"), (12345.6, "12346")]
        {
            assert_eq!(figure(value), shown);
        }
    }
}
