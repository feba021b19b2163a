//! Options of the ring algorithms.

use std::marker::PhantomData;

use super::Token;
use suffrage_core::Parameter;
use suffrage_core::parameters;

/// Repair of a run that a failure keeps from ending.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Repair {
    /// A process that has passed an `Election` on and does not get the outcome in time calls another election. The
    /// predecessor of the process that has to conclude the run times out first. "But what if predecessor also fails?
    /// And its predecessor also fails? (and so on)" (cs425, "Fixing for failures"): then its predecessor.
    pub timeouts: bool,
    /// A process that has passed an `Election` on and then suspects the process that has to conclude the run, or the
    /// best process so far, calls another election (cs425, "Fixing for failures (2)"). This repair alone needs a
    /// detector that detects every failure: a token is lost for good with a process that restarts before the
    /// detector notices its crash.
    pub detector: bool,
}

impl Repair {
    pub(super) const ALL: [Repair; 4] = [
        Repair { timeouts: true, detector: true },
        Repair { timeouts: true, detector: false },
        Repair { timeouts: false, detector: true },
        Repair { timeouts: false, detector: false },
    ];

    /// Returns whether there is no repair: the algorithm as published.
    pub fn is_none(self) -> bool {
        !self.timeouts && !self.detector
    }
}

/// The options of the ring algorithms; times in message delays.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Options {
    /// The time to wait for the acknowledgement of a hop: more than a round trip.
    pub hop_timeout: Option<u64>,
    /// The repair of failures during an election.
    pub repair: Repair,
    /// The period at which a leader circulates its outcome again.
    pub reaffirm: Option<u64>,
}

impl Default for Options {
    fn default() -> Options {
        Options { hop_timeout: Some(3), repair: Repair { timeouts: true, detector: true }, reaffirm: None }
    }
}

/// The parameters of the algorithm `T`.
struct ParameterTable<T>(PhantomData<T>);

impl<T: Token> ParameterTable<T> {
    const PARAMETERS: &'static [Parameter<Options>] = &[
        Parameter {
            name: "hop-timeout",
            value: "DELAYS|off",
            help: "Time to wait for a successor's acknowledgement before the next successor is tried, in message delays; `off`: no acknowledgements, only suspected processes are skipped",
            set: |options, text| parameters::optional_delays(text).map(|delays| options.hop_timeout = delays),
            show: |options| parameters::show_optional(options.hop_timeout),
        },
        Parameter {
            name: "repair",
            value: T::REPAIRS,
            help: "Repair of an election that a failure keeps from ending: by a time-out, by the failure detector, by both, or none",
            set: |options, text| match T::REPAIRS.split('|').position(|name| name == text) {
                Some(index) => {
                    options.repair = Repair::ALL[index];
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
            help: "Period at which the leader announces itself again, in message delays: for networks that lose messages",
            set: |options, text| parameters::optional_delays(text).map(|delays| options.reaffirm = delays),
            show: |options| parameters::show_optional(options.reaffirm),
        },
    ];
}

impl Options {
    pub(super) const fn parameters<T: Token>() -> &'static [Parameter<Options>] {
        ParameterTable::<T>::PARAMETERS
    }
}
