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

#[cfg(test)]
mod tests {
    use suffrage_algorithms::quorum_lease::QuorumLease;

    use super::*;
    use crate::{TortureCase, TortureTarget};

    /// Changes of the voters come with everything that may happen to their coordinators and to the disks of voters.
    #[test]
    fn changes_of_the_voters_are_disturbed() {
        let (mut stopped, mut excused, mut killed, mut paused, mut lost, mut newcomers, mut plots) =
            (0, 0, 0, 0, 0, 0, 0);
        for seed in 0..3_000 {
            let TortureCase { scenario, options, .. } = TortureTarget::<QuorumLease>::default().case(seed);
            if !options.changes {
                continue;
            }
            let end = Time::ZERO + Span::from_millis(STORM_END);
            // Leaders may change their values later: that disturbs nothing.
            let disturbing = scenario.commands.iter().filter(|(.., command)| !command.starts_with("value "));
            let last = disturbing.map(|(at, ..)| *at).max();
            assert!(last.is_none_or(|last| last <= end), "seed {seed}");
            let changes =
                || scenario.commands.iter().filter(|(_, _, command)| command.starts_with("voters "));
            let commanded = |text: &str| changes().any(|(_, _, command)| command.starts_with(text));
            let coordinated = |at: Time, slot: usize| changes().any(|(t, s, _)| *t <= at && *s == slot);
            let planned =
                |is: &dyn Fn(Time, &Fault) -> bool| scenario.plan.iter().any(|(at, fault)| is(*at, fault));
            stopped += u32::from(commanded("voters stop"));
            excused += u32::from(commanded("voters adopt without"));
            killed += u32::from(planned(&|at, fault| {
                matches!(fault, Fault::CrashMidway { slot, .. }
                    if changes().any(|(t, s, _)| *t == at && s == slot))
            }));
            paused += u32::from(planned(
                &|at, fault| matches!(fault, Fault::Pause(slot, _) if coordinated(at, *slot)),
            ));
            lost += u32::from(planned(&|_, fault| matches!(fault, Fault::Recover { disk: false, .. })));
            newcomers += u32::from(options.known.is_some());
            plots += u32::from(scenario.initiators.is_empty());
        }
        let counts = [stopped, excused, killed, paused, lost, newcomers, plots];
        assert!(counts.iter().all(|&count| count >= 10), "{counts:?}");
    }
}
