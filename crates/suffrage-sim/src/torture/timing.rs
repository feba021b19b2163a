//! Crashes in the middle of an input, messages that are late or slow, and delay bounds that are too large.

use suffrage_core::{Rng, Span, Time};

use super::{MAX_SLOW_FACTOR, STORM_END};
use crate::{CrashPoint, Fault, Plan};

/// The greatest additional delay of a message, in delay bounds, for algorithms without leases.
pub(super) const MAX_LATE_BOUNDS: u64 = 100;

fn moment(rng: &mut Rng) -> Time {
    Time::ZERO + Span::from_millis(rng.below(STORM_END))
}

/// A random beginning, and an end unless the fault lasts to the end of the storm.
fn interval(rng: &mut Rng) -> (Time, Option<Time>) {
    let (one, other) = (moment(rng), moment(rng));
    (one.min(other), (one != other && rng.chance(0.7)).then_some(one.max(other)))
}

/// A delay bound that is 2 to 20 times too large, in one case of ten.
pub(super) fn large_bound(rng: &mut Rng, bound: Span) -> Option<Span> {
    rng.chance(0.1).then(|| bound * (2 + rng.below(MAX_SLOW_FACTOR - 1)))
}

/// A delay bound that is 2 to 20 times too small, in one case of five. A real round trip takes at most `round_trip` of
/// these bounds.
pub(super) fn small_bound(rng: &mut Rng, bound: Span, round_trip: u64) -> Option<Span> {
    let max = largest_divisor(round_trip);
    (max >= 2 && rng.chance(0.2)).then(|| Span::from_nanos(bound.as_nanos() / (2 + rng.below(max - 1))))
}

fn largest_divisor(round_trip: u64) -> u64 {
    (round_trip / 2).min(MAX_SLOW_FACTOR)
}

/// The smallest delay bound that is drawn for a network with this bound.
pub(super) fn smallest_bound(bound: Span, round_trip: u64) -> Span {
    Span::from_nanos(bound.as_nanos() / largest_divisor(round_trip).max(1))
}

/// A random crash point in the effects of an input, half of the time at a save.
pub(super) fn crash_point(rng: &mut Rng) -> CrashPoint {
    match rng.below(4) {
        0 => CrashPoint::BeforeSave,
        1 => CrashPoint::AfterSave,
        _ => CrashPoint::Effects(rng.below(12) as u32),
    }
}

/// Crashes in the middle of an input. Most processes recover, and some crash again in their recovery.
pub(super) fn crashes(rng: &mut Rng, members: usize) -> Plan {
    let count = if rng.chance(0.5) { 0 } else { 1 + rng.below(3) };
    let mut plan = Plan::new();
    for _ in 0..count {
        let slot = rng.below(members as u64) as usize;
        let mut times = [moment(rng), moment(rng), moment(rng)];
        times.sort_unstable();
        let second = times[1];
        plan.push((times[0], Fault::CrashMidway { slot, point: crash_point(rng) }));
        if rng.chance(0.2) {
            plan.push((second, Fault::Crash(slot)));
            plan.push((second, Fault::CrashMidway { slot, point: crash_point(rng) }));
        }
        if rng.chance(0.7) {
            plan.push((times[2], Fault::Recover { slot, disk: rng.chance(0.5) }));
        }
    }
    plan
}

/// Periods in which messages take up to twenty times the usual delay.
pub(super) fn slow_messages(rng: &mut Rng) -> Plan {
    let count = if rng.chance(0.7) { 0 } else { 1 + rng.below(2) };
    let mut plan = Plan::new();
    for _ in 0..count {
        let (from, to) = interval(rng);
        plan.push((from, Fault::Slow((2 + rng.below(MAX_SLOW_FACTOR - 1)) as f64)));
        plan.extend(to.map(|to| (to, Fault::Slow(1.0))));
    }
    plan
}

/// Slow disks in four cases of ten, mostly from the start: a voter saves most when it first grants leases.
pub(super) fn slow_disks(rng: &mut Rng, longest: Span) -> Plan {
    if rng.chance(0.6) {
        return Plan::new();
    }
    let (from, to) = if rng.chance(0.7) { (Time::ZERO, Some(moment(rng))) } else { interval(rng) };
    // At least a tenth of a time unit, to be readable on a command line.
    let tenths = 1 + (longest.as_units() * 10.0 * rng.unit() * rng.unit()) as u64;
    let delay = Span::from_units(tenths as f64 / 10.0);
    let end = to.filter(|&to| to > from).map(|to| (to, Fault::SlowDisk(Span::ZERO)));
    std::iter::once((from, Fault::SlowDisk(delay))).chain(end).collect()
}

/// A period in which a few messages are late.
pub(super) fn late_messages(rng: &mut Rng, longest: Span) -> Plan {
    if rng.chance(0.7) {
        return Plan::new();
    }
    let (from, to) = interval(rng);
    let end = to.map(|to| (to, Fault::Late { probability: 0.0, max_delay: Span::ZERO }));
    std::iter::once((from, late(rng, 50, longest))).chain(end).collect()
}

/// Late messages with a probability of up to `thousandths` in a thousand, and a random greatest delay of up to
/// `longest`.
pub(super) fn late(rng: &mut Rng, thousandths: u64, longest: Span) -> Fault {
    let probability = (1 + rng.below(thousandths)) as f64 / 1000.0;
    Fault::Late { probability, max_delay: Span::from_millis(1 + (longest.as_units() * rng.unit()) as u64) }
}
