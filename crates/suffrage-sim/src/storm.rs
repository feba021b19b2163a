//! Random faults by a seed.

use suffrage_core::{Rng, Span, Time};

use crate::{Cut, Fault, Plan};

/// The parameters of a storm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Storm {
    /// The number of processes.
    pub members: usize,
    /// The beginning of the faults.
    pub from: Time,
    /// The end of the faults.
    pub to: Time,
    /// True if messages are lost and duplicated too.
    pub lossy: bool,
    /// The shortest duration of a cut. Shorter cuts lose messages before a detector notices them.
    pub shortest_cut: Span,
}

/// Draws crashes, recoveries, pauses, cuts and, if wanted, lost and duplicated messages, at any moment of the storm. At
/// its end the network heals, but in one of four storms a last cut stays. Most of the dead processes recover.
pub fn storm(seed: u64, storm: Storm) -> Plan {
    let rng = &mut Rng::new(seed);
    let mut plan = Plan::new();
    let length = storm.to.since(storm.from);
    let moment = |rng: &mut Rng| storm.from + length.scale(rng.unit());

    let flaps = rng.below(storm.members as u64 + 1);
    for _ in 0..flaps {
        let slot = rng.below(storm.members as u64) as usize;
        let (one, other) = (moment(rng), moment(rng));
        match rng.below(4) {
            0 => plan.push((one.min(other), Fault::Pause(slot, one.max(other)))),
            1 => plan.push((one, Fault::Crash(slot))),
            _ => {
                plan.push((one.min(other), Fault::Crash(slot)));
                plan.push((one.max(other), Fault::Recover { slot, disk: rng.chance(0.5) }));
            }
        }
    }
    for name in 1..=rng.below(4) as usize {
        let (one, other) = (moment(rng), moment(rng));
        let healed = one.max(other).max(one.min(other) + storm.shortest_cut);
        plan.push((one.min(other), Fault::Cut(name, random_cut(rng, storm.members))));
        if healed < storm.to {
            plan.push((healed, Fault::Heal(name)));
        }
    }
    if storm.lossy {
        plan.push((storm.from, Fault::Loss(rng.unit() * 0.5)));
        plan.push((storm.from, Fault::Duplicate(rng.unit() * 0.3)));
    }
    plan.push((storm.to, Fault::HealAll));
    for slot in 0..storm.members {
        if rng.chance(0.7) {
            plan.push((storm.to, Fault::Recover { slot, disk: rng.chance(0.5) }));
        }
    }
    if rng.chance(0.25) {
        let sides: Vec<_> = (0..storm.members).map(|_| rng.below(2)).collect();
        let side = |which| (0..storm.members).filter(|&slot| sides[slot] == which).collect();
        plan.push((storm.to, Fault::Cut(0, Cut::new(storm.members, &[side(0), side(1)], false))));
    }
    plan.sort_by_key(|(at, _)| *at);
    plan
}

/// Makes every recovery keep the disk: for algorithms that rely on it.
pub fn keep_disks(plan: &mut Plan) {
    for (_, fault) in plan {
        if let Fault::Recover { disk, .. } = fault {
            *disk = true;
        }
    }
}

/// A cut with two or three sides; it may be one-way, and some processes may be on no side.
fn random_cut(rng: &mut Rng, members: usize) -> Cut {
    let sides = 2 + rng.below(2) as usize;
    let mut groups = vec![Vec::new(); sides + 1];
    for slot in 0..members {
        let choices = sides as u64 + u64::from(rng.chance(0.2));
        groups[rng.below(choices) as usize].push(slot);
    }
    Cut::new(members, &groups[..sides], rng.chance(0.25))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_decided_by_its_seed_and_ends_in_time() {
        let config = Storm {
            members: 6,
            from: "10".parse().unwrap(),
            to: "90".parse().unwrap(),
            lossy: true,
            shortest_cut: Span::from_millis(4),
        };
        assert_eq!(storm(1, config), storm(1, config));
        assert_ne!(storm(1, config), storm(2, config));
        for seed in 0..200 {
            let plan = storm(seed, config);
            assert!(plan.is_sorted_by_key(|(at, _)| *at));
            assert!(plan.iter().all(|(at, _)| (config.from..=config.to).contains(at)));
            assert!(plan.contains(&(config.to, Fault::HealAll)), "seed {seed}");
        }
    }
}
