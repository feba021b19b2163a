//! The results as tables.

use std::fmt::Write as _;

use suffrage_sim::Estimate;

use super::measure::Row;
use super::{Comparison, Table};
use suffrage_cli::text;

/// The names of the columns and their meanings.
const COLUMNS: &[(&str, &str)] = &[
    ("AGREED", "runs at the end of which all live processes believe in the same live leader"),
    (
        "MEDIAN",
        "time to a new leader: until all live processes agree on a live leader, even briefly. The median \
         over the runs with such an agreement",
    ),
    ("P99", "the 99th percentile of the same times. With fewer than 100 runs, the longest"),
    (
        "SETTLED",
        "time until all live processes agree on the final leader without later interruption. The median over \
         the runs that ended in agreement. If messages are lost until the end, it is the time after which \
         agreement was last restored",
    ),
    ("AGREEMENT", "share of time in which all live processes agree on a live leader"),
    ("LEADERLESS", "time in which no process believes that it leads"),
    ("SPLIT", "time in which more than one process believes that it leads"),
    (
        "WRONG",
        "suspicions of processes that were alive and reachable; - for algorithms with time-outs of their own \
         and no detector",
    ),
    ("TO NEW", "messages sent from the first fault until there was a new leader"),
    (
        "MESSAGES",
        "messages sent until the end of the run, including those that the sources do not count; a multicast \
         counts once per addressee",
    ),
    ("BYTES", "payload of those messages in the wire format, postcard"),
];

/// The cells of a row, in the order of the columns.
fn cells(row: &Row, runs: u64) -> Vec<String> {
    let maybe = |value: Option<f64>| value.map_or("-".to_string(), format_number);
    let (first, last) = (row.time_to_first_agreement, row.time_to_leader);
    vec![
        format!("{}/{runs}", row.settled_runs),
        maybe(first.map(|times| times.median)),
        maybe(first.map(|times| times.p99)),
        maybe(last.map(|times| times.median)),
        format!("{:.1}%", 100.0 * row.agreement.mean),
        format_number(row.leaderless.mean),
        format_number(row.split.mean),
        maybe(row.wrong_suspicions.map(|wrong| wrong.mean)),
        maybe(row.sent_to_first_agreement.map(|sent| sent.messages.mean)),
        format_number(row.messages.mean),
        format_number(row.bytes.mean),
    ]
}

/// A number with one decimal, or without decimals from 1000 on.
fn format_number(value: f64) -> String {
    if value >= 999.95 { format!("{value:.0}") } else { format!("{value:.1}") }
}

fn heading(comparison: &Comparison) -> String {
    let Comparison { nodes, runs, seed, detector, .. } = comparison;
    let seeds = match runs {
        1 => format!("1 run of each (seed {seed})"),
        _ => format!("{runs} runs of each (seeds {seed} to {})", seed + (runs - 1)),
    };
    format!("{nodes} processes, {seeds}, detector {detector} for the algorithms that need one")
}

fn story(table: &Table) -> String {
    format!("{} Time counts from {}.", table.story, table.clock)
}

/// The settings of the contracts for this trial.
fn settings(table: &Table) -> Option<String> {
    let set = table.algorithms.iter().filter(|row| !row.settings.is_empty()).map(|row| {
        let flags = row.settings.iter().map(|(name, value)| format!(" --{name} {value}"));
        format!("{}{}", row.algorithm, flags.collect::<String>())
    });
    let set: Vec<String> = set.collect();
    (!set.is_empty()).then(|| format!("Settings from the contracts: {}.", set.join(", ")))
}

/// The algorithms that broke a promise of their contract, with the share of runs.
fn broken(table: &Table) -> Vec<String> {
    let broken = table.algorithms.iter().filter_map(|row| Some((row, row.violations?)));
    let broken = broken.filter(|(_, share)| share.mean > 0.0);
    let sentence = |(row, share): (&Row, Estimate)| {
        format!("{} broke a promise of its contract in {:.1}% of its runs", row.algorithm, 100.0 * share.mean)
    };
    broken.map(sentence).collect()
}

/// The explanation of units, for the end of the text.
fn units(comparison: &Comparison) -> String {
    let lasts = comparison.scenarios.first().map_or(0.0, |table| table.lasts);
    format!(
        "Times are in time units; a message takes 0.5 to 1. Columns other than medians and P99 are means over \
         all runs, from the first fault to the end of the run. A run ends {} time units after the event from \
         which time counts.",
        text::number(lasts)
    )
}

pub(super) fn text(comparison: &Comparison) -> String {
    let mut text = format!("{}\n", heading(comparison));
    for table in &comparison.scenarios {
        let _ = write!(text, "\n{}\n  {}\n", table.name, text::wrap(&story(table), 96, 2));
        if let Some(settings) = settings(table) {
            let _ = writeln!(text, "  {}", text::wrap(&settings, 96, 2));
        }
        text += &format!("\n{}\n", aligned(table, comparison.runs));
        for broken in broken(table) {
            let _ = writeln!(text, "  BROKEN  {broken}");
        }
        let _ = writeln!(text, "  replay  {}", table.replay);
    }
    text += "\n";
    for (name, meaning) in COLUMNS {
        let _ = writeln!(text, "{name:<11} {}", text::wrap(meaning, 88, 12));
    }
    let _ = writeln!(text, "\n{}", text::wrap(&units(comparison), 100, 0));
    text += "A single run: --algorithms NAME --runs 1 --seed SEED. --json prints the `suffrage-lab simulate` line \
             that shows it.\n";
    text
}

/// The table with names left-aligned and numbers right-aligned.
fn aligned(table: &Table, runs: u64) -> String {
    let named = |name: &str, cells: Vec<String>| [vec![name.to_string()], cells].concat();
    let mut rows = vec![named("ALGORITHM", COLUMNS.iter().map(|(name, _)| name.to_string()).collect())];
    rows.extend(table.algorithms.iter().map(|row| named(row.algorithm, cells(row, runs))));
    text::columns(&rows)
}

pub(super) fn markdown(comparison: &Comparison) -> String {
    let mut text = format!("{}.\n", heading(comparison));
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
    let _ = writeln!(text, "\n{}", units(comparison));
    text
}

/// A meaning with the names of other columns in lower case, as in Markdown.
fn lowercase(meaning: &str) -> String {
    COLUMNS.iter().fold(meaning.to_string(), |text, (name, _)| text.replace(name, &name.to_lowercase()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_from_1000_on_have_no_decimals() {
        for (value, shown) in
            [(0.0, "0.0"), (3.25, "3.2"), (999.94, "999.9"), (999.96, "1000"), (12345.6, "12346")]
        {
            assert_eq!(format_number(value), shown);
        }
    }
}
