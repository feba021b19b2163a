//! The end of a run, its checks, and its seed.

use suffrage_core::{Span, Time};

use super::values::{self, set, show};
use super::{Flag, Section};
use crate::Scenario;

/// The values of the flags of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunSpec {
    /// The end of the run.
    pub until: Option<Time>,
    /// The greatest number of events.
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
            help: "The latest end of a run [default: long after the last fault]",
            parse_value: |spec, text| set(&mut spec.run.until, text.parse::<Time>()),
            print_values: |spec| show(&spec.run.until),
            ..Flag::NEW
        },
        Flag {
            name: "limit",
            value: "EVENTS",
            help: "Ends a run that has more events than this, and reports a broken promise [default: none]",
            parse_value: |spec, text| set(&mut spec.run.limit, limit(text)),
            print_values: |spec| show(&spec.run.limit),
            ..Flag::NEW
        },
        Flag {
            name: "stable",
            value: "TIME",
            help: "Reports a broken promise if a healthy leader that all have believed in for this long is replaced \
                   or gets another token; for networks without loss [default: not checked]",
            parse_value: |spec, text| set(&mut spec.run.stable, text.parse::<Span>()),
            print_values: |spec| show(&spec.run.stable),
            ..Flag::NEW
        },
        Flag {
            name: "seed",
            value: "SEED",
            help: "The seed of every random decision [default: 0]",
            parse_value: |spec, text| set(&mut spec.run.seed, values::seed(text)),
            print_values: |spec| show(&spec.run.seed),
            ..Flag::NEW
        },
    ],
};

fn limit(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(events @ 1..) => Ok(events),
        _ => Err(format!("`{text}` is not a number of events; use 1 or more")),
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
