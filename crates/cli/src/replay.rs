//! The command that makes a run happen again.

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

/// Flags that say how a run is shown, not what happens in it; and the seed, which is put at the end.
const LEFT_OUT: &[&str] = &["seed", "runs", "jobs", "json", "diagram", "trace", "strict", "help"];

/// The command line of the run with this seed.
pub(crate) fn command_line(command: &Command, matches: &ArgMatches, seed: u64) -> String {
    let mut line = format!("suffrage simulate {}", command.get_name());
    for argument in command.get_arguments() {
        let given = matches.value_source(argument.get_id().as_str()) == Some(ValueSource::CommandLine);
        if given && !LEFT_OUT.contains(&argument.get_id().as_str()) {
            line += &flag(argument, matches);
        }
    }
    format!("{line} --seed {seed}")
}

fn flag(argument: &Arg, matches: &ArgMatches) -> String {
    let name = argument.get_long().unwrap_or_default();
    if matches!(argument.get_action(), ArgAction::SetTrue) {
        return format!(" --{name}");
    }
    let values = matches.get_raw(argument.get_id().as_str()).into_iter().flatten();
    let values: Vec<String> = values.map(|value| value.to_string_lossy().into_owned()).collect();
    match argument.get_value_delimiter() {
        Some(delimiter) => format!(" --{name} {}", quoted(&values.join(&delimiter.to_string()))),
        None => values.iter().map(|value| format!(" --{name} {}", quoted(value))).collect(),
    }
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_./:,=@+-".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_string();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simulate;

    #[test]
    fn what_decides_the_run_is_kept_and_the_rest_is_not() {
        let command = simulate::command();
        let bully = command.find_subcommand("bully").unwrap();
        let line = "bully --runs 9 --crash 1@2 3@4 --crash 4@5 --partition 1|2,3@4 --one-way --json \
                    --reaffirm 20 --seed 3";
        let matches = bully.clone().try_get_matches_from(line.split_whitespace()).unwrap();
        assert_eq!(
            command_line(bully, &matches, 7),
            "suffrage simulate bully --reaffirm 20 --crash 1@2,3@4,4@5 --partition '1|2,3@4' --one-way --seed 7"
        );
    }

    #[test]
    fn words_survive_the_shell() {
        assert_eq!(quoted("1,2@3"), "1,2@3");
        assert_eq!(quoted("1|2"), "'1|2'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("a'b"), "'a'\\''b'");
    }
}
