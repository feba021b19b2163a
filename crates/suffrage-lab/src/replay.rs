//! The command that replays a run.

use suffrage_sim::Scenario;
use suffrage_sim::grammar::{Spec, quoted};

/// The command line of a run with these settings of the algorithm.
pub(crate) fn command_line(algorithm: &str, settings: &[(&str, String)], spec: &Spec) -> String {
    let mut line = format!("suffrage-lab simulate {algorithm}");
    for (name, value) in settings {
        line += &format!(" --{name} {}", quoted(value));
    }
    format!("{line} {spec}")
}

/// The command line of a run that is given as a scenario.
pub(crate) fn of_scenario(algorithm: &str, settings: &[(&str, String)], scenario: &Scenario) -> String {
    command_line(algorithm, settings, &Spec::of(scenario))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{args, options, simulate};
    use suffrage_algorithms::bully::Bully;
    use suffrage_algorithms::catalog::{self, CONTRACTS};
    use suffrage_core::Algorithm;
    use suffrage_core::Visitor;
    use suffrage_sim::TortureTarget;

    #[test]
    fn only_flags_that_affect_the_run_are_kept() {
        let command = simulate::command();
        let bully = command.find_subcommand("bully").unwrap();
        let line = "bully --runs 9 --crash 1@2 3@4 --crash 4@5 --partition 1|2,3@4 --one-way --json \
                    --reaffirm 20 --seed 3";
        let matches = bully.clone().try_get_matches_from(line.split_whitespace()).unwrap();
        assert_eq!(
            command_line("bully", &options::given::<Bully>(&matches), &args::spec(&matches).unwrap()),
            "suffrage-lab simulate bully --reaffirm 20 --crash 1@2,3@4,4@5 --partition '1|2,3@4' --one-way --seed 3"
        );
    }

    /// Splits a command line as a shell does: a quoted part is a word or part of a word.
    fn words(line: &str) -> Vec<String> {
        let mut words = vec![String::new()];
        for (index, part) in line.split('\'').enumerate() {
            let mut pieces = if index % 2 == 0 { part.split(' ').collect() } else { vec![part] }.into_iter();
            words.last_mut().unwrap().push_str(pieces.next().unwrap());
            words.extend(pieces.map(str::to_string));
        }
        words
    }

    struct CheckReplay;

    impl Visitor for CheckReplay {
        type Output = ();

        fn visit<A: Algorithm>(self) {
            for seed in 0..20 {
                let case = TortureTarget::<A>::default().case(seed);
                let line = of_scenario(A::CONTRACT.name, &case.settings, &case.scenario);
                let words = words(&line);
                let matches = simulate::command().try_get_matches_from(&words[1..]);
                let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                let matches = matches.subcommand().unwrap().1;
                let parsed = args::spec(matches).unwrap().scenario();
                assert_eq!(parsed, Ok(case.scenario), "{line}");
                let options = options::read::<A>(matches).unwrap();
                assert_eq!(format!("{options:?}"), format!("{:?}", case.options), "{line}");
            }
        }
    }

    /// Clap splits a command line into the words that the grammar expects, the algorithm's options among them.
    #[test]
    fn a_scenario_and_its_command_line_are_the_same() {
        for contract in CONTRACTS {
            catalog::visit(contract.name, CheckReplay).unwrap();
        }
    }
}
