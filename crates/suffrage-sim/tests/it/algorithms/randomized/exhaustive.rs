//! Every schedule of a small world: each of the first messages takes no time or all of tau, and contenders
//! begin at any of three moments. As repaired, exactly one wins; as printed, not so.

use std::cell::RefCell;

use suffrage_algorithms::randomized::Options;
use suffrage_algorithms::randomized::options::Tables;

use crate::algorithms::randomized::stage::{Stage, second_phase};

/// What came of all schedules.
#[derive(Debug, Default)]
struct Census {
    schedules: usize,
    nobody: usize,
    several: usize,
    /// How long anybody was in the second phase at most, in tau.
    longest: f64,
    /// Somebody was left without an answer.
    stuck: usize,
}

/// Contenders `mediators + 1..`, three of them with numbers rising or falling by id, all of whom ask
/// mediators 1, or 1 and 2.
fn census(tables: Tables, mediators: u32, rising: bool, depth: usize, starts: &[f64]) -> Census {
    let players = mediators as usize + 3;
    let estimate = (1_000.0 * f64::from(mediators) / players as f64).round() as u32;
    let options = Options { estimate: (estimate, estimate), ..second_phase(tables) };
    let panel: Vec<u64> = (1..=u64::from(mediators)).collect();
    let ids: Vec<u64> = (1..=3).map(|place| u64::from(mediators) + place).collect();
    // With one mediator numbers are 0 or 1, and ids decide between equal ones.
    let number = |place: u64| match (mediators, rising) {
        (1, true) => 1,
        (1, false) => u64::from(place == 0),
        (_, true) => 3 + 5 * place,
        (_, false) => 13 - 5 * place,
    };
    let lucks: Vec<u64> = {
        let stage = Stage::new(players, options, 0, Box::new(|_, _, _| 0.0));
        (0..).zip(&ids).map(|(place, &id)| stage.luck(id, &panel, number(place))).collect()
    };
    let mut census = Census::default();
    let moments = starts.len();
    for begin in 0..moments.pow(3) {
        let choices = RefCell::new(Vec::<bool>::new());
        loop {
            let taken = RefCell::new(0);
            let delay = |_: u64, _: u64, _: &_| {
                let place = *taken.borrow();
                *taken.borrow_mut() += 1;
                let mut choices = choices.borrow_mut();
                match place {
                    _ if place >= depth => 0.5,
                    _ if place < choices.len() => f64::from(u8::from(choices[place])),
                    _ => {
                        choices.push(false);
                        0.0
                    }
                }
            };
            let mut stage = Stage::new(players, options, 0, Box::new(delay));
            for (place, (&id, &luck)) in ids.iter().zip(&lucks).enumerate() {
                stage.recast(id, luck);
                // A little apart, so that no two begin at the same moment.
                let at = starts[begin / moments.pow(place as u32) % moments];
                stage.begin(id, at + 0.01 * place as f64);
            }
            stage.play();
            census.schedules += 1;
            match stage.winners().len() {
                0 => census.nobody += 1,
                1 => {}
                _ => census.several += 1,
            }
            match stage.longest() {
                Some(longest) => census.longest = census.longest.max(longest),
                None => census.stuck += 1,
            }
            drop(stage);
            // The next schedule: the last choice that can be otherwise is.
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
    census
}

#[test]
fn one_mediator_and_three_contenders_always_have_one_winner() {
    for rising in [true, false] {
        let census = census(Tables::Repaired, 1, rising, 9, &[0.0, 1.5, 3.0]);
        println!("{census:?}");
        assert_eq!((census.nobody, census.several, census.stuck), (0, 0, 0), "{census:?}");
        assert!(census.schedules > 5_000 && census.longest <= 10.0, "{census:?}");
    }
}

#[test]
fn two_mediators_and_three_contenders_always_have_one_winner() {
    for rising in [true, false] {
        let census = census(Tables::Repaired, 2, rising, 11, &[0.0, 1.5, 3.0]);
        println!("{census:?}");
        assert_eq!((census.nobody, census.several, census.stuck), (0, 0, 0), "{census:?}");
        assert!(census.schedules > 20_000 && census.longest <= 10.0, "{census:?}");
    }
}

/// The search finds what is to be found: the same with the printed tables.
#[test]
fn the_printed_tables_leave_nobody_or_several() {
    let census = census(Tables::Printed, 2, true, 11, &[0.0, 1.5, 3.0]);
    println!("{census:?}");
    assert!(census.nobody > 0 && census.several > 0, "{census:?}");
}
