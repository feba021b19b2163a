//! Options of `randomized` and `probabilistic-quorum`.

use suffrage_core::parameters::switch_parameter;
use suffrage_core::{Parameter, Span};

/// The timing model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// A common clock, rounds of two message delays (section 3).
    Sync,
    /// No common clock; a bound on delays is used in the second phase only (section 4).
    Async,
}

/// The number of rounds of the first phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounds {
    /// The largest number of rounds for which, of exactly two contenders, no finalist remains in at most `ppm` of a
    /// million elections.
    Auto {
        /// The accepted number per million.
        ppm: u32,
    },
    /// `log n - log log^6 n`, as printed.
    Paper,
    /// `log2 n - 1`, as in Figure 1.
    Figure1,
    /// `log2 n`, the order of magnitude in the theorems.
    Log2,
    /// A fixed number.
    Fixed(u8),
}

impl Default for Rounds {
    fn default() -> Rounds {
        Rounds::Auto { ppm: 10_000 }
    }
}

/// The rounding of `sigma_j`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rounding {
    /// Rounds up.
    Ceil,
    /// Rounds to the nearest number.
    Nearest,
    /// Rounds up or down at random, so that the mean is exact.
    Random,
}

/// The acceptance rule of a mediator in the asynchronous first phase (section 4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FirstPhase {
    /// Accepts the first contender of each round.
    First,
    /// Accepts the first contender of each round, but none in a round before the highest that it has seen.
    HighestRound,
}

/// The reaction of a contender to mediators that do not answer (section 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum OnFailure {
    /// The contender continues only if all answers are positive: the second approach, which the paper adopts.
    AllPositive,
    /// The contender continues as long as no answer is negative: the first approach.
    NoNegative,
}

/// The rules of the asynchronous second phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Tables {
    /// Tables 5 to 7 letter by letter: an idle mediator sends no ACK, so that no contender ever wins.
    Literal,
    /// Tables 5 to 7 without two typographical errors that the text contradicts: row 1 sends its ACK, and the
    /// arguments of the last `init` of Table 7 are in order.
    Printed,
    /// Tables 5 to 7 with all known errors repaired.
    Repaired,
}

/// The random walk that finds mediators where processes know only their neighbours in an overlay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Walk {
    /// A Metropolis-Hastings walk, whose stationary distribution is uniform.
    Metropolis,
    /// A simple random walk, whose stationary distribution is proportional to the degrees.
    Naive,
}

/// The options of the algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The timing model.
    pub mode: Mode,
    /// The number of rounds of the first phase.
    pub rounds: Rounds,
    /// The rounding of `sigma_j`.
    pub rounding: Rounding,
    /// The acceptance rule of a mediator in the asynchronous first phase.
    pub mediator: FirstPhase,
    /// True if a round's mediators take part in the next rounds, and only the missing ones are asked.
    pub reuse: bool,
    /// The reaction of a contender to mediators that do not answer.
    pub on_failure: OnFailure,
    /// The rules of the asynchronous second phase.
    pub tables: Tables,
    /// tau; the delay bound if `None`.
    pub tau: Option<Span>,
    /// The range of the factor by which contenders misestimate the size of the group, in thousandths.
    pub estimate: (u32, u32),
    /// The random walk that finds mediators in an overlay.
    pub walk: Walk,
    /// The number of steps of a walk; `None` for the mixing steps of the overlay.
    pub steps: Option<u32>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            mode: Mode::Async,
            rounds: Rounds::default(),
            rounding: Rounding::Ceil,
            mediator: FirstPhase::First,
            reuse: false,
            on_failure: OnFailure::AllPositive,
            tables: Tables::Repaired,
            tau: None,
            estimate: (1_000, 1_000),
            walk: Walk::Metropolis,
            steps: None,
        }
    }
}

/// A [`Parameter`] with one of several words as its value.
macro_rules! words_parameter {
    ($name:literal, $field:ident, $help:literal, $($word:literal => $value:expr),+ $(,)?) => {
        Parameter {
            name: $name,
            value: words_parameter!(@join $($word),+),
            help: $help,
            set: |options, text| {
                options.$field = match text {
                    $($word => $value,)+
                    _ => return Err(format!(
                        "`{text}` is not one of {}", words_parameter!(@join $($word),+).replace('|', ", ")
                    )),
                };
                Ok(())
            },
            show: |options| match options.$field {
                $(value if value == $value => $word.to_string(),)+
                _ => unreachable!("every value has a word"),
            },
        }
    };
    (@join $first:literal $(, $rest:literal)*) => { concat!($first $(, "|", $rest)*) };
}

pub(crate) const MODE: Parameter<Options> = words_parameter!(
    "mode", mode,
    "A common clock and rounds of two message delays, or no clock in the first phase and time-outs in the \
     second",
    "sync" => Mode::Sync, "async" => Mode::Async,
);

pub(crate) const ROUNDS: Parameter<Options> = Parameter {
    name: "rounds",
    value: "auto[:EPS]|paper|figure1|log2|K",
    help: "Number of rounds of the first phase: the largest for which two contenders are left without a finalist \
           with probability EPS at most (0.01 unless given); as printed, log n - log log^6 n; as in Figure 1, \
           log2 n - 1; log2 n; or a number",
    set: |options, text| read_rounds(text).map(|rounds| options.rounds = rounds),
    show: |options| match options.rounds {
        rounds if rounds == Rounds::default() => "auto".to_string(),
        Rounds::Auto { ppm } => format!("auto:{}", f64::from(ppm) / 1e6),
        Rounds::Paper => "paper".to_string(),
        Rounds::Figure1 => "figure1".to_string(),
        Rounds::Log2 => "log2".to_string(),
        Rounds::Fixed(rounds) => rounds.to_string(),
    },
};

fn read_rounds(text: &str) -> Result<Rounds, String> {
    let wrong = || format!("`{text}` is not auto, auto:EPS, paper, figure1, log2 or a number from 0 to 60");
    match text.split_once(':') {
        Some(("auto", eps)) => match eps.parse::<f64>() {
            Ok(eps) if (0.000_001..=0.999_999).contains(&eps) => {
                Ok(Rounds::Auto { ppm: (eps * 1e6).round() as u32 })
            }
            _ => Err(format!("`{eps}` is not a probability from 0.000001 to 0.999999")),
        },
        Some(_) => Err(wrong()),
        None => match text {
            "auto" => Ok(Rounds::default()),
            "paper" => Ok(Rounds::Paper),
            "figure1" => Ok(Rounds::Figure1),
            "log2" => Ok(Rounds::Log2),
            _ => text.parse().ok().filter(|&rounds| rounds <= 60).map(Rounds::Fixed).ok_or_else(wrong),
        },
    }
}

pub(crate) const ROUNDING: Parameter<Options> = words_parameter!(
    "rounding", rounding,
    "Rounding of the number of mediators",
    "ceil" => Rounding::Ceil, "nearest" => Rounding::Nearest, "random" => Rounding::Random,
);

pub(crate) const MEDIATOR: Parameter<Options> = words_parameter!(
    "mediator", mediator,
    "Acceptance rule of a mediator in the asynchronous first phase: the first contender of each round, or the \
     same without rounds before the highest that it has seen",
    "first" => FirstPhase::First, "highest-round" => FirstPhase::HighestRound,
);

pub(crate) const REUSE: Parameter<Options> = switch_parameter!(
    "reuse-mediators",
    reuse,
    "A round's mediators take part in the later rounds of the first phase, and only the missing ones are asked"
);

pub(crate) const ON_FAILURE: Parameter<Options> = words_parameter!(
    "on-failure", on_failure,
    "Condition for a contender to continue: all its mediators answer positively, or none negatively",
    "all-positive" => OnFailure::AllPositive, "no-negative" => OnFailure::NoNegative,
);

pub(crate) const TABLES: Parameter<Options> = words_parameter!(
    "tables", tables,
    "Rules of the asynchronous second phase: Tables 5 to 7 letter by letter, the same without two \
     typographical errors, or repaired",
    "literal" => Tables::Literal, "printed" => Tables::Printed, "repaired" => Tables::Repaired,
);

pub(crate) const TAU: Parameter<Options> = Parameter {
    name: "tau",
    value: "TIME|delay-bound",
    help: "Message delay bound that contenders and mediators assume",
    set: |options, text| {
        options.tau = match text {
            "delay-bound" => None,
            _ => Some(text.parse::<Span>().map_err(|error| error + " nor `delay-bound`")?)
                .filter(|tau| !tau.is_zero()),
        };
        if options.tau.is_none() && text != "delay-bound" {
            return Err("must be more than 0: mediators need time to answer".to_string());
        }
        Ok(())
    },
    show: |options| options.tau.map_or("delay-bound".to_string(), |tau| tau.to_string()),
};

pub(crate) const ESTIMATE: Parameter<Options> = Parameter {
    name: "n-estimate",
    value: "FACTOR|LOW..HIGH",
    help: "Estimate of the size of the group by contenders, as a multiple of it: one factor for all, or one for \
           each, drawn log-uniformly between two",
    set: |options, text| {
        let factor = |text: &str| match text.parse::<f64>() {
            Ok(factor) if (0.001..=1_000.0).contains(&factor) => Ok((factor * 1_000.0).round() as u32),
            _ => Err(format!("`{text}` is not a factor from 0.001 to 1000, or two like 0.5..2")),
        };
        let (low, high) = text.split_once("..").unwrap_or((text, text));
        options.estimate = (factor(low)?, factor(high)?);
        if options.estimate.0 > options.estimate.1 {
            return Err(format!("{low} is more than {high}"));
        }
        Ok(())
    },
    show: |options| {
        let (low, high) = options.estimate;
        let factor = |thousandths| (f64::from(thousandths) / 1_000.0).to_string();
        if low == high { factor(low) } else { format!("{}..{}", factor(low), factor(high)) }
    },
};

pub(crate) const WALK: Parameter<Options> = words_parameter!(
    "walk", walk,
    "Random walk that finds mediators with --topology power-law: Metropolis-Hastings, which is uniform, or \
     naive, which favours processes with many neighbours",
    "metropolis" => Walk::Metropolis, "naive" => Walk::Naive,
);

pub(crate) const STEPS: Parameter<Options> = Parameter {
    name: "walk-steps",
    value: "STEPS|auto",
    help: "Number of steps of the random walk",
    set: |options, text| {
        options.steps = match text {
            "auto" => None,
            _ => match text.parse() {
                Ok(steps @ 1..=1_000_000) => Some(steps),
                _ => return Err(format!("`{text}` is not a number of steps from 1 to 1000000, nor `auto`")),
            },
        };
        Ok(())
    },
    show: |options| options.steps.map_or("auto".to_string(), |steps| steps.to_string()),
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_parse_as_they_print_and_invalid_values_are_rejected() {
        let mut options = Options::default();
        for (parameter, value) in [
            (&ROUNDS, "auto:0.001"),
            (&ROUNDS, "auto"),
            (&ROUNDS, "paper"),
            (&ROUNDS, "figure1"),
            (&ROUNDS, "log2"),
            (&ROUNDS, "7"),
            (&ESTIMATE, "0.5..2"),
            (&ESTIMATE, "2"),
            (&TAU, "0.5"),
            (&STEPS, "90"),
            (&TABLES, "literal"),
        ] {
            (parameter.set)(&mut options, value).unwrap();
            assert_eq!((parameter.show)(&options), value);
        }
        for (parameter, value) in [
            (&ROUNDS, "auto:0"),
            (&ROUNDS, "61"),
            (&ROUNDS, "some"),
            (&ESTIMATE, "0"),
            (&ESTIMATE, "2..1"),
            (&TAU, "0"),
            (&TAU, "soon"),
            (&STEPS, "0"),
            (&TABLES, "mended"),
        ] {
            let error = (parameter.set)(&mut options, value).unwrap_err();
            assert!(!error.is_empty(), "--{} {value}", parameter.name);
        }
    }
}
