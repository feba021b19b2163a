//! Who led when: by the clock of the machine, never two at once, and with growing tokens.

use crate::driver::{Driver, Event, now_ns};

/// A leadership. A client that still leads does so until now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Tenure {
    start_ns: u64,
    end_ns: u64,
    token: u64,
}

/// Checks the leaderships of drivers that have led one election only, and returns how many there were.
#[track_caller]
pub(crate) fn check(drivers: &[&Driver]) -> usize {
    let mut all = Vec::new();
    for driver in drivers {
        let end_ns = driver.killed_ns().unwrap_or_else(now_ns);
        all.extend(tenures(&driver.events(), end_ns).unwrap_or_else(|problem| panic!("{problem}")));
    }
    if let Some(problem) = problem(&mut all) {
        panic!("{problem}");
    }
    all.len()
}

/// The leaderships of one driver.
fn tenures(events: &[Event], now_ns: u64) -> Result<Vec<Tenure>, String> {
    let mut found = Vec::new();
    for (index, leading) in events.iter().enumerate().filter(|(_, event)| event.event == "leading") {
        let ended = events.iter().position(|event| event.event == "ended" && event.id == leading.id);
        let end_ns = ended.map_or(now_ns, |ended| events[ended].at_ns);
        if ended.is_some_and(|ended| ended < index) || end_ns < leading.at_ns {
            return Err(format!("leadership {} has ended before it began: {leading:?}", leading.id));
        }
        // A valid check is evidence that the client believed to lead at that moment.
        let valid =
            events.iter().filter(|event| event.event == "checked" && event.id == leading.id && event.valid);
        if let Some(late) = valid.max_by_key(|event| event.at_ns).filter(|event| event.at_ns >= end_ns) {
            return Err(format!("a check was valid {} ns after the end: {late:?}", late.at_ns - end_ns));
        }
        found.push(Tenure { start_ns: leading.at_ns, end_ns, token: leading.token });
    }
    Ok(found)
}

fn problem(all: &mut [Tenure]) -> Option<String> {
    all.sort_unstable();
    all.windows(2).find_map(|pair| {
        let (first, next) = (pair[0], pair[1]);
        if next.start_ns < first.end_ns {
            let overlap = first.end_ns - next.start_ns;
            return Some(format!("two lead for {overlap} ns: {first:?} and {next:?}"));
        }
        (next.token <= first.token).then(|| format!("the token does not grow: {first:?}, then {next:?}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(event: &str, id: u64, at_ns: u64) -> Event {
        Event { event: event.to_string(), id, at_ns, token: id, valid: true, ..Event::default() }
    }

    #[test]
    fn overlaps_and_tokens_that_do_not_grow_are_found() {
        let tenure = |start_ns, end_ns, token| Tenure { start_ns, end_ns, token };
        assert_eq!(problem(&mut [tenure(10, 20, 2), tenure(1, 10, 1)]), None);
        let found = problem(&mut [tenure(1, 10, 1), tenure(9, 20, 2)]);
        assert!(found.unwrap().contains("two lead for 1 ns"));
        assert!(problem(&mut [tenure(1, 10, 2), tenure(10, 20, 2)]).unwrap().contains("does not grow"));
    }

    #[test]
    fn a_leadership_lasts_until_its_end_or_now() {
        let log = [event("leading", 1, 5), event("ended", 1, 9), event("leading", 2, 11)];
        let lasts: Vec<_> = tenures(&log, 30).unwrap().iter().map(|it| (it.start_ns, it.end_ns)).collect();
        assert_eq!(lasts, [(5, 9), (11, 30)]);
        let late = [event("leading", 1, 5), event("ended", 1, 9), event("checked", 1, 9)];
        assert!(tenures(&late, 30).unwrap_err().contains("0 ns after the end"));
        assert!(tenures(&[event("leading", 1, 5), event("ended", 1, 4)], 30).is_err());
    }
}
