//! The flaws of the printed protocol that need a schedule, each with its repair. No message takes longer than tau. Flaws
//! of a single mediator are in `algorithms/randomized/mediator/tests.rs`.

use suffrage_algorithms::randomized::options::Tables;
use suffrage_algorithms::randomized::{Message, Options};

use crate::algorithms::randomized::group::{ScriptedGroup, second_phase};

/// Options with an estimate of the group size for which contenders ask `mediators` mediators.
fn few_mediators(processes: u32, mediators: u32, tables: Tables) -> Options {
    // One mediator for n = 1, two for n = 2.
    let estimate = 1_000 * mediators / processes;
    Options { estimate: (estimate, estimate), ..second_phase(tables) }
}

/// Contenders 2, 3 and 4 with rising numbers, one mediator, 1. The script of ALGORITHMS.md: "REQ C1; REQ C0
/// is NAKed; POTW C1; REQ C2 waits; C0's DEC arrives".
fn loser_declines(tables: Tables) -> (Vec<u64>, String) {
    let delay = |_: u64, to: u64, message: &Message| match message {
        Message::Nak { .. } if to == 2 => 0.5,
        _ => 0.1,
    };
    let mut group = ScriptedGroup::new(4, few_mediators(4, 1, tables), 0, Box::new(delay));
    for (id, number, at) in [(3, 1, 0.0), (2, 0, 0.1), (4, 1, 0.5)] {
        group.force_request(id, &[1], number);
        group.begin(id, at);
    }
    group.run_until_quiet();
    (group.winners(), group.log)
}

#[test]
fn a_losers_dec_dethrones_a_potential_winner_and_two_win() {
    let (winners, log) = loser_declines(Tables::Printed);
    assert_eq!(winners, [3, 4], "{log}");
    let exchange = "
   0.1  3 REQ 1
   0.2  2 REQ 1
   0.2  1 ACK 3
   0.3  3 POTW 1
   0.6  4 REQ 1
   0.7  1 NAK 2
   0.8  2 DEC 1
   0.9  1 ACK 4
     1  4 POTW 1
   2.2  3 leads
   2.9  4 leads
";
    assert_eq!(log, exchange[1..]);
}

#[test]
fn a_losers_dec_is_ignored_as_repaired() {
    let (winners, log) = loser_declines(Tables::Repaired);
    assert_eq!(winners, [3], "{log}");
    let exchange = "
   0.1  3 REQ 1
   0.2  2 REQ 1
   0.2  1 ACK 3
   0.3  3 POTW 1
   0.4  1 POTW-ACK 3
   0.4  3 leads
   0.6  4 REQ 1
   0.7  1 NAK 2
   3.4  1 NAK 4
";
    assert_eq!(log, exchange[1..]);
}

/// Mediators 1 and 2, contenders 3 and 4, of which 4 has the greater number. 3 has both ACKs when its time at 2 expires,
/// where 4 waits. The POTW of 3 is in time at 1, where 4 waits too.
fn both_refused(tables: Tables) -> (Vec<u64>, String) {
    let delay = |from: u64, to: u64, message: &Message| match (from, to, message) {
        (3, 2, Message::Req { .. }) => 0.0,
        (3, 1, Message::Req { .. }) | (1, 3, Message::Ack { .. }) | (3, 2, Message::Potw { .. }) => 1.0,
        (1, 4, Message::Nak { .. }) => 1.0,
        _ => 0.1,
    };
    let mut group = ScriptedGroup::new(4, few_mediators(4, 2, tables), 0, Box::new(delay));
    for (id, number, at) in [(3, 5, 0.0), (4, 9, 1.2)] {
        group.force_request(id, &[1, 2], number);
        group.begin(id, at);
    }
    group.run_until_quiet();
    (group.winners(), group.log)
}

#[test]
fn a_waiter_that_is_refused_on_potw_leaves_nobody() {
    let (winners, log) = both_refused(Tables::Printed);
    assert_eq!(winners, [0u64; 0], "{log}");
    let exchange = "
     0  3 REQ 2
   0.1  2 ACK 3
     1  3 REQ 1
   1.3  4 REQ 1
   1.3  4 REQ 2
     2  1 ACK 3
   2.1  3 POTW 1
     3  3 POTW 2
   3.1  1 NAK 4
   3.1  2 NAK 3
   3.1  2 ACK 4
   3.1  2 NAK 3
   3.2  4 DEC 1
   3.2  4 DEC 2
   3.2  3 DEC 1
   3.2  3 DEC 2
";
    assert_eq!(log, exchange[1..]);
}

#[test]
fn a_waiter_that_is_kept_wins_when_the_other_loses() {
    let (winners, log) = both_refused(Tables::Repaired);
    assert_eq!(winners, [4], "{log}");
    assert!(!log.contains("NAK 4") && log.contains("1 POTW-ACK 3\n"), "{log}");
}

/// Row 1 read literally: "init" without an ACK. One contender and one mediator have no winner.
#[test]
fn with_the_literal_tables_nobody_ever_wins() {
    for (tables, winners) in [(Tables::Literal, 0), (Tables::Printed, 1), (Tables::Repaired, 1)] {
        let mut group = ScriptedGroup::new(4, few_mediators(4, 1, tables), 0, Box::new(|_, _, _| 0.5));
        group.force_request(2, &[1], 1);
        group.begin(2, 0.0);
        group.run_until_quiet();
        assert_eq!(group.winners().len(), winners, "{:?}: {}", group.options().tables, group.log);
    }
}

/// In the printed tables final mediators do not answer: a late contender waits for ever, and so does a contender that
/// waits when the winner becomes final.
#[test]
fn late_contenders_are_left_waiting_as_printed_and_refused_as_repaired() {
    for (tables, told) in [(Tables::Printed, false), (Tables::Repaired, true)] {
        let mut group = ScriptedGroup::new(4, few_mediators(4, 1, tables), 0, Box::new(|_, _, _| 0.5));
        for (id, number, at) in [(2, 0, 0.0), (3, 1, 2.5), (4, 1, 20.0)] {
            group.force_request(id, &[1], number);
            group.begin(id, at);
        }
        group.run_until_quiet();
        assert_eq!(group.winners(), [2]);
        for late in ["1 NAK 3", "1 NAK 4"] {
            assert_eq!(group.log.contains(late), told, "{tables:?} {late}\n{}", group.log);
        }
        assert_eq!(group.longest().is_some(), told, "nobody is left waiting");
    }
}
