//! The options of an algorithm as flags.

use clap::{Arg, ArgMatches};
use suffrage_core::{Algorithm, SWITCH};

use suffrage_cli::Error;

/// One flag for each parameter of the algorithm.
pub(crate) fn flags<A: Algorithm>() -> impl Iterator<Item = Arg> {
    let defaults = A::Options::default();
    A::PARAMETERS.iter().map(move |parameter| {
        let default = match (parameter.show)(&defaults) {
            none if none.is_empty() => none,
            default => format!(" [default: {default}]"),
        };
        let argument = Arg::new(parameter.name)
            .long(parameter.name)
            .value_name(parameter.value)
            .help(format!("{}{default}", parameter.help))
            .help_heading("Options of this algorithm");
        // A switch without a value is on.
        match parameter.value {
            SWITCH => argument.num_args(0..=1).default_missing_value("on"),
            _ => argument,
        }
    })
}

/// The given flags, as names and values.
pub(crate) fn given<A: Algorithm>(matches: &ArgMatches) -> Vec<(&'static str, String)> {
    let value = |name| Some((name, matches.get_one::<String>(name)?.clone()));
    A::PARAMETERS.iter().filter_map(|parameter| value(parameter.name)).collect()
}

/// The options that the flags describe.
pub(crate) fn read<A: Algorithm>(matches: &ArgMatches) -> Result<A::Options, Error> {
    let mut options = A::Options::default();
    for (name, value) in given::<A>(matches) {
        A::set(&mut options, name, &value)?;
    }
    Ok(options)
}
