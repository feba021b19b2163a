//! What can be set about a ring algorithm.

use std::marker::PhantomData;

use super::Token;
use suffrage_core::Parameter;
use suffrage_core::parameters;

/// What is done about a run that somebody's failure keeps from ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repair {
    /// Whoever has passed an `Election` on and waits for the outcome in vain calls another; first the
    /// predecessor of the one that has to conclude the run. "But what if predecessor also fails? And
    /// its predecessor also fails? (and so on)" (cs425, "Fixing for failures"): then its predecessor.
    pub timeouts: bool,
    /// Whoever has passed an `Election` on and then suspects the one that has to conclude the run, or
    /// the best so far, calls another (cs425, "Fixing for failures (2)"). Alone, it needs a detector
    /// that sees every failure: a process that is gone for less than the detector takes to notice may
    /// take a token with it, and nobody ever asks for it.
    pub detector: bool,
}

impl Repair {
    pub(super) const ALL: [Repair; 4] = [
        Repair { timeouts: true, detector: true },
        Repair { timeouts: true, detector: false },
        Repair { timeouts: false, detector: true },
        Repair { timeouts: false, detector: false },
    ];

    /// Nothing is done: the algorithm as printed.
    pub fn is_none(self) -> bool {
        !self.timeouts && !self.detector
    }
}

/// What can be set about a ring algorithm; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// How long to wait for the acknowledgement of a hop: more than a round trip.
    pub hop_timeout: Option<u64>,
    /// What is done about failures during an election.
    pub repair: Repair,
    /// How often a leader has its outcome go round again.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { hop_timeout: Some(3), repair: Repair { timeouts: true, detector: true }, reaffirm: None }
    }
}

/// The options one by one.
struct Table<T>(PhantomData<T>);

impl<T: Token> Table<T> {
    const PARAMETERS: &'static [Parameter<Options>] = &[
        Parameter {
            name: "hop-timeout",
            value: "DELAYS|off",
            help: "How long to wait for a successor's acknowledgement before the next one is tried, in message delays; `off`: no acknowledgements, only suspects are skipped",
            set: |options, text| parameters::optional_delays(text).map(|delays| options.hop_timeout = delays),
            show: |options| parameters::show_optional(options.hop_timeout),
        },
        Parameter {
            name: "repair",
            value: T::REPAIRS,
            help: "What is done about a failure that keeps an election from ending: a time-out, the failure detector, both, or nothing",
            set: |options, text| match T::REPAIRS.split('|').position(|name| name == text) {
                Some(place) => {
                    options.repair = Repair::ALL[place];
                    Ok(())
                }
                None => Err(format!("`{text}` is none of {}", T::REPAIRS.replace('|', ", "))),
            },
            show: |options| {
                let mut names = T::REPAIRS.split('|').zip(Repair::ALL);
                names.find(|(_, repair)| *repair == options.repair).map_or("", |(name, _)| name).to_string()
            },
        },
        Parameter {
            name: "reaffirm",
            value: "DELAYS|off",
            help: "How often the leader announces itself again, in message delays: for networks that lose messages",
            set: |options, text| parameters::optional_delays(text).map(|delays| options.reaffirm = delays),
            show: |options| parameters::show_optional(options.reaffirm),
        },
    ];
}

impl Options {
    pub(super) const fn parameters<T: Token>() -> &'static [Parameter<Options>] {
        Table::<T>::PARAMETERS
    }
}
