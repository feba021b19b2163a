//! Every schedule of a small group: each of the first messages takes no time or all of tau, and contenders begin at any
//! of three moments. With the repaired tables exactly one contender wins; with the printed ones not.

use std::cell::RefCell;

use suffrage_algorithms::randomized::Options;
use suffrage_algorithms::randomized::options::Tables;

use crate::algorithms::randomized::group::{ScriptedGroup, second_phase};

/// The results of all schedules.
#[derive(Debug, Default)]
struct SearchResult {
    schedules: usize,
    nobody: usize,
    several: usize,
    /// The longest time of a contender in the second phase, in tau.
    longest: f64,
    /// The number of schedules with a contender that never gets an answer.
    stuck: usize,
}

/// Three contenders, with ids from `mediators + 1` on and numbers rising or falling by id. All ask mediator 1, or
/// mediators 1 and 2.
fn search(tables: Tables, mediators: u32, rising: bool, depth: usize, starts: &[f64]) -> SearchResult {
    let processes = mediators as usize + 3;
    let estimate = (1_000.0 * f64::from(mediators) / processes as f64).round() as u32;
    let options = Options { estimate: (estimate, estimate), ..second_phase(tables) };
    let mediator_ids: Vec<u64> = (1..=u64::from(mediators)).collect();
    let ids: Vec<u64> = (1..=3).map(|index| u64::from(mediators) + index).collect();
    // With one mediator numbers are 0 or 1, and ids decide between equal ones.
    let number = |index: u64| match (mediators, rising) {
        (1, true) => 1,
        (1, false) => u64::from(index == 0),
        (_, true) => 3 + 5 * index,
        (_, false) => 13 - 5 * index,
    };
    let seeds: Vec<u64> = {
        let group = ScriptedGroup::new(processes, options, 0, Box::new(|_, _, _| 0.0));
        (0..).zip(&ids).map(|(index, &id)| group.seed_for_request(id, &mediator_ids, number(index))).collect()
    };
    let mut search = SearchResult::default();
    let moments = starts.len();
    for begin in 0..moments.pow(3) {
        let choices = RefCell::new(Vec::<bool>::new());
        loop {
            let taken = RefCell::new(0);
            let delay = |_: u64, _: u64, _: &_| {
                let index = *taken.borrow();
                *taken.borrow_mut() += 1;
                let mut choices = choices.borrow_mut();
                match index {
                    _ if index >= depth => 0.5,
                    _ if index < choices.len() => f64::from(u8::from(choices[index])),
                    _ => {
                        choices.push(false);
                        0.0
                    }
                }
            };
            let mut group = ScriptedGroup::new(processes, options, 0, Box::new(delay));
            for (index, (&id, &seed_for_request)) in ids.iter().zip(&seeds).enumerate() {
                group.set_seed(id, seed_for_request);
                // Offset by 0.01, so that no two begin at the same moment.
                let at = starts[begin / moments.pow(index as u32) % moments];
                group.begin(id, at + 0.01 * index as f64);
            }
            group.run_until_quiet();
            search.schedules += 1;
            match group.winners().len() {
                0 => search.nobody += 1,
                1 => {}
                _ => search.several += 1,
            }
            match group.longest() {
                Some(longest) => search.longest = search.longest.max(longest),
                None => search.stuck += 1,
            }
            drop(group);
            // The next schedule: flips the last choice that is not flipped yet.
            let mut choices = choices.borrow_mut();
            choices.truncate(*taken.borrow());
            while choices.last() == Some(&true) {
                choices.pop();
            }
            match choices.last_mut() {
                Some(last) => *last = true,
                None => break,
            }
        }
    }
    search
}

#[test]
fn one_mediator_and_three_contenders_always_have_one_winner() {
    for rising in [true, false] {
        let search = search(Tables::Repaired, 1, rising, 9, &[0.0, 1.5, 3.0]);
        println!("{search:?}");
        assert_eq!((search.nobody, search.several, search.stuck), (0, 0, 0), "{search:?}");
        assert!(search.schedules > 5_000 && search.longest <= 10.0, "{search:?}");
    }
}

#[test]
fn two_mediators_and_three_contenders_always_have_one_winner() {
    for rising in [true, false] {
        let search = search(Tables::Repaired, 2, rising, 11, &[0.0, 1.5, 3.0]);
        println!("{search:?}");
        assert_eq!((search.nobody, search.several, search.stuck), (0, 0, 0), "{search:?}");
        assert!(search.schedules > 20_000 && search.longest <= 10.0, "{search:?}");
    }
}

/// The same search finds the flaws of the printed tables.
#[test]
fn the_printed_tables_leave_nobody_or_several() {
    let search = search(Tables::Printed, 2, true, 11, &[0.0, 1.5, 3.0]);
    println!("{search:?}");
    assert!(search.nobody > 0 && search.several > 0, "{search:?}");
}
