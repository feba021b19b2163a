//! The end of a run, what it is checked for, and its seed.

use suffrage_core::{Span, Time};

use super::values::{self, set, show};
use super::{Flag, Section};
use crate::Scenario;

/// What the flags say about a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSpec {
    /// The end of the run.
    pub until: Option<Time>,
    /// The number of events that are put up with.
    pub limit: Option<u64>,
    /// The time after which a leader must stay.
    pub stable: Option<Span>,
    /// The seed.
    pub seed: Option<u64>,
}

pub(super) const SECTION: Section = Section {
    heading: "Runs",
    flags: &[
        Flag {
            name: "until",
            value: "TIME",
            help: "When a run is over at the latest [default: long after the last fault]",
            parse_value: |spec, text| set(&mut spec.run.until, text.parse::<Time>()),
            print_values: |spec| show(&spec.run.until),
            ..Flag::NEW
        },
        Flag {
            name: "limit",
            value: "EVENTS",
            help: "Ends a run that has more events than this, and takes that for a broken promise [default: none]",
            parse_value: |spec, text| set(&mut spec.run.limit, limit(text)),
            print_values: |spec| show(&spec.run.limit),
            ..Flag::NEW
        },
        Flag {
            name: "stable",
            value: "TIME",
            help: "Takes it for a broken promise if a leader that all have believed in for this long, and that is \
                   well and cut from nobody, is replaced or gets another token; for networks that lose nothing \
                   [default: nobody looks]",
            parse_value: |spec, text| set(&mut spec.run.stable, text.parse::<Span>()),
            print_values: |spec| show(&spec.run.stable),
            ..Flag::NEW
        },
        Flag {
            name: "seed",
            value: "SEED",
            help: "Decides everything that is left to chance [default: 0]",
            parse_value: |spec, text| set(&mut spec.run.seed, values::seed(text)),
            print_values: |spec| show(&spec.run.seed),
            ..Flag::NEW
        },
    ],
};

fn limit(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(events @ 1..) => Ok(events),
        _ => Err(format!("`{text}` is not a number of events from 1 on")),
    }
}

impl RunSpec {
    pub(super) fn apply(&self, scenario: &mut Scenario) {
        scenario.until = self.until;
        scenario.limit = self.limit;
        scenario.stable = self.stable;
        scenario.seed = self.seed.unwrap_or(0);
    }

    pub(super) fn of(scenario: &Scenario) -> RunSpec {
        let Scenario { until, limit, stable, seed, .. } = *scenario;
        RunSpec { until, limit, stable, seed: Some(seed) }
    }
}
