//! Faults that an algorithm draws together with its commands.

use suffrage_core::{Disruption, Span, Time};

use super::STORM_END;
use crate::{CrashPoint, Cut, Fault, Scenario};

/// The number of the first cut. Those of leases begin at 1,000.
const FIRST_CUT: usize = 2_000;

/// Adds these faults to the plan. They begin before the storm ends, and end with it at the latest.
pub(super) fn add(scenario: &mut Scenario, disruptions: Vec<(Time, Disruption)>) {
    let storm_end = Time::ZERO + Span::from_millis(STORM_END);
    let members = scenario.roster.len();
    let mut cuts = FIRST_CUT..;
    for (at, disruption) in disruptions.into_iter().filter(|(at, _)| *at < storm_end) {
        let within = |time: Time| time.max(at).min(storm_end);
        match disruption {
            Disruption::Pause { slot, until } => {
                scenario.plan.push((at, Fault::Pause(slot, within(until))));
            }
            Disruption::Restart { slot, back, disk } => {
                scenario.plan.push((at, Fault::Crash(slot)));
                scenario.plan.push((within(back), Fault::Recover { slot, disk }));
            }
            Disruption::CrashMidway { slot, effects, back } => {
                scenario.plan.push((at, Fault::CrashMidway { slot, point: CrashPoint::Effects(effects) }));
                scenario.plan.push((within(back), Fault::Recover { slot, disk: true }));
            }
            Disruption::Separate { slots, until, one_way } => {
                let others = (0..members).filter(|slot| !slots.contains(slot)).collect();
                let name = cuts.next().expect("there are always more");
                scenario.plan.push((at, Fault::Cut(name, Cut::new(members, &[others, slots], one_way))));
                if within(until) < storm_end {
                    scenario.plan.push((until, Fault::Heal(name)));
                }
            }
        }
    }
}
